//! Hooks of plugin states, their versions, and copies for trials.

use super::*;
use crate::object::Pod;
use crate::testing::{node, pod, state};

/// Counts the pods with label `counted` on nodes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    placed: i32,
    confirmed: i32,
}

impl PluginState for Counted {
    fn pod_placed(&mut self, state: &State, pod: PodIdx, node: NodeIdx) -> bool {
        assert!(state.nodes.pods(node).contains(&pod), "the pod is on its node");
        let counts = state.labels(pod).get("counted").is_some();
        self.placed += i32::from(counts);
        counts
    }

    fn pod_removed(&mut self, state: &State, pod: PodIdx, node: NodeIdx) -> bool {
        assert!(!state.nodes.pods(node).contains(&pod), "the pod left its node");
        let counts = state.labels(pod).get("counted").is_some();
        self.placed -= i32::from(counts);
        counts
    }

    fn pod_confirmed(&mut self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> bool {
        self.confirmed += 1;
        false
    }
}

fn counted(name: &str, on: &str) -> Pod {
    let labels = crate::testing::labels(&[("counted", "")]);
    Pod { node: on.into(), labels, ..pod(name) }
}

fn with_state() -> State {
    let mut state = state([node("a")], []);
    state.plugin_states.add(InitialState::new(Counted::default()));
    state
}

fn version(state: &State) -> u64 {
    state.plugin_states.version(state.plugin_states.find::<Counted>().unwrap())
}

#[test]
fn hooks_follow_pods_and_count_as_changes_only_if_they_say_so() {
    let mut state = with_state();
    let bound = state.add_pod(counted("bound", "a"));
    let other = state.add_pod(Pod { node: "a".into(), ..pod("other") });
    assert_eq!(state.plugin_states.get(), Some(&Counted { placed: 1, confirmed: 2 }));
    assert_eq!(version(&state), 1);
    let assumed = state.add_pod(counted("assumed", ""));
    state.assume(assumed, state.pods.get(bound).node);
    assert_eq!(state.plugin_states.get(), Some(&Counted { placed: 2, confirmed: 2 }));
    state.confirm(assumed);
    state.remove_pod(bound);
    state.remove_pod(other);
    assert_eq!(state.plugin_states.get(), Some(&Counted { placed: 1, confirmed: 3 }));
    assert_eq!(version(&state), 3);
}

#[test]
fn an_update_of_labels_removes_the_pod_and_places_it_again() {
    let mut state = with_state();
    let index = state.add_pod(counted("p", "a"));
    state.update_pod(index, Pod { node: "a".into(), ..pod("p") });
    let found: &Counted = state.plugin_states.get().unwrap();
    assert_eq!(found.placed, 0);
}

#[test]
fn there_is_one_state_of_each_type() {
    let mut state = with_state();
    state.add_pod(counted("p", "a"));
    state.plugin_states.add(InitialState::new(Counted { placed: 9, confirmed: 9 }));
    assert_eq!(state.plugin_states.get(), Some(&Counted { placed: 1, confirmed: 1 }));
    assert_eq!(state.plugin_states.0.len(), 1);
}

#[test]
fn saved_states_are_restored_and_the_restoration_is_a_change() {
    let mut state = with_state();
    state.add_pod(counted("p", "a"));
    let (saved, before) = (state.plugin_states.save(), state.plugin_states.content());
    let seen = version(&state);
    let unchanged = state.plugin_states.save();
    state.plugin_states.restore(&unchanged);
    assert_eq!(version(&state), seen, "nothing was changed");
    state.plugin_states.get_mut::<Counted>().unwrap().placed = 7;
    assert_ne!(state.plugin_states.content(), before);
    state.plugin_states.restore(&saved);
    assert_eq!(state.plugin_states.content(), before);
    assert!(version(&state) > seen + 1);
}
