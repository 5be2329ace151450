//! What siblings share is lowered once.
//!
//! Nearly all pods have siblings, and each pod is seen again and again while it lives, with a spec
//! that stays the same. Of a pod in protobuf form, all that its spec is lowered from is put
//! together. A spec that was lowered from the same is used again, and what is the pod's own is read
//! in the same pass.
//! Nodes are read in this way as well.

mod cache_key;
mod node;

use std::sync::Arc;

use engine::map::Map;
use engine::object::{Labels, Node, Pod, PodSpec, Text};

use super::limits::{LIST_ENTRIES_MAX, MAP_BYTES_MAX};
use super::{Lowered, Source, raw};
use crate::protobuf::wire::{Payload, find_field, next_field, seconds_and_nanoseconds};
use crate::protobuf::{Error, schema};
use cache_key::{ALL, CacheKeyBuilder};

#[cfg(test)]
mod tests;

/// Families that are remembered; beyond that all are forgotten.
const ENTRIES_MAX: usize = 256;

/// Bytes of what one of them was lowered from.
const KEY_BYTES_MAX: usize = 16 << 10;

/// Bytes of an object that may have siblings. An entry of a list takes two, so that no list of it
/// is too long, and neither is a map.
const BYTES_MAX: usize = 2 * LIST_ENTRIES_MAX;

const _: () = assert!(BYTES_MAX <= MAP_BYTES_MAX);

/// Lowers pods and nodes, and remembers what they share.
#[derive(Default)]
pub struct LoweringCache {
    /// By what it was lowered from.
    pods: Map<Box<[u8]>, SharedPodFields>,
    /// The specs of it, equal ones once: labels change when a pod comes to a node, its spec does
    /// not.
    specs: Map<Arc<PodSpec>, Arc<PodSpec>>,
    /// Of each family of nodes one, without what is its own, by what it was lowered from.
    nodes: Map<Box<[u8]>, Node>,
    /// To put that together in.
    key: CacheKeyBuilder,
}

/// What pods that are siblings have in common.
struct SharedPodFields {
    namespace: Text,
    labels: Labels,
    spec: Arc<PodSpec>,
}

impl LoweringCache {
    /// Lowers a pod, as [`super::pod`] does.
    pub fn pod(&mut self, source: Source<'_>) -> Lowered<Pod> {
        let Source::Protobuf(_, bytes) = source else { return super::pod(source) };
        let Self { pods, specs, key, .. } = self;
        let Ok(Some(own)) = split(bytes, key) else { return super::pod(source) };
        if let Some(shared) = pods.get(key.bytes())
            && let Some(lowered) = own.lower(shared)
        {
            return lowered;
        }
        let (mut pod, problems) = super::pod(source);
        if let Some(pod) = &mut pod
            && problems.is_empty()
            && key.bytes().len() <= KEY_BYTES_MAX
        {
            if pods.len() >= ENTRIES_MAX {
                (*pods, *specs) = Default::default();
            }
            let equal = specs.get_or_insert_with(Arc::clone(&pod.spec), || Arc::clone(&pod.spec));
            pod.spec = Arc::clone(equal);
            let Pod { namespace, labels, spec, .. } = pod.clone();
            pods.insert(key.bytes().into(), SharedPodFields { namespace, labels, spec });
        }
        (pod, problems)
    }
}

/// Puts together all that siblings share. What is the pod's own; `None` if no sibling can have the
/// same.
fn split<'a>(
    pod: &'a [u8],
    shared: &mut CacheKeyBuilder,
) -> Result<Option<PerPodFields<'a>>, Error> {
    shared.clear();
    if pod.len() > BYTES_MAX {
        return Ok(None);
    }
    let mut split = PodSplitter { shared, own: PerPodFields::default() };
    Ok(split.pod(pod)?.then_some(split.own))
}

/// What is a pod's own.
#[derive(Default)]
struct PerPodFields<'a> {
    name: &'a str,
    uid: &'a str,
    version: &'a str,
    generation: i64,
    created: Time,
    deleted: Time,
    node: &'a str,
    priority: i64,
    gates: Vec<&'a str>,
    phase: &'a str,
    started: Time,
    nominated_node: &'a str,
    preempted: bool,
}

/// Seconds and nanoseconds since the epoch, both zero if there is none.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Time(i64, i64);

impl Time {
    fn read(payload: Payload<'_>) -> Result<Self, Error> {
        seconds_and_nanoseconds(payload).map(|(seconds, nanos)| Self(seconds, nanos))
    }

    fn is_set(self) -> bool {
        self != Self::default()
    }

    /// Nanoseconds since the epoch; `None` if it is none of these centuries.
    fn nanoseconds(self) -> Option<i64> {
        let usual = (0..1 << 32).contains(&self.0) && (0..1_000_000_000).contains(&self.1);
        usual.then(|| self.0 * 1_000_000_000 + self.1)
    }
}

impl PerPodFields<'_> {
    /// The pod; `None` if something is odd.
    fn lower(&self, shared: &SharedPodFields) -> Option<Lowered<Pod>> {
        if self.name.is_empty() || self.uid.is_empty() {
            return None;
        }
        if matches!(self.phase, "Succeeded" | "Failed") {
            return Some((None, Vec::new()));
        }
        let pod = Pod {
            namespace: shared.namespace.clone(),
            name: self.name.into(),
            uid: self.uid.into(),
            labels: shared.labels.clone(),
            priority: self.priority.try_into().ok()?,
            node: self.node.into(),
            nominated_node: self.nominated_node.into(),
            gates: self.gates.iter().map(|gate| (*gate).into()).collect(),
            terminating: self.deleted.is_set(),
            preempted: self.preempted,
            start_time: if self.started.is_set() {
                Some(self.started.nanoseconds()?)
            } else {
                None
            },
            creation_time: self.created.nanoseconds()?,
            resource_version: raw::version(self.version),
            generation: self.generation,
            spec: Arc::clone(&shared.spec),
        };
        Some((Some(pod), Vec::new()))
    }
}

/// Goes through a pod once. All that is read of it is either shared or the pod's own.
struct PodSplitter<'a, 's> {
    shared: &'s mut CacheKeyBuilder,
    own: PerPodFields<'a>,
}

impl<'a> PodSplitter<'a, '_> {
    /// Whether siblings can have the same.
    fn pod(&mut self, mut pod: &'a [u8]) -> Result<bool, Error> {
        while let Some((number, payload)) = next_field(&mut pod)? {
            match number {
                1 => self.metadata(payload.bytes()?)?,
                2 if !self.spec(payload.bytes()?)? => return Ok(false),
                3 => self.status(payload.bytes()?)?,
                _ => {}
            }
        }
        Ok(true)
    }

    /// Shared are namespace, labels and owners.
    fn metadata(&mut self, mut metadata: &'a [u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut metadata)? {
            match number {
                1 => self.own.name = payload.text()?,
                5 => self.own.uid = payload.text()?,
                6 => self.own.version = payload.text()?,
                7 => self.own.generation = payload.number()?.cast_signed(),
                8 => self.own.created = Time::read(payload)?,
                9 => self.own.deleted = Time::read(payload)?,
                3 | 11 | 13 => self.shared.take(&schema::OBJECT_META, number, payload, 0)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Shared is all but the node, the priority and the gates. Whether siblings can have the same.
    fn spec(&mut self, mut spec: &'a [u8]) -> Result<bool, Error> {
        while let Some((number, payload)) = next_field(&mut spec)? {
            match number {
                1 => match find_field(payload.bytes()?, 2)? {
                    Some(source) if is_ephemeral(source.bytes()?)? => return Ok(false),
                    // Each pod has a volume with its token, whose name is the pod's own.
                    Some(source) if !is_known(source.bytes()?)? => {}
                    _ => self.shared.take(&schema::POD_SPEC, number, payload, 0)?,
                },
                // Where the token is mounted is the pod's own.
                2 | 20 => self.shared.take(&schema::POD_SPEC, number, payload, 1)?,
                10 => self.own.node = payload.text()?,
                25 => self.own.priority = payload.number()?.cast_signed(),
                38 => {
                    let name = find_field(payload.bytes()?, 1)?;
                    self.own.gates.push(name.map_or(Ok(""), Payload::text)?);
                }
                _ => self.shared.take(&schema::POD_SPEC, number, payload, 0)?,
            }
        }
        Ok(true)
    }

    /// Shared is what is allocated to the pod, and whether it cannot be resized.
    fn status(&mut self, mut status: &'a [u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut status)? {
            match number {
                1 => self.own.phase = payload.text()?,
                2 => self.condition(payload)?,
                7 => self.own.started = Time::read(payload)?,
                11 => self.own.nominated_node = payload.text()?,
                8 | 10 | 19 | 20 => self.shared.take(&schema::POD_STATUS, number, payload, ALL)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn condition(&mut self, payload: Payload<'a>) -> Result<(), Error> {
        let (mut kind, mut status, mut reason) = ("", "", "");
        let mut condition = payload.bytes()?;
        while let Some((number, payload)) = next_field(&mut condition)? {
            match number {
                1 => kind = payload.text()?,
                2 => status = payload.text()?,
                5 => reason = payload.text()?,
                _ => {}
            }
        }
        match (kind, status, reason) {
            ("PodResizePending", ..) => {
                self.shared.take(&schema::POD_STATUS, 2, payload, ALL)?;
            }
            ("DisruptionTarget", "True", "PreemptionByScheduler") => self.own.preempted = true,
            _ => {}
        }
        Ok(())
    }
}

/// Whether a volume's claim is named after its pod.
fn is_ephemeral(source: &[u8]) -> Result<bool, Error> {
    Ok(find_field(source, 29)?.is_some())
}

/// Whether scheduling reads a kind of volume.
fn is_known(mut source: &[u8]) -> Result<bool, Error> {
    while let Some((number, _)) = next_field(&mut source)? {
        if schema::VOLUME_SOURCE.reads(number) {
            return Ok(true);
        }
    }
    Ok(false)
}
