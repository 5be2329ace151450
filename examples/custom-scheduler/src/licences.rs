//! Licences: never places more pods that need a licence than it has seats, in all profiles together.

use std::collections::BTreeMap;

use jindou::object::PodSpec;
use jindou::{
    AnnotationKeys, Args, Class, InitialState, NodeIdx, NodePlugin, NodeView, PluginState, PodIdx,
    Point, Rejection, State,
};
use serde::Deserialize;

/// Pod annotation with the name of a licence.
const LICENCE: &str = "example.com/licence";

fn licence_of(spec: &PodSpec) -> Option<&str> {
    spec.annotations.get(LICENCE)
}

/// Arguments in `pluginConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LicencesArgs {
    /// Seats of each licence.
    seats: BTreeMap<String, usize>,
}

/// Number of pods with a node, by licence.
#[derive(Clone, Debug, Default)]
struct TakenSeats(BTreeMap<String, usize>);

impl PluginState for TakenSeats {
    fn pod_placed(&mut self, state: &State, pod: PodIdx, _node: NodeIdx) -> bool {
        let Some(licence) = licence_of(state.spec(pod)) else { return false };
        *self.0.entry(licence.to_owned()).or_default() += 1;
        true
    }

    fn pod_removed(&mut self, state: &State, pod: PodIdx, _node: NodeIdx) -> bool {
        let seats = licence_of(state.spec(pod)).and_then(|licence| self.0.get_mut(licence));
        seats.map(|taken| *taken -= 1).is_some()
    }
}

pub(crate) struct Licences(LicencesArgs);

impl NodePlugin for Licences {
    const NAME: &'static str = "Licences";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn new(args: Option<&Args>) -> Result<Self, String> {
        jindou::args(args).map(Self)
    }

    fn annotations(&self) -> AnnotationKeys {
        AnnotationKeys { pods: [LICENCE.into()].into(), ..AnnotationKeys::default() }
    }

    fn initial_state(&self) -> Option<InitialState> {
        Some(InitialState::new(TakenSeats::default()))
    }

    fn filter(&self, pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        let Some(licence) = licence_of(&pod.spec) else { return Ok(()) };
        let seats = self.0.seats.get(licence).copied().unwrap_or(0);
        let taken = node.plugin_state::<TakenSeats>().and_then(|taken| taken.0.get(licence));
        match taken.copied().unwrap_or(0) {
            taken if taken < seats => Ok(()),
            taken => Err(Rejection::unresolvable(format!(
                "{taken} of {seats} seats of {licence} were taken"
            ))),
        }
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CONFIG, node, pod, scheduler};

    const PROFILES: [&str; 2] = ["default-scheduler", "batch"];

    fn user(name: &str, profile: &str) -> String {
        pod(name, profile, &[(LICENCE, "matlab")])
    }

    #[test]
    fn the_third_pod_waits_until_a_holder_is_deleted() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&user("a", "default-scheduler"));
        scheduler.apply(&user("b", "batch"));
        scheduler.apply(&user("c", "default-scheduler"));
        scheduler.apply(&user("d", "batch"));
        let bound: Vec<_> = scheduler.bound().into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(bound, ["a", "b"]);
        for waiting in ["c", "d"] {
            let reason = scheduler.reason(waiting).expect("it waits");
            assert!(reason.contains("1 2 of 2 seats of matlab were taken"), "{reason}");
            let answer = scheduler.explain(waiting);
            assert_eq!((&*answer.selected, &*answer.nodes["n1"].plugin), ("", "Licences"));
            assert_eq!(answer.nodes["n1"].code, "UnschedulableAndUnresolvable");
        }
        scheduler.delete("a");
        assert_eq!(scheduler.bound_to("c"), Some("n1"));
        assert_eq!(scheduler.bound_to("d"), None);
    }

    #[test]
    fn licences_without_seats_and_pods_without_licences() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&pod("free", "batch", &[]));
        assert_eq!(scheduler.bound_to("free"), Some("n1"));
        scheduler.apply(&pod("unknown", "batch", &[(LICENCE, "other")]));
        let reason = scheduler.reason("unknown").expect("it waits");
        assert!(reason.contains("0 of 0 seats of other were taken"), "{reason}");
    }

    /// Arrivals and deletions in 20 random orders; before each arrival `explain` predicts the decision.
    #[test]
    fn two_seats_are_never_taken_by_three() {
        for seed in 1..=20_u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut draw = |below: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random % below as u64) as usize
            };
            let mut scheduler = scheduler(CONFIG);
            scheduler.apply(&format!("{}\n---\n{}", node("n1"), node("n2")));
            let mut pods: Vec<String> = Vec::new();
            for step in 0..40 {
                if pods.is_empty() || draw(3) > 0 {
                    let name = format!("p{step}");
                    scheduler.apply(&user(&name, PROFILES[draw(2)]));
                    pods.push(name);
                } else {
                    scheduler.delete(&pods.swap_remove(draw(pods.len())));
                }
                let bound = scheduler.bound().len();
                assert_eq!(bound, pods.len().min(2), "seed {seed}, step {step}");
                for (pod, _) in scheduler.waiting() {
                    let answer = scheduler.explain(&pod);
                    assert_eq!(answer.selected, "", "seed {seed}, step {step}: {pod}");
                }
            }
        }
    }
}
