//! Terraform's state as it lies in Secrets: reading it, keeping it visible to Terraform, adopting it,
//! and judging its lock. All reads are live; state Secrets are written only while no Job of the object
//! is active, since the backend's own update would meet the write (state-secrets.md S-25).

mod adopt;
mod cache;
mod labels;
mod lock;
mod reader;

use crate::client::{Access, ApiError};
use crate::names::Labels;
use crate::operator::secrets::Owner;

pub use adopt::{Guarding, adopt, repair, wants_repair};
pub use labels::{LabelCheck, ensure_labels};
pub use lock::{JudgedLock, SeenEnded, delete_stale_lock, judge_lock};
pub use reader::{StateRead, StateReader};

/// A label set as the text of a selector.
#[must_use]
pub fn selector_text(labels: &Labels) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

/// An object's own state, and what was found about its labels on the way.
#[derive(Debug)]
pub struct Observed {
    /// The state.
    pub read: StateRead,
    /// Set when the selector found no whole state: whether Secrets of it lie there under their names.
    pub labels: LabelCheck,
}

/// Reads the state of `owner`. Where the selector finds none, or chunks that make no whole, it is looked
/// for by name too: a Secret that lost its labels would read as "no state", and the next Job would
/// overwrite it. Its labels are put back, and the state is read again (README decision 14).
///
/// # Errors
/// When a read fails or a repair lost a race.
pub async fn observe(
    access: &Access,
    reader: &StateReader,
    owner: &Owner,
    cluster: &str,
) -> Result<Observed, ApiError> {
    let suffix = owner.key.suffix();
    let read = reader.read(access, owner.namespace(), &suffix).await?;
    if !may_lack_labels(&read) {
        return Ok(Observed {
            read,
            labels: LabelCheck::default(),
        });
    }
    let labels = ensure_labels(access, owner, cluster).await?;
    let read = match labels.repaired {
        Some(_) => reader.read(access, owner.namespace(), &suffix).await?,
        None => read,
    };
    Ok(Observed { read, labels })
}

/// Whether Secrets without their labels may be why a state reads as it does: none at all, or some of
/// several chunks.
fn may_lack_labels(read: &StateRead) -> bool {
    match read {
        StateRead::None => true,
        StateRead::State(_) => false,
        StateRead::Unreadable(problem) => problem.may_lack_chunks(),
    }
}
