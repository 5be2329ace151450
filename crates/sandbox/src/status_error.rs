//! Errors of the API, as Kubernetes `Status` objects.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::field_error::FieldError;

/// Maximum number of problems in a response, and size in bytes after which no more are added. A request may
/// have 100,000 problems with long values.
const PROBLEMS_MAX: usize = 256;
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// Maximum length of one problem in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Truncates a text to [`TEXT_BYTES_MAX`].
fn truncate_text(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
    /// Continue token for the rest of an expired list; empty in all other errors.
    pub continue_token: String,
    /// Details: name, group, kind, causes.
    details: Map<String, Value>,
}

/// Result of an API operation.
pub type ApiResult<T> = Result<T, StatusError>;

/// Turns errors with one of these status codes into success, and drops the value.
pub(crate) fn ignore<T>(result: ApiResult<T>, codes: &[u16]) -> ApiResult<()> {
    match result {
        Err(failure) if !codes.contains(&failure.code) => Err(failure),
        _ => Ok(()),
    }
}

/// Name of a resource in messages: `pods` or `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub struct GroupResource<'a> {
    /// API group; empty for the core group.
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
    /// Creates an error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            continue_token: String::new(),
            details: Map::new(),
        }
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

    /// The path does not exist.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// An object with this name exists.
    pub fn already_exists(of: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{of} \"{name}\" already exists")).about(of, name)
    }

    /// A precondition or the state of the object conflicts with the request.
    pub fn conflict(of: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {of} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(of, name)
    }

    /// The resourceVersion is outdated.
    pub fn modified(of: GroupResource<'_>, name: &str) -> Self {
        Self::conflict(
            of,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A rule forbids the request.
    pub fn forbidden(of: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{of} is forbidden: {why}")
        } else {
            format!("{of} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(of, name)
    }

    /// The object is invalid; `kind` is its kind, not its resource.
    pub fn invalid(group: &str, kind: &str, name: &str, problems: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        let (mut bytes, mut included) = (0, 0);
        for problem in problems.iter().take(PROBLEMS_MAX) {
            if bytes >= PROBLEM_BYTES_MAX {
                break;
            }
            let text = truncate_text(problem.to_string());
            included += 1;
            bytes += text.len();
            if seen.insert(text.clone()) {
                texts.push(text);
            }
        }
        if included < problems.len() {
            texts.push(format!("and {} more problems", problems.len() - included));
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
        problems.iter().take(included).fold(failure, |failure, problem| {
            failure.cause(problem.what.reason(), &truncate_text(problem.body()), &problem.field)
        })
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The name of the object differs from the name in the path.
    pub fn other_name(object: &str, path: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({object}) does not match the name on the URL ({path})"
        ))
    }

    /// The resource does not support the method.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// The token is missing or wrong.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The resourceVersion was compacted (410 Gone).
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The resourceVersion is in the future.
    pub fn too_large_version(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        let mut failure = Self::new(504, "Timeout", format!("Timeout: {message}")).cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        );
        failure.details.insert("retryAfterSeconds".to_owned(), 1.into());
        failure
    }

    /// The content type of the body is not supported.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// No supported content type is acceptable to the client.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message)
    }

    /// The body exceeds the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// A disruption budget forbids the eviction.
    pub fn budget(message: &str, seconds: u64) -> Self {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut failure =
            Self::new(429, "TooManyRequests", text).cause("DisruptionBudget", message, "");
        if seconds > 0 {
            failure.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        failure
    }

    /// The server is overloaded.
    pub fn too_many_requests(seconds: u64) -> Self {
        let message = "Too many requests, please try again later.";
        let mut failure = Self::new(429, "TooManyRequests", message);
        failure.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        failure
    }

    /// The server failed.
    pub fn internal(message: &str) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(500, "InternalError", message)
    }

    /// Server-side apply conflicts with other field managers. Each conflict is a manager and a field.
    pub fn apply_conflicts(conflicts: &[(String, String)]) -> Self {
        let head = match conflicts {
            [_] => "Apply failed with 1 conflict".to_owned(),
            all => format!("Apply failed with {} conflicts", all.len()),
        };
        // Conflicts with one manager are adjacent.
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

    /// Returns the seconds after which the client may retry.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// Returns the `Status` object.
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
        if !self.continue_token.is_empty() {
            status["metadata"] = json!({"continue": self.continue_token});
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
    fn messages_about_many_problems_are_bounded() {
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
