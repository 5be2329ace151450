//! Which images are on how many nodes.

use crate::map::Map;
use crate::object::{Image, Text};

/// An image known under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// Size in bytes as the first node reported it; kept until no node has the image.
    pub size: i64,
    /// How many nodes have it.
    pub nodes: u32,
}

/// All images on nodes, by name.
#[derive(Clone, Debug, Default)]
pub struct Images(Map<Text, ImageState>);

impl Images {
    /// Looks an image up by its normalised name.
    pub fn get(&self, name: &str) -> Option<ImageState> {
        self.0.get(name).copied()
    }

    /// Counts the images of a node.
    pub(crate) fn add(&mut self, images: &[Image]) {
        for (name, size) in distinct(images) {
            let state = self.0.get_or_insert_with(name.clone(), || ImageState { size, nodes: 0 });
            state.nodes += 1;
        }
    }

    /// Takes the images of a node out of the count.
    pub(crate) fn remove(&mut self, images: &[Image]) {
        for (name, _) in distinct(images) {
            let Some(state) = self.0.get_mut(name) else { continue };
            state.nodes -= 1;
            if state.nodes == 0 {
                self.0.remove(name);
            }
        }
    }
}

/// Each name once, even when a node lists it twice.
fn distinct(images: &[Image]) -> Vec<(&Text, i64)> {
    let mut seen: Vec<(&Text, i64)> = Vec::new();
    for image in images {
        for name in &image.names {
            seen.push((name, image.size));
        }
    }
    seen.sort_by_key(|(name, _)| *name);
    seen.dedup_by_key(|(name, _)| *name);
    seen
}
