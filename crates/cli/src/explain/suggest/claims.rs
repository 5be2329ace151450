//! Suggestions about the pod's volumes and claims.

use std::collections::BTreeMap;

use engine::object::{BindingMode, ClaimPhase, PersistentVolumeClaim, Volume};

use super::Suggestion;
use super::amount::exact;
use super::nearest::nearest;
use super::question::{Question, clipped};

const PLUGINS: [&str; 4] =
    ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];

/// Maximum number of volumes that are tried; real pods have a handful.
const VOLUMES_TRIED_MAX: usize = 32;

/// Returns suggestions about missing objects, and about volumes that reject nodes.
pub(super) fn suggestions(question: &mut Question) -> (Vec<Suggestion>, Vec<Suggestion>) {
    let (mut missing, mut found) = (Vec::new(), Vec::new());
    if !question.is_blocked_by(&PLUGINS) {
        return (missing, found);
    }
    let volumes = question.class.spec.volumes.clone();
    for (position, volume) in volumes.iter().take(VOLUMES_TRIED_MAX).enumerate() {
        let nodes = question.opened_by(|spec| {
            let mut rest = volumes.to_vec();
            rest.remove(position);
            spec.volumes = rest.into();
        });
        let opened = nodes.count();
        let opens = match opened {
            0 => String::new(),
            _ => format!(": opens up to {}", question.count(&nodes)),
        };
        if let Some(text) = missing_object(question, volume) {
            missing.push(Suggestion { opened, text: format!("{text}{opens}") });
        } else if opened > 0 {
            let text = format!("{}{opens}", rejecting_volume(question, volume));
            found.push(Suggestion { opened, text });
        }
    }
    (missing, found)
}

fn claim_name(volume: &Volume) -> Option<&str> {
    match volume {
        Volume::Claim { name } => Some(name),
        Volume::Ephemeral { claim } => Some(claim),
        Volume::Inline(_) => None,
    }
}

fn missing_object(question: &Question, volume: &Volume) -> Option<String> {
    let name = claim_name(volume)?;
    let (state, namespace) = (&question.state, &question.class.namespace);
    let shown = format!("PersistentVolumeClaim {namespace}/{}", clipped(name));
    let Some(claim) = state.volumes.claim(namespace, name) else {
        if matches!(volume, Volume::Ephemeral { .. }) {
            return Some(format!("wait until {shown} is created for the ephemeral volume"));
        }
        let claims = state.volumes.claims.in_namespace(namespace);
        let known: BTreeMap<&str, usize> = claims.map(|claim| (&*claim.name, 1)).collect();
        let near = nearest(name, &known);
        let near =
            near.map_or(String::new(), |(_, near)| format!(" (did you mean {}?)", clipped(near)));
        return Some(format!("create {shown}, which does not exist{near}"));
    };
    if claim.deleting {
        return Some(format!("create {shown} again, which is being deleted"));
    }
    if claim.phase == ClaimPhase::Lost {
        return Some(format!(
            "restore PersistentVolume {}, to which {shown} was bound",
            clipped(&claim.volume_name)
        ));
    }
    let volume = &claim.volume_name;
    if !volume.is_empty() && state.volumes.volumes.get(volume).is_none() {
        return Some(format!(
            "restore PersistentVolume {}, which {shown} names and which does not exist",
            clipped(volume)
        ));
    }
    if claim.is_bound() {
        return None;
    }
    let (class, size) = (claim.class(), size(claim));
    match state.volumes.classes.get(class) {
        None if class.is_empty() => Some(format!(
            "create a PersistentVolume{size} without a class for {shown}, which is not bound"
        )),
        None => Some(format!("create StorageClass {}, which {shown} names", clipped(class))),
        Some(found) if found.binding_mode != Some(BindingMode::WaitForFirstConsumer) => {
            Some(format!(
                "create a PersistentVolume{size} of class {} for {shown}, which is not bound and does not wait for the pod",
                clipped(class)
            ))
        }
        Some(_) => None,
    }
}

fn rejecting_volume(question: &Question, volume: &Volume) -> String {
    let Some(name) = claim_name(volume) else {
        return "drop the inline volume of the pod".to_owned();
    };
    let namespace = &question.class.namespace;
    let shown = format!("PersistentVolumeClaim {namespace}/{}", clipped(name));
    match question.state.volumes.claim(namespace, name) {
        Some(claim) if !claim.is_bound() => {
            let (class, size) = (clipped(claim.class()), size(claim));
            format!(
                "create a PersistentVolume{size} of class {class} that these nodes can use for {shown}"
            )
        }
        Some(claim) => format!(
            "drop {shown}, whose PersistentVolume {} cannot be used on these nodes",
            clipped(&claim.volume_name)
        ),
        None => format!("drop {shown}"),
    }
}

fn size(claim: &PersistentVolumeClaim) -> String {
    claim.request.map_or(String::new(), |bytes| format!(" of {}", exact("memory", bytes)))
}
