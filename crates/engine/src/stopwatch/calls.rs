//! The calls of plugins that are measured. The engine makes them through these methods only.

use crate::cycle::what_if::PostFilter;
use crate::framework::profile::PluginPosition;
use crate::framework::{
    BindContext, Class, Effects, Event, Permit, PostFilterOutcome, PreFilterResult, Preparation,
    Profile, Rejection, Reservation, Scorer, VolumeRequest,
};
use crate::index::PodIdx;
use crate::queue::EventLabel;
use crate::state::State;

use super::{Called, PluginCall, Stopwatch};

const SUCCESS: &str = "Success";
const SKIP: &str = "Skip";

impl Profile {
    /// Calls PreEnqueue of a plugin.
    pub(crate) fn pre_enqueue(
        &self,
        plugin: PluginPosition,
        state: &State,
        pod: PodIdx,
    ) -> Result<(), Rejection> {
        let begun = state.stopwatch.now_if_sampled();
        let result = self.plugins[plugin].pre_enqueue(state, pod);
        let called = Called::Point("PreEnqueue");
        self.measured(&state.stopwatch, begun, plugin, called, || status_of(&result));
        result
    }

    /// Calls PreFilter of a plugin.
    pub(crate) fn prepare_filter(
        &self,
        plugin: PluginPosition,
        class: &Class,
        preparation: &mut Preparation,
    ) -> PreFilterResult {
        let begun = preparation.state.stopwatch.now();
        let result = self.plugins[plugin].prepare_filter(class, preparation);
        self.counted(&preparation.state.stopwatch, begun, plugin, "PreFilter", || match &result {
            PreFilterResult::Skip => SKIP,
            PreFilterResult::Reject(rejection) => rejection.code.name(),
            PreFilterResult::Filter(_) | PreFilterResult::Narrow(..) => SUCCESS,
        });
        result
    }

    /// Calls PreScore of a plugin.
    pub(crate) fn prepare_score(
        &self,
        plugin: PluginPosition,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let begun = preparation.state.stopwatch.now();
        let scorer = self.plugins[plugin].prepare_score(class, preparation);
        self.counted(&preparation.state.stopwatch, begun, plugin, "PreScore", || {
            if scorer.is_some() { SUCCESS } else { SKIP }
        });
        scorer
    }

    /// Calls PostFilter of a plugin.
    pub(crate) fn post_filter(
        &self,
        plugin: PluginPosition,
        cycle: &mut PostFilter,
    ) -> PostFilterOutcome {
        let begun = cycle.state().stopwatch.now();
        let outcome = self.plugins[plugin].post_filter(cycle);
        let called = Called::Point("PostFilter");
        self.measured(&cycle.state().stopwatch, begun, plugin, called, || match &outcome {
            PostFilterOutcome::Unschedulable { .. } => "Unschedulable",
            PostFilterOutcome::Nominate { .. } | PostFilterOutcome::AskExtenders(_) => SUCCESS,
            PostFilterOutcome::Error(_) => "Error",
        });
        outcome
    }

    /// Calls Reserve of a plugin.
    pub(crate) fn reserve(
        &self,
        plugin: PluginPosition,
        reservation: &mut Reservation,
    ) -> Result<(), Rejection> {
        let begun = reservation.state.stopwatch.now();
        let result = self.plugins[plugin].reserve(reservation);
        let called = Called::Point("Reserve");
        self.measured(&reservation.state.stopwatch, begun, plugin, called, || status_of(&result));
        result
    }

    /// Calls Unreserve of a plugin.
    pub(crate) fn unreserve(&self, plugin: PluginPosition, reservation: &mut Reservation) {
        let begun = reservation.state.stopwatch.now();
        self.plugins[plugin].unreserve(reservation);
        let called = Called::Point("Unreserve");
        self.measured(&reservation.state.stopwatch, begun, plugin, called, || SUCCESS);
    }

    /// Calls Permit of a plugin.
    pub(crate) fn permit(&self, plugin: PluginPosition, context: &mut BindContext) -> Permit {
        let begun = context.state.stopwatch.now();
        let permit = self.plugins[plugin].permit(context);
        let called = Called::Point("Permit");
        self.measured(&context.state.stopwatch, begun, plugin, called, || match &permit {
            Permit::Allow => SUCCESS,
            Permit::Wait { .. } => "Wait",
            Permit::Deny(rejection) => rejection.code.name(),
        });
        permit
    }

    /// Asks a plugin for the writes that precede binding.
    pub(crate) fn pre_bind(
        &self,
        plugin: PluginPosition,
        context: &mut BindContext,
    ) -> Vec<VolumeRequest> {
        let begun = context.state.stopwatch.now();
        let requests = self.plugins[plugin].pre_bind(context);
        let called = Called::Point("PreBindPreFlight");
        self.measured(&context.state.stopwatch, begun, plugin, called, || {
            if requests.is_empty() { SKIP } else { SUCCESS }
        });
        requests
    }

    /// Calls the queueing hint of a plugin.
    pub(crate) fn hint(
        &self,
        plugin: PluginPosition,
        state: &State,
        class: &Class,
        event: &Event,
        effects: &mut Effects,
    ) -> bool {
        let begun = state.stopwatch.now_if_sampled();
        let queue = self.plugins[plugin].hint_with_effects(state, class, event, effects);
        let called = Called::Hint(EventLabel::from(event));
        self.measured(&state.stopwatch, begun, plugin, called, || {
            if queue { "Queue" } else { "QueueSkip" }
        });
        queue
    }

    /// Records a call that began at a time.
    #[inline]
    fn measured(
        &self,
        stopwatch: &Stopwatch,
        begun: Option<u64>,
        plugin: PluginPosition,
        called: Called,
        status: impl FnOnce() -> &'static str,
    ) {
        if begun.is_some() {
            self.record(stopwatch, begun, plugin, called, status());
        }
    }

    /// Records a call of PreFilter or PreScore, measured or not.
    #[inline]
    fn counted(
        &self,
        stopwatch: &Stopwatch,
        begun: Option<u64>,
        plugin: PluginPosition,
        point: &'static str,
        status: impl FnOnce() -> &'static str,
    ) {
        if stopwatch.clock.is_some() {
            self.record(stopwatch, begun, plugin, Called::Point(point), status());
        }
    }

    #[cold]
    fn record(
        &self,
        stopwatch: &Stopwatch,
        begun: Option<u64>,
        plugin: PluginPosition,
        called: Called,
        status: &'static str,
    ) {
        let nanoseconds = stopwatch.since(begun);
        let (profile, plugin) = (self.name.as_str().into(), self.plugin_name(plugin).into());
        stopwatch.record(PluginCall { profile, plugin, called, status, nanoseconds });
    }
}

fn status_of<T>(result: &Result<T, Rejection>) -> &'static str {
    result.as_ref().err().map_or(SUCCESS, |rejection| rejection.code.name())
}
