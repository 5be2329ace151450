//! The CSI driver and handle of each volume of a pod.

use std::borrow::Cow;

use engine::object::{PersistentVolumeClaim, Uid, Volume, VolumeSource};
use engine::state::volumes::Volumes;

use crate::csi_migration::{self, Provisioner};
use crate::volume_claims::check_owner;

/// Prefix of the placeholder handle of a volume that does not exist yet. No driver has such handles.
const UNBOUND_PREFIX: &str = "\0unbound ";

/// The fields of a pod that identify the owner of a claim.
pub(super) struct PodIdentity<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a Uid,
}

/// Error of [`handle_of_volume`].
pub(super) enum HandleError<'a> {
    /// The claim of this name does not exist.
    ClaimNotFound(&'a str),
    /// Any other error, with upstream's message.
    Other(String),
}

/// A driver and the handle of a volume.
pub(super) type DriverHandle<'a> = (&'a str, Cow<'a, str>);

/// Returns driver and handle of a pod's volume; `None` if it does not count.
pub(super) fn handle_of_volume<'a>(
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

/// Returns a placeholder handle: a volume that does not exist yet counts for the driver of its class.
fn handle_of_class<'a>(
    claim: &'a PersistentVolumeClaim,
    registered: bool,
    volumes: &'a Volumes,
) -> Option<DriverHandle<'a>> {
    let class = volumes.classes.get(claim.class())?;
    let driver = match csi_migration::provisioner(&class.provisioner) {
        Provisioner::Migrated(driver) if registered => driver,
        Provisioner::Migrated(_) | Provisioner::NotMigrated => return None,
        Provisioner::Csi(driver) => driver,
    };
    Some((driver, Cow::Owned(format!("{UNBOUND_PREFIX}{}/{}", claim.namespace, claim.name))))
}
