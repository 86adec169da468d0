//! Refusals, and what is no operation (runner.md §1, §3, §9).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::world::World;

fn runner(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-captf"))
        .arg("runner")
        .args(arguments)
        .output()
        .unwrap()
}

/// The result that wrong arguments leave.
fn refused(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result");
    let result = format!("--result={}", path.display());
    let output = runner(&[arguments, &[&result]].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn wrong_flags_leave_a_result() {
    for (arguments, part) in [
        (&["run"][..], "--op"),
        (&["run", "--op=apply", "extra"], "extra"),
        (&["run", "--op=apply", "--nonsense"], "--nonsense"),
        (&["run", "--op=apply", "--logging-format=yaml"], "yaml"),
        (
            &["run", "--op=apply", "--stop-timeout=soon"],
            "--stop-timeout",
        ),
        (&["run", "--op=apply", "--event-object=x"], "--event-object"),
    ] {
        let result = refused(arguments);
        assert_eq!(
            (&result["version"], &result["op"], &result["steps"]),
            (&json!(1), &json!(""), &json!([]))
        );
        let error = &result["error"];
        assert_eq!(
            (&error["kind"], &error["step"]),
            (&json!("step"), &json!("flags"))
        );
        assert!(error["tail"].as_str().unwrap().contains(part), "{error}");
    }
}

#[test]
fn an_unknown_operation_has_a_step_of_its_own() {
    let result = refused(&["run", "--op=explode", "--image=i"]);
    assert_eq!(
        (&result["op"], &result["image"]["ref"]),
        (&json!("explode"), &json!("i"))
    );
    assert_eq!(
        (&result["error"]["kind"], &result["error"]["step"]),
        (&json!("step"), &json!("plan"))
    );
}

#[test]
fn without_a_command_usage_is_shown() {
    for arguments in [&[][..], &["dance"], &["copy"], &["copy", "a", "b"]] {
        let output = runner(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("Usage: runner"),
            "{output:?}"
        );
    }
}

#[test]
fn the_version_is_printed() {
    let text = |arguments: &[&str]| {
        let output = runner(arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(text(&["--version"]), format!("runner v{version}\n"));
    assert_eq!(text(&["--version=v9.9.9"]), "runner v9.9.9\n");
    assert!(text(&["version"]).starts_with(&format!("runner v{version} (linux ")));
}

#[test]
fn a_copy_is_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("runner");
    let output = runner(&["copy", copy.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
        0o755
    );
    let output = Command::new(&copy).args(["--version"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = runner(&["copy", "/nowhere/runner"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/nowhere/runner"),
        "{output:?}"
    );
}

#[test]
fn an_image_without_a_module_or_runtime_executes_nothing() {
    let world = World::script("exit 0");
    fs::remove_file(world.path("module/main.tf")).unwrap();
    let run = world.run(&["--op=apply"]);
    run.failed("image-layout", None);
    assert_eq!((run.steps().len(), world.read("calls").as_str()), (0, ""));

    let world = World::script("exit 0");
    fs::set_permissions(world.path("runtime"), fs::Permissions::from_mode(0o644)).unwrap();
    let run = world.run(&["--op=apply"]);
    run.failed("image-layout", None);
    assert!(run.tail().contains("not executable"), "{}", run.tail());
}

#[test]
fn inputs_of_another_job_execute_nothing() {
    let world = World::script("exit 0");
    fs::write(world.path("config/.job-uid"), "uid-of-the-first").unwrap();
    let with_uid = |uid: &str| {
        let mut command = world.command(&["--op=apply"]);
        command.env("CAPTF_JOB_UID", uid);
        world.run_command(command)
    };
    let run = with_uid("uid-of-the-second");
    run.failed("interrupted", Some("prepare"));
    assert!(
        run.tail().contains("another Job of the same name"),
        "{}",
        run.tail()
    );
    assert_eq!((run.steps().len(), world.read("calls").as_str()), (0, ""));
    with_uid("uid-of-the-first").succeeded();
    world
        .run(&["--op=apply"])
        .failed("interrupted", Some("prepare"));
}

#[test]
fn a_run_that_fingerprints_needs_its_key_first() {
    let world = World::script("exit 0");
    fs::write(world.path("key"), [7; 31]).unwrap();
    for flags in [
        &["--op=plan"][..],
        &["--op=apply", "--guard-deletes"],
        &["--op=apply", "--expect-plan=p2:0"],
    ] {
        let run = world.run(flags);
        run.failed("step", Some("prepare"));
        assert_eq!((run.steps().len(), world.read("calls").as_str()), (0, ""));
    }
    world.run(&["--op=apply"]).succeeded();
}

#[test]
fn a_result_replaces_what_the_file_held() {
    let world = World::script("exit 0");
    fs::write(world.path("result"), "x".repeat(5000)).unwrap();
    fs::set_permissions(world.path("result"), fs::Permissions::from_mode(0o666)).unwrap();
    world.run(&["--op=apply"]).succeeded();
    assert_eq!(
        fs::metadata(world.path("result"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o666
    );
}

#[test]
fn a_result_that_cannot_be_written_fails_the_run() {
    let world = World::script("exit 0");
    let mut command = world.command(&["--op=apply", "--result=/nowhere/result"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/nowhere/result"),
        "{output:?}"
    );
}

#[test]
fn no_words_are_completed_and_an_unknown_command_is_a_usage_error() {
    for command in ["__complete", "completion", "explode"] {
        let output = runner(&[command, "--", ""]);
        assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
        assert!(output.stdout.is_empty(), "{command}: {output:?}");
    }
}
