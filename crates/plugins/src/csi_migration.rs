//! Translation of in-tree volumes to the CSI drivers that replace them.

use std::borrow::Cow;

use engine::object::{
    InlineDisk, Labels, NodeTerm, Operator, PersistentVolume, Requirement, Text, VolumeSource,
};

pub(crate) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(crate) const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
/// Separator of the zones in a label with several.
pub(crate) const ZONE_DELIMITER: &str = "__";

const GCE: Migration = Migration {
    plugin: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    zone_key: Some("topology.gke.io/zone"),
};
const AWS: Migration = Migration {
    plugin: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    zone_key: Some("topology.ebs.csi.aws.com/zone"),
};
const AZURE_DISK: Migration =
    Migration { plugin: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com", zone_key: None };
const CINDER: Migration = Migration {
    plugin: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    zone_key: Some("topology.cinder.csi.openstack.org/zone"),
};
const PORTWORX: Migration = Migration {
    plugin: "kubernetes.io/portworx-volume",
    driver: "pxd.portworx.com",
    zone_key: None,
};
const MIGRATIONS: [Migration; 5] = [GCE, AWS, AZURE_DISK, CINDER, PORTWORX];
/// Plugins that have a CSI driver, but that the scheduler does not treat as migrated.
const NOT_MIGRATED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// An in-tree plugin and the CSI driver that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    /// Name of the plugin, which is also the provisioner in storage classes.
    pub(crate) plugin: &'static str,
    /// Name of the driver.
    pub(crate) driver: &'static str,
    /// Label in which the driver stores the zone of a node; `None` if node affinity is not translated.
    zone_key: Option<&'static str>,
}

/// The provisioner of a storage class.
pub(crate) enum Provisioner<'a> {
    /// A migrated in-tree plugin, with its CSI driver.
    Migrated(&'static str),
    /// An in-tree plugin whose volumes are not counted.
    NotMigrated,
    /// A CSI driver.
    Csi(&'a str),
}

/// Classifies the `provisioner` of a storage class.
pub(crate) fn provisioner(name: &str) -> Provisioner<'_> {
    if let Some(migration) = MIGRATIONS.iter().find(|migration| migration.plugin == name) {
        Provisioner::Migrated(migration.driver)
    } else if NOT_MIGRATED.contains(&name) {
        Provisioner::NotMigrated
    } else {
        Provisioner::Csi(name)
    }
}

/// Returns the migration of a persistent volume; `None` if it is not an in-tree volume.
pub(crate) fn of_source(source: &VolumeSource) -> Option<Migration> {
    match source {
        VolumeSource::GcePersistentDisk { .. } => Some(GCE),
        VolumeSource::AwsElasticBlockStore { .. } => Some(AWS),
        VolumeSource::AzureDisk { .. } => Some(AZURE_DISK),
        VolumeSource::Cinder { .. } => Some(CINDER),
        VolumeSource::PortworxVolume { .. } => Some(PORTWORX),
        VolumeSource::Csi { .. } | VolumeSource::Other => None,
    }
}

/// Returns the CSI handle of a volume, in-tree or CSI.
pub(crate) fn handle(volume: &PersistentVolume) -> Result<Cow<'_, str>, String> {
    match &volume.source {
        VolumeSource::Csi { handle, .. } => Ok(Cow::Borrowed(handle)),
        VolumeSource::GcePersistentDisk { name } => {
            gce_handle(&volume.labels, name).map(Cow::Owned)
        }
        VolumeSource::AwsElasticBlockStore { id } => aws_handle(id).map(Cow::Borrowed),
        VolumeSource::AzureDisk { uri, managed } => azure_handle(uri, *managed).map(Cow::Borrowed),
        VolumeSource::Cinder { id } | VolumeSource::PortworxVolume { id } => Ok(Cow::Borrowed(id)),
        VolumeSource::Other => Ok(Cow::Borrowed("")),
    }
}

/// Returns `true` if a CSI driver replaces the in-tree plugin of an inline disk.
pub(crate) fn is_migratable(disk: &InlineDisk) -> bool {
    inline_driver(disk).is_some()
}

/// Returns the CSI driver that replaces the in-tree plugin of an inline disk.
pub(crate) fn inline_driver(disk: &InlineDisk) -> Option<&'static str> {
    match disk {
        InlineDisk::GcePersistentDisk { .. } => Some(GCE.driver),
        InlineDisk::AwsElasticBlockStore { .. } => Some(AWS.driver),
        InlineDisk::AzureDisk { .. } => Some(AZURE_DISK.driver),
        InlineDisk::Cinder { .. } => Some(CINDER.driver),
        InlineDisk::PortworxVolume { .. } => Some(PORTWORX.driver),
        InlineDisk::AzureFile { .. } => Some("file.csi.azure.com"),
        InlineDisk::VsphereVolume { .. } => Some("csi.vsphere.vmware.com"),
        InlineDisk::Rbd { .. } | InlineDisk::Iscsi { .. } | InlineDisk::Csi { .. } => None,
    }
}

/// Returns driver and handle of an inline disk; `None` if it is not migrated.
pub(crate) fn inline_handle(
    disk: &InlineDisk,
) -> Option<Result<(&'static str, Cow<'_, str>), String>> {
    let (migration, handle) = match disk {
        InlineDisk::GcePersistentDisk { name, .. } => {
            (GCE, gce_handle(&Labels::default(), name).map(Cow::Owned))
        }
        InlineDisk::AwsElasticBlockStore { id, .. } => (AWS, aws_handle(id).map(Cow::Borrowed)),
        // The API server requires a URL for disks that are not managed.
        InlineDisk::AzureDisk { uri } => {
            (AZURE_DISK, azure_handle(uri, !uri.starts_with("http")).map(Cow::Borrowed))
        }
        InlineDisk::Cinder { id } => (CINDER, Ok(Cow::Borrowed(&**id))),
        InlineDisk::PortworxVolume { id } => (PORTWORX, Ok(Cow::Borrowed(&**id))),
        InlineDisk::AzureFile { .. }
        | InlineDisk::VsphereVolume { .. }
        | InlineDisk::Rbd { .. }
        | InlineDisk::Iscsi { .. }
        | InlineDisk::Csi { .. } => return None,
    };
    Some(handle.map(|handle| (migration.driver, handle)))
}

fn gce_handle(labels: &Labels, disk: &str) -> Result<String, String> {
    const UNSPECIFIED: &str = "UNSPECIFIED";
    let beta = labels.get(BETA_ZONE).filter(|zone| !zone.is_empty());
    let zones = beta.or_else(|| labels.get(ZONE)).unwrap_or("");
    if zones.contains(ZONE_DELIMITER) {
        let region = gce_region(zones)
            .map_err(|problem| format!("failed to get region from zones: {problem}"))?;
        return Ok(format!("projects/{UNSPECIFIED}/regions/{region}/disks/{disk}"));
    }
    let zone = if zones.is_empty() { UNSPECIFIED } else { zones };
    Ok(format!("projects/{UNSPECIFIED}/zones/{zone}/disks/{disk}"))
}

fn gce_region(zones: &str) -> Result<String, String> {
    let mut regions = Vec::new();
    for zone in zones.split(ZONE_DELIMITER) {
        let parts: Vec<_> = zone.split('-').collect();
        let [locale, region, _] = parts[..] else {
            let expected = "expected: {locale}-{region}-{zone}";
            return Err(format!("zone in unexpected format, {expected}, got: {zone}"));
        };
        regions.push(format!("{locale}-{region}"));
    }
    regions.sort_unstable();
    regions.dedup();
    if let [region] = &regions[..] {
        return Ok(region.clone());
    }
    let list: Vec<_> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    Err(format!("multiple or no regions gotten from zones, got: map[{}]", list.join(" ")))
}

/// Returns the id of a volume that may be given as a URL, `aws://<zone>/<id>`.
fn aws_handle(id: &str) -> Result<&str, String> {
    let Some(url) = id.strip_prefix("aws://") else { return Ok(id) };
    let url = url.split(['#', '?']).next().unwrap_or("");
    let path = url.find('/').map_or("", |slash| &url[slash..]).trim_matches('/');
    if path.starts_with("vol-") && !path.contains('/') {
        return Ok(path);
    }
    let problem = format!("Invalid format for AWS volume ({id})");
    Err(format!("failed to translate Kubernetes ID to EBS Volume ID {problem}"))
}

fn azure_handle(uri: &str, managed: bool) -> Result<&str, String> {
    // Disks that are not managed have the kind Shared by default, which has no CSI equivalent.
    if managed { Ok(uri) } else { Err("kind(Shared) is not supported in csi migration".to_owned()) }
}

/// Returns the node affinity of a volume with the driver's labels; `None` if it matches all nodes.
pub(crate) fn translated_affinity(
    migration: Migration,
    volume: &PersistentVolume,
) -> Option<Box<[NodeTerm]>> {
    let terms = volume.node_affinity.clone();
    let Some(zone_key) = migration.zone_key else { return terms };
    let has_key = |key: &str| {
        terms.iter().flatten().flat_map(|term| &term.expressions).any(|r| *r.key == *key)
    };
    let uses_beta = if has_key(ZONE) || has_key(BETA_ZONE) {
        !has_key(ZONE)
    } else {
        volume.labels.get(ZONE).is_none() && volume.labels.get(BETA_ZONE).is_some()
    };
    let zone_label = if uses_beta { BETA_ZONE } else { ZONE };
    let mut terms = terms;
    if has_values(terms.as_deref(), zone_label) {
        rename_key(terms.as_deref_mut(), zone_label, zone_key);
    } else if let Some(zones) = volume.labels.get(zone_label) {
        terms = add_zones(terms, zone_key, zones);
    }
    if uses_beta && has_values(terms.as_deref(), BETA_REGION) {
        rename_key(terms.as_deref_mut(), BETA_REGION, REGION);
    }
    terms
}

fn has_values(terms: Option<&[NodeTerm]>, key: &str) -> bool {
    let expressions = terms.into_iter().flatten().flat_map(|term| &term.expressions);
    expressions.filter(|r| *r.key == *key).any(|requirement| !requirement.values.is_empty())
}

fn rename_key(terms: Option<&mut [NodeTerm]>, old: &str, new: &str) {
    for term in terms.into_iter().flatten() {
        for requirement in term.expressions.iter_mut().filter(|r| *r.key == *old) {
            requirement.key = new.into();
        }
    }
}

fn add_zones(
    terms: Option<Box<[NodeTerm]>>,
    zone_key: &str,
    zones: &str,
) -> Option<Box<[NodeTerm]>> {
    let mut values: Vec<Text> = zones
        .split(ZONE_DELIMITER)
        .map(str::trim)
        .filter(|z| !z.is_empty())
        .map(Text::from)
        .collect();
    values.sort_unstable();
    values.dedup();
    if values.is_empty() {
        return terms;
    }
    let zone = Requirement {
        key: zone_key.into(),
        operator: Operator::In,
        values: values.into_boxed_slice(),
    };
    let mut terms = terms.unwrap_or_default().into_vec();
    if terms.is_empty() {
        let (expressions, fields) = (Box::default(), Box::default());
        terms.push(NodeTerm { expressions, fields, malformed: false });
    }
    for term in &mut terms {
        let expressions = std::mem::take(&mut term.expressions).into_vec();
        term.expressions = expressions.into_iter().chain([zone.clone()]).collect();
    }
    Some(terms.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_claims::testing::{term, volume};
    use engine::testing::labels;

    fn gce(pairs: &[(&str, &str)]) -> PersistentVolume {
        let source = VolumeSource::GcePersistentDisk { name: "d".into() };
        PersistentVolume { source, labels: labels(pairs), ..volume("v", "", 1) }
    }

    #[test]
    fn gce_handles_name_the_zone_or_region() {
        let handle = |pairs: &[(&str, &str)]| handle(&gce(pairs)).map(Cow::into_owned);
        assert_eq!(handle(&[]).unwrap(), "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d");
        assert_eq!(
            handle(&[(BETA_ZONE, "us-a1-b"), (ZONE, "x")]).unwrap(),
            "projects/UNSPECIFIED/zones/us-a1-b/disks/d"
        );
        assert_eq!(
            handle(&[(ZONE, "us-a1-b__us-a1-c")]).unwrap(),
            "projects/UNSPECIFIED/regions/us-a1/disks/d"
        );
        assert_eq!(
            handle(&[(ZONE, "us-a1-b__us-a2-c")]).unwrap_err(),
            "failed to get region from zones: \
             multiple or no regions gotten from zones, got: map[us-a1:{} us-a2:{}]"
        );
        assert_eq!(
            handle(&[(ZONE, "a__b")]).unwrap_err(),
            "failed to get region from zones: \
             zone in unexpected format, expected: {locale}-{region}-{zone}, got: a"
        );
    }

    #[test]
    fn aws_ids_may_be_urls() {
        for id in ["vol-1", "aws:///vol-1", "aws://us-east-1a/vol-1", "aws://us-east-1a/vol-1/"] {
            assert_eq!(aws_handle(id).unwrap(), "vol-1", "{id}");
        }
        assert_eq!(aws_handle("anything").unwrap(), "anything");
        for id in ["aws://us-east-1a/disk-1", "aws://us-east-1a", "aws://z/vol-1/2"] {
            assert!(aws_handle(id).is_err(), "{id}");
        }
    }

    #[test]
    fn affinity_is_translated_to_the_drivers_keys() {
        let affinity = |volume: &PersistentVolume| translated_affinity(GCE, volume);
        let key = GCE.zone_key.unwrap();
        assert_eq!(affinity(&gce(&[])), None);
        let by_label = gce(&[(BETA_ZONE, "b__ a__")]);
        assert_eq!(affinity(&by_label), Some([term(key, &["a", "b"])].into()));
        let by_terms = PersistentVolume {
            node_affinity: Some([term(BETA_ZONE, &["z"]), term(BETA_REGION, &["r"])].into()),
            ..gce(&[(ZONE, "ignored")])
        };
        assert_eq!(affinity(&by_terms), Some([term(key, &["z"]), term(REGION, &["r"])].into()));
        let other_terms = PersistentVolume {
            node_affinity: Some([term("k", &["v"])].into()),
            ..gce(&[(ZONE, "a")])
        };
        let both = [term("k", &["v"]).expressions, term(key, &["a"]).expressions].concat();
        let expected = NodeTerm { expressions: both.into(), ..term("k", &["v"]) };
        assert_eq!(affinity(&other_terms), Some([expected].into()));
        assert_eq!(translated_affinity(AZURE_DISK, &by_label), None);
    }
}
