//! Which victims would break a disruption budget.

use engine::index::{GroupIdx, PodIdx};
use engine::map::Map;
use engine::object::Text;
use engine::state::State;

/// The budgets that apply to the pods seen so far.
#[derive(Default)]
pub(super) struct Budgets {
    known: Vec<Budget>,
    by_name: Map<(Text, Text), usize>,
    of_group: Map<GroupIdx, Box<[usize]>>,
    /// Disruptions left on the node being tried; negative when a budget is broken.
    left: Vec<i32>,
}

struct Budget {
    allowed: i32,
    /// Pods that the API server has already counted, sorted by name.
    disrupted: Box<[Text]>,
}

impl Budgets {
    /// Begins with another node: nothing is taken from any budget.
    pub(super) fn restart(&mut self) {
        self.left.clear();
        self.left.extend(self.known.iter().map(|budget| budget.allowed));
    }

    /// Takes a pod from all its budgets, and tells whether that breaks one.
    pub(super) fn breaks(&mut self, state: &State, pod: PodIdx) -> bool {
        let record = state.pods.get(pod);
        if self.of_group.get(&record.group).is_none() {
            let found = self.find(state, record.group);
            self.of_group.insert(record.group, found);
        }
        let mut broken = false;
        for budget in self.of_group.get(&record.group).into_iter().flatten() {
            if self.known[*budget].disrupted.binary_search(&record.name).is_err() {
                self.left[*budget] = self.left[*budget].saturating_sub(1);
                broken |= self.left[*budget] < 0;
            }
        }
        broken
    }

    /// The budgets whose selectors match a group. An empty selector matches nothing here.
    fn find(&mut self, state: &State, group: GroupIdx) -> Box<[usize]> {
        let group = state.groups.get(group);
        if group.labels.is_empty() {
            return Box::default();
        }
        let budgets = state.budgets(&group.namespace).filter(|budget| {
            let selector = budget.selector.as_ref();
            selector.is_some_and(|s| !s.is_empty() && s.matches(&group.labels))
        });
        let positions = budgets.map(|budget| {
            let name = (budget.namespace.clone(), budget.name.clone());
            *self.by_name.get_or_insert_with(name, || {
                let (allowed, disrupted) =
                    (budget.disruptions_allowed, budget.disrupted_pods.clone());
                self.known.push(Budget { allowed, disrupted });
                self.left.push(allowed);
                self.known.len() - 1
            })
        });
        positions.collect()
    }
}
