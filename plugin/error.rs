//! Errors of the plugin: one sentence and, where something can be done, one hint.
//!
//! Form (cli.md §15): `error: <what failed>: <why>`, then optionally
//! `hint: <one command or action>`; lower case, no period, no stack.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use super::exit::Exit;
use super::read::Request;

/// Why a plugin command could not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A flag or argument that parses but cannot be meant.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to type instead.
        hint: Option<String>,
    },

    /// A kubeconfig file that cannot be read or parsed.
    #[error("cannot load kubeconfig {}: {why}", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// Neither a kubeconfig nor a pod's ServiceAccount.
    #[error("no cluster configured: {} does not exist and this is not a pod", .path.display())]
    NoCluster {
        /// The kubeconfig that was looked for.
        path: PathBuf,
    },

    /// `--context`, or the current context, names nothing.
    #[error("context \"{name}\" not found in kubeconfig")]
    ContextNotFound {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },

    /// A kubeconfig without `current-context`, and no `--context`.
    #[error("kubeconfig sets no current context")]
    NoContext {
        /// The names that exist.
        known: Vec<String>,
    },

    /// A kubeconfig whose cluster, user or certificate cannot be used.
    #[error("kubeconfig cannot be used: {why}")]
    Configuration {
        /// What is wrong.
        why: String,
    },

    /// The kubeconfig's credential plugin cannot be started.
    #[error("credential plugin \"{command}\" {why}")]
    CredentialPlugin {
        /// The command.
        command: String,
        /// What happened.
        why: String,
        /// What the kubeconfig says about getting it.
        install: Option<String>,
    },

    /// No connection.
    #[error("cannot reach {server}{}{}: {why}", in_context(.context.as_deref()), via(.proxy.as_deref()))]
    Unreachable {
        /// URL of the API server.
        server: String,
        /// The proxy in between, and where its name comes from.
        proxy: Option<String>,
        /// The context it comes from.
        context: Option<String>,
        /// The last cause.
        why: String,
    },

    /// The server's certificate is not trusted.
    #[error("certificate of {server} is not trusted: {why}")]
    Untrusted {
        /// URL of the API server.
        server: String,
        /// The last cause.
        why: String,
    },

    /// HTTP 401.
    #[error("not authenticated{} (401)", to_context(.context.as_deref()))]
    NotAuthenticated {
        /// The context used.
        context: Option<String>,
    },

    /// HTTP 403.
    #[error("cannot {request}: forbidden")]
    Forbidden {
        /// What was asked.
        request: Box<Request>,
    },

    /// The API server does not know the resource.
    #[error("this cluster does not serve {}", .request.resource.served_name())]
    NotServed {
        /// What was asked.
        request: Box<Request>,
    },

    /// The object that the command is about does not exist.
    #[error("{kind} \"{name}\" not found{}", in_namespace(.namespace.as_deref()))]
    NotFound {
        /// Kind in lower case.
        kind: String,
        /// Name of the object.
        name: String,
        /// Its namespace, for a namespaced kind.
        namespace: Option<String>,
        /// Where it was found instead.
        hint: Option<String>,
    },

    /// The object exists but is not of the sort that the command is about.
    #[error("{message}")]
    NotOurs {
        /// What it is instead.
        message: String,
    },

    /// The API server answered with an error.
    #[error("{request} failed: the API server answered {code}{}", in_brackets(.reason))]
    Answer {
        /// What was asked.
        request: Box<Request>,
        /// HTTP status code.
        code: u16,
        /// `Status.reason`, may be empty.
        reason: String,
    },

    /// An answer that is not what the API promises.
    #[error("{request} failed: the answer cannot be read: {why}")]
    Undecodable {
        /// What was asked.
        request: Box<Request>,
        /// The decoder's message.
        why: String,
    },

    /// `--request-timeout` passed.
    #[error("{request} timed out after {seconds}s")]
    TimedOut {
        /// What was asked.
        request: Box<Request>,
        /// The limit, in seconds.
        seconds: u64,
    },

    /// A partial answer under `--warnings-as-errors`.
    #[error("the answer is partial and --warnings-as-errors is set")]
    Partial,

    /// Standard output cannot be written (a closed pipe is no error).
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),

    /// A report that cannot be serialised.
    #[error("cannot print the report: {0}")]
    Encode(String),

    /// The completion hook finds no place.
    #[error("cannot install the completion hook: {why}")]
    NoPlace {
        /// The last folder that was tried, and what is wrong with it.
        why: String,
    },

    /// A panic: a fault of this program.
    #[error("internal error")]
    Panicked,

    /// No runtime, no clock: nothing that the user did.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// The exit code of this error (cli.md §11).
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } => Exit::Usage,
            Self::NotAuthenticated { .. } | Self::Forbidden { .. } => Exit::NotAllowed,
            _ => Exit::Failed,
        }
    }

    /// Whether it is about the object that was named, and others may still be answered for.
    pub(crate) fn is_of_one_object(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NotOurs { .. })
    }

    /// One command or action that may help.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } | Self::NotFound { hint, .. } => hint.clone(),
            Self::NoCluster { .. } => Some("set KUBECONFIG or --kubeconfig".into()),
            Self::Kubeconfig { .. } => {
                Some("name another file with --kubeconfig or KUBECONFIG".into())
            }
            Self::ContextNotFound { known, .. } | Self::NoContext { known } => {
                Some(known_contexts(known))
            }
            Self::CredentialPlugin { install, .. } => install
                .as_deref()
                .map(clause)
                .or_else(|| Some("does its command line work in this terminal?".into())),
            Self::NoPlace { .. } => {
                Some("kubectl captf completion install --dir FOLDER, which must be on PATH".into())
            }
            Self::Panicked => Some(
                "this is a fault of the program: report the command and what \"kubectl captf version\" prints".into(),
            ),
            Self::Untrusted { .. } => Some("--certificate-authority FILE".into()),
            Self::Unreachable { .. } => {
                Some("is the cluster running, and is this the right --context?".into())
            }
            Self::NotAuthenticated { .. } => Some("log in again, or choose another --user".into()),
            Self::Forbidden { request } => Some(format!("kubectl auth can-i {}", request.can_i())),
            Self::NotServed { .. } => {
                Some("is CAPTF installed, and is this the management cluster?".into())
            }
            Self::TimedOut { .. } => Some("raise --request-timeout".into()),
            _ => None,
        }
    }

    /// A usage error with a hint.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }
}

/// The last cause of an error chain, as one lower-case clause without a period.
pub(crate) fn last_cause(error: &(dyn StdError + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if let Some(io) = cause.downcast_ref::<io::Error>() {
        if let Some(inner) = io.get_ref() {
            return clause(&inner.to_string());
        }
        return match io.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".into(),
            io::ErrorKind::ConnectionReset => "connection reset".into(),
            io::ErrorKind::TimedOut => "timed out".into(),
            io::ErrorKind::NotFound => "file not found".into(),
            _ => clause(&io.to_string()),
        };
    }
    clause(&cause.to_string())
}

/// The first line of a text, starting in lower case and without a final period.
pub(crate) fn clause(text: &str) -> String {
    let line = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .trim_end_matches('.');
    let mut letters = line.chars();
    match (letters.next(), letters.clone().next()) {
        // An acronym or a type name keeps its capitals.
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => line.to_owned(),
    }
}

fn in_context(context: Option<&str>) -> String {
    context
        .map(|name| format!(" (context {name})"))
        .unwrap_or_default()
}

fn via(proxy: Option<&str>) -> String {
    proxy
        .map(|proxy| format!(" via proxy {proxy}"))
        .unwrap_or_default()
}

fn to_context(context: Option<&str>) -> String {
    context
        .map(|name| format!(" to context {name}"))
        .unwrap_or_default()
}

fn in_namespace(namespace: Option<&str>) -> String {
    namespace
        .map(|name| format!(" in namespace \"{name}\""))
        .unwrap_or_default()
}

fn in_brackets(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    }
}

/// At most ten names, so that a large kubeconfig does not fill the screen (cli.md §15).
fn known_contexts(known: &[String]) -> String {
    if known.is_empty() {
        return "the kubeconfig has no contexts; name another file with --kubeconfig".into();
    }
    let shown = known
        .iter()
        .take(10)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let more = if known.len() > 10 { ", …" } else { "" };
    format!("known contexts: {shown}{more}")
}
