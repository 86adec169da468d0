//! The one clock of the process, on the API server's time.
//!
//! Lease times are written and compared on the API server's clock (leases.md §12,
//! decision 11). Each answer's `Date` header bounds the offset between its clock
//! and ours; the bounds of many answers narrow it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// An offset smaller than this counts as none: the header has whole seconds.
const TOLERATED: f64 = 2.0;

/// The uncorrected clock; a skew test puts a shifted one here.
pub type RawClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Tells the time of the API server. Clones share the measured offset.
#[derive(Clone)]
pub struct Clock {
    raw: RawClock,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// Bounds in seconds on "API server minus raw clock".
    bounds: Option<(f64, f64)>,
    /// Added after the correction: a test that lets leases age moves this one.
    shift: SignedDuration,
}

impl Clock {
    /// The system's clock, corrected by the answers seen through
    /// [`Clock::observe`].
    #[must_use]
    pub fn system() -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "the one place that reads the system's clock"
        )]
        Self::with_raw(Arc::new(Timestamp::now))
    }

    /// A clock over `raw`, for tests of skew.
    #[must_use]
    pub fn with_raw(raw: RawClock) -> Self {
        Self {
            raw,
            shared: Arc::default(),
        }
    }

    /// The uncorrected time.
    #[must_use]
    pub fn raw(&self) -> Timestamp {
        (self.raw)()
    }

    /// The API server's time as well as it is known.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let correction = SignedDuration::from_secs_f64(shared.applied_offset());
        let raw = (self.raw)();
        raw.saturating_add(correction + shared.shift).unwrap_or(raw)
    }

    /// Moves the corrected clock; the measured offset does not undo it.
    pub fn advance(&self, by: Duration) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.shift += SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    }

    /// Seconds the API server's clock is ahead of ours; `None` before the first
    /// answer. This is the measurement, also while it is too small to be applied.
    #[must_use]
    pub fn measured_offset(&self) -> Option<f64> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.bounds.map(|(low, high)| f64::midpoint(low, high))
    }

    /// Takes in one answer: `date` is the second its header names, `sent` and
    /// `received` the raw times around the request.
    pub fn observe(&self, date: Timestamp, sent: Timestamp, received: Timestamp) {
        // The server wrote the header in [date, date + 1 s), between our two times.
        let low = seconds(date) - seconds(received);
        let high = seconds(date) + 1.0 - seconds(sent);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.bounds = Some(match shared.bounds {
            Some((l, h)) if l.max(low) < h.min(high) => (l.max(low), h.min(high)),
            _ => (low, high),
        });
    }
}

impl Shared {
    fn applied_offset(&self) -> f64 {
        match self.bounds {
            Some((low, high)) if f64::midpoint(low, high).abs() >= TOLERATED => {
                f64::midpoint(low, high)
            }
            _ => 0.0,
        }
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock")
            .field("offset", &self.measured_offset())
            .finish_non_exhaustive()
    }
}

fn seconds(t: Timestamp) -> f64 {
    t.as_duration().as_secs_f64()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Duration;

    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    use super::Clock;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn fixed(text: &str) -> Clock {
        let t = at(text);
        Clock::with_raw(Arc::new(move || t))
    }

    #[test]
    fn an_hour_of_skew_is_corrected() {
        let clock = fixed("2026-10-01T13:00:00Z");
        clock.observe(at("2026-10-01T12:00:00Z"), clock.raw(), clock.raw());
        let off = clock.now().duration_since(at("2026-10-01T12:00:00Z"));
        assert!(off.abs() <= SignedDuration::from_secs(1), "{off:?}");
    }

    #[test]
    fn less_than_two_seconds_count_as_none() {
        let clock = fixed("2026-10-01T12:00:00.200Z");
        clock.observe(at("2026-10-01T12:00:01Z"), clock.raw(), clock.raw());
        assert_eq!(clock.now(), clock.raw());
        assert!(clock.measured_offset().unwrap() > 0.0);
    }

    #[test]
    fn a_shift_of_the_corrected_clock_outlives_the_correction() {
        let clock = fixed("2026-10-01T12:00:00Z");
        clock.advance(Duration::from_secs(61));
        clock.observe(at("2026-10-01T12:00:00Z"), clock.raw(), clock.raw());
        assert_eq!(clock.now(), at("2026-10-01T12:01:01Z"));
    }

    #[test]
    fn bounds_that_exclude_each_other_start_anew() {
        let clock = fixed("2026-10-01T12:00:00Z");
        clock.observe(at("2026-10-01T12:00:10Z"), clock.raw(), clock.raw());
        clock.observe(at("2026-10-01T12:01:40Z"), clock.raw(), clock.raw());
        assert!((clock.measured_offset().unwrap() - 100.5).abs() < 0.01);
    }
}
