//! NodePorts: rejects nodes on which a host port of the pod is already in use.

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::NodeIdx;
use engine::object::HostPort;
use engine::state::State;

pub(crate) const NAME: &str = "NodePorts";
pub(crate) const POINTS: &[Point] = &[Point::PreFilter, Point::Filter];
pub(crate) const DOC: &str = "Rejects nodes on which a host port of the pod is already in use.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(NodePorts)
}

struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("reading \"PreFilterNodePorts\" from cycleState: not found")
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_filter(&self, class: &Class, _preparation: &mut Preparation) -> PreFilterResult {
        if class.spec.host_ports.is_empty() {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(RequestedPorts(class.spec.host_ports.clone())))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription { resource: Resource::Pod, action: Action::DELETE },
            Subscription { resource: Resource::Node, action: Action::ADD },
        ]
    }

    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::Pod { old: Some(gone), .. } => {
                (gone.assigned || gone.nominated)
                    && any_conflict(&class.spec.host_ports, &gone.spec.host_ports)
            }
            _ => true,
        }
    }
}

/// Host ports that must be free.
struct RequestedPorts(Box<[HostPort]>);

impl Filter for RequestedPorts {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        NodeVerdict(any_conflict(&self.0, state.nodes.ports(node)).into())
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        Rejection::unschedulable("node(s) didn't have free ports for the requested pod ports")
    }

    fn reads_pods(&self) -> bool {
        true
    }
}

fn any_conflict(requested: &[HostPort], used: &[HostPort]) -> bool {
    requested.iter().any(|requested| used.iter().any(|used| conflict(requested, used)))
}

fn conflict(a: &HostPort, b: &HostPort) -> bool {
    const ANY_ADDRESS: &str = "0.0.0.0";
    let overlap = || a.ip == b.ip || *a.ip == *ANY_ADDRESS || *b.ip == *ANY_ADDRESS;
    a.port == b.port && a.protocol == b.protocol && overlap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::cycle::evaluation::Evaluation;
    use engine::object::{Pod, PodSpec, Protocol};
    use engine::testing::{
        class, displace, node, place, pod, pod_event, profile, state, verdict_if, verdicts,
    };
    use proptest::prelude::*;

    const REASON: &str = "Unschedulable node(s) didn't have free ports for the requested pod ports";

    fn using(ports: &[HostPort]) -> PodSpec {
        PodSpec { host_ports: ports.into(), ..PodSpec::default() }
    }

    fn pod_using(name: &str, node: &str, ports: &[HostPort]) -> Pod {
        Pod { node: node.into(), spec: using(ports).into(), ..pod(name) }
    }

    fn tcp(ip: &str, port: i32) -> HostPort {
        HostPort { ip: ip.into(), protocol: Protocol::Tcp, port }
    }

    #[test]
    fn address_protocol_and_port_decide() {
        let any = "0.0.0.0";
        for (requested, used, free) in [
            (tcp(any, 80), tcp(any, 80), false),
            (tcp(any, 80), tcp(any, 81), true),
            (tcp(any, 80), tcp("10.0.0.1", 80), false),
            (tcp("10.0.0.1", 80), tcp(any, 80), false),
            (tcp("10.0.0.1", 80), tcp("10.0.0.1", 80), false),
            (tcp("10.0.0.1", 80), tcp("10.0.0.2", 80), true),
            (tcp(any, 80), HostPort { protocol: Protocol::Udp, ..tcp(any, 80) }, true),
        ] {
            let mut state = state([node("a")], [pod_using("p", "a", &[tcp(any, 1), used.clone()])]);
            let class = class(using(&[tcp(any, 2), requested.clone()]));
            let verdict = if free { "ok" } else { REASON };
            let found = verdicts(build(None), class, &mut state);
            assert_eq!(found, [format!("a: {verdict}")], "{requested:?} {used:?}");
        }
    }

    #[test]
    fn pods_without_ports_pass_everywhere() {
        let mut state = state([node("a")], [pod_using("p", "a", &[tcp("0.0.0.0", 80)])]);
        assert_eq!(verdicts(build(None), class(using(&[])), &mut state), ["a: ok"]);
    }

    #[test]
    fn a_what_if_adds_and_removes_ports() {
        let port = [tcp("0.0.0.0", 80)];
        let pods = [pod_using("on", "a", &port), pod_using("pending", "", &port)];
        let mut state = state([node("a"), node("b")], pods);
        let mut verdict = |node, added: &[&str], removed: &[&str]| {
            verdict_if(build(None), class(using(&port)), &mut state, node, added, removed)
        };
        assert_eq!(verdict("a", &[], &[]), REASON);
        assert_eq!(verdict("a", &[], &["on"]), "ok");
        assert_eq!(verdict("a", &["pending"], &["on"]), REASON);
        assert_eq!(verdict("b", &[], &[]), "ok");
        assert_eq!(verdict("b", &["pending"], &[]), REASON);
        assert_eq!(verdict("b", &[], &[]), "ok", "the what-if was undone");
    }

    #[test]
    fn deleting_a_pod_with_the_port_helps() {
        let state = state([], []);
        let class = class(using(&[tcp("0.0.0.0", 80)]));
        let holder = pod_using("p", "a", &[tcp("10.0.0.1", 80)]);
        let nominated = Pod { node: "".into(), nominated_node: "a".into(), ..holder.clone() };
        let pending = Pod { node: "".into(), ..holder.clone() };
        for (gone, expected) in [
            (&holder, true),
            (&nominated, true),
            (&pending, false),
            (&pod_using("p", "a", &[tcp("0.0.0.0", 81)]), false),
            (&pod_using("p", "a", &[]), false),
        ] {
            let event = pod_event(Action::DELETE, Some(gone), None, false);
            assert_eq!(build(None).hint(&state, &class, &event), expected, "{gone:?}");
        }
    }

    proptest! {
        #[test]
        fn incremental_verdicts_equal_those_from_scratch(moves in prop::collection::vec((0usize..6, 0usize..3), 1..30)) {
            let nodes = ["a", "b", "c"];
            let pods: Vec<_> = (0..6).map(|i| format!("p{i}")).collect();
            let spec = |i: usize| [tcp(["0.0.0.0", "10.0.0.1"][i % 2], 80 + i as i32 / 3)];
            let mut state = state(
                nodes.map(node),
                pods.iter().enumerate().map(|(i, name)| pod_using(name, "", &spec(i))),
            );
            let profile = profile(build(None));
            let class = class(using(&[tcp("10.0.0.1", 80)]));
            let mut incremental = Evaluation::new(&profile, class.clone(), &mut state);
            let mut placed = [false; 6];
            for (pod, node) in moves {
                if placed[pod] {
                    displace(&mut state, &pods[pod]);
                } else {
                    place(&mut state, &pods[pod], nodes[node]);
                }
                placed[pod] = !placed[pod];
                incremental.refresh(&profile, &mut state);
                let fresh = Evaluation::new(&profile, class.clone(), &mut state);
                prop_assert_eq!(incremental.feasible(), fresh.feasible());
            }
        }
    }
}
