//! Putting back the labels that Terraform finds its state by (README decision 14).

use kube::core::PartialObjectMeta;

use crate::client::{Access, ApiError, Class};
use crate::operator::secrets::{self, Owner, metas};
use crate::state::{LabelRepair, STATE_SECRETS_MAX, SecretMeta, label_repairs, repair_note};

/// What the check of a state's labels found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelCheck {
    /// Note of the Warning event `StateLabelsRepaired`, when labels were put back.
    pub repaired: Option<String>,
    /// Message of `StateReadable=False/StateInconsistent`, when one could not be put back: no Job of any
    /// operation starts.
    pub refused: Option<String>,
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
        let api = metas(access, owner.namespace());
        match access
            .patch::<secrets::PartialSecret>(&api, &repair.secret, &repair.patch)
            .await
        {
            Ok(_) => done.push(repair),
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

/// The base Secret and its chunks in order, up to the first name that does not exist; a chunk behind a
/// gap makes the state inconsistent, which holds it anyway.
async fn find_by_name(access: &Access, owner: &Owner) -> Result<Vec<SecretMeta>, ApiError> {
    let (api, suffix) = (metas(access, owner.namespace()), owner.key.suffix());
    let mut found = Vec::new();
    while found.len() < STATE_SECRETS_MAX {
        let name = suffix.state_secret(found.len());
        let Some(PartialObjectMeta { metadata, .. }) =
            access.get::<secrets::PartialSecret>(&api, &name).await?
        else {
            break;
        };
        found.push(metadata.into());
    }
    Ok(found)
}
