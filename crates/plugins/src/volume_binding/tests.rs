//! Tests of VolumeBinding.

mod reservation;

use super::*;
use crate::volume_claims::testing::{
    add_claim, add_class, add_volume, bound, claim, claim_added, csi_volume, delayed, event, spec,
    term, volume,
};
use engine::object::{
    AccessModes, BindingMode, ClaimPhase, ClaimRef, CsiNode, Node, NodeTerm, Operator,
    PersistentVolume, PersistentVolumeClaim, Pod, Requirement, Selector, StorageClass, VolumeMode,
    VolumePhase, VolumeSource,
};
use engine::state::volumes::Volumes;
use engine::testing::{class, labels, node, pod, state, verdicts, with_volumes};

const AFFINITY: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
const VOLUME_MISSING: &str =
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// Returns a cluster of the nodes `a` and `b`, in zones of the same names.
fn cluster(change: impl FnOnce(&mut Volumes)) -> State {
    let zoned = |name: &str| Node { labels: labels(&[("zone", name)]), ..node(name) };
    with_volumes(state([zoned("a"), zoned("b")], []), change)
}

fn check(state: &mut State, claims: &[&str]) -> Vec<String> {
    verdicts(build(None), class(spec(claims)), state)
}

fn both(reason: &str) -> [String; 2] {
    ["a", "b"].map(|node| match reason {
        "ok" => format!("{node}: ok"),
        reason => format!("{node}: UnschedulableAndUnresolvable {reason}"),
    })
}

fn only_a(reason: &str) -> [String; 2] {
    ["a: ok".to_owned(), format!("b: UnschedulableAndUnresolvable {reason}")]
}

fn in_zones(volume: PersistentVolume, zones: &[&str]) -> PersistentVolume {
    PersistentVolume { node_affinity: Some([term("zone", zones)].into()), ..volume }
}

fn owned_by(volume: PersistentVolume, claim: &str, uid: &str) -> PersistentVolume {
    let claim_ref = ClaimRef { namespace: "default".into(), name: claim.into(), uid: uid.into() };
    PersistentVolume { claim_ref: Some(claim_ref), ..volume }
}

fn rejects(state: &mut State, spec: PodSpec, uid: &str, expected: &str) {
    let class = Class { uid: uid.into(), ..class(spec) };
    assert_eq!(verdicts(build(None), class, state), [expected]);
}

#[test]
fn unusable_claims_reject_the_pod() {
    let ephemeral = |claim: &str| PodSpec {
        volumes: [Volume::Ephemeral { claim: claim.into() }].into(),
        ..PodSpec::default()
    };
    let mut state = with_volumes(state([node("n")], [pod("p")]), |volumes| {
        let lost = PersistentVolumeClaim { phase: ClaimPhase::Lost, ..bound("lost", "v") };
        let dying = PersistentVolumeClaim { deleting: true, ..bound("dying", "v") };
        let half = PersistentVolumeClaim { bind_completed: false, ..bound("half", "v") };
        let prebound =
            PersistentVolumeClaim { volume_name: "v".into(), ..claim("prebound", "late", 1) };
        for claim in [lost, dying, half, prebound, bound("p-v", "v"), bound("ok", "v")] {
            add_claim(volumes, claim);
        }
        add_claim(volumes, claim("now", "immediate", 1));
        add_claim(volumes, claim("no-class", "missing", 1));
        add_claim(volumes, claim("no-mode", "modeless", 1));
        add_volume(volumes, volume("v", "", 1));
        add_class(volumes, delayed("late", "p"));
        let mode = |name: &str, binding_mode| StorageClass { binding_mode, ..delayed(name, "p") };
        add_class(volumes, mode("immediate", Some(BindingMode::Immediate)));
        add_class(volumes, mode("modeless", None));
    });
    let immediate = "pod has unbound immediate PersistentVolumeClaims";
    for (claims, expected) in [
        (&["x"][..], "persistentvolumeclaim \"x\" not found"),
        (&[""], "persistentvolumeclaim \"\" not found"),
        (&["now", "x"], "persistentvolumeclaim \"x\" not found"),
        (&["lost"], "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"v\""),
        (&["dying"], "persistentvolumeclaim \"dying\" is being deleted"),
        (&["half"], immediate),
        (&["prebound"], immediate),
        (&["now"], immediate),
        (&["no-class"], immediate),
    ] {
        let expected = format!("UnschedulableAndUnresolvable: {expected}");
        rejects(&mut state, spec(claims), "", &expected);
    }
    let modeless = "Error: VolumeBindingMode not set for StorageClass \"modeless\"";
    rejects(&mut state, spec(&["now", "no-mode"]), "", modeless);
    let waiting = "UnschedulableAndUnresolvable: waiting for ephemeral volume controller \
                   to create the persistentvolumeclaim \"p-x\"";
    rejects(&mut state, ephemeral("p-x"), "uid-default-p", waiting);
    let foreign = "UnschedulableAndUnresolvable: \
                   PVC default/p-v was not created for pod default/p (pod is not owner)";
    rejects(&mut state, ephemeral("p-v"), "uid-default-p", foreign);
    assert_eq!(check(&mut state, &["ok"]), ["n: ok"]);
}

#[test]
fn pods_without_claims_are_skipped() {
    let mut state = state([node("n")], []);
    let prepared =
        build(None).prepare_filter(&class(PodSpec::default()), &mut Preparation::new(&mut state));
    assert!(matches!(prepared, PreFilterResult::Skip));
}

#[test]
fn node_affinity_of_bound_volumes_must_match() {
    let field_only = NodeTerm {
        expressions: Box::default(),
        fields: term("metadata.name", &["x"]).expressions,
        malformed: false,
    };
    let empty = NodeTerm { fields: Box::default(), ..field_only.clone() };
    let malformed = NodeTerm { malformed: true, ..term("zone", &["a"]) };
    let not_b =
        Requirement { key: "zone".into(), operator: Operator::NotIn, values: ["b".into()].into() };
    let not_b = NodeTerm { expressions: [not_b].into(), ..empty.clone() };
    let tables: [(Option<Vec<NodeTerm>>, [String; 2]); 8] = [
        (None, both("ok")),
        (Some(vec![]), both(AFFINITY)),
        (Some(vec![term("zone", &["a"])]), only_a(AFFINITY)),
        (Some(vec![term("zone", &["a"]), term("zone", &["b"])]), both("ok")),
        (Some(vec![term("zone", &["c"]), not_b]), only_a(AFFINITY)),
        (Some(vec![field_only]), both("ok")),
        (Some(vec![empty]), both(AFFINITY)),
        (Some(vec![malformed]), both(AFFINITY)),
    ];
    for (terms, expected) in tables {
        let mut state = cluster(|volumes| {
            add_claim(volumes, bound("c", "v"));
            let node_affinity = terms.map(Vec::into_boxed_slice);
            add_volume(volumes, PersistentVolume { node_affinity, ..csi_volume("v", "d") });
        });
        assert_eq!(check(&mut state, &["c"]), expected);
    }
}

#[test]
fn the_first_bound_claim_that_rejects_gives_the_reason() {
    let mut state = cluster(|volumes| {
        add_claim(volumes, bound("local-a", "v"));
        add_claim(volumes, bound("gone", "missing"));
        add_volume(volumes, in_zones(csi_volume("v", "d"), &["a"]));
    });
    let gone_on_a = format!("a: UnschedulableAndUnresolvable {VOLUME_MISSING}");
    let expected = |b: &str| [gone_on_a.clone(), format!("b: UnschedulableAndUnresolvable {b}")];
    assert_eq!(check(&mut state, &["local-a", "gone"]), expected(AFFINITY));
    assert_eq!(check(&mut state, &["gone", "local-a"]), expected(VOLUME_MISSING));
}

#[test]
fn in_tree_volumes_are_translated_where_the_plugin_is_migrated() {
    let migrated = |volumes: &mut Volumes, name: &str, plugins: &[&str]| {
        let migrated_plugins = plugins.iter().map(|plugin| (*plugin).into()).collect();
        let csi_node = CsiNode { name: name.into(), migrated_plugins, ..CsiNode::default() };
        volumes.csi_nodes.insert(csi_node);
    };
    let driver_zone = "topology.ebs.csi.aws.com/zone";
    let nodes = || {
        let zone = "topology.kubernetes.io/zone";
        let zoned =
            |name: &str, pairs: &[(&str, &str)]| Node { labels: labels(pairs), ..node(name) };
        [
            zoned("plain", &[(zone, "z")]),
            zoned("migrated", &[(zone, "z")]),
            zoned("driver", &[(driver_zone, "z")]),
        ]
    };
    let check_id = |id: &str| {
        let source = VolumeSource::AwsElasticBlockStore { id: id.into() };
        let node_affinity = Some([term("topology.kubernetes.io/zone", &["z"])].into());
        let mut state = with_volumes(state(nodes(), []), |volumes| {
            add_claim(volumes, bound("c", "v"));
            add_volume(volumes, PersistentVolume { source, node_affinity, ..volume("v", "", 1) });
            migrated(volumes, "plain", &["kubernetes.io/gce-pd"]);
            migrated(volumes, "migrated", &["kubernetes.io/aws-ebs"]);
            migrated(volumes, "driver", &["kubernetes.io/aws-ebs"]);
        });
        check(&mut state, &["c"])
    };
    let rejected = format!("migrated: UnschedulableAndUnresolvable {AFFINITY}");
    assert_eq!(check_id("vol-1"), ["plain: ok", "driver: ok", &rejected]);
    let broken = "Error running \"VolumeBinding\" filter plugin: could not translate pv: failed to translate Kubernetes ID to EBS \
                  Volume ID Invalid format for AWS volume (aws://z/x)";
    assert_eq!(
        check_id("aws://z/x"),
        ["plain: ok", &format!("driver: {broken}"), &format!("migrated: {broken}")]
    );
}

/// Returns a cluster with a class without provisioner, some volumes, and a claim `c` for 5 bytes.
fn static_cluster(volumes: impl IntoIterator<Item = PersistentVolume>) -> State {
    static_cluster_for(claim("c", "static", 5), volumes)
}

fn static_cluster_for(
    wanted: PersistentVolumeClaim,
    offered: impl IntoIterator<Item = PersistentVolume>,
) -> State {
    cluster(|volumes| {
        add_class(volumes, delayed("static", "kubernetes.io/no-provisioner"));
        add_claim(volumes, wanted);
        offered.into_iter().for_each(|volume| add_volume(volumes, volume));
    })
}

#[test]
fn existing_volumes_are_matched() {
    let v = |capacity| volume("v", "static", capacity);
    for (offered, expected) in [
        (v(5), both("ok")),
        (v(4), both(BIND_CONFLICT)),
        (volume("v", "other", 5), both(BIND_CONFLICT)),
        (in_zones(v(5), &["a"]), only_a(BIND_CONFLICT)),
        (PersistentVolume { phase: VolumePhase::Pending, ..v(5) }, both(BIND_CONFLICT)),
        (PersistentVolume { phase: VolumePhase::Released, ..v(5) }, both(BIND_CONFLICT)),
        (PersistentVolume { deleting: true, ..v(5) }, both(BIND_CONFLICT)),
        (PersistentVolume { volume_mode: VolumeMode::Block, ..v(5) }, both(BIND_CONFLICT)),
        (PersistentVolume { attributes_class: "gold".into(), ..v(5) }, both(BIND_CONFLICT)),
        (owned_by(v(5), "other", ""), both(BIND_CONFLICT)),
        (owned_by(v(5), "c", "another"), both(BIND_CONFLICT)),
        (owned_by(v(5), "c", "uid-c"), both("ok")),
        // A volume whose claimRef names the claim must meet fewer conditions.
        (owned_by(PersistentVolume { phase: VolumePhase::Pending, ..v(5) }, "c", ""), both("ok")),
        (owned_by(PersistentVolume { deleting: true, ..v(5) }, "c", ""), both(BIND_CONFLICT)),
        (owned_by(v(4), "c", ""), both(BIND_CONFLICT)),
    ] {
        let shown = format!("{offered:?}");
        assert_eq!(check(&mut static_cluster([offered]), &["c"]), expected, "{shown}");
    }
}

#[test]
fn selector_and_access_modes_are_matched() {
    let requirement =
        Requirement { key: "k".into(), operator: Operator::Exists, values: Box::default() };
    let picky = PersistentVolumeClaim {
        selector: Some(Selector { requirements: [requirement].into() }),
        access_modes: AccessModes::READ_WRITE_MANY,
        ..claim("c", "static", 5)
    };
    let v = |pairs: &[(&str, &str)], access_modes| PersistentVolume {
        labels: labels(pairs),
        access_modes,
        ..volume("v", "static", 5)
    };
    let modes = AccessModes::READ_WRITE_MANY.with(AccessModes::READ_WRITE_ONCE);
    for (offered, expected) in [
        (v(&[("k", "")], modes), both("ok")),
        (v(&[], modes), both(BIND_CONFLICT)),
        (v(&[("k", "")], AccessModes::READ_WRITE_ONCE), both(BIND_CONFLICT)),
        (owned_by(v(&[], AccessModes::NONE), "c", ""), both("ok")),
    ] {
        let mut state = static_cluster_for(picky.clone(), [offered]);
        assert_eq!(check(&mut state, &["c"]), expected);
    }
}

#[test]
fn a_volume_that_names_the_claim_excludes_others() {
    let mut state = static_cluster([
        volume("free", "static", 5),
        owned_by(in_zones(volume("mine", "static", 9), &["a"]), "c", ""),
    ]);
    assert_eq!(check(&mut state, &["c"]), only_a(BIND_CONFLICT));
}

#[test]
fn no_volume_is_chosen_twice() {
    let offered = || [volume("v", "static", 9), in_zones(volume("w", "static", 5), &["a"])];
    let mut state = with_volumes(static_cluster(offered()), |volumes| {
        add_claim(volumes, claim("big", "static", 9));
    });
    assert_eq!(
        check(&mut state, &["big", "c"]),
        only_a(BIND_CONFLICT),
        "smaller claims come first"
    );
    assert_eq!(check(&mut state, &["c", "c", "big"]), both(BIND_CONFLICT));
}

#[test]
fn volumes_are_provisioned_where_the_class_allows_it() {
    let state_with = |class: StorageClass, change: fn(&mut Volumes)| {
        cluster(|volumes| {
            add_class(volumes, class);
            add_claim(volumes, claim("c", "made", 5));
            change(volumes);
        })
    };
    let made = |provisioner: &str| delayed("made", provisioner);
    let check_class = |class: StorageClass, change: fn(&mut Volumes)| {
        check(&mut state_with(class, change), &["c"])
    };
    assert_eq!(check_class(made("d"), |_| {}), both("ok"));
    assert_eq!(check_class(made(""), |_| {}), both(BIND_CONFLICT));
    assert_eq!(check_class(made("kubernetes.io/no-provisioner"), |_| {}), both(BIND_CONFLICT));
    let in_zone =
        |zone| StorageClass { allowed_topologies: [term("zone", &[zone])].into(), ..made("d") };
    assert_eq!(check_class(in_zone("a"), |_| {}), only_a(BIND_CONFLICT));
    assert_eq!(check_class(in_zone("c"), |_| {}), both(BIND_CONFLICT));
    let on_a = |volumes: &mut Volumes| {
        add_claim(
            volumes,
            PersistentVolumeClaim { selected_node: Some("a".into()), ..claim("c", "made", 5) },
        );
        add_volume(volumes, volume("v", "made", 9));
    };
    assert_eq!(check_class(made("d"), on_a), only_a(BIND_CONFLICT));
    assert_eq!(
        check_class(made(""), on_a),
        both(BIND_CONFLICT),
        "existing volumes are not considered"
    );
    let nowhere = |volumes: &mut Volumes| {
        add_claim(
            volumes,
            PersistentVolumeClaim { selected_node: Some("x".into()), ..claim("c", "made", 5) },
        );
    };
    assert_eq!(check_class(made("d"), nowhere), both(BIND_CONFLICT));
}

#[test]
fn enough_free_storage_is_required() {
    fn in_zone(zone: &str) -> Selector {
        let requirement = Requirement {
            key: "zone".into(),
            operator: Operator::In,
            values: [zone.into()].into(),
        };
        Selector { requirements: [requirement].into() }
    }
    let capacity = |node_topology, capacity, maximum_volume_size| CsiStorageCapacity {
        name: "left".into(),
        storage_class: "made".into(),
        node_topology,
        capacity,
        maximum_volume_size,
        ..CsiStorageCapacity::default()
    };
    let everywhere = || Some(Selector::default());
    let check_with = |capacities: Vec<CsiStorageCapacity>,
                      wanted: PersistentVolumeClaim,
                      counts| {
        let mut state = cluster(|volumes| {
            add_class(volumes, delayed("made", "d"));
            add_claim(volumes, wanted);
            let driver =
                CsiDriver { name: "d".into(), storage_capacity: counts, ..CsiDriver::default() };
            volumes.drivers.insert(driver);
            for (index, capacity) in capacities.into_iter().enumerate() {
                let name = format!("c{index}").into();
                volumes.capacities.insert(CsiStorageCapacity { name, ..capacity });
            }
        });
        check(&mut state, &["c"])
    };
    let wanted = || claim("c", "made", 5);
    for (capacities, expected) in [
        (vec![], both(NOT_ENOUGH_SPACE)),
        (vec![capacity(everywhere(), Some(5), None)], both("ok")),
        (vec![capacity(everywhere(), Some(4), None)], both(NOT_ENOUGH_SPACE)),
        (vec![capacity(everywhere(), Some(9), Some(4))], both(NOT_ENOUGH_SPACE)),
        (vec![capacity(everywhere(), Some(4), Some(5))], both("ok")),
        (vec![capacity(everywhere(), None, None)], both(NOT_ENOUGH_SPACE)),
        (vec![capacity(None, Some(5), None)], both(NOT_ENOUGH_SPACE)),
        (vec![capacity(Some(in_zone("a")), Some(5), None)], only_a(NOT_ENOUGH_SPACE)),
        (
            vec![
                capacity(Some(in_zone("b")), Some(4), None),
                capacity(Some(in_zone("a")), Some(5), None),
            ],
            only_a(NOT_ENOUGH_SPACE),
        ),
        (
            vec![CsiStorageCapacity {
                storage_class: "x".into(),
                ..capacity(everywhere(), Some(5), None)
            }],
            both(NOT_ENOUGH_SPACE),
        ),
    ] {
        assert_eq!(check_with(capacities.clone(), wanted(), true), expected, "{capacities:?}");
    }
    assert_eq!(check_with(vec![], wanted(), false), both("ok"));
    let any_size = PersistentVolumeClaim { request: None, ..wanted() };
    assert_eq!(check_with(vec![], any_size, true), both("ok"));
}

#[test]
fn reasons_of_bound_and_unbound_claims_are_combined() {
    let mut state = static_cluster([in_zones(volume("local-a", "", 5), &["a"])]);
    state = with_volumes(state, |volumes| add_claim(volumes, bound("bound", "local-a")));
    let reasons = [
        format!("a: UnschedulableAndUnresolvable {BIND_CONFLICT}"),
        format!("b: UnschedulableAndUnresolvable {AFFINITY}, {BIND_CONFLICT}"),
    ];
    assert_eq!(check(&mut state, &["c", "bound"]), reasons);
}

#[test]
fn the_timeout_comes_from_the_configuration() {
    assert_eq!(build(None).pre_bind_timeout(), 600_000_000_000);
    let args = api::config::args::VolumeBindingArgs { bind_timeout_seconds: 7, shape: Vec::new() };
    let plugin = build(Some(&PluginArgs::VolumeBinding(args)));
    assert_eq!(plugin.pre_bind_timeout(), 7_000_000_000);
}

#[test]
fn storage_events_that_may_help_wake_the_pod() {
    let (plugin, state) = (build(None), state([], []));
    let with_claim = class(spec(&["c"]));
    let inline = Volume::Inline(InlineDisk::Csi { driver: "d".into() });
    let with_inline = class(PodSpec { volumes: [inline].into(), ..PodSpec::default() });
    let hint = |event: &Event| plugin.hint(&state, &with_claim, event);
    assert!(hint(&claim_added(&claim("c", "", 1))));
    assert!(!hint(&claim_added(&claim("d", "", 1))));
    let old = delayed("s", "p");
    let new = StorageClass { allowed_topologies: [term("zone", &["a"])].into(), ..old.clone() };
    for (old, new, expected) in
        [(None, &old, true), (Some(&old), &new, true), (Some(&new), &new, false)]
    {
        let object = Object::StorageClass { old, new: Some(new) };
        assert_eq!(hint(&event(Resource::StorageClass, Action::UPDATE, object)), expected);
    }
    let old = CsiNode::default();
    let new = CsiNode { migrated_plugins: ["p".into()].into(), ..CsiNode::default() };
    for (old, new, expected) in
        [(None, &old, true), (Some(&old), &new, true), (Some(&new), &new, false)]
    {
        let object = Object::CsiNode { old, new: Some(new) };
        assert_eq!(hint(&event(Resource::CsiNode, Action::UPDATE, object)), expected);
    }
    let limit = |capacity, maximum_volume_size| CsiStorageCapacity {
        capacity,
        maximum_volume_size,
        ..CsiStorageCapacity::default()
    };
    for (old, new, expected) in [
        (limit(Some(1), None), limit(Some(2), None), true),
        (limit(Some(2), None), limit(Some(1), None), false),
        (limit(None, None), limit(Some(1), None), true),
        (limit(Some(1), None), limit(None, None), false),
        (limit(Some(9), Some(1)), limit(Some(9), None), true),
        (limit(Some(1), Some(5)), limit(Some(9), Some(5)), false),
    ] {
        let object = Object::CsiStorageCapacity { old: Some(&old), new: Some(&new) };
        assert_eq!(hint(&event(Resource::CsiStorageCapacity, Action::UPDATE, object)), expected);
    }
    let counting = CsiDriver { name: "d".into(), storage_capacity: true, ..CsiDriver::default() };
    let silent = CsiDriver { storage_capacity: false, ..counting.clone() };
    let other = CsiDriver { name: "x".into(), ..silent.clone() };
    for (class, old, new, expected) in [
        (&with_claim, &counting, &silent, true),
        (&with_inline, &counting, &silent, true),
        (&with_inline, &counting, &other, false),
        (&with_claim, &silent, &counting, false),
        (&with_claim, &counting, &counting, false),
    ] {
        let object = Object::CsiDriver { old: Some(old), new: Some(new) };
        let event = event(Resource::CsiDriver, Action::UPDATE, object);
        assert_eq!(plugin.hint(&state, class, &event), expected);
    }
}
