//! Deadlines, and the fence.

use super::*;

#[test]
fn overdue_requests_fail_and_are_reset() {
    let mut state = opened();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)])]);
    let start = Instant::now();
    let seconds = |seconds| start + Duration::from_secs(seconds);
    let mut open = |due| {
        state
            .open_stream(OutgoingStream { deadline: Some(due), ..OutgoingStream::default() })
            .unwrap()
    };
    let [late, answered, early, timely] =
        [open(seconds(9)), open(seconds(3)), open(seconds(5)), open(seconds(9))];
    sent(&mut state);
    assert_eq!(state.next_check(seconds(0)), Some(seconds(3)));
    assert_eq!(state.next_check(seconds(0)), None, "the driver knows this time");
    receive(&mut state, &[ok(answered, flag::END_STREAM)]);
    assert_eq!(collected(&mut state, answered), Poll::Ready(Ok((200, 0))));
    sent(&mut state);
    state.expire_overdue(seconds(3)).unwrap();
    assert_eq!(state.next_check(seconds(3)), Some(seconds(5)));
    state.expire_overdue(seconds(5)).unwrap();
    let error = || Poll::Ready(Err("the server did not answer".to_owned()));
    assert_eq!(collected(&mut state, early), error());
    assert_eq!(state.next_check(seconds(5)), Some(seconds(9)));
    let cancel = |id| (frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec());
    let head = |id| (frame_type::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, Vec::new());
    assert_eq!(sent(&mut state), [cancel(early), head(timely)], "a queued request is started");
    let waits = state
        .open_stream(OutgoingStream { deadline: Some(seconds(10)), ..OutgoingStream::default() })
        .unwrap();
    assert_eq!(sent(&mut state), []);
    receive(&mut state, &[ok(timely, flag::END_STREAM)]);
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 0)])]);
    sent(&mut state);
    let never = state
        .open_stream(OutgoingStream { deadline: Some(seconds(10)), ..OutgoingStream::default() })
        .unwrap();
    state.expire_overdue(seconds(10)).unwrap();
    for id in [late, waits, never] {
        assert_eq!(collected(&mut state, id), error());
    }
    assert_eq!(collected(&mut state, timely), Poll::Ready(Ok((200, 0))));
    assert_eq!(
        sent(&mut state),
        [cancel(late), cancel(waits)],
        "the last was not started, and needs no reset"
    );
    assert_eq!(state.next_check(seconds(10)), None);
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 9)])]);
    assert_eq!(sent(&mut state).len(), 1, "only the acknowledgement of SETTINGS");
    for id in [late, answered, early, timely, waits, never] {
        state.release(id);
    }
    assert_eq!((sent(&mut state), state.active_streams), (Vec::new(), 0));
}

#[test]
fn a_response_counts_even_if_it_is_read_after_the_deadline() {
    let mut state = opened();
    receive(&mut state, &[settings(&[(setting::MAX_CONCURRENT_STREAMS, 1)])]);
    let now = Instant::now();
    let mut open = || {
        state
            .open_stream(OutgoingStream { deadline: Some(now), ..OutgoingStream::default() })
            .unwrap()
    };
    let [started, waits] = [open(), open()];
    sent(&mut state);
    state.next_check(now);
    state.cancel_unsent(now);
    receive(&mut state, &[ok(started, flag::END_STREAM)]);
    state.expire_overdue(now).unwrap();
    assert_eq!(collected(&mut state, started), Poll::Ready(Ok((200, 0))));
    assert_eq!(collected(&mut state, waits), Poll::Ready(Err(Error::DeadlineExceeded.to_string())));
    assert_eq!(sent(&mut state), [], "the queued request was cancelled");
}

const PROBE_INTERVAL: Duration = Duration::from_millis(625);

/// A fenced connection and a clock.
fn fenced() -> (ConnectionState, impl Fn(u64) -> Instant) {
    let mut state = ConnectionState::new(&ConnectionOptions {
        delivery_probe_interval: Some(PROBE_INTERVAL),
        ..OPTIONS
    });
    sent(&mut state);
    let start = Instant::now();
    (state, move |milliseconds| start + Duration::from_millis(milliseconds))
}

fn open_until(state: &mut ConnectionState, due: Instant) -> u32 {
    let body = Bytes::from_static(b"body");
    state
        .open_stream(OutgoingStream { deadline: Some(due), body, ..OutgoingStream::default() })
        .unwrap()
}

/// Returns the payload of the only frame in the output, a PING.
#[track_caller]
fn sent_ping(state: &mut ConnectionState) -> Vec<u8> {
    let frames = sent(state);
    let [(frame_type::PING, 0, 0, payload)] = &frames[..] else { panic!("{frames:?}") };
    payload.clone()
}

#[test]
fn a_fenced_connection_ends_when_an_overdue_request_is_not_proven_delivered() {
    let (mut state, at) = fenced();
    open_until(&mut state, at(2500));
    sent(&mut state);
    assert_eq!(state.next_check(at(0)), Some(at(0) + PROBE_INTERVAL));
    state.expire_overdue(at(625)).unwrap();
    sent_ping(&mut state);
    for milliseconds in [1250, 2499] {
        state.expire_overdue(at(milliseconds)).unwrap();
        assert_eq!(sent(&mut state), [], "one PING is enough");
    }
    let error = state.expire_overdue(at(2500)).unwrap_err().to_string();
    assert_eq!(error, "an overdue request may still arrive");
}

#[test]
fn a_fenced_connection_survives_an_overdue_request_that_was_delivered() {
    let (mut state, at) = fenced();
    let overdue = open_until(&mut state, at(2500));
    sent(&mut state);
    state.next_check(at(0));
    state.expire_overdue(at(700)).unwrap();
    let payload = sent_ping(&mut state);
    open_until(&mut state, at(3000));
    sent(&mut state);
    receive(&mut state, &[(frame_type::PING, flag::ACK, 0, payload)]);
    // A payload that was never sent proves nothing.
    receive(&mut state, &[(frame_type::PING, flag::ACK, 0, vec![0x7f; 8])]);
    state.expire_overdue(at(2500)).unwrap();
    let cancel = (frame_type::RST_STREAM, 0, overdue, CANCEL.to_be_bytes().to_vec());
    let frames = sent(&mut state);
    assert_eq!(frames[0], cancel);
    assert!(matches!(frames[1..], [(frame_type::PING, ..)]), "{frames:?}");
    state.expire_overdue(at(3000)).unwrap_err();

    let (mut state, at) = fenced();
    let [first, second] = [2500, 2500].map(|due| open_until(&mut state, at(due)));
    receive(&mut state, &[ok(second, flag::END_STREAM)]);
    state.expire_overdue(at(2500)).unwrap();
    assert!(
        collected(&mut state, first).is_ready(),
        "a response proves the delivery of earlier requests"
    );
}

#[test]
fn a_process_paused_past_a_deadline_does_not_send_the_request() {
    let (mut state, at) = fenced();
    open_until(&mut state, at(2500));
    // The process is paused here, before anything is written or a check is scheduled.
    state.cancel_unsent(at(20_000));
    state.expire_overdue(at(20_000)).unwrap_err();
}
