//! One run of a reporting command: the connection, the scope, and what could not be read.

use std::sync::Arc;

use jiff::Timestamp;

use super::connect;
use super::error::Error;
use super::exit::Exit;
use super::output;
use super::read::ApiServer;
use super::report::{At, Metadata, Unknown, warning_lines};
use super::settings::Settings;

/// From this many seconds on the difference of the clocks is worth a line (cli.md §12).
const SKEW_NOTE_SECONDS: i64 = 5;

/// Which namespaces a command looks in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One.
    Namespace(String),
    /// All of them.
    All,
}

impl Scope {
    /// The namespace of a list request; none is cluster-wide.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(name) => Some(name),
            Self::All => None,
        }
    }
}

/// An open connection with its settings.
pub(crate) struct Session {
    /// The resolved flags.
    pub(crate) settings: Settings,
    /// The API server.
    pub(crate) server: Arc<ApiServer>,
    /// Where to look.
    pub(crate) scope: Scope,
}

impl Session {
    /// Resolves the cluster and the namespace. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A kubeconfig that cannot be used.
    pub(crate) async fn open(settings: Settings, all_namespaces: bool) -> Result<Self, Error> {
        let target = connect::resolve(&settings.connection).await?;
        let server = Arc::new(ApiServer::new(target, settings.request_timeout)?);
        let scope = if all_namespaces {
            Scope::All
        } else {
            let chosen = settings
                .namespace
                .as_deref()
                .unwrap_or(server.default_namespace());
            Scope::Namespace(chosen.to_owned())
        };
        Ok(Self {
            settings,
            server,
            scope,
        })
    }

    /// What the report says about itself.
    pub(crate) fn metadata(&self, now: Timestamp, unknowns: Vec<Unknown>) -> Metadata {
        Metadata {
            server_time: At(now),
            clock_skew_seconds: self.server.skew_seconds(),
            cli_version: env!("CARGO_PKG_VERSION"),
            context: self.server.context().map(str::to_owned),
            namespace: self.scope.namespace().map(str::to_owned),
            partial: !unknowns.is_empty(),
            unknowns,
        }
    }

    /// Says on standard error what the answer lacks, and turns a partial answer into an error
    /// where that was asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Partial`] under `--warnings-as-errors`.
    pub(crate) fn finish(&self, unknowns: &[Unknown]) -> Result<Exit, Error> {
        for line in warning_lines(unknowns) {
            output::note(&line);
        }
        let skew = self.server.skew_seconds();
        if skew.abs() >= SKEW_NOTE_SECONDS {
            let side = if skew > 0 { "behind" } else { "ahead of" };
            output::note(&format!(
                "note: this machine's clock is {}s {side} the API server; times use the server's clock",
                skew.abs()
            ));
        }
        tracing::info!(requests = self.server.requests(), "done");
        if self.settings.warnings_as_errors && !unknowns.is_empty() {
            return Err(Error::Partial);
        }
        Ok(Exit::Done)
    }
}
