//! DynamicResources: device claims, which are not supported yet.
//!
//! Pods with claims, and nodes that could offer an extended resource only through devices, are rejected
//! with that reason.

use api::config::PluginArgs;
use engine::cycle::what_if::PostFilter;
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PostFilterOutcome,
    PreFilterResult, Preparation, Reason, Rejection, Resource, Scorer, Subscription,
};
use engine::index::NodeIdx;
use engine::object::{Node, PodSpec, Text};
use engine::state::{Areas, State};

use crate::node_resources_fit::may_be_devices;

pub(crate) const NAME: &str = "DynamicResources";
pub(crate) const POINTS: &[Point] = &[
    Point::PreEnqueue,
    Point::PreFilter,
    Point::Filter,
    Point::PostFilter,
    Point::Score,
    Point::Reserve,
    Point::PreBind,
];
pub(crate) const DOC: &str =
    "Device claims, which are not supported yet: pods with claims stay pending.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(DynamicResources)
}

struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("not found")
    }

    fn evaluation_key(&self, class: &Class, _state: &State) -> KeyPart {
        KeyPart::nothing_if(class.spec.resource_claims.is_empty())
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        if !class.spec.resource_claims.is_empty() {
            return PreFilterResult::Reject(unsupported(&class.spec.resource_claims));
        }
        let extended = extended_requests(&class.spec);
        if extended.is_empty() {
            return PreFilterResult::Skip;
        }
        preparation.depends_on(Areas::DEVICES);
        let (from_devices, from_nodes): (Vec<_>, Vec<_>) =
            extended.into_iter().partition(|name| preparation.state.device_class_offers(name));
        if from_devices.is_empty() {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(DeviceFilter { from_devices, from_nodes }))
    }

    fn prepare_score(
        &self,
        _class: &Class,
        _preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        // Upstream scores pods without claims, too, rather than skipping.
        Some(Box::new(ZeroScorer))
    }

    fn post_filter(&self, cycle: &mut PostFilter) -> PostFilterOutcome {
        if !cycle.ran_pre_filter(NAME) {
            return PostFilterOutcome::Error(Reason::Borrowed("not found"));
        }
        let spec = &cycle.class().spec;
        let offered = |name: &Text| cycle.state().device_class_offers(name);
        let claims_devices =
            spec.resource_claims.is_empty() && extended_requests(spec).iter().any(offered);
        let reason =
            if claims_devices { "still not schedulable" } else { "no new claims to deallocate" };
        PostFilterOutcome::Unschedulable {
            reasons: vec![Reason::Borrowed(reason)],
            clear_nomination: false,
        }
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let node_actions =
            Action::ADD.with(Action::UPDATE_NODE_LABEL).with(Action::UPDATE_NODE_ALLOCATABLE);
        let changed = Action::ADD.with(Action::UPDATE);
        let pod_action = Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM;
        vec![
            Subscription { resource: Resource::Node, action: node_actions },
            Subscription { resource: Resource::ResourceClaim, action: changed },
            Subscription { resource: Resource::Pod, action: pod_action },
            Subscription { resource: Resource::DeviceClass, action: changed },
            Subscription { resource: Resource::ResourceSlice, action: changed },
        ]
    }

    /// No event helps a pod with claims; others wait for a node that has the resource itself.
    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        class.spec.resource_claims.is_empty()
            && matches!(event.resource, Resource::Node | Resource::DeviceClass)
    }
}

/// Rejects nodes that lack an extended resource which a device class offers.
struct DeviceFilter {
    /// Requested resources that a device class offers.
    from_devices: Vec<Text>,
    /// Other extended resources that are requested.
    from_nodes: Vec<Text>,
}

impl DeviceFilter {
    /// Returns `true` if the node lists the resources. NodeResourcesFit checks the free amounts.
    fn lists_node_resources(&self, node: &Node) -> bool {
        self.from_nodes.iter().all(|name| node.allocatable.scalar(name).is_some())
    }

    /// Returns the position of the first resource that the node could offer only through devices.
    fn needs_devices(&self, node: &Node) -> Option<usize> {
        self.from_devices.iter().position(|name| node.allocatable.amount(name) == 0)
    }
}

impl Filter for DeviceFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let node = state.nodes.object(node);
        if !self.lists_node_resources(node) {
            return NodeVerdict(1);
        }
        self.needs_devices(node)
            .map_or(NodeVerdict::PASS, |position| NodeVerdict(position as u32 + 2))
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        let Some(position) = (verdict.0 as usize).checked_sub(2) else {
            return Rejection::unresolvable("cannot fit resource");
        };
        let name = &self.from_devices[position];
        Rejection::unresolvable(format!(
            "node(s) would have to offer {name} through devices, which is not supported yet"
        ))
    }
}

/// Scores all nodes zero, for pods without claims.
struct ZeroScorer;

impl Scorer for ZeroScorer {
    fn score(&mut self, _state: &State, _node: NodeIdx) -> i64 {
        0
    }

    fn score_all(&mut self, _state: &State, raw: &mut [i64]) {
        raw.fill(0);
    }

    fn constant(&self) -> Option<i64> {
        Some(0)
    }
}

fn unsupported(claims: &[Text]) -> Rejection {
    let claims = claims.join(", ");
    Rejection::unresolvable(format!("claims on devices are not supported yet: {claims}"))
}

/// Returns the names of requested resources that device classes may offer.
fn extended_requests(spec: &PodSpec) -> Vec<Text> {
    let requested = spec.requests.scalars.iter();
    let extended = requested.filter(|(name, amount)| *amount != 0 && may_be_devices(name));
    extended.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use engine::object::Resources;
    use engine::testing::{class, node, scores, state, verdicts, with_device_class};

    fn asking(scalars: &[(&str, i64)]) -> PodSpec {
        let scalars = scalars.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
        let requests = Resources { scalars, ..Resources::default() };
        PodSpec { requests, ..PodSpec::default() }
    }

    fn offering(name: &str, scalars: &[(&str, i64)]) -> Node {
        Node { allocatable: asking(scalars).requests, ..node(name) }
    }

    #[test]
    fn pods_without_claims_pass_everywhere_with_equal_scores() {
        let mut state = with_device_class(state([node("a"), node("b")], []), "gpu", "x.y/gpu");
        let class = class(asking(&[("x.y/other", 1)]));
        assert_eq!(verdicts(build(None), class.clone(), &mut state), ["a: ok", "b: ok"]);
        let found = scores(&*build(None), &class, &mut state);
        assert_eq!(found, Some(vec!["a: 0".to_owned(), "b: 0".to_owned()]));
    }

    #[test]
    fn pods_with_claims_are_rejected() {
        let claims = ["gpu".into(), "nic".into()].into();
        let spec = PodSpec { resource_claims: claims, ..PodSpec::default() };
        assert_eq!(
            verdicts(build(None), class(spec), &mut state([node("a")], [])),
            ["UnschedulableAndUnresolvable: claims on devices are not supported yet: gpu, nic"]
        );
    }

    #[test]
    fn nodes_that_need_devices_for_a_resource_are_rejected() {
        let nodes = [
            offering("none", &[("x.y/other", 1)]),
            offering("zero", &[("x.y/gpu", 0), ("x.y/other", 0)]),
            offering("own", &[("x.y/gpu", 4), ("x.y/other", 1)]),
            offering("no-other", &[("x.y/gpu", 4)]),
        ];
        let mut state = with_device_class(state(nodes, []), "gpu", "x.y/gpu");
        let devices = "UnschedulableAndUnresolvable node(s) would have to offer x.y/gpu through \
                       devices, which is not supported yet";
        assert_eq!(
            verdicts(build(None), class(asking(&[("x.y/gpu", 1), ("x.y/other", 1)])), &mut state),
            [
                format!("none: {devices}"),
                format!("zero: {devices}"),
                "own: ok".to_owned(),
                "no-other: UnschedulableAndUnresolvable cannot fit resource".to_owned(),
            ]
        );
    }

    #[test]
    fn no_event_helps_a_pod_with_claims() {
        let state = state([], []);
        let event = |resource| Event {
            resource,
            action: Action::ADD,
            object: engine::framework::event::Object::None,
            own: false,
        };
        let with_claim = PodSpec { resource_claims: ["a".into()].into(), ..PodSpec::default() };
        for (spec, resource, expected) in [
            (with_claim, Resource::Node, false),
            (asking(&[("x.y/gpu", 1)]), Resource::Node, true),
            (asking(&[("x.y/gpu", 1)]), Resource::DeviceClass, true),
            (asking(&[("x.y/gpu", 1)]), Resource::ResourceSlice, false),
        ] {
            assert_eq!(build(None).hint(&state, &class(spec), &event(resource)), expected);
        }
    }
}
