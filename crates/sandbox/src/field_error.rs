//! Validation problems of fields.

use std::fmt;

use serde_json::Value;

/// A validation problem of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// The problem.
    pub what: FieldErrorKind,
}

/// Kinds of problems, by upstream's names.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldErrorKind {
    /// A required value is missing.
    Required(String),
    /// The value is not allowed.
    Invalid(Value, String),
    /// The value is not one of the supported ones.
    NotSupported(Value, Vec<String>),
    /// The value occurs twice.
    Duplicate(Value),
    /// The field must not be set.
    Forbidden(String),
    /// The text is longer than this many bytes.
    TooLong(usize),
    /// The object or list has more members than allowed: actual number, maximum.
    TooMany(usize, usize),
}

impl FieldErrorKind {
    /// Returns the reason of a cause in a `Status`.
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

impl FieldError {
    /// A required value is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), what: FieldErrorKind::Required(detail.to_owned()) }
    }

    /// The value is not allowed.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: &str) -> Self {
        Self { field: field.into(), what: FieldErrorKind::Invalid(value.into(), detail.to_owned()) }
    }

    /// The value is not one of the supported ones.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let supported = supported.iter().map(|&one| one.to_owned()).collect();
        Self { field: field.into(), what: FieldErrorKind::NotSupported(value.into(), supported) }
    }

    /// The field must not be set.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), what: FieldErrorKind::Forbidden(detail.to_owned()) }
    }

    /// The value occurs twice.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { field: field.into(), what: FieldErrorKind::Duplicate(value.into()) }
    }

    /// Returns the message without the field.
    pub fn body(&self) -> String {
        let with = |head: &str, detail: &str| {
            if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
        };
        match &self.what {
            FieldErrorKind::Required(detail) => with("Required value", detail),
            FieldErrorKind::Invalid(value, detail) => {
                with(&format!("Invalid value: {}", shown(value)), detail)
            }
            FieldErrorKind::NotSupported(value, supported) => {
                let quoted: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
                let head = format!("Unsupported value: {}", shown(value));
                format!("{head}: supported values: {}", quoted.join(", "))
            }
            FieldErrorKind::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            FieldErrorKind::Forbidden(detail) => with("Forbidden", detail),
            FieldErrorKind::TooLong(max) => format!("Too long: may not be more than {max} bytes"),
            FieldErrorKind::TooMany(have, max) => {
                format!("Too many: {have}: must have at most {max} items")
            }
        }
    }
}

impl fmt::Display for FieldError {
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
    fn messages_are_upstreams() {
        for (problem, text) in [
            (FieldError::required("spec.a", ""), "spec.a: Required value"),
            (FieldError::invalid("a", "x", "must be y"), "a: Invalid value: \"x\": must be y"),
            (FieldError::invalid("a", -1, "must be y"), "a: Invalid value: -1: must be y"),
            (
                FieldError::not_supported("a", "x", &["b", "c"]),
                "a: Unsupported value: \"x\": supported values: \"b\", \"c\"",
            ),
            (FieldError::forbidden("a", "no"), "a: Forbidden: no"),
            (FieldError::duplicate("a", "x"), "a: Duplicate value: \"x\""),
        ] {
            assert_eq!(problem.to_string(), text);
        }
    }
}
