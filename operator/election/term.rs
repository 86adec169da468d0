//! How long a leader may write. A flag "I lead" is no fence: a process that was stopped finds it still
//! set when it goes on. So every write looks at the time itself (engineering.md §7.2).

use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

/// Until when this process may write as leader. Clones share it.
#[derive(Debug, Clone)]
pub struct Term {
    ends: Arc<Mutex<Ends>>,
}

#[derive(Debug, Clone, Copy)]
enum Ends {
    /// Not led yet, or not any more.
    Over,
    /// Leads until then, unless extended.
    At(Instant),
    /// No election.
    Never,
}

/// A write that was not sent, because this process does not lead any more.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this manager does not lead (any more)")]
pub struct TermOver;

impl Term {
    /// The term of a process that takes no Lease: it may always write.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(Ends::Never)
    }

    pub(super) fn not_begun() -> Self {
        Self::new(Ends::Over)
    }

    fn new(ends: Ends) -> Self {
        Self {
            ends: Arc::new(Mutex::new(ends)),
        }
    }

    pub(super) fn extend(&self, until: Instant) {
        self.set(Ends::At(until));
    }

    pub(super) fn end(&self) {
        self.set(Ends::Over);
    }

    fn set(&self, ends: Ends) {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
    }

    /// Whether a write may be sent now.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match *self.ends.lock().unwrap_or_else(PoisonError::into_inner) {
            Ends::Over => false,
            Ends::At(end) => Instant::now() < end,
            Ends::Never => true,
        }
    }
}

/// The same client, which sends writes only while `term` lasts. Reads always pass.
///
/// # Errors
/// Of the client's requests: a write after the end fails as an error of the service and reaches no
/// server.
#[must_use]
pub fn fenced(client: kube::Client, term: &Term) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let term = term.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, term) = (client.clone(), term.clone());
        async move {
            if request.method() != Method::GET && !term.lasts() {
                return Err(BoxError::from(TermOver));
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    kube::Client::new(service, namespace)
}
