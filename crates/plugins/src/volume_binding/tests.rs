//! Tests of VolumeBinding.

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
const NOTHING: &str = "node(s) didn't find available persistent volumes to bind";
const STORAGE: &str = "node(s) did not have enough free storage";
const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// Nodes `a` and `b`, in zones of the same is_reserved_for.
fn cluster(change: impl FnOnce(&mut Volumes)) -> State {
    let zoned = |name: &str| Node { labels: labels(&[("zone", name)]), ..node(name) };
    with_volumes(state([zoned("a"), zoned("b")], []), change)
}

fn judge(state: &mut State, claims: &[&str]) -> Vec<String> {
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

fn within(volume: PersistentVolume, zones: &[&str]) -> PersistentVolume {
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
fn claims_that_will_not_do_are_told() {
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
    assert_eq!(judge(&mut state, &["ok"]), ["n: ok"]);
}

#[test]
fn pods_without_claims_are_skipped() {
    let mut state = state([node("n")], []);
    let prepared =
        build(None).prepare_filter(&class(PodSpec::default()), &mut Preparation::new(&mut state));
    assert!(matches!(prepared, PreFilterResult::Skip));
}

#[test]
fn bound_volumes_must_be_within_reach() {
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
        assert_eq!(judge(&mut state, &["c"]), expected);
    }
}

#[test]
fn the_first_bound_claim_in_the_way_decides() {
    let mut state = cluster(|volumes| {
        add_claim(volumes, bound("local-a", "v"));
        add_claim(volumes, bound("gone", "missing"));
        add_volume(volumes, within(csi_volume("v", "d"), &["a"]));
    });
    let gone_on_a = format!("a: UnschedulableAndUnresolvable {GONE}");
    let expected = |b: &str| [gone_on_a.clone(), format!("b: UnschedulableAndUnresolvable {b}")];
    assert_eq!(judge(&mut state, &["local-a", "gone"]), expected(AFFINITY));
    assert_eq!(judge(&mut state, &["gone", "local-a"]), expected(GONE));
}

#[test]
fn in_tree_volumes_are_translated_where_the_plugin_is_migrated() {
    let migrated = |volumes: &mut Volumes, name: &str, plugins: &[&str]| {
        let migrated_plugins = plugins.iter().map(|plugin| (*plugin).into()).collect();
        let csi_node = CsiNode { name: name.into(), migrated_plugins, ..CsiNode::default() };
        volumes.csi_nodes.insert(name.into(), csi_node);
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
    let judge_id = |id: &str| {
        let source = VolumeSource::AwsElasticBlockStore { id: id.into() };
        let node_affinity = Some([term("topology.kubernetes.io/zone", &["z"])].into());
        let mut state = with_volumes(state(nodes(), []), |volumes| {
            add_claim(volumes, bound("c", "v"));
            add_volume(volumes, PersistentVolume { source, node_affinity, ..volume("v", "", 1) });
            migrated(volumes, "plain", &["kubernetes.io/gce-pd"]);
            migrated(volumes, "migrated", &["kubernetes.io/aws-ebs"]);
            migrated(volumes, "driver", &["kubernetes.io/aws-ebs"]);
        });
        judge(&mut state, &["c"])
    };
    let out_of_reach = format!("migrated: UnschedulableAndUnresolvable {AFFINITY}");
    assert_eq!(judge_id("vol-1"), ["plain: ok", "driver: ok", &out_of_reach]);
    let broken = "Error running \"VolumeBinding\" filter plugin: could not translate pv: failed to translate Kubernetes ID to EBS \
                  Volume ID Invalid format for AWS volume (aws://z/x)";
    assert_eq!(
        judge_id("aws://z/x"),
        ["plain: ok", &format!("driver: {broken}"), &format!("migrated: {broken}")]
    );
}

/// A cluster with a class whose volumes people make, some volumes, and a claim `c` for 5 bytes.
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
        (v(4), both(NOTHING)),
        (volume("v", "other", 5), both(NOTHING)),
        (within(v(5), &["a"]), only_a(NOTHING)),
        (PersistentVolume { phase: VolumePhase::Pending, ..v(5) }, both(NOTHING)),
        (PersistentVolume { phase: VolumePhase::Released, ..v(5) }, both(NOTHING)),
        (PersistentVolume { deleting: true, ..v(5) }, both(NOTHING)),
        (PersistentVolume { volume_mode: VolumeMode::Block, ..v(5) }, both(NOTHING)),
        (PersistentVolume { attributes_class: "gold".into(), ..v(5) }, both(NOTHING)),
        (owned_by(v(5), "other", ""), both(NOTHING)),
        (owned_by(v(5), "c", "another"), both(NOTHING)),
        (owned_by(v(5), "c", "uid-c"), both("ok")),
        // A volume that is_reserved_for the claim needs less.
        (owned_by(PersistentVolume { phase: VolumePhase::Pending, ..v(5) }, "c", ""), both("ok")),
        (owned_by(PersistentVolume { deleting: true, ..v(5) }, "c", ""), both(NOTHING)),
        (owned_by(v(4), "c", ""), both(NOTHING)),
    ] {
        let shown = format!("{offered:?}");
        assert_eq!(judge(&mut static_cluster([offered]), &["c"]), expected, "{shown}");
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
        (v(&[], modes), both(NOTHING)),
        (v(&[("k", "")], AccessModes::READ_WRITE_ONCE), both(NOTHING)),
        (owned_by(v(&[], AccessModes::NONE), "c", ""), both("ok")),
    ] {
        let mut state = static_cluster_for(picky.clone(), [offered]);
        assert_eq!(judge(&mut state, &["c"]), expected);
    }
}

#[test]
fn a_volume_that_names_the_claim_excludes_others() {
    let mut state = static_cluster([
        volume("free", "static", 5),
        owned_by(within(volume("mine", "static", 9), &["a"]), "c", ""),
    ]);
    assert_eq!(judge(&mut state, &["c"]), only_a(NOTHING));
}

#[test]
fn no_volume_is_taken_twice() {
    let offered = || [volume("v", "static", 9), within(volume("w", "static", 5), &["a"])];
    let mut state = with_volumes(static_cluster(offered()), |volumes| {
        add_claim(volumes, claim("big", "static", 9));
    });
    assert_eq!(judge(&mut state, &["big", "c"]), only_a(NOTHING), "smaller claims come first");
    assert_eq!(judge(&mut state, &["c", "c", "big"]), both(NOTHING));
}

#[test]
fn volumes_are_made_where_the_class_allows_it() {
    let state_with = |class: StorageClass, change: fn(&mut Volumes)| {
        cluster(|volumes| {
            add_class(volumes, class);
            add_claim(volumes, claim("c", "made", 5));
            change(volumes);
        })
    };
    let made = |provisioner: &str| delayed("made", provisioner);
    let judge_class = |class: StorageClass, change: fn(&mut Volumes)| {
        judge(&mut state_with(class, change), &["c"])
    };
    assert_eq!(judge_class(made("d"), |_| {}), both("ok"));
    assert_eq!(judge_class(made(""), |_| {}), both(NOTHING));
    assert_eq!(judge_class(made("kubernetes.io/no-provisioner"), |_| {}), both(NOTHING));
    let in_zone =
        |zone| StorageClass { allowed_topologies: [term("zone", &[zone])].into(), ..made("d") };
    assert_eq!(judge_class(in_zone("a"), |_| {}), only_a(NOTHING));
    assert_eq!(judge_class(in_zone("c"), |_| {}), both(NOTHING));
    let on_a = |volumes: &mut Volumes| {
        add_claim(
            volumes,
            PersistentVolumeClaim { selected_node: Some("a".into()), ..claim("c", "made", 5) },
        );
        add_volume(volumes, volume("v", "made", 9));
    };
    assert_eq!(judge_class(made("d"), on_a), only_a(NOTHING));
    assert_eq!(judge_class(made(""), on_a), both(NOTHING), "an existing volume is no choice then");
    let nowhere = |volumes: &mut Volumes| {
        add_claim(
            volumes,
            PersistentVolumeClaim { selected_node: Some("x".into()), ..claim("c", "made", 5) },
        );
    };
    assert_eq!(judge_class(made("d"), nowhere), both(NOTHING));
}

#[test]
fn enough_storage_must_be_left() {
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
    let judge_with = |capacities: Vec<CsiStorageCapacity>,
                      wanted: PersistentVolumeClaim,
                      counts| {
        let mut state = cluster(|volumes| {
            add_class(volumes, delayed("made", "d"));
            add_claim(volumes, wanted);
            let driver =
                CsiDriver { name: "d".into(), storage_capacity: counts, ..CsiDriver::default() };
            volumes.drivers.insert("d".into(), driver);
            for (index, capacity) in capacities.into_iter().enumerate() {
                volumes.capacities.insert(("ns".into(), format!("c{index}").into()), capacity);
            }
        });
        judge(&mut state, &["c"])
    };
    let wanted = || claim("c", "made", 5);
    for (capacities, expected) in [
        (vec![], both(STORAGE)),
        (vec![capacity(everywhere(), Some(5), None)], both("ok")),
        (vec![capacity(everywhere(), Some(4), None)], both(STORAGE)),
        (vec![capacity(everywhere(), Some(9), Some(4))], both(STORAGE)),
        (vec![capacity(everywhere(), Some(4), Some(5))], both("ok")),
        (vec![capacity(everywhere(), None, None)], both(STORAGE)),
        (vec![capacity(None, Some(5), None)], both(STORAGE)),
        (vec![capacity(Some(in_zone("a")), Some(5), None)], only_a(STORAGE)),
        (
            vec![
                capacity(Some(in_zone("b")), Some(4), None),
                capacity(Some(in_zone("a")), Some(5), None),
            ],
            only_a(STORAGE),
        ),
        (
            vec![CsiStorageCapacity {
                storage_class: "x".into(),
                ..capacity(everywhere(), Some(5), None)
            }],
            both(STORAGE),
        ),
    ] {
        assert_eq!(judge_with(capacities.clone(), wanted(), true), expected, "{capacities:?}");
    }
    assert_eq!(judge_with(vec![], wanted(), false), both("ok"));
    let any_size = PersistentVolumeClaim { request: None, ..wanted() };
    assert_eq!(judge_with(vec![], any_size, true), both("ok"));
}

#[test]
fn reasons_of_bound_and_unbound_claims_come_together() {
    let mut state = static_cluster([within(volume("local-a", "", 5), &["a"])]);
    state = with_volumes(state, |volumes| add_claim(volumes, bound("bound", "local-a")));
    let reasons = [
        format!("a: UnschedulableAndUnresolvable {NOTHING}"),
        format!("b: UnschedulableAndUnresolvable {AFFINITY}, {NOTHING}"),
    ];
    assert_eq!(judge(&mut state, &["c", "bound"]), reasons);
}

fn reserve(state: &mut State, name: &str, node: &str) -> Vec<VolumeRequest> {
    let plugin = build(None);
    let pod = state.find_pod("default", name).unwrap();
    let node = state.nodes.find(node).unwrap();
    plugin.reserve(&mut Reservation { state, pod, node }).unwrap();
    plugin.pre_bind(state, pod, node)
}

fn unreserve(state: &mut State, name: &str, node: &str) {
    let pod = state.find_pod("default", name).unwrap();
    let node = state.nodes.find(node).unwrap();
    build(None).unreserve(&mut Reservation { state, pod, node });
    assert!(build(None).pre_bind(state, pod, node).is_empty());
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

/// Pods `p` (claims `c`, `d`, and `b`, which is bound) and `q` (claim `e`), both pending.
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
        add_volume(volumes, within(volume("local", "static", 4), &["a"]));
    })
}

#[test]
fn reserving_tells_what_to_write() {
    let mut state = reservable();
    let local = [bind("local", "d"), provision("c", "a")];
    assert_eq!(reserve(&mut state, "p", "a"), local);
    unreserve(&mut state, "p", "a");
    assert_eq!(reserve(&mut state, "p", "b"), [bind("large", "d"), provision("c", "b")]);
}

#[test]
fn what_is_reserved_is_taken() {
    let mut state = reservable();
    assert_eq!(reserve(&mut state, "p", "b").len(), 2);
    assert_eq!(judge(&mut state, &["e"]), only_a(NOTHING), "large is taken");
    let for_b = [format!("a: UnschedulableAndUnresolvable {NOTHING}"), "b: ok".to_owned()];
    assert_eq!(judge(&mut state, &["c"]), for_b, "its volume is made for b");
    assert_eq!(judge(&mut state, &["d"]), both("ok"), "large is its own");
    assert_eq!(reserve(&mut state, "q", "a"), [bind("local", "e")]);
    unreserve(&mut state, "q", "a");
    unreserve(&mut state, "p", "b");
    assert_eq!(judge(&mut state, &["e"]), both("ok"));
    assert_eq!(judge(&mut state, &["c"]), both("ok"));
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
    assert_eq!(judge(&mut state, &["e"]), both("ok"));
    let pod = state.find_pod("default", "p").unwrap();
    assert!(
        state.volumes.reserved(&"uid-default-p".into()).is_some(),
        "the work is still to be done"
    );
    let state = with_volumes(state, |volumes| {
        add_claim(volumes, bound("c", "made-for-c"));
        add_claim(volumes, bound("d", "large"));
    });
    assert!(state.volumes.reserved(&"uid-default-p".into()).is_none());
    assert!(build(None).pre_bind(&state, pod, state.nodes.find("b").unwrap()).is_empty());
}

#[test]
fn bound_claims_need_no_work() {
    let user = Pod { spec: spec(&["b"]).into(), ..pod("p") };
    let mut state = with_volumes(state([node("n")], [user, pod("q")]), |volumes| {
        add_claim(volumes, bound("b", "v"));
        add_volume(volumes, volume("v", "", 1));
    });
    assert!(reserve(&mut state, "p", "n").is_empty());
    assert!(reserve(&mut state, "q", "n").is_empty());
    unreserve(&mut state, "q", "n");
}

#[test]
fn the_timeout_comes_from_the_configuration() {
    assert_eq!(build(None).pre_bind_timeout(), 600_000_000_000);
    let args = api::config::args::VolumeBindingArgs { bind_timeout_seconds: 7, shape: Vec::new() };
    let plugin = build(Some(&PluginArgs::VolumeBinding(args)));
    assert_eq!(plugin.pre_bind_timeout(), 7_000_000_000);
}

#[test]
fn hints() {
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
