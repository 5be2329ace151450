//! The state of a pod's claims: bound, to be bound with the pod, or unusable.

use engine::framework::Rejection;
use engine::object::{BindingMode, ClaimPhase, PersistentVolumeClaim, Volume};
use engine::state::volumes::Volumes;

use crate::volume_claims::{Consumer, claim_name, not_found};

/// The claims of a pod, all of them usable.
pub(super) struct PodClaims<'a> {
    /// Bound to a volume, whose node affinity must match the node.
    pub(super) bound: Vec<&'a PersistentVolumeClaim>,
    /// To be bound when the pod is placed (WaitForFirstConsumer).
    pub(super) delayed: Vec<&'a PersistentVolumeClaim>,
}

/// Classifies the claims of a pod, or returns the rejection of the pod if one is unusable.
pub(super) fn classify<'a>(
    consumer: &Consumer,
    volumes: &'a Volumes,
) -> Result<PodClaims<'a>, Rejection> {
    let mut found = Vec::new();
    for volume in &consumer.spec.volumes {
        let Some(name) = claim_name(volume) else { continue };
        let claim = volumes.claim(&consumer.namespace, name);
        found.push(check(consumer, volume, name, claim).map_err(Rejection::unresolvable)?);
    }
    let mut claims = PodClaims { bound: Vec::new(), delayed: Vec::new() };
    let mut has_unbound_immediate = false;
    for claim in found {
        if claim.is_bound() {
            claims.bound.push(claim);
        } else if is_delayed(claim, volumes)? && claim.volume_name.is_empty() {
            claims.delayed.push(claim);
        } else {
            has_unbound_immediate = true;
        }
    }
    if has_unbound_immediate {
        return Err(Rejection::unresolvable("pod has unbound immediate PersistentVolumeClaims"));
    }
    Ok(claims)
}

fn check<'a>(
    consumer: &Consumer,
    volume: &Volume,
    name: &str,
    claim: Option<&'a PersistentVolumeClaim>,
) -> Result<&'a PersistentVolumeClaim, String> {
    let ephemeral = matches!(volume, Volume::Ephemeral { .. });
    let Some(claim) = claim else {
        return Err(if ephemeral {
            format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
            )
        } else {
            not_found(name)
        });
    };
    if claim.phase == ClaimPhase::Lost {
        return Err(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"",
            claim.volume_name
        ));
    }
    if claim.deleting {
        return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if ephemeral {
        consumer.check_owner(claim)?;
    }
    Ok(claim)
}

/// Returns `true` if the claim is bound only when a pod that uses it is placed.
fn is_delayed(claim: &PersistentVolumeClaim, volumes: &Volumes) -> Result<bool, Rejection> {
    let Some(class) = volumes.classes.get(claim.class()) else { return Ok(false) };
    let unset = || format!("VolumeBindingMode not set for StorageClass \"{}\"", class.name);
    let mode = class.binding_mode.ok_or_else(|| Rejection::error(unset()))?;
    Ok(mode == BindingMode::WaitForFirstConsumer)
}
