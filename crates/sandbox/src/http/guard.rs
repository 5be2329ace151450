//! Isolation of panics in request handlers: a panic fails one request, not the process.

use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures::FutureExt as _;
use tracing::error;

thread_local! {
    static HANDLES_REQUEST: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` while the calling thread polls the handler of an HTTP request, or the stream of a watch
/// that it started.
///
/// Panics of such code are caught and answered with `500 Internal Server Error`. A panic hook that
/// aborts the process for all other panics calls this function to exempt those: hooks run on the
/// panicking thread, before the stack is unwound.
///
/// The state of the cluster stays consistent across such a panic. Handlers never change stored objects
/// in place: they build a new version and pass it to [`Collection::create`], [`replace`] or [`remove`],
/// which check the expected version and swap it in under one lock without calling code of the handler. A
/// handler that panics earlier has changed nothing, and locks whose poisoning is ignored never guard a
/// partial version.
///
/// [`Collection::create`]: crate::store::Collection::create
/// [`replace`]: crate::store::Collection::replace
/// [`remove`]: crate::store::Collection::remove
pub fn handles_request() -> bool {
    HANDLES_REQUEST.get()
}

/// Sets the flag behind [`handles_request`] until it is dropped, also by unwinding.
struct Marker {
    before: bool,
}

impl Marker {
    fn set() -> Self {
        Self { before: HANDLES_REQUEST.replace(true) }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        HANDLES_REQUEST.set(self.before);
    }
}

/// Runs a future of a request handler. Returns `None` if it panics, after logging the panic with the
/// method and path of the request.
pub(super) async fn catch_panic<T>(
    method: &http::Method,
    path: &str,
    future: impl Future<Output = T>,
) -> Option<T> {
    // Unwind safety: see `handles_request`.
    let mut future = pin!(AssertUnwindSafe(future).catch_unwind());
    let result = poll_fn(|context| {
        let _marker = Marker::set();
        future.as_mut().poll(context)
    });
    match result.await {
        Ok(output) => Some(output),
        Err(panic) => {
            let message = message_of(&*panic);
            error!(%method, path, panic = message, "request handler panicked");
            None
        }
    }
}

/// Returns the message of a panic, if its payload is text.
fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Method;
    use tracing::field::{Field, Visit};
    use tracing::span;

    use super::*;

    /// Records the fields of all tracing events.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<String>>);

    impl tracing::Subscriber for Recorder {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            struct Text<'a>(&'a mut String);
            impl Visit for Text<'_> {
                fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                    use std::fmt::Write as _;
                    write!(self.0, "{}={value:?};", field.name()).expect("strings take everything");
                }
            }
            let mut text = self.0.lock().unwrap();
            text.push_str(event.metadata().level().as_str());
            text.push(';');
            event.record(&mut Text(&mut text));
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[tokio::test]
    async fn a_panic_is_logged_with_the_method_and_path_of_the_request() {
        let recorder = Recorder::default();
        let _default = tracing::subscriber::set_default(recorder.clone());
        let done = catch_panic(&Method::PUT, "/api/v1/pods/a", async {
            tokio::task::yield_now().await;
            panic!("broken {}", 7);
        });
        assert_eq!(done.await, None::<()>);
        let text = recorder.0.lock().unwrap().clone();
        for part in ["ERROR;", "method=PUT;", "path=\"/api/v1/pods/a\";", "panic=\"broken 7\";"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[tokio::test]
    async fn the_flag_is_set_exactly_while_a_handler_is_polled() {
        assert!(!handles_request());
        let mut handler = Box::pin(catch_panic(&Method::GET, "/", async {
            assert!(handles_request());
            tokio::task::yield_now().await;
            handles_request()
        }));
        assert!(futures::poll!(&mut handler).is_pending());
        assert!(!handles_request(), "the handler is pending, and other code runs on this thread");
        assert_eq!(handler.await, Some(true));
        assert_eq!(catch_panic(&Method::GET, "/", async { panic!("broken") }).await, None::<()>);
        assert!(!handles_request());
    }
}
