//! What the log of a manager would hold.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{filter, format};

/// A log in memory.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The text that `act` logs in a manager of this verbosity.
pub(in crate::operator) fn written(verbosity: u32, act: impl FnOnce()) -> String {
    let lines = Lines::default();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(lines.clone())
        .with_ansi(false)
        .fmt_fields(format::Fields)
        .event_format(format::Klog);
    let subscriber = tracing_subscriber::registry()
        .with(filter(verbosity))
        .with(layer);
    tracing::subscriber::with_default(subscriber, act);
    lines.text()
}
