//! Counts of requests, for `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use http::Method;

use super::routes::{RequestHead, RequestInfo};
use crate::lock::lock;

/// Number of responses by their labels, formatted as on the metrics page. The number of series is bounded
/// by kinds, subresources, verbs and status codes.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<String, u64>>);

impl RequestCounts {
    /// Counts a response.
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
        *lock(&self.0).entry(labels).or_default() += 1;
    }

    /// Returns the metrics page, with upstream's metric name.
    pub(super) fn page(&self) -> String {
        let mut page = String::from(
            "# HELP apiserver_request_total [STABLE] Number of answered requests, by verb, group, version, resource, subresource and code.\n# TYPE apiserver_request_total counter\n",
        );
        for (labels, count) in &*lock(&self.0) {
            let _ = writeln!(page, "apiserver_request_total{{{labels}}} {count}");
        }
        page
    }
}

/// Returns upstream's verb of a request.
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
