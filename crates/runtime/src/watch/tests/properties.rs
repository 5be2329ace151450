//! Whatever happens, what is known becomes what there is.

use proptest::prelude::*;

use super::*;
use crate::testing::in_virtual_time;

#[derive(Clone, Debug)]
enum Act {
    Put(u8),
    Delete(u8),
    Disconnect,
    Forget,
    ListAgain,
    /// The next stream is cut after so many bytes.
    Cut(usize),
    /// The next streams repeat so many versions.
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

fn act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![
        Just(Fault::Broken),
        Just(Fault::Never),
        Just(Fault::Expired),
        Just(Fault::Error),
        Just(Fault::Garbage),
    ];
    prop_oneof![
        6 => (0..6_u8).prop_map(Act::Put),
        4 => (0..6_u8).prop_map(Act::Delete),
        2 => Just(Act::Disconnect),
        1 => Just(Act::Forget),
        1 => Just(Act::ListAgain),
        2 => (0..500_usize).prop_map(Act::Cut),
        1 => (0..10_u64).prop_map(Act::Repeat),
        2 => fault.prop_map(Act::Fail),
        3 => (0..3000_u64).prop_map(Act::Wait),
    ]
}

async fn play(acts: &[Act], protobuf: bool, streaming: bool, inside: bool, page: usize) {
    let mut stage = ReflectorFixture::start("Namespace", |server| {
        server.streaming_lists = if streaming { Ok(()) } else { Err(400) };
        (server.expired_inside, server.page) = (inside, page);
        server.protobuf = protobuf;
    });
    for act in acts {
        let name = |number: &u8| format!("name-{number}");
        match act {
            Act::Put(number) => lock(&stage.server).put(&name(number)),
            Act::Delete(number) => lock(&stage.server).delete(&name(number)),
            Act::Disconnect => lock(&stage.server).disconnect(),
            Act::Forget => lock(&stage.server).forget(),
            Act::ListAgain => {
                let status = Arc::clone(&stage.status);
                tokio::spawn(async move { status.relist().await });
            }
            Act::Cut(bytes) => lock(&stage.server).cuts.push_back(*bytes),
            Act::Repeat(versions) => lock(&stage.server).repeats = *versions,
            Act::Fail(fault) => lock(&stage.server).script.push_back(Some(fault.reply())),
            Act::Wait(milliseconds) => stage.wait(Duration::from_millis(*milliseconds)).await,
        }
    }
    // Everything goes well from now on; the last waits and watches run out.
    lock(&stage.server).script.clear();
    lock(&stage.server).cuts.clear();
    stage.wait(RESPONSE_HEAD_TIMEOUT + 3 * MINUTE).await;
    assert!(stage.observer.synced && stage.observer.synced_times == 1);
    stage.agree();
    // Nothing comes and goes without a reason.
    let deletes = stage.observer.log.iter().filter(|line| line.starts_with('-')).count();
    let asked = acts.iter().filter(|act| matches!(act, Act::Delete(_))).count();
    assert!(deletes <= asked, "{:?}", stage.observer.log);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_known_becomes_what_there_is(
        acts in prop::collection::vec(act(), 0..40),
        protobuf in any::<bool>(),
        streaming in any::<bool>(),
        inside in any::<bool>(),
        page in 1..4_usize,
    ) {
        in_virtual_time(play(&acts, protobuf, streaming, inside, page));
    }
}
