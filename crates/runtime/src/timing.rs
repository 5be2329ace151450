//! Turns what the engine measured into upstream's metrics: durations of extension points, plugins and
//! queueing hints. [`engine::stopwatch`] chooses what is measured.

use std::sync::LazyLock;
use std::time::Instant;

use engine::engine::Engine;
use engine::stopwatch::{AttemptTimes, Called, Measurements};

use crate::metrics::Metrics;

#[cfg(test)]
mod tests;

const SUCCESS: &str = "Success";
const SKIP: &str = "Skip";

/// Makes an engine measure its attempts and the calls of its plugins.
pub fn measure(engine: &mut Engine) {
    engine.set_clock(Some(nanoseconds));
}

/// Duration of an extension point in one attempt, with the first failure.
struct PointTime {
    point: &'static str,
    nanoseconds: u64,
    status: &'static str,
}

/// Takes what an engine measured since the last call and records it.
pub fn record(engine: &mut Engine, metrics: &Metrics) {
    let Measurements { times, calls } = engine.take_measurements();
    let mut points: Vec<PointTime> = Vec::new();
    for call in calls {
        let seconds = call.nanoseconds.map(seconds);
        match (call.called, seconds) {
            (Called::Hint(event), Some(seconds)) => {
                metrics.observe_hint(&call.plugin, &event.to_string(), call.status, seconds);
            }
            (Called::Point(point), Some(seconds)) => {
                metrics.observe_plugin(&call.plugin, point, call.status, seconds);
            }
            (_, None) => {}
        }
        let Called::Point(point) = call.called else { continue };
        if matches!(point, "PreFilter" | "PreScore") && call.status != SKIP {
            metrics.count_plugin_evaluation(&call.plugin, point, &call.profile);
        }
        // PreEnqueue is no part of an attempt.
        if let Some(nanoseconds) = call.nanoseconds.filter(|_| point != "PreEnqueue") {
            add_to_point(&mut points, point, nanoseconds, call.status);
        }
    }
    record_points(engine, metrics, times, &points);
}

fn add_to_point(
    points: &mut Vec<PointTime>,
    point: &'static str,
    nanoseconds: u64,
    status: &'static str,
) {
    // A plugin that is skipped does not change the status of the extension point.
    let status = if status == SKIP { SUCCESS } else { status };
    match points.iter_mut().find(|other| other.point == point) {
        Some(time) => {
            time.nanoseconds += nanoseconds;
            if time.status == SUCCESS {
                time.status = status;
            }
        }
        None => points.push(PointTime { point, nanoseconds, status }),
    }
}

fn record_points(engine: &Engine, metrics: &Metrics, times: AttemptTimes, points: &[PointTime]) {
    // Attempts with extenders have no profile here.
    let Some((profile, status)) = times.attempt else { return };
    let profile = &engine.profiles()[profile].name;
    let of = |name: &str| {
        let time = points.iter().find(|time| time.point == name);
        time.map_or(0, |time| time.nanoseconds)
    };
    let observe = |point, status, nanoseconds| {
        metrics.observe_extension_point(point, status, profile, seconds(nanoseconds));
    };
    if let Some(filter) = times.filter {
        observe("Filter", status, filter.saturating_sub(of("PreFilter")));
    }
    if let Some(score) = times.score {
        observe("Score", SUCCESS, score.saturating_sub(of("PreScore")));
    }
    for time in points {
        observe(time.point, time.status, time.nanoseconds);
    }
}

fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
