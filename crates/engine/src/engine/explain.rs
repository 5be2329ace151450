//! Explanations: a trial of one attempt, rolled back.

use crate::cycle::explain::{Explanation, class_of, explain};
use crate::cycle::post_filter::PostFilterInput;
use crate::framework::Profile;
use crate::object::Pod;
use crate::queue::Nominator;
use crate::state::State;

use super::Engine;

impl Engine {
    /// Explains where a pod would go now, without changing anything.
    ///
    /// Reserve and Permit plugins are asked about the chosen node; what they reserve is released.
    /// Returns `None` if no profile has its scheduler name.
    pub fn explain<T>(
        &mut self,
        pod: Pod,
        now: i64,
        read: impl FnOnce(&State, &Profile, Explanation) -> T,
    ) -> Option<T> {
        let named = |profile: &Profile| *profile.name == *pod.spec.scheduler_name;
        let position = self.core.profiles.iter().position(named)?;
        let random = self.cursor.random;
        let before = self.core.state.now();
        self.core.state.set_now(now);
        let mut trial = self.trial();
        let node_name = pod.node.clone();
        let known = trial.state().pods.find(&pod.uid);
        let index = known.unwrap_or_else(|| trial.add(pod));
        trial.remove(index);
        let mut nominator = Nominator::default();
        let waiting = trial.state().pods.iter().filter(|(_, record)| !record.node.is_some());
        for (pod, record) in waiting {
            nominator.nominate(pod, record.nominated);
        }
        let class = class_of(trial.state(), index, &node_name);
        let input = PostFilterInput::new(index, &nominator, now, random);
        let core = trial.core();
        let mut explanation = explain(&core.profiles[position], class, &mut core.state, &input);
        if let (Some(node), None) = (explanation.selected, &explanation.error) {
            let mut placing = trial.nest();
            let reserve = &mut explanation.reserve;
            let placed = placing.place_and_note(index, node, |plugin, rejection| {
                reserve.push((plugin, rejection.cloned()));
            });
            if placed.is_ok() {
                explanation.permit = placing.permit(index);
            }
        }
        let answer = read(trial.state(), &trial.profiles()[position], explanation);
        drop(trial);
        self.core.state.set_now(before);
        Some(answer)
    }
}
