//! What went wrong, as a Kubernetes `Status`.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::field_error::FieldError;

/// Problems that one answer names, and bytes after which it names no more. A request may have a hundred
/// thousand, each with a long value.
const PROBLEMS_MAX: usize = 256;
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// Bytes of one problem.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// A text that is not longer than the limit.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// An answer other than success.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusError {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Where an expired list can go on; empty for all other failures.
    pub next: String,
    /// What the failure is about: name, group, kind, causes.
    details: Map<String, Value>,
}

/// A result of the API.
pub type ApiResult<T> = Result<T, StatusError>;

/// Names a resource in messages: `pods` or `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub struct GroupResource<'a> {
    /// API group; empty for the core.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl StatusError {
    /// A failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), next: String::new(), details: Map::new() }
    }

    fn about(mut self, of: GroupResource<'_>, name: &str) -> Self {
        if !name.is_empty() {
            self.details.insert("name".to_owned(), name.into());
        }
        if !of.group.is_empty() {
            self.details.insert("group".to_owned(), of.group.into());
        }
        self.details.insert("kind".to_owned(), of.resource.into());
        self
    }

    fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        if let Value::Array(causes) =
            self.details.entry("causes").or_insert_with(|| Value::Array(Vec::new()))
        {
            causes.push(cause);
        }
        self
    }

    /// The object does not exist.
    pub fn not_found(of: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{of} \"{name}\" not found")).about(of, name)
    }

    /// Nothing is served at this path.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// The name is taken.
    pub fn already_exists(of: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{of} \"{name}\" already exists")).about(of, name)
    }

    /// The request contradicts what is.
    pub fn conflict(of: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {of} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(of, name)
    }

    /// The write was made from an old version.
    pub fn modified(of: GroupResource<'_>, name: &str) -> Self {
        Self::conflict(
            of,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Rules forbid it.
    pub fn forbidden(of: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{of} is forbidden: {why}")
        } else {
            format!("{of} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(of, name)
    }

    /// The object breaks rules; `kind` is its kind, not its resource.
    pub fn invalid(group: &str, kind: &str, name: &str, problems: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        let (mut bytes, mut told) = (0, 0);
        for problem in problems.iter().take(PROBLEMS_MAX) {
            if bytes >= PROBLEM_BYTES_MAX {
                break;
            }
            let text = cut(problem.to_string());
            told += 1;
            bytes += text.len();
            if seen.insert(text.clone()) {
                texts.push(text);
            }
        }
        if told < problems.len() {
            texts.push(format!("and {} more problems", problems.len() - told));
        }
        let shown = match &*texts {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let mut qualified = kind.to_owned();
        if !group.is_empty() {
            let _ = write!(qualified, ".{group}");
        }
        let message = format!("{qualified} \"{name}\" is invalid: {shown}");
        let failure =
            Self::new(422, "Invalid", message).about(GroupResource { group, resource: kind }, name);
        problems.iter().take(told).fold(failure, |failure, problem| {
            failure.cause(problem.what.reason(), &cut(problem.body()), &problem.field)
        })
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The object is called otherwise than the path says.
    pub fn other_name(object: &str, path: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({object}) does not match the name on the URL ({path})"
        ))
    }

    /// The resource does not do that.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// Nobody that we know.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The version is too old to watch or list from.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The version is in the future.
    pub fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut failure = Self::new(504, "Timeout", format!("Timeout: {message}")).cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        );
        failure.details.insert("retryAfterSeconds".to_owned(), 1.into());
        failure
    }

    /// A body in no form that is understood.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// No form that the client takes.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message)
    }

    /// The body is larger than the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// A disruption budget says no.
    pub fn budget(message: &str, seconds: u64) -> Self {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut failure =
            Self::new(429, "TooManyRequests", text).cause("DisruptionBudget", message, "");
        if seconds > 0 {
            failure.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        failure
    }

    /// The server has too much to do.
    pub fn too_many_requests(seconds: u64) -> Self {
        let message = "Too many requests, please try again later.";
        let mut failure = Self::new(429, "TooManyRequests", message);
        failure.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        failure
    }

    /// Something that should work did not.
    pub fn internal(message: &str) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(500, "InternalError", message)
    }

    /// Server-side apply would take fields from other managers.
    pub fn apply_conflicts(conflicts: &[(String, String)]) -> Self {
        let head = match conflicts {
            [_] => "Apply failed with 1 conflict".to_owned(),
            all => format!("Apply failed with {} conflicts", all.len()),
        };
        // The conflicts with one manager follow each other.
        let by_manager: Vec<&[(String, String)]> =
            conflicts.chunk_by(|(one, _), (other, _)| one == other).collect();
        let body = match &*by_manager {
            [[(manager, field)]] => format!("conflict with {manager}: {field}"),
            [fields @ [(manager, _), ..]] => {
                let fields: Vec<String> =
                    fields.iter().map(|(_, field)| format!("- {field}")).collect();
                format!("conflicts with {manager}:\n{}", fields.join("\n"))
            }
            all => {
                let mut text = String::new();
                for fields in all {
                    if let [(manager, _), ..] = fields {
                        let _ = write!(text, "conflicts with {manager}:");
                    }
                    for (_, field) in *fields {
                        let _ = write!(text, "\n- {field}");
                    }
                    text.push('\n');
                }
                text.trim_end().to_owned()
            }
        };
        let failure = Self::new(409, "Conflict", format!("{head}: {body}"));
        conflicts.iter().fold(failure, |failure, (manager, field)| {
            failure.cause("FieldManagerConflict", &format!("conflict with {manager}"), field)
        })
    }

    /// Seconds that the client should wait.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The `Status` object.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if !self.next.is_empty() {
            status["metadata"] = json!({"continue": self.next});
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_many_problems_are_short() {
        let many: Vec<FieldError> = (0..100_000)
            .map(|n| FieldError::invalid("metadata.annotations", format!("Ä{n}"), "no"))
            .collect();
        let long = FieldError::invalid("spec.x", "ä".repeat(1 << 20), "too long");
        for (problems, end) in [
            (many, "and 99744 more problems]"),
            (vec![long; 1000], "and 992 more problems]"),
            (vec![FieldError::required("a", ""); 200], "a: Required value"),
        ] {
            let failure = StatusError::invalid("", "Pod", "p", &problems);
            assert!(
                failure.message.ends_with(end),
                "{}",
                &failure.message[failure.message.len() - 40..]
            );
            let bytes = failure.to_json().to_string().len();
            assert!(bytes < 1 << 18, "{bytes}");
        }
    }
}
