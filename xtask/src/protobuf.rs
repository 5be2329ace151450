//! Compares the table of protobuf field numbers with Kubernetes' definitions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use api::protobuf::{Field, Message, Shape};

use crate::shell::output_in;

/// Definitions, by module and folder. Of messages with equal names, the first counts.
const DEFINITIONS: &[(&str, &str)] = &[
    ("k8s.io/apimachinery", "pkg/apis/meta/v1"),
    ("k8s.io/api", "core/v1"),
    ("k8s.io/api", "apps/v1"),
    ("k8s.io/api", "batch/v1"),
    ("k8s.io/api", "policy/v1"),
    ("k8s.io/api", "storage/v1"),
    ("k8s.io/api", "resource/v1"),
];

/// A field of a definition: rule (`optional`, `repeated`, `map`), type, number.
type FieldDefinition = (String, String, u32);

/// Compares all messages with the definitions of the version that the oracle is built from.
pub(crate) fn check(oracle: &Path, go: &str) -> Result<()> {
    let mut messages: BTreeMap<String, BTreeMap<String, FieldDefinition>> = BTreeMap::new();
    for (module, folder) in DEFINITIONS {
        let found = output_in(oracle, go, &["list", "-m", "-f", "{{.Dir}}", module])?;
        let path = Path::new(found.trim()).join(folder).join("generated.proto");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{module} has no definitions in {folder}"))?;
        for (name, fields) in parse(&text) {
            messages.entry(name).or_insert(fields);
        }
    }
    let mut wrong = Vec::new();
    for message in api::kinds::messages() {
        let Some(defined) = messages.get(message.name) else {
            wrong.push(format!("{} is not defined", message.name));
            continue;
        };
        let differing = message.fields.iter().filter_map(|field| differs(message, field, defined));
        wrong.extend(differing);
    }
    if !wrong.is_empty() {
        bail!("field numbers of crates/api are wrong:\n{}", wrong.join("\n"));
    }
    Ok(())
}

/// Returns the problem of a field, or `None` if it is as defined.
fn differs(
    message: &Message,
    field: &Field,
    defined: &BTreeMap<String, FieldDefinition>,
) -> Option<String> {
    let name = format!("{}.{}", message.name, field.name);
    let Some((rule, kind, number)) = defined.get(field.name) else {
        return Some(format!("{name} is not defined"));
    };
    let expected = match &field.shape {
        Shape::List(inner) => ("repeated", type_name(inner)),
        Shape::Map(inner) => ("map", type_name(inner)),
        one => ("optional", type_name(one)),
    };
    let same = expected == (rule, kind) && field.number == *number;
    (!same).then(|| format!("{name} is defined as {rule} {kind} = {number}"))
}

fn type_name(shape: &Shape) -> &str {
    match shape {
        Shape::Text => "string",
        Shape::Int => "int",
        Shape::Bool => "bool",
        Shape::Quantity => "Quantity",
        Shape::Time => "Time",
        Shape::Message(message) | Shape::Inline(message) => message.name,
        Shape::List(_) | Shape::Map(_) => "list",
    }
}

/// Returns messages and their fields.
fn parse(text: &str) -> BTreeMap<String, BTreeMap<String, FieldDefinition>> {
    let mut messages = BTreeMap::new();
    let mut current: Option<(String, BTreeMap<String, FieldDefinition>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("message ") {
            current = Some((name.trim_end_matches(" {").to_owned(), BTreeMap::new()));
        } else if line == "}" {
            messages.extend(current.take());
        } else if let (Some((_, fields)), Some((name, defined))) = (&mut current, parse_field(line))
        {
            fields.insert(name, defined);
        }
    }
    messages
}

/// Reads a line such as `optional string name = 1;` or `map<string, string> labels = 11;`.
fn parse_field(line: &str) -> Option<(String, FieldDefinition)> {
    let (declared, number) = line.trim().strip_suffix(';')?.split_once(" = ")?;
    let (kind, name) = declared.rsplit_once(' ')?;
    let (rule, kind) = match kind.strip_prefix("map<string, ") {
        Some(value) => ("map", value.strip_suffix('>')?),
        None => kind.split_once(' ')?,
    };
    let kind = match kind.rsplit('.').next()? {
        "int32" | "int64" => "int",
        kind => kind,
    };
    Some((name.to_owned(), (rule.to_owned(), kind.to_owned(), number.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_read() {
        let text = "message A {\n  // c = 1;\n  optional .x.Time t = 1;\n\n  map<string, .y.Quantity> m = 22;\n  repeated int32 n = 3;\n}\n";
        let field = |rule: &str, kind: &str, number| (rule.to_owned(), kind.to_owned(), number);
        let fields = &parse(text)["A"];
        assert_eq!(fields["t"], field("optional", "Time", 1));
        assert_eq!(fields["m"], field("map", "Quantity", 22));
        assert_eq!(fields["n"], field("repeated", "int", 3));
        assert_eq!(fields.len(), 3);
    }
}
