//! States kept in memory, by what identifies their Secrets (state-secrets.md S-7).

use std::collections::HashMap;
use std::sync::Arc;

use crate::state::State;

/// Most states kept.
const MAX_STATES: usize = 512;

/// Most bytes of outputs kept, over all states; a state with more is not kept at all.
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;

/// Namespace and suffix of a state.
pub(super) type Key = (String, String);

/// States by key, each with the fingerprint of the Secrets it was read from. The oldest goes first.
#[derive(Debug)]
pub(super) struct Cache {
    max_states: usize,
    max_bytes: usize,
    states: HashMap<Key, Entry>,
    bytes: usize,
    stored: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::bounded(MAX_STATES, MAX_OUTPUT_BYTES)
    }
}

#[derive(Debug)]
struct Entry {
    fingerprint: String,
    state: Arc<State>,
    bytes: usize,
    order: u64,
}

impl Cache {
    fn bounded(max_states: usize, max_bytes: usize) -> Self {
        Self {
            max_states,
            max_bytes,
            states: HashMap::new(),
            bytes: 0,
            stored: 0,
        }
    }

    /// The state of `key` while its Secrets are the ones it was read from.
    pub(super) fn get(&self, key: &Key, fingerprint: &str) -> Option<Arc<State>> {
        let entry = self
            .states
            .get(key)
            .filter(|entry| entry.fingerprint == fingerprint)?;
        Some(Arc::clone(&entry.state))
    }

    /// Keeps a state, and lets the oldest go as far as the bounds ask for it.
    pub(super) fn store(&mut self, key: Key, fingerprint: String, state: Arc<State>) {
        self.remove(&key);
        let bytes = output_bytes(&state);
        if bytes > self.max_bytes {
            return;
        }
        while self.states.len() >= self.max_states || self.bytes + bytes > self.max_bytes {
            let oldest = self
                .states
                .iter()
                .min_by_key(|(_, entry)| entry.order)
                .map(|(key, _)| key.clone());
            match oldest {
                Some(oldest) => self.remove(&oldest),
                None => break,
            }
        }
        self.stored += 1;
        self.bytes += bytes;
        self.states.insert(
            key,
            Entry {
                fingerprint,
                state,
                bytes,
                order: self.stored,
            },
        );
    }

    /// Forgets a state.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.states.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}

fn output_bytes(state: &State) -> usize {
    state
        .outputs
        .iter()
        .map(|(name, output)| name.len() + output.value.get().len())
        .sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;
    use crate::names::InputsHash;
    use crate::state::Output;

    fn key(number: usize) -> Key {
        ("ns".to_owned(), number.to_string())
    }

    fn state(output_bytes: usize) -> Arc<State> {
        let value = format!("\"{}\"", "x".repeat(output_bytes.saturating_sub(3)));
        let output = Output {
            value: RawValue::from_string(value).unwrap(),
            sensitive: false,
        };
        Arc::new(State {
            serial: 1,
            lineage: "l".to_owned(),
            terraform_version: String::new(),
            outputs: BTreeMap::from([("a".to_owned(), output)]),
            managed_resources: 0,
            compressed_bytes: 0,
            inputs_hash: InputsHash::default(),
            chunks: Vec::new(),
        })
    }

    #[test]
    fn a_state_answers_only_for_the_secrets_it_was_read_from() {
        let mut cache = Cache::default();
        cache.store(key(1), "a/1/5".to_owned(), state(3));
        assert!(cache.get(&key(1), "a/1/5").is_some());
        assert!(cache.get(&key(1), "a/1/6").is_none());
        assert!(cache.get(&key(2), "a/1/5").is_none());
    }

    #[test]
    fn as_many_states_and_output_bytes_are_kept_as_specified() {
        let cache = Cache::default();
        assert_eq!((cache.max_states, cache.max_bytes), (512, 67_108_864));
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut cache = Cache::bounded(2, 100);
        (0..3).for_each(|number| cache.store(key(number), String::new(), state(3)));
        assert!(cache.get(&key(0), "").is_none());
        assert!(cache.get(&key(1), "").is_some());
        assert!(cache.get(&key(2), "").is_some());
    }

    #[test]
    fn the_oldest_goes_when_outputs_are_too_large_together() {
        let mut cache = Cache::bounded(10, 100);
        (0..5).for_each(|number| cache.store(key(number), String::new(), state(25)));
        assert!(cache.get(&key(0), "").is_none());
        assert!(cache.get(&key(1), "").is_some());
        assert_eq!(cache.bytes, 100);
    }

    #[test]
    fn a_larger_state_is_not_kept_and_pushes_nothing_out() {
        let mut cache = Cache::bounded(10, 100);
        cache.store(key(1), String::new(), state(3));
        cache.store(key(2), String::new(), state(101));
        assert!(cache.get(&key(1), "").is_some());
        assert!(cache.get(&key(2), "").is_none());
    }

    #[test]
    fn storing_again_replaces() {
        let mut cache = Cache::default();
        cache.store(key(1), "old".to_owned(), state(10));
        cache.store(key(1), "new".to_owned(), state(4));
        assert_eq!((cache.states.len(), cache.bytes), (1, 4));
    }
}
