//! VolumeRestrictions: rejects nodes with conflicting disks, and pods whose ReadWriteOncePod claims are in
//! use.

use std::sync::Arc;

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, PodView, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{AccessModes, InlineDisk, PodSpec, Text, Volume};
use engine::state::{Areas, State};

use crate::volume_claims::{event_concerns, named_claims, not_found};

pub(crate) const NAME: &str = "VolumeRestrictions";
pub(crate) const POINTS: &[Point] = &[Point::PreFilter, Point::Filter];
pub(crate) const DOC: &str =
    "Rejects nodes with conflicting disks, and pods whose ReadWriteOncePod claims are in use.";

const DISK_CONFLICT: NodeVerdict = NodeVerdict(1);
const CLAIM_CONFLICT: NodeVerdict = NodeVerdict(2);

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(VolumeRestrictions)
}

struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("cannot read \"PreFilterVolumeRestrictions\" from cycleState")
    }

    fn evaluation_key(&self, class: &Class, _state: &State) -> KeyPart {
        KeyPart::nothing_if(!class.spec.has_claims())
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        let spec = &class.spec;
        if spec.volumes.is_empty() {
            return PreFilterResult::Skip;
        }
        let exclusive = match exclusive_claims(class, preparation) {
            Ok(exclusive) => exclusive,
            Err(reason) => return PreFilterResult::Reject(Rejection::unresolvable(reason)),
        };
        let state = &*preparation.state;
        let in_use = |name: &&Text| is_in_use(state, &class.namespace, name);
        let conflicts = exclusive.iter().filter(in_use).count() as i64;
        let has_disks = disks(spec).next().is_some();
        if !has_disks && conflicts == 0 {
            return PreFilterResult::Skip;
        }
        let spec = Arc::clone(spec);
        PreFilterResult::Filter(Box::new(RestrictionsFilter {
            spec,
            has_disks,
            exclusive,
            conflicts,
        }))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription { resource: Resource::Pod, action: Action::DELETE },
            Subscription { resource: Resource::Node, action: Action::ADD.with(Action::DELETE) },
            Subscription { resource: Resource::PersistentVolumeClaim, action: Action::ADD },
        ]
    }

    /// Wider than upstream's hint, which misses the pods of deleted nodes.
    fn hint(&self, state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::Pod { old: Some(deleted), .. } => frees_volumes(class, deleted),
            Object::Node { old: Some(gone), new: None } => {
                let Some(node) = state.nodes.find(&gone.name) else { return true };
                let mut pods = state.nodes.pods(node).iter();
                pods.any(|pod| frees_volumes(class, PodView::of(state, *pod)))
            }
            Object::PersistentVolumeClaim { .. } => event_concerns(class, event),
            _ => true,
        }
    }
}

/// Returns `true` if a deleted pod may have been in the way. Upstream misses the disks of pods in other
/// namespaces.
fn frees_volumes(class: &Class, gone: PodView) -> bool {
    let shares_claim =
        || named_claims(gone.spec).any(|name| named_claims(&class.spec).any(|n| n == name));
    disks_conflict(&class.spec, gone.spec) || *gone.namespace == *class.namespace && shares_claim()
}

/// Returns the names of the ReadWriteOncePod claims, each once, or the error about a missing claim.
fn exclusive_claims(class: &Class, preparation: &mut Preparation) -> Result<Vec<Text>, String> {
    let mut exclusive: Vec<Text> = Vec::new();
    for name in named_claims(&class.spec) {
        preparation.depends_on(Areas::VOLUMES);
        let claim = preparation.state.volumes.claim(&class.namespace, name);
        let claim = claim.ok_or_else(|| not_found(name))?;
        let is_exclusive = claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD);
        if is_exclusive && !exclusive.contains(&claim.name) {
            exclusive.push(claim.name.clone());
            preparation.depends_on(Areas::CLAIMS_IN_USE);
        }
    }
    Ok(exclusive)
}

/// Returns `true` if a pod on an existing node uses the claim.
fn is_in_use(state: &State, namespace: &str, claim: &str) -> bool {
    if state.volumes.claim_users(namespace, claim) == 0 {
        return false;
    }
    // The count includes pods on orphan slots, which upstream ignores.
    let uses = |pod: &PodIdx| {
        state.namespace(*pod) == namespace && named_claims(state.spec(*pod)).any(|n| n == claim)
    };
    let mut nodes = state.nodes.present().iter();
    nodes
        .any(|node| state.nodes.volumes(node).claims > 0 && state.nodes.pods(node).iter().any(uses))
}

/// Compares the disks of a node's pods, and counts the uses of the pod's exclusive claims.
struct RestrictionsFilter {
    spec: Arc<PodSpec>,
    has_disks: bool,
    /// The ReadWriteOncePod claims of the class.
    exclusive: Vec<Text>,
    /// Number of uses of these claims by other pods.
    conflicts: i64,
}

impl RestrictionsFilter {
    /// Returns the number of volumes of a pod with one of our claims. As upstream, namespaces are not
    /// compared.
    fn uses(&self, state: &State, pod: PodIdx) -> i64 {
        let is_ours = |name: &&str| self.exclusive.iter().any(|ours| **ours == **name);
        named_claims(state.spec(pod)).filter(is_ours).count() as i64
    }
}

impl Filter for RestrictionsFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let may_conflict = self.has_disks && state.nodes.volumes(node).others > 0;
        let conflicts = |pod: &PodIdx| disks_conflict(&self.spec, state.spec(*pod));
        if may_conflict && state.nodes.pods(node).iter().any(conflicts) {
            DISK_CONFLICT
        } else if self.conflicts > 0 {
            CLAIM_CONFLICT
        } else {
            NodeVerdict::PASS
        }
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        Rejection::unschedulable(if verdict == DISK_CONFLICT {
            "node(s) had no available disk"
        } else {
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
             already in-use by another pod"
        })
    }

    fn reads_pods(&self) -> bool {
        self.has_disks
    }

    fn add_pod(&mut self, state: &State, pod: PodIdx, _node: NodeIdx) {
        self.conflicts += self.uses(state, pod);
    }

    fn remove_pod(&mut self, state: &State, pod: PodIdx, _node: NodeIdx) {
        self.conflicts -= self.uses(state, pod);
    }
}

/// Returns the disks of a pod that can conflict with others.
fn disks(spec: &PodSpec) -> impl Iterator<Item = &InlineDisk> {
    spec.volumes.iter().filter_map(|volume| match volume {
        Volume::Inline(
            disk @ (InlineDisk::GcePersistentDisk { .. }
            | InlineDisk::AwsElasticBlockStore { .. }
            | InlineDisk::Rbd { .. }
            | InlineDisk::Iscsi { .. }),
        ) => Some(disk),
        _ => None,
    })
}

fn disks_conflict(one: &PodSpec, other: &PodSpec) -> bool {
    disks(one).any(|disk| disks(other).any(|other| conflict(disk, other)))
}

fn conflict(one: &InlineDisk, other: &InlineDisk) -> bool {
    use InlineDisk::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    match (one, other) {
        (
            GcePersistentDisk { name: a, read_only: a_reads },
            GcePersistentDisk { name: b, read_only: b_reads },
        )
        | (Iscsi { iqn: a, read_only: a_reads }, Iscsi { iqn: b, read_only: b_reads }) => {
            a == b && !(*a_reads && *b_reads)
        }
        (AwsElasticBlockStore { id: a, .. }, AwsElasticBlockStore { id: b, .. }) => a == b,
        (
            Rbd { monitors: a, pool: a_pool, image: a_image, read_only: a_reads },
            Rbd { monitors: b, pool: b_pool, image: b_image, read_only: b_reads },
        ) => {
            a_pool == b_pool
                && a_image == b_image
                && a.iter().any(|monitor| b.contains(monitor))
                && !(*a_reads && *b_reads)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_claims::testing::{
        add_claim, assert_incremental, bound, claim, claim_added, spec, user,
    };
    use engine::object::{PersistentVolumeClaim, Pod};
    use engine::testing::{
        class, displace, node, place, pod, pod_event, state, verdict_if, verdicts, with_volumes,
    };

    const DISK: &str = "Unschedulable node(s) had no available disk";
    const CLAIM: &str = "Unschedulable node(s) unavailable due to PersistentVolumeClaim with \
                         ReadWriteOncePod access mode already in-use by another pod";

    fn with_disk(disk: InlineDisk) -> PodSpec {
        PodSpec { volumes: [Volume::Inline(disk)].into(), ..PodSpec::default() }
    }

    fn gce(name: &str, read_only: bool) -> InlineDisk {
        InlineDisk::GcePersistentDisk { name: name.into(), read_only }
    }

    fn iscsi(iqn: &str, read_only: bool) -> InlineDisk {
        InlineDisk::Iscsi { iqn: iqn.into(), read_only }
    }

    fn aws(id: &str) -> InlineDisk {
        InlineDisk::AwsElasticBlockStore { id: id.into(), read_only: true }
    }

    fn rbd(monitors: &[&str], image: &str, read_only: bool) -> InlineDisk {
        let monitors = monitors.iter().map(|monitor| (*monitor).into()).collect();
        InlineDisk::Rbd { monitors, pool: "pool".into(), image: image.into(), read_only }
    }

    fn exclusive(name: &str) -> PersistentVolumeClaim {
        let access_modes = AccessModes::READ_WRITE_ONCE_POD;
        PersistentVolumeClaim { access_modes, ..bound(name, "v") }
    }

    #[test]
    fn disks_are_not_shared_for_writing() {
        for (ours, theirs, conflicts) in [
            (gce("d", false), gce("d", true), true),
            (gce("d", true), gce("d", true), false),
            (gce("d", false), gce("e", false), false),
            (aws("d"), aws("d"), true),
            (aws("d"), aws("e"), false),
            (aws("d"), gce("d", false), false),
            (iscsi("i", true), iscsi("i", false), true),
            (iscsi("i", true), iscsi("i", true), false),
            (rbd(&["a", "b"], "i", false), rbd(&["b", "c"], "i", true), true),
            (rbd(&["a", "b"], "i", true), rbd(&["b", "c"], "i", true), false),
            (rbd(&["a"], "i", false), rbd(&["b"], "i", false), false),
            (rbd(&["a"], "i", false), rbd(&["a"], "j", false), false),
        ] {
            let user = Pod { node: "taken".into(), spec: with_disk(theirs).into(), ..pod("user") };
            let mut state = state([node("taken"), node("free")], [user]);
            let class = class(with_disk(ours));
            let expected = if conflicts { DISK } else { "ok" };
            assert_eq!(
                verdicts(build(None), class.clone(), &mut state),
                [format!("taken: {expected}"), "free: ok".to_owned()]
            );
            assert_eq!(verdict_if(build(None), class, &mut state, "taken", &[], &["user"]), "ok");
        }
    }

    #[test]
    fn disk_conflicts_follow_the_pods_on_the_node() {
        let user = Pod { spec: with_disk(gce("d", false)).into(), ..pod("user") };
        let mut state = state([node("n")], [user]);
        let class = || class(with_disk(gce("d", false)));
        assert_eq!(verdicts(build(None), class(), &mut state), ["n: ok"]);
        assert_eq!(verdict_if(build(None), class(), &mut state, "n", &["user"], &[]), DISK);
        place(&mut state, "user", "n");
        assert_eq!(verdicts(build(None), class(), &mut state), [format!("n: {DISK}")]);
        displace(&mut state, "user");
        assert_eq!(verdicts(build(None), class(), &mut state), ["n: ok"]);
    }

    #[test]
    fn an_exclusive_claim_in_use_rejects_every_node() {
        let users = [user("user", "a", &["one", "many"]), user("bystander", "a", &["many"])];
        let mut state = with_volumes(state([node("a"), node("b")], users), |volumes| {
            add_claim(volumes, exclusive("one"));
            add_claim(volumes, exclusive("free"));
            add_claim(volumes, bound("many", "v"));
        });
        let class = |claims: &[&str]| class(spec(claims));
        let both = [format!("a: {CLAIM}"), format!("b: {CLAIM}")];
        assert_eq!(verdicts(build(None), class(&["one"]), &mut state), both);
        assert_eq!(verdicts(build(None), class(&["free", "many"]), &mut state), ["a: ok", "b: ok"]);
        let without = |state: &mut State, gone: &[&str]| {
            verdict_if(build(None), class(&["one"]), state, "a", &[], gone)
        };
        assert_eq!(without(&mut state, &["user"]), "ok");
        assert_eq!(without(&mut state, &["bystander"]), CLAIM);
        displace(&mut state, "user");
        assert_eq!(verdicts(build(None), class(&["one"]), &mut state), ["a: ok", "b: ok"]);
    }

    #[test]
    fn a_what_if_compares_claim_names_without_namespaces() {
        let stranger = Pod { namespace: "other".into(), ..user("stranger", "n", &["one"]) };
        let users = [user("user", "n", &["one"]), stranger];
        let mut state = with_volumes(state([node("n")], users), |volumes| {
            add_claim(volumes, exclusive("one"));
        });
        let class = class(spec(&["one"]));
        let stranger = state.find_pod("other", "stranger").unwrap();
        let mut preparation = Preparation::new(&mut state);
        let PreFilterResult::Filter(mut filter) =
            VolumeRestrictions.prepare_filter(&class, &mut preparation)
        else {
            panic!("the claim is in use");
        };
        let node = state.nodes.find("n").unwrap();
        assert_eq!(filter.check(&state, node), CLAIM_CONFLICT);
        filter.remove_pod(&state, stranger, node);
        assert_eq!(filter.check(&state, node), NodeVerdict::PASS);
    }

    #[test]
    fn a_missing_claim_rejects_the_pod() {
        let mut state = state([node("n")], []);
        assert_eq!(
            verdicts(build(None), class(spec(&["c"])), &mut state),
            ["UnschedulableAndUnresolvable: persistentvolumeclaim \"c\" not found"]
        );
    }

    proptest::proptest! {
        #[test]
        fn incremental_verdicts_equal_those_from_scratch(
            moves in proptest::collection::vec((0_usize..4, 0_usize..2), 1..40),
        ) {
            let specs = [with_disk(gce("d", true)), with_disk(gce("d", false)), spec(&["one"]), spec(&[])];
            let users = specs.into_iter().enumerate();
            let users = users.map(|(index, spec)| Pod { spec: spec.into(), ..pod(&format!("p{index}")) });
            let mut state = with_volumes(state([node("a"), node("b")], users), |volumes| {
                add_claim(volumes, exclusive("one"));
            });
            let volumes = [spec(&["one"]).volumes, with_disk(gce("d", true)).volumes].concat();
            let both = PodSpec { volumes: volumes.into(), ..PodSpec::default() };
            for spec in [both, spec(&["one"]), with_disk(gce("d", true))] {
                assert_incremental(build(None), &class(spec), &mut state, &moves);
            }
        }
    }

    #[test]
    fn pods_without_volumes_are_skipped() {
        let mut state = state([node("n")], []);
        let prepared = VolumeRestrictions
            .prepare_filter(&class(PodSpec::default()), &mut Preparation::new(&mut state));
        assert!(matches!(prepared, PreFilterResult::Skip));
    }

    #[test]
    fn pods_and_claims_that_may_help_wake_the_pod() {
        let state = state([], []);
        let with_claim = class(spec(&["c"]));
        let with_gce = class(with_disk(gce("d", false)));
        let deleted = |pod: &Pod, class: &Class| {
            let event = pod_event(Action::DELETE, Some(pod), None, false);
            VolumeRestrictions.hint(&state, class, &event)
        };
        assert!(deleted(&user("p", "n", &["b", "c"]), &with_claim));
        assert!(!deleted(&user("p", "n", &["b"]), &with_claim));
        let elsewhere = Pod { namespace: "other".into(), ..user("p", "n", &["c"]) };
        assert!(!deleted(&elsewhere, &with_claim));
        let disk_user = Pod { spec: with_disk(gce("d", true)).into(), ..pod("p") };
        assert!(deleted(&disk_user, &with_gce));
        assert!(deleted(&Pod { namespace: "other".into(), ..disk_user.clone() }, &with_gce));
        assert!(!deleted(&disk_user, &with_claim));
        assert!(VolumeRestrictions.hint(&state, &with_claim, &claim_added(&claim("c", "", 1))));
        assert!(!VolumeRestrictions.hint(&state, &with_claim, &claim_added(&claim("d", "", 1))));
    }
}
