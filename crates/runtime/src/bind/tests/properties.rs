//! Property test: whatever fails, the reported result of a bind is true.

use proptest::prelude::*;

use tokio::time::timeout;

use super::*;
use crate::testing::in_virtual_time;

/// Durations up to the longest time after which a request may still be handled.
fn delay() -> impl Strategy<Value = Duration> {
    (0..=2 * REQUEST_TIMEOUT.as_millis() as u64).prop_map(Duration::from_millis)
}

fn step() -> impl Strategy<Value = RequestFault> {
    let status = prop_oneof![Just(500_u16), Just(502), Just(503), Just(504), Just(408), Just(409)];
    let refusal = prop_oneof![Just(401_u16), Just(403), Just(422)];
    let wait = prop::option::of(0..90_u64);
    prop_oneof![
        2 => Just(RequestFault::Healthy),
        1 => Just(RequestFault::DropRequest),
        1 => Just(RequestFault::DropResponse),
        1 => delay().prop_map(RequestFault::Slow),
        2 => delay().prop_map(RequestFault::Late),
        1 => (status, any::<bool>(), wait.clone()).prop_map(|(s, done, w)| RequestFault::Status(s, done, w)),
        1 => wait.prop_map(|wait| RequestFault::Status(429, false, wait)),
        1 => refusal.prop_map(|status| RequestFault::Status(status, false, None)),
        1 => Just(RequestFault::Headless(500)),
    ]
}

fn interference() -> impl Strategy<Value = Interference> {
    prop_oneof![
        3 => Just(Interference::Touch),
        1 => Just(Interference::Delete),
        1 => Just(Interference::Terminate),
        1 => Just(Interference::Gate),
        1 => Just(Interference::Replace),
        1 => Just(Interference::Steal),
    ]
}

fn read() -> impl Strategy<Value = Option<Reply>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(Reply::broken())),
        1 => Just(Some(Reply::never())),
        1 => Just(Some(Reply::failure(500, "no"))),
        1 => Just(Some(Reply::failure(429, "no").header("retry-after", 1))),
    ]
}

fn check(
    binds: &[(RequestFault, Option<Interference>)],
    reads: Vec<Reply>,
    fence_closes: Option<Duration>,
) -> Result<(), TestCaseError> {
    in_virtual_time(async {
        let fixture = BinderFixture::new(binds);
        lock(&fixture.world).reads.extend(reads);
        let begun = Instant::now();
        if let Some(after) = fence_closes {
            let fence = fixture.fence.clone();
            tokio::spawn(async move {
                sleep(after).await;
                fence.close();
            });
        }
        let result = timeout(Duration::from_hours(1), fixture.bind()).await;
        let Ok(result) = result else { return Err(TestCaseError::fail("it never ends")) };
        let at_once = lock(&fixture.world).is_on(OURS);
        // Requests in flight arrive now, if they can.
        sleep(Duration::from_mins(1)).await;
        let world = lock(&fixture.world);
        match &result {
            Ok(()) => prop_assert!(world.bound.contains(&OURS.to_owned()), "not bound at all"),
            Err(why) => prop_assert!(!world.is_on(OURS), "bound although {why} ({at_once})"),
        }
        prop_assert!(world.bound.len() <= 1, "bound twice");
        let closed = fence_closes.map(|after| begun + after);
        for sent in fixture.sends() {
            prop_assert_eq!(&sent.body["target"]["name"], OURS);
            prop_assert!(closed.is_none_or(|closed| sent.at <= closed), "sent without the lease");
        }
        prop_assert!(fixture.sends().len() <= 1000);
        prop_assert!(
            (BindWindow::SIZE_MIN..=BindWindow::SIZE_MAX).contains(&fixture.window.size())
        );
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_reported_result_of_a_bind_is_true(
        binds in prop::collection::vec((step(), prop::option::weighted(0.3, interference())), 0..9),
        reads in prop::collection::vec(read(), 0..6),
        fence_closes in prop::option::of((0..30_000_u64).prop_map(Duration::from_millis)),
    ) {
        check(&binds, reads.into_iter().flatten().collect(), fence_closes)?;
    }
}
