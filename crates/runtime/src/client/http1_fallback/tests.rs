//! The log of the fallback.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span;

use super::*;

/// Counts warnings.
#[derive(Clone, Default)]
struct WarningCounter(Arc<AtomicUsize>);

impl tracing::Subscriber for WarningCounter {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn the_reason_for_http_1_is_logged_once() {
    let counter = WarningCounter::default();
    let _guard = tracing::subscriber::set_default(counter.clone());
    let logged = Once::new();
    for _ in 0..3 {
        log(&logged, "the API server does not support HTTP/2");
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
}
