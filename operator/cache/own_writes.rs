//! Whether the cache shows what this process wrote itself. A pass that starts on an older object only
//! finds out when its own patch is refused.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::names::ObjectKey;

/// How long a pass waits for its own last write at the most: a watch that is late must not hold up
/// work, and a conflict is no harm.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// The newest version of each object that this process wrote and the cache may not show yet.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    written: Mutex<HashMap<ObjectKey, Written>>,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    version: u64,
    at: Instant,
}

impl OwnWrites {
    fn map(&self) -> MutexGuard<'_, HashMap<ObjectKey, Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process wrote the object, or read it as this version from an answer of the API server.
    pub(super) fn note(&self, key: &ObjectKey, version: &str) {
        let Some(version) = number(version) else {
            return;
        };
        let at = Instant::now();
        self.map().insert(key.clone(), Written { version, at });
    }

    /// Waits until `cached` shows the newest own write, or an object that is gone; for a moment only.
    pub(super) async fn shown(&self, key: &ObjectKey, cached: impl Fn() -> Option<String>) {
        while self.is_awaited(key, cached().as_deref()) {
            sleep(LOOK).await;
        }
    }

    fn is_awaited(&self, key: &ObjectKey, cached: Option<&str>) -> bool {
        let mut map = self.map();
        let Some(written) = map.get(key).copied() else {
            return false;
        };
        let behind = cached
            .and_then(number)
            .is_some_and(|cached| cached < written.version);
        if behind && written.at.elapsed() < PATIENCE {
            return true;
        }
        map.remove(key);
        false
    }
}

/// A resourceVersion as the number that it is on every API server since 1.35; another form orders
/// nothing.
fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::names::Kind;

    fn key() -> ObjectKey {
        ObjectKey::new(Kind::TerraformCluster, "ns", "prod")
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_waits_until_the_cache_shows_its_own_last_write() {
        let writes = OwnWrites::default();
        writes.note(&key(), "7");
        let begun = Instant::now();
        let cached = || {
            let late = begun.elapsed() < Duration::from_millis(50);
            Some(if late { "6" } else { "7" }.to_owned())
        };
        writes.shown(&key(), cached).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(50));
        assert!(writes.map().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_watch_holds_nothing_up_for_long() {
        let writes = OwnWrites::default();
        writes.note(&key(), "7");
        let begun = Instant::now();
        writes.shown(&key(), || Some("6".to_owned())).await;
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_newer_a_missing_and_an_unordered_version_are_not_waited_for() {
        let begun = Instant::now();
        for cached in [Some("8"), None, Some("abc")] {
            let writes = OwnWrites::default();
            writes.note(&key(), "7");
            writes.shown(&key(), || cached.map(str::to_owned)).await;
        }
        let writes = OwnWrites::default();
        writes.note(&key(), "abc");
        writes.shown(&key(), || Some("1".to_owned())).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
