//! Cutting a stream of bytes into lines of bounded length.

/// Longest line that is looked at; of a longer one only the fact is kept.
const MAX_LINE: usize = 1 << 20;
/// What stands for a line that is too long.
const DROPPED: &str = "(a line of more than 1 MiB was dropped)";

/// Collects chunks and hands out whole lines, without their line feed.
#[derive(Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    too_long: bool,
}

impl LineSplitter {
    /// Takes the next chunk.
    pub(super) fn push(&mut self, mut chunk: &[u8], mut line: impl FnMut(&str)) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.keep(&chunk[..end]);
            self.emit(&mut line);
            chunk = &chunk[end + 1..];
        }
        self.keep(chunk);
    }

    /// The stream has ended: what is left is a line.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&str)) {
        if self.too_long || !self.line.is_empty() {
            self.emit(&mut line);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.too_long || self.line.len() + part.len() > MAX_LINE {
            self.too_long = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn emit(&mut self, line: &mut impl FnMut(&str)) {
        if self.too_long {
            line(DROPPED);
        } else {
            line(&String::from_utf8_lossy(&self.line));
        }
        self.line.clear();
        self.too_long = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, |line| lines.push(line.to_owned()));
        }
        splitter.finish(|line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        assert_eq!(split(&[b"a\nb", b"c\n", b"\n", b"d"]), ["a", "bc", "", "d"]);
        assert_eq!(split(&[b"a\n"]), ["a"]);
        assert_eq!(
            split(&["é".as_bytes().split_at(1).0, "é".as_bytes().split_at(1).1]),
            ["é"]
        );
    }

    #[test]
    fn a_line_above_one_mebibyte_is_dropped() {
        let full = vec![b'x'; 1 << 20];
        assert_eq!(split(&[&full, b"\n"]), [String::from_utf8_lossy(&full)]);
        assert_eq!(split(&[&full, b"x", b"y\nnext\n"]), [DROPPED, "next"]);
        assert_eq!(split(&[&full, b"x"]), [DROPPED]);
    }
}
