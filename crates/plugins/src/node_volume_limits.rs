//! NodeVolumeLimits: a node takes no more volumes of a driver than the driver allows.

use std::borrow::Cow;
use std::sync::Arc;

use api::config::PluginArgs;
use engine::framework::event::{Object, PodView};
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::NodeIdx;
use engine::object::{
    CsiNode, PersistentVolumeClaim, PodSpec, Text, Uid, Volume, VolumeAttachment, VolumeSource,
};
use engine::state::driver_limits::DriverLimits;
use engine::state::volumes::Volumes;
use engine::state::{Areas, State};

use crate::csi_migration::{self, Provisioner};
use crate::volume_claims::{Consumer, check_owner, event_concerns, not_found};

pub(crate) const NAME: &str = "NodeVolumeLimits";
pub(crate) const POINTS: &[Point] = &[Point::PreFilter, Point::Filter];
pub(crate) const DOC: &str = "A node takes no more volumes of a driver than the driver allows.";

/// Begins the made-up handle of a volume that does not exist yet. No driver has handles like this.
const UNBOUND_PREFIX: &str = "\0unbound ";

const LIMIT_EXCEEDED: NodeVerdict = NodeVerdict(1);
const LOOKUP_FAILED: NodeVerdict = NodeVerdict(2);
const EXISTING_POD_FAILED: NodeVerdict = NodeVerdict(3);

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(NodeVolumeLimits)
}

struct NodeVolumeLimits;

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn evaluation_key(&self, class: &Class, _state: &State) -> KeyPart {
        KeyPart::nothing_if(!class.spec.has_claims())
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        if !has_countable_volumes(&class.spec) {
            return PreFilterResult::Skip;
        }
        preparation.depends_on(Areas::VOLUMES);
        let limits = preparation.state.driver_limits();
        let consumer = Consumer::of_class(preparation.state, class);
        let unregistered = demands(&consumer, preparation.state, false, &limits).err();
        let registered = demands(&consumer, preparation.state, true, &limits);
        if unregistered.is_none() && registered.as_ref().is_ok_and(Vec::is_empty) {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(VolumeLimitsFilter { limits, unregistered, registered }))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription { resource: Resource::CsiNode, action: Action::ADD },
            Subscription { resource: Resource::CsiNode, action: Action::UPDATE },
            Subscription { resource: Resource::Pod, action: Action::DELETE },
            Subscription { resource: Resource::PersistentVolumeClaim, action: Action::ADD },
            // Beyond upstream: a claim counts for the driver of its class until it is bound, perhaps to
            // a volume of another driver or to one that is on the node already.
            Subscription { resource: Resource::PersistentVolumeClaim, action: Action::UPDATE },
            Subscription { resource: Resource::PersistentVolume, action: Action::ADD },
            Subscription { resource: Resource::VolumeAttachment, action: Action::DELETE },
        ]
    }

    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::CsiNode { old: Some(old), new: Some(new) } => limit_rose(old, new),
            Object::Pod { old: Some(deleted), .. } => frees_volumes(&deleted),
            Object::PersistentVolumeClaim { old: Some(old), new: Some(new) } => {
                old.volume_name != new.volume_name
            }
            Object::PersistentVolumeClaim { .. } => event_concerns(class, event),
            Object::VolumeAttachment { old: Some(deleted), .. } => {
                may_use_driver(&class.spec, deleted)
            }
            _ => true,
        }
    }
}

/// Whether a pod has volumes that may count.
fn has_countable_volumes(spec: &PodSpec) -> bool {
    spec.volumes.iter().any(|volume| match volume {
        Volume::Claim { .. } | Volume::Ephemeral { .. } => true,
        Volume::Inline(disk) => csi_migration::is_migratable(disk),
    })
}

/// Whether some driver takes more volumes than before. Upstream overlooks limits that were lifted.
fn limit_rose(old: &CsiNode, new: &CsiNode) -> bool {
    let limit = |node: &CsiNode, driver: &str| {
        node.drivers.iter().find(|d| *d.name == *driver).map(|driver| driver.limit)
    };
    let rose = new.drivers.iter().any(|driver| match limit(old, &driver.name) {
        None | Some(None) => driver.limit.is_some_and(|limit| limit > 0),
        Some(Some(before)) => driver.limit.is_none_or(|limit| limit > before),
    });
    rose || old.drivers.iter().any(|d| d.limit.is_some() && limit(new, &d.name).is_none())
}

fn frees_volumes(deleted: &PodView) -> bool {
    (deleted.assigned || deleted.nominated) && has_countable_volumes(deleted.spec)
}

fn may_use_driver(spec: &PodSpec, deleted: &VolumeAttachment) -> bool {
    spec.volumes.iter().any(|volume| match volume {
        Volume::Claim { .. } | Volume::Ephemeral { .. } => true,
        Volume::Inline(disk) => match csi_migration::inline_handle(disk) {
            Some(Err(_)) => true,
            _ => csi_migration::inline_driver(disk) == Some(&deleted.attacher),
        },
    })
}

/// New volumes of one driver.
struct VolumeDemand {
    driver: Text,
    /// Position of the driver among those with limits.
    limited: Option<usize>,
    handles: Vec<Text>,
}

/// What a pod asks of the drivers of a node that has a CSINode or has none.
fn demands(
    consumer: &Consumer,
    state: &State,
    registered: bool,
    limits: &DriverLimits,
) -> Result<Vec<VolumeDemand>, Rejection> {
    let mut demands: Vec<VolumeDemand> = Vec::new();
    for volume in &consumer.spec.volumes {
        let pod = PodIdentity {
            namespace: &consumer.namespace,
            name: &consumer.name,
            uid: &consumer.uid,
        };
        let found =
            handle_of_volume(volume, &pod, registered, &state.volumes).map_err(|problem| {
                match problem {
                    HandleError::ClaimNotFound(name) => Rejection::unresolvable(format!(
                        "looking up PVC {}/{name}: {}",
                        consumer.namespace,
                        not_found(name)
                    )),
                    HandleError::Other(text) => Rejection::error(text),
                }
            })?;
        let Some((driver, handle)) = found else { continue };
        let position = demands.iter().position(|d| *d.driver == *driver).unwrap_or_else(|| {
            let limited = limits.driver(driver);
            demands.push(VolumeDemand { driver: driver.into(), limited, handles: Vec::new() });
            demands.len() - 1
        });
        let handles = &mut demands[position].handles;
        if !handles.iter().any(|known| **known == *handle) {
            handles.push(handle.into());
        }
    }
    Ok(demands)
}

/// A pod, as far as it matters whether claims are its own.
struct PodIdentity<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a Uid,
}

enum HandleError<'a> {
    /// A claim of this name does not exist.
    ClaimNotFound(&'a str),
    /// Something else.
    Other(String),
}

/// A driver and its name for a volume.
type DriverHandle<'a> = (&'a str, Cow<'a, str>);

/// Driver and handle of a pod's volume; `None` when it does not count.
fn handle_of_volume<'a>(
    volume: &'a Volume,
    pod: &PodIdentity,
    registered: bool,
    volumes: &'a Volumes,
) -> Result<Option<DriverHandle<'a>>, HandleError<'a>> {
    let (name, ephemeral) = match volume {
        Volume::Claim { name } => (name, false),
        Volume::Ephemeral { claim } => (claim, true),
        Volume::Inline(disk) => {
            let handle = csi_migration::inline_handle(disk).filter(|_| registered).transpose();
            return handle.map_err(|problem| {
                HandleError::Other(format!("converting volume() from inline to csi: {problem}"))
            });
        }
    };
    if name.is_empty() {
        return Err(HandleError::Other("PersistentVolumeClaim had no name".to_owned()));
    }
    let claim = volumes.claim(pod.namespace, name).ok_or(HandleError::ClaimNotFound(name))?;
    if ephemeral {
        check_owner(claim, pod.uid, pod.namespace, pod.name).map_err(HandleError::Other)?;
    }
    let handle = handle_of_claim(claim, registered, volumes);
    Ok(handle.filter(|(driver, handle)| !driver.is_empty() && !handle.is_empty()))
}

fn handle_of_claim<'a>(
    claim: &'a PersistentVolumeClaim,
    registered: bool,
    volumes: &'a Volumes,
) -> Option<DriverHandle<'a>> {
    let Some(volume) = volumes.volumes.get(&claim.volume_name) else {
        return handle_of_class(claim, registered, volumes);
    };
    if let VolumeSource::Csi { driver, handle } = &volume.source {
        return Some((driver, Cow::Borrowed(handle)));
    }
    let migration = csi_migration::of_source(&volume.source).filter(|_| registered)?;
    Some((migration.driver, csi_migration::handle(volume).ok()?))
}

/// A volume that does not exist yet counts as one of its class's driver.
fn handle_of_class<'a>(
    claim: &'a PersistentVolumeClaim,
    registered: bool,
    volumes: &'a Volumes,
) -> Option<DriverHandle<'a>> {
    let class = volumes.classes.get(claim.class())?;
    let driver = match csi_migration::provisioner(&class.provisioner) {
        Provisioner::Migrated(driver) if registered => driver,
        Provisioner::Migrated(_) | Provisioner::NotMigrated => return None,
        Provisioner::Own(driver) => driver,
    };
    Some((driver, Cow::Owned(format!("{UNBOUND_PREFIX}{}/{}", claim.namespace, claim.name))))
}

/// Counts the volumes of nodes.
struct VolumeLimitsFilter {
    limits: Arc<DriverLimits>,
    /// What nodes without a CSINode say.
    unregistered: Option<Rejection>,
    /// What nodes with one are asked for, or say.
    registered: Result<Vec<VolumeDemand>, Rejection>,
}

impl VolumeLimitsFilter {
    fn lookup_failure(&self, node: NodeIdx) -> Option<&Rejection> {
        if self.limits.is_registered(node) {
            self.registered.as_ref().err()
        } else {
            self.unregistered.as_ref()
        }
    }

    /// Whether the volumes fit however many are shared, which saves looking at each.
    fn fits_easily(&self, demands: &[VolumeDemand], state: &State, node: NodeIdx) -> bool {
        let volumes = state.nodes.volumes(node);
        let at_most = volumes.claims as usize + self.limits.attached(node).len();
        // Other volumes than claims may turn out to be broken.
        volumes.others == 0
            && demands.iter().all(|demand| {
                let limit = demand.limited.and_then(|driver| self.limits.limit(driver, node));
                limit.is_none_or(|l| {
                    at_most + demand.handles.len() <= usize::try_from(l).unwrap_or(0)
                })
            })
    }

    /// Whether the volumes fit, or what is wrong with a pod on the node.
    fn fits(&self, demands: &[VolumeDemand], state: &State, node: NodeIdx) -> Result<bool, String> {
        let in_use = in_use(state, node)?;
        Ok(demands.iter().all(|demand| {
            let Some(limit) = demand.limited.and_then(|d| self.limits.limit(d, node)) else {
                return true;
            };
            let uses =
                |handle: &str| in_use.iter().any(|(d, h)| *d == &*demand.driver && h == handle);
            let used = in_use.iter().filter(|(driver, _)| *driver == &*demand.driver).count();
            let attached = self.limits.attached(node).iter();
            let only_attached =
                attached.filter(|a| a.driver == demand.driver && !uses(&a.handle)).count();
            // A volume that is attached but used by no pod there counts once more when it is new.
            let new = demand.handles.iter().filter(|handle| !uses(handle)).count();
            new == 0 || (used + only_attached + new) as i64 <= i64::from(limit)
        }))
    }
}

/// Volumes that the pods of a node use, each once.
fn in_use(state: &State, node: NodeIdx) -> Result<Vec<DriverHandle<'_>>, String> {
    let mut in_use: Vec<DriverHandle> = Vec::new();
    for pod in state.nodes.pods(node) {
        let spec = state.spec(*pod);
        if spec.volumes.is_empty() {
            continue;
        }
        let record = state.pods.get(*pod);
        let pod =
            PodIdentity { namespace: state.namespace(*pod), name: &record.name, uid: &record.uid };
        for volume in &spec.volumes {
            match handle_of_volume(volume, &pod, true, &state.volumes) {
                Ok(Some(handle)) if !in_use.contains(&handle) => in_use.push(handle),
                Ok(_) | Err(HandleError::ClaimNotFound(_)) => {}
                Err(HandleError::Other(text)) => return Err(text),
            }
        }
    }
    Ok(in_use)
}

impl Filter for VolumeLimitsFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        if self.lookup_failure(node).is_some() {
            return LOOKUP_FAILED;
        }
        let Ok(demands) = &self.registered else { return NodeVerdict::PASS };
        if demands.is_empty()
            || !self.limits.is_limited(node)
            || self.fits_easily(demands, state, node)
        {
            return NodeVerdict::PASS;
        }
        match self.fits(demands, state, node) {
            Ok(true) => NodeVerdict::PASS,
            Ok(false) => LIMIT_EXCEEDED,
            Err(_) => EXISTING_POD_FAILED,
        }
    }

    fn rejection(&self, state: &State, node: NodeIdx, answer: NodeVerdict) -> Rejection {
        if let Some(lookup_failure) = self.lookup_failure(node)
            && answer == LOOKUP_FAILED
        {
            return lookup_failure.clone();
        }
        if answer == EXISTING_POD_FAILED
            && let Err(problem) = in_use(state, node)
        {
            return Rejection::error(problem);
        }
        Rejection::unschedulable("node(s) exceed max volume count")
    }

    fn rejection_varies(&self, answer: NodeVerdict) -> bool {
        answer != LIMIT_EXCEEDED
    }

    fn reads_pods(&self) -> bool {
        self.registered.as_ref().is_ok_and(|demands| !demands.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_claims::testing::{
        add_claim, add_class, add_volume, assert_keeps_up, bound, claim, claim_added, csi_volume,
        delayed, event, spec, user, volume,
    };
    use engine::object::{InlineDisk, NodeDriver, PersistentVolume, Pod as PodObject};
    use engine::testing::{
        class, displace, node, place, pod, pod_event, state, verdict_if, verdicts,
    };

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

    /// Claims `a` to `e`, bound to volumes of driver `d` of the same names, and what else is added.
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
            volumes.csi_nodes.insert("n".into(), csi_node("n", limits));
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
            volumes.attachments.insert(attachment.name.clone(), attachment);
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
    fn counting_follows_pods() {
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
    fn claims_that_will_not_do_are_told() {
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
        assert_eq!(verdict(&mut state, spec(&["b"])), foreign, "also of pods that are there");
    }

    proptest::proptest! {
        #[test]
        fn what_is_kept_is_what_is_found_anew(
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
            assert_keeps_up(build(None), &class(spec(&["a", "c"])), &mut state, &moves);
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
    fn hints() {
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
            assert_eq!(
                hint(&with_claim, &event(Resource::CsiNode, Action::UPDATE, object)),
                expected
            );
        }
        let deleted =
            |pod: &PodObject| hint(&with_claim, &pod_event(Action::DELETE, Some(pod), None, false));
        assert!(deleted(&user("p", "n", &["x"])));
        assert!(!deleted(&user("p", "", &["x"])));
        assert!(!deleted(&user("p", "n", &[])));
        assert!(hint(&with_claim, &claim_added(&claim("c", "", 1))));
        assert!(!hint(&with_claim, &claim_added(&claim("d", "", 1))));
        // Whoever uses it: on some node it may count for another driver now.
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
}
