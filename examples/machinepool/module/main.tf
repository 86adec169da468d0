variable "captf_contract" { type = string }
variable "captf_cluster" { type = object({ name = string, namespace = string }) }
variable "captf_object" { type = object({ kind = string, name = string, namespace = string }) }
variable "captf_tags" { type = map(string) }
variable "captf_cluster_outputs" { type = any }
variable "machinepool_name" { type = string }
variable "replicas" { type = number }
variable "bootstrap_data" {
  type      = string
  sensitive = true
}
variable "bootstrap_format" { type = string }
variable "failure_domains" { type = list(string) }
variable "cluster_failure_domains" { type = list(string) }
variable "kubernetes_version" {
  type    = string
  default = null
}
variable "node_labels" { type = map(string) }
variable "autoscaling" { type = object({ enabled = bool, min = number, max = number }) }
variable "members_offset" {
  type    = number
  default = 0
}
locals {
  ids          = [for i in range(max(0, local.desired + var.members_offset)) : "noop:///${var.captf_object.namespace}/${var.captf_object.name}/${i}"]
  desired_file = "${var.knob_dir}/NOOP_DESIRED"
  desired      = var.autoscaling.enabled && fileexists(local.desired_file) ? tonumber(trimspace(file(local.desired_file))) : var.replicas
}
resource "terraform_data" "group" {
  input = {
    tags       = var.captf_tags, replicas = var.autoscaling.enabled ? null : var.replicas, bootstrap_sha = sha256(var.bootstrap_data), labels = var.node_labels
    backend_id = try(var.captf_cluster_outputs.backend_id, null)
    drift      = var.knob.drift ? plantimestamp() : "", pad = local.pad
  }
  triggers_replace = [var.knob.replace, try(var.captf_cluster_outputs.replace_pools, "")]
  lifecycle {
    precondition {
      condition     = var.knob.fail != "plan"
      error_message = "knob fail=plan"
    }
  }
}
output "provider_id" { value = "noop-group:///${var.captf_object.namespace}/${var.captf_object.name}" }
output "provider_id_list" { value = sort(local.ids) }
output "replicas" { value = local.desired }
output "instances" { value = [for id in sort(local.ids) : { provider_id = id, state = "running" }] }
output "health" { value = { state = local.health_now, healthy = var.knob.healthy, message = null, reasons = [] } }
