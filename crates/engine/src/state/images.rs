//! Container images and the nodes that have them.

use crate::index::NodeIdx;
use crate::map::Map;
use crate::object::{Image, Text};

/// One image name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// Size in bytes as the first node reported it; kept until the last node loses the image.
    pub size: i64,
    /// Nodes that have the image, in slot order.
    pub nodes: Vec<NodeIdx>,
}

/// All images present on nodes, by name.
#[derive(Clone, Debug, Default)]
pub struct Images(Map<Text, ImageState>);

impl Images {
    /// Returns an image by its normalised name.
    pub fn get(&self, name: &str) -> Option<&ImageState> {
        self.0.get(name)
    }

    /// Adds the images of a node.
    pub(crate) fn add(&mut self, node: NodeIdx, images: &[Image]) {
        for (name, size) in names(images) {
            let new = || ImageState { size, nodes: Vec::new() };
            let nodes = &mut self.0.get_or_insert_with(name.clone(), new).nodes;
            // A node may list the same name twice.
            if let Err(place) = nodes.binary_search(&node) {
                nodes.insert(place, node);
            }
        }
    }

    /// Removes the images of a node.
    pub(crate) fn remove(&mut self, node: NodeIdx, images: &[Image]) {
        for (name, _) in names(images) {
            let Some(state) = self.0.get_mut(name) else { continue };
            if let Ok(place) = state.nodes.binary_search(&node) {
                state.nodes.remove(place);
            }
            if state.nodes.is_empty() {
                self.0.remove(name);
            }
        }
    }
}

fn names(images: &[Image]) -> impl Iterator<Item = (&Text, i64)> {
    images.iter().flat_map(|image| image.names.iter().map(|name| (name, image.size)))
}

#[cfg(test)]
mod tests;
