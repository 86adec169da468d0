variable "captf_contract" { type = string }
variable "captf_cluster" { type = object({ name = string, namespace = string }) }
variable "captf_object" { type = object({ kind = string, name = string, namespace = string }) }
variable "captf_tags" { type = map(string) }
variable "control_plane_endpoint" {
  type    = object({ host = string, port = number })
  default = null
}
variable "kubernetes_version" {
  type    = string
  default = null
}
variable "control_plane_initialized" { type = bool }
variable "cluster_network" {
  type    = object({ pods = list(string), services = list(string), service_domain = string, api_server_port = number })
  default = null
}
variable "exports_extra" {
  type    = any
  default = {}
}
variable "endpoint_null" {
  type    = bool
  default = false
}
resource "terraform_data" "lb" {
  input = {
    tags        = var.captf_tags, endpoint = var.control_plane_endpoint, version = var.kubernetes_version
    initialized = var.control_plane_initialized, network = var.cluster_network
    drift       = var.knob.drift ? plantimestamp() : "", pad = local.pad
  }
  triggers_replace = var.knob.replace
  lifecycle {
    precondition {
      condition     = var.knob.fail != "plan"
      error_message = "knob fail=plan"
    }
  }
}
output "control_plane_endpoint" { value = var.endpoint_null ? null : (var.control_plane_endpoint != null ? var.control_plane_endpoint : { host = "noop-${var.captf_object.name}.invalid", port = 6443 }) }
output "failure_domains" { value = [{ name = "fd1" }, { name = "fd2", control_plane = false, attributes = { rack = "2" } }] }
output "exports" { value = merge({ backend_id = "noop-backend-${terraform_data.lb.id}" }, var.exports_extra) }
output "health" { value = { state = local.health_now, healthy = var.knob.healthy, message = null, reasons = [] } }
