//! Disruption budgets that victims violate.

use engine::index::{LabelSetIdx, PodIdx};
use engine::map::Map;
use engine::object::Text;
use engine::state::State;

/// The budgets that apply to the pods seen so far.
#[derive(Default)]
pub(super) struct DisruptionBudgets {
    budgets: Vec<TrackedBudget>,
    by_name: Map<(Text, Text), usize>,
    of_label_set: Map<LabelSetIdx, Box<[usize]>>,
    /// Remaining disruptions of each budget while a node is tried; negative if it is violated.
    remaining: Vec<i32>,
}

struct TrackedBudget {
    allowed: i32,
    /// `status.disruptedPods`: pods whose eviction `allowed` already reflects, sorted by name.
    disrupted: Box<[Text]>,
}

impl DisruptionBudgets {
    /// Restores all budgets before another node is tried.
    pub(super) fn reset(&mut self) {
        self.remaining.clear();
        self.remaining.extend(self.budgets.iter().map(|budget| budget.allowed));
    }

    /// Counts a pod against its budgets. Returns `true` if that violates one of them.
    pub(super) fn violates(&mut self, state: &State, pod: PodIdx) -> bool {
        let record = state.pods.get(pod);
        if self.of_label_set.get(&record.label_set).is_none() {
            let found = self.find(state, record.label_set);
            self.of_label_set.insert(record.label_set, found);
        }
        let mut is_violated = false;
        for budget in self.of_label_set.get(&record.label_set).into_iter().flatten() {
            if self.budgets[*budget].disrupted.binary_search(&record.name).is_err() {
                self.remaining[*budget] = self.remaining[*budget].saturating_sub(1);
                is_violated |= self.remaining[*budget] < 0;
            }
        }
        is_violated
    }

    /// Returns the budgets whose selectors match a label set. As upstream, an empty selector matches none.
    fn find(&mut self, state: &State, label_set: LabelSetIdx) -> Box<[usize]> {
        let label_set = state.label_sets.get(label_set);
        if label_set.labels.is_empty() {
            return Box::default();
        }
        let budgets = state.budgets(&label_set.namespace).filter(|budget| {
            let selector = budget.selector.as_ref();
            selector.is_some_and(|s| !s.is_empty() && s.matches(&label_set.labels))
        });
        let positions = budgets.map(|budget| {
            let name = (budget.namespace.clone(), budget.name.clone());
            *self.by_name.get_or_insert_with(name, || {
                let (allowed, disrupted) =
                    (budget.disruptions_allowed, budget.disrupted_pods.clone());
                self.budgets.push(TrackedBudget { allowed, disrupted });
                self.remaining.push(allowed);
                self.budgets.len() - 1
            })
        });
        positions.collect()
    }
}
