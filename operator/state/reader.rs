//! Reading states, from memory while their Secrets did not change (state-secrets.md §2, S-7).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use tokio::sync::Semaphore;

use super::cache::{Cache, Key};
use super::selector_text;
use crate::client::{Access, ApiError};
use crate::names::{Suffix, state_selector};
use crate::operator::secrets::{metas, secrets};
use crate::state::{
    Corruption, Reading, STATE_SECRETS_MAX, State, StateProblem, StateSecret, fingerprint,
    read_state,
};

/// Most states fetched and decoded at once: each may take a multiple of its size in memory.
const MAX_PARSES: usize = 4;

/// What reading a state gave.
#[derive(Debug, Clone)]
pub enum StateRead {
    /// There is no state Secret.
    None,
    /// The state.
    State(Arc<State>),
    /// There is one that cannot be read: the state is held.
    Unreadable(StateProblem),
}

/// Reads states live; one per process, shared by clones.
#[derive(Debug, Clone)]
pub struct StateReader {
    cache: Arc<Mutex<Cache>>,
    parses: Arc<Semaphore>,
}

impl Default for StateReader {
    fn default() -> Self {
        Self {
            cache: Arc::default(),
            parses: Arc::new(Semaphore::new(MAX_PARSES)),
        }
    }
}

impl StateReader {
    /// Reads the state with `suffix` in `namespace`: the metadata of its Secrets first; while they are
    /// the ones read before, the answer comes from memory.
    ///
    /// # Errors
    /// When a list fails. What is wrong with a state that was read is [`StateRead::Unreadable`].
    pub async fn read(
        &self,
        access: &Access,
        namespace: &str,
        suffix: &Suffix,
    ) -> Result<StateRead, ApiError> {
        let key = (namespace.to_owned(), suffix.to_string());
        let result = self.read_keyed(access, &key, suffix).await;
        if !matches!(result, Ok(StateRead::State(_))) {
            self.cache().remove(&key);
        }
        result
    }

    async fn read_keyed(
        &self,
        access: &Access,
        key: &Key,
        suffix: &Suffix,
    ) -> Result<StateRead, ApiError> {
        let selection = ListParams::default().labels(&selector_text(&state_selector(suffix)));
        let listed = access.list(&metas(access, &key.0), &selection).await?;
        let listed: Vec<ObjectMeta> = listed.into_iter().map(|secret| secret.metadata).collect();
        if listed.is_empty() {
            return Ok(StateRead::None);
        }
        if listed.len() > STATE_SECRETS_MAX {
            return Ok(StateRead::Unreadable(StateProblem::Corrupt {
                secret: suffix.base_state_secret(),
                corruption: Corruption::TooManySecrets {
                    found: listed.len(),
                },
            }));
        }
        let listed = fingerprint(&listed);
        let known = self.cache().get(key, &listed);
        if let Some(state) = known {
            return Ok(StateRead::State(state));
        }
        // The semaphore is never closed, so a failed acquire only means no limit.
        let _permit = self.parses.acquire().await.ok();
        let found: Vec<Secret> = access.list(&secrets(access, &key.0), &selection).await?;
        let found: Vec<StateSecret> = found.into_iter().map(StateSecret::from).collect();
        let read = fingerprint(found.iter().map(|secret| &secret.meta));
        Ok(match decode(suffix.clone(), found).await {
            Reading::NoState => StateRead::None,
            Reading::Unreadable(problem) => StateRead::Unreadable(problem),
            Reading::State(state) => {
                let state: Arc<State> = Arc::from(state);
                if read == listed {
                    self.cache().store(key.clone(), read, Arc::clone(&state));
                }
                StateRead::State(state)
            }
        })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes beside the other tasks: a large state takes seconds.
async fn decode(suffix: Suffix, found: Vec<StateSecret>) -> Reading {
    let base = suffix.base_state_secret();
    let decoded = tokio::task::spawn_blocking(move || read_state(&suffix, &found)).await;
    // A decoder that panicked found content it was not made for.
    decoded.unwrap_or(Reading::Unreadable(StateProblem::Corrupt {
        secret: base,
        corruption: Corruption::NotGzip,
    }))
}
