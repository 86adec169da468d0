//! Says once that this machine's clock is far from the API server's (leases.md §12).
//!
//! Lease times are corrected by the measured offset, so nothing is wrong yet; but logs, certificates and
//! whoever reads them are not corrected.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::sleep;

use super::events::Events;
use crate::client::Clock;
use crate::events::EventData;

/// An offset beyond this many seconds is worth a person's attention.
const WORTH_SAYING: f64 = 30.0;

/// How often the measurement is looked at.
const INTERVAL: Duration = Duration::from_secs(30);

/// Waits until the clock is off by more than 30 s, and says so once: in the log, and in an Event about
/// the manager's pod, which outside a cluster is unknown.
pub async fn watch(clock: Clock, events: Events, pod: Option<Pod>) {
    let offset = loop {
        match clock
            .measured_offset()
            .filter(|offset| offset.abs() > WORTH_SAYING)
        {
            Some(offset) => break offset,
            None => sleep(INTERVAL).await,
        }
    };
    let note = note(offset);
    tracing::warn!("{note}");
    if let Some(pod) = pod {
        events.publish(&pod, EventData::warning("ClockSkewDetected", note));
    }
}

fn note(offset: f64) -> String {
    let direction = if offset > 0.0 { "behind" } else { "ahead of" };
    format!(
        "the clock of this manager's machine is {:.0} s {direction} the API server's; lease times are corrected by that, \
         but synchronize the machine's clock",
        offset.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::note;

    #[test]
    fn the_note_says_how_far_and_which_way() {
        assert!(note(45.2).contains("is 45 s behind the API server's"));
        assert!(note(-90.0).contains("is 90 s ahead of the API server's"));
    }
}
