//! What a watch that fails says: each cause once, with its remedy, and when it is over.

use kube::Resource;
use kube::runtime::watcher;

use super::Wire;
use crate::client::innermost;

/// The errors of one watch.
pub(super) struct Trouble {
    /// `terraformclusters.infrastructure.cluster.x-k8s.io`, as a CustomResourceDefinition is named.
    resource: String,
    kind: String,
    api_version: String,
    /// Served from a CustomResourceDefinition: the built-in groups watched here have no dot.
    is_custom: bool,
    /// What was said last; nothing while all is well.
    said: Option<String>,
}

impl Trouble {
    pub(super) fn of<W: Wire>() -> Self {
        let (group, plural) = (W::Kind::group(&()), W::Kind::plural(&()));
        Self {
            is_custom: group.contains('.'),
            resource: if group.is_empty() {
                plural.into_owned()
            } else {
                format!("{plural}.{group}")
            },
            kind: W::Kind::kind(&()).into_owned(),
            api_version: W::Kind::api_version(&()).into_owned(),
            said: None,
        }
    }

    /// Logs an error unless it says the same as the one before.
    pub(super) fn report(&mut self, error: &watcher::Error) {
        let text = self.explain(error);
        if self.said.as_ref() == Some(&text) {
            tracing::debug!(resource = %self.resource, error = %text, "the watch still fails");
        } else {
            tracing::error!(resource = %self.resource, error = %text, "a watch failed and is retried");
            self.said = Some(text);
        }
    }

    pub(super) fn over(&mut self) {
        if self.said.take().is_some() {
            tracing::info!(resource = %self.resource, "the watch works again");
        }
    }

    /// What failed and what to do about it.
    pub(super) fn explain(&self, error: &watcher::Error) -> String {
        let Self {
            resource,
            kind,
            api_version,
            ..
        } = self;
        match status_code(error) {
            Some(404) if self.is_custom => format!(
                "the API server does not serve {kind} of {api_version}: install the CustomResourceDefinition {resource}; \
                 nothing of this kind is reconciled until then"
            ),
            Some(403) => format!(
                "the manager may not list and watch {resource}: install its ClusterRole and binding ({error})"
            ),
            Some(401) => format!(
                "the API server does not accept the manager's credentials for {resource} ({error})"
            ),
            _ => match unreachable(error) {
                Some(cause) => format!(
                    "the API server cannot be reached for {resource} ({cause}): check the server that the kubeconfig names \
                     and the way to it"
                ),
                None => error.to_string(),
            },
        }
    }
}

/// The cause at the end of the chain, when no answer came: the outer errors only name layers.
fn unreachable(error: &watcher::Error) -> Option<String> {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
                .then(|| innermost(error))
        }
        watcher::Error::WatchFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::NoResourceVersion => None,
    }
}

fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}
