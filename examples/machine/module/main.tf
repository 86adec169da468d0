variable "captf_contract" { type = string }
variable "captf_cluster" { type = object({ name = string, namespace = string }) }
variable "captf_object" { type = object({ kind = string, name = string, namespace = string }) }
variable "captf_tags" { type = map(string) }
variable "captf_cluster_outputs" { type = any }
variable "machine_name" { type = string }
variable "bootstrap_data" {
  type      = string
  sensitive = true
}
variable "bootstrap_format" { type = string }
variable "failure_domain" {
  type    = string
  default = null
}
variable "kubernetes_version" {
  type    = string
  default = null
}
variable "control_plane" { type = bool }

variable "omit_provider_id" {
  type    = bool
  default = false
}
resource "terraform_data" "instance" {
  input = {
    name      = var.machine_name
    tags      = var.captf_tags
    user_data = base64decode(var.bootstrap_data)
    backend   = try(var.captf_cluster_outputs.backend_id, null)
    drift     = var.knob.drift ? plantimestamp() : ""
    pad       = local.pad
  }
  triggers_replace = var.knob.replace
  lifecycle {
    precondition {
      condition     = var.knob.fail != "plan"
      error_message = "knob fail=plan"
    }
  }
}
locals {
  gone = fileexists("${var.knob_dir}/NOOP_GONE")
}
output "provider_id" { value = var.omit_provider_id || local.gone ? null : "noop:///${var.captf_object.namespace}/${var.machine_name}" }
output "addresses" { value = [{ type = "Hostname", address = var.machine_name }, { type = "InternalIP", address = "10.0.0.1" }] }
output "failure_domain" { value = var.failure_domain }
output "interruptible" { value = false }
output "health" { value = { state = local.health_now, healthy = var.knob.healthy, message = null, reasons = [] } }
