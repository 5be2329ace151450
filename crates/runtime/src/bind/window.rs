//! The bind window: the number of binds that may be in flight at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::lease::REQUEST_TIMEOUT;

/// Maximum number of binds in flight, adapted like a congestion window: it grows by one with each fast
/// bind and halves when the API server throttles or fails. Also holds the mean latency of binds.
#[derive(Debug)]
pub struct BindWindow {
    size: AtomicUsize,
    /// Moving average of the latency, in nanoseconds. Short latencies weigh more than long ones, so
    /// that the end of a flood is soon noticed.
    latency: AtomicU64,
}

impl BindWindow {
    pub(super) const SIZE_INITIAL: usize = 64;
    pub(super) const SIZE_MIN: usize = 4;
    /// An API server handles 200 mutating requests at once by default; more would wait there.
    pub(super) const SIZE_MAX: usize = 256;

    /// Assumed latency before the first bind.
    const LATENCY_INITIAL: Duration = Duration::from_millis(40);

    /// Latency above which binds wait for each other at the API server: a window above
    /// [`Self::SIZE_INITIAL`] would only bring them closer to their time limit.
    pub(super) const LATENCY_CONGESTED: Duration =
        Duration::from_millis(REQUEST_TIMEOUT.as_millis() as u64 / 4);

    /// Returns the maximum number of binds in flight.
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns the mean latency of binds.
    pub fn mean_latency(&self) -> Duration {
        Duration::from_nanos(self.latency.load(Ordering::Relaxed))
    }

    /// Records a successful bind.
    pub(super) fn record_success(&self, took: Duration) {
        let before = self.mean_latency();
        let average = if took < before { (before + took) / 2 } else { (before * 7 + took) / 8 };
        self.latency.store(average.as_nanos() as u64, Ordering::Relaxed);
        if average < Self::LATENCY_CONGESTED || self.size() < Self::SIZE_INITIAL {
            self.grow();
        }
    }

    pub(crate) fn grow(&self) {
        self.change(|size| (size + 1).min(Self::SIZE_MAX));
    }

    pub(crate) fn shrink(&self) {
        self.change(|size| (size / 2).max(Self::SIZE_MIN));
    }

    fn change(&self, to: impl Fn(usize) -> usize) {
        let _ = self.size.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |size| Some(to(size)));
    }
}

impl Default for BindWindow {
    fn default() -> Self {
        let latency = AtomicU64::new(Self::LATENCY_INITIAL.as_nanos() as u64);
        Self { size: AtomicUsize::new(Self::SIZE_INITIAL), latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_within_its_limits() {
        let window = BindWindow::default();
        for _ in 0..1000 {
            window.grow();
        }
        assert_eq!(window.size(), BindWindow::SIZE_MAX);
        window.shrink();
        assert_eq!(window.size(), BindWindow::SIZE_MAX / 2);
        for _ in 0..100 {
            window.shrink();
        }
        assert_eq!(window.size(), BindWindow::SIZE_MIN);
        window.grow();
        assert_eq!(window.size(), BindWindow::SIZE_MIN + 1);
    }

    #[test]
    fn congestion_stops_the_growth_of_the_window() {
        let window = BindWindow::default();
        (0..10).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED / 2));
        assert_eq!(window.size(), BindWindow::SIZE_INITIAL + 10);
        (0..100).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED * 2));
        let widest = window.size();
        assert!(widest < BindWindow::SIZE_INITIAL + 20, "{widest}");
        let took = window.mean_latency();
        assert!(
            took <= BindWindow::LATENCY_CONGESTED * 2
                && took > BindWindow::LATENCY_CONGESTED * 19 / 10,
            "{took:?}"
        );
        (0..100).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED / 2));
        assert!(window.size() > widest + 80);
    }

    #[test]
    fn the_mean_latency_falls_within_six_fast_binds() {
        let window = BindWindow::default();
        (0..100).for_each(|_| window.record_success(Duration::from_secs(1)));
        (0..6).for_each(|_| window.record_success(Duration::from_millis(5)));
        assert!(window.mean_latency() < Duration::from_millis(40), "{:?}", window.mean_latency());
    }

    #[test]
    fn with_slow_binds_the_window_returns_to_its_initial_size() {
        let window = BindWindow::default();
        (0..10).for_each(|_| window.shrink());
        (0..1000).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED * 2));
        assert!(
            (BindWindow::SIZE_INITIAL..BindWindow::SIZE_INITIAL + 20).contains(&window.size()),
            "{}",
            window.size()
        );
    }
}
