//! Splitting of a text into documents, and detection of their format.

use serde::de::DeserializeSeed;
use serde_saphyr::options::NonFiniteFloatPolicy;

use super::document::DocumentVisitor;
use super::{Position, SnapshotReader};
use crate::lower::clip_message;
use crate::lower::limits::DOCUMENT_DEPTH_MAX;

/// Reads all documents of a text.
///
/// Documents are separated by a line `---` or `...`, which can occur within neither a YAML nor a
/// JSON value.
pub(super) fn read(text: &str, reader: &mut SnapshotReader) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut start, mut start_line) = (0, 1);
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_separator(line) {
            read_document(&text[start..offset], start_line, reader);
            // A document may start on the line of the separator.
            (start, start_line) = (offset + 3, index + 1);
        }
        offset += line.len();
    }
    read_document(&text[start..], start_line, reader);
}

fn is_separator(line: &str) -> bool {
    let marked = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    marked.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn read_document(text: &str, first_line: usize, reader: &mut SnapshotReader) {
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(|line| is_blank(line) || line.starts_with('%')) {
        return;
    }
    if is_json(text) {
        read_json(text, first_line, reader);
    } else {
        reader.document += 1;
        read_yaml(text, first_line, reader);
    }
}

/// Returns `true` if a text starts like JSON. YAML may start with a brace too, but then its keys
/// are not quoted.
fn is_json(text: &str) -> bool {
    let mut characters = text.chars().filter(|c| !c.is_whitespace());
    let (first, second) = (characters.next(), characters.next());
    match first {
        Some('{') => matches!(second, Some('"' | '}') | None),
        Some('[') => matches!(second, Some('{' | ']' | '[') | None),
        _ => false,
    }
}

/// Reads concatenated JSON values.
fn read_json(text: &str, first_line: usize, reader: &mut SnapshotReader) {
    let (mut text, mut first_line) = (text.trim_end(), first_line);
    while let Some((begin_line, error)) = read_json_values(text, reader) {
        let at = format!("line {} column {}", first_line + error.line() - 1, error.column());
        reader.problem(Position::default(), at, json_message(&error));
        // A later line that starts with a brace is taken as the next object, which may be valid.
        let before: usize = text.split_inclusive('\n').take(begin_line).map(str::len).sum();
        let skipped = match &text[before..] {
            rest if rest.starts_with('{') => 0,
            rest => match rest.find("\n{") {
                Some(found) => found + 1,
                None => return,
            },
        };
        let rest = before + skipped;
        first_line += text[..rest].matches('\n').count();
        text = &text[rest..];
    }
}

/// Reads values until one is malformed; returns the line where that value starts, and the error.
fn read_json_values(text: &str, reader: &mut SnapshotReader) -> Option<(usize, serde_json::Error)> {
    let mut json = serde_json::Deserializer::from_str(text);
    // This error concerns the value that follows, and holds the position where it starts.
    while let Err(begin) = json.end() {
        reader.document += 1;
        if let Err(error) = DocumentVisitor(&mut *reader).deserialize(&mut json) {
            return Some((begin.line(), error));
        }
    }
    None
}

fn json_message(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "found the end of the text within a value: the file seems to be cut off".into();
    }
    // The position is already in the path of the problem.
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    clip_message(message.strip_suffix(&place).unwrap_or(&message))
}

fn read_yaml(text: &str, first_line: usize, reader: &mut SnapshotReader) {
    // Sizes are bounded by the text, which is already in memory; only aliases could multiply it.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: DOCUMENT_DEPTH_MAX,
        },
        emit_comments: false,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    let result = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        DocumentVisitor(&mut *reader).deserialize(yaml)
    });
    if let Err(error) = result {
        let at = error.location().map(|place| {
            format!("line {} column {}", first_line as u64 + place.line() - 1, place.column())
        });
        reader.problem(Position::default(), at.unwrap_or_default(), yaml_message(&error));
    }
}

fn yaml_message(error: &serde_saphyr::Error) -> String {
    let message = error.to_string();
    // The parser counts lines from the start of the document, and the path already has the
    // position.
    let end = message.rfind(" at line ").unwrap_or(message.len());
    // The rest is advice for programmers, not for users.
    let end = message[..end].find(", set DuplicateKeyPolicy").unwrap_or(end);
    let hint = if message.starts_with("unclosed") { ": is the file cut off?" } else { "" };
    clip_message(&message[..end]) + hint
}
