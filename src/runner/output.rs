//! What becomes of a step's output (runner.md §6 R-13, §7.3).
//!
//! Every line that reaches the log is redacted: a runtime may print what it was given.

use std::io::Write;

use super::lines::LineSplitter;
use super::messages::{Messages, Stream};
use super::process::Sink;
use super::redact::Redactor;
use super::steps::Output;

/// Bytes of standard error that are kept for the summary of a failure.
const TAIL_BYTES: usize = 64 * 1024;

/// The standard output of a step.
pub(super) struct StandardOutput<'a> {
    output: Output,
    redactor: &'a Redactor,
    lines: LineSplitter,
    pub(super) captured: Vec<u8>,
    pub(super) messages: Messages,
}

impl<'a> StandardOutput<'a> {
    pub(super) fn new(output: Output, redactor: &'a Redactor) -> Self {
        Self {
            output,
            redactor,
            lines: LineSplitter::default(),
            captured: Vec::new(),
            messages: Messages::default(),
        }
    }
}

impl Sink for StandardOutput<'_> {
    fn take(&mut self, chunk: &[u8]) {
        if matches!(self.output, Output::Capture | Output::CaptureAndLog) {
            self.captured.extend_from_slice(chunk);
        }
        if self.output != Output::Capture {
            let show = shower(self.output, self.redactor, &mut self.messages);
            self.lines.push(chunk, show);
        }
    }

    fn end(&mut self) {
        let show = shower(self.output, self.redactor, &mut self.messages);
        self.lines.finish(show);
    }
}

/// Shows a line of standard output in the way of its step.
fn shower<'a>(
    output: Output,
    redactor: &'a Redactor,
    messages: &'a mut Messages,
) -> impl FnMut(&str) + 'a {
    move |line| {
        let (stream, text) = if output == Output::Messages {
            messages.line(line)
        } else {
            (Stream::Out, line.to_owned())
        };
        write_line(stream, &redactor.redact(&text));
    }
}

/// The standard error of a step: to the log, and its end is kept.
pub(super) struct StandardError<'a> {
    redactor: &'a Redactor,
    lines: LineSplitter,
    pub(super) tail: Tail,
}

impl<'a> StandardError<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self {
            redactor,
            lines: LineSplitter::default(),
            tail: Tail::default(),
        }
    }
}

impl Sink for StandardError<'_> {
    fn take(&mut self, chunk: &[u8]) {
        self.tail.push(chunk);
        self.lines.push(chunk, |line| {
            write_line(Stream::Err, &self.redactor.redact(line));
        });
    }

    fn end(&mut self) {
        self.lines.finish(|line| {
            write_line(Stream::Err, &self.redactor.redact(line));
        });
    }
}

/// The last bytes of a stream, as they came.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
        self.cut |= surplus > 0;
        self.bytes.drain(..surplus);
    }

    /// The last whole lines: half a line at the cut is left out, since half a secret is not recognised.
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        match text.split_once('\n') {
            Some((_, whole_lines)) if self.cut => whole_lines.to_owned(),
            None if self.cut => String::new(),
            _ => text.into_owned(),
        }
    }
}

/// Writes a line to the runner's own output. A log that nobody takes must not fail an apply.
fn write_line(stream: Stream, text: &str) {
    let line = format!("{text}\n");
    let _ = match stream {
        Stream::Out => std::io::stdout().write_all(line.as_bytes()),
        Stream::Err => std::io::stderr().write_all(line.as_bytes()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_whole_lines() {
        let mut tail = Tail::default();
        tail.push(b"first\n");
        assert_eq!(tail.text(), "first\n");
        tail.push(&[b'x'; TAIL_BYTES]);
        assert_eq!(tail.text(), "", "half a line");
        tail.push(b"\nError: last\n");
        assert_eq!(tail.text(), "Error: last\n");
    }

    #[test]
    fn captured_output_is_whole() {
        let redactor = Redactor::default();
        let mut stdout = StandardOutput::new(Output::Capture, &redactor);
        stdout.take(&vec![b'y'; 3 << 20]);
        stdout.take(b"\n");
        stdout.end();
        assert_eq!(stdout.captured.len(), (3 << 20) + 1);
    }
}
