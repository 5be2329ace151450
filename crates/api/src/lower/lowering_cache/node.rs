//! Nodes. Those of one family have the same size, taints and conditions.

use engine::map::Map;
use engine::object::{Digest, Image, Node};

use super::super::{Lowered, Source};
use super::cache_key::{ALL, CacheKeyBuilder};
use super::{BYTES_MAX, ENTRIES_MAX, KEY_BYTES_MAX, LoweringCache};
use crate::lower;
use crate::protobuf::wire::{Payload, next_field};
use crate::protobuf::{Error, schema};

impl LoweringCache {
    /// Lowers a node, as [`lower::node`] does.
    pub fn node(&mut self, source: Source<'_>) -> Lowered<Node> {
        let Source::Protobuf(_, bytes) = source else { return lower::node(source) };
        let Self { nodes, key, .. } = self;
        if bytes.len() > BYTES_MAX {
            return lower::node(source);
        }
        let Ok(own) = split(bytes, key) else { return lower::node(source) };
        if let Some(sibling) = nodes.get(key.bytes())
            && own.is_usual()
        {
            return (Some(own.lower(sibling)), Vec::new());
        }
        let (node, problems) = lower::node(source);
        if let Some(node) = &node
            && problems.is_empty()
            && key.bytes().len() <= KEY_BYTES_MAX
        {
            if nodes.len() >= ENTRIES_MAX {
                *nodes = Map::default();
            }
            let sibling = Node { images: Box::default(), ..node.clone() };
            nodes.insert(key.bytes().into(), sibling);
        }
        (node, problems)
    }
}

/// What is a node's own.
#[derive(Default)]
struct PerNodeFields<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    annotations: Vec<(&'a str, &'a str)>,
    images: Vec<Image>,
}

impl PerNodeFields<'_> {
    /// Whether all is as API servers write it.
    fn is_usual(&self) -> bool {
        let annotations = self.annotations.is_sorted_by(|one, next| one.0 < next.0);
        !self.name.is_empty() && annotations
    }

    fn lower(self, sibling: &Node) -> Node {
        Node {
            name: self.name.into(),
            labels: self.labels.into_iter().collect(),
            annotations: Digest::of(self.annotations),
            images: self.images.into(),
            taints: sibling.taints.clone(),
            unschedulable: sibling.unschedulable,
            allocatable: sibling.allocatable.clone(),
            allowed_pods: sibling.allowed_pods,
            conditions: sibling.conditions,
            declared_features: sibling.declared_features.clone(),
        }
    }
}

/// Puts together all that siblings share. What is the node's own.
fn split<'a>(mut node: &'a [u8], shared: &mut CacheKeyBuilder) -> Result<PerNodeFields<'a>, Error> {
    shared.clear();
    let mut own = PerNodeFields::default();
    while let Some((number, payload)) = next_field(&mut node)? {
        match number {
            1 if !own.name.is_empty() => return Err(Error::new("found metadata twice")),
            1 => own.metadata(payload.bytes()?)?,
            2 => shared.take(&schema::NODE, number, payload, ALL)?,
            3 => own.status(payload.bytes()?, shared)?,
            _ => {}
        }
    }
    Ok(own)
}

impl<'a> PerNodeFields<'a> {
    fn metadata(&mut self, mut metadata: &'a [u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut metadata)? {
            match number {
                1 => self.name = payload.text()?,
                11 => self.labels.push(pair(payload)?),
                12 => self.annotations.push(pair(payload)?),
                _ => {}
            }
        }
        Ok(())
    }

    fn status(&mut self, mut status: &'a [u8], shared: &mut CacheKeyBuilder) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut status)? {
            match number {
                8 => self.images.push(image(payload)?),
                // Of conditions their times are left out.
                _ => shared.take(&schema::NODE_STATUS, number, payload, ALL)?,
            }
        }
        Ok(())
    }
}

/// An entry of a map.
fn pair(payload: Payload<'_>) -> Result<(&str, &str), Error> {
    let (mut key, mut value) = ("", "");
    let mut entry = payload.bytes()?;
    while let Some((number, payload)) = next_field(&mut entry)? {
        match number {
            1 => key = payload.text()?,
            2 => value = payload.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn image(payload: Payload<'_>) -> Result<Image, Error> {
    let (mut names, mut size) = (Vec::new(), 0);
    let mut image = payload.bytes()?;
    while let Some((number, payload)) = next_field(&mut image)? {
        match number {
            1 => names.push(payload.text()?.into()),
            2 => size = payload.number()?.cast_signed(),
            _ => {}
        }
    }
    Ok(Image { names: names.into(), size })
}
