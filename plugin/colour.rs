//! Colours: the 16-colour palette, and the meaning is always in the words as well (cli.md §13).

/// Whether standard output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// With ANSI sequences.
    On,
    /// Plain text.
    Off,
}

/// What a piece of text means, and with it its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No colour.
    #[default]
    Plain,
    /// Free, idle, in order: green.
    Good,
    /// Waiting, a countdown, a partial answer: yellow.
    Wait,
    /// An error, a person is needed: red.
    Bad,
    /// A command to copy: cyan.
    Command,
    /// Evidence: dim.
    Dim,
}

impl Tone {
    /// The SGR parameter of this tone.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Wait => Some("33"),
            Self::Bad => Some("31"),
            Self::Command => Some("36"),
            Self::Dim => Some("2"),
        }
    }
}

impl Colour {
    /// `text` in the colour of `tone`.
    pub(crate) fn paint(self, text: &str, tone: Tone) -> String {
        match (self, tone.code()) {
            (Self::On, Some(code)) if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

/// How many columns a text takes: our own colour sequences take none.
pub(crate) fn visible_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_sequence = false;
    for letter in text.chars() {
        match letter {
            '\u{1b}' => in_sequence = true,
            'm' if in_sequence => in_sequence = false,
            _ if in_sequence => {}
            _ => width += 1,
        }
    }
    width
}

/// `text` with control characters escaped: names and messages come from the cluster, and
/// must not be able to drive the terminal (cli.md §13).
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|letter| {
            let escaped: Box<dyn Iterator<Item = char>> = if letter.is_control() {
                Box::new(letter.escape_default())
            } else {
                Box::new(std::iter::once(letter))
            };
            escaped
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_of_the_cluster_are_escaped() {
        assert_eq!(
            printable("red \u{1b}[31malert\n"),
            "red \\u{1b}[31malert\\n"
        );
        assert_eq!(printable("größe"), "größe");
    }
}
