//! How many requests were answered, by what they were about.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use http::Method;

use super::routes::{RequestHead, RequestInfo};

/// Counts of answers by their labels, in the form of the page that shows them. There are as many as
/// kinds, subresources, verbs and codes allow.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<String, u64>>);

impl RequestCounts {
    /// Counts an answer.
    pub(super) fn add(&self, head: &RequestHead, info: &RequestInfo, code: u16) {
        let kind = &info.resource.kind;
        let labels = format!(
            "verb=\"{}\",group=\"{}\",version=\"{}\",resource=\"{}\",subresource=\"{}\",code=\"{code}\"",
            verb(head, info),
            kind.group,
            kind.version,
            kind.plural,
            info.subresource
        );
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default() += 1;
    }

    /// As upstream's page has them.
    pub(super) fn page(&self) -> String {
        let mut page = String::from(
            "# HELP apiserver_request_total [STABLE] Number of answered requests, by verb, group, version, resource, subresource and code.\n# TYPE apiserver_request_total counter\n",
        );
        for (labels, count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(page, "apiserver_request_total{{{labels}}} {count}");
        }
        page
    }
}

/// Upstream's word for what is asked.
fn verb(head: &RequestHead, info: &RequestInfo) -> &'static str {
    match head.method {
        Method::GET if head.query.truth("watch") => "WATCH",
        Method::GET if info.name.is_none() => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE if info.name.is_none() => "DELETECOLLECTION",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}
