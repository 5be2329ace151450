//! Schemas of built-in kinds: their fields and types.
//!
//! They are the schemas that `k8s-openapi` generates, parsed once. They validate requests and are served as
//! OpenAPI.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::kinds::{Kind, SchemaSource, TABLE};
use crate::quantity::Quantity;

/// All schemas by name, such as `io.k8s.api.core.v1.Pod`.
pub(crate) static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::new);

/// Name of the schema of metadata.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const LARGE: f64 = 9.3e18;

pub(crate) struct Schemas {
    /// The schemas as in `components.schemas` of OpenAPI.
    pub(crate) definitions: Map<String, Value>,
    shapes: Vec<Struct>,
    by_name: HashMap<String, usize>,
    /// Schema name of each kind, by `apiVersion` and kind.
    by_kind: HashMap<(String, String), String>,
}

#[derive(Debug)]
struct Struct {
    name: String,
    fields: HashMap<String, Field>,
}

#[derive(Debug)]
struct Field {
    shape: Shape,
    required: bool,
}

#[derive(Clone, Debug)]
enum Shape {
    Anything,
    Bool,
    Int(u8),
    Float,
    Text,
    Bytes,
    Time,
    Quantity,
    IntOrText,
    Struct(usize),
    Map(Box<Shape>),
    List(Box<Shape>),
}

/// Result of the check of an object.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Paths of unknown fields, in order.
    pub(crate) unknown: Vec<String>,
    /// Message about the first value of a wrong type.
    pub(crate) wrong: Option<String>,
    quantities: Quantities,
}

/// Treatment of quantities that are not in canonical form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Quantities {
    /// They are converted to it.
    #[default]
    Canonical,
    /// They stay as written, which server-side apply compares.
    AsWritten,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::openapi3().with(|settings| settings.meta_schema = None);
        let mut generator = SchemaGenerator::new(settings);
        let mut by_kind = HashMap::new();
        for kind in TABLE.iter().map(crate::kinds::kind_of) {
            let SchemaSource::Types(schema) = &kind.schema else { continue };
            let schema = schema(&mut generator).to_value();
            let name =
                schema.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next());
            let name = name.unwrap_or_default().to_owned();
            by_kind.insert((kind.api_version(), kind.kind.to_string()), name);
        }
        generator.subschema_for::<k8s_openapi::api::core::v1::Binding>();
        generator.subschema_for::<k8s_openapi::api::policy::v1::Eviction>();
        generator.subschema_for::<k8s_openapi::api::autoscaling::v1::Scale>();
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions>();
        let definitions = generator.take_definitions(true);
        let names: Vec<&String> = definitions.keys().collect();
        let by_name: HashMap<String, usize> =
            names.iter().enumerate().map(|(index, name)| ((*name).clone(), index)).collect();
        let shapes =
            definitions.iter().map(|(name, schema)| read(name, schema, &by_name)).collect();
        Self { definitions, shapes, by_name, by_kind }
    }

    /// Returns the schema name of a kind.
    pub(crate) fn name_of(&self, kind: &Kind) -> Option<&str> {
        self.by_kind.get(&(kind.api_version(), kind.kind.to_string())).map(|name| &**name)
    }

    /// Returns `true` if the schema exists and has no field of this name.
    pub(crate) fn lacks(&self, name: &str, field: &str) -> bool {
        self.by_name.get(name).is_some_and(|index| !self.shapes[*index].fields.contains_key(field))
    }

    /// Checks an object against a schema: removes unknown and null fields, converts quantities to canonical
    /// form, and reports unknown fields and wrong types.
    pub(crate) fn check(&self, name: &str, object: &mut Value, quantities: Quantities) -> Report {
        let mut report = Report { quantities, ..Report::default() };
        if let Some(shape) = self.by_name.get(name) {
            let mut path = String::new();
            self.walk(&Shape::Struct(*shape), object, &mut path, "", &mut report);
        }
        report
    }

    /// Checks a value; `of` is the Go type around it, for messages.
    fn walk(
        &self,
        shape: &Shape,
        value: &mut Value,
        path: &mut String,
        of: &str,
        report: &mut Report,
    ) {
        match (shape, &mut *value) {
            (Shape::Anything, _) | (Shape::Bool, Value::Bool(_)) => {}
            (Shape::Text | Shape::Bytes, Value::String(_)) => {}
            (Shape::IntOrText, Value::String(_)) => {}
            (Shape::Float, Value::Number(_)) => {}
            (Shape::Int(bits), Value::Number(number)) => {
                // JSON allows integers with a fraction of zero.
                if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                    && float.fract() == 0.0
                    && float.abs() < LARGE
                {
                    *value = Value::from(float as i64);
                } else if number.as_i64().is_none_or(|n| *bits == 32 && i32::try_from(n).is_err()) {
                    let shown = format!("number {number}");
                    wrong(&shown, shape, path, of, self, report);
                }
            }
            (Shape::IntOrText, Value::Number(number)) if number.as_i64().is_some() => {}
            (Shape::Time, Value::String(text)) => {
                if text.parse::<jiff::Timestamp>().is_err() && report.wrong.is_none() {
                    report.wrong = Some(format!(
                        "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
                    ));
                }
            }
            (Shape::Quantity, Value::String(text)) => match Quantity::parse(text) {
                Some(_) if report.quantities == Quantities::AsWritten => {}
                Some(quantity) => *value = quantity.to_string().into(),
                None if report.wrong.is_none() => {
                    report.wrong = Some("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned());
                }
                None => {}
            },
            (Shape::Quantity, Value::Number(number)) => {
                if let Some(quantity) = Quantity::parse(&number.to_string()) {
                    *value = quantity.to_string().into();
                }
            }
            (Shape::Struct(index), Value::Object(members)) => {
                self.walk_struct(*index, members, path, report);
            }
            (Shape::Map(inner), Value::Object(members)) => {
                for (key, member) in members.iter_mut() {
                    let length = push(path, key);
                    self.walk(inner, member, path, of, report);
                    path.truncate(length);
                }
            }
            (Shape::List(inner), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let length = path.len();
                    let _ = write!(path, "[{index}]");
                    self.walk(inner, item, path, of, report);
                    path.truncate(length);
                }
            }
            (_, Value::Null) => {}
            (_, other) => {
                let shown = type_name(other);
                wrong(shown, shape, path, of, self, report);
            }
        }
    }

    fn walk_struct(
        &self,
        index: usize,
        members: &mut Map<String, Value>,
        path: &mut String,
        report: &mut Report,
    ) {
        let Struct { name, fields } = &self.shapes[index];
        let short = name.rsplit('.').next().unwrap_or_default();
        let mut dropped: Vec<String> = Vec::new();
        for (key, member) in members.iter_mut() {
            let Some(field) = fields.get(key) else {
                dropped.push(key.clone());
                let length = push(path, key);
                report.unknown.push(path.clone());
                path.truncate(length);
                continue;
            };
            let length = push(path, key);
            self.walk(&field.shape, member, path, short, report);
            path.truncate(length);
            let empty = match (&field.shape, &*member) {
                (_, Value::Null) => true,
                (Shape::List(_), Value::Array(items)) => items.is_empty() && !field.required,
                (Shape::Map(_), Value::Object(members)) => members.is_empty() && !field.required,
                _ => false,
            };
            if empty {
                dropped.push(key.clone());
            }
        }
        for key in dropped {
            members.remove(&key);
        }
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::Anything => "interface {}".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Int(bits) => format!("int{bits}"),
            Shape::Float => "float64".to_owned(),
            Shape::Text | Shape::Time => "string".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Quantity => "resource.Quantity".to_owned(),
            Shape::IntOrText => "intstr.IntOrString".to_owned(),
            Shape::Map(inner) => format!("map[string]{}", self.go_type(inner)),
            Shape::List(inner) => format!("[]{}", self.go_type(inner)),
            Shape::Struct(index) => {
                let mut parts = self.shapes[*index].name.rsplit('.');
                let (kind, version) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
                format!("{version}.{kind}")
            }
        }
    }
}

fn push(path: &mut String, name: &str) -> usize {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(name);
    length
}

fn wrong(shown: &str, shape: &Shape, path: &str, of: &str, schemas: &Schemas, report: &mut Report) {
    if report.wrong.is_none() {
        let plain: String = without_indexes(path);
        report.wrong = Some(format!(
            "json: cannot unmarshal {shown} into Go struct field {of}.{plain} of type {}",
            schemas.go_type(shape)
        ));
    }
}

/// Removes list indexes from a path, as messages of Go's decoder do.
fn without_indexes(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut inside = false;
    for character in path.chars() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            other if !inside => plain.push(other),
            _ => {}
        }
    }
    plain
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn read(name: &str, schema: &Value, by_name: &HashMap<String, usize>) -> Struct {
    let required: Vec<&str> =
        crate::json::list(schema, &["required"]).iter().filter_map(Value::as_str).collect();
    let fields = crate::json::map(schema, &["properties"]).map(|(key, schema)| {
        let required = required.contains(&&**key);
        (key.clone(), Field { shape: shape(schema, by_name), required })
    });
    Struct { name: name.to_owned(), fields: fields.collect() }
}

fn shape(schema: &Value, by_name: &HashMap<String, usize>) -> Shape {
    let reference = schema.get("$ref").and_then(Value::as_str).or_else(|| {
        // A reference with a description is wrapped in `allOf`.
        schema.get("allOf")?.get(0)?.get("$ref")?.as_str()
    });
    if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
        return named(name, by_name);
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return Shape::IntOrText;
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), text("format")) {
        ("boolean", _) => Shape::Bool,
        ("integer", "int32") => Shape::Int(32),
        ("integer", _) => Shape::Int(64),
        ("number", _) => Shape::Float,
        ("string", "date-time") => Shape::Time,
        ("string", "byte") => Shape::Bytes,
        ("string", _) => Shape::Text,
        ("array", _) => {
            let items = schema.get("items").map_or(Shape::Anything, |items| shape(items, by_name));
            Shape::List(Box::new(items))
        }
        ("object", _) => match schema.get("additionalProperties") {
            Some(inner) => Shape::Map(Box::new(shape(inner, by_name))),
            None => Shape::Anything,
        },
        _ => Shape::Anything,
    }
}

fn named(name: &str, by_name: &HashMap<String, usize>) -> Shape {
    let short = name.rsplit('.').next().unwrap_or_default();
    match short {
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrText,
        "Time" | "MicroTime" if name.starts_with(META) => Shape::Time,
        "FieldsV1" | "RawExtension" => Shape::Anything,
        _ if short.starts_with("JSONSchemaPropsOr") || short == "JSON" => Shape::Anything,
        _ => by_name.get(name).map_or(Shape::Anything, |index| Shape::Struct(*index)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POD: &str = "io.k8s.api.core.v1.Pod";

    #[test]
    fn every_kind_of_the_table_has_a_schema() {
        for kind in TABLE.iter().map(crate::kinds::kind_of) {
            let name = SCHEMAS.name_of(&kind).unwrap_or_default();
            assert!(SCHEMAS.by_name.contains_key(name), "{} {name:?}", kind.kind);
        }
    }

    #[test]
    fn unknown_fields_are_found_and_dropped() {
        let mut pod = json!({"metadata": {"name": "a", "creationTimestamp": null}, "spec": {
            "containers": [{"name": "a", "imagee": "x"}], "volumes": [], "nonsense": 1}});
        let report = SCHEMAS.check(POD, &mut pod, Quantities::Canonical);
        assert_eq!(report.unknown, ["spec.containers[0].imagee", "spec.nonsense"]);
        assert_eq!(report.wrong, None);
        assert_eq!(
            pod,
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}]}})
        );
    }

    #[test]
    fn wrong_types_are_reported_with_their_path() {
        let mut pod = json!({"spec": {"containers": [{"name": 5}]}});
        let report = SCHEMAS.check(POD, &mut pod, Quantities::Canonical);
        let message = "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string";
        assert_eq!(report.wrong.as_deref(), Some(message));
    }

    #[test]
    fn quantities_become_canonical() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {
            "cpu": "1000m", "memory": 1024, "x/y": "0.5"}}}]}});
        assert!(SCHEMAS.check(POD, &mut pod, Quantities::Canonical).wrong.is_none());
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "1", "memory": "1024", "x/y": "500m"}));
    }
}
