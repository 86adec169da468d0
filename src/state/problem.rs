//! Why a state cannot be read, in words for a condition: what is wrong, with which Secret, and what
//! to do. No message starts with `label `, which is the form of a label that could not be put back
//! (conditions-events.md §1.1), and none holds content of the state.

use crate::api::conditions::{State as _, StateReadable, Verdict};

use super::decode::{STATE_BYTES_MAX, STATE_SECRETS_MAX};

/// Why a state that exists cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateProblem {
    /// The Secrets do not form one state; may pass while a Job writes them.
    #[error(
        "the state Secrets do not form one state: {0}; if a Job writes them just now this passes, \
         otherwise put the Secret back from a copy"
    )]
    Inconsistent(Inconsistency),
    /// The content cannot be decoded.
    #[error(
        "the state in Secret {secret} cannot be decoded: {corruption}; put the Secret back \
         from a copy taken before"
    )]
    Corrupt {
        /// The base state Secret.
        secret: String,
        /// What does not decode.
        corruption: Corruption,
    },
    /// The state was written in a format that is not known.
    #[error(
        "the state in Secret {secret} has format version {version}, and only version 4 can be read: \
         use a runtime that writes it, or put the Secret back from a copy"
    )]
    Unsupported {
        /// The base state Secret.
        secret: String,
        /// The version found, `none` when there is none.
        version: String,
    },
    /// The state was encrypted by the runtime.
    #[error(
        "the state in Secret {secret} is encrypted by the runtime, so the operator cannot read it: \
         take the encryption block out of the module and push the decrypted state"
    )]
    Encrypted {
        /// The base state Secret.
        secret: String,
    },
}

impl StateProblem {
    /// Whether it reads so because chunks were not found: one that lost its labels is found by no
    /// selector.
    #[must_use]
    pub fn may_lack_chunks(&self) -> bool {
        matches!(self, Self::Inconsistent(_) | Self::Corrupt { .. })
    }

    /// What the condition `StateReadable` says (state-secrets.md §2).
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let state = match self {
            Self::Inconsistent(_) => StateReadable::StateInconsistent,
            Self::Corrupt { .. } | Self::Unsupported { .. } => StateReadable::StateCorrupt,
            Self::Encrypted { .. } => StateReadable::StateEncrypted,
        };
        state.with(self.to_string())
    }
}

/// How a set of Secrets fails to be one state (state-secrets.md §2.3, §2.4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A Secret carries the state's labels under a name that is no chunk's.
    #[error("Secret {name} carries the labels of this state and is none of its chunks")]
    Stray {
        /// The Secret.
        name: String,
    },
    /// Two Secrets are the same chunk.
    #[error("chunk {name} was found twice")]
    Duplicate {
        /// The Secret.
        name: String,
    },
    /// A chunk is missing between others.
    #[error("chunk {name} is missing")]
    Gap {
        /// The Secret that should be there.
        name: String,
    },
    /// A chunk has no payload.
    #[error("Secret {name} has no data key tfstate")]
    NoPayload {
        /// The Secret.
        name: String,
    },
}

/// What of a state does not decode (state-secrets.md §2.2, §2.5, §2.6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// More Secrets than a state may have.
    #[error("it consists of {found} Secrets, more than {STATE_SECRETS_MAX}")]
    TooManySecrets {
        /// How many were found.
        found: usize,
    },
    /// The compressed data is damaged.
    #[error("it does not decompress")]
    NotGzip,
    /// More content than is read.
    #[error("it is larger than {STATE_BYTES_MAX} bytes when decompressed")]
    TooLarge,
    /// The content is not the JSON of a state.
    #[error("it is not the JSON of a state (line {line}, column {column})")]
    NotJson {
        /// Line of the first fault, from 1.
        line: usize,
        /// Column of the first fault.
        column: usize,
    },
}
