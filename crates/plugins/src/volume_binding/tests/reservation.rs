//! Tests of Reserve, Unreserve and PreBind.

use engine::framework::Effects;
use engine::index::{NodeIdx, PodIdx};

use super::*;

fn reserve(state: &mut State, name: &str, node: &str) -> Vec<VolumeRequest> {
    let plugin = build(None);
    let pod = state.find_pod("default", name).unwrap();
    let node = state.nodes.find(node).unwrap();
    let effects = &mut Effects::default();
    plugin.reserve(&mut Reservation { state, pod, node, effects }).unwrap();
    requests(state, pod, node)
}

fn requests(state: &State, pod: PodIdx, node: NodeIdx) -> Vec<VolumeRequest> {
    let effects = &mut Effects::default();
    build(None).pre_bind(&mut BindContext { state, pod, node, effects })
}

fn unreserve(state: &mut State, name: &str, node: &str) {
    let pod = state.find_pod("default", name).unwrap();
    let node = state.nodes.find(node).unwrap();
    let effects = &mut Effects::default();
    build(None).unreserve(&mut Reservation { state, pod, node, effects });
    assert!(requests(state, pod, node).is_empty());
}

fn bind(volume: &str, claim: &str) -> VolumeRequest {
    VolumeRequest::BindVolume {
        volume: volume.into(),
        namespace: "default".into(),
        claim: claim.into(),
    }
}

fn provision(claim: &str, node: &str) -> VolumeRequest {
    VolumeRequest::Provision { namespace: "default".into(), claim: claim.into(), node: node.into() }
}

/// Returns a cluster with the pending pods `p` (claims `c`, `d`, and `b`, which is bound) and `q` (claim
/// `e`).
fn reservable() -> State {
    let user = |name: &str, claims: &[&str]| Pod { spec: spec(claims).into(), ..pod(name) };
    let nodes = [Node { labels: labels(&[("zone", "a")]), ..node("a") }, node("b")];
    with_volumes(state(nodes, [user("p", &["c", "b", "d"]), user("q", &["e"])]), |volumes| {
        add_class(volumes, delayed("made", "d"));
        add_class(volumes, delayed("static", "kubernetes.io/no-provisioner"));
        add_claim(volumes, claim("c", "made", 5));
        add_claim(volumes, claim("d", "static", 3));
        add_claim(volumes, claim("e", "static", 3));
        add_claim(volumes, bound("b", "vb"));
        add_volume(volumes, volume("vb", "", 1));
        add_volume(volumes, volume("small", "static", 2));
        add_volume(volumes, volume("large", "static", 9));
        add_volume(volumes, in_zones(volume("local", "static", 4), &["a"]));
    })
}

#[test]
fn reserving_yields_the_writes_before_binding() {
    let mut state = reservable();
    let local = [bind("local", "d"), provision("c", "a")];
    assert_eq!(reserve(&mut state, "p", "a"), local);
    unreserve(&mut state, "p", "a");
    assert_eq!(reserve(&mut state, "p", "b"), [bind("large", "d"), provision("c", "b")]);
}

#[test]
fn reserved_volumes_are_not_available_to_others() {
    let mut state = reservable();
    assert_eq!(reserve(&mut state, "p", "b").len(), 2);
    assert_eq!(check(&mut state, &["e"]), only_a(BIND_CONFLICT), "large is reserved");
    let for_b = [format!("a: UnschedulableAndUnresolvable {BIND_CONFLICT}"), "b: ok".to_owned()];
    assert_eq!(check(&mut state, &["c"]), for_b, "its volume is provisioned for b");
    assert_eq!(check(&mut state, &["d"]), both("ok"), "large is reserved for d itself");
    assert_eq!(reserve(&mut state, "q", "a"), [bind("local", "e")]);
    unreserve(&mut state, "q", "a");
    unreserve(&mut state, "p", "b");
    assert_eq!(check(&mut state, &["e"]), both("ok"));
    assert_eq!(check(&mut state, &["c"]), both("ok"));
}

#[test]
fn newer_objects_override_what_was_reserved() {
    let mut state = reservable();
    reserve(&mut state, "p", "b");
    let mut state = with_volumes(state, |volumes| {
        let newer =
            PersistentVolume { resource_version: "2".into(), ..volume("large", "static", 9) };
        add_volume(volumes, newer);
    });
    assert_eq!(check(&mut state, &["e"]), both("ok"));
    let pod = state.find_pod("default", "p").unwrap();
    assert!(
        state.volumes.reserved(&"uid-default-p".into()).is_some(),
        "the claims are still to be bound"
    );
    let state = with_volumes(state, |volumes| {
        add_claim(volumes, bound("c", "made-for-c"));
        add_claim(volumes, bound("d", "large"));
    });
    assert!(state.volumes.reserved(&"uid-default-p".into()).is_none());
    assert!(requests(&state, pod, state.nodes.find("b").unwrap()).is_empty());
}

#[test]
fn bound_claims_need_no_writes() {
    let user = Pod { spec: spec(&["b"]).into(), ..pod("p") };
    let mut state = with_volumes(state([node("n")], [user, pod("q")]), |volumes| {
        add_claim(volumes, bound("b", "v"));
        add_volume(volumes, volume("v", "", 1));
    });
    assert!(reserve(&mut state, "p", "n").is_empty());
    assert!(reserve(&mut state, "q", "n").is_empty());
    unreserve(&mut state, "q", "n");
}
