//! No secret value reaches the log or the result (runner.md §11).

use std::fs;

use serde_json::json;

use super::world::{Finished, World};

const PLANTED: &str = "planted-secret-value";

fn shows_nothing(run: &Finished) {
    let result = run.result.to_string();
    for (place, text) in [
        ("result", &result),
        ("stdout", &run.stdout),
        ("stderr", &run.stderr),
    ] {
        assert!(!text.contains(PLANTED), "{place} shows it: {text}");
        assert!(
            !text.contains("planted-line-of-it"),
            "{place} shows a line of it: {text}"
        );
    }
}

/// A module that prints its sensitive variable with a failing command.
fn leaking() -> World {
    let world = World::terraform();
    for entry in fs::read_dir(world.path("module")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let module = r#"
variable "password" { type = string }
resource "terraform_data" "leak" {
  input = nonsensitive(var.password)
  provisioner "local-exec" { command = "echo '${self.input}' >&2; echo '${self.input}'; exit 3" }
}
"#;
    fs::write(world.path("module/main.tf"), module).unwrap();
    let main = json!({
        "terraform": {"backend": {"local": {}}},
        "variable": {"password": {"sensitive": true}},
        "module": {"role": {"source": "../../module", "password": "${var.password}"}},
    });
    let values = json!({"password": format!("{PLANTED}\nplanted-line-of-it")});
    world.write_inputs(&main.to_string(), &values.to_string());
    world
}

#[test]
fn a_failing_command_that_prints_a_sensitive_variable() {
    for flags in [
        &["--op=apply"][..],
        &["--op=apply", "--guard-deletes"],
        &["--op=apply", "--logging-format=json"],
    ] {
        let run = leaking().run(flags);
        run.failed("step", Some("apply"));
        assert!(run.tail().contains("(sensitive)"), "{}", run.tail());
        shows_nothing(&run);
    }
}

#[test]
fn a_runtime_that_prints_its_environment_and_inputs() {
    let world = World::script(
        r#"echo "out $API_TOKEN"; echo "Error: $API_TOKEN" >&2; cat terraform.tfvars.json; exit 1"#,
    );
    let main = json!({"variable": {"password": {"sensitive": true}}});
    world.write_inputs(
        &main.to_string(),
        &json!({"password": "planted-line-of-it"}).to_string(),
    );
    let mut command = world.command(&["--op=apply"]);
    command.env("API_TOKEN", PLANTED);
    let run = world.run_command(command);
    run.failed("step", Some("init"));
    assert_eq!(run.tail(), "Error: (sensitive)");
    assert!(run.stdout.contains("out (sensitive)"), "{}", run.stdout);
    shows_nothing(&run);
}

#[test]
fn values_that_the_plan_marks_are_hidden_from_then_on() {
    let plan = json!({"resource_changes": [{"address": "r", "change": {
        "actions": ["create"], "after": {"x": PLANTED}, "after_sensitive": {"x": true}}}]});
    let world = World::script(&format!(
        r#"case "$1" in
plan) exit 2;;
show) echo '{plan}';;
apply) echo 'Error: {PLANTED}' >&2; exit 1;;
esac; exit 0"#
    ));
    let run = world.run(&["--op=apply", "--guard-deletes"]);
    run.failed("step", Some("apply"));
    assert_eq!(run.tail(), "Error: (sensitive)");
    shows_nothing(&run);
}

#[test]
fn inputs_that_cannot_be_searched_for_secrets_run_nothing() {
    let world = World::script("exit 0");
    let (open, close) = ("[".repeat(200), "]".repeat(200));
    let main = json!({"variable": {"password": {"sensitive": true}}});
    world.write_inputs(
        &main.to_string(),
        &format!(r#"{{"password": {open}"{PLANTED}"{close}}}"#),
    );
    let run = world.run(&["--op=apply"]);
    run.failed("step", Some("prepare"));
    assert_eq!(run.steps(), []);
    assert!(!world.path("calls").exists(), "the runtime was called");
    shows_nothing(&run);
}
