//! The subset of JSONPath that printer columns and scale subresources use.

use serde_json::Value;

/// A path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(i64),
    All,
    /// Items whose value at a path equals a text.
    Where(Vec<String>, String),
}

impl Path {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end =
                    bracket_end(after).ok_or_else(|| format!("unterminated array in {text:?}"))?;
                steps.push(bracket(&after[..end])?);
                rest = &after[end + 1..];
                continue;
            }
            let after = rest.strip_prefix('.').ok_or_else(|| {
                format!("unrecognized character in {text:?}: paths begin with a dot")
            })?;
            let (name, left) = name(after);
            if !name.is_empty() {
                steps.push(if name == "*" { Step::All } else { Step::Name(name) });
            } else if !left.is_empty() && !left.starts_with('[') {
                return Err(format!("empty name in {text:?}"));
            }
            rest = left;
        }
        Ok(Self(steps))
    }

    /// Returns all values at the path.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.find(value)).collect();
        }
        found
    }
}

impl Step {
    fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Name(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                let index = if *index < 0 { items.len() as i64 + index } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(members) => members.values().collect(),
                _ => Vec::new(),
            },
            Self::Where(path, wanted) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let holds = |item: &&Value| {
                    let names: Vec<&str> = path.iter().map(|name| &**name).collect();
                    match crate::json::at(item, &names) {
                        Some(Value::String(text)) => text == wanted,
                        Some(other) => format!("{other}") == *wanted,
                        None => false,
                    }
                };
                items.iter().filter(holds).collect()
            }
        }
    }
}

/// Splits off a name; a backslash escapes the next character.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Returns the position of the closing bracket, skipping quoted text.
fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(at),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::All);
    }
    if let Ok(index) = text.parse() {
        return Ok(Step::Index(index));
    }
    let quoted = |text: &str| {
        let text = text.trim();
        let inner = text.strip_prefix(['"', '\'']).and_then(|text| text.strip_suffix(['"', '\'']));
        inner.unwrap_or(text).to_owned()
    };
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (path, value) = filter
            .split_once("==")
            .ok_or_else(|| format!("{filter:?}: only comparisons with == are supported"))?;
        let path = path
            .trim()
            .strip_prefix("@.")
            .ok_or_else(|| format!("{filter:?}: must begin with @."))?;
        return Ok(Step::Where(path.split('.').map(str::to_owned).collect(), quoted(value)));
    }
    if text.starts_with(['"', '\'']) {
        return Ok(Step::Name(quoted(text)));
    }
    Err(format!("invalid array index {text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_values() {
        let value = json!({
            "a": {"b.c": 1, "list": [{"type": "x", "v": 1}, {"type": "y", "v": 2}]},
        });
        for (path, found) in [
            (".a['b.c']", vec![json!(1)]),
            (".a.b\\.c", vec![json!(1)]),
            (".a.list[1].v", vec![json!(2)]),
            (".a.list[-1].v", vec![json!(2)]),
            (".a.list[*].v", vec![json!(1), json!(2)]),
            (".a.list[?(@.type==\"y\")].v", vec![json!(2)]),
            (".a.none.v", vec![]),
            (".a.list[9]", vec![]),
        ] {
            let found_now: Vec<Value> =
                Path::parse(path).unwrap().find(&value).into_iter().cloned().collect();
            assert_eq!(found_now, found, "{path}");
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for path in ["a", ".a[", ".a[x]", "..a", ".a[?(x)]"] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }
}
