//! Volumes of pods: claims in every state, inline disks, attach limits, zones.

mod storage;

use serde_json::{Value, json};

use crate::draft::{CaseDraft, NAMESPACES, ZONE, ZONES, name_of, namespace_of, push};
use crate::rng::Rng;
use crate::theme::Topic;
use storage::{
    AWS_DRIVER, ClaimSpec, DRIVERS, GCE_DRIVER, add_classes, bound_volume, claim, delayed_claim,
};

/// Adds volumes to the pod to schedule and to running pods, with the objects that they refer to.
pub(crate) fn add_volumes(draft: &mut CaseDraft) {
    let topics = [Topic::Disks, Topic::VolumeLimits, Topic::VolumeBinding, Topic::VolumeZone];
    if !topics.iter().any(|topic| draft.theme.is_about(*topic)) && !draft.rng.rarely(70) {
        return;
    }
    add_classes(draft);
    let shared = add_shared_claims(draft);
    add_node_limits(draft);
    mount_in_running_pods(draft, &shared);
    mount_in_subject(draft, &shared);
    add_inline_disks(draft);
}

/// A claim that several pods may mount.
struct SharedClaim {
    namespace: &'static str,
    name: String,
    volume: String,
}

/// Adds bound claims in all namespaces; names repeat across namespaces on purpose.
fn add_shared_claims(draft: &mut CaseDraft) -> Vec<SharedClaim> {
    let mut shared = Vec::new();
    for namespace in NAMESPACES {
        for index in 0..draft.rng.between(1, 3) {
            let (name, volume) = (format!("shared-{index}"), format!("pv-{namespace}-{index}"));
            let once = draft.often(Topic::Disks, 45, 60);
            let mode = if once { "ReadWriteOncePod" } else { "ReadWriteOnce" };
            let spec = ClaimSpec {
                namespace,
                name: &name,
                class: Some("now"),
                mode,
                size: "1Gi",
                bound_to: Some(&volume),
            };
            let object = claim(&spec);
            draft.others.push(object);
            let object = bound_volume(draft, &spec, &volume);
            draft.others.push(object);
            shared.push(SharedClaim { namespace, name, volume });
        }
    }
    shared
}

/// Adds CSINodes with attach limits, and volume attachments.
fn add_node_limits(draft: &mut CaseDraft) {
    let mut attached = 0;
    for index in 0..draft.nodes.len() {
        let name = name_of(&draft.nodes[index]);
        let zone = draft.nodes[index]["metadata"]["labels"][ZONE].clone();
        if !zone.is_null() && draft.rng.chance(35) {
            draft.nodes[index]["metadata"]["labels"]["topology.gke.io/zone"] = zone;
        }
        if !draft.often(Topic::VolumeLimits, 85, 250) {
            continue;
        }
        let rng = &mut draft.rng;
        let mut drivers = Vec::new();
        for driver in [DRIVERS[0], DRIVERS[1], GCE_DRIVER, AWS_DRIVER] {
            if rng.chance(70) {
                let mut entry = json!({"name": driver, "nodeID": name, "topologyKeys": null});
                if rng.chance(85) {
                    entry["allocatable"] = json!({"count": rng.weighted(&[(10, 0), (40, 1), (30, 2), (15, 4), (5, 30)])});
                }
                drivers.push(entry);
            }
        }
        let mut object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": name}, "spec": {"drivers": drivers},
        });
        if rng.chance(60) {
            let plugins = rng.pick(&[
                "kubernetes.io/gce-pd,kubernetes.io/aws-ebs",
                "kubernetes.io/gce-pd",
                "kubernetes.io/aws-ebs",
            ]);
            object["metadata"]["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"] =
                json!(plugins);
        }
        draft.others.push(object);
        if rng.chance(50) {
            let volume = format!("pv-{}-{}", rng.pick(&NAMESPACES), rng.below(3));
            attached += 1;
            draft.others.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
                "metadata": {"name": format!("attachment-{attached}")},
                "spec": {"attacher": rng.pick(&DRIVERS), "nodeName": name, "source": {"persistentVolumeName": volume}},
                "status": {"attached": true},
            }));
        }
    }
}

fn mount_in_running_pods(draft: &mut CaseDraft, shared: &[SharedClaim]) {
    for index in 0..draft.pods.len() {
        let namespace = namespace_of(&draft.pods[index]);
        for one in shared.iter().filter(|one| one.namespace == namespace) {
            if draft.often(Topic::VolumeLimits, 35, 0) || draft.often(Topic::Disks, 14, 40) {
                mount(&mut draft.pods[index], &one.name);
            }
        }
        if draft.often(Topic::VolumeLimits, 12, 5) {
            let owner = draft.pods[index].clone();
            let object = ephemeral_claim(draft, &owner);
            mount_ephemeral(&mut draft.pods[index]);
            draft.others.extend(object);
        }
        if draft.rng.rarely(20) {
            mount(&mut draft.pods[index], "missing");
        }
    }
}

fn mount_in_subject(draft: &mut CaseDraft, shared: &[SharedClaim]) {
    let namespace = namespace_of(&draft.pod);
    let own: Vec<&SharedClaim> = shared.iter().filter(|one| one.namespace == namespace).collect();
    for one in &own {
        if draft.often(Topic::VolumeLimits, 60, 0)
            || draft.often(Topic::Disks, 45, 0)
            || draft.often(Topic::VolumeZone, 75, 60)
        {
            mount(&mut draft.pod, &one.name);
        }
    }
    if draft.often(Topic::VolumeZone, 85, 30) {
        for one in &own {
            label_with_zone(draft, &one.volume);
        }
    }
    if draft.often(Topic::VolumeBinding, 75, 0) || draft.often(Topic::VolumeLimits, 25, 50) {
        for index in 0..draft.rng.weighted(&[(60, 1), (30, 2), (10, 3)]) {
            delayed_claim(draft, &namespace, &format!("wait-{index}"));
            mount(&mut draft.pod, &format!("wait-{index}"));
        }
    }
    if draft.often(Topic::VolumeBinding, 14, 15) || draft.often(Topic::VolumeZone, 10, 0) {
        broken_claim(draft, &namespace);
        mount(&mut draft.pod, "broken");
    }
    if draft.often(Topic::VolumeBinding, 10, 8) || draft.often(Topic::VolumeLimits, 12, 0) {
        let owner = draft.pod.clone();
        let object = ephemeral_claim(draft, &owner);
        draft.others.extend(object);
        mount_ephemeral(&mut draft.pod);
    }
    if draft.often(Topic::Images, 20, 5) {
        push(
            &mut draft.pod["spec"],
            "volumes",
            json!({"name": "image", "image": {"reference": "example.com/web:v1", "pullPolicy": "IfNotPresent"}}),
        );
    }
}

/// Adds zone labels to a volume, as in-tree cloud providers did.
fn label_with_zone(draft: &mut CaseDraft, volume: &str) {
    let rng = &mut draft.rng;
    let zone = match rng.below(5) {
        0 => format!("{}__{}", ZONES[0], ZONES[rng.between(1, 2)]),
        1 => (rng.pick(&["z1__", "z1__z1", "nowhere", "__z1"])).to_owned(),
        _ => (rng.pick(&ZONES)).to_owned(),
    };
    let beta = rng.chance(40);
    let (zone_key, region_key) = if beta {
        (crate::draft::ZONE_BETA, crate::draft::REGION_BETA)
    } else {
        (ZONE, crate::draft::REGION)
    };
    let (with_zone, with_region) = (rng.chance(90), rng.chance(35));
    let region = rng.pick(&["r1", "r2", "r1__r2"]);
    for object in draft
        .others
        .iter_mut()
        .filter(|object| object["kind"] == "PersistentVolume" && name_of(object) == volume)
    {
        if with_zone {
            object["metadata"]["labels"][zone_key] = json!(zone);
        }
        if with_region {
            object["metadata"]["labels"][region_key] = json!(region);
        }
    }
}

/// Adds a claim that makes the pod unschedulable, or that is bound to a volume that does not exist.
fn broken_claim(draft: &mut CaseDraft, namespace: &str) {
    let kind = draft.rng.weighted(&[
        (15, "missing"),
        (12, "lost"),
        (12, "deleting"),
        (22, "immediate"),
        (9, "classless"),
        (12, "no volume"),
        (10, "prebound"),
        (8, "no class"),
    ]);
    let class = match kind {
        "classless" => None,
        "no class" => Some("absent"),
        "prebound" => Some("fast"),
        _ => Some("now"),
    };
    let bound_to = matches!(kind, "lost" | "deleting" | "no volume").then_some("pv-broken");
    let spec = ClaimSpec {
        namespace,
        name: "broken",
        class,
        mode: "ReadWriteOnce",
        size: "1Gi",
        bound_to,
    };
    let mut object = claim(&spec);
    match kind {
        "missing" => return,
        "lost" => object["status"]["phase"] = json!("Lost"),
        "deleting" => object["metadata"]["deletionTimestamp"] = json!(crate::draft::time(3000)),
        "prebound" => object["spec"]["volumeName"] = json!("pv-broken"),
        _ => {}
    }
    draft.others.push(object);
    if kind == "deleting" || (kind == "prebound" && draft.rng.chance(50)) {
        let object = bound_volume(draft, &spec, "pv-broken");
        draft.others.push(object);
    }
}

/// Returns the claim of an ephemeral volume and its volume; empty if the controller has not created the claim yet.
fn ephemeral_claim(draft: &mut CaseDraft, owner: &Value) -> Vec<Value> {
    let (namespace, name) = (namespace_of(owner), name_of(owner));
    let subject = name == "subject";
    let claim_name = format!("{name}-scratch");
    let bound = !subject || draft.rng.chance(50);
    if subject && draft.rng.chance(12) {
        return Vec::new();
    }
    let volume = format!("pv-{claim_name}");
    let spec = ClaimSpec {
        namespace: &namespace,
        name: &claim_name,
        class: Some("fast"),
        mode: "ReadWriteOnce",
        size: "1Gi",
        bound_to: bound.then_some(volume.as_str()),
    };
    let mut object = claim(&spec);
    if !(subject && draft.rng.chance(8)) {
        let uid = owner["metadata"]["uid"].clone();
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true}]);
    }
    let mut objects = vec![object];
    if bound {
        objects.push(bound_volume(draft, &spec, &volume));
    }
    objects
}

fn mount(pod: &mut Value, claim: &str) {
    push(
        &mut pod["spec"],
        "volumes",
        json!({"name": format!("v-{claim}"), "persistentVolumeClaim": {"claimName": claim}}),
    );
}

fn mount_ephemeral(pod: &mut Value) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}});
    push(
        &mut pod["spec"],
        "volumes",
        json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}),
    );
}

/// Adds inline disks from a small pool, so that pods use the same disk.
fn add_inline_disks(draft: &mut CaseDraft) {
    // One kind is frequent, so that pods use the same disk.
    let common = draft.rng.below(5);
    let mut pods: Vec<Value> = std::mem::take(&mut draft.pods);
    for pod in &mut pods {
        if draft.often(Topic::Disks, 65, 20) || draft.often(Topic::VolumeLimits, 15, 0) {
            let disk = inline_disk(&mut draft.rng, common);
            push(&mut pod["spec"], "volumes", disk);
        }
    }
    draft.pods = pods;
    if draft.often(Topic::Disks, 85, 30) || draft.often(Topic::VolumeLimits, 20, 0) {
        let disk = inline_disk(&mut draft.rng, common);
        push(&mut draft.pod["spec"], "volumes", disk);
    }
}

fn inline_disk(rng: &mut Rng, common: usize) -> Value {
    let read_only = rng.chance(40);
    let kind = if rng.chance(60) { common } else { rng.below(5) };
    let mut volume = match kind {
        0 => json!({"gcePersistentDisk": {"pdName": rng.pick(&["disk-1", "disk-2"])}}),
        1 => {
            let count = rng.between(1, 2);
            let monitors = rng.some(&["10.1.0.1:6789", "10.1.0.2:6789", "10.1.0.3:6789"], count);
            let (pool, image) =
                (rng.pick(&["rbd", "rbd", "pool"]), rng.pick(&["image-1", "image-2"]));
            json!({"rbd": {"monitors": monitors, "pool": pool, "image": image, "user": "admin", "keyring": "/etc/ceph/keyring"}})
        }
        2 => {
            let iqn = rng.pick(&["iqn.2026-01.com.example:one", "iqn.2026-01.com.example:two"]);
            json!({"iscsi": {"targetPortal": rng.pick(&["10.2.0.1:3260", "10.2.0.2:3260"]), "iqn": iqn, "lun": rng.below(2), "iscsiInterface": "default"}})
        }
        3 => {
            json!({"awsElasticBlockStore": {"volumeID": rng.pick(&["aws://z1/vol-0a", "vol-0b"])}})
        }
        _ => json!({"csi": {"driver": "csi.example.com"}}),
    };
    if read_only
        && let Some((_, source)) = volume.as_object_mut().and_then(|map| map.iter_mut().next())
    {
        source["readOnly"] = json!(true);
    }
    volume["name"] = json!(format!("inline-{}", rng.below(100_000)));
    volume
}
