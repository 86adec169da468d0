//! Being stopped: what a signal to the runner means for the runtime (runner.md §7.1).

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether the run is to stop, since when, and how long its runtime may take.
#[derive(Clone)]
pub(super) struct Stop {
    requested: watch::Receiver<Option<Instant>>,
    grace: Duration,
}

impl Stop {
    /// A stop at the first SIGTERM or SIGINT. Further signals change nothing: a second one would make the runtime give
    /// up without saving its state. Must be called inside a runtime.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub(super) fn on_signals(grace: Duration) -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, requested) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                let first = sender
                    .send_if_modified(|at| at.is_none() && at.replace(Instant::now()).is_none());
                if first {
                    tracing::info!(signal = name, grace = ?grace, "stopping: the runtime may finish what it is at");
                } else {
                    tracing::info!(
                        signal = name,
                        "already stopping, the signal changes nothing"
                    );
                }
            }
        });
        Ok(Self { requested, grace })
    }

    /// A stop at a moment, with a second of grace. Must be called inside a runtime.
    pub(super) fn at(moment: Instant) -> Self {
        let (sender, requested) = watch::channel(None);
        tokio::spawn(async move {
            tokio::time::sleep_until(moment.into()).await;
            // Nobody waits for it any more when this fails.
            let _ = sender.send(Some(moment));
        });
        Self {
            requested,
            grace: Duration::from_secs(1),
        }
    }

    /// Whether a stop was requested.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.borrow().is_some()
    }

    /// When a runtime that did not stop by itself is killed; `None` while no stop was requested.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.requested.borrow().map(|at| at + self.grace)
    }

    /// How long a runtime may take to stop.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// Waits for the request; for ever, if none comes.
    pub(super) async fn requested(&self) {
        let mut requested = self.requested.clone();
        if requested.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
