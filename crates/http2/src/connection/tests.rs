//! Over a pipe, in virtual time.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream, DuplexStream, duplex};
use tokio::time::sleep;

use super::*;

const OPTIONS: Options = Options {
    stream_window: 512 << 10,
    connection_window: 16 << 20,
    ping_after: Duration::from_secs(10),
    ping_timeout: Duration::from_secs(5),
    fence_probe_interval: None,
};

/// Answers everything with the same frames, and every ping if it is one that lives.
async fn serve(mut client: DuplexStream, answers: &'static [u8], lives: bool) -> usize {
    let mut heard = vec![0; 4096];
    let mut pings = 0;
    while let Ok(count) = client.read(&mut heard).await
        && count > 0
    {
        let ping = heard[..count].windows(9).any(|head| head[2..5] == [8, 6, 0]);
        pings += usize::from(ping);
        let answer = match ping {
            true if lives => b"\0\0\x08\x06\x01\0\0\0\0jindou\0\0",
            true => continue,
            false => answers,
        };
        if client.write_all(answer).await.is_err() {
            break;
        }
    }
    pings
}

/// ExecCredentialStatus 200 on the first stream, with a body that does not end.
const OPEN_ANSWER: &[u8] = b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\0\0\0\0\x01hi";

fn asking() -> OutgoingStream {
    OutgoingStream { head: b"\x82".to_vec(), ..OutgoingStream::default() }
}

async fn ask(connection: &Connection) -> Result<(ResponseHead, ResponseStream)> {
    connection.open_stream(asking())?.head().await
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lives_may_be_silent_for_long() {
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(serve(theirs, OPEN_ANSWER, true));
    let connection = Connection::start(BufStream::new(ours), OPTIONS);
    let (head, mut answer) = ask(&connection).await.unwrap();
    assert_eq!(head.status, 200);
    assert_eq!(answer.next().await.unwrap().unwrap(), "hi");
    sleep(Duration::from_mins(1)).await;
    assert!(connection.accepts_streams());
    drop((answer, connection));
    assert_eq!(server.await.unwrap(), 5, "it is asked when it is silent, and it ends with us");
}

#[tokio::test(start_paused = true)]
async fn a_dead_one_is_given_up() {
    let (ours, theirs) = duplex(1 << 16);
    tokio::spawn(serve(theirs, OPEN_ANSWER, false));
    let connection = Connection::start(BufStream::new(ours), OPTIONS);
    let (_, mut answer) = ask(&connection).await.unwrap();
    let begun = Instant::now();
    assert_eq!(answer.next().await.unwrap().unwrap(), "hi");
    let error = answer.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server went silent");
    assert_eq!(begun.elapsed(), OPTIONS.ping_after + OPTIONS.ping_timeout);
    assert!(!connection.accepts_streams());
    assert!(connection.open_stream(OutgoingStream::default()).is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_overdue_does_not_wait_for_the_connection_to_die() {
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(serve(theirs, b"", true));
    let connection = Connection::start(BufStream::new(ours), OPTIONS);
    let begun = Instant::now();
    let within = |seconds| {
        let due = Some(begun + Duration::from_secs(seconds));
        connection.open_stream(OutgoingStream { due, ..asking() }).unwrap().whole(10)
    };
    let (later, sooner) = (within(7), within(4));
    let waits = connection.open_stream(asking()).unwrap();
    for (answer, seconds) in [(sooner, 4), (later, 7)] {
        let error = answer.await.unwrap_err();
        assert_eq!(error.to_string(), "the API server did not answer");
        assert_eq!(begun.elapsed().as_secs(), seconds);
    }
    assert!(connection.accepts_streams());
    drop((waits, connection));
    assert_eq!(server.await.unwrap(), 0);
}

#[tokio::test]
async fn a_broken_one_says_why() {
    let (ours, theirs) = duplex(1 << 16);
    tokio::spawn(serve(theirs, b"\xff\xff\xff\0\0\0\0\0\0", true));
    let connection = Connection::start(BufStream::new(ours), OPTIONS);
    let error = ask(&connection).await.err().unwrap();
    assert_eq!(error.to_string(), "the connection broke off: a frame of 16777215 bytes");
}

#[test]
fn frames_are_heard_however_they_come() {
    let windows = WindowSizes { stream: 1000, connection: 100_000 };
    let heads = [b"\0\0\x01\x01\x04\0\0\0\x01\x88".to_vec(), b"\0\0\0\x04\x01\0\0\0\0".to_vec()];
    let data = |text: &str, flags| {
        let length = text.len() as u8;
        [&[0, 0, length, 0, flags, 0, 0, 0, 1], text.as_bytes()].concat()
    };
    let bytes = [heads.concat(), data("one two ", 0), data("", 0), data("three", 1)].concat();
    for cut in 1..bytes.len() {
        let mut state = ConnectionState::new(windows);
        state.open_stream(asking()).unwrap();
        let mut begun = Vec::new();
        for piece in bytes.chunks(cut) {
            receive(&mut state, &mut begun, piece).unwrap();
        }
        assert!(begun.is_empty());
        let context = Context::from_waker(futures::task::noop_waker_ref());
        let Poll::Ready(whole) = state.poll_whole(1, 100, &context) else { panic!("{cut}") };
        assert_eq!(whole.unwrap().1, "one two three", "{cut}");
    }
}
