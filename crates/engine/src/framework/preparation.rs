//! Preparation of filters and scorers, and how long the results are valid.

use crate::state::plugin_states::{InitialState, PluginState, PluginStateIdx};
use crate::state::{Areas, State, Versions};

/// Access to the state during preparation, and what the result depends on.
pub struct Preparation<'a> {
    /// The state. Columns and tallies may be created; everything else is read only.
    pub state: &'a mut State,
    dependencies: Dependencies,
}

/// What prepared filters and scorers depend on beside the pods on nodes.
#[derive(Clone, Debug)]
pub(crate) struct Dependencies {
    areas: Areas,
    plugin_states: Vec<PluginStateIdx>,
    /// Time at which results change without an event; `i64::MAX` if there is none.
    until: i64,
}

impl<'a> Preparation<'a> {
    /// Creates a preparation that depends on nodes only.
    pub fn new(state: &'a mut State) -> Self {
        let dependencies =
            Dependencies { areas: Areas::NODES, plugin_states: Vec::new(), until: i64::MAX };
        Self { state, dependencies }
    }

    /// Limits the validity of the result to the current version of these areas.
    pub fn depends_on(&mut self, areas: Areas) {
        self.dependencies.areas = self.dependencies.areas.with(areas);
    }

    /// Limits the validity of the result to the current version of a plugin's state.
    pub fn depends_on_state<T: PluginState>(&mut self) {
        self.dependencies.plugin_states.extend(self.state.plugin_states.find::<T>());
    }

    /// Limits the validity of the result to the current version of the state of a plugin whose
    /// initial state is given.
    pub fn depends_on_state_like(&mut self, initial: &InitialState) {
        self.dependencies.plugin_states.extend(self.state.plugin_states.find_like(initial));
    }

    /// Limits the validity of the result to times before `time`, in nanoseconds since the epoch.
    /// Then it is prepared again, and pods that no node fits are retried.
    pub fn valid_until(&mut self, time: i64) {
        self.dependencies.until = self.dependencies.until.min(time);
    }

    pub(crate) fn into_dependencies(self) -> Dependencies {
        self.dependencies
    }
}

/// Dependencies at the versions at which results were computed.
#[derive(Clone, Debug)]
pub(crate) struct Validity {
    areas: Areas,
    versions: Versions,
    plugin_states: Vec<(PluginStateIdx, u64)>,
    until: i64,
}

impl Validity {
    /// Returns the validity of results that were just computed.
    pub(crate) fn new(dependencies: Dependencies, state: &State) -> Self {
        let Dependencies { areas, plugin_states, until } = dependencies;
        let versions = state.versions();
        let plugin_states = plugin_states.into_iter();
        let plugin_states = plugin_states.map(|at| (at, state.plugin_states.version(at))).collect();
        Self { areas, versions, plugin_states, until }
    }

    /// Returns `true` if nothing changed that results depend on.
    pub(crate) fn holds(&self, state: &State) -> bool {
        state.versions().agree(&self.versions, self.areas)
            && state.now() < self.until
            && self.plugin_states.iter().all(|(at, seen)| state.plugin_states.version(*at) == *seen)
    }

    /// Adds dependencies at their current versions. Those so far must hold.
    pub(crate) fn extend(&mut self, dependencies: Dependencies, state: &State) {
        let more = Self::new(dependencies, state);
        self.areas = self.areas.with(more.areas);
        self.versions = more.versions;
        self.plugin_states.extend(more.plugin_states);
        self.until = self.until.min(more.until);
    }

    /// Limits the validity to times before `time`.
    pub(crate) fn limit(&mut self, time: Option<i64>) {
        self.until = self.until.min(time.unwrap_or(i64::MAX));
    }

    /// Returns the time at which results change without an event, if there is one.
    pub(crate) fn until(&self) -> Option<i64> {
        (self.until != i64::MAX).then_some(self.until)
    }
}
