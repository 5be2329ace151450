//! SchedulingGates: keeps pods with scheduling gates out of the queue.

use api::config::PluginArgs;
use engine::framework::{Action, Class, Event, Plugin, Point, Rejection, Resource, Subscription};
use engine::index::PodIdx;
use engine::state::State;

pub(crate) const NAME: &str = "SchedulingGates";
pub(crate) const POINTS: &[Point] = &[Point::PreEnqueue];
pub(crate) const DOC: &str = "Keeps pods with scheduling gates out of the queue.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(SchedulingGates)
}

struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn pre_enqueue(&self, state: &State, pod: PodIdx) -> Result<(), Rejection> {
        let gates = &state.pods.get(pod).gates;
        if gates.is_empty() {
            return Ok(());
        }
        let text = format!("waiting for scheduling gates: [{}]", gates.join(" "));
        Err(Rejection::unresolvable(text))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let action = Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
        vec![Subscription { resource: Resource::Pod, action }]
    }

    fn hint(&self, _state: &State, _class: &Class, event: &Event) -> bool {
        event.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::framework::event::Object;
    use engine::object::{Pod, PodSpec};
    use engine::testing::{class, pod, state};

    #[test]
    fn a_pod_waits_for_all_its_gates() {
        let gated = Pod { gates: ["a".into(), "b".into()].into(), ..pod("gated") };
        let state = state([], [gated, pod("free")]);
        let verdict =
            |name| build(None).pre_enqueue(&state, state.find_pod("default", name).unwrap());
        assert_eq!(verdict("free"), Ok(()));
        let text = "waiting for scheduling gates: [a b]";
        assert_eq!(verdict("gated"), Err(Rejection::unresolvable(text)));
    }

    #[test]
    fn only_an_update_of_the_pod_itself_ungates_it() {
        let state = state([], []);
        for own in [false, true] {
            let event = Event {
                resource: Resource::UnschedulablePod,
                action: Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                object: Object::None,
                own,
            };
            assert!(build(None).subscriptions()[0].covers(&event));
            assert_eq!(build(None).hint(&state, &class(PodSpec::default()), &event), own);
        }
    }
}
