//! Printing: tables, JSON, YAML and names. The only module that writes to standard output.

use std::io::{self, Write};
use std::str::FromStr;

use comfy_table::{Cell, ColumnConstraint, Table, Width};
use serde::Serialize;

use super::colour::{Colour, Tone, printable};
use super::error::Error;

/// An output format that every reporting command knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// The report as JSON.
    Json,
    /// The report as YAML.
    Yaml,
    /// `resource/name` lines that kubectl understands.
    Name,
}

impl Format {
    /// Whether people read it.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Every format by its name, in the order of the help.
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("table", Self::Table),
        ("wide", Self::Wide),
        ("json", Self::Json),
        ("yaml", Self::Yaml),
        ("name", Self::Name),
    ];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((_, format)) = Self::ALL.iter().find(|(name, _)| *name == text) {
            return Ok(*format);
        }
        if text.starts_with("go-template") {
            return Err("templates are not supported; use -o json and jq".into());
        }
        Err(format!(
            "\"{text}\" is no output format; choose table, wide, json, yaml or name"
        ))
    }
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    text: String,
    tone: Tone,
}

impl Field {
    /// A cell with a meaning.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// Rows that are laid out at once: a long list must not be held as cells.
const CHUNK: usize = 500;

/// Columns as kubectl prints them: upper-case header, three spaces between columns, no
/// borders, nothing cut and no trailing blanks (cli.md §13).
///
/// `row` makes the cells of the row with this number. It is asked twice, for the widths and for
/// the text, so that only a part of the cells exists at any time.
pub(crate) fn table(
    header: &[&str],
    rows: usize,
    row: impl Fn(usize) -> Vec<Field>,
    with_header: bool,
    colour: Colour,
) -> String {
    let mut widths: Vec<usize> = header
        .iter()
        .map(|name| if with_header { name.len() } else { 0 })
        .collect();
    for number in 0..rows {
        for (width, field) in widths.iter_mut().zip(row(number)) {
            *width = (*width).max(printable(&field.text).chars().count());
        }
    }
    let mut text = String::new();
    let mut first = 0;
    while first < rows || (first == 0 && with_header) {
        let last = rows.min(first + CHUNK);
        let cells: Vec<Vec<Field>> = (first..last).map(&row).collect();
        let shown = (first == 0 && with_header).then_some(header);
        let plain = laid_out(shown, &cells, &widths);
        let chunk = match colour {
            Colour::Off => plain,
            Colour::On => painted(&plain, &cells, usize::from(shown.is_some())),
        };
        text.push_str(&chunk);
        text.push('\n');
        first = last.max(1);
        if rows == 0 {
            break;
        }
    }
    text
}

/// Some rows, each column at least as wide as its widest cell of all.
fn laid_out(header: Option<&[&str]>, rows: &[Vec<Field>], widths: &[usize]) -> String {
    /// Blanks between two columns.
    const GAP: u16 = 3;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    if let Some(header) = header {
        table.set_header(header.iter().map(Cell::new));
    }
    for row in rows {
        table.add_row(row.iter().map(|field| Cell::new(printable(&field.text))));
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_padding((0, GAP));
        let width = u16::try_from(*width).unwrap_or(u16::MAX - GAP);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + GAP)));
    }
    table.trim_fmt()
}

/// Colours the cells of a finished table, so that its widths never depend on colour.
fn painted(plain: &str, rows: &[Vec<Field>], skip: usize) -> String {
    // Not `lines()`: a last row whose cells are all empty is a line, too.
    let lines = plain.split('\n').enumerate().map(|(number, line)| {
        let Some(row) = number.checked_sub(skip).and_then(|index| rows.get(index)) else {
            return line.to_owned();
        };
        let (mut done, mut rest) = (String::new(), line);
        for field in row {
            let text = printable(&field.text);
            let Some(at) = rest.find(&text) else { continue };
            done.push_str(&rest[..at]);
            done.push_str(&Colour::On.paint(&text, field.tone));
            rest = &rest[at + text.len()..];
        }
        done + rest
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `report` as indented JSON with a final newline.
///
/// # Errors
///
/// A report that cannot be serialised.
pub(crate) fn json(report: &impl Serialize) -> Result<String, Error> {
    let mut text =
        serde_json::to_string_pretty(report).map_err(|error| Error::Encode(error.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// `report` as YAML with a final newline, carrying the same data as [`json`].
///
/// # Errors
///
/// A report that cannot be serialised.
pub(crate) fn yaml(report: &impl Serialize) -> Result<String, Error> {
    let mut text =
        serde_saphyr::to_string(report).map_err(|error| Error::Encode(error.to_string()))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Writes `text` to standard output. A reader that went away (`| head`) is no error: the program ends as
/// any other in a pipe, killed by SIGPIPE (cli.md §11).
///
/// # Errors
///
/// Any other failure to write.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
        Err(_) => {
            end_by_sigpipe();
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// What the default action of SIGPIPE does, which Rust's runtime sets to "ignore".
fn end_by_sigpipe() {
    #[cfg(unix)]
    {
        use signal_hook::consts::SIGPIPE;
        // Where this fails, the program ends quietly with 0.
        let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    }
}

/// Writes one line to standard error. There is nobody left to tell when that fails.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(line));
}

/// Prints an error and its hint on standard error.
pub(crate) fn complain(error: &Error) {
    note(&format!("error: {error}"));
    if let Some(hint) = error.hint() {
        note(&format!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Colour, Field, Format, Tone, table};
    use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};

    fn rows() -> Vec<Vec<Field>> {
        vec![
            vec![
                "captf-run-6d0be5af00180804-c".into(),
                Field::toned("Held", Tone::Wait),
                "-".into(),
            ],
            vec!["x".into(), Field::toned("Free", Tone::Good), "".into()],
        ]
    }

    fn all(header: &[&str], rows: &[Vec<Field>], with_header: bool, colour: Colour) -> String {
        table(
            header,
            rows.len(),
            |number| rows[number].clone(),
            with_header,
            colour,
        )
    }

    #[test]
    fn a_long_list_keeps_its_columns_from_end_to_end() {
        let row = |number: usize| {
            vec![
                Field::from(if number == 700 { "wide name" } else { "x" }),
                "y".into(),
            ]
        };
        let text = table(&["A", "B"], 1200, row, true, Colour::Off);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1201);
        assert_eq!(
            (lines[0], lines[1], lines[1200]),
            ("A           B", "x           y", "x           y")
        );
        assert_eq!(lines[701], "wide name   y");
    }

    #[test]
    fn columns_are_three_spaces_apart_without_trailing_blanks() {
        assert_eq!(
            all(&["NAME", "STATE", "AGE"], &rows(), true, Colour::Off),
            "NAME                           STATE   AGE\n\
             captf-run-6d0be5af00180804-c   Held    -\n\
             x                              Free\n"
        );
    }

    #[test]
    fn no_rows_and_no_header_print_nothing() {
        assert_eq!(all(&["NAME"], &[], false, Colour::Off), "");
    }

    #[test]
    fn an_unknown_format_names_the_known_ones() {
        let error = "xml".parse::<Format>().unwrap_err();
        assert!(error.contains("table, wide, json, yaml or name"), "{error}");
        assert!(
            "go-template={{.}}"
                .parse::<Format>()
                .unwrap_err()
                .contains("jq")
        );
    }

    fn without_ansi(text: &str) -> String {
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}') {
            plain.push_str(&rest[..at]);
            let end = rest[at..].find('m').map_or(rest.len(), |m| at + m + 1);
            rest = &rest[end..];
        }
        plain + rest
    }

    #[test]
    fn colours_keep_a_last_row_without_text() {
        let rows = [vec![Field::from("")]];
        let plain = all(&["ONE"], &rows, true, Colour::Off);
        assert_eq!(all(&["ONE"], &rows, true, Colour::On), plain);
    }

    fn cell() -> impl Strategy<Value = Field> {
        let tone = prop::sample::select(vec![Tone::Plain, Tone::Good, Tone::Bad, Tone::Dim]);
        ("[a-zA-Z0-9<>=\\- äß]{0,12}", tone)
            .prop_map(|(text, tone)| Field::toned(text.trim(), tone))
    }

    proptest! {
        #[test]
        fn colours_change_no_letter(rows in prop::collection::vec(prop::collection::vec(cell(), 3), 0..5), header in any::<bool>()) {
            let names = ["ONE", "TWO", "THREE"];
            let plain = all(&names, &rows, header, Colour::Off);
            prop_assert_eq!(without_ansi(&all(&names, &rows, header, Colour::On)), plain);
        }
    }
}
