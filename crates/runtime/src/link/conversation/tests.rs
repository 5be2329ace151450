//! What is said and heard, frame by frame.

use futures::task::noop_waker_ref;
use proptest::prelude::*;

use super::*;

const WINDOWS: Windows = Windows { stream: 1000, connection: 100_000 };

/// A frame: kind, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

fn context() -> Context<'static> {
    Context::from_waker(noop_waker_ref())
}

/// One after its first words.
fn begun() -> Conversation {
    let mut conversation = Conversation::new(WINDOWS);
    said(&mut conversation);
    conversation
}

/// What it says.
fn said(conversation: &mut Conversation) -> Vec<Frame> {
    let mut out = Vec::new();
    conversation.poll_out(&context(), &mut out);
    let mut rest = out.strip_prefix(PREFACE).unwrap_or(&out);
    let mut frames = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD>() {
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
fn hear(conversation: &mut Conversation, frames: &[Frame]) {
    let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
    assert_eq!(conversation.hear(&bytes).unwrap(), bytes.len());
}

fn settings(settings: &[(u16, u32)]) -> Frame {
    let mut payload = Vec::new();
    for (setting, value) in settings {
        payload.extend(setting.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    (kind::SETTINGS, 0, 0, payload)
}

/// The head of an answer with status 200.
fn ok(stream: u32, flags: u8) -> Frame {
    (kind::HEADERS, flags | flag::HEAD_ENDS, stream, vec![0x88])
}

fn data(stream: u32, flags: u8, text: &str) -> Frame {
    (kind::DATA, flags, stream, text.as_bytes().to_vec())
}

fn more_room(stream: u32, bytes: u32) -> Frame {
    (kind::WINDOW, 0, stream, bytes.to_be_bytes().to_vec())
}

fn ask(conversation: &mut Conversation, body: &str) -> u32 {
    let (head, body) = (b"head".to_vec(), body.to_owned().into());
    conversation.ask(Asking { head, body, ..Asking::default() }).unwrap()
}

fn status(conversation: &mut Conversation, id: u32) -> Poll<Result<u16, String>> {
    let head = conversation.poll_head(id, &context());
    head.map(|head| head.map(|head| head.status.as_u16()).map_err(|error| error.to_string()))
}

fn text(conversation: &mut Conversation, id: u32) -> Poll<Option<Result<String, String>>> {
    let text = |data: Result<Bytes>| match data {
        Ok(data) => Ok(String::from_utf8(data.to_vec()).unwrap()),
        Err(error) => Err(error.to_string()),
    };
    conversation.poll_data(id, &context()).map(|data| data.map(text))
}

#[track_caller]
fn check_error(frames: &[Frame], why: &str) {
    let mut conversation = begun();
    ask(&mut conversation, "");
    let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
    let error = conversation.hear(&bytes).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn it_begins_with_who_we_are() {
    let mut conversation = Conversation::new(WINDOWS);
    let first = said(&mut conversation);
    let ours = settings(&[
        (setting::TABLE_BYTES, 0),
        (setting::PUSH, 0),
        (setting::STREAM_BYTES, WINDOWS.stream),
    ]);
    assert_eq!(first, [ours, more_room(0, WINDOWS.connection - 65_535)]);
}

#[test]
fn a_request_and_its_answer() {
    let mut conversation = begun();
    let id = ask(&mut conversation, "body");
    let sent = said(&mut conversation);
    let head = (kind::HEADERS, flag::HEAD_ENDS, id, b"head".to_vec());
    assert_eq!(sent, [head, data(id, flag::END, "body")]);
    assert!(status(&mut conversation, id).is_pending());
    // Something before the answer, the answer with its body in two parts, something after it.
    let early = (kind::HEADERS, flag::HEAD_ENDS, id, b"\x08\x03103".to_vec());
    let late = (kind::HEADERS, flag::HEAD_ENDS | flag::END, id, b"\x00\x01a\x01b".to_vec());
    hear(&mut conversation, &[early, ok(id, 0), data(id, 0, "one "), data(id, 0, "two"), late]);
    assert_eq!(status(&mut conversation, id), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut conversation, id), Poll::Ready(Some(Ok("one two".to_owned()))));
    assert_eq!(text(&mut conversation, id), Poll::Ready(None));
    conversation.forget(id);
    assert_eq!(said(&mut conversation), [], "nothing is left to be said");
    assert_eq!(conversation.open, 0);
}

#[test]
fn heads_in_parts_and_filled_up() {
    let mut conversation = begun();
    let id = ask(&mut conversation, "");
    let flags = flag::PADDED | flag::PRIORITY;
    let first = (kind::HEADERS, flags, id, b"\x02\0\0\0\0\x10\x00\x07:sta\0\0".to_vec());
    let second = (kind::CONTINUATION, 0, id, b"tus".to_vec());
    let third = (kind::CONTINUATION, flag::HEAD_ENDS, id, b"\x03404".to_vec());
    let filled = (kind::DATA, flag::PADDED | flag::END, id, b"\x03text\0\0\0".to_vec());
    hear(&mut conversation, &[first, second, third, filled]);
    assert_eq!(status(&mut conversation, id), Poll::Ready(Ok(404)));
    assert_eq!(text(&mut conversation, id), Poll::Ready(Some(Ok("text".to_owned()))));
}

#[test]
fn requests_wait_for_their_turn() {
    let mut conversation = begun();
    hear(&mut conversation, &[settings(&[(setting::STREAMS_MAX, 2)])]);
    let ids = [(); 4].map(|()| ask(&mut conversation, ""));
    let heads = |frames: Vec<Frame>| {
        let heads = frames.into_iter().filter(|frame| frame.0 == kind::HEADERS);
        heads.map(|frame| frame.2).collect::<Vec<u32>>()
    };
    assert_eq!(heads(said(&mut conversation)), ids[..2]);
    // One that nobody wants any more loses its turn.
    conversation.forget(ids[2]);
    hear(&mut conversation, &[ok(ids[1], flag::END)]);
    assert_eq!(heads(said(&mut conversation)), [ids[3]]);
    let reset = (kind::RESET, 0, ids[0], 8_u32.to_be_bytes().to_vec());
    hear(&mut conversation, &[reset]);
    let last = ask(&mut conversation, "");
    assert_eq!(heads(said(&mut conversation)), [last]);
    assert_eq!(conversation.open, 2);
}

#[test]
fn bodies_wait_for_room() {
    let mut conversation = begun();
    hear(&mut conversation, &[settings(&[(setting::STREAM_BYTES, 3)])]);
    said(&mut conversation);
    let id = ask(&mut conversation, "abcdefghij");
    assert_eq!(said(&mut conversation)[1..], [data(id, 0, "abc")]);
    hear(&mut conversation, &[more_room(id, 2)]);
    assert_eq!(said(&mut conversation), [data(id, 0, "de")]);
    // A new setting counts for what is under way.
    hear(&mut conversation, &[settings(&[(setting::STREAM_BYTES, 5)])]);
    assert_eq!(said(&mut conversation)[1..], [data(id, 0, "fg")]);
    conversation.room = 1;
    hear(&mut conversation, &[more_room(id, 100)]);
    assert_eq!(said(&mut conversation), [data(id, 0, "h")]);
    hear(&mut conversation, &[more_room(0, 100)]);
    assert_eq!(said(&mut conversation), [data(id, flag::END, "ij")]);
}

#[test]
fn an_answer_before_the_whole_request_ends_it() {
    let mut conversation = begun();
    hear(&mut conversation, &[settings(&[(setting::STREAM_BYTES, 3)])]);
    let id = ask(&mut conversation, "abcdef");
    said(&mut conversation);
    hear(&mut conversation, &[ok(id, flag::END), more_room(id, 100)]);
    let reset = (kind::RESET, 0, id, CANCEL.to_be_bytes().to_vec());
    assert_eq!(said(&mut conversation), [reset]);
    assert_eq!(status(&mut conversation, id), Poll::Ready(Ok(200)));
}

/// Bytes that the server may send, or that were taken.
fn accounted(conversation: &Conversation) -> i64 {
    i64::from(conversation.taken) + conversation.expected
}

#[test]
fn what_is_taken_may_be_sent_again() {
    let mut conversation = begun();
    let id = ask(&mut conversation, "");
    said(&mut conversation);
    let half = "x".repeat(WINDOWS.stream as usize / 2);
    for _ in 0..WINDOWS.connection / WINDOWS.stream {
        hear(&mut conversation, &[data(id, 0, &half)]);
        assert!(text(&mut conversation, id).is_ready());
        assert!(said(&mut conversation).contains(&more_room(id, half.len() as u32)));
    }
    // And so may what nobody took.
    hear(&mut conversation, &[data(id, 0, &half)]);
    conversation.forget(id);
    assert!(conversation.streams.is_empty());
    assert_eq!(accounted(&conversation), i64::from(WINDOWS.connection));
    hear(&mut conversation, &[data(id, 0, &half)]);
    assert_eq!(accounted(&conversation), i64::from(WINDOWS.connection));
}

fn whole(conversation: &mut Conversation, id: u32) -> Poll<Result<(u16, usize), String>> {
    let whole = conversation.poll_whole(id, 3000, &context());
    let whole = whole.map_ok(|(head, data)| (head.status.as_u16(), data.len()));
    whole.map_err(|error| error.to_string())
}

#[test]
fn a_whole_answer_may_be_larger_than_the_room_for_it() {
    let mut conversation = begun();
    let id = ask(&mut conversation, "");
    let other = ask(&mut conversation, "");
    said(&mut conversation);
    let half = "x".repeat(WINDOWS.stream as usize / 2);
    hear(&mut conversation, &[ok(id, 0), ok(other, 0)]);
    for _ in 0..5 {
        hear(&mut conversation, &[data(id, 0, &half), data(other, 0, &half)]);
        assert!(whole(&mut conversation, id).is_pending());
        assert!(whole(&mut conversation, other).is_pending());
        let room = [more_room(id, half.len() as u32), more_room(other, half.len() as u32)];
        assert_eq!(said(&mut conversation), room);
    }
    hear(&mut conversation, &[data(id, flag::END, &half), data(other, 0, &half)]);
    assert_eq!(whole(&mut conversation, id), Poll::Ready(Ok((200, 3000))));
    hear(&mut conversation, &[data(other, 0, "x")]);
    let error = "the answer is larger than 3000 bytes".to_owned();
    assert_eq!(whole(&mut conversation, other), Poll::Ready(Err(error)));
    for id in [id, other] {
        conversation.forget(id);
    }
    assert_eq!(accounted(&conversation), i64::from(WINDOWS.connection));
}

#[test]
fn of_a_brief_answer_only_a_failure_is_kept() {
    let mut conversation = begun();
    let mut ask = || conversation.ask(Asking { brief: true, ..Asking::default() }).unwrap();
    let [done, refused, cut] = [ask(), ask(), ask()];
    said(&mut conversation);
    let teapot = (kind::HEADERS, flag::HEAD_ENDS, refused, b"\x08\x03418".to_vec());
    let half = "x".repeat(WINDOWS.stream as usize / 2);
    hear(&mut conversation, &[ok(done, 0), teapot, ok(cut, 0)]);
    for _ in 0..9 {
        hear(&mut conversation, &[data(done, 0, &half)]);
        assert_eq!(said(&mut conversation), [more_room(done, half.len() as u32)]);
    }
    assert!(whole(&mut conversation, done).is_pending());
    hear(&mut conversation, &[data(done, flag::END, "end"), data(refused, flag::END, "no")]);
    assert_eq!(whole(&mut conversation, done), Poll::Ready(Ok((200, 0))));
    assert_eq!(whole(&mut conversation, refused), Poll::Ready(Ok((418, 2))));
    // Before its end, nobody knows that it is done.
    assert!(whole(&mut conversation, cut).is_pending());
    conversation.end("gone");
    assert_eq!(whole(&mut conversation, cut), Poll::Ready(Err("gone".to_owned())));
    for id in [done, refused, cut] {
        conversation.forget(id);
    }
    assert_eq!(accounted(&conversation), i64::from(WINDOWS.connection));
}

#[test]
fn what_is_overdue_is_given_up() {
    let mut conversation = begun();
    hear(&mut conversation, &[settings(&[(setting::STREAMS_MAX, 2)])]);
    let start = Instant::now();
    let seconds = |seconds| start + std::time::Duration::from_secs(seconds);
    let mut ask = |due| conversation.ask(Asking { due: Some(due), ..Asking::default() }).unwrap();
    let [late, answered, early, timely] =
        [ask(seconds(9)), ask(seconds(3)), ask(seconds(5)), ask(seconds(9))];
    said(&mut conversation);
    assert_eq!(conversation.set_alarm(seconds(0)), Some(seconds(3)));
    assert_eq!(conversation.set_alarm(seconds(0)), None, "it is set");
    hear(&mut conversation, &[ok(answered, flag::END)]);
    assert_eq!(whole(&mut conversation, answered), Poll::Ready(Ok((200, 0))));
    said(&mut conversation);
    conversation.give_up(seconds(3)).unwrap();
    assert_eq!(conversation.set_alarm(seconds(3)), Some(seconds(5)));
    conversation.give_up(seconds(5)).unwrap();
    let error = || Poll::Ready(Err("the API server did not answer".to_owned()));
    assert_eq!(whole(&mut conversation, early), error());
    assert_eq!(conversation.set_alarm(seconds(5)), Some(seconds(9)));
    let cancel = |id| (kind::RESET, 0, id, CANCEL.to_be_bytes().to_vec());
    let head = |id| (kind::HEADERS, flag::HEAD_ENDS | flag::END, id, Vec::new());
    assert_eq!(said(&mut conversation), [cancel(early), head(timely)], "the next has its turn");
    let waits = conversation.ask(Asking { due: Some(seconds(10)), ..Asking::default() }).unwrap();
    assert_eq!(said(&mut conversation), []);
    hear(&mut conversation, &[ok(timely, flag::END)]);
    hear(&mut conversation, &[settings(&[(setting::STREAMS_MAX, 0)])]);
    said(&mut conversation);
    let never = conversation.ask(Asking { due: Some(seconds(10)), ..Asking::default() }).unwrap();
    conversation.give_up(seconds(10)).unwrap();
    for id in [late, waits, never] {
        assert_eq!(whole(&mut conversation, id), error());
    }
    assert_eq!(whole(&mut conversation, timely), Poll::Ready(Ok((200, 0))));
    assert_eq!(said(&mut conversation), [cancel(late), cancel(waits)], "the last was never sent");
    assert_eq!(conversation.set_alarm(seconds(10)), None);
    hear(&mut conversation, &[settings(&[(setting::STREAMS_MAX, 9)])]);
    assert_eq!(said(&mut conversation).len(), 1, "nothing but that settings are heard");
    for id in [late, answered, early, timely, waits, never] {
        conversation.forget(id);
    }
    assert_eq!((said(&mut conversation), conversation.open), (Vec::new(), 0));
}

#[test]
fn an_answer_that_is_here_counts_however_late_it_is_heard() {
    let mut conversation = begun();
    hear(&mut conversation, &[settings(&[(setting::STREAMS_MAX, 1)])]);
    let now = Instant::now();
    let mut ask = || conversation.ask(Asking { due: Some(now), ..Asking::default() }).unwrap();
    let [sent, waits] = [ask(), ask()];
    said(&mut conversation);
    conversation.set_alarm(now);
    conversation.withdraw(now);
    hear(&mut conversation, &[ok(sent, flag::END)]);
    conversation.give_up(now).unwrap();
    assert_eq!(whole(&mut conversation, sent), Poll::Ready(Ok((200, 0))));
    assert_eq!(whole(&mut conversation, waits), Poll::Ready(Err(NO_ANSWER.to_owned())));
    assert_eq!(said(&mut conversation), [], "its turn came too late");
}

/// A fenced one and a clock.
fn fenced() -> (Conversation, impl Fn(u64) -> Instant) {
    let mut conversation = Conversation::new(WINDOWS).fenced();
    said(&mut conversation);
    let start = Instant::now();
    (conversation, move |milliseconds| start + std::time::Duration::from_millis(milliseconds))
}

fn ask_until(conversation: &mut Conversation, due: Instant) -> u32 {
    let body = Bytes::from_static(b"body");
    conversation.ask(Asking { due: Some(due), body, ..Asking::default() }).unwrap()
}

/// The payload of the only frame that is said, a ping.
#[track_caller]
fn pinged(conversation: &mut Conversation) -> Vec<u8> {
    let said = said(conversation);
    let [(kind::PING, 0, 0, payload)] = &said[..] else { panic!("{said:?}") };
    payload.clone()
}

#[test]
fn a_fenced_connection_ends_when_an_overdue_request_may_still_arrive() {
    let (mut conversation, at) = fenced();
    ask_until(&mut conversation, at(2500));
    said(&mut conversation);
    assert_eq!(conversation.set_alarm(at(0)), Some(at(0) + ASK_EVERY));
    conversation.give_up(at(625)).unwrap();
    pinged(&mut conversation);
    for milliseconds in [1250, 2499] {
        conversation.give_up(at(milliseconds)).unwrap();
        assert_eq!(said(&mut conversation), [], "one ping is enough");
    }
    let error = conversation.give_up(at(2500)).unwrap_err().to_string();
    assert_eq!(error, "an overdue request may still arrive");
}

#[test]
fn a_fenced_connection_goes_on_after_an_overdue_request_that_arrived() {
    let (mut conversation, at) = fenced();
    let overdue = ask_until(&mut conversation, at(2500));
    said(&mut conversation);
    conversation.set_alarm(at(0));
    conversation.give_up(at(700)).unwrap();
    let payload = pinged(&mut conversation);
    ask_until(&mut conversation, at(3000));
    said(&mut conversation);
    hear(&mut conversation, &[(kind::PING, flag::ACKNOWLEDGED, 0, payload)]);
    // A payload that was never sent proves nothing.
    hear(&mut conversation, &[(kind::PING, flag::ACKNOWLEDGED, 0, vec![0x7f; 8])]);
    conversation.give_up(at(2500)).unwrap();
    let cancel = (kind::RESET, 0, overdue, CANCEL.to_be_bytes().to_vec());
    let said = said(&mut conversation);
    assert_eq!(said[0], cancel);
    assert!(matches!(said[1..], [(kind::PING, ..)]), "{said:?}");
    conversation.give_up(at(3000)).unwrap_err();

    let (mut conversation, at) = fenced();
    let [first, second] = [2500, 2500].map(|due| ask_until(&mut conversation, at(due)));
    hear(&mut conversation, &[ok(second, flag::END)]);
    conversation.give_up(at(2500)).unwrap();
    assert!(whole(&mut conversation, first).is_ready(), "an answer proves what was before it");
}

#[test]
fn what_a_stopped_process_had_not_sent_is_not_sent_after_its_time() {
    let (mut conversation, at) = fenced();
    ask_until(&mut conversation, at(2500));
    // The process is stopped here, before anything was sent or an alarm was set.
    conversation.withdraw(at(20_000));
    conversation.give_up(at(20_000)).unwrap_err();
}

#[test]
fn who_is_not_listened_to_any_more_is_told() {
    let mut conversation = begun();
    let id = ask(&mut conversation, "");
    said(&mut conversation);
    conversation.forget(id);
    assert_eq!(said(&mut conversation), [(kind::RESET, 0, id, CANCEL.to_be_bytes().to_vec())]);
    hear(&mut conversation, &[ok(id, 0), data(id, flag::END, "too late")]);
    assert_eq!(conversation.open, 0);
}

#[test]
fn a_server_that_leaves_answers_what_it_took() {
    let mut conversation = begun();
    hear(&mut conversation, &[settings(&[(setting::STREAMS_MAX, 2)])]);
    let [first, second, third] = [(); 3].map(|()| ask(&mut conversation, ""));
    hear(&mut conversation, &[(kind::LEAVE, 0, 0, [first.to_be_bytes(), [0; 4]].concat())]);
    assert!(!conversation.takes_requests());
    assert!(conversation.ask(Asking::default()).is_err());
    for id in [second, third] {
        let why = "the server closes the connection".to_owned();
        assert_eq!(status(&mut conversation, id), Poll::Ready(Err(why)));
        conversation.forget(id);
    }
    hear(&mut conversation, &[ok(first, flag::END)]);
    assert_eq!(status(&mut conversation, first), Poll::Ready(Ok(200)));
    let mut out = Vec::new();
    assert!(!conversation.poll_out(&context(), &mut out), "somebody still reads the answer");
    conversation.forget(first);
    assert!(conversation.poll_out(&context(), &mut out));
}

#[test]
fn pings_are_answered() {
    let mut conversation = begun();
    let ping = (kind::PING, 0, 0, b"12345678".to_vec());
    hear(&mut conversation, &[ping]);
    let pong = [(kind::PING, flag::ACKNOWLEDGED, 0, b"12345678".to_vec())];
    assert_eq!(said(&mut conversation), pong);
    hear(&mut conversation, &pong);
    assert_eq!(said(&mut conversation), []);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_all() {
    let mut conversation = begun();
    let [done, cut] = [(); 2].map(|()| ask(&mut conversation, ""));
    hear(&mut conversation, &[ok(done, flag::END), ok(cut, 0), data(cut, 0, "half")]);
    conversation.end("gone");
    assert_eq!(status(&mut conversation, done), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut conversation, done), Poll::Ready(None));
    assert_eq!(status(&mut conversation, cut), Poll::Ready(Ok(200)));
    assert_eq!(text(&mut conversation, cut), Poll::Ready(Some(Ok("half".to_owned()))));
    assert_eq!(text(&mut conversation, cut), Poll::Ready(Some(Err("gone".to_owned()))));
    assert!(!conversation.takes_requests());
}

#[test]
fn what_no_server_may_say_ends_it() {
    check_error(&[(kind::DATA, 0, 1, vec![0; 1001])], "more than there is room for");
    check_error(&[(kind::HEADERS, 0, 1, vec![]), ok(1, 0)], "does not go on");
    check_error(&[(kind::CONTINUATION, 0, 1, vec![])], "without a beginning");
    check_error(&[(kind::PUSH, 0, 1, vec![])], "nobody asked for");
    check_error(&[(kind::SETTINGS, 0, 0, vec![0])], "cut off");
    check_error(&[(kind::PING, 0, 0, vec![0])], "a ping of 1 bytes");
    check_error(&[(kind::DATA, flag::PADDED, 1, vec![2, 0])], "cut off");
    check_error(&[(kind::HEADERS, flag::HEAD_ENDS, 1, vec![0xbe])], "not to be remembered");
    check_error(&[(kind::DATA, 0, 1, vec![0; 16_385])], "a frame of 16385 bytes");
    let block = (kind::CONTINUATION, 0, 1, vec![0; 16_384]);
    let mut endless = vec![(kind::HEADERS, 0, 1, vec![])];
    endless.extend(vec![block; 5]);
    check_error(&endless, "too large");
    let ping = (kind::PING, 0, 0, b"12345678".to_vec());
    check_error(&vec![ping; OUT_MAX / 17 + 1], "more than it reads");
}

proptest! {
    /// However the bytes are cut, the same is heard.
    #[test]
    fn frames_do_not_depend_on_how_they_are_cut(cut in 1..60_usize) {
        let mut conversation = begun();
        let [one, other] = [(); 2].map(|()| ask(&mut conversation, ""));
        let frames = [
            settings(&[(setting::STREAMS_MAX, 7)]), ok(one, 0), data(one, 0, "a"), ok(other, 0),
            data(other, flag::END, "b"), data(one, flag::END, "c"),
        ];
        let bytes = frames.iter().flat_map(frame).collect::<Vec<u8>>();
        let mut heard = Vec::new();
        for piece in bytes.chunks(cut) {
            heard.extend(piece);
            let taken = conversation.hear(&heard).unwrap();
            heard.drain(..taken);
        }
        prop_assert!(heard.is_empty());
        prop_assert_eq!(text(&mut conversation, one), Poll::Ready(Some(Ok("ac".to_owned()))));
        prop_assert_eq!(text(&mut conversation, other), Poll::Ready(Some(Ok("b".to_owned()))));
    }

    #[test]
    fn no_bytes_panic(
        frames in prop::collection::vec(
            (0..11_u8, any::<u8>(), 0..6_u32, prop::collection::vec(any::<u8>(), 0..40)), 0..30
        ),
    ) {
        let mut conversation = begun();
        let ids = [(); 3].map(|()| ask(&mut conversation, "some body"));
        for heard in frames {
            if conversation.hear(&frame(&heard)).is_err() {
                conversation.end("wrong");
            }
            let _ = conversation.poll_data(ids[0], &context());
            let _ = conversation.poll_whole(ids[1], 10, &context());
        }
        for id in ids {
            conversation.forget(id);
        }
        prop_assert!(conversation.streams.is_empty());
    }
}
