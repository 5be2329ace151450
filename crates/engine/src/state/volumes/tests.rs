//! Tests of storage objects and of the decisions about them.

use super::*;
use crate::object::{ClusterObject, Pod, VolumeSource};
use crate::state::Areas;
use crate::testing;

fn volume(name: &str, version: &str) -> PersistentVolume {
    PersistentVolume {
        name: name.into(),
        resource_version: version.into(),
        source: VolumeSource::Other,
        ..PersistentVolume::default()
    }
}

fn claim(name: &str, version: &str) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        namespace: "default".into(),
        name: name.into(),
        resource_version: version.into(),
        ..PersistentVolumeClaim::default()
    }
}

fn claim_ref(name: &str) -> ClaimRef {
    ClaimRef { namespace: "default".into(), name: name.into(), uid: "".into() }
}

fn binding(volume: &str, version: &str, claim: &str) -> ReservedVolumes {
    let binding =
        ReservedBinding { volume: volume.into(), version: version.into(), claim: claim_ref(claim) };
    ReservedVolumes { bindings: [binding].into(), ..ReservedVolumes::default() }
}

fn provision(claim: &str, version: &str, node: &str) -> ReservedVolumes {
    let claim = ("default".into(), claim.into());
    let provision = ReservedProvision { claim, version: version.into(), node: node.into() };
    ReservedVolumes { provisions: [provision].into(), ..ReservedVolumes::default() }
}

/// Volumes `v` and claims `c` and `d` of version 1.
fn volumes() -> Volumes {
    let mut volumes = Volumes::default();
    volumes.volumes.insert(volume("v", "1"));
    for name in ["c", "d"] {
        volumes.claims.insert(claim(name, "1"));
    }
    volumes
}

fn owner(volumes: &Volumes) -> Option<&str> {
    volumes.claim_ref(volumes.volumes.get("v").unwrap()).map(|claim| &*claim.name)
}

fn selected<'a>(volumes: &'a Volumes, name: &str) -> Option<&'a str> {
    volumes.selected_node(volumes.claim("default", name).unwrap())
}

#[test]
fn a_reservation_counts_until_it_is_forgotten() {
    let mut volumes = volumes();
    assert_eq!((owner(&volumes), selected(&volumes, "c")), (None, None));
    volumes.reserve("a".into(), binding("v", "1", "c"));
    volumes.reserve("b".into(), provision("d", "1", "n1"));
    assert_eq!((owner(&volumes), selected(&volumes, "d")), (Some("c"), Some("n1")));
    assert_eq!(volumes.reserved(&"a".into()), Some(&binding("v", "1", "c")));
    assert!(volumes.forget(&"a".into()));
    assert!(!volumes.forget(&"a".into()), "there is nothing left");
    assert_eq!((owner(&volumes), selected(&volumes, "d")), (None, Some("n1")));
    assert_eq!(volumes.reserved(&"a".into()), None);
}

#[test]
fn a_newer_object_overrides_the_reservation() {
    let mut volumes = volumes();
    volumes.reserve("a".into(), binding("v", "1", "c"));
    volumes.reserve("b".into(), provision("d", "1", "n1"));
    let stored =
        |version| PersistentVolume { claim_ref: Some(claim_ref("stored")), ..volume("v", version) };
    volumes.volumes.insert(stored("1"));
    assert_eq!(owner(&volumes), Some("c"), "the version is the same");
    volumes.volumes.insert(stored("2"));
    assert_eq!(owner(&volumes), Some("stored"));
    let selected_node = Some("n2".into());
    volumes.claims.insert(PersistentVolumeClaim { selected_node, ..claim("d", "2") });
    assert_eq!(selected(&volumes, "d"), Some("n2"));
}

#[test]
fn a_pod_that_reserves_again_gives_its_first_reservation_up() {
    let mut volumes = volumes();
    volumes.reserve("a".into(), binding("v", "1", "c"));
    volumes.reserve("a".into(), provision("c", "1", "n1"));
    assert_eq!((owner(&volumes), selected(&volumes, "c")), (None, Some("n1")));
}

#[test]
fn an_old_reservation_does_not_take_a_newer_one_away() {
    let mut volumes = volumes();
    volumes.reserve("a".into(), binding("v", "1", "c"));
    volumes.reserve("b".into(), provision("c", "1", "n1"));
    volumes.volumes.insert(volume("v", "2"));
    volumes.claims.insert(claim("c", "2"));
    volumes.reserve("x".into(), binding("v", "2", "d"));
    volumes.reserve("y".into(), provision("c", "2", "n2"));
    volumes.forget(&"a".into());
    volumes.forget(&"b".into());
    assert_eq!((owner(&volumes), selected(&volumes, "c")), (Some("d"), Some("n2")));
}

/// A change, whether a decision is dropped after it, and whether the work remains.
type Case = (&'static str, fn(&mut Volumes), bool, bool);

#[test]
fn outdated_and_finished_reservations_are_dropped() {
    let bound = |name: &str| PersistentVolumeClaim {
        volume_name: "v".into(),
        bind_completed: true,
        ..claim(name, "2")
    };
    let cases: [Case; 4] = [
        ("nothing happened", |_| {}, false, true),
        ("newer volume", |all| drop(all.volumes.insert(volume("v", "2"))), true, true),
        ("volume gone", |all| drop(all.volumes.remove("", "v")), true, true),
        ("other claim gone", |all| drop(all.claims.remove("default", "d")), false, true),
    ];
    for (case, change, dropped, reserved) in cases {
        let mut volumes = volumes();
        volumes.reserve("a".into(), binding("v", "1", "c"));
        change(&mut volumes);
        assert_eq!(volumes.drop_outdated(), dropped, "{case}");
        assert!(!volumes.drop_outdated(), "{case}: nothing is left to be dropped");
        assert_eq!(volumes.reserved(&"a".into()).is_some(), reserved, "{case}");
    }
    let mut volumes = volumes();
    volumes.reserve("a".into(), binding("v", "1", "c"));
    volumes.reserve("b".into(), provision("c", "1", "n1"));
    volumes.claims.insert(bound("c"));
    assert!(volumes.drop_outdated());
    assert_eq!((volumes.reserved(&"a".into()), volumes.reserved(&"b".into())), (None, None));
    assert_eq!(selected(&volumes, "c"), None);
    volumes.claims.remove("default", "c");
    volumes.reserve("a".into(), provision("c", "1", "n1"));
    assert!(volumes.drop_outdated(), "the claim is gone");
}

#[test]
fn claims_are_counted_while_pods_that_use_them_are_on_nodes() {
    let using = |name: &str, claims: &[&str]| -> Pod {
        let mut pod = testing::pod(name);
        let volumes = claims.iter().map(|name| Volume::Claim { name: (*name).into() });
        pod.spec_mut().volumes = volumes.collect();
        pod
    };
    let mut state =
        testing::state([testing::node("n1")], [using("a", &["c"]), using("b", &["c", "d"])]);
    let users = |state: &crate::state::State| {
        ["c", "d"].map(|name| state.volumes.claim_users("default", name))
    };
    assert_eq!(users(&state), [0, 0], "pending pods use nothing");
    testing::place(&mut state, "a", "n1");
    testing::place(&mut state, "b", "n1");
    assert_eq!(users(&state), [2, 1]);
    assert_eq!(state.volumes.claim_users("other", "c"), 0);
    testing::displace(&mut state, "a");
    assert_eq!(users(&state), [1, 1]);
    testing::displace(&mut state, "b");
    assert_eq!(users(&state), [0, 0]);
    assert!(state.volumes.users.is_empty());
}

#[test]
fn reservations_of_a_state_change_the_version_of_claims_in_use() {
    let mut state = testing::state([], [testing::pod("a")]);
    state.volumes = volumes();
    let pod = state.find_pod("default", "a").unwrap();
    let changes = |state: &mut crate::state::State, change: &dyn Fn(&mut crate::state::State)| {
        let before = state.versions();
        change(state);
        !state.versions().agree(&before, Areas::CLAIMS_IN_USE)
    };
    assert!(!changes(&mut state, &|state| state.forget_volumes(pod)));
    assert!(changes(&mut state, &|state| state.reserve_volumes(pod, binding("v", "1", "c"))));
    assert_eq!(owner(&state.volumes), Some("c"));
    let set = |version| {
        let object = ClusterObject::PersistentVolume(volume("v", version).into());
        move |state: &mut crate::state::State| drop(state.set_object(object.clone()))
    };
    assert!(!changes(&mut state, &set("1")));
    assert!(changes(&mut state, &set("2")));
    assert!(changes(&mut state, &|state| state.forget_volumes(pod)));
}
