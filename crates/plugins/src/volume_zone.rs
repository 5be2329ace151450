//! VolumeZone: rejects nodes outside of the zones and regions in the labels of the pod's volumes.

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::{DomainIdx, KeyIdx, NodeIdx};
use engine::object::{BindingMode, PersistentVolume};
use engine::state::{Areas, State};

use crate::csi_migration::{BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER};
use crate::volume_claims::{event_concerns, named_claims, not_found};

pub(crate) const NAME: &str = "VolumeZone";
pub(crate) const POINTS: &[Point] = &[Point::PreFilter, Point::Filter];
pub(crate) const DOC: &str =
    "Rejects nodes outside of the zones and regions in the labels of the pod's volumes.";

/// Labels that tie a volume to zones and regions, in upstream's order.
const TOPOLOGY_LABELS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(VolumeZone)
}

struct VolumeZone;

impl Plugin for VolumeZone {
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
        if named_claims(&class.spec).next().is_none() {
            return PreFilterResult::Skip;
        }
        preparation.depends_on(Areas::VOLUMES);
        match topology_labels(class, preparation.state) {
            Err(reason) => PreFilterResult::Reject(Rejection::unresolvable(reason)),
            Ok(topology_labels) if topology_labels.is_empty() => PreFilterResult::Skip,
            Ok(topology_labels) => PreFilterResult::Filter(Box::new(ZoneFilter::new(
                &topology_labels,
                preparation.state,
            ))),
        }
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let add_or_update = Action::ADD.with(Action::UPDATE);
        vec![
            Subscription { resource: Resource::StorageClass, action: Action::ADD },
            Subscription {
                resource: Resource::Node,
                action: Action::ADD.with(Action::UPDATE_NODE_LABEL),
            },
            Subscription { resource: Resource::PersistentVolumeClaim, action: add_or_update },
            Subscription { resource: Resource::PersistentVolume, action: add_or_update },
        ]
    }

    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::StorageClass { new: Some(class), .. } => {
                class.binding_mode == Some(BindingMode::WaitForFirstConsumer)
            }
            Object::PersistentVolumeClaim { .. } => event_concerns(class, event),
            Object::PersistentVolume { old: Some(old), new: Some(new) } => {
                topology_labels_of(old).ne(topology_labels_of(new))
            }
            _ => true,
        }
    }
}

/// A topology label of a volume; the node must have one of the values.
#[derive(PartialEq, Eq)]
struct TopologyLabel {
    key: &'static str,
    values: Vec<String>,
}

/// Returns the topology labels of a pod's volumes, or upstream's error if a claim is unusable.
fn topology_labels(class: &Class, state: &State) -> Result<Vec<TopologyLabel>, String> {
    let volumes = &state.volumes;
    let mut topology_labels = Vec::new();
    for name in named_claims(&class.spec) {
        if name.is_empty() {
            return Err("PersistentVolumeClaim had no name".to_owned());
        }
        let claim = volumes.claim(&class.namespace, name).ok_or_else(|| not_found(name))?;
        if claim.volume_name.is_empty() {
            check_unbound(claim.class(), state)?;
            continue;
        }
        let volume = volumes
            .volumes
            .get(&claim.volume_name)
            .ok_or_else(|| format!("persistentvolume \"{}\" not found", claim.volume_name))?;
        topology_labels.extend(topology_labels_of(volume));
    }
    Ok(topology_labels)
}

/// Returns an error unless the claim's volume is chosen together with the node.
fn check_unbound(class_name: &str, state: &State) -> Result<(), String> {
    if class_name.is_empty() {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
    }
    let Some(class) = state.volumes.classes.get(class_name) else {
        return Err(format!("storageclass.storage.k8s.io \"{class_name}\" not found"));
    };
    match class.binding_mode {
        Some(BindingMode::WaitForFirstConsumer) => Ok(()),
        Some(BindingMode::Immediate) => Err("PersistentVolume had no name".to_owned()),
        None => Err(format!("VolumeBindingMode not set for StorageClass \"{class_name}\"")),
    }
}

fn topology_labels_of(volume: &PersistentVolume) -> impl Iterator<Item = TopologyLabel> {
    TOPOLOGY_LABELS.iter().filter_map(|key| {
        let values = zones(volume.labels.get(key)?)?;
        Some(TopologyLabel { key, values })
    })
}

/// Returns the zones of a label, sorted; `None` if one of them is empty, since upstream ignores the label
/// then.
fn zones(label: &str) -> Option<Vec<String>> {
    let mut zones: Vec<_> =
        label.split(ZONE_DELIMITER).map(|zone| zone.trim().to_owned()).collect();
    zones.sort_unstable();
    zones.dedup();
    (!zones[0].is_empty()).then_some(zones)
}

/// Rejects nodes whose labels do not match those of the volumes.
struct ZoneFilter {
    /// Columns of all topology labels.
    keys: [KeyIdx; TOPOLOGY_LABELS.len()],
    topology_labels: Vec<AllowedDomains>,
}

/// A topology label, with its values as domains of label columns.
struct AllowedDomains {
    key: KeyIdx,
    domains: Vec<DomainIdx>,
    /// The current label, compared if a node lacks the deprecated one.
    substitute: KeyIdx,
    substitute_domains: Vec<DomainIdx>,
}

impl ZoneFilter {
    fn new(topology_labels: &[TopologyLabel], state: &mut State) -> Self {
        let keys = TOPOLOGY_LABELS.map(|label| state.label_column(label));
        let topology_labels = topology_labels.iter().map(|label| {
            let key = state.label_column(label.key);
            let substitute = state.label_column(match label.key {
                BETA_ZONE => ZONE,
                BETA_REGION => REGION,
                other => other,
            });
            let domains = |key| {
                let column = state.topology.column(key);
                label.values.iter().filter_map(|value| column.find(value)).collect()
            };
            AllowedDomains {
                key,
                domains: domains(key),
                substitute,
                substitute_domains: domains(substitute),
            }
        });
        Self { keys, topology_labels: topology_labels.collect() }
    }
}

impl AllowedDomains {
    fn accept(&self, state: &State, node: NodeIdx) -> bool {
        let domain = state.topology.column(self.key).domain(node);
        if domain.is_some() {
            return self.domains.contains(&domain);
        }
        self.substitute_domains.contains(&state.topology.column(self.substitute).domain(node))
    }
}

impl Filter for ZoneFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let labelled =
            self.keys.iter().any(|key| state.topology.column(*key).domain(node).is_some());
        // Nodes without any topology label pass: in a cluster of one zone, they need none.
        if !labelled || self.topology_labels.iter().all(|label| label.accept(state, node)) {
            NodeVerdict::PASS
        } else {
            NodeVerdict(1)
        }
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        Rejection::unresolvable("node(s) had no available volume zone")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_claims::testing::{
        add_claim, add_class, add_volume, bound, claim, claim_added, delayed, event, spec, volume,
    };
    use engine::object::{Node, StorageClass};
    use engine::testing::{class, labels, node, state, verdicts, with_volumes};

    fn labelled(name: &str, pairs: &[(&str, &str)]) -> Node {
        Node { labels: labels(pairs), ..node(name) }
    }

    fn zoned(name: &str, pairs: &[(&str, &str)]) -> PersistentVolume {
        PersistentVolume { labels: labels(pairs), ..volume(name, "", 1) }
    }

    fn cluster(volume: PersistentVolume) -> State {
        let nodes = [
            labelled("bare", &[("other", "x")]),
            labelled("ga-a", &[(ZONE, "a")]),
            labelled("ga-b", &[(ZONE, "b")]),
            labelled("beta-a", &[(BETA_ZONE, "a")]),
            labelled("region", &[(REGION, "r")]),
        ];
        with_volumes(state(nodes, []), |volumes| {
            add_claim(volumes, bound("c", &volume.name));
            add_volume(volumes, volume);
        })
    }

    const CONFLICT: &str = "UnschedulableAndUnresolvable node(s) had no available volume zone";

    fn passing(volume: PersistentVolume) -> Vec<String> {
        let verdicts = verdicts(build(None), class(spec(&["c"])), &mut cluster(volume));
        let mut passing = Vec::new();
        for verdict in verdicts {
            match verdict.split_once(": ").unwrap() {
                (name, "ok") => passing.push(name.to_owned()),
                (_, reason) => assert_eq!(reason, CONFLICT),
            }
        }
        passing
    }

    #[test]
    fn nodes_must_be_in_the_zone_of_the_volume() {
        assert_eq!(passing(zoned("v", &[(ZONE, "a")])), ["bare", "ga-a"]);
        assert_eq!(passing(zoned("v", &[(BETA_ZONE, "a")])), ["bare", "ga-a", "beta-a"]);
        assert_eq!(passing(zoned("v", &[(ZONE, "a__ b")])), ["bare", "ga-a", "ga-b"]);
        assert_eq!(passing(zoned("v", &[(ZONE, "c")])), ["bare"]);
        assert_eq!(passing(zoned("v", &[(BETA_REGION, "r")])), ["bare", "region"]);
        assert_eq!(passing(zoned("v", &[(ZONE, "a"), (REGION, "r")])), ["bare"]);
        assert_eq!(passing(zoned("v", &[(ZONE, "a__")])).len(), 5, "a malformed label is ignored");
        assert_eq!(passing(zoned("v", &[])).len(), 5);
    }

    #[test]
    fn unusable_claims_reject_the_pod() {
        let mut state = with_volumes(state([node("n")], []), |volumes| {
            add_claim(volumes, bound("gone", "v"));
            add_claim(volumes, claim("plain", "", 1));
            add_claim(volumes, claim("no-class", "missing", 1));
            add_claim(volumes, claim("no-mode", "modeless", 1));
            add_claim(volumes, claim("now", "immediate", 1));
            add_claim(volumes, claim("later", "late", 1));
            let mode =
                |name: &str, binding_mode| StorageClass { binding_mode, ..delayed(name, "p") };
            add_class(volumes, mode("modeless", None));
            add_class(volumes, mode("immediate", Some(BindingMode::Immediate)));
            add_class(volumes, delayed("late", "p"));
        });
        for (claims, expected) in [
            (&[""][..], "PersistentVolumeClaim had no name"),
            (&["later", "x"], "persistentvolumeclaim \"x\" not found"),
            (&["gone"], "persistentvolume \"v\" not found"),
            (&["plain"], "PersistentVolumeClaim had no pv name and storageClass name"),
            (&["no-class"], "storageclass.storage.k8s.io \"missing\" not found"),
            (&["no-mode"], "VolumeBindingMode not set for StorageClass \"modeless\""),
            (&["now"], "PersistentVolume had no name"),
        ] {
            let expected = format!("UnschedulableAndUnresolvable: {expected}");
            assert_eq!(verdicts(build(None), class(spec(claims)), &mut state), [expected]);
        }
        assert_eq!(verdicts(build(None), class(spec(&["later"])), &mut state), ["n: ok"]);
    }

    #[test]
    fn storage_events_that_may_help_wake_the_pod() {
        let (plugin, state) = (VolumeZone, state([], []));
        let class = class(spec(&["c"]));
        let hint = |event: &Event| plugin.hint(&state, &class, event);
        assert!(hint(&claim_added(&claim("c", "", 1))));
        assert!(!hint(&claim_added(&claim("d", "", 1))));
        let late = delayed("late", "p");
        let modeless = StorageClass { binding_mode: None, ..late.clone() };
        for (class, expected) in [(&late, true), (&modeless, false)] {
            let object = Object::StorageClass { old: None, new: Some(class) };
            assert_eq!(hint(&event(Resource::StorageClass, Action::ADD, object)), expected);
        }
        let (bare, in_a) = (zoned("v", &[]), zoned("v", &[(ZONE, "a")]));
        for (old, new, expected) in [
            (None, &bare, true),
            (Some(&bare), &bare, false),
            (Some(&in_a), &bare, true),
            (Some(&bare), &in_a, true),
        ] {
            let object = Object::PersistentVolume { old, new: Some(new) };
            assert_eq!(hint(&event(Resource::PersistentVolume, Action::UPDATE, object)), expected);
        }
    }
}
