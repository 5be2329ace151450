//! Faults on demand, for tests of those who talk to the server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Uri};

use crate::status_error::StatusError;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The answer comes later.
    Delay(Duration),
    /// The request is carried out, and its answer is lost: the connection says nothing for a while.
    DropResponse(Duration),
    /// The request is not carried out, and nobody answers.
    DropRequest(Duration),
    /// A failure of this code, without the request being carried out.
    Fail(u16),
    /// A watch ends after so many pieces.
    CutWatch(usize),
    /// The request is not carried out, and its connection is closed with all that is on it.
    Reset,
    /// A read is answered by a replica that is so many versions behind, as far as changes are remembered.
    Stale(u64),
    /// The request handler panics before the request is carried out.
    Panic,
}

/// Marks an answer in whose place the connection is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset;

/// Which requests a fault meets.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Method; `None` for all.
    pub method: Option<Method>,
    /// Text that the path and query hold.
    pub path: String,
    /// One in so many requests, counted from the first; 0 counts as 1.
    pub every: u64,
    /// At most so many times.
    pub times: u64,
    /// What happens to them.
    pub fault: Fault,
}

/// All rules at work. They can be changed at any time.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<(FaultRule, u64, u64)>>);

impl Faults {
    /// Adds a rule.
    pub fn add(&self, rule: FaultRule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((rule, 0, 0));
    }

    /// Forgets all rules.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What happens to a request, if anything.
    pub(crate) fn meet(&self, method: &Method, uri: &Uri) -> Option<Fault> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The failure of a code, with upstream's words.
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
        code => StatusError::new(
            code,
            "InternalError",
            "Internal error occurred: a fault was asked for",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_meet_every_so_many_requests() {
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
