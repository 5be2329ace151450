//! Volume limits and attached volumes of CSI drivers, by node slot.

use crate::bitset::NodeSet;
use crate::index::NodeIdx;
use crate::object::{Text, VolumeSource};

use super::nodes::Nodes;
use super::volumes::Volumes;

/// A volume attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedVolume {
    /// Name of the driver.
    pub driver: Text,
    /// `volumeHandle`.
    pub handle: Text,
}

/// Volume limits and attached volumes of all nodes.
#[derive(Clone, Debug, Default)]
pub struct DriverLimits {
    registered: NodeSet,
    limited: NodeSet,
    /// Limits by slot, for each driver that has a limit on some node.
    limits: Vec<(Text, Vec<Option<i32>>)>,
    attached: Vec<Vec<AttachedVolume>>,
}

impl DriverLimits {
    pub(crate) fn new(nodes: &Nodes, volumes: &Volumes) -> Self {
        let mut all = Self {
            registered: NodeSet::new(nodes.slots()),
            limited: NodeSet::new(nodes.slots()),
            limits: Vec::new(),
            attached: Vec::new(),
        };
        for csi_node in volumes.csi_nodes.values() {
            let Some(node) = nodes.find(&csi_node.name) else { continue };
            all.registered.insert(node);
            for driver in &csi_node.drivers {
                if let Some(limit) = driver.limit {
                    all.limited.insert(node);
                    all.column(&driver.name, nodes.slots())[node.at()] = Some(limit);
                }
            }
        }
        all.attach(nodes, volumes);
        all
    }

    fn column(&mut self, driver: &str, slots: usize) -> &mut [Option<i32>] {
        let position = self.driver(driver).unwrap_or_else(|| {
            self.limits.push((driver.into(), vec![None; slots]));
            self.limits.len() - 1
        });
        &mut self.limits[position].1
    }

    fn attach(&mut self, nodes: &Nodes, volumes: &Volumes) {
        for attachment in volumes.attachments.values() {
            let volume = attachment.volume_name.as_ref().and_then(|v| volumes.volumes.get(v));
            let Some(VolumeSource::Csi { handle, .. }) = volume.map(|volume| &volume.source) else {
                continue;
            };
            let Some(node) = nodes.find(&attachment.node) else { continue };
            if attachment.attacher.is_empty() {
                continue;
            }
            self.attached.resize_with(nodes.slots(), Vec::new);
            let attached = &mut self.attached[node.at()];
            let volume =
                AttachedVolume { driver: attachment.attacher.clone(), handle: handle.clone() };
            if !attached.contains(&volume) {
                attached.push(volume);
            }
        }
    }

    /// Returns `true` if the node has a CSINode.
    pub fn is_registered(&self, node: NodeIdx) -> bool {
        self.registered.contains(node)
    }

    /// Returns `true` if a driver has a limit on the node.
    pub fn is_limited(&self, node: NodeIdx) -> bool {
        self.limited.contains(node)
    }

    /// Returns the position of a driver, or `None` if it has no limit on any node.
    pub fn driver(&self, name: &str) -> Option<usize> {
        self.limits.iter().position(|(driver, _)| **driver == *name)
    }

    /// Returns the limit of a driver, by its position, on a node.
    pub fn limit(&self, driver: usize, node: NodeIdx) -> Option<i32> {
        self.limits[driver].1.get(node.at()).copied().flatten()
    }

    /// Returns the distinct volumes attached to a node.
    pub fn attached(&self, node: NodeIdx) -> &[AttachedVolume] {
        self.attached.get(node.at()).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests;
