//! Durations of plugins in a tenth of the attempts, as upstream samples them.
//!
//! The engine reads no clock, so plugins are wrapped and the driver decides which attempts are timed; a
//! call that is not timed costs one comparison more. Only calls for a whole pod or class are timed.
//! Filters and scorers are kept up to date node by node over many attempts, so a single plugin has no
//! duration within one attempt; their sum comes from [`engine::stopwatch`].

use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use engine::cycle::what_if::PostFilter;
use engine::engine::Engine;
use engine::framework::{
    BindContext, Class, Event, KeyPart, Permit, Plugin, Point, PostFilterOutcome, PreFilterResult,
    Preparation, Profile, QueueKey, Rejection, Reservation, Scorer, Subscription, VolumeRequest,
};
use engine::index::{NodeIdx, PodIdx};
use engine::queue::EventLabel;
use engine::state::State;

use crate::metrics::Metrics;

#[cfg(test)]
mod tests;

/// One of this number of attempts, queueing hints and PreEnqueue calls is timed.
const SAMPLING_RATIO: u32 = 10;

/// Names of extension points that [`Point`] does not have.
const UNRESERVE: &str = "Unreserve";
const PRE_BIND_PRE_FLIGHT: &str = "PreBindPreFlight";

const SUCCESS: &str = "Success";
const SKIP: &str = "Skip";

/// Chooses the attempts that are timed and records their durations.
///
/// The measurements of an attempt belong to the thread that makes it: plugins may run on other
/// threads at the same time, where they are not timed.
pub struct Sampler {
    metrics: Metrics,
    /// State of the xorshift generator.
    random: Cell<u32>,
}

/// Duration of an extension point in one attempt, with the first failure.
type PointTime = (&'static str, u64, &'static str);

std::thread_local! {
    /// The present attempt is timed.
    static IS_TIMING: Cell<bool> = const { Cell::new(false) };
    /// Calls outside of attempts until the next one that is timed.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// Extension points of the present attempt.
    static POINTS: RefCell<Vec<PointTime>> = const { RefCell::new(Vec::new()) };
}

/// Wraps the plugins of profiles so that their calls can be timed.
pub fn instrument(profiles: &mut [Profile], metrics: &Metrics) -> Sampler {
    for profile in profiles {
        let name: Arc<str> = profile.name.as_str().into();
        for plugin in std::mem::take(&mut profile.plugins) {
            // QueueSort is called for every comparison of the queue and is never timed.
            let plugin: Box<dyn Plugin> = if plugin.points() == [Point::QueueSort] {
                plugin
            } else {
                let (profile, metrics) = (Arc::clone(&name), metrics.clone());
                Box::new(TimedPlugin { plugin, profile, metrics })
            };
            profile.plugins.push(plugin);
        }
    }
    Sampler { metrics: metrics.clone(), random: Cell::new(0x9e37_79b9) }
}

impl Sampler {
    /// Starts an attempt, which is timed with a probability of one tenth.
    pub(crate) fn begin(&self, engine: &mut Engine) {
        // Random, since pods often come in multiples of ten.
        let random = self.random.get();
        let random = random ^ random << 13;
        let random = random ^ random >> 17;
        let random = random ^ random << 5;
        self.random.set(random);
        if random.is_multiple_of(SAMPLING_RATIO) {
            IS_TIMING.set(true);
            engine.set_clock(Some(nanoseconds));
        }
    }

    /// Ends the attempt.
    pub(crate) fn end(&self, engine: &mut Engine) {
        if !IS_TIMING.replace(false) {
            return;
        }
        let points = POINTS.take();
        let times = engine.attempt_times();
        engine.set_clock(None);
        // Attempts with extenders, and those without a pod, have no profile here.
        let Some((profile, status)) = times.attempt else { return };
        let profile = &engine.profiles()[profile].name;
        let of = |name: &str| {
            points
                .iter()
                .filter(|(point, ..)| *point == name)
                .map(|(_, nanos, _)| nanos)
                .sum::<u64>()
        };
        let metrics = &self.metrics;
        if let Some(filter) = times.filter {
            let filter = filter.saturating_sub(of("PreFilter"));
            metrics.observe_extension_point("Filter", status, profile, seconds(filter));
        }
        if let Some(score) = times.score {
            let score = score.saturating_sub(of("PreScore"));
            metrics.observe_extension_point("Score", SUCCESS, profile, seconds(score));
        }
        for (point, nanos, status) in points {
            metrics.observe_extension_point(point, status, profile, seconds(nanos));
        }
    }
}

fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns `true` if a call outside of attempts is to be timed.
fn is_sampled() -> bool {
    let calls = CALLS.get();
    CALLS.set(if calls == 0 { SAMPLING_RATIO - 1 } else { calls - 1 });
    calls == 0
}

/// A plugin with timed calls.
struct TimedPlugin {
    plugin: Box<dyn Plugin>,
    profile: Arc<str>,
    metrics: Metrics,
}

impl TimedPlugin {
    /// Calls the plugin, and records the duration if the attempt is timed.
    #[inline]
    fn call<T>(
        &self,
        point: &'static str,
        call: impl FnOnce(&dyn Plugin) -> T,
        status: impl FnOnce(&T) -> &'static str,
    ) -> T {
        if !IS_TIMING.get() {
            return call(&*self.plugin);
        }
        let begun = nanoseconds();
        let answer = call(&*self.plugin);
        let took = nanoseconds().saturating_sub(begun);
        let status = status(&answer);
        self.metrics.observe_plugin(self.plugin.name(), point, status, seconds(took));
        record_point(point, took, status);
        answer
    }
}

/// Adds a call to the durations of the present attempt.
fn record_point(point: &'static str, took: u64, status: &'static str) {
    // A plugin that is skipped does not change the status of the extension point.
    let status = if status == SKIP { SUCCESS } else { status };
    POINTS.with_borrow_mut(|points| match points.iter_mut().find(|(other, ..)| *other == point) {
        Some((_, sum, worst)) => {
            *sum += took;
            if *worst == SUCCESS {
                *worst = status;
            }
        }
        None => points.push((point, took, status)),
    });
}

fn status_of<T>(result: &Result<T, Rejection>) -> &'static str {
    result.as_ref().err().map_or(SUCCESS, |rejection| rejection.code.name())
}

impl Plugin for TimedPlugin {
    fn name(&self) -> &str {
        self.plugin.name()
    }

    fn points(&self) -> &'static [Point] {
        self.plugin.points()
    }

    fn pre_enqueue(&self, state: &State, pod: PodIdx) -> Result<(), Rejection> {
        if !is_sampled() {
            return self.plugin.pre_enqueue(state, pod);
        }
        let begun = nanoseconds();
        let answer = self.plugin.pre_enqueue(state, pod);
        let took = seconds(nanoseconds().saturating_sub(begun));
        self.metrics.observe_plugin(self.name(), "PreEnqueue", status_of(&answer), took);
        answer
    }

    fn queue_order(&self, a: &QueueKey, b: &QueueKey) -> std::cmp::Ordering {
        self.plugin.queue_order(a, b)
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        let status = |prepared: &PreFilterResult| match prepared {
            PreFilterResult::Skip => SKIP,
            PreFilterResult::Reject(rejection) => rejection.code.name(),
            PreFilterResult::Filter(_) | PreFilterResult::Narrow(..) => SUCCESS,
        };
        let prepare = |plugin: &dyn Plugin| plugin.prepare_filter(class, preparation);
        let prepared = self.call("PreFilter", prepare, status);
        if !matches!(prepared, PreFilterResult::Skip) {
            self.metrics.count_plugin_evaluation(self.name(), "PreFilter", &self.profile);
        }
        prepared
    }

    fn evaluation_key(&self, class: &Class, state: &State) -> KeyPart {
        self.plugin.evaluation_key(class, state)
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        self.plugin.filter_without_pre_filter()
    }

    fn score_without_pre_score(&self) -> Option<&'static str> {
        self.plugin.score_without_pre_score()
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let prepare = |plugin: &dyn Plugin| plugin.prepare_score(class, preparation);
        let status = |scorer: &Option<_>| if scorer.is_some() { SUCCESS } else { SKIP };
        let scorer = self.call("PreScore", prepare, status);
        if scorer.is_some() {
            self.metrics.count_plugin_evaluation(self.name(), "PreScore", &self.profile);
        }
        scorer
    }

    fn post_filter(&self, cycle: &mut PostFilter) -> PostFilterOutcome {
        let status = |outcome: &PostFilterOutcome| match outcome {
            PostFilterOutcome::Unschedulable { .. } => "Unschedulable",
            PostFilterOutcome::Nominate { .. } | PostFilterOutcome::AskExtenders(_) => SUCCESS,
            PostFilterOutcome::Error(_) => "Error",
        };
        self.call("PostFilter", |plugin| plugin.post_filter(cycle), status)
    }

    fn reserve(&self, reservation: &mut Reservation) -> Result<(), Rejection> {
        self.call("Reserve", |plugin| plugin.reserve(reservation), status_of)
    }

    fn unreserve(&self, reservation: &mut Reservation) {
        self.call(UNRESERVE, |plugin| plugin.unreserve(reservation), |()| SUCCESS);
    }

    fn permit(&self, context: &mut BindContext) -> Permit {
        let status = |permit: &Permit| match permit {
            Permit::Allow => SUCCESS,
            Permit::Wait { .. } => "Wait",
            Permit::Deny(rejection) => rejection.code.name(),
        };
        self.call("Permit", |plugin| plugin.permit(context), status)
    }

    fn pre_bind(&self, context: &mut BindContext) -> Vec<VolumeRequest> {
        let status = |requests: &Vec<_>| if requests.is_empty() { SKIP } else { SUCCESS };
        self.call(PRE_BIND_PRE_FLIGHT, |plugin| plugin.pre_bind(context), status)
    }

    fn pre_bind_timeout(&self) -> i64 {
        self.plugin.pre_bind_timeout()
    }

    fn binds(&self, state: &State, pod: PodIdx, node: NodeIdx) -> bool {
        self.plugin.binds(state, pod, node)
    }

    fn post_bind(&self, context: &mut BindContext) {
        self.plugin.post_bind(context);
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        self.plugin.subscriptions()
    }

    fn hint(&self, state: &State, class: &Class, event: &Event) -> bool {
        if !is_sampled() {
            return self.plugin.hint(state, class, event);
        }
        let begun = nanoseconds();
        let queue = self.plugin.hint(state, class, event);
        let took = seconds(nanoseconds().saturating_sub(begun));
        let (label, hint) = (EventLabel::from(event), if queue { "Queue" } else { "QueueSkip" });
        self.metrics.observe_hint(self.name(), &label.to_string(), hint, took);
        queue
    }
}
