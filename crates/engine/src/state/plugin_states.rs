//! State that plugins keep about pods on nodes.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::sync::Arc;

use crate::index::{NodeIdx, PodIdx};

use super::State;

/// State of a plugin that follows the pods on nodes, such as the licences in use.
///
/// There is one value of each type, which all profiles share. Trials roll it back, and planners get
/// a copy. The hooks return `true` if verdicts or scores of the plugin may have changed: filters and
/// scorers that [depend on it](crate::framework::Preparation::depends_on_state) are then prepared
/// again. In a hook `state` contains no plugin states.
pub trait PluginState: Any + Clone + Debug + Send + Sync {
    /// Called after a pod was placed on a node: assumed by a decision, or shown by the API server.
    fn pod_placed(&mut self, state: &State, pod: PodIdx, node: NodeIdx) -> bool;

    /// Called after a pod was removed from a node: deleted, or unreserved after a failure. An
    /// update that changes labels or spec removes the pod before and places it after.
    fn pod_removed(&mut self, state: &State, pod: PodIdx, node: NodeIdx) -> bool;

    /// Called after the API server showed a pod on its node.
    fn pod_confirmed(&mut self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> bool {
        false
    }
}

/// [`PluginState`] without its type.
trait ErasedState: Any + Debug + Send + Sync {
    fn copy(&self) -> Arc<dyn ErasedState>;
    fn call(&mut self, hook: Hook, state: &State, pod: PodIdx, node: NodeIdx) -> bool;
}

/// The hooks of [`PluginState`].
#[derive(Clone, Copy)]
pub(super) enum Hook {
    Placed,
    Removed,
    Confirmed,
}

impl<T: PluginState> ErasedState for T {
    fn copy(&self) -> Arc<dyn ErasedState> {
        Arc::new(self.clone())
    }

    fn call(&mut self, hook: Hook, state: &State, pod: PodIdx, node: NodeIdx) -> bool {
        match hook {
            Hook::Placed => self.pod_placed(state, pod, node),
            Hook::Removed => self.pod_removed(state, pod, node),
            Hook::Confirmed => self.pod_confirmed(state, pod, node),
        }
    }
}

/// First value of a plugin's state, for an empty cluster.
#[derive(Clone, Debug)]
pub struct InitialState(Arc<dyn ErasedState>);

impl InitialState {
    /// Creates the state.
    pub fn new(state: impl PluginState) -> Self {
        Self(Arc::new(state))
    }
}

/// Position of a plugin's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PluginStateIdx(usize);

/// A state with the number of its changes. It is shared with trials and copied when it changes.
#[derive(Clone, Debug)]
struct VersionedState {
    value: Arc<dyn ErasedState>,
    version: u64,
}

impl VersionedState {
    fn get_mut(&mut self) -> &mut dyn ErasedState {
        if Arc::get_mut(&mut self.value).is_none() {
            self.value = self.value.copy();
        }
        Arc::get_mut(&mut self.value).expect("a fresh copy is not shared")
    }
}

/// The states of all plugins.
#[derive(Clone, Debug, Default)]
pub struct PluginStates(Vec<VersionedState>);

/// The states of all plugins at one time, for trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct SavedPluginStates(Vec<Arc<dyn ErasedState>>);

impl PluginStates {
    /// Returns the state of a type; `None` if no plugin of any profile has it.
    pub fn get<T: PluginState>(&self) -> Option<&T> {
        let PluginStateIdx(at) = self.find::<T>()?;
        (&*self.0[at].value as &dyn Any).downcast_ref()
    }

    /// Returns the state of a type to change it; `None` if no plugin of any profile has it. Filters
    /// and scorers that depend on it are prepared again.
    pub fn get_mut<T: PluginState>(&mut self) -> Option<&mut T> {
        let PluginStateIdx(at) = self.find::<T>()?;
        let slot = &mut self.0[at];
        slot.version += 1;
        (slot.get_mut() as &mut dyn Any).downcast_mut()
    }

    /// Adds a state unless there is one of its type.
    pub(crate) fn add(&mut self, initial: InitialState) {
        if self.find_like(&initial).is_none() {
            self.0.push(VersionedState { value: initial.0, version: 0 });
        }
    }

    pub(crate) fn find<T: PluginState>(&self) -> Option<PluginStateIdx> {
        self.find_type(TypeId::of::<T>())
    }

    /// Finds the state of the same type.
    pub(crate) fn find_like(&self, InitialState(value): &InitialState) -> Option<PluginStateIdx> {
        self.find_type((&**value as &dyn Any).type_id())
    }

    fn find_type(&self, type_id: TypeId) -> Option<PluginStateIdx> {
        let mut slots = self.0.iter();
        let found = slots.position(|slot| (&*slot.value as &dyn Any).type_id() == type_id);
        found.map(PluginStateIdx)
    }

    /// Returns a number that grows with each change of a state.
    pub(crate) fn version(&self, PluginStateIdx(at): PluginStateIdx) -> u64 {
        self.0[at].version
    }

    /// Saves the states before a trial.
    pub(crate) fn save(&self) -> SavedPluginStates {
        SavedPluginStates(self.0.iter().map(|slot| Arc::clone(&slot.value)).collect())
    }

    /// Restores the states after a trial.
    pub(crate) fn restore(&mut self, SavedPluginStates(saved): &SavedPluginStates) {
        for (slot, value) in self.0.iter_mut().zip(saved) {
            if !Arc::ptr_eq(&slot.value, value) {
                *slot = VersionedState { value: Arc::clone(value), version: slot.version + 1 };
            }
        }
    }

    /// Returns the states as text, for comparisons in tests.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn content(&self) -> String {
        let states: Vec<_> = self.0.iter().map(|slot| &slot.value).collect();
        format!("{states:?}")
    }
}

impl State {
    /// Calls a hook of all plugin states.
    pub(super) fn call_hook(&mut self, hook: Hook, pod: PodIdx, node: NodeIdx) {
        if self.plugin_states.0.is_empty() {
            return;
        }
        let mut states = std::mem::take(&mut self.plugin_states);
        for slot in &mut states.0 {
            if slot.get_mut().call(hook, self, pod, node) {
                slot.version += 1;
            }
        }
        self.plugin_states = states;
    }
}

#[cfg(test)]
mod tests;
