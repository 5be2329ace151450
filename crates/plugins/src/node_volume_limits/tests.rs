//! Tests of NodeVolumeLimits.

use super::*;
use crate::volume_claims::testing::{
    add_claim, add_class, add_volume, assert_incremental, bound, claim, claim_added, csi_volume,
    delayed, event, spec, user, volume,
};
use engine::object::{
    InlineDisk, NodeDriver, PersistentVolume, PersistentVolumeClaim, Pod as PodObject, VolumeSource,
};
use engine::state::volumes::Volumes;
use engine::testing::{class, displace, node, place, pod, pod_event, state, verdict_if, verdicts};

const EXCEEDED: &str = "n: Unschedulable node(s) exceed max volume count";

fn csi_node(name: &str, limits: &[(&str, Option<i32>)]) -> CsiNode {
    let driver = |(name, limit): &(&str, Option<i32>)| NodeDriver {
        name: (*name).into(),
        limit: *limit,
        topology_keys: Box::default(),
    };
    let drivers = limits.iter().map(driver).collect();
    CsiNode { name: name.into(), drivers, migrated_plugins: Box::default() }
}

/// Adds claims `a` to `e`, bound to volumes of driver `d` of the same names, and applies `more`.
fn with_limit(
    state: State,
    limits: &[(&str, Option<i32>)],
    more: impl FnOnce(&mut Volumes),
) -> State {
    engine::testing::with_volumes(state, |volumes| {
        for name in ["a", "b", "c", "d", "e"] {
            add_claim(volumes, bound(name, name));
            add_volume(volumes, csi_volume(name, "d"));
        }
        volumes.csi_nodes.insert(csi_node("n", limits));
        more(volumes);
    })
}

fn verdict(state: &mut State, spec: PodSpec) -> String {
    verdicts(build(None), class(spec), state).remove(0)
}

#[test]
fn volumes_of_pods_count_once() {
    let pods = || [user("one", "n", &["a", "b"]), user("two", "n", &["b"])];
    let state = |limit| with_limit(state([node("n")], pods()), &[("d", limit)], |_| {});
    assert_eq!(verdict(&mut state(Some(3)), spec(&["c"])), "n: ok");
    assert_eq!(verdict(&mut state(Some(2)), spec(&["c"])), EXCEEDED);
    assert_eq!(verdict(&mut state(Some(2)), spec(&["a", "b"])), "n: ok", "used there already");
    assert_eq!(verdict(&mut state(Some(1)), spec(&["a"])), "n: ok", "nothing is new");
    assert_eq!(verdict(&mut state(Some(3)), spec(&["b", "c", "c"])), "n: ok");
    assert_eq!(verdict(&mut state(Some(3)), spec(&["c", "d"])), EXCEEDED);
    assert_eq!(verdict(&mut state(Some(0)), spec(&["c"])), EXCEEDED);
    assert_eq!(verdict(&mut state(None), spec(&["c", "d"])), "n: ok");
}

#[test]
fn attached_volumes_count_even_if_no_pod_uses_them() {
    let attach = |volumes: &mut Volumes, volume: &str| {
        let attachment = VolumeAttachment {
            name: format!("to-n-{volume}").into(),
            attacher: "d".into(),
            node: "n".into(),
            volume_name: Some(volume.into()),
        };
        volumes.attachments.insert(attachment);
    };
    let state = |limit| {
        let state = state([node("n")], [user("one", "n", &["a"])]);
        with_limit(state, &[("d", Some(limit))], |volumes| {
            for volume in ["a", "b", "missing"] {
                attach(volumes, volume);
            }
        })
    };
    assert_eq!(verdict(&mut state(3), spec(&["c"])), "n: ok");
    assert_eq!(verdict(&mut state(2), spec(&["c"])), EXCEEDED);
    assert_eq!(verdict(&mut state(2), spec(&["b"])), EXCEEDED, "counts twice, as upstream");
    assert_eq!(verdict(&mut state(2), spec(&["a"])), "n: ok");
}

#[test]
fn counts_follow_the_pods_on_the_node() {
    let one = PodObject { spec: spec(&["a"]).into(), ..pod("one") };
    let mut state = with_limit(state([node("n")], [one]), &[("d", Some(1))], |_| {});
    let other = || class(spec(&["b"]));
    assert_eq!(verdict_if(build(None), other(), &mut state, "n", &[], &[]), "ok");
    let full = "Unschedulable node(s) exceed max volume count";
    assert_eq!(verdict_if(build(None), other(), &mut state, "n", &["one"], &[]), full);
    place(&mut state, "one", "n");
    assert_eq!(verdict(&mut state, spec(&["b"])), EXCEEDED);
    assert_eq!(verdict_if(build(None), other(), &mut state, "n", &[], &["one"]), "ok");
    displace(&mut state, "one");
    assert_eq!(verdict(&mut state, spec(&["b"])), "n: ok");
}

#[test]
fn volumes_that_do_not_exist_yet_count_for_their_driver() {
    let pods = || [user("one", "n", &["a"])];
    let mut state = with_limit(
        state([node("n")], pods()),
        &[("d", Some(1)), ("ebs.csi.aws.com", Some(0))],
        |volumes| {
            add_class(volumes, delayed("of-d", "d"));
            add_class(volumes, delayed("of-aws", "kubernetes.io/aws-ebs"));
            add_class(volumes, delayed("of-azure", "kubernetes.io/azure-file"));
            for class in ["of-d", "of-aws", "of-azure", "unknown", ""] {
                add_claim(volumes, claim(&format!("c-{class}"), class, 1));
            }
            let lost =
                PersistentVolumeClaim { volume_name: "x".into(), ..claim("lost", "of-d", 1) };
            add_claim(volumes, lost);
        },
    );
    assert_eq!(verdict(&mut state, spec(&["c-of-d"])), EXCEEDED);
    assert_eq!(verdict(&mut state, spec(&["lost"])), EXCEEDED);
    assert_eq!(verdict(&mut state, spec(&["c-of-aws"])), EXCEEDED);
    for uncounted in ["c-of-azure", "c-unknown", "c-"] {
        assert_eq!(verdict(&mut state, spec(&[uncounted])), "n: ok");
    }
}

#[test]
fn in_tree_volumes_count_where_a_csi_node_exists() {
    let migrated = PersistentVolume {
        source: VolumeSource::Cinder { id: "x".into() },
        ..volume("in-tree", "", 1)
    };
    let disk = |id: &str| Volume::Inline(InlineDisk::Cinder { id: id.into() });
    let inline = |ids: &[&str]| PodSpec {
        volumes: ids.iter().map(|id| disk(id)).collect(),
        ..PodSpec::default()
    };
    let mut state = with_limit(
        state([node("n"), node("plain")], []),
        &[("cinder.csi.openstack.org", Some(1))],
        |volumes| {
            add_claim(volumes, bound("cinder", "in-tree"));
            add_volume(volumes, migrated);
        },
    );
    assert_eq!(verdict(&mut state, spec(&["cinder"])), "n: ok");
    assert_eq!(verdict(&mut state, inline(&["x"])), "n: ok");
    let both = PodSpec {
        volumes: [spec(&["cinder"]).volumes, inline(&["y"]).volumes].concat().into(),
        ..PodSpec::default()
    };
    assert_eq!(
        verdicts(build(None), class(both), &mut state),
        [EXCEEDED.to_owned(), "plain: ok".to_owned()]
    );
    let same = PodSpec {
        volumes: [spec(&["cinder"]).volumes, inline(&["x"]).volumes].concat().into(),
        ..PodSpec::default()
    };
    assert_eq!(verdict(&mut state, same), "n: ok");
}

#[test]
fn unusable_claims_are_reported() {
    let ephemeral = || PodSpec {
        volumes: [Volume::Ephemeral { claim: "p-a".into() }].into(),
        ..PodSpec::default()
    };
    let owner = PodObject { spec: ephemeral().into(), ..pod("p") };
    let mut state = with_limit(state([node("n")], [owner]), &[("d", Some(9))], |volumes| {
        add_claim(volumes, bound("p-a", "a"));
    });
    assert_eq!(
        verdict(&mut state, spec(&["a", "x"])),
        "n: UnschedulableAndUnresolvable \
         looking up PVC default/x: persistentvolumeclaim \"x\" not found"
    );
    assert_eq!(
        verdict(&mut state, spec(&[""])),
        "n: Error running \"NodeVolumeLimits\" filter plugin: PersistentVolumeClaim had no name"
    );
    let class = Class { uid: "uid-default-p".into(), ..class(ephemeral()) };
    let foreign = "n: Error running \"NodeVolumeLimits\" filter plugin: PVC default/p-a was not created for pod default/p (pod is not owner)";
    assert_eq!(verdicts(build(None), class, &mut state), [foreign]);
    place(&mut state, "p", "n");
    assert_eq!(verdict(&mut state, spec(&["b"])), foreign, "also for pods on the node");
}

proptest::proptest! {
    #[test]
    fn incremental_verdicts_equal_those_from_scratch(
        moves in proptest::collection::vec((0_usize..6, 0_usize..2), 1..40),
        limit in 0..4_i32,
    ) {
        let user = |(index, claims): (usize, &[&str])| PodObject {
            spec: spec(claims).into(),
            ..pod(&format!("p{index}"))
        };
        let claims: [&[&str]; 6] = [&["a"], &["a", "b"], &["c"], &["b"], &[], &["d", "e"]];
        let pods = claims.into_iter().enumerate().map(user);
        let nodes = [node("n"), node("unlimited")];
        let mut state = with_limit(state(nodes, pods), &[("d", Some(limit))], |_| {});
        assert_incremental(build(None), &class(spec(&["a", "c"])), &mut state, &moves);
    }
}

#[test]
fn pods_without_volumes_are_skipped() {
    let mut state = state([node("n")], []);
    let prepared = NodeVolumeLimits
        .prepare_filter(&class(PodSpec::default()), &mut Preparation::new(&mut state));
    assert!(matches!(prepared, PreFilterResult::Skip));
}

#[test]
fn storage_events_that_may_help_wake_the_pod() {
    let state = state([], []);
    let with_claim = class(spec(&["c"]));
    let hint = |class: &Class, event: &Event| NodeVolumeLimits.hint(&state, class, event);
    for (old, new, expected) in [
        (Some(1), Some(2), true),
        (Some(2), Some(2), false),
        (Some(2), Some(1), false),
        (None, Some(1), true),
        (Some(1), None, true),
        (None, None, false),
    ] {
        let (old, new) = (csi_node("n", &[("d", old)]), csi_node("n", &[("d", new)]));
        let object = Object::CsiNode { old: Some(&old), new: Some(&new) };
        assert_eq!(hint(&with_claim, &event(Resource::CsiNode, Action::UPDATE, object)), expected);
    }
    let deleted =
        |pod: &PodObject| hint(&with_claim, &pod_event(Action::DELETE, Some(pod), None, false));
    assert!(deleted(&user("p", "n", &["x"])));
    assert!(!deleted(&user("p", "", &["x"])));
    assert!(!deleted(&user("p", "n", &[])));
    assert!(hint(&with_claim, &claim_added(&claim("c", "", 1))));
    assert!(!hint(&with_claim, &claim_added(&claim("d", "", 1))));
    // Any claim: pods on some node may use it, where it may now count for another driver.
    let (unbound, joined) = (claim("d", "", 1), bound("d", "v"));
    for (new, expected) in [(&unbound, false), (&joined, true)] {
        let object = Object::PersistentVolumeClaim { old: Some(&unbound), new: Some(new) };
        let updated = event(Resource::PersistentVolumeClaim, Action::UPDATE, object);
        assert_eq!(hint(&with_claim, &updated), expected);
    }
    let attachment =
        VolumeAttachment { attacher: "cinder.csi.openstack.org".into(), ..Default::default() };
    let object = Object::VolumeAttachment { old: Some(&attachment), new: None };
    let gone = event(Resource::VolumeAttachment, Action::DELETE, object);
    let with_disk =
        |disk| class(PodSpec { volumes: [Volume::Inline(disk)].into(), ..PodSpec::default() });
    assert!(hint(&with_claim, &gone));
    assert!(hint(&with_disk(InlineDisk::Cinder { id: "x".into() }), &gone));
    assert!(!hint(&with_disk(InlineDisk::PortworxVolume { id: "x".into() }), &gone));
}
