//! The structural schema of a custom kind: pruning, defaulting and validation.

use std::collections::{HashMap, HashSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::field_error::{FieldError, FieldErrorKind};
use crate::json::{at, list, truth};
use crate::quantity::Quantity;

/// A structural schema, in the subset of OpenAPI v3 that definitions may use.
#[derive(Debug)]
pub struct Structure {
    /// The schema as written in the definition.
    pub schema: Value,
    patterns: Patterns,
}

/// Compiled patterns of a schema by their text.
type Patterns = HashMap<String, Regex>;

/// Maximum size of a compiled pattern in bytes. A pattern of 20 bytes can demand gigabytes.
const PATTERN_BYTES_MAX: usize = 256 << 10;

/// Maximum number of patterns per schema; together with [`PATTERN_BYTES_MAX`] 64 MiB.
const PATTERNS_MAX: usize = 256;

/// Compiles the patterns of a schema and its subschemas.
fn compile(schema: &Value, patterns: &mut Patterns) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(pattern)) = members.get("pattern")
                && patterns.len() < PATTERNS_MAX
                && !patterns.contains_key(pattern)
                && let Ok(compiled) =
                    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build()
            {
                patterns.insert(pattern.clone(), compiled);
            }
            members.values().for_each(|inner| compile(inner, patterns));
        }
        Value::Array(items) => items.iter().for_each(|inner| compile(inner, patterns)),
        _ => {}
    }
}

/// Members of every object, which schemas need not list.
const ROOT_MEMBERS: &[&str] = &["apiVersion", "kind", "metadata"];

impl Structure {
    /// Creates the structure of a schema.
    pub fn new(schema: Value) -> Self {
        let mut patterns = Patterns::new();
        compile(&schema, &mut patterns);
        Self { schema, patterns }
    }

    /// Prunes unknown fields and returns their paths.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruned = Vec::new();
        prune(&self.schema, object, "", &mut pruned);
        pruned
    }

    /// Applies the defaults of the schema.
    pub(crate) fn default(&self, object: &mut Value) {
        default(&self.schema, object);
    }

    /// Validates an object and returns all problems.
    pub(crate) fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut problems = Vec::new();
        Checker { patterns: &self.patterns }.check(&self.schema, object, "", &mut problems);
        // As upstream, unsupported values come last.
        problems.sort_by_key(|problem| matches!(problem.what, FieldErrorKind::NotSupported(..)));
        problems
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn keeps_all(schema: &Value) -> bool {
    truth(schema, &["x-kubernetes-preserve-unknown-fields"])
}

fn prune(schema: &Value, value: &mut Value, path: &str, pruned: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let top = path.is_empty() || truth(schema, &["x-kubernetes-embedded-resource"]);
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema.get("additionalProperties");
            let unknown: Vec<String> = members
                .keys()
                .filter(|name| {
                    !(top && ROOT_MEMBERS.contains(&&***name))
                        && properties.is_none_or(|properties| !properties.contains_key(*name))
                        && others.is_none_or(|others| others == &Value::Bool(false))
                        && !keeps_all(schema)
                })
                .cloned()
                .collect();
            for name in unknown {
                members.remove(&name);
                pruned.push(join(path, &name));
            }
            for (name, member) in members.iter_mut() {
                if top && ROOT_MEMBERS.contains(&&**name) {
                    continue;
                }
                let inner = properties.and_then(|all| all.get(name)).or(others);
                if let Some(inner) = inner.filter(|inner| inner.is_object()) {
                    prune(inner, member, &join(path, name), pruned);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    prune(inner, item, &format!("{path}[{index}]"), pruned);
                }
            }
        }
        _ => {}
    }
}

fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, inner) in crate::json::map(schema, &["properties"]) {
                let null = members.get(name).is_some_and(Value::is_null);
                if null && !truth(inner, &["nullable"]) {
                    members.remove(name);
                }
                if !members.contains_key(name)
                    && let Some(given) = inner.get("default")
                {
                    members.insert(name.clone(), given.clone());
                }
                if let Some(member) = members.get_mut(name) {
                    default(inner, member);
                }
            }
            if let Some(inner) =
                schema.get("additionalProperties").filter(|inner| inner.is_object())
            {
                let known = schema.get("properties").and_then(Value::as_object);
                let unknown = members
                    .iter_mut()
                    .filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
                unknown.for_each(|(_, member)| default(inner, member));
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for item in items {
                    default(inner, item);
                }
            }
        }
        _ => {}
    }
}

/// Validates objects against a schema whose patterns are compiled.
struct Checker<'a> {
    patterns: &'a Patterns,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, path: &str, problems: &mut Vec<FieldError>) {
        if value.is_null() && truth(schema, &["nullable"]) {
            return;
        }
        if !of_type(schema, value) {
            let wanted = crate::json::text(schema, &["type"]);
            let why = format!("{path} in body must be of type {wanted}: {:?}", kind_of(value));
            problems.push(FieldError::invalid(path, kind_of(value), &why));
            return;
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            let allowed: Vec<String> = allowed
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect();
            problems.push(FieldError {
                field: path.to_owned(),
                what: FieldErrorKind::NotSupported(value.clone(), allowed),
            });
        }
        match value {
            Value::Object(members) => self.object(schema, members, path, problems),
            Value::Array(items) => self.array(schema, items, path, problems),
            Value::String(text) => self.string(schema, text, path, problems),
            Value::Number(number) => {
                if let Some(number) = number.as_f64() {
                    self::number(schema, number, value, path, problems);
                }
            }
            _ => {}
        }
        for inner in list(schema, &["allOf"]) {
            self.check(inner, value, path, problems);
        }
        self.combinations(schema, value, path, problems);
    }

    fn combinations(
        &self,
        schema: &Value,
        value: &Value,
        path: &str,
        problems: &mut Vec<FieldError>,
    ) {
        let holds = |inner: &Value| {
            let mut found = Vec::new();
            self.check(inner, value, path, &mut found);
            found.is_empty()
        };
        let any = list(schema, &["anyOf"]);
        if !any.is_empty() && !any.iter().any(holds) {
            let why = format!("{path} in body must validate at least one schema (anyOf)");
            problems.push(FieldError::invalid(path, value.clone(), &why));
        }
        let one = list(schema, &["oneOf"]);
        if !one.is_empty() && one.iter().filter(|inner| holds(inner)).count() != 1 {
            let why = format!("{path} in body must validate one and only one schema (oneOf)");
            problems.push(FieldError::invalid(path, value.clone(), &why));
        }
        if schema.get("not").is_some_and(holds) {
            let why = format!("{path} in body must not validate the schema (not)");
            problems.push(FieldError::invalid(path, value.clone(), &why));
        }
    }

    fn object(
        &self,
        schema: &Value,
        members: &Map<String, Value>,
        path: &str,
        problems: &mut Vec<FieldError>,
    ) {
        for name in list(schema, &["required"]).iter().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                problems.push(FieldError::required(join(path, name), ""));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|inner| inner.is_object());
        for (name, member) in members {
            if path.is_empty() && ROOT_MEMBERS.contains(&&**name) {
                continue;
            }
            if let Some(inner) = properties.and_then(|all| all.get(name)).or(others) {
                self.check(inner, member, &join(path, name), problems);
            }
        }
        let count = members.len() as u64;
        if at(schema, &["minProperties"]).and_then(Value::as_u64).is_some_and(|min| count < min) {
            let why = format!(
                "{path} in body should have at least {} properties",
                schema["minProperties"]
            );
            problems.push(FieldError::invalid(path, count, &why));
        }
        if let Some(max) =
            at(schema, &["maxProperties"]).and_then(Value::as_u64).filter(|max| count > *max)
        {
            let what = FieldErrorKind::TooMany(members.len(), max as usize);
            problems.push(FieldError { field: path.to_owned(), what });
        }
    }

    fn array(&self, schema: &Value, items: &[Value], path: &str, problems: &mut Vec<FieldError>) {
        if let Some(inner) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.check(inner, item, &format!("{path}[{index}]"), problems);
            }
        }
        let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
        if let Some(min) = limit("minItems").filter(|min| (items.len() as u64) < *min) {
            let why = format!("{path} in body should have at least {min} items");
            problems.push(FieldError::invalid(path, items.len(), &why));
        }
        if let Some(max) = limit("maxItems").filter(|max| items.len() as u64 > *max) {
            let what = FieldErrorKind::TooMany(items.len(), max as usize);
            problems.push(FieldError { field: path.to_owned(), what });
        }
        let unique = truth(schema, &["uniqueItems"])
            || crate::json::text(schema, &["x-kubernetes-list-type"]) == "set";
        let keys: Vec<&str> = list(schema, &["x-kubernetes-list-map-keys"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        if !unique && keys.is_empty() {
            return;
        }
        let mut seen: HashSet<Vec<Option<&Value>>> = HashSet::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let identity = if keys.is_empty() {
                vec![Some(item)]
            } else {
                keys.iter().map(|key| item.get(key)).collect()
            };
            if !seen.insert(identity) {
                problems.push(FieldError::duplicate(format!("{path}[{index}]"), item.clone()));
            }
        }
    }

    fn string(&self, schema: &Value, text: &str, path: &str, problems: &mut Vec<FieldError>) {
        let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
        let length = text.chars().count() as u64;
        if let Some(min) = limit("minLength").filter(|min| length < *min) {
            let why = format!("{path} in body should be at least {min} chars long");
            problems.push(FieldError::invalid(path, text, &why));
        }
        if let Some(max) = limit("maxLength").filter(|max| length > *max) {
            let what = FieldErrorKind::TooLong(max as usize);
            problems.push(FieldError { field: path.to_owned(), what });
        }
        let pattern = crate::json::text(schema, &["pattern"]);
        // A pattern that does not compile accepts everything.
        if self.patterns.get(pattern).is_some_and(|pattern| !pattern.is_match(text)) {
            let why = format!("{path} in body should match '{pattern}'");
            problems.push(FieldError::invalid(path, text, &why));
        }
        let good = match crate::json::text(schema, &["format"]) {
            "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
            "quantity" => Quantity::parse(text).is_some(),
            _ => true,
        };
        if !good {
            let why = format!(
                "{path} in body must be of type {}: {text:?}",
                schema["format"].as_str().unwrap_or_default()
            );
            problems.push(FieldError::invalid(path, text, &why));
        }
    }
}

fn of_type(schema: &Value, value: &Value) -> bool {
    if truth(schema, &["x-kubernetes-int-or-string"]) {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match crate::json::text(schema, &["type"]) {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        _ => true,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn number(schema: &Value, number: f64, value: &Value, path: &str, problems: &mut Vec<FieldError>) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let exclusive = |name: &str| truth(schema, &[name]);
    if let Some(min) = limit("minimum") {
        let strict = exclusive("exclusiveMinimum");
        if number < min || (strict && number == min) {
            let than = if strict { "greater than" } else { "greater than or equal to" };
            let why = format!("{path} in body should be {than} {}", schema["minimum"]);
            problems.push(FieldError::invalid(path, value.clone(), &why));
        }
    }
    if let Some(max) = limit("maximum") {
        let strict = exclusive("exclusiveMaximum");
        if number > max || (strict && number == max) {
            let than = if strict { "less than" } else { "less than or equal to" };
            let why = format!("{path} in body should be {than} {}", schema["maximum"]);
            problems.push(FieldError::invalid(path, value.clone(), &why));
        }
    }
    if let Some(step) =
        limit("multipleOf").filter(|step| *step > 0.0 && (number / step).fract() != 0.0)
    {
        let why = format!("{path} in body should be a multiple of {step}");
        problems.push(FieldError::invalid(path, value.clone(), &why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn structure() -> Structure {
        Structure::new(json!({"type": "object", "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 5},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "list": {"type": "array", "maxItems": 1, "items": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
            }},
        }}))
    }

    #[test]
    fn objects_are_pruned_and_defaulted() {
        let mut object = json!({"kind": "A", "metadata": {"name": "x"}, "other": 1, "spec": {
            "size": 1, "any": {"kept": 1}, "list": [{"y": 1}]}});
        assert_eq!(structure().prune(&mut object), ["other", "spec.list[0].y"]);
        structure().default(&mut object);
        assert_eq!(
            object,
            json!({"kind": "A", "metadata": {"name": "x"}, "spec": {
            "size": 1, "mode": "a", "any": {"kept": 1}, "list": [{}]}})
        );
    }

    #[test]
    fn problems_have_paths_and_upstreams_words() {
        for (spec, expected) in [
            (json!({}), "spec.size: Required value"),
            (
                json!({"size": "x"}),
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ),
            (
                json!({"size": 0}),
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ),
            (
                json!({"size": 1, "mode": "c"}),
                "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (
                json!({"size": 1, "name": "A"}),
                "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
            ),
            (
                json!({"size": 1, "name": "abcd"}),
                "spec.name: Too long: may not be more than 3 bytes",
            ),
            (
                json!({"size": 1, "list": [{}, {}]}),
                "spec.list: Too many: 2: must have at most 1 items",
            ),
        ] {
            let found = structure().validate(&json!({"spec": spec}));
            assert_eq!(found.first().map(ToString::to_string).as_deref(), Some(expected));
        }
    }

    #[test]
    fn long_sets_are_checked_in_one_pass() {
        let structure = Structure::new(json!({"properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set"},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]},
        }}));
        let count = 400_000;
        let mut set: Vec<Value> = (0..count).map(Value::from).collect();
        set.push(json!(7));
        let map = json!([{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 3}, {"a": 1}]);
        let found = structure.validate(&json!({"set": set, "map": map}));
        let fields: Vec<&str> = found.iter().map(|problem| &*problem.field).collect();
        assert_eq!(fields, ["map[3]", "set[400000]"]);
    }

    #[test]
    fn patterns_are_compiled_once_and_their_size_is_bounded() {
        let structure = Structure::new(json!({"properties": {
            "a": {"type": "string", "pattern": "^[a-z]+$"},
            "b": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
            "huge": {"type": "string", "pattern": "^(((a{100}){100}){100}){100}$"},
            "letters": {"type": "string", "pattern": "^\\p{L}+$"},
        }}));
        assert_eq!(structure.patterns.len(), 2);
        let found = structure
            .validate(&json!({"a": "A", "b": vec!["a"; 100_000], "huge": "x", "letters": "1"}));
        let fields: Vec<&str> = found.iter().map(|problem| &*problem.field).collect();
        assert_eq!(fields, ["a", "letters"]);
    }
}
