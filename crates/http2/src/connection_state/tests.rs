//! What is said and heard, frame by frame.

use futures::task::noop_waker_ref;
use proptest::prelude::*;

use super::*;

const WINDOW_SIZES: WindowSizes = WindowSizes { stream: 1000, connection: 100_000 };

/// A frame: kind, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

fn context() -> Context<'static> {
    Context::from_waker(noop_waker_ref())
}

/// One after its first words.
fn begun() -> ConnectionState {
    let mut state = ConnectionState::new(WINDOW_SIZES);
    said(&mut state);
    state
}

/// What it says.
fn said(state: &mut ConnectionState) -> Vec<Frame> {
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

fn frame((kind, flags, stream, payload): &Frame) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([*kind, *flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[track_caller]
fn receive(state: &mut ConnectionState, frames: &[Frame]) {
    let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
    assert_eq!(state.receive(&bytes).unwrap(), bytes.len());
}

fn settings(settings: &[(u16, u32)]) -> Frame {
    let mut payload = Vec::new();
    for (setting, value) in settings {
        payload.extend(setting.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    (frame_type::SETTINGS, 0, 0, payload)
}

/// The head of an answer with status 200.
fn ok(stream: u32, flags: u8) -> Frame {
    (frame_type::HEADERS, flags | flag::END_HEADERS, stream, vec![0x88])
}

fn data(stream: u32, flags: u8, text: &str) -> Frame {
    (frame_type::DATA, flags, stream, text.as_bytes().to_vec())
}

fn more_room(stream: u32, bytes: u32) -> Frame {
    (frame_type::WINDOW_UPDATE, 0, stream, bytes.to_be_bytes().to_vec())
}

fn ask(state: &mut ConnectionState, body: &str) -> u32 {
    let (head, body) = (b"head".to_vec(), body.to_owned().into());
    state.open_stream(OutgoingStream { head, body, ..OutgoingStream::default() }).unwrap()
}

fn status(state: &mut ConnectionState, id: u32) -> Poll<Result<u16, String>> {
    let head = state.poll_head(id, &context());
    head.map(|head| head.map(|head| head.status.as_u16()).map_err(|error| error.to_string()))
}

fn text(state: &mut ConnectionState, id: u32) -> Poll<Option<Result<String, String>>> {
    let text = |data: Result<Bytes>| match data {
        Ok(data) => Ok(String::from_utf8(data.to_vec()).unwrap()),
        Err(error) => Err(error.to_string()),
    };
    state.poll_data(id, &context()).map(|data| data.map(text))
}

#[track_caller]
fn check_error(frames: &[Frame], why: &str) {
    let mut state = begun();
    ask(&mut state, "");
    let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
    let error = state.receive(&bytes).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn it_begins_with_who_we_are() {
    let mut state = ConnectionState::new(WINDOW_SIZES);
    let first = said(&mut state);
    let ours = settings(&[
        (setting::HEADER_TABLE_SIZE, 0),
        (setting::ENABLE_PUSH, 0),
        (setting::INITIAL_WINDOW_SIZE, WINDOW_SIZES.stream),
    ]);
    assert_eq!(first, [ours, more_room(0, WINDOW_SIZES.connection - 65_535)]);
}

#[test]
fn a_request_and_its_answer() {
    let mut state = begun();
    let id = ask(&mut state, "body");
    let sent = said(&mut state);
    let head = (frame_type::HEADERS, flag::END_HEADERS, id, b"head".to_vec());
    assert_eq!(sent, [head, data(id, flag::END_STREAM, "body")]);
    assert!(status(&mut state, id).is_pending());
    // Something before the answer, the answer with its body in two parts, something after it.
    let early = (frame_type::HEADERS, flag::END_HEADERS, id, b"\x08\x03103".to_vec());
    let late =
        (frame_type::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, b"\x00\x01a\x01b".to_vec());
    receive(&mut state, &[early, ok(id, 0), data(id, 0, "one "), data(id, 0, "two"), late]);
    assert_eq!(status(&mut state, id), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut state, id), Poll::Ready(Some(Ok("one two".to_owned()))));
    assert_eq!(text(&mut state, id), Poll::Ready(None));
    state.release(id);
    assert_eq!(said(&mut state), [], "nothing is left to be said");
    assert_eq!(state.open, 0);
}

#[test]
fn heads_in_parts_and_filled_up() {
    let mut state = begun();
    let id = ask(&mut state, "");
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
fn requests_wait_for_their_turn() {
    let mut state = begun();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)])]);
    let ids = [(); 4].map(|()| ask(&mut state, ""));
    let heads = |frames: Vec<Frame>| {
        let heads = frames.into_iter().filter(|frame| frame.0 == frame_type::HEADERS);
        heads.map(|frame| frame.2).collect::<Vec<u32>>()
    };
    assert_eq!(heads(said(&mut state)), ids[..2]);
    // One that nobody wants any more loses its turn.
    state.release(ids[2]);
    receive(&mut state, &[ok(ids[1], flag::END_STREAM)]);
    assert_eq!(heads(said(&mut state)), [ids[3]]);
    let reset = (frame_type::RST_STREAM, 0, ids[0], 8_u32.to_be_bytes().to_vec());
    receive(&mut state, &[reset]);
    let last = ask(&mut state, "");
    assert_eq!(heads(said(&mut state)), [last]);
    assert_eq!(state.open, 2);
}

#[test]
fn bodies_wait_for_room() {
    let mut state = begun();
    receive(&mut state, &[settings(&[(setting::INITIAL_WINDOW_SIZE, 3)])]);
    said(&mut state);
    let id = ask(&mut state, "abcdefghij");
    assert_eq!(said(&mut state)[1..], [data(id, 0, "abc")]);
    receive(&mut state, &[more_room(id, 2)]);
    assert_eq!(said(&mut state), [data(id, 0, "de")]);
    // A new setting counts for what is under way.
    receive(&mut state, &[settings(&[(setting::INITIAL_WINDOW_SIZE, 5)])]);
    assert_eq!(said(&mut state)[1..], [data(id, 0, "fg")]);
    state.send_window = 1;
    receive(&mut state, &[more_room(id, 100)]);
    assert_eq!(said(&mut state), [data(id, 0, "h")]);
    receive(&mut state, &[more_room(0, 100)]);
    assert_eq!(said(&mut state), [data(id, flag::END_STREAM, "ij")]);
}

#[test]
fn an_answer_before_the_whole_request_ends_it() {
    let mut state = begun();
    receive(&mut state, &[settings(&[(setting::INITIAL_WINDOW_SIZE, 3)])]);
    let id = ask(&mut state, "abcdef");
    said(&mut state);
    receive(&mut state, &[ok(id, flag::END_STREAM), more_room(id, 100)]);
    let reset = (frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec());
    assert_eq!(said(&mut state), [reset]);
    assert_eq!(status(&mut state, id), Poll::Ready(Ok(200)));
}

/// Bytes that the server may send, or that were taken.
fn accounted(state: &ConnectionState) -> i64 {
    i64::from(state.unacknowledged) + state.recv_window
}

#[test]
fn what_is_taken_may_be_sent_again() {
    let mut state = begun();
    let id = ask(&mut state, "");
    said(&mut state);
    let half = "x".repeat(WINDOW_SIZES.stream as usize / 2);
    for _ in 0..WINDOW_SIZES.connection / WINDOW_SIZES.stream {
        receive(&mut state, &[data(id, 0, &half)]);
        assert!(text(&mut state, id).is_ready());
        assert!(said(&mut state).contains(&more_room(id, half.len() as u32)));
    }
    // And so may what nobody took.
    receive(&mut state, &[data(id, 0, &half)]);
    state.release(id);
    assert!(state.streams.is_empty());
    assert_eq!(accounted(&state), i64::from(WINDOW_SIZES.connection));
    receive(&mut state, &[data(id, 0, &half)]);
    assert_eq!(accounted(&state), i64::from(WINDOW_SIZES.connection));
}

fn whole(state: &mut ConnectionState, id: u32) -> Poll<Result<(u16, usize), String>> {
    let whole = state.poll_whole(id, 3000, &context());
    let whole = whole.map_ok(|(head, data)| (head.status.as_u16(), data.len()));
    whole.map_err(|error| error.to_string())
}

#[test]
fn a_whole_answer_may_be_larger_than_the_room_for_it() {
    let mut state = begun();
    let id = ask(&mut state, "");
    let other = ask(&mut state, "");
    said(&mut state);
    let half = "x".repeat(WINDOW_SIZES.stream as usize / 2);
    receive(&mut state, &[ok(id, 0), ok(other, 0)]);
    for _ in 0..5 {
        receive(&mut state, &[data(id, 0, &half), data(other, 0, &half)]);
        assert!(whole(&mut state, id).is_pending());
        assert!(whole(&mut state, other).is_pending());
        let room = [more_room(id, half.len() as u32), more_room(other, half.len() as u32)];
        assert_eq!(said(&mut state), room);
    }
    receive(&mut state, &[data(id, flag::END_STREAM, &half), data(other, 0, &half)]);
    assert_eq!(whole(&mut state, id), Poll::Ready(Ok((200, 3000))));
    receive(&mut state, &[data(other, 0, "x")]);
    let error = "the answer is larger than 3000 bytes".to_owned();
    assert_eq!(whole(&mut state, other), Poll::Ready(Err(error)));
    for id in [id, other] {
        state.release(id);
    }
    assert_eq!(accounted(&state), i64::from(WINDOW_SIZES.connection));
}

#[test]
fn of_a_brief_answer_only_a_failure_is_kept() {
    let mut state = begun();
    let mut ask = || {
        state
            .open_stream(OutgoingStream { status_only: true, ..OutgoingStream::default() })
            .unwrap()
    };
    let [done, refused, cut] = [ask(), ask(), ask()];
    said(&mut state);
    let teapot = (frame_type::HEADERS, flag::END_HEADERS, refused, b"\x08\x03418".to_vec());
    let half = "x".repeat(WINDOW_SIZES.stream as usize / 2);
    receive(&mut state, &[ok(done, 0), teapot, ok(cut, 0)]);
    for _ in 0..9 {
        receive(&mut state, &[data(done, 0, &half)]);
        assert_eq!(said(&mut state), [more_room(done, half.len() as u32)]);
    }
    assert!(whole(&mut state, done).is_pending());
    receive(
        &mut state,
        &[data(done, flag::END_STREAM, "end"), data(refused, flag::END_STREAM, "no")],
    );
    assert_eq!(whole(&mut state, done), Poll::Ready(Ok((200, 0))));
    assert_eq!(whole(&mut state, refused), Poll::Ready(Ok((418, 2))));
    // Before its end, nobody knows that it is done.
    assert!(whole(&mut state, cut).is_pending());
    state.end("gone");
    assert_eq!(whole(&mut state, cut), Poll::Ready(Err("gone".to_owned())));
    for id in [done, refused, cut] {
        state.release(id);
    }
    assert_eq!(accounted(&state), i64::from(WINDOW_SIZES.connection));
}

#[test]
fn what_is_overdue_is_given_up() {
    let mut state = begun();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)])]);
    let start = Instant::now();
    let seconds = |seconds| start + std::time::Duration::from_secs(seconds);
    let mut ask = |due| {
        state.open_stream(OutgoingStream { due: Some(due), ..OutgoingStream::default() }).unwrap()
    };
    let [late, answered, early, timely] =
        [ask(seconds(9)), ask(seconds(3)), ask(seconds(5)), ask(seconds(9))];
    said(&mut state);
    assert_eq!(state.next_check(seconds(0)), Some(seconds(3)));
    assert_eq!(state.next_check(seconds(0)), None, "it is set");
    receive(&mut state, &[ok(answered, flag::END_STREAM)]);
    assert_eq!(whole(&mut state, answered), Poll::Ready(Ok((200, 0))));
    said(&mut state);
    state.expire_overdue(seconds(3)).unwrap();
    assert_eq!(state.next_check(seconds(3)), Some(seconds(5)));
    state.expire_overdue(seconds(5)).unwrap();
    let error = || Poll::Ready(Err("the API server did not answer".to_owned()));
    assert_eq!(whole(&mut state, early), error());
    assert_eq!(state.next_check(seconds(5)), Some(seconds(9)));
    let cancel = |id| (frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec());
    let head = |id| (frame_type::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, Vec::new());
    assert_eq!(said(&mut state), [cancel(early), head(timely)], "the next has its turn");
    let waits = state
        .open_stream(OutgoingStream { due: Some(seconds(10)), ..OutgoingStream::default() })
        .unwrap();
    assert_eq!(said(&mut state), []);
    receive(&mut state, &[ok(timely, flag::END_STREAM)]);
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 0)])]);
    said(&mut state);
    let never = state
        .open_stream(OutgoingStream { due: Some(seconds(10)), ..OutgoingStream::default() })
        .unwrap();
    state.expire_overdue(seconds(10)).unwrap();
    for id in [late, waits, never] {
        assert_eq!(whole(&mut state, id), error());
    }
    assert_eq!(whole(&mut state, timely), Poll::Ready(Ok((200, 0))));
    assert_eq!(said(&mut state), [cancel(late), cancel(waits)], "the last was never sent");
    assert_eq!(state.next_check(seconds(10)), None);
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 9)])]);
    assert_eq!(said(&mut state).len(), 1, "nothing but that settings are heard");
    for id in [late, answered, early, timely, waits, never] {
        state.release(id);
    }
    assert_eq!((said(&mut state), state.open), (Vec::new(), 0));
}

#[test]
fn an_answer_that_is_here_counts_however_late_it_is_heard() {
    let mut state = begun();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 1)])]);
    let now = Instant::now();
    let mut ask = || {
        state.open_stream(OutgoingStream { due: Some(now), ..OutgoingStream::default() }).unwrap()
    };
    let [sent, waits] = [ask(), ask()];
    said(&mut state);
    state.next_check(now);
    state.cancel_unsent(now);
    receive(&mut state, &[ok(sent, flag::END_STREAM)]);
    state.expire_overdue(now).unwrap();
    assert_eq!(whole(&mut state, sent), Poll::Ready(Ok((200, 0))));
    assert_eq!(whole(&mut state, waits), Poll::Ready(Err(NO_ANSWER.to_owned())));
    assert_eq!(said(&mut state), [], "its turn came too late");
}

const PROBE_INTERVAL: Duration = Duration::from_millis(625);

/// A fenced one and a clock.
fn fenced() -> (ConnectionState, impl Fn(u64) -> Instant) {
    let mut state = ConnectionState::new(WINDOW_SIZES).fenced(PROBE_INTERVAL);
    said(&mut state);
    let start = Instant::now();
    (state, move |milliseconds| start + std::time::Duration::from_millis(milliseconds))
}

fn ask_until(state: &mut ConnectionState, due: Instant) -> u32 {
    let body = Bytes::from_static(b"body");
    state.open_stream(OutgoingStream { due: Some(due), body, ..OutgoingStream::default() }).unwrap()
}

/// The payload of the only frame that is said, a ping.
#[track_caller]
fn pinged(state: &mut ConnectionState) -> Vec<u8> {
    let said = said(state);
    let [(frame_type::PING, 0, 0, payload)] = &said[..] else { panic!("{said:?}") };
    payload.clone()
}

#[test]
fn a_fenced_connection_ends_when_an_overdue_request_may_still_arrive() {
    let (mut state, at) = fenced();
    ask_until(&mut state, at(2500));
    said(&mut state);
    assert_eq!(state.next_check(at(0)), Some(at(0) + PROBE_INTERVAL));
    state.expire_overdue(at(625)).unwrap();
    pinged(&mut state);
    for milliseconds in [1250, 2499] {
        state.expire_overdue(at(milliseconds)).unwrap();
        assert_eq!(said(&mut state), [], "one ping is enough");
    }
    let error = state.expire_overdue(at(2500)).unwrap_err().to_string();
    assert_eq!(error, "an overdue request may still arrive");
}

#[test]
fn a_fenced_connection_goes_on_after_an_overdue_request_that_arrived() {
    let (mut state, at) = fenced();
    let overdue = ask_until(&mut state, at(2500));
    said(&mut state);
    state.next_check(at(0));
    state.expire_overdue(at(700)).unwrap();
    let payload = pinged(&mut state);
    ask_until(&mut state, at(3000));
    said(&mut state);
    receive(&mut state, &[(frame_type::PING, flag::ACK, 0, payload)]);
    // A payload that was never sent proves nothing.
    receive(&mut state, &[(frame_type::PING, flag::ACK, 0, vec![0x7f; 8])]);
    state.expire_overdue(at(2500)).unwrap();
    let cancel = (frame_type::RST_STREAM, 0, overdue, CANCEL.to_be_bytes().to_vec());
    let said = said(&mut state);
    assert_eq!(said[0], cancel);
    assert!(matches!(said[1..], [(frame_type::PING, ..)]), "{said:?}");
    state.expire_overdue(at(3000)).unwrap_err();

    let (mut state, at) = fenced();
    let [first, second] = [2500, 2500].map(|due| ask_until(&mut state, at(due)));
    receive(&mut state, &[ok(second, flag::END_STREAM)]);
    state.expire_overdue(at(2500)).unwrap();
    assert!(whole(&mut state, first).is_ready(), "an answer proves what was before it");
}

#[test]
fn what_a_stopped_process_had_not_sent_is_not_sent_after_its_time() {
    let (mut state, at) = fenced();
    ask_until(&mut state, at(2500));
    // The process is stopped here, before anything was sent or an alarm was set.
    state.cancel_unsent(at(20_000));
    state.expire_overdue(at(20_000)).unwrap_err();
}

#[test]
fn who_is_not_listened_to_any_more_is_told() {
    let mut state = begun();
    let id = ask(&mut state, "");
    said(&mut state);
    state.release(id);
    assert_eq!(said(&mut state), [(frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec())]);
    receive(&mut state, &[ok(id, 0), data(id, flag::END_STREAM, "too late")]);
    assert_eq!(state.open, 0);
}

#[test]
fn a_server_that_leaves_answers_what_it_took() {
    let mut state = begun();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)])]);
    let [first, second, third] = [(); 3].map(|()| ask(&mut state, ""));
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
    assert!(!state.poll_output(&context(), &mut out), "somebody still reads the answer");
    state.release(first);
    assert!(state.poll_output(&context(), &mut out));
}

#[test]
fn pings_are_answered() {
    let mut state = begun();
    let ping = (frame_type::PING, 0, 0, b"12345678".to_vec());
    receive(&mut state, &[ping]);
    let pong = [(frame_type::PING, flag::ACK, 0, b"12345678".to_vec())];
    assert_eq!(said(&mut state), pong);
    receive(&mut state, &pong);
    assert_eq!(said(&mut state), []);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_all() {
    let mut state = begun();
    let [done, cut] = [(); 2].map(|()| ask(&mut state, ""));
    receive(&mut state, &[ok(done, flag::END_STREAM), ok(cut, 0), data(cut, 0, "half")]);
    state.end("gone");
    assert_eq!(status(&mut state, done), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut state, done), Poll::Ready(None));
    assert_eq!(status(&mut state, cut), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut state, cut), Poll::Ready(Some(Ok("half".to_owned()))));
    assert_eq!(text(&mut state, cut), Poll::Ready(Some(Err("gone".to_owned()))));
    assert!(!state.accepts_streams());
}

#[test]
fn what_no_server_may_say_ends_it() {
    check_error(&[(frame_type::DATA, 0, 1, vec![0; 1001])], "more than there is room for");
    check_error(&[(frame_type::HEADERS, 0, 1, vec![]), ok(1, 0)], "does not go on");
    check_error(&[(frame_type::CONTINUATION, 0, 1, vec![])], "without a beginning");
    check_error(&[(frame_type::PUSH_PROMISE, 0, 1, vec![])], "nobody asked for");
    check_error(&[(frame_type::SETTINGS, 0, 0, vec![0])], "cut off");
    check_error(&[(frame_type::PING, 0, 0, vec![0])], "a ping of 1 bytes");
    check_error(&[(frame_type::DATA, flag::PADDED, 1, vec![2, 0])], "cut off");
    check_error(&[(frame_type::HEADERS, flag::END_HEADERS, 1, vec![0xbe])], "not to be remembered");
    check_error(&[(frame_type::DATA, 0, 1, vec![0; 16_385])], "a frame of 16385 bytes");
    let block = (frame_type::CONTINUATION, 0, 1, vec![0; 16_384]);
    let mut endless = vec![(frame_type::HEADERS, 0, 1, vec![])];
    endless.extend(vec![block; 5]);
    check_error(&endless, "too large");
    let ping = (frame_type::PING, 0, 0, b"12345678".to_vec());
    check_error(&vec![ping; OUTPUT_BYTES_MAX / 17 + 1], "more than it reads");
}

proptest! {
    /// However the bytes are cut, the same is heard.
    #[test]
    fn frames_do_not_depend_on_how_they_are_cut(cut in 1..60_usize) {
        let mut state = begun();
        let [one, other] = [(); 2].map(|()| ask(&mut state, ""));
        let frames = [
            settings(&[(setting::MAX_CONCURRENT_STREAMS, 7)]), ok(one, 0), data(one, 0, "a"), ok(other, 0),
            data(other, flag::END_STREAM, "b"), data(one, flag::END_STREAM, "c"),
        ];
        let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
        let mut heard = Vec::new();
        for piece in bytes.chunks(cut) {
            heard.extend(piece);
            let taken = state.receive(&heard).unwrap();
            heard.drain(..taken);
        }
        prop_assert!(heard.is_empty());
        prop_assert_eq!(text(&mut state, one), Poll::Ready(Some(Ok("ac".to_owned()))));
        prop_assert_eq!(text(&mut state, other), Poll::Ready(Some(Ok("b".to_owned()))));
    }

    #[test]
    fn no_bytes_panic(
        frames in prop::collection::vec(
            (0..11_u8, any::<u8>(), 0..6_u32, prop::collection::vec(any::<u8>(), 0..40)), 0..30
        ),
    ) {
        let mut state = begun();
        let ids = [(); 3].map(|()| ask(&mut state, "some body"));
        for heard in frames {
            if state.receive(&frame(&heard)).is_err() {
                state.end("wrong");
            }
            let _ = state.poll_data(ids[0], &context());
            let _ = state.poll_whole(ids[1], 10, &context());
        }
        for id in ids {
            state.release(id);
        }
        prop_assert!(state.streams.is_empty());
    }
}
