//! The reads of variables sources.

use captf::api::VariablesSource;
use captf::inputs::{Role, Variables};
use captf::operator::secrets::variables;
use serde_json::json;

use crate::wire::{expect, play};

fn entries() -> Vec<VariablesSource> {
    serde_json::from_value(json!([
        {"configMapRef": {"name": "settings"}, "format": "JSON"},
        {"secretRef": {"name": "absent"}, "optional": true},
        {"secretRef": {"name": "keys"}}
    ]))
    .unwrap()
}

#[tokio::test]
async fn every_source_is_read_live_in_list_order() {
    let labels = json!({"captf.io/variables": "true"});
    let script = [
        expect("GET /api/v1/namespaces/team-a/configmaps/settings").answer(
            json!({"metadata": {"name": "settings", "labels": labels}, "data": {"disk_gib": "40"}}),
        ),
        expect("GET /api/v1/namespaces/team-a/secrets/absent").fail(404, "NotFound"),
        expect("GET /api/v1/namespaces/team-a/secrets/keys").answer(
            json!({"metadata": {"name": "keys", "labels": labels}, "data": {"db_password": "czNjcmV0"}}),
        ),
    ];
    let sources = play(script, async |access| {
        variables::read(access, "team-a", &entries()).await
    })
    .await
    .unwrap();
    let merged = Variables::merge(Role::Cluster, &sources, None).unwrap();
    let names: Vec<&str> = merged.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["db_password", "disk_gib"]);
    assert_eq!(merged.sensitive().collect::<Vec<_>>(), ["db_password"]);
}

#[tokio::test]
async fn a_read_that_fails_is_an_error_and_no_missing_source() {
    let script =
        [expect("GET /api/v1/namespaces/team-a/configmaps/settings").fail(500, "InternalError")];
    let read = play(script, async |access| {
        variables::read(access, "team-a", &entries()).await
    });
    assert!(read.await.is_err());
}
