//! Property test: after any sequence of faults the reflector knows exactly the objects that exist.

use proptest::prelude::*;

use super::*;
use crate::testing::in_virtual_time;

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    Disconnect,
    Compact,
    Relist,
    /// Cuts the next stream after this number of bytes.
    Cut(usize),
    /// Makes the next streams repeat this number of versions.
    Repeat(u64),
    Fail(Fault),
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Broken,
    Never,
    Expired,
    Error,
    Garbage,
}

impl Fault {
    fn reply(self) -> Reply {
        let garbage = b"{\"type\":\"ADDED\",\"obj".to_vec();
        match self {
            Self::Broken => Reply::broken(),
            Self::Never => Reply::never(),
            Self::Expired => Reply::failure(410, "too old"),
            Self::Error => Reply::failure(500, "no"),
            Self::Garbage => Reply::stream(200, vec![BodyPart::Data(garbage)]),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::Broken),
        Just(Fault::Never),
        Just(Fault::Expired),
        Just(Fault::Error),
        Just(Fault::Garbage),
    ];
    prop_oneof![
        6 => (0..6_u8).prop_map(Step::Put),
        4 => (0..6_u8).prop_map(Step::Delete),
        2 => Just(Step::Disconnect),
        1 => Just(Step::Compact),
        1 => Just(Step::Relist),
        2 => (0..500_usize).prop_map(Step::Cut),
        1 => (0..10_u64).prop_map(Step::Repeat),
        2 => fault.prop_map(Step::Fail),
        3 => (0..3000_u64).prop_map(Step::Wait),
    ]
}

async fn check(steps: &[Step], protobuf: bool, streaming: bool, inside: bool, page: usize) {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.streaming_lists = if streaming { Ok(()) } else { Err(400) };
        (server.expires_by_event, server.page) = (inside, page);
        server.protobuf = protobuf;
    });
    for step in steps {
        let name = |number: &u8| format!("name-{number}");
        match step {
            Step::Put(number) => lock(&fixture.server).put(&name(number)),
            Step::Delete(number) => lock(&fixture.server).delete(&name(number)),
            Step::Disconnect => lock(&fixture.server).disconnect(),
            Step::Compact => lock(&fixture.server).compact(),
            Step::Relist => {
                let status = Arc::clone(&fixture.status);
                tokio::spawn(async move { status.relist().await });
            }
            Step::Cut(bytes) => lock(&fixture.server).cuts.push_back(*bytes),
            Step::Repeat(versions) => lock(&fixture.server).repeats = *versions,
            Step::Fail(fault) => lock(&fixture.server).script.push_back(Some(fault.reply())),
            Step::Wait(milliseconds) => fixture.wait(Duration::from_millis(*milliseconds)).await,
        }
    }
    // No more faults; pending backoffs and time limits expire.
    lock(&fixture.server).script.clear();
    lock(&fixture.server).cuts.clear();
    fixture.wait(RESPONSE_HEAD_TIMEOUT + 3 * MINUTE).await;
    assert!(fixture.observer.synced && fixture.observer.synced_times == 1);
    fixture.assert_in_sync();
    // No object is deleted without a request.
    let deletes = fixture.observer.log.iter().filter(|line| line.starts_with('-')).count();
    let requested = steps.iter().filter(|step| matches!(step, Step::Delete(_))).count();
    assert!(deletes <= requested, "{:?}", fixture.observer.log);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn after_any_faults_the_reflector_knows_the_objects_that_exist(
        steps in prop::collection::vec(step(), 0..40),
        protobuf in any::<bool>(),
        streaming in any::<bool>(),
        inside in any::<bool>(),
        page in 1..4_usize,
    ) {
        in_virtual_time(check(&steps, protobuf, streaming, inside, page));
    }
}
