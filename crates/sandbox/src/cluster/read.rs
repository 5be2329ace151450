//! Lists by namespace, selectors and pages.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use super::Cluster;
use crate::json::text;
use crate::kinds::Resource;
use crate::selector::Selector;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{Listing, Object};

/// Selection and consistency of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Label selector.
    pub labels: Selector,
    /// Field selector.
    pub fields: Selector,
    /// Maximum number of objects; 0 means all.
    pub limit: usize,
    /// Continue token of the previous page.
    pub continue_token: String,
    /// The requested resourceVersion.
    pub version: String,
    /// The parameter `resourceVersionMatch`: `Exact`, `NotOlderThan`, or empty.
    pub version_match: String,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The resourceVersion of the list.
    pub version: u64,
    /// The objects.
    pub objects: Vec<Arc<Object>>,
    /// Continue token of the next page; empty on the last page.
    pub continue_token: String,
    /// Number of objects after this page, if known.
    pub remaining: Option<usize>,
}

impl Cluster {
    /// Lists objects of one namespace, or of all.
    pub fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        query: &ListOptions,
    ) -> ApiResult<Page> {
        check_fields(resource, &query.fields)?;
        let prefix = resource.prefix(namespace);
        let (start, listing) = if query.continue_token.is_empty() {
            (String::new(), self.listing(resource, &prefix, query)?)
        } else {
            let (version, start) = read_token(&query.continue_token)?;
            let listing = match version {
                // A token without version continues with the current objects.
                0 => resource.objects.list(&prefix),
                version => {
                    resource.objects.list_at(&prefix, version).map_err(|_| expired_token(&start))?
                }
            };
            (start, listing)
        };
        let Listing { version, objects } = listing;
        let everything = query.labels.is_empty() && query.fields.is_empty();
        let mut selected = objects.into_iter().filter(|object| {
            *object.key > *start
                && (everything
                    || (query.labels.matches(object.labels())
                        && query.fields.matches(object.fields())))
        });
        if query.limit == 0 {
            return Ok(Page {
                version,
                objects: selected.collect(),
                continue_token: String::new(),
                remaining: None,
            });
        }
        let objects: Vec<Arc<Object>> = selected.by_ref().take(query.limit).collect();
        let left = selected.count();
        let continue_token = match objects.last() {
            Some(last) if left > 0 => token(version, &last.key),
            _ => String::new(),
        };
        // As upstream, the count is only set without selectors.
        let remaining = (left > 0 && everything).then_some(left);
        Ok(Page { version, objects, continue_token, remaining })
    }

    fn listing(
        &self,
        resource: &Resource,
        prefix: &str,
        query: &ListOptions,
    ) -> ApiResult<Listing> {
        let current = self.store.version();
        let version = parse_version(&query.version)?;
        match (&*query.version_match, version) {
            ("" | "NotOlderThan", _) if version.is_none_or(|version| version <= current) => {}
            ("Exact", Some(version)) if version > 0 && version <= current => {
                return resource.objects.list_at(prefix, version).map_err(|expired| {
                    StatusError::expired(format!(
                        "The resourceVersion for the provided list is too old: {version} (oldest is {})",
                        expired.oldest
                    ))
                });
            }
            ("" | "NotOlderThan" | "Exact", Some(version)) if version > current => {
                return Err(StatusError::too_large_version(version, current));
            }
            ("Exact", _) => {
                return Err(StatusError::invalid(
                    "",
                    "ListOptions",
                    "",
                    &[crate::field_error::FieldError::forbidden(
                        "resourceVersionMatch",
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    )],
                ));
            }
            (other, _) => {
                return Err(StatusError::invalid(
                    "",
                    "ListOptions",
                    "",
                    &[crate::field_error::FieldError::not_supported(
                        "resourceVersionMatch",
                        other,
                        &["Exact", "NotOlderThan", ""],
                    )],
                ));
            }
        }
        // Uses the index of its collection, such as pods by node.
        if let Some(value) = resource.objects.indexed().and_then(|name| query.fields.exactly(name))
            && !value.is_empty()
        {
            let mut listing = resource.objects.by_field(value);
            listing.objects.retain(|object| object.key.starts_with(prefix));
            return Ok(listing);
        }
        Ok(resource.objects.list(prefix))
    }
}

/// Parses the resourceVersion of a request; `None` if it is empty.
pub(crate) fn parse_version(text: &str) -> ApiResult<Option<u64>> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        StatusError::invalid(
            "",
            "ListOptions",
            "",
            &[crate::field_error::FieldError::invalid(
                "resourceVersion",
                text,
                "strconv.ParseUint: invalid syntax",
            )],
        )
    })
}

/// Rejects field selectors that the kind does not support.
pub(crate) fn check_fields(resource: &Resource, fields: &Selector) -> ApiResult<()> {
    for key in fields.keys() {
        if !resource.objects.fields().iter().any(|path| path.name == key) {
            return Err(StatusError::bad_request(format!("field label not supported: {key}")));
        }
    }
    Ok(())
}

fn token(version: u64, key: &str) -> String {
    let text = json!({"v": "meta.k8s.io/v1", "rv": version, "start": key}).to_string();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

fn read_token(token: &str) -> ApiResult<(u64, String)> {
    let wrong = || {
        StatusError::bad_request(
            "continue key is not valid: it must come from the metadata of an earlier list",
        )
    };
    let bytes =
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    let version = value.get("rv").and_then(Value::as_u64).ok_or_else(wrong)?;
    let start = text(&value, &["start"]);
    if start.is_empty() {
        return Err(wrong());
    }
    Ok((version, start.to_owned()))
}

fn expired_token(start: &str) -> StatusError {
    let mut failure = StatusError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    failure.continue_token = token(0, start);
    failure
}
