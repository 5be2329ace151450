//! Tests of what CSI drivers report of nodes.

use std::sync::Arc;

use super::*;
use crate::object::{ClusterObject, CsiNode, NodeDriver, PersistentVolume, VolumeAttachment};
use crate::state::State;
use crate::testing::{node, state, with_volumes};

fn csi_node(name: &str, drivers: &[(&str, Option<i32>)]) -> CsiNode {
    let driver = |(name, limit): &(&str, Option<i32>)| NodeDriver {
        name: (*name).into(),
        limit: *limit,
        topology_keys: Box::default(),
    };
    CsiNode {
        name: name.into(),
        drivers: drivers.iter().map(driver).collect(),
        migrated_plugins: Box::default(),
    }
}

fn volume(name: &str, source: VolumeSource) -> PersistentVolume {
    PersistentVolume { name: name.into(), source, ..PersistentVolume::default() }
}

fn csi(handle: &str) -> VolumeSource {
    VolumeSource::Csi { driver: "ebs".into(), handle: handle.into() }
}

fn attachment(name: &str, attacher: &str, node: &str, volume: Option<&str>) -> VolumeAttachment {
    VolumeAttachment {
        name: name.into(),
        attacher: attacher.into(),
        node: node.into(),
        volume_name: volume.map(Text::from),
    }
}

fn cluster() -> State {
    with_volumes(state(["n1", "n2", "n3"].map(node), []), |volumes| {
        for csi_node in [
            csi_node("n1", &[("ebs", Some(3)), ("efs", None)]),
            csi_node("n2", &[("efs", None)]),
            csi_node("gone", &[("ebs", Some(1))]),
        ] {
            volumes.csi_nodes.insert(csi_node);
        }
        for volume in [
            volume("v1", csi("h1")),
            volume("v2", csi("h1")),
            volume("v3", csi("h3")),
            volume("nfs", VolumeSource::Other),
        ] {
            volumes.volumes.insert(volume);
        }
        for attachment in [
            attachment("1", "ebs", "n1", Some("v1")),
            attachment("2", "ebs", "n1", Some("v2")),
            attachment("3", "ebs", "n1", Some("v3")),
            attachment("4", "", "n2", Some("v1")),
            attachment("5", "ebs", "n2", Some("nfs")),
            attachment("6", "ebs", "n2", Some("unknown")),
            attachment("7", "ebs", "n2", None),
            attachment("8", "ebs", "gone", Some("v1")),
        ] {
            volumes.attachments.insert(attachment);
        }
    })
}

#[test]
fn drivers_are_registered_and_limited_per_node() {
    let mut state = cluster();
    let limits = state.driver_limits();
    let [n1, n2, n3] = ["n1", "n2", "n3"].map(|name| state.nodes.find(name).unwrap());
    let registered = [n1, n2, n3].map(|node| limits.is_registered(node));
    assert_eq!(registered, [true, true, false]);
    let limited = [n1, n2, n3].map(|node| limits.is_limited(node));
    assert_eq!(limited, [true, false, false]);
    assert_eq!(limits.driver("efs"), None, "a driver without a limit has no column");
    let ebs = limits.driver("ebs").unwrap();
    assert_eq!([n1, n2, n3].map(|node| limits.limit(ebs, node)), [Some(3), None, None]);
    assert_eq!(limits.limit(ebs, NodeIdx(99)), None, "a slot made later");
}

#[test]
fn attached_volumes_are_csi_volumes_that_exist_each_once_by_handle() {
    let mut state = cluster();
    let limits = state.driver_limits();
    let [n1, n2] = ["n1", "n2"].map(|name| state.nodes.find(name).unwrap());
    let handles: Vec<&str> = limits.attached(n1).iter().map(|volume| &*volume.handle).collect();
    assert_eq!(handles, ["h1", "h3"]);
    assert_eq!(limits.attached(n2), []);
    assert_eq!(limits.attached(NodeIdx(99)), []);
}

#[test]
fn limits_are_kept_until_nodes_or_volumes_change() {
    let mut state = cluster();
    let first = state.driver_limits();
    state.add_pod(crate::testing::pod("a"));
    assert!(Arc::ptr_eq(&first, &state.driver_limits()));
    state.set_node(&node("gone").into());
    let second = state.driver_limits();
    let gone = state.nodes.find("gone").unwrap();
    assert!(second.is_limited(gone) && second.attached(gone).len() == 1);
    let csi_node = csi_node("gone", &[("ebs", Some(9))]);
    state.set_object(ClusterObject::CsiNode(csi_node.into()));
    let third = state.driver_limits();
    assert_eq!(third.limit(third.driver("ebs").unwrap(), gone), Some(9));
}
