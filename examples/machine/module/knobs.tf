variable "knob" {
  type = object({
    fail          = optional(string, "")
    sleep         = optional(number, 0)
    destroy_fail  = optional(bool, false)
    destroy_sleep = optional(number, 0)
    drift         = optional(bool, false)
    replace       = optional(string, "")
    health        = optional(string, "running")
    healthy       = optional(bool, true)
    state_units   = optional(number, 0)
    leak          = optional(bool, false)
  })
  default = {}
}
variable "knob_dir" {
  type    = string
  default = "/var/run/captf/credentials"
}
locals {
  health_file = "${var.knob_dir}/NOOP_HEALTH"
  health_now  = fileexists(local.health_file) ? trimspace(file(local.health_file)) : var.knob.health
  pad         = join("", flatten([for i in range(var.knob.state_units) : [for j in range(64) : sha256("${i}-${j}")]]))
}
resource "terraform_data" "slow" {
  input            = var.knob.sleep
  triggers_replace = [var.knob.sleep]
  provisioner "local-exec" { command = "sleep ${self.input}" }
}
resource "terraform_data" "on_destroy" {
  input = { fail = var.knob.destroy_fail, sleep = var.knob.destroy_sleep }
  provisioner "local-exec" {
    when    = destroy
    command = "sleep ${self.input.sleep}; test ${self.input.fail} = false"
  }
}
resource "terraform_data" "fail_apply" {
  input            = "${var.knob.fail}${var.knob.leak ? "|leak" : ""}"
  triggers_replace = [var.knob.fail]
  depends_on       = [terraform_data.instance]
  provisioner "local-exec" { command = "test 'x${self.input}' = 'x' || test 'x${self.input}' = 'xplan' || exit 3" }
}
