//! Nodes. Those of one machine type mostly share their capacity, taints and conditions.

use engine::map::Map;
use engine::object::{AnnotationKeys, Digest, Image, Labels, Node};

use super::super::field_numbers::{container_image, metadata, node, node_status};
use super::super::{Lowered, Source};
use super::cache_key::{ALL_LEVELS, CacheKeyBuilder};
use super::{ENTRIES_MAX, KEY_BYTES_MAX, LoweringCache, OBJECT_BYTES_MAX};
use crate::lower;
use crate::protobuf::wire::{Payload, map_entry, next_field};
use crate::protobuf::{Error, schema};

impl LoweringCache {
    /// Lowers a node with the result of [`lower::node()`], and with its annotations.
    pub fn node(&mut self, source: Source<'_>) -> Lowered<Node> {
        let Self { keys, nodes, key, .. } = self;
        let Source::Protobuf(_, bytes) = source else { return lower::node_with(source, keys) };
        if bytes.len() > OBJECT_BYTES_MAX {
            return lower::node_with(source, keys);
        }
        let Ok(own) = split(bytes, key) else { return lower::node_with(source, keys) };
        if let Some(shared) = nodes.get(key.bytes())
            && own.is_canonical()
        {
            return (Some(own.lower(shared, keys)), Vec::new());
        }
        let (node, problems) = lower::node_with(source, keys);
        if let Some(node) = &node
            && problems.is_empty()
            && key.bytes().len() <= KEY_BYTES_MAX
        {
            if nodes.len() >= ENTRIES_MAX {
                *nodes = Map::default();
            }
            let shared = Node { images: Box::default(), ..node.clone() };
            nodes.insert(key.bytes().into(), shared);
        }
        (node, problems)
    }
}

/// The fields that are not shared.
#[derive(Default)]
struct PerNodeFields<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    annotations: Vec<(&'a str, &'a str)>,
    images: Vec<Image>,
}

impl PerNodeFields<'_> {
    /// Returns `true` if the node has a name and its annotations are sorted, as the API server
    /// writes them: their digest depends on the order.
    fn is_canonical(&self) -> bool {
        let annotations = self.annotations.is_sorted_by(|one, next| one.0 < next.0);
        !self.name.is_empty() && annotations
    }

    /// Combines own and shared fields.
    fn lower(self, shared: &Node, keys: &AnnotationKeys) -> Node {
        let annotations = if keys.nodes.is_empty() {
            Labels::default()
        } else {
            let pairs = self.annotations.iter();
            pairs.filter(|(key, _)| keys.nodes.contains(*key)).copied().collect()
        };
        Node {
            name: self.name.into(),
            labels: self.labels.into_iter().collect(),
            annotations,
            annotations_digest: Digest::of(self.annotations),
            images: self.images.into(),
            taints: shared.taints.clone(),
            unschedulable: shared.unschedulable,
            allocatable: shared.allocatable.clone(),
            allowed_pods: shared.allowed_pods,
            conditions: shared.conditions,
            declared_features: shared.declared_features.clone(),
        }
    }
}

/// Builds the key of a node and returns its own fields.
fn split<'a>(mut bytes: &'a [u8], key: &mut CacheKeyBuilder) -> Result<PerNodeFields<'a>, Error> {
    key.clear();
    let mut own = PerNodeFields::default();
    while let Some((number, payload)) = next_field(&mut bytes)? {
        match number {
            node::METADATA if !own.name.is_empty() => {
                return Err(Error::new("found metadata twice"));
            }
            node::METADATA => own.metadata(payload.bytes()?)?,
            node::SPEC => key.add(&schema::NODE, number, payload, ALL_LEVELS)?,
            node::STATUS => own.status(payload.bytes()?, key)?,
            _ => {}
        }
    }
    Ok(own)
}

impl<'a> PerNodeFields<'a> {
    fn metadata(&mut self, mut bytes: &'a [u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                metadata::NAME => self.name = payload.text()?,
                metadata::LABELS => self.labels.push(text_entry(payload)?),
                metadata::ANNOTATIONS => self.annotations.push(text_entry(payload)?),
                _ => {}
            }
        }
        Ok(())
    }

    fn status(&mut self, mut bytes: &'a [u8], key: &mut CacheKeyBuilder) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                node_status::IMAGES => self.images.push(image(payload)?),
                // All levels, which leaves out the heartbeats of conditions.
                _ => key.add(&schema::NODE_STATUS, number, payload, ALL_LEVELS)?,
            }
        }
        Ok(())
    }
}

/// Returns key and value of an entry of a map of strings.
fn text_entry(payload: Payload<'_>) -> Result<(&str, &str), Error> {
    let (key, value) = map_entry(payload)?;
    Ok((key.text()?, value.text()?))
}

fn image(payload: Payload<'_>) -> Result<Image, Error> {
    let (mut names, mut size) = (Vec::new(), 0);
    let mut bytes = payload.bytes()?;
    while let Some((number, payload)) = next_field(&mut bytes)? {
        match number {
            container_image::NAMES => names.push(payload.text()?.into()),
            container_image::SIZE_BYTES => size = payload.number()?.cast_signed(),
            _ => {}
        }
    }
    Ok(Image { names: names.into(), size })
}
