//! Putting back the labels that Terraform finds its state by (README decision 14).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::conditions::Verdict;
use crate::client::{Access, ApiError, Class};
use crate::operator::secrets::{Owner, SecretMeta, SecretPatch, metas};
use crate::state::{LabelRepair, STATE_SECRETS_MAX, label_repairs, repair_note, secret_name};

/// What the check of a state's labels found and did.
#[derive(Debug, Clone, Default)]
pub struct LabelCheck {
    /// Note of the Warning event `StateLabelsRepaired`, when labels were put back.
    pub repaired: Option<String>,
    /// `StateReadable=False/StateInconsistent`, when a label could not be put back: no Job of any
    /// operation starts.
    pub refused: Option<Verdict>,
}

impl LabelCheck {
    /// Whether a Job may start as far as the labels go.
    #[must_use]
    pub fn may_start(&self) -> bool {
        self.refused.is_none()
    }
}

/// Checks the labels of the object's state Secrets before a Job, and puts back what is missing or
/// different. The Secrets are found by name, since one that lost a label is found by no selector; each
/// patch is guarded by the uid and resourceVersion read. Only while no Job of the object is active.
///
/// # Errors
/// When a read fails, or a Secret was written or deleted between read and patch: no Job may start in
/// this pass, and the next one reads again.
pub async fn ensure_labels(
    access: &Access,
    owner: &Owner,
    cluster: &str,
) -> Result<LabelCheck, ApiError> {
    let found = find_by_name(access, owner).await?;
    let mut done: Vec<LabelRepair> = Vec::new();
    let mut refused = None;
    for repair in label_repairs(&owner.key, cluster, &found) {
        match put_back(access, owner, &repair).await {
            Ok(()) => done.push(repair),
            Err(error) if matches!(error.class(), Class::Conflict | Class::NotFound) => {
                return Err(error);
            }
            Err(error) => {
                refused = Some(repair.refused(&error.to_string()));
                break;
            }
        }
    }
    Ok(LabelCheck {
        repaired: (!done.is_empty()).then(|| repair_note(&done)),
        refused,
    })
}

async fn put_back(access: &Access, owner: &Owner, repair: &LabelRepair) -> Result<(), ApiError> {
    let labels = repair.labels();
    let patch = labels
        .iter()
        .fold(SecretPatch::new(), |patch, (key, value)| {
            patch.label(key, value)
        });
    let api = metas(access, owner.namespace());
    let body = patch.body(&repair.secret);
    access
        .patch::<SecretMeta>(&api, secret_name(&repair.secret), &body)
        .await
        .map(|_| ())
}

/// The base Secret and its chunks in order, up to the first name that does not exist; a chunk behind a
/// gap makes the state inconsistent, which holds it anyway.
async fn find_by_name(access: &Access, owner: &Owner) -> Result<Vec<ObjectMeta>, ApiError> {
    let (api, suffix) = (metas(access, owner.namespace()), owner.key.suffix());
    let mut found = Vec::new();
    while found.len() < STATE_SECRETS_MAX {
        let name = suffix.state_secret(found.len());
        let Some(secret) = access.get::<SecretMeta>(&api, &name).await? else {
            break;
        };
        found.push(secret.metadata);
    }
    Ok(found)
}
