//! Send and receive windows.

use super::*;

#[test]
fn bodies_wait_for_the_send_windows() {
    let mut state = opened();
    receive(&mut state, &[settings(&[(setting::INITIAL_WINDOW_SIZE, 3)])]);
    sent(&mut state);
    let id = open(&mut state, "abcdefghij");
    assert_eq!(sent(&mut state)[1..], [data(id, 0, "abc")]);
    receive(&mut state, &[window_update(id, 2)]);
    assert_eq!(sent(&mut state), [data(id, 0, "de")]);
    // A new initial window size changes the windows of open streams.
    receive(&mut state, &[settings(&[(setting::INITIAL_WINDOW_SIZE, 5)])]);
    assert_eq!(sent(&mut state)[1..], [data(id, 0, "fg")]);
    state.send_window = 1;
    receive(&mut state, &[window_update(id, 100)]);
    assert_eq!(sent(&mut state), [data(id, 0, "h")]);
    receive(&mut state, &[window_update(0, 100)]);
    assert_eq!(sent(&mut state), [data(id, flag::END_STREAM, "ij")]);
}

/// Bytes of the connection's receive window that are available or consumed.
fn accounted(state: &ConnectionState) -> i64 {
    state.receive_window.accounted()
}

#[test]
fn consumed_and_released_data_is_returned_to_the_windows() {
    let mut state = opened();
    let id = open(&mut state, "");
    sent(&mut state);
    let half = "x".repeat(OPTIONS.stream_receive_window as usize / 2);
    for _ in 0..OPTIONS.connection_receive_window / OPTIONS.stream_receive_window {
        receive(&mut state, &[data(id, 0, &half)]);
        assert!(text(&mut state, id).is_ready());
        assert!(sent(&mut state).contains(&window_update(id, half.len() as u32)));
    }
    // Also data that was never read.
    receive(&mut state, &[data(id, 0, &half)]);
    state.release(id);
    assert!(state.streams.is_empty());
    assert_eq!(accounted(&state), i64::from(OPTIONS.connection_receive_window));
    receive(&mut state, &[data(id, 0, &half)]);
    assert_eq!(accounted(&state), i64::from(OPTIONS.connection_receive_window));
}

#[test]
fn a_collected_response_may_exceed_the_receive_window() {
    let mut state = opened();
    let id = open(&mut state, "");
    let other = open(&mut state, "");
    sent(&mut state);
    let half = "x".repeat(OPTIONS.stream_receive_window as usize / 2);
    receive(&mut state, &[ok(id, 0), ok(other, 0)]);
    for _ in 0..5 {
        receive(&mut state, &[data(id, 0, &half), data(other, 0, &half)]);
        assert!(collected(&mut state, id).is_pending());
        assert!(collected(&mut state, other).is_pending());
        let room = [window_update(id, half.len() as u32), window_update(other, half.len() as u32)];
        assert_eq!(sent(&mut state), room);
    }
    receive(&mut state, &[data(id, flag::END_STREAM, &half), data(other, 0, &half)]);
    assert_eq!(collected(&mut state, id), Poll::Ready(Ok((200, 3000))));
    receive(&mut state, &[data(other, 0, "x")]);
    let error = "the response is larger than 3000 bytes".to_owned();
    assert_eq!(collected(&mut state, other), Poll::Ready(Err(error)));
    for id in [id, other] {
        state.release(id);
    }
    assert_eq!(accounted(&state), i64::from(OPTIONS.connection_receive_window));
}

#[test]
fn status_only_discards_successful_responses_and_keeps_others() {
    let mut state = opened();
    let mut open = || {
        state
            .open_stream(OutgoingStream { status_only: true, ..OutgoingStream::default() })
            .unwrap()
    };
    let [done, refused, cut] = [open(), open(), open()];
    sent(&mut state);
    let teapot = (frame_type::HEADERS, flag::END_HEADERS, refused, b"\x08\x03418".to_vec());
    let half = "x".repeat(OPTIONS.stream_receive_window as usize / 2);
    receive(&mut state, &[ok(done, 0), teapot, ok(cut, 0)]);
    for _ in 0..9 {
        receive(&mut state, &[data(done, 0, &half)]);
        assert_eq!(sent(&mut state), [window_update(done, half.len() as u32)]);
    }
    assert!(collected(&mut state, done).is_pending());
    receive(
        &mut state,
        &[data(done, flag::END_STREAM, "end"), data(refused, flag::END_STREAM, "no")],
    );
    assert_eq!(collected(&mut state, done), Poll::Ready(Ok((200, 0))));
    assert_eq!(collected(&mut state, refused), Poll::Ready(Ok((418, 2))));
    // Success is known at END_STREAM only.
    assert!(collected(&mut state, cut).is_pending());
    state.end(&Error::Closed);
    assert_eq!(
        collected(&mut state, cut),
        Poll::Ready(Err("the connection was closed".to_owned()))
    );
    for id in [done, refused, cut] {
        state.release(id);
    }
    assert_eq!(accounted(&state), i64::from(OPTIONS.connection_receive_window));
}

#[test]
fn data_of_a_failed_stream_is_returned_to_the_connection_window() {
    let mut state = opened();
    let id = open(&mut state, "");
    receive(&mut state, &[ok(id, 0), data(id, 0, "half")]);
    receive(&mut state, &[(frame_type::RST_STREAM, 0, id, CANCEL.to_be_bytes().to_vec())]);
    let error = Error::StreamReset(CANCEL).to_string();
    assert_eq!(collected(&mut state, id), Poll::Ready(Err(error)));
    state.release(id);
    assert_eq!(accounted(&state), i64::from(OPTIONS.connection_receive_window));
}
