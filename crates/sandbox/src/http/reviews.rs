//! Reviews of authentication and authorisation. The only user may do everything.

use http::Response;
use serde_json::{Value, json};

use super::ServerState;
use super::response::{Body, json_value};
use super::routes::RequestInfo;
use crate::json::{slot, text};
use crate::status_error::{ApiResult, StatusError};

const USER: &str = "jindou";

fn user() -> Value {
    json!({"username": USER, "uid": "jindou", "groups": ["system:masters", "system:authenticated"]})
}

/// Answers a review.
pub(super) fn answer(
    shared: &ServerState,
    info: &RequestInfo,
    object: &Value,
) -> ApiResult<Response<Body>> {
    let kind = &info.resource.kind;
    let mut review = object.clone();
    if !review.is_object() {
        return Err(StatusError::bad_request("the body must be a review"));
    }
    review["apiVersion"] = kind.api_version().into();
    review["kind"] = kind.kind.as_ref().into();
    let status = match &*kind.plural {
        "selfsubjectreviews" => json!({"userInfo": user()}),
        "tokenreviews" => {
            let known = text(object, &["spec", "token"]) == shared.token;
            if known {
                json!({"authenticated": true, "user": user()})
            } else {
                json!({"authenticated": false, "error": "the token is not known", "user": {}})
            }
        }
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "subjectaccessreviews" | "localsubjectaccessreviews" => {
            let groups = crate::json::list(object, &["spec", "groups"]);
            let allowed = text(object, &["spec", "user"]) == USER
                || groups.iter().any(|group| group == "system:masters");
            json!({"allowed": allowed})
        }
        _ => json!({"allowed": true}),
    };
    *slot(&mut review, &["status"]) = status;
    Ok(json_value(201, &review))
}
