//! The driver on an in-memory transport, in virtual time.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream, DuplexStream, duplex};
use tokio::time::sleep;

use super::*;
use crate::connection_state::OutgoingStream;
use crate::{Connection, ResponseHead, ResponseStream};

const OPTIONS: ConnectionOptions = ConnectionOptions {
    stream_receive_window: 512 << 10,
    connection_receive_window: 16 << 20,
    ping_interval: Duration::from_secs(10),
    ping_timeout: Duration::from_secs(5),
    busy_read_delay_max: Duration::from_millis(2),
    delivery_probe_interval: None,
};

/// Answers everything with the same frames, and PINGs if it is `alive`. Returns the number of PINGs.
async fn serve(mut client: DuplexStream, answers: &'static [u8], alive: bool) -> usize {
    let mut received = vec![0; 4096];
    let mut pings = 0;
    while let Ok(count) = client.read(&mut received).await
        && count > 0
    {
        let ping = received[..count].windows(9).any(|head| head[2..5] == [8, 6, 0]);
        pings += usize::from(ping);
        let answer = match ping {
            true if alive => b"\0\0\x08\x06\x01\0\0\0\0liveness",
            true => continue,
            false => answers,
        };
        if client.write_all(answer).await.is_err() {
            break;
        }
    }
    pings
}

/// Status 200 on the first stream, with a body that does not end.
const OPEN_RESPONSE: &[u8] = b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\0\0\0\0\x01hi";

fn request() -> OutgoingStream {
    OutgoingStream { header_block: b"\x82".to_vec(), ..OutgoingStream::default() }
}

async fn send(connection: &Connection) -> Result<(ResponseHead, ResponseStream), Error> {
    connection.open_stream(request())?.head().await
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_that_acknowledges_pings_keeps_its_connection() {
    let (client, server) = duplex(1 << 16);
    let server = tokio::spawn(serve(server, OPEN_RESPONSE, true));
    let connection = Connection::start(BufStream::new(client), OPTIONS);
    let (head, mut answer) = send(&connection).await.unwrap();
    assert_eq!(head.status, 200);
    assert_eq!(answer.data().await.unwrap().unwrap(), "hi");
    sleep(Duration::from_mins(1)).await;
    assert!(connection.accepts_requests());
    drop((answer, connection));
    assert_eq!(
        server.await.unwrap(),
        5,
        "one PING in 10 s, and the connection ends with its handles"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_acknowledge_a_ping_loses_its_connection() {
    let (client, server) = duplex(1 << 16);
    tokio::spawn(serve(server, OPEN_RESPONSE, false));
    let connection = Connection::start(BufStream::new(client), OPTIONS);
    let (_, mut answer) = send(&connection).await.unwrap();
    let start = Instant::now();
    assert_eq!(answer.data().await.unwrap().unwrap(), "hi");
    let error = answer.data().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server did not acknowledge a PING");
    assert_eq!(start.elapsed(), OPTIONS.ping_interval + OPTIONS.ping_timeout);
    assert!(!connection.accepts_requests());
    assert!(connection.open_stream(OutgoingStream::default()).is_err());
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_while_the_server_is_silent() {
    let (client, server) = duplex(1 << 16);
    let server = tokio::spawn(serve(server, b"", true));
    let connection = Connection::start(BufStream::new(client), OPTIONS);
    let start = Instant::now();
    let within = |seconds| {
        let deadline = Some(start + Duration::from_secs(seconds));
        connection.open_stream(OutgoingStream { deadline, ..request() }).unwrap().collect(10)
    };
    let (later, sooner) = (within(7), within(4));
    let waits = connection.open_stream(request()).unwrap();
    for (answer, seconds) in [(sooner, 4), (later, 7)] {
        let error = answer.await.unwrap_err();
        assert_eq!(error.to_string(), "the server did not answer");
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
    assert!(connection.accepts_requests());
    drop((waits, connection));
    assert_eq!(server.await.unwrap(), 0);
}

#[tokio::test]
async fn a_protocol_error_fails_the_requests_of_the_connection() {
    let (client, server) = duplex(1 << 16);
    tokio::spawn(serve(server, b"\xff\xff\xff\0\0\0\0\0\0", true));
    let connection = Connection::start(BufStream::new(client), OPTIONS);
    let error = send(&connection).await.err().unwrap();
    assert_eq!(error.to_string(), "the connection broke off: a frame of 16777215 bytes");
}

#[test]
fn frames_are_received_however_the_transport_cuts_them() {
    let heads = [b"\0\0\x01\x01\x04\0\0\0\x01\x88".to_vec(), b"\0\0\0\x04\x01\0\0\0\0".to_vec()];
    let data = |text: &str, flags| {
        let length = text.len() as u8;
        [&[0, 0, length, 0, flags, 0, 0, 0, 1], text.as_bytes()].concat()
    };
    let bytes = [heads.concat(), data("one two ", 0), data("", 0), data("three", 1)].concat();
    for cut in 1..bytes.len() {
        let mut state = ConnectionState::new(&OPTIONS);
        state.open_stream(request()).unwrap();
        let mut partial_frame = Vec::new();
        for piece in bytes.chunks(cut) {
            receive(&mut state, &mut partial_frame, piece).unwrap();
        }
        assert!(partial_frame.is_empty());
        let context = Context::from_waker(futures::task::noop_waker_ref());
        let Poll::Ready(response) = state.poll_collect(1, 100, &context) else { panic!("{cut}") };
        assert_eq!(response.unwrap().1, "one two three", "{cut}");
    }
}

/// Returns the times, in virtual milliseconds, at which responses on a connection with this many
/// streams are noticed. The server answers one stream each millisecond, and reads of a busy connection are delayed by at most 10 ms.
async fn response_times(streams: usize) -> Vec<f64> {
    let (client, mut server) = duplex(1 << 20);
    let options = ConnectionOptions { busy_read_delay_max: Duration::from_millis(10), ..OPTIONS };
    let connection = Connection::start(BufStream::new(client), options);
    let begin = Instant::now();
    let mut responses = Vec::new();
    for _ in 0..streams {
        let response = connection.open_stream(request()).unwrap();
        responses.push(tokio::spawn(async move {
            response.head().await.unwrap();
            begin.elapsed().as_secs_f64() * 1e3
        }));
    }
    tokio::spawn(async move {
        let mut received = vec![0; 1 << 16];
        let _ = server.read(&mut received).await;
        for stream in 0..streams as u32 {
            sleep(Duration::from_millis(1)).await;
            let id = (2 * stream + 1).to_be_bytes();
            let frame = [&b"\0\0\x01\x01\x05"[..], &id, b"\x88"].concat();
            server.write_all(&frame).await.unwrap();
        }
        sleep(Duration::from_secs(1)).await;
    });
    let mut times = Vec::new();
    for response in responses {
        times.push(response.await.unwrap());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_reads_many_responses_at_once() {
    let mut times = response_times(3 * ConnectionOptions::BUSY_STREAMS).await;
    times.truncate(2 * ConnectionOptions::BUSY_STREAMS);
    times.dedup();
    assert!(times.len() <= ConnectionOptions::BUSY_STREAMS / 4, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_few_requests_reads_each_response_at_once() {
    let streams = ConnectionOptions::BUSY_STREAMS - 1;
    let mut times = response_times(streams).await;
    times.dedup();
    assert_eq!(times.len(), streams, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_response_that_arrived_counts_although_reads_are_delayed() {
    let (client, mut server) = duplex(1 << 20);
    let options = ConnectionOptions { busy_read_delay_max: Duration::from_mins(1), ..OPTIONS };
    let connection = Connection::start(BufStream::new(client), options);
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let requests: Vec<_> = (0..2 * ConnectionOptions::BUSY_STREAMS)
        .map(|_| connection.open_stream(OutgoingStream { deadline, ..request() }).unwrap())
        .collect();
    let mut received = vec![0; 1 << 16];
    let _ = server.read(&mut received).await;
    for stream in 0..requests.len() as u32 {
        // The first response begins the delay.
        sleep(Duration::from_millis(10)).await;
        let id = (2 * stream + 1).to_be_bytes();
        server.write_all(&[&b"\0\0\x01\x01\x05"[..], &id, b"\x88"].concat()).await.unwrap();
    }
    for request in requests {
        assert_eq!(request.head().await.unwrap().0.status, 200);
    }
}
