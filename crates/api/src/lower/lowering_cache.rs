//! What siblings share is lowered once.
//!
//! Nearly all pods have siblings, and each pod is seen again and again while it lives, with a spec
//! that stays the same. Of a pod in protobuf form, all that its spec is lowered from is put
//! together. A spec that was lowered from the same is used again, and what is the pod's own is read
//! in the same pass.
//! Nodes are read in this way as well. Most pods are not even gone through: see [`alike`].

mod alike;
mod cache_key;
mod node;

use std::sync::Arc;

use engine::map::Map;
use engine::object::{Labels, Node, Pod, PodSpec, Text};

use super::limits::{LIST_ENTRIES_MAX, MAP_BYTES_MAX};
use super::{Lowered, Source, raw};
use crate::protobuf::wire::{Payload, find_field, next_field, seconds_and_nanoseconds};
use crate::protobuf::{Error, schema};
use alike::{Alike, Place, Places};
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
    alike: Alike,
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
        if let Some(pod) = self.alike.lower(bytes) {
            return (Some(pod), Vec::new());
        }
        let Ok(Some(own)) = split(bytes, &mut self.key) else { return super::pod(source) };
        let (pod, problems) = self.lower_cached(source, &own);
        if let Some(pod) = &pod
            && problems.is_empty()
            && own.is_named()
            && !own.is_resizing
        {
            self.alike.add(bytes, self.key.skipped_ranges(), &own, pod);
        }
        (pod, problems)
    }

    /// Lowers a pod of which all that siblings share was put together.
    fn lower_cached(&mut self, source: Source<'_>, own: &PerPodFields<'_>) -> Lowered<Pod> {
        let Self { pods, specs, key, .. } = self;
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
    shared.begin(pod);
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
    is_resizing: bool,
    places: Places,
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
    fn is_named(&self) -> bool {
        !self.name.is_empty() && !self.uid.is_empty()
    }

    /// The pod; `None` if something is odd.
    fn lower(&self, shared: &SharedPodFields) -> Option<Lowered<Pod>> {
        if !self.is_named() {
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
                1 => (self.own.name, self.own.places.name) = self.text(payload)?,
                5 => (self.own.uid, self.own.places.uid) = self.text(payload)?,
                6 => (self.own.version, self.own.places.version) = self.text(payload)?,
                7 => self.own.generation = payload.number()?.cast_signed(),
                8 => (self.own.created, self.own.places.created) = self.time(payload)?,
                9 => self.own.deleted = Time::read(payload)?,
                3 | 11 | 13 => self.shared.take(&schema::OBJECT_META, number, payload, 0)?,
                _ => self.skip(payload),
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
                    Some(source) if !is_known(source.bytes()?)? => {
                        find_field(payload.bytes()?, 1)?
                            .into_iter()
                            .for_each(|name| self.skip(name));
                    }
                    _ => self.shared.take(&schema::POD_SPEC, number, payload, 0)?,
                },
                // Where the token is mounted is the pod's own.
                2 | 20 => self.shared.take(&schema::POD_SPEC, number, payload, 1)?,
                10 => (self.own.node, self.own.places.node) = self.text(payload)?,
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
                7 => (self.own.started, self.own.places.started) = self.time(payload)?,
                11 => self.own.nominated_node = payload.text()?,
                8 | 10 | 19 | 20 => self.shared.take(&schema::POD_STATUS, number, payload, ALL)?,
                _ => self.skip(payload),
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
                _ => self.skip(payload),
            }
        }
        match (kind, status, reason) {
            ("PodResizePending", ..) => {
                self.own.is_resizing = true;
                self.shared.take(&schema::POD_STATUS, 2, payload, ALL)?;
            }
            ("DisruptionTarget", "True", "PreemptionByScheduler") => self.own.preempted = true,
            _ => {}
        }
        Ok(())
    }

    /// A text that is the pod's own, and where it is.
    fn text(&mut self, payload: Payload<'a>) -> Result<(&'a str, Place), Error> {
        Ok((payload.text()?, self.shared.skip(payload.bytes()?)))
    }

    /// A time that is the pod's own, and where it is.
    fn time(&mut self, payload: Payload<'a>) -> Result<(Time, Place), Error> {
        Ok((Time::read(payload)?, self.shared.skip(payload.bytes()?)))
    }

    /// Passes something that nobody reads, which others need not have the same.
    fn skip(&mut self, payload: Payload<'a>) {
        if let Payload::Bytes(bytes) = payload {
            self.shared.skip(bytes);
        }
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
