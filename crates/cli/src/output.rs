//! Output for terminals and programs.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// One YAML document.
    Yaml,
}

/// Style of headings.
pub const STRONG: Style = Style::new().bold();
/// Style of success.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of failure.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Returns a text in a style. [`say`] removes it where colours are not supported.
pub fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns a text without control characters, which could move the cursor or change colours.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
    } else {
        text.into()
    }
}

/// Returns a table of [`columns`] with its head in bold.
pub fn with_strong_head(table: &str) -> String {
    let (head, body) = table.split_once('\n').unwrap_or((table, ""));
    format!("{}\n{body}", painted(STRONG, head))
}

/// Prints data as JSON or YAML, or as the table that `table` returns.
pub fn print<T: Serialize>(format: Format, data: &T, table: impl FnOnce() -> String) -> Result<()> {
    let text = match format {
        Format::Table => table(),
        Format::Json => serde_json::to_string_pretty(data)? + "\n",
        Format::Yaml => serde_saphyr::to_string(data)?,
    };
    say(&text)
}

/// Writes to standard output, with colours only on a terminal and not if `NO_COLOR` is set.
///
/// A closed pipe is not an error.
pub fn say(text: &str) -> Result<()> {
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes lines to standard error, ignoring errors.
pub fn complain(text: &str) {
    let mut out = std::io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(out, "{}", printable(line));
    }
}

/// Returns rows as aligned columns; the first row is the head. Columns of numbers are right-aligned.
pub fn columns<T: Display>(rows: &[Vec<T>]) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let width_of = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let count = cells.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width_of).collect();
    let is_number = |cell: &String| cell.parse::<f64>().is_ok();
    let numeric: Vec<bool> = (0..count)
        .map(|column| {
            let mut body = cells.iter().skip(1).filter_map(|row| row.get(column)).peekable();
            body.peek().is_some() && body.all(is_number)
        })
        .collect();
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            let (before, after) = if numeric[column] { (&*padding, "") } else { ("", &*padding) };
            line.extend([before, cell, after, "  "]);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn cell<T: Display>(content: &T) -> String {
    printable(&content.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let rows = [vec!["NAME", "TOTAL"], vec!["a", "5"], vec!["long-name", "120"]];
        assert_eq!(columns(&rows), "NAME       TOTAL\na              5\nlong-name    120\n");
    }

    #[test]
    fn files_cannot_drive_the_terminal() {
        assert_eq!(printable("worker-1 größer"), "worker-1 größer");
        assert_eq!(printable("a\u{1b}[31m\r\nb"), "a\u{fffd}[31m\u{fffd}\u{fffd}b");
        assert_eq!(columns(&[vec!["a\tb"], vec!["c"]]), "a\u{fffd}b\nc\n");
    }
}
