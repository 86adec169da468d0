//! Lines of a report, and how they break on a terminal (cli.md §13).

use crate::plugin::colour::visible_width;

/// Prose is never narrower than this, however narrow the terminal is.
const NARROWEST: usize = 40;
/// Nor wider, however wide it is.
const WIDEST: usize = 100;

/// One line before it is broken.
#[derive(Debug)]
pub(super) struct Line {
    text: String,
    /// Column where its continuation begins; none for a line that stays whole, so that a command can be
    /// copied.
    hang: Option<usize>,
}

impl Line {
    /// Prose whose continuation begins in this column.
    pub(super) fn prose(text: String, hang: usize) -> Self {
        Self {
            text,
            hang: Some(hang),
        }
    }

    /// A line that stays whole.
    pub(super) fn whole(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hang: None,
        }
    }
}

/// The lines as text; `terminal` is the terminal's width, none in a pipe.
pub(super) fn joined(lines: Vec<Line>, terminal: Option<usize>) -> String {
    let mut text = String::new();
    for line in lines {
        match (terminal, line.hang) {
            (Some(width), Some(hang)) => {
                broken(&mut text, &line.text, width.clamp(NARROWEST, WIDEST), hang);
            }
            _ => text.push_str(&line.text),
        }
        text.push('\n');
    }
    text
}

/// Adds the line, broken between words. Runs of blanks are kept, and a word that is too long stays
/// whole.
fn broken(text: &mut String, line: &str, width: usize, hang: usize) {
    let mut column = 0;
    let mut blanks = 0;
    for word in line.split(' ') {
        let length = visible_width(word);
        if column > hang && column + blanks + length > width {
            text.push('\n');
            text.push_str(&" ".repeat(hang));
            column = hang;
        } else {
            text.push_str(&" ".repeat(blanks));
            column += blanks;
        }
        text.push_str(word);
        column += length;
        blanks = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, joined};
    use crate::plugin::colour::{Colour, Tone};

    fn shown(text: &str, width: Option<usize>) -> String {
        joined(vec![Line::prose(text.to_owned(), 3)], width)
    }

    const SENTENCE: &str = " - at 17:11:00Z at the latest the run lease of demo is free";

    #[test]
    fn prose_is_broken_at_the_terminals_width_and_hangs() {
        assert_eq!(
            shown(SENTENCE, Some(44)),
            " - at 17:11:00Z at the latest the run lease\n   of demo is free\n"
        );
    }

    #[test]
    fn prose_in_a_pipe_is_not_broken() {
        assert_eq!(shown(SENTENCE, None), format!("{SENTENCE}\n"));
    }

    #[test]
    fn prose_is_never_narrower_than_forty_columns_nor_wider_than_a_hundred() {
        assert_eq!(shown(SENTENCE, Some(10)), shown(SENTENCE, Some(40)));
        let long = "word ".repeat(60);
        let widest = shown(&long, Some(500));
        let columns = widest.lines().map(str::len).max();
        assert!(columns.is_some_and(|columns| columns <= 100), "{widest}");
    }

    #[test]
    fn a_command_stays_whole() {
        let command = format!("kubectl {}", "patch ".repeat(30));
        let text = joined(vec![Line::whole(command.clone())], Some(40));
        assert_eq!(text, format!("{command}\n"));
    }

    #[test]
    fn colour_takes_no_column() {
        let painted = Colour::On.paint(SENTENCE, Tone::Bad);
        let plain: String = shown(&painted, Some(44))
            .replace("\u{1b}[31m", "")
            .replace("\u{1b}[0m", "");
        assert_eq!(plain, shown(SENTENCE, Some(44)));
    }
}
