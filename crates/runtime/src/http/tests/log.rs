//! Test that no token is logged.

use std::fmt::Write;

use super::*;

/// A subscriber that records everything that any crate logs at any level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn tokens_are_never_logged() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let running = RunningServer::start(|_| {}).await;
    for broken in [false, true] {
        *running.reviewer.broken.lock().unwrap() = broken;
        let token = format!("c2VjcmV0-{broken}");
        let got = running.get("/metrics", Some(&token)).await;
        assert_eq!(got.status, if broken { 503 } else { 401 });
        assert!(!got.text.contains("c2VjcmV0"));
    }
    let log = log.0.lock().unwrap();
    assert!(log.contains("cannot ask the API server"), "the log is kept: {log}");
    assert!(!log.contains("c2VjcmV0"), "{log}");
}
