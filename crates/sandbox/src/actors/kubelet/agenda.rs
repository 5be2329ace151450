//! Due times of the steps of all pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::life::Step;
use crate::store::Object;

/// Time, and a sequence number that makes it unique and keeps the order of insertion.
type Due = (Instant, u64);

/// A due step of a pod.
pub(super) struct Task {
    pub(super) key: Arc<str>,
    pub(super) uid: Box<str>,
    pub(super) step: Step,
}

/// The steps of all pods, ordered by time.
#[derive(Default)]
pub(super) struct Agenda {
    tasks: BTreeMap<Due, Task>,
    /// The entries of `tasks` by the uid of their pod. There are no empty lists.
    pods: BTreeMap<Box<str>, Vec<(Step, Due)>>,
    /// Sequence number of the last task.
    sequence: u64,
}

impl Agenda {
    /// Replaces the steps of a pod; each is due after its delay. A step that the pod already had keeps its
    /// time unless the new one is earlier. Returns the steps that are new.
    pub(super) fn set_steps(&mut self, pod: &Object, steps: &[(Step, Duration)]) -> Vec<Step> {
        let before = self.pods.remove(&pod.uid).unwrap_or_default();
        let mut after = Vec::new();
        let mut new = Vec::new();
        for &(step, wait) in steps {
            self.sequence += 1;
            // Beyond the range of the clock, so never due.
            let Some(time) = Instant::now().checked_add(wait) else { continue };
            let mut due = (time, self.sequence);
            match before.iter().find(|(old, _)| *old == step) {
                Some((_, present)) => due = due.min(*present),
                None => new.push(step),
            }
            after.push((step, due));
        }
        for (_, due) in &before {
            self.tasks.remove(due);
        }
        for &(step, due) in &after {
            let task = Task { key: Arc::clone(&pod.key), uid: pod.uid.clone(), step };
            self.tasks.insert(due, task);
        }
        if !after.is_empty() {
            self.pods.insert(pod.uid.clone(), after);
        }
        new
    }

    /// Removes the steps of a pod.
    pub(super) fn forget(&mut self, uid: &str) {
        for (_, due) in self.pods.remove(uid).unwrap_or_default() {
            self.tasks.remove(&due);
        }
    }

    /// Removes and returns the next step that is due.
    pub(super) fn take(&mut self) -> Option<Task> {
        let entry = self.tasks.first_entry().filter(|entry| entry.key().0 <= Instant::now())?;
        let (due, task) = entry.remove_entry();
        if let Some(steps) = self.pods.get_mut(&task.uid) {
            steps.retain(|(_, other)| *other != due);
            if steps.is_empty() {
                self.pods.remove(&task.uid);
            }
        }
        Some(task)
    }

    /// Returns when the next step is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.tasks.keys().next().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{ChangeKind, Draft};

    fn pod(name: &str) -> Object {
        let pod = json!({"metadata": {"namespace": "d", "name": name, "uid": name}});
        Draft::new(&pod, &[]).seal(1, ChangeKind::Added)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_step_that_is_set_again_keeps_its_time_or_gets_a_sooner_one() {
        let mut agenda = Agenda::default();
        let start = Instant::now();
        assert_eq!(agenda.set_steps(&pod("a"), &[(Step::Start, 10 * SECOND)]), [Step::Start]);
        tokio::time::advance(4 * SECOND).await;
        assert_eq!(agenda.set_steps(&pod("a"), &[(Step::Start, 10 * SECOND)]), []);
        assert_eq!(agenda.next(), Some(start + 10 * SECOND));
        assert_eq!(agenda.set_steps(&pod("a"), &[(Step::Start, SECOND)]), []);
        assert_eq!(agenda.next(), Some(start + 5 * SECOND));
        assert!(agenda.take().is_none());
        tokio::time::advance(SECOND).await;
        assert_eq!(agenda.take().map(|task| task.step), Some(Step::Start));
        assert!(agenda.take().is_none() && agenda.pods.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn steps_missing_from_the_new_ones_are_dropped() {
        let mut agenda = Agenda::default();
        agenda.set_steps(&pod("a"), &[(Step::Exit, SECOND), (Step::Expire, 2 * SECOND)]);
        agenda.set_steps(&pod("b"), &[(Step::Exit, Duration::MAX)]);
        assert_eq!(agenda.set_steps(&pod("a"), &[(Step::Stop, 3 * SECOND)]), [Step::Stop]);
        assert_eq!((agenda.tasks.len(), agenda.pods.len()), (1, 1));
        agenda.forget("a");
        assert!(agenda.tasks.is_empty() && agenda.pods.is_empty());
    }
}
