//! The untyped form of a file, which preserves the order of keys and duplicate keys.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Options};
use serde_saphyr::{Error, UserMessageFormatter};

use super::problem::{ProblemSink, child, index};

/// A value of any type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Flag(bool),
    Number(i128),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    /// The entries in order, including duplicate keys.
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// Parses YAML or JSON; an error includes the position.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // JSON may be indented with tabs, which YAML forbids.
        if text.trim_start().starts_with('{')
            && let Ok(tree) = serde_json::from_str(text)
        {
            return Ok(tree);
        }
        // Only this policy passes duplicate keys to the visitor, and even then not those that look
        // like numbers.
        let tree = parse_yaml(text, DuplicateKeyPolicy::LastWins).map_err(|error| {
            format!("not valid YAML: {}", error.render_with_formatter(&UserMessageFormatter))
        })?;
        if !tree.repeats_a_key()
            && let Err(error) = parse_yaml(text, DuplicateKeyPolicy::Error)
            && let Error::DuplicateMappingKey { location, .. } = error.without_snippet()
        {
            let (line, column) = (location.line(), location.column());
            return Err(format!("line {line}, column {column}: duplicate field: keep one of them"));
        }
        Ok(tree)
    }

    fn repeats_a_key(&self) -> bool {
        match self {
            Self::List(values) => values.iter().any(Self::repeats_a_key),
            Self::Map(entries) => {
                let mut seen = BTreeSet::new();
                entries.iter().any(|(key, value)| !seen.insert(key) || value.repeats_a_key())
            }
            _ => false,
        }
    }

    /// Describes the value for a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Flag(value) => format!("the boolean {value}"),
            Self::Number(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::Text(value) => format!("the string {}", super::problem::quoted(value)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "an object".to_owned(),
        }
    }

    /// Converts to a JSON value for plugins that parse their own arguments; duplicate keys are
    /// reported.
    pub(super) fn into_value(self, path: &str, sink: &ProblemSink) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Flag(value) => value.into(),
            Self::Number(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => (value as f64).into(),
            },
            Self::Float(value) => {
                if !value.is_finite() {
                    sink.report(path, format!("{value} is not a number that JSON can hold"));
                }
                value.into()
            }
            Self::Text(value) => value.into(),
            Self::List(values) => values
                .into_iter()
                .enumerate()
                .map(|(position, value)| value.into_value(&index(path, position), sink))
                .collect(),
            Self::Map(entries) => unique(entries, path, sink)
                .into_iter()
                .map(|(key, value)| {
                    let value = value.into_value(&child(path, &key), sink);
                    (key, value)
                })
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// Keeps the first of several entries with the same key and reports the others.
pub(super) fn unique(
    entries: Vec<(String, Tree)>,
    path: &str,
    sink: &ProblemSink,
) -> Vec<(String, Tree)> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if seen.insert(key.clone()) {
            kept.push((key, value));
        } else {
            sink.report(
                child(path, &key),
                "duplicate field: it is set more than once; keep one of them",
            );
        }
    }
    kept
}

fn parse_yaml(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Tree, Error> {
    let mut options = Options::default();
    options.duplicate_keys = duplicate_keys;
    options.alias_limits.max_total_replayed_events = 20_000;
    options.alias_limits.max_replay_stack_depth = 16;
    options.alias_limits.max_alias_expansions_per_anchor = 1_000;
    options.legacy_octal_numbers = true;
    options.reject_unsupported_tags = true;
    options.non_finite_float_policy = NonFiniteFloatPolicy::PassThrough;
    options.with_snippet = false;
    serde_saphyr::from_str_with_options(text, options)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Number(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Tree, E> {
        Ok(i128::try_from(value).map_or(Tree::Float(value as f64), Tree::Number))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Tree, E> {
        Ok(Tree::Text(String::from_utf8_lossy(value).into_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Tree::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Tree>()? {
            let key = match key {
                Tree::Text(key) => key,
                Tree::Flag(key) => key.to_string(),
                Tree::Number(key) => key.to_string(),
                Tree::Float(key) => key.to_string(),
                Tree::Null => "null".to_owned(),
                Tree::List(_) | Tree::Map(_) => {
                    return Err(serde::de::Error::custom(
                        "a key must be a plain name, found a list or an object",
                    ));
                }
            };
            entries.push((key, access.next_value()?));
        }
        Ok(Tree::Map(entries))
    }
}
