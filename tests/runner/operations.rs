//! Every operation with the real runtime and a local state (noop-modules.md §2.6).

use std::fs;
use std::io::Write;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use captf::client::Clock;

use super::world::World;

fn steps(names: &[(&str, i64)]) -> Vec<(String, i64)> {
    names
        .iter()
        .map(|(name, exit)| ((*name).to_owned(), *exit))
        .collect()
}

fn serial(world: &World) -> i64 {
    let state: Value = serde_json::from_str(&world.read("state.tfstate")).unwrap();
    state["serial"].as_i64().unwrap()
}

/// Returns in another second of the clock than it was called in: the drift knob is the time of the plan in whole
/// seconds (noop-modules.md §2.1).
fn a_later_second() {
    let clock = Clock::system();
    let second = || clock.now().as_second();
    let before = second();
    while second() <= before {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_apply_creates_and_reports() {
    let world = World::terraform();
    let run = world.run(&["--op=apply"]);
    run.succeeded();
    assert_eq!(
        run.steps(),
        steps(&[("init", 0), ("validate", 0), ("apply", 0)])
    );
    let result = &run.result;
    assert_eq!(
        (&result["version"], &result["op"]),
        (&json!(1), &json!("apply"))
    );
    assert_eq!(
        result["image"],
        json!({"ref": "registry.example/module:v1", "providersMirror": false})
    );
    assert!(
        !result["runtime"]["version"].as_str().unwrap().is_empty(),
        "{result}"
    );
    assert_eq!(
        result["changes"],
        json!({"add": 4, "change": 0, "destroy": 0})
    );
    assert_eq!((&result["drift"], result.get("plan")), (&Value::Null, None));
    assert!(
        run.stdout.contains("Apply complete! Resources: 4 added"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_guarded_apply_without_a_change_applies_nothing() {
    let world = World::terraform();
    world.run(&["--op=apply", "--guard-deletes"]).succeeded();
    let before = serial(&world);
    let again = world.run(&["--op=apply", "--guard-deletes"]);
    again.succeeded();
    assert_eq!(
        again.steps(),
        steps(&[("init", 0), ("validate", 0), ("plan", 0)])
    );
    assert_eq!(
        again.result["changes"],
        json!({"add": 0, "change": 0, "destroy": 0})
    );
    assert_eq!(serial(&world), before);
}

#[test]
fn the_guard_blocks_a_replacement_until_its_plan_is_approved() {
    let world = World::terraform();
    let created = world.run(&["--op=apply", "--guard-deletes"]);
    created.succeeded();
    assert_eq!(
        created.steps(),
        steps(&[
            ("init", 0),
            ("validate", 0),
            ("plan", 2),
            ("show-json", 0),
            ("apply", 0)
        ])
    );
    let before = serial(&world);
    world.inputs(&json!({"knob": {"replace": "now"}}));

    let blocked = world.run(&["--op=apply", "--guard-deletes", "--inputs-hash=h2:1"]);
    blocked.failed("blocked", None);
    assert!(
        blocked
            .tail()
            .contains("module.role.terraform_data.lb (replace)"),
        "{}",
        blocked.tail()
    );
    assert_eq!(serial(&world), before, "nothing was applied");
    let plan = &blocked.result["plan"];
    assert_eq!(plan["replace"], 1);
    assert!(
        plan["resources"]
            .as_array()
            .unwrap()
            .contains(&json!("module.role.terraform_data.lb (replace)")),
        "{plan}"
    );

    let other = world.run(&["--op=apply", "--guard-deletes", "--expect-plan=p2:00"]);
    other.failed("plan-changed", None);
    assert_eq!(
        &other.result["plan"], plan,
        "the same plan has the same fingerprint"
    );
    assert_eq!(serial(&world), before);

    let hash = plan["hash"].as_str().unwrap();
    let approved = world.run(&[
        "--op=apply",
        "--guard-deletes",
        &format!("--expect-plan={hash}"),
    ]);
    approved.succeeded();
    assert_eq!(approved.result["changes"]["destroy"], 1);
}

#[test]
fn approved_inputs_may_delete() {
    let world = World::terraform();
    world.run(&["--op=apply", "--guard-deletes"]).succeeded();
    world.inputs(&json!({"knob": {"replace": "now"}}));
    let flags = [
        "--op=apply",
        "--guard-deletes",
        "--inputs-hash=h2:1",
        "--allow-deletes-hash=h2:1",
    ];
    world.run(&flags).succeeded();
}

#[test]
fn a_plan_reports_and_changes_nothing() {
    let world = World::terraform();
    let run = world.run(&["--op=plan"]);
    run.succeeded();
    assert_eq!(
        run.steps(),
        steps(&[("init", 0), ("validate", 0), ("plan", 2), ("show-json", 0)])
    );
    let plan = &run.result["plan"];
    assert_eq!(
        (&plan["create"], &plan["outputChanges"]),
        (&json!(4), &json!(4))
    );
    assert!(plan["hash"].as_str().unwrap().starts_with("p2:"));
    assert_eq!(world.read("state.tfstate"), "");
}

#[test]
fn a_failing_precondition_is_told_with_its_resource() {
    let world = World::terraform();
    world.inputs(&json!({"knob": {"fail": "plan"}}));
    let run = world.run(&["--op=apply"]);
    run.failed("step", Some("apply"));
    assert_eq!(
        run.tail(),
        "Error: Resource precondition failed: knob fail=plan"
    );
    assert_eq!(
        run.result["error"]["resources"],
        json!(["terraform_data.lb: Resource precondition failed"])
    );
    let guarded = world.run(&["--op=apply", "--guard-deletes"]);
    guarded.failed("step", Some("plan"));
    assert_eq!(guarded.tail(), "Error: Resource precondition failed");
}

#[test]
fn a_failing_apply_is_told_with_its_resource() {
    let world = World::terraform();
    world.inputs(&json!({"knob": {"fail": "apply"}}));
    let run = world.run(&["--op=apply"]);
    run.failed("step", Some("apply"));
    assert_eq!(
        run.steps(),
        steps(&[("init", 0), ("validate", 0), ("apply", 1)])
    );
    assert!(
        run.tail()
            .starts_with("Error: local-exec provisioner error: "),
        "{}",
        run.tail()
    );
    assert_eq!(
        run.result["error"]["resources"],
        json!(["module.role.terraform_data.fail_apply: local-exec provisioner error"])
    );
    assert!(
        run.stderr.contains("Error: local-exec provisioner error"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_unknown_variable_fails_in_validate() {
    let world = World::terraform();
    world.inputs(&json!({"no_such_variable": 1}));
    let run = world.run(&["--op=apply"]);
    run.failed("step", Some("validate"));
    assert!(run.tail().starts_with("Error: "), "{}", run.tail());
    assert!(run.tail().contains("no_such_variable"), "{}", run.tail());
}

#[test]
fn drift_is_found_and_refreshed_without_a_change() {
    let world = World::terraform();
    world.inputs(&json!({"knob": {"drift": true}}));
    world.run(&["--op=apply"]).succeeded();
    a_later_second();
    let drift = world.run(&["--op=drift"]);
    drift.succeeded();
    assert_eq!(
        drift.steps(),
        steps(&[
            ("init", 0),
            ("apply-refresh-only", 0),
            ("plan", 2),
            ("show-json", 0)
        ])
    );
    assert_eq!(
        drift.result["drift"],
        json!({"detected": true, "create": 0, "update": 1, "replace": 0, "delete": 0,
            "resources": ["module.role.terraform_data.lb"]})
    );
}

#[test]
fn without_drift_nothing_is_listed() {
    let world = World::terraform();
    world.run(&["--op=apply"]).succeeded();
    let refresh = world.run(&["--op=refresh"]);
    refresh.succeeded();
    assert_eq!(
        refresh.steps(),
        steps(&[("init", 0), ("apply-refresh-only", 0)])
    );
    let drift = world.run(&["--op=drift"]);
    drift.succeeded();
    assert_eq!(
        drift.result["drift"],
        json!({"detected": false, "create": 0, "update": 0, "replace": 0, "delete": 0, "resources": []})
    );
}

#[test]
fn a_destroy_counts_what_it_destroyed() {
    let world = World::terraform();
    world.run(&["--op=apply"]).succeeded();
    let run = world.run(&["--op=destroy"]);
    run.succeeded();
    assert_eq!(run.steps(), steps(&[("init", 0), ("destroy", 0)]));
    assert_eq!(
        run.result["changes"],
        json!({"add": 0, "change": 0, "destroy": 4})
    );
}

#[test]
fn a_restore_pushes_the_backup() {
    let world = World::terraform();
    world.run(&["--op=apply"]).succeeded();
    let backup = world.read("state.tfstate");
    fs::remove_file(world.path("state.tfstate")).unwrap();

    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(backup.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    let (first, second) = compressed.split_at(compressed.len() / 2);
    fs::create_dir(world.path("config/restore")).unwrap();
    fs::write(world.path("config/restore/0"), first).unwrap();
    fs::write(world.path("config/restore/1"), second).unwrap();
    world.write_inputs(r#"{"terraform": {"backend": {"local": {}}}}"#, "{}");

    let run = world.run(&[
        "--op=restore",
        "--restore-chunks=2",
        "--restore-resources=4",
    ]);
    run.succeeded();
    assert_eq!(
        run.steps(),
        steps(&[("init", 0), ("state-push", 0), ("state-list", 0)])
    );
    let state = |text: &str| serde_json::from_str::<Value>(text).unwrap()["resources"].clone();
    assert_eq!(state(&world.read("state.tfstate")), state(&backup));

    let empty = World::terraform();
    let missing = empty.run(&["--op=restore", "--restore-chunks=1"]);
    missing.failed("step", Some("prepare"));
    assert_eq!(missing.steps(), []);
}
