//! The claims of pods, and upstream's errors about them.

use std::sync::Arc;

use engine::framework::Class;
use engine::framework::event::{Event, Object};
use engine::index::PodIdx;
use engine::object::{PersistentVolumeClaim, PodSpec, Text, Uid, Volume};
use engine::state::State;

/// A pod that uses claims.
pub(crate) struct Consumer {
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) uid: Uid,
    pub(crate) spec: Arc<PodSpec>,
}

impl Consumer {
    /// Returns the pod of a class.
    pub(crate) fn of_class(state: &State, class: &Class) -> Self {
        // Only pods with ephemeral claims need a name; their class has a uid.
        let name = match state.pods.find(&class.uid) {
            Some(pod) => state.pods.get(pod).name.clone(),
            None => "".into(),
        };
        Self {
            namespace: class.namespace.clone(),
            name,
            uid: class.uid.clone(),
            spec: Arc::clone(&class.spec),
        }
    }

    /// Returns a pod of the state.
    pub(crate) fn of_pod(state: &State, pod: PodIdx) -> Self {
        let record = state.pods.get(pod);
        Self {
            namespace: state.namespace(pod).into(),
            name: record.name.clone(),
            uid: record.uid.clone(),
            spec: Arc::clone(&state.specs.get(record.spec).spec),
        }
    }

    /// Returns an error unless the claim was created for this pod, as those of ephemeral volumes must be.
    pub(crate) fn check_owner(&self, claim: &PersistentVolumeClaim) -> Result<(), String> {
        check_owner(claim, &self.uid, &self.namespace, &self.name)
    }
}

/// Returns an error unless the claim was created for the pod.
pub(crate) fn check_owner(
    claim: &PersistentVolumeClaim,
    pod_uid: &Uid,
    pod_namespace: &str,
    pod_name: &str,
) -> Result<(), String> {
    if claim.owner_uid.as_ref() == Some(pod_uid) {
        return Ok(());
    }
    let (namespace, name) = (&claim.namespace, &claim.name);
    Err(format!(
        "PVC {namespace}/{name} was not created for pod {pod_namespace}/{pod_name} (pod is not owner)"
    ))
}

/// Returns the name of the claim of a volume.
pub(crate) fn claim_name(volume: &Volume) -> Option<&str> {
    match volume {
        Volume::Claim { name } => Some(name),
        Volume::Ephemeral { claim } => Some(claim),
        Volume::Inline(_) => None,
    }
}

/// Returns the names of the claims in `spec.volumes`, those of ephemeral volumes excluded.
pub(crate) fn named_claims(spec: &PodSpec) -> impl Iterator<Item = &str> {
    spec.volumes.iter().filter_map(|volume| match volume {
        Volume::Claim { name } => Some(&**name),
        Volume::Ephemeral { .. } | Volume::Inline(_) => None,
    })
}

/// Returns upstream's error for a claim that does not exist.
pub(crate) fn not_found(name: &str) -> String {
    format!("persistentvolumeclaim \"{name}\" not found")
}

/// Returns `true` if an event is about a claim that the pod uses, ephemeral ones included.
pub(crate) fn event_concerns(class: &Class, event: &Event) -> bool {
    let Object::PersistentVolumeClaim { old, new } = event.object else { return true };
    let Some(claim) = new.or(old) else { return true };
    claim.namespace == class.namespace
        && class.spec.volumes.iter().filter_map(claim_name).any(|name| *name == *claim.name)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Builders for tests of volume plugins.

    use engine::cycle::evaluation::Evaluation;
    use engine::framework::event::{Action, Event, Object, Resource};
    use engine::framework::{Class, Plugin};
    use engine::object::{
        BindingMode, NodeTerm, Operator, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec,
        Requirement, StorageClass, Volume, VolumePhase, VolumeSource,
    };
    use engine::state::State;
    use engine::state::volumes::Volumes;
    use engine::testing::{displace, place, profile};

    /// Returns a spec with these claims.
    pub(crate) fn spec(claims: &[&str]) -> PodSpec {
        let volumes = claims.iter().map(|name| Volume::Claim { name: (*name).into() }).collect();
        PodSpec { volumes, ..PodSpec::default() }
    }

    /// Returns a pod of namespace `default` on a node, with these claims.
    pub(crate) fn user(name: &str, node: &str, claims: &[&str]) -> Pod {
        Pod { node: node.into(), spec: spec(claims).into(), ..engine::testing::pod(name) }
    }

    /// Returns an unbound claim of namespace `default` for a volume of a class; `request` is in bytes.
    pub(crate) fn claim(name: &str, class: &str, request: i64) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            namespace: "default".into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
            storage_class: Some(class.into()),
            request: Some(request),
            ..PersistentVolumeClaim::default()
        }
    }

    /// Returns a claim that is bound to a volume.
    pub(crate) fn bound(name: &str, volume: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            volume_name: volume.into(),
            bind_completed: true,
            ..claim(name, "", 1)
        }
    }

    /// Returns an available volume.
    pub(crate) fn volume(name: &str, class: &str, capacity: i64) -> PersistentVolume {
        PersistentVolume {
            name: name.into(),
            storage_class: class.into(),
            capacity,
            phase: VolumePhase::Available,
            ..PersistentVolume::default()
        }
    }

    /// Returns a volume of a CSI driver, whose name is also its handle.
    pub(crate) fn csi_volume(name: &str, driver: &str) -> PersistentVolume {
        let source = VolumeSource::Csi { driver: driver.into(), handle: name.into() };
        PersistentVolume { source, ..volume(name, "", 1) }
    }

    /// Returns a storage class with WaitForFirstConsumer.
    pub(crate) fn delayed(name: &str, provisioner: &str) -> StorageClass {
        StorageClass {
            name: name.into(),
            provisioner: provisioner.into(),
            binding_mode: Some(BindingMode::WaitForFirstConsumer),
            ..StorageClass::default()
        }
    }

    /// Returns a node selector term that requires one of the values of a label.
    pub(crate) fn term(key: &str, values: &[&str]) -> NodeTerm {
        let values = values.iter().map(|value| (*value).into()).collect();
        let expression = Requirement { key: key.into(), operator: Operator::In, values };
        NodeTerm { expressions: [expression].into(), fields: Box::default(), malformed: false }
    }

    pub(crate) fn add_claim(volumes: &mut Volumes, claim: PersistentVolumeClaim) {
        volumes.claims.insert(claim);
    }

    pub(crate) fn add_volume(volumes: &mut Volumes, volume: PersistentVolume) {
        volumes.volumes.insert(volume);
    }

    pub(crate) fn add_class(volumes: &mut Volumes, class: StorageClass) {
        volumes.classes.insert(class);
    }

    /// Returns an event of a storage object.
    pub(crate) fn event(resource: Resource, action: Action, object: Object<'_>) -> Event<'_> {
        Event { resource, action, object, own: false }
    }

    /// Asserts that incremental verdicts equal those from scratch while pods are placed and removed.
    ///
    /// Each move is a pod and a node: the pod is removed from its node, or else placed on this one.
    pub(crate) fn assert_incremental(
        plugin: Box<dyn Plugin>,
        class: &Class,
        state: &mut State,
        moves: &[(usize, usize)],
    ) {
        let pods: Vec<_> = state.pods.iter().map(|(_, pod)| pod.name.clone()).collect();
        let profile = profile(plugin);
        let mut incremental = Evaluation::new(&profile, class.clone(), state);
        for (pod, node) in moves {
            let name = &pods[pod % pods.len()];
            let index = state.find_pod("default", name).unwrap();
            if state.pods.get(index).node.is_some() {
                displace(state, name);
            } else {
                let node = state.nodes.order()[node % state.nodes.count()];
                let node = state.nodes.name(node).to_owned();
                place(state, name, &node);
            }
            incremental.refresh(&profile, state);
            let fresh = Evaluation::new(&profile, class.clone(), state);
            assert_eq!(incremental.feasible(), fresh.feasible());
        }
    }

    /// Returns the event that a claim was created.
    pub(crate) fn claim_added(claim: &PersistentVolumeClaim) -> Event<'_> {
        let object = Object::PersistentVolumeClaim { old: None, new: Some(claim) };
        event(Resource::PersistentVolumeClaim, Action::ADD, object)
    }
}
