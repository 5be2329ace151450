//! What is wrong with a field.

use std::fmt;

use serde_json::Value;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// What is wrong with it.
    pub what: What,
}

/// Kinds of problems, by upstream's names.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A value is needed.
    Required(String),
    /// The value is none that is allowed here.
    Invalid(Value, String),
    /// The value is none of those that exist.
    NotSupported(Value, Vec<String>),
    /// The value is there twice.
    Duplicate(Value),
    /// The field must not be set.
    Forbidden(String),
    /// The text is too long.
    TooLong(usize),
    /// The object or list is too large.
    TooMany(usize, usize),
}

impl What {
    /// The reason in a cause.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Required(_) => "FieldValueRequired",
            Self::Invalid(..) => "FieldValueInvalid",
            Self::NotSupported(..) => "FieldValueNotSupported",
            Self::Duplicate(_) => "FieldValueDuplicate",
            Self::Forbidden(_) => "FieldValueForbidden",
            Self::TooLong(_) => "FieldValueTooLong",
            Self::TooMany(..) => "FieldValueTooMany",
        }
    }
}

impl Problem {
    /// A value is needed.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), what: What::Required(detail.to_owned()) }
    }

    /// The value is none that is allowed here.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: &str) -> Self {
        Self { field: field.into(), what: What::Invalid(value.into(), detail.to_owned()) }
    }

    /// The value is none of those that exist.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let supported = supported.iter().map(|&one| one.to_owned()).collect();
        Self { field: field.into(), what: What::NotSupported(value.into(), supported) }
    }

    /// The field must not be set.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), what: What::Forbidden(detail.to_owned()) }
    }

    /// The value is there twice.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { field: field.into(), what: What::Duplicate(value.into()) }
    }

    /// The problem without its field.
    pub fn body(&self) -> String {
        let with = |head: &str, detail: &str| {
            if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
        };
        match &self.what {
            What::Required(detail) => with("Required value", detail),
            What::Invalid(value, detail) => {
                with(&format!("Invalid value: {}", shown(value)), detail)
            }
            What::NotSupported(value, supported) => {
                let quoted: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
                let head = format!("Unsupported value: {}", shown(value));
                format!("{head}: supported values: {}", quoted.join(", "))
            }
            What::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            What::Forbidden(detail) => with("Forbidden", detail),
            What::TooLong(max) => format!("Too long: may not be more than {max} bytes"),
            What::TooMany(have, max) => {
                format!("Too many: {have}: must have at most {max} items")
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_read_as_upstreams_do() {
        for (problem, text) in [
            (Problem::required("spec.a", ""), "spec.a: Required value"),
            (Problem::invalid("a", "x", "must be y"), "a: Invalid value: \"x\": must be y"),
            (Problem::invalid("a", -1, "must be y"), "a: Invalid value: -1: must be y"),
            (
                Problem::not_supported("a", "x", &["b", "c"]),
                "a: Unsupported value: \"x\": supported values: \"b\", \"c\"",
            ),
            (Problem::forbidden("a", "no"), "a: Forbidden: no"),
            (Problem::duplicate("a", "x"), "a: Duplicate value: \"x\""),
        ] {
            assert_eq!(problem.to_string(), text);
        }
    }
}
