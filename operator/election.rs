//! The leader election: one manager acts at a time (seed: Leader Election; failover.md §1).
//!
//! No clocks are compared. A candidate remembers when it first saw the Lease as it is now, and takes it
//! over once it has not changed for its whole duration. A leader counts from when its last successful
//! request was sent, and has lost once the renew deadline has passed since then, or as soon as it reads
//! another holder. Losing ends the process; nothing here goes on as a non-leader.

mod random;
mod record;
mod term;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::settings::Election;
use crate::client::{Access, ApiError, Clock};
use record::{Claimant, Seen};
pub use term::{Term, TermOver, fenced};

/// Name of the Lease, whatever the flags: two managers of one namespace always compete (manager.md §3).
pub const LEASE: &str = "controller-leader-election-captf";

/// Where a pod finds its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Namespace of the shipped manifests.
const SHIPPED_NAMESPACE: &str = "captf-system";

/// The namespace of the election Lease: the manager's own, from `POD_NAMESPACE`, else from the pod's
/// ServiceAccount; outside a cluster the one of the shipped manifests, with a warning, so that two
/// managers there still share one lock (failover.md §1).
#[must_use]
pub fn namespace(pod_namespace: Option<&str>) -> String {
    if let Some(namespace) = pod_namespace {
        return namespace.to_owned();
    }
    let mounted = std::fs::read_to_string(NAMESPACE_FILE).unwrap_or_default();
    if !mounted.trim().is_empty() {
        return mounted.trim().to_owned();
    }
    tracing::warn!(
        namespace = SHIPPED_NAMESPACE,
        "neither POD_NAMESPACE nor a ServiceAccount names the manager's namespace; the election Lease is taken here"
    );
    SHIPPED_NAMESPACE.to_owned()
}

/// One candidate. It has a client of its own, so that a stuck pass cannot keep it from renewing.
pub struct Elector {
    access: Access,
    api: Api<Lease>,
    times: Election,
    claimant: Claimant,
    term: Term,
}

impl Elector {
    /// A candidate for the Lease in `namespace` that has a name of its own. A request may take half the
    /// renew deadline, at least a second, so that a lost one leaves time for another.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str, times: Election) -> Self {
        let identity = format!(
            "{}_{}",
            rustix::system::uname().nodename().to_string_lossy(),
            random::uuid()
        );
        Self::named(client, namespace, times, identity)
    }

    fn named(client: kube::Client, namespace: &str, times: Election, identity: String) -> Self {
        let limit = (times.renew_deadline / 2).max(std::time::Duration::from_secs(1));
        // The times in the Lease are for people: nobody compares them.
        let access = Access::new(client, Clock::system(), limit);
        let api = access.api::<Lease>(namespace);
        let claimant = Claimant {
            identity,
            lease_duration: times.lease_duration,
        };
        Self {
            access,
            api,
            times,
            claimant,
            term: Term::not_begun(),
        }
    }

    /// `<hostname>_<uuid>`, unique per process.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.claimant.identity
    }

    /// The term this candidate will have, to build the client of passes with before it leads.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Waits until this candidate leads, and renews from then on in the background.
    pub async fn lead(self) -> Leadership {
        let mut seen = Seen::default();
        let mut leader = String::new();
        loop {
            let sent = Instant::now();
            match self.attempt(&mut seen).await {
                Ok(Attempt::Held) => {
                    self.term.extend(sent + self.times.renew_deadline);
                    tracing::info!(identity = self.identity(), "this manager leads");
                    return self.keep(seen, sent);
                }
                Ok(Attempt::Foreign(holder)) if holder != leader => {
                    tracing::info!(leader = %holder, "another manager leads");
                    leader = holder;
                }
                Ok(Attempt::Foreign(_)) => {}
                // Another candidate wrote first: the next attempt reads what it wrote.
                Err(error) if error.is_conflict() => {
                    tracing::debug!(error = %error, "the Lease was written by another")
                }
                Err(error) => {
                    tracing::warn!(error = %error, "an attempt to lead failed and is repeated")
                }
            }
            sleep(
                self.times
                    .retry_period
                    .mul_f64(1.0 + 1.2 * random::fraction()),
            )
            .await;
        }
    }

    fn keep(self, seen: Seen, good: Instant) -> Leadership {
        let (tell, lost) = watch::channel(None);
        let elector = Arc::new(self);
        let renewing = tokio::spawn({
            let elector = Arc::clone(&elector);
            async move {
                let why = elector.renew(seen, good).await;
                elector.term.end();
                tell.send_replace(Some(why));
            }
        });
        Leadership {
            held: Some(Held {
                elector,
                lost,
                renewing,
            }),
        }
    }

    /// Renews until the leadership is lost, and says why it was.
    async fn renew(&self, mut seen: Seen, mut good: Instant) -> String {
        let Election {
            renew_deadline,
            retry_period,
            ..
        } = self.times;
        let late = format!("the Lease {LEASE} could not be renewed for {renew_deadline:?}");
        loop {
            sleep(retry_period).await;
            let sent = Instant::now();
            // Before any request: a process that was stopped for longer must not act once more.
            if sent >= good + renew_deadline {
                return late;
            }
            match timeout_at(good + renew_deadline, self.attempt(&mut seen)).await {
                Err(_) => return late,
                Ok(Ok(Attempt::Held)) => {
                    good = sent;
                    self.term.extend(good + renew_deadline);
                }
                Ok(Ok(Attempt::Foreign(holder))) => {
                    return format!("{holder} holds the Lease {LEASE}");
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = %error, "the Lease could not be renewed and is tried again")
                }
            }
        }
    }

    /// Reads the Lease and writes it when it is ours or may be taken. One try.
    async fn attempt(&self, seen: &mut Seen) -> Result<Attempt, ApiError> {
        let now = self.access.now();
        let Some(lease) = self.access.get(&self.api, LEASE).await? else {
            let made = self
                .access
                .create(&self.api, &self.claimant.first(LEASE, now))
                .await?;
            seen.observe(&made);
            return Ok(Attempt::Held);
        };
        seen.observe(&lease);
        let next = if self.claimant.holds(&lease) {
            self.claimant.renewed(lease, now)
        } else if seen.may_be_taken(&lease, self.times.lease_duration) {
            self.claimant.taken_over(lease, now)
        } else {
            return Ok(Attempt::Foreign(record::holder(&lease).to_owned()));
        };
        seen.observe(&self.access.update(&self.api, &next).await?);
        Ok(Attempt::Held)
    }

    /// Empties the Lease if it is still ours.
    async fn release(&self) -> Result<(), ApiError> {
        match self.access.get(&self.api, LEASE).await? {
            Some(lease) if self.claimant.holds(&lease) => {
                let released = self.claimant.released(lease, self.access.now());
                self.access.update(&self.api, &released).await.map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// What one attempt found or did.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// The Lease is ours, written just now.
    Held,
    /// Another one holds it, or may still.
    Foreign(String),
}

/// That this process leads.
pub struct Leadership {
    held: Option<Held>,
}

struct Held {
    elector: Arc<Elector>,
    lost: watch::Receiver<Option<String>>,
    renewing: JoinHandle<()>,
}

impl Leadership {
    /// Without an election the process leads at once and for good, and takes no Lease.
    #[must_use]
    pub fn unchallenged() -> Self {
        Self { held: None }
    }

    /// Waits until the leadership is lost, and says why. The process must end then, at once.
    pub async fn lost(&self) -> String {
        let Some(held) = &self.held else {
            return pending().await;
        };
        let mut lost = held.lost.clone();
        let why = lost
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|why| why.clone());
        why.unwrap_or_else(|| format!("the task that renews the Lease {LEASE} ended"))
    }

    /// With `--leader-elect-release-on-exit` gives the Lease back. Only to be called when no pass runs any
    /// more, and directly before the process ends: after this another manager acts at once.
    pub async fn release_if_asked(self) {
        let Some(Held {
            elector, renewing, ..
        }) = self.held
        else {
            return;
        };
        renewing.abort();
        // Ended before the release is sent, so that no late renewal takes the Lease again.
        let _ = renewing.await;
        elector.term.end();
        if !elector.times.release_on_exit {
            return;
        }
        match elector.release().await {
            Ok(()) => tracing::info!("the Lease is released"),
            Err(error) => {
                tracing::warn!(error = %error, "the Lease could not be released; it expires")
            }
        }
    }
}
