//! Tests of audits: when they run, and what they find.

use plugins::simple::{self, NodePlugin as _};

use super::*;

fn audits(metrics: &Metrics, result: &str) -> usize {
    let start = format!("jindou_audits_total{{result=\"{result}\"}} ");
    let text = metrics.text();
    text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
}

#[test]
fn the_state_is_audited_every_five_minutes_while_the_loop_is_idle() {
    local(async {
        let mut fixture = DriverFixture::leading(3).await;
        assert_eq!(fixture.issued().await.len(), 3);
        sleep(3 * AUDIT_INTERVAL).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 0, "binds are in flight");
        for uid in ["p0", "p1", "p2"] {
            fixture.apply(bound(uid, None)).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 1, "it was due long ago");
        sleep(Duration::from_secs(298)).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 1);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 2);
        sleep(10 * AUDIT_INTERVAL).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 12);
        assert_eq!(audits(&fixture.metrics, "failed"), 0);
        fixture.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 13, "on request at once");
    });
}

#[test]
fn a_requested_audit_does_not_wait_for_binds() {
    local(async {
        let mut fixture = DriverFixture::leading(3).await;
        assert_eq!(fixture.issued().await.len(), 3);
        fixture.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 1, "binds are in flight");
        for uid in ["p0", "p1", "p2"] {
            fixture.apply(bound(uid, None)).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(audits(&fixture.metrics, "passed"), 1);
    });
}

/// A filter whose verdict depends on a flag that the engine does not know, so that cached verdicts become
/// wrong.
struct Flag(Arc<AtomicBool>);

impl simple::NodePlugin for Flag {
    const NAME: &'static str = "NodeName";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn filter(&self, _: &simple::Class, _: &simple::NodeView) -> Result<(), simple::Rejection> {
        if self.0.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(simple::Rejection::unresolvable("node(s) were flagged"))
        }
    }
}

#[test]
fn an_audit_finds_state_that_differs_from_state_computed_from_scratch() {
    local(async {
        let feasible = Arc::new(AtomicBool::new(true));
        let shared = Arc::clone(&feasible);
        let build = move |_: Option<&_>| Ok(simple::plugin(Flag(Arc::clone(&shared))));
        let registry = Registry::default().with(Flag::NAME, Flag::POINTS, Box::new(build));
        let mut fixture = DriverFixture::leading_with(engine(&registry), 2).await;
        assert_eq!(fixture.issued().await, ["Bind p0", "Bind p1"]);
        for uid in ["p0", "p1"] {
            fixture.apply(bound(uid, None)).await;
        }
        sleep(AUDIT_INTERVAL).await;
        assert_eq!(
            (audits(&fixture.metrics, "passed"), audits(&fixture.metrics, "failed")),
            (1, 0)
        );
        feasible.store(false, Ordering::Relaxed);
        sleep(AUDIT_INTERVAL + Duration::from_secs(1)).await;
        assert_eq!(
            (audits(&fixture.metrics, "passed"), audits(&fixture.metrics, "failed")),
            (1, 1)
        );
        assert!(fixture.metrics.text().contains("jindou_invariant_violations_total 1\n"));
        sleep(AUDIT_INTERVAL + Duration::from_secs(1)).await;
        let counted = (audits(&fixture.metrics, "passed"), audits(&fixture.metrics, "failed"));
        assert_eq!(counted, (2, 1), "the audit corrected the state");
    });
}
