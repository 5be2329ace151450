//! Fault injection, for tests of clients.

use std::sync::Mutex;
use std::time::Duration;

use http::{Method, Uri};

use crate::lock::lock;
use crate::status_error::StatusError;

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The response is delayed.
    Delay(Duration),
    /// The request is executed, and its response is withheld for this long.
    DropResponse(Duration),
    /// The request is not executed, and no response is sent for this long.
    DropRequest(Duration),
    /// The request is not executed and fails with this status code.
    Fail(u16),
    /// A watch ends after this number of chunks.
    CutWatch(usize),
    /// The request is not executed, and its connection is closed with all streams on it.
    Reset,
    /// A read is answered as of this number of versions ago, as far as the watch cache reaches.
    Stale(u64),
    /// The request handler panics before the request is executed.
    Panic,
}

/// Extension of a response that makes the server close the connection instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset;

/// Selects the requests that a fault applies to.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Method; `None` for all.
    pub method: Option<Method>,
    /// Substring of path and query.
    pub path: String,
    /// Applies to every n-th request, starting with the first; 0 counts as 1.
    pub every: u64,
    /// Maximum number of faults.
    pub times: u64,
    /// The fault.
    pub fault: Fault,
}

/// The active rules. They can be changed at any time.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<(FaultRule, u64, u64)>>);

impl Faults {
    /// Adds a rule.
    pub fn add(&self, rule: FaultRule) {
        lock(&self.0).push((rule, 0, 0));
    }

    /// Removes all rules.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Returns the fault of a request, if any.
    pub(crate) fn meet(&self, method: &Method, uri: &Uri) -> Option<Fault> {
        let mut rules = lock(&self.0);
        if rules.is_empty() {
            return None;
        }
        let path_and_query = uri.to_string();
        for (rule, seen, done) in rules.iter_mut() {
            let met = rule.method.as_ref().is_none_or(|wanted| wanted == method)
                && path_and_query.contains(&rule.path);
            if !met || *done >= rule.times {
                continue;
            }
            *seen += 1;
            if (*seen - 1).is_multiple_of(rule.every.max(1)) {
                *done += 1;
                return Some(rule.fault.clone());
            }
        }
        None
    }
}

/// Returns the error of a status code, with upstream's message.
pub(crate) fn failure(code: u16) -> StatusError {
    match code {
        429 => StatusError::too_many_requests(1),
        503 => StatusError::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => StatusError::new(
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        ),
        code => StatusError::new(code, "InternalError", "Internal error occurred: injected fault"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_to_every_nth_request_up_to_a_maximum() {
        let faults = Faults::default();
        let rule = FaultRule {
            method: Some(Method::POST),
            path: "/binding".to_owned(),
            every: 3,
            times: 2,
            fault: Fault::Fail(500),
        };
        faults.add(rule);
        let uri = Uri::from_static("/pods/a/binding?x");
        let met: Vec<bool> = (0..9).map(|_| faults.meet(&Method::POST, &uri).is_some()).collect();
        assert_eq!(met, [true, false, false, true, false, false, false, false, false]);
        assert_eq!(faults.meet(&Method::GET, &uri), None);
        faults.clear();
        assert_eq!(faults.meet(&Method::POST, &uri), None);
    }
}
