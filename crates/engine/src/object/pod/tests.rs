//! Tests of pods.

use super::*;
use crate::testing::pod;

#[test]
fn a_changed_spec_is_that_of_one_pod_alone() {
    let one = pod("a");
    let mut other = Pod { name: "b".into(), ..one.clone() };
    assert!(Arc::ptr_eq(&one.spec, &other.spec));
    other.spec_mut().requests.cpu = 5;
    assert_eq!((one.spec.requests.cpu, other.spec.requests.cpu), (0, 5));
}

#[test]
fn inline_disks_are_no_claims() {
    let claim = Volume::Claim { name: "data".into() };
    let ephemeral = Volume::Ephemeral { claim: "a-data".into() };
    let inline = Volume::Inline(InlineDisk::Csi { driver: "d".into() });
    for (volumes, claims) in [
        (vec![], false),
        (vec![inline.clone()], false),
        (vec![claim], true),
        (vec![inline, ephemeral], true),
    ] {
        let spec = PodSpec { volumes: volumes.into(), ..PodSpec::default() };
        assert_eq!(spec.has_claims(), claims, "{:?}", spec.volumes);
    }
}
