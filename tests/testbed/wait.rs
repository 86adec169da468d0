//! Waiting for conditions, never for a time.

use std::time::{Duration, Instant};

/// Long enough for whatever a busy machine has to do first; a test that works never waits this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How often `until` looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks again and again until `look` returns `Ok`. Panics after `limit` with what was waited for and what was seen
/// last (the `Err` of `look`).
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    let mut seen = "nothing, the first look did not return".to_owned();
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(other)) => seen = other,
            Err(_) => panic!("waited {limit:?} for {what}; last seen: {seen}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// For looks that only ask yes or no: what to report when it is not so.
pub(crate) fn so(holds: bool, seen: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(seen()) }
}
