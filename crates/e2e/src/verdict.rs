//! Whether every write was made by the replica that held the lease when etcd committed it.
//!
//! Binds and changes of the lease have revisions, so they are ordered as etcd committed them, without a
//! clock. The sender of other writes is not recorded in the cluster; they count as late if the proxy sent
//! them after the API server had confirmed the release of the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::ledger::{BindRecord, LeaseChange, LedgerState};
use crate::proxy::{RunId, WritePurpose, WriteRecord};

/// Maximum of late writes shown when a scenario fails.
const WRITES_SHOWN_MAX: usize = 10;

/// Result for the writes of all runs.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Binds that were committed while another run, or none, held the lease.
    pub(crate) late_binds: Vec<String>,
    /// Other writes, except events, of runs that had released the lease.
    pub(crate) late_writes: Vec<String>,
    /// Number of events of such runs.
    pub(crate) late_events: usize,
    /// Number of requests to bind, accepted or not, that reached the API server after the watch had
    /// delivered the end of their run's lease.
    pub(crate) stale: usize,
    /// Number of binds whose sender is unknown.
    pub(crate) unknown: usize,
}

impl Verdict {
    pub(crate) fn of(state: &LedgerState, writes: &[WriteRecord]) -> Self {
        let mut verdict = Self::default();
        let runs = runs(writes);
        for bind in &state.binds {
            let Some(run) = binder(bind, writes) else {
                verdict.unknown += 1;
                continue;
            };
            let hold = state.lease_changes.iter().rev().find(|hold| hold.revision < bind.revision);
            let holder = hold.map_or("", |hold| hold.holder.as_str());
            if runs.get(holder) != Some(&run) {
                let BindRecord { pod, node, revision, .. } = bind;
                verdict.late_binds.push(format!(
                    "run {run} bound {pod} to {node} at {revision}, when {} held the lease since {}",
                    runs.get(holder).map_or("no run".to_owned(), |run| format!("run {run}")),
                    hold.map_or(0, |hold| hold.revision),
                ));
            }
        }
        for write in
            writes.iter().filter(|write| matches!(write.purpose, WritePurpose::Bind { .. }))
        {
            let count = state.lease_changes.partition_point(|hold| hold.seen <= write.sent);
            let seen = state.lease_changes[..count].iter().rev();
            let mut held = seen.map(|hold| runs.get(hold.holder.as_str()) == Some(&write.run));
            // A new leader may send a bind before the watch delivers its lease.
            verdict.stale += usize::from(held.next() == Some(false) && held.any(|own| own));
        }
        verdict.judge_others(writes);
        verdict
    }

    /// Fails with all late binds and writes.
    pub(crate) fn check(&self) -> Result<()> {
        let late: Vec<_> = self.late_binds.iter().chain(&self.late_writes).collect();
        let shown: Vec<_> = late.iter().take(WRITES_SHOWN_MAX).map(|text| text.as_str()).collect();
        ensure!(late.is_empty(), "{} late writes, the first:\n{}", late.len(), shown.join("\n"));
        Ok(())
    }

    fn judge_others(&mut self, writes: &[WriteRecord]) {
        let mut given_back: BTreeMap<RunId, Instant> = BTreeMap::new();
        for WriteRecord { run, purpose, answered, .. } in
            writes.iter().filter(|write| write.accepted())
        {
            if let (WritePurpose::Lease { holder }, Some((at, _))) = (purpose, answered)
                && holder.is_empty()
            {
                given_back.insert(*run, *at);
            }
        }
        for write in writes {
            if given_back.get(&write.run).is_none_or(|at| write.sent <= *at) {
                continue;
            }
            match &write.purpose {
                WritePurpose::Event => self.late_events += 1,
                purpose => self.late_writes.push(format!("run {} sent {purpose:?}", write.run)),
            }
        }
    }
}

/// Returns the run of each holder name.
pub(crate) fn runs(writes: &[WriteRecord]) -> BTreeMap<&str, RunId> {
    let mut runs = BTreeMap::new();
    for write in writes {
        if let WritePurpose::Lease { holder } = &write.purpose
            && !holder.is_empty()
        {
            runs.insert(holder.as_str(), write.run);
        }
    }
    runs
}

/// Returns the run whose request bound a pod: the one with a successful response, or else the only one
/// that sent a request.
fn binder(bind: &BindRecord, writes: &[WriteRecord]) -> Option<RunId> {
    let asked = || {
        writes.iter().filter(|write| {
            matches!(&write.purpose, WritePurpose::Bind { pod, node } if (pod, node) == (&bind.pod, &bind.node))
        })
    };
    if let Some(write) = asked().find(|write| write.accepted()) {
        return Some(write.run);
    }
    let runs: BTreeSet<_> = asked().map(|write| write.run).collect();
    if runs.len() == 1 { runs.first().copied() } else { None }
}

/// Returns the times without binds: from the last bind of each leader to the first of the next one.
pub(crate) fn gaps(lease_changes: &[LeaseChange], writes: &[WriteRecord]) -> Vec<Duration> {
    let runs = runs(writes);
    let mut held =
        lease_changes.iter().filter_map(|hold| runs.get(hold.holder.as_str())).collect::<Vec<_>>();
    held.dedup();
    let times = |run: RunId| {
        writes.iter().filter_map(move |write| match (&write.purpose, write.answered) {
            (WritePurpose::Bind { .. }, Some((at, _))) if write.accepted() && write.run == run => {
                Some(at)
            }
            _ => None,
        })
    };
    let pairs = held.windows(2).filter_map(|pair| {
        let last = times(*pair[0]).max()?;
        let next = times(*pair[1]).min()?;
        Some(next.saturating_duration_since(last))
    });
    pairs.collect()
}

/// Returns median and maximum as text.
pub(crate) fn median_and_max(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    match times.last() {
        Some(longest) => format!("median {:.2?}, longest {longest:.2?}", times[times.len() / 2]),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(run: RunId, holder: &str, sent: Instant) -> WriteRecord {
        write(run, WritePurpose::Lease { holder: holder.into() }, sent, 200)
    }

    fn write(run: RunId, purpose: WritePurpose, sent: Instant, status: u16) -> WriteRecord {
        WriteRecord { run, purpose, sent, answered: Some((sent, status)) }
    }

    fn to_bind(pod: &str) -> WritePurpose {
        WritePurpose::Bind { pod: pod.into(), node: "n".into() }
    }

    fn bound(pod: &str, revision: u64) -> BindRecord {
        BindRecord { pod: pod.into(), node: "n".into(), revision }
    }

    fn held(holder: &str, revision: u64) -> LeaseChange {
        LeaseChange { holder: holder.into(), revision, seen: Instant::now() }
    }

    #[test]
    fn a_bind_that_is_committed_after_the_successor_leads_is_late() {
        let now = Instant::now();
        let writes = [
            lease(1, "a", now),
            write(1, to_bind("p"), now, 201),
            // Without a response, because its sender had exited.
            WriteRecord { answered: None, ..write(1, to_bind("q"), now, 0) },
            lease(2, "b", now),
            write(2, to_bind("r"), now, 201),
        ];
        let mut state = LedgerState::default();
        state.lease_changes = vec![held("a", 1), held("b", 5)];
        state.binds = vec![bound("p", 2), bound("q", 4), bound("r", 7)];
        assert!(Verdict::of(&state, &writes).late_binds.is_empty());
        state.binds[1].revision = 6;
        let verdict = Verdict::of(&state, &writes);
        assert_eq!(verdict.late_binds.len(), 1, "{verdict:?}");
        assert!(verdict.late_binds[0].starts_with("run 1 bound q to n at 6, when run 2"));
        state.binds.push(bound("unheard of", 8));
        assert_eq!(Verdict::of(&state, &writes).unknown, 1);
    }

    #[test]
    fn a_write_that_is_sent_after_the_lease_was_given_back_is_late() {
        let now = Instant::now();
        let later = now + Duration::from_millis(1);
        let status = || WritePurpose::Other("PATCH status".into());
        let writes = [
            lease(1, "a", now),
            write(1, status(), now, 200),
            lease(1, "", now),
            write(1, status(), later, 200),
            write(1, WritePurpose::Event, later, 201),
            write(2, status(), later, 200),
        ];
        let verdict = Verdict::of(&LedgerState::default(), &writes);
        assert_eq!(verdict.late_writes, [r#"run 1 sent Other("PATCH status")"#]);
        assert_eq!(verdict.late_events, 1);
    }

    #[test]
    fn a_gap_is_from_the_last_bind_of_one_to_the_first_of_the_next() {
        let now = Instant::now();
        let at = |millis| now + Duration::from_millis(millis);
        let writes = [
            lease(1, "a", now),
            write(1, to_bind("p"), at(10), 201),
            write(1, to_bind("q"), at(20), 500),
            lease(2, "b", at(30)),
            write(2, to_bind("q"), at(50), 201),
        ];
        let found = gaps(&[held("a", 1), held("", 2), held("b", 3)], &writes);
        assert_eq!(found, [Duration::from_millis(40)]);
        assert_eq!(median_and_max(found), "median 40.00ms, longest 40.00ms");
        assert_eq!(median_and_max(Vec::new()), "none");
    }
}
