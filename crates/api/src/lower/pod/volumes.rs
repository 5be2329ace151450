//! Lowering of the volumes of a pod.

use engine::object::{InlineDisk, Volume};
use serde::Deserialize;

use super::super::raw::{List, Nullable, Str};

/// `volumes[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawVolume {
    pub(super) name: Str,
    aws_elastic_block_store: Option<RawVolumeSource>,
    azure_disk: Option<RawVolumeSource>,
    azure_file: Option<RawVolumeSource>,
    cinder: Option<RawVolumeSource>,
    csi: Option<RawVolumeSource>,
    empty_dir: Option<RawEmptyDir>,
    ephemeral: Option<RawVolumeSource>,
    gce_persistent_disk: Option<RawVolumeSource>,
    host_path: Option<RawVolumeSource>,
    pub(super) image: Option<RawImageVolume>,
    iscsi: Option<RawVolumeSource>,
    persistent_volume_claim: Option<RawVolumeSource>,
    portworx_volume: Option<RawVolumeSource>,
    rbd: Option<RawVolumeSource>,
    vsphere_volume: Option<RawVolumeSource>,
}

/// The union of the fields of all volume sources; each source has a few of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolumeSource {
    claim_name: Str,
    #[serde(rename = "diskURI")]
    disk_uri: Str,
    driver: Str,
    image: Str,
    iqn: Str,
    monitors: List<Str>,
    pd_name: Str,
    pool: Str,
    read_only: Nullable<bool>,
    secret_name: Str,
    share_name: Str,
    #[serde(rename = "volumeID")]
    volume_id: Str,
    volume_path: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawEmptyDir {
    medium: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawImageVolume {
    pub(super) reference: Str,
}

impl RawVolume {
    /// Returns the volume, or `None` if scheduling does not read volumes of this type.
    pub(super) fn lower(&self, pod: &str) -> Option<Volume> {
        if let Some(claim) = &self.persistent_volume_claim {
            return Some(Volume::Claim { name: claim.claim_name.0.clone() });
        }
        if self.ephemeral.is_some() {
            let volume = &*self.name.0;
            return Some(Volume::Ephemeral { claim: format!("{pod}-{volume}").into() });
        }
        self.disk().map(Volume::Inline)
    }

    /// Returns `true` if the data of the volume is on the node's disk.
    pub(super) fn is_local(&self) -> bool {
        let on_disk = |directory: &RawEmptyDir| &**directory.medium != "Memory";
        self.host_path.is_some() || self.empty_dir.as_ref().is_some_and(on_disk)
    }

    fn disk(&self) -> Option<InlineDisk> {
        let text = |text: &Str| text.0.clone();
        Some(if let Some(disk) = &self.gce_persistent_disk {
            let name = text(&disk.pd_name);
            InlineDisk::GcePersistentDisk { name, read_only: disk.read_only.0 }
        } else if let Some(disk) = &self.aws_elastic_block_store {
            let id = text(&disk.volume_id);
            InlineDisk::AwsElasticBlockStore { id, read_only: disk.read_only.0 }
        } else if let Some(disk) = &self.rbd {
            InlineDisk::Rbd {
                monitors: disk.monitors.iter().map(text).collect(),
                pool: text(&disk.pool),
                image: text(&disk.image),
                read_only: disk.read_only.0,
            }
        } else if let Some(disk) = &self.iscsi {
            InlineDisk::Iscsi { iqn: text(&disk.iqn), read_only: disk.read_only.0 }
        } else if let Some(disk) = &self.azure_disk {
            InlineDisk::AzureDisk { uri: text(&disk.disk_uri) }
        } else if let Some(disk) = &self.azure_file {
            InlineDisk::AzureFile { share: text(&disk.share_name), secret: text(&disk.secret_name) }
        } else if let Some(disk) = &self.cinder {
            InlineDisk::Cinder { id: text(&disk.volume_id) }
        } else if let Some(disk) = &self.vsphere_volume {
            InlineDisk::VsphereVolume { path: text(&disk.volume_path) }
        } else if let Some(disk) = &self.portworx_volume {
            InlineDisk::PortworxVolume { id: text(&disk.volume_id) }
        } else {
            InlineDisk::Csi { driver: text(&self.csi.as_ref()?.driver) }
        })
    }
}
