//! Exchanges with a server, frame by frame.

mod deadlines;
mod flow_control;

use std::time::Duration;

use futures::task::noop_waker_ref;
use proptest::prelude::*;

use super::*;
use crate::frame::{FRAME_HEADER_BYTES, flag};

const OPTIONS: ConnectionOptions = ConnectionOptions {
    stream_receive_window: 1000,
    connection_receive_window: 100_000,
    ping_interval: Duration::from_secs(10),
    ping_timeout: Duration::from_secs(5),
    busy_read_delay_max: Duration::from_millis(2),
    delivery_probe_interval: None,
};

/// A frame: type, flags, stream identifier, payload.
type OwnedFrame = (u8, u8, u32, Vec<u8>);

fn context() -> Context<'static> {
    Context::from_waker(noop_waker_ref())
}

/// A connection whose preface is sent.
fn opened() -> ConnectionState {
    let mut state = ConnectionState::new(&OPTIONS);
    sent(&mut state);
    state
}

/// Returns the frames in the output.
fn sent(state: &mut ConnectionState) -> Vec<OwnedFrame> {
    let mut out = Vec::new();
    state.poll_output(&context(), &mut out);
    let mut rest = out.strip_prefix(PREFACE).unwrap_or(&out);
    let mut frames = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        frames.push((head[3], head[4], stream, after[..length].to_vec()));
        rest = &after[length..];
    }
    frames
}

fn frame((frame_type, flags, stream, payload): &OwnedFrame) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([*frame_type, *flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[track_caller]
fn receive(state: &mut ConnectionState, frames: &[OwnedFrame]) {
    let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
    assert_eq!(state.receive(&bytes).unwrap(), bytes.len());
}

fn settings(settings: &[(u16, u32)]) -> OwnedFrame {
    let mut payload = Vec::new();
    for (setting, value) in settings {
        payload.extend(setting.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    (frame_type::SETTINGS, 0, 0, payload)
}

/// Response headers with status 200.
fn ok(stream: u32, flags: u8) -> OwnedFrame {
    (frame_type::HEADERS, flags | flag::END_HEADERS, stream, vec![0x88])
}

fn data(stream: u32, flags: u8, text: &str) -> OwnedFrame {
    (frame_type::DATA, flags, stream, text.as_bytes().to_vec())
}

fn window_update(stream: u32, bytes: u32) -> OwnedFrame {
    (frame_type::WINDOW_UPDATE, 0, stream, bytes.to_be_bytes().to_vec())
}

fn open(state: &mut ConnectionState, body: &str) -> u32 {
    let (header_block, body) = (b"head".to_vec(), body.to_owned().into());
    state.open_stream(OutgoingStream { header_block, body, ..OutgoingStream::default() }).unwrap()
}

fn status(state: &mut ConnectionState, id: u32) -> Poll<Result<u16, String>> {
    let head = state.poll_head(id, &context());
    head.map(|head| head.map(|head| head.status.as_u16()).map_err(|error| error.to_string()))
}

fn text(state: &mut ConnectionState, id: u32) -> Poll<Option<Result<String, String>>> {
    let text = |data: Result<Bytes, Error>| match data {
        Ok(data) => Ok(String::from_utf8(data.to_vec()).unwrap()),
        Err(error) => Err(error.to_string()),
    };
    state.poll_data(id, &context()).map(|data| data.map(text))
}

fn collected(state: &mut ConnectionState, id: u32) -> Poll<Result<(u16, usize), String>> {
    let response = state.poll_collect(id, 3000, &context());
    let response = response.map_ok(|(head, data)| (head.status.as_u16(), data.len()));
    response.map_err(|error| error.to_string())
}

#[track_caller]
fn check_error(frames: &[OwnedFrame], why: &str) {
    let mut state = opened();
    open(&mut state, "");
    let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
    let error = state.receive(&bytes).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn the_preface_announces_the_settings() {
    let mut state = ConnectionState::new(&OPTIONS);
    let preface = sent(&mut state);
    let ours = settings(&[
        (setting::HEADER_TABLE_SIZE, 0),
        (setting::ENABLE_PUSH, 0),
        (setting::INITIAL_WINDOW_SIZE, OPTIONS.stream_receive_window),
    ]);
    assert_eq!(preface, [ours, window_update(0, OPTIONS.connection_receive_window - 65_535)]);
}

#[test]
fn a_header_block_of_several_frames_is_continued() {
    let mut state = opened();
    let mut open = |bytes: usize| {
        let header_block = vec![b'h'; bytes];
        state.open_stream(OutgoingStream { header_block, ..OutgoingStream::default() })
    };
    let [whole, two, three] = [16_384, 16_385, 40_000].map(|bytes| open(bytes).unwrap());
    let error = open(HEADER_BLOCK_BYTES_MAX + 1).unwrap_err().to_string();
    assert!(error.contains("1048577 bytes"), "{error}");
    let frames = sent(&mut state);
    let frames: Vec<_> = frames
        .iter()
        .map(|(kind, flags, id, payload)| (*kind, *flags, *id, payload.len()))
        .collect();
    let (first, last) = (flag::END_STREAM, flag::END_HEADERS);
    assert_eq!(
        frames,
        [
            (frame_type::HEADERS, first | last, whole, 16_384),
            (frame_type::HEADERS, first, two, 16_384),
            (frame_type::CONTINUATION, last, two, 1),
            (frame_type::HEADERS, first, three, 16_384),
            (frame_type::CONTINUATION, 0, three, 16_384),
            (frame_type::CONTINUATION, last, three, 40_000 - 2 * 16_384),
        ]
    );
}

#[test]
fn a_request_is_sent_and_its_response_read() {
    let mut state = opened();
    let id = open(&mut state, "body");
    let frames = sent(&mut state);
    let head = (frame_type::HEADERS, flag::END_HEADERS, id, b"head".to_vec());
    assert_eq!(frames, [head, data(id, flag::END_STREAM, "body")]);
    assert!(status(&mut state, id).is_pending());
    // An informational response, the response with its body in two parts, and trailers.
    let early = (frame_type::HEADERS, flag::END_HEADERS, id, b"\x08\x03103".to_vec());
    let late =
        (frame_type::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, b"\x00\x01a\x01b".to_vec());
    receive(&mut state, &[early, ok(id, 0), data(id, 0, "one "), data(id, 0, "two"), late]);
    assert_eq!(status(&mut state, id), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut state, id), Poll::Ready(Some(Ok("one two".to_owned()))));
    assert_eq!(text(&mut state, id), Poll::Ready(None));
    state.release(id);
    assert_eq!(sent(&mut state), [], "nothing is left to be sent");
    assert_eq!(state.active_streams, 0);
}

#[test]
fn continued_and_padded_header_blocks_are_read() {
    let mut state = opened();
    let id = open(&mut state, "");
    let flags = flag::PADDED | flag::PRIORITY;
    let first = (frame_type::HEADERS, flags, id, b"\x02\0\0\0\0\x10\x00\x07:sta\0\0".to_vec());
    let second = (frame_type::CONTINUATION, 0, id, b"tus".to_vec());
    let third = (frame_type::CONTINUATION, flag::END_HEADERS, id, b"\x03404".to_vec());
    let filled =
        (frame_type::DATA, flag::PADDED | flag::END_STREAM, id, b"\x03text\0\0\0".to_vec());
    receive(&mut state, &[first, second, third, filled]);
    assert_eq!(status(&mut state, id), Poll::Ready(Ok(404)));
    assert_eq!(text(&mut state, id), Poll::Ready(Some(Ok("text".to_owned()))));
}

#[test]
fn requests_wait_for_max_concurrent_streams() {
    let mut state = opened();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)])]);
    let ids = [(); 4].map(|()| open(&mut state, ""));
    let heads = |frames: Vec<OwnedFrame>| {
        let heads = frames.into_iter().filter(|frame| frame.0 == frame_type::HEADERS);
        heads.map(|frame| frame.2).collect::<Vec<u32>>()
    };
    assert_eq!(heads(sent(&mut state)), ids[..2]);
    // A released stream leaves the queue.
    state.release(ids[2]);
    receive(&mut state, &[ok(ids[1], flag::END_STREAM)]);
    assert_eq!(heads(sent(&mut state)), [ids[3]]);
    let reset = (frame_type::RST_STREAM, 0, ids[0], 8_u32.to_be_bytes().to_vec());
    receive(&mut state, &[reset]);
    let last = open(&mut state, "");
    assert_eq!(heads(sent(&mut state)), [last]);
    assert_eq!(state.active_streams, 2);
}

#[test]
fn a_response_before_the_end_of_the_request_resets_the_stream() {
    let mut state = opened();
    receive(&mut state, &[settings(&[(setting::INITIAL_WINDOW_SIZE, 3)])]);
    let id = open(&mut state, "abcdef");
    sent(&mut state);
    receive(&mut state, &[ok(id, flag::END_STREAM), window_update(id, 100)]);
    let reset = (frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec());
    assert_eq!(sent(&mut state), [reset]);
    assert_eq!(status(&mut state, id), Poll::Ready(Ok(200)));
}

#[test]
fn releasing_an_open_stream_resets_it() {
    let mut state = opened();
    let id = open(&mut state, "");
    sent(&mut state);
    state.release(id);
    assert_eq!(sent(&mut state), [(frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec())]);
    receive(&mut state, &[ok(id, 0), data(id, flag::END_STREAM, "too late")]);
    assert_eq!(state.active_streams, 0);
}

#[test]
fn after_goaway_accepted_streams_complete_and_others_fail() {
    let mut state = opened();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)])]);
    let [first, second, third] = [(); 3].map(|()| open(&mut state, ""));
    receive(&mut state, &[(frame_type::GOAWAY, 0, 0, [first.to_be_bytes(), [0; 4]].concat())]);
    assert!(!state.accepts_streams());
    assert!(state.open_stream(OutgoingStream::default()).is_err());
    for id in [second, third] {
        let why = "the server closes the connection".to_owned();
        assert_eq!(status(&mut state, id), Poll::Ready(Err(why)));
        state.release(id);
    }
    receive(&mut state, &[ok(first, flag::END_STREAM)]);
    assert_eq!(status(&mut state, first), Poll::Ready(Ok(200)));
    let mut out = Vec::new();
    assert!(!state.poll_output(&context(), &mut out), "the response is not read yet");
    state.release(first);
    assert!(state.poll_output(&context(), &mut out));
}

#[test]
fn pings_are_acknowledged() {
    let mut state = opened();
    let ping = (frame_type::PING, 0, 0, b"12345678".to_vec());
    receive(&mut state, &[ping]);
    let pong = [(frame_type::PING, flag::ACK, 0, b"12345678".to_vec())];
    assert_eq!(sent(&mut state), pong);
    receive(&mut state, &pong);
    assert_eq!(sent(&mut state), []);
}

#[test]
fn the_end_of_the_connection_fails_open_streams_after_their_data() {
    let mut state = opened();
    let [done, cut] = [(); 2].map(|()| open(&mut state, ""));
    receive(&mut state, &[ok(done, flag::END_STREAM), ok(cut, 0), data(cut, 0, "half")]);
    state.end(&Error::Closed);
    assert_eq!(status(&mut state, done), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut state, done), Poll::Ready(None));
    assert_eq!(status(&mut state, cut), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut state, cut), Poll::Ready(Some(Ok("half".to_owned()))));
    assert_eq!(
        text(&mut state, cut),
        Poll::Ready(Some(Err("the connection was closed".to_owned())))
    );
    assert!(!state.accepts_streams());
}

#[test]
fn protocol_errors_end_the_connection() {
    check_error(&[(frame_type::DATA, 0, 1, vec![0; 1001])], "exceeded a flow-control window");
    check_error(&[(frame_type::HEADERS, 0, 1, vec![]), ok(1, 0)], "is not continued");
    check_error(&[(frame_type::CONTINUATION, 0, 1, vec![])], "without HEADERS");
    check_error(&[(frame_type::PUSH_PROMISE, 0, 1, vec![])], "the server pushes");
    check_error(&[(frame_type::SETTINGS, 0, 0, vec![0])], "ends within a setting");
    check_error(&[(frame_type::PING, 0, 0, vec![0])], "has not 8 bytes");
    check_error(&[(frame_type::DATA, flag::PADDED, 1, vec![2, 0])], "shorter than its padding");
    check_error(
        &[(frame_type::HEADERS, flag::END_HEADERS, 1, vec![0xbe])],
        "beyond the static table",
    );
    check_error(&[(frame_type::DATA, 0, 1, vec![0; 16_385])], "a frame of 16385 bytes");
    let block = (frame_type::CONTINUATION, 0, 1, vec![0; 16_384]);
    let mut endless = vec![(frame_type::HEADERS, 0, 1, vec![])];
    endless.extend(vec![block; 5]);
    check_error(&endless, "too large");
    let ping = (frame_type::PING, 0, 0, b"12345678".to_vec());
    check_error(
        &vec![ping; receive::OUTPUT_BYTES_MAX / 17 + 1],
        "does not read the acknowledgements",
    );
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_the_bytes_are_cut(cut in 1..60_usize) {
        let mut state = opened();
        let [one, other] = [(); 2].map(|()| open(&mut state, ""));
        let frames = [
            settings(&[(setting::MAX_CONCURRENT_STREAMS, 7)]), ok(one, 0), data(one, 0, "a"), ok(other, 0),
            data(other, flag::END_STREAM, "b"), data(one, flag::END_STREAM, "c"),
        ];
        let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
        let mut received = Vec::new();
        for piece in bytes.chunks(cut) {
            received.extend(piece);
            let taken = state.receive(&received).unwrap();
            received.drain(..taken);
        }
        prop_assert!(received.is_empty());
        prop_assert_eq!(text(&mut state, one), Poll::Ready(Some(Ok("ac".to_owned()))));
        prop_assert_eq!(text(&mut state, other), Poll::Ready(Some(Ok("b".to_owned()))));
    }

    #[test]
    fn no_frames_panic(
        frames in prop::collection::vec(
            (0..11_u8, any::<u8>(), 0..6_u32, prop::collection::vec(any::<u8>(), 0..40)), 0..30
        ),
    ) {
        let mut state = opened();
        let ids = [(); 3].map(|()| open(&mut state, "some body"));
        for received in frames {
            if state.receive(&frame(&received)).is_err() {
                state.end(&Error::Closed);
            }
            let _ = state.poll_data(ids[0], &context());
            let _ = state.poll_collect(ids[1], 10, &context());
        }
        for id in ids {
            state.release(id);
        }
        prop_assert!(state.streams.is_empty());
    }
}
