//! What real runtimes do rarely: a script in their place.

use std::fs;

use serde_json::json;

use super::world::World;

/// A script that fails in one command.
fn failing(command: &str, body: &str) -> World {
    World::script(&format!("[ \"$1\" = {command} ] || exit 0\n{body}"))
}

#[test]
fn steps_run_with_the_specified_arguments() {
    let world = World::script("exit 0");
    world
        .run(&["--op=apply", "--lock-timeout=300s", "--force-unlock=5c6e"])
        .succeeded();
    let calls = world.read("calls");
    let calls: Vec<&str> = calls.lines().collect();
    let state = world.path("state.tfstate");
    assert_eq!(
        calls,
        [
            &format!(
                "init -input=false -no-color -lock-timeout=300s -backend-config=path={}",
                state.display()
            ),
            "force-unlock -force 5c6e",
            "validate -json -no-color",
            "apply -input=false -no-color -lock-timeout=300s -json -auto-approve -var-file=terraform.tfvars.json",
        ]
    );
}

#[test]
fn a_lock_that_is_gone_does_not_stop_the_run() {
    for message in [
        "state is already unlocked",
        "lock id \"x\" does not match existing lock",
    ] {
        let world = failing(
            "force-unlock",
            &format!("echo 'Failed to unlock state: {message}' >&2; exit 1"),
        );
        let run = world.run(&["--op=apply", "--force-unlock=x"]);
        run.succeeded();
        assert_eq!(run.steps()[1], ("force-unlock".to_owned(), 1));
    }
    let world = failing(
        "force-unlock",
        "echo 'Failed to unlock state: forbidden' >&2; exit 1",
    );
    let run = world.run(&["--op=apply", "--force-unlock=x"]);
    run.failed("step", Some("force-unlock"));
    assert_eq!(run.tail(), "Failed to unlock state: forbidden");
}

#[test]
fn the_result_fits_whatever_the_runtime_says() {
    let diagnostic = r#"{"@message":"x","type":"diagnostic","diagnostic":{"severity":"error","summary":"<<<<","detail":"","address":"r"}}"#;
    let body = format!(
        r#"i=0; while [ $i -lt 200 ]; do printf '%s\n' '{diagnostic}' | sed "s/<<<</$i$(printf '<%.0s' $(seq 900))/;s/\"r\"/\"r$i\"/"; i=$((i+1)); done; exit 1"#
    );
    let run = failing("apply", &body).run(&["--op=apply"]);
    run.failed("step", Some("apply"));
    assert_eq!(run.result["version"], 1);
}

#[test]
fn the_state_that_a_failed_apply_left_is_pushed() {
    let world = World::script(
        r#"case "$1" in
apply) echo '{}' > errored.tfstate; echo 'Error: Failed to save state' >&2; exit 1;;
esac; exit 0"#,
    );
    let run = world.run(&["--op=apply"]);
    run.failed("step", Some("apply"));
    assert_eq!(run.tail(), "Error: Failed to save state");
    assert_eq!(run.steps().last().unwrap(), &("state-push".to_owned(), 0));
    let file = world.path("work/root/errored.tfstate");
    let push = format!("state push -lock-timeout=0s {}", file.display());
    assert_eq!(world.read("calls").lines().last().unwrap(), push);
}

#[test]
fn a_failed_push_keeps_the_first_error() {
    let world = World::script(
        r#"case "$1" in
apply) echo '{}' > errored.tfstate; echo 'Error: first' >&2; exit 1;;
state) echo 'Failed to write state' >&2; exit 1;;
esac; exit 0"#,
    );
    let run = world.run(&["--op=apply"]);
    run.failed("step", Some("apply"));
    assert_eq!(run.tail(), "Error: first");
    assert_eq!(run.steps().last().unwrap(), &("state-push".to_owned(), 1));
}

#[test]
fn a_plan_that_cannot_be_read_is_not_applied() {
    let world = World::script(
        r#"case "$1" in
plan) exit 2;;
show) echo 'not a plan';;
esac; exit 0"#,
    );
    world
        .run(&["--op=apply", "--guard-deletes"])
        .failed("step", Some("show-json"));
    assert!(
        !world.read("calls").contains("apply "),
        "{}",
        world.read("calls")
    );
}

#[test]
fn exit_codes_of_the_runtime_stay_in_the_result() {
    let run = failing("validate", "exit 7").run(&["--op=apply"]);
    run.failed("step", Some("validate"));
    assert_eq!(run.tail(), "step validate failed with exit code 7");
    assert_eq!(run.steps().last().unwrap(), &("validate".to_owned(), 7));
}

#[test]
fn a_runtime_killed_by_a_signal_is_a_failed_step() {
    let run = failing("apply", "kill -KILL $$").run(&["--op=apply"]);
    run.failed("step", Some("apply"));
    assert_eq!(run.steps().last().unwrap(), &("apply".to_owned(), 1));
    assert!(run.tail().contains("signal 9"), "{}", run.tail());
}

#[test]
fn a_runtime_that_does_not_tell_its_version_has_none() {
    let world = World::script("exit 0");
    let runtime = world.path("runtime");
    let script = fs::read_to_string(&runtime)
        .unwrap()
        .replace("terraform_version", "else");
    fs::write(runtime, script).unwrap();
    let run = world.run(&["--op=apply"]);
    run.succeeded();
    assert_eq!(run.result["runtime"]["version"], "");
}

#[test]
fn the_runtime_is_shielded_from_the_containers_environment() {
    let world = World::script(
        r#"[ "$1" = init ] && env | cut -d= -f1 | sort >"${CALLS%calls}environment"; exit 0"#,
    );
    let mut command = world.command(&["--op=apply"]);
    command.envs([
        ("TF_LOG", "trace"),
        ("KUBE_CONFIG_PATH", "/x"),
        ("KUBERNETES_PORT", "1"),
        ("HOME", "/root"),
    ]);
    let run = world.run_command(command);
    run.succeeded();
    let environment = world.read("environment");
    let names: Vec<&str> = environment
        .lines()
        .filter(|name| !["PWD", "_", "OLDPWD", "SHLVL"].contains(name))
        .collect();
    assert_eq!(
        names,
        [
            "CHECKPOINT_DISABLE",
            "HOME",
            "KUBERNETES_PORT",
            "PATH",
            "TF_DATA_DIR",
            "TF_INPUT",
            "TF_IN_AUTOMATION",
            "TMPDIR",
        ]
    );
    assert!(
        run.stderr.contains("KUBE_CONFIG_PATH, TF_LOG"),
        "{}",
        run.stderr
    );
}

#[test]
fn with_a_mirror_providers_come_from_it_alone() {
    let world = World::script(r#"[ "$1" = init ] && cat "$TF_CLI_CONFIG_FILE"; exit 0"#);
    fs::create_dir(world.path("providers")).unwrap();
    let run = world.run(&["--op=apply"]);
    run.succeeded();
    assert_eq!(run.result["image"]["providersMirror"], json!(true));
    assert!(run.stdout.contains("filesystem_mirror"), "{}", run.stdout);
}
