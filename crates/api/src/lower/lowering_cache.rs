//! Caches the lowered form of pods and nodes.
//!
//! Most pods share their spec with the other pods of their workload, and each pod is seen again
//! whenever its status changes. One pass over a pod in protobuf form separates the fields of this
//! pod alone (such as its name and its node) from those that pods share. The shared fields are the
//! key of the cache: a pod with a known key reuses the namespace, labels and spec lowered earlier.
//! Nodes are cached in the same way, see [`node`].

mod cache_key;
mod node;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::map::Map;
use engine::object::{AnnotationKeys, Labels, Node, Pod, PodFacts, PodSpec, Text};

use super::field_numbers::{
    container_status, metadata, pod, pod_condition, pod_spec, pod_status, scheduling_gate, volume,
    volume_source,
};
use super::limits::{LIST_ENTRIES_MAX, MAP_BYTES_MAX};
use super::pod::{MIRROR, SAFE_TO_EVICT, safe_to_evict};
use super::{Lowered, Source, raw};
use crate::protobuf::wire::{Payload, find_field, map_entry, next_field, seconds_and_nanoseconds};
use crate::protobuf::{Error, schema};
use cache_key::{ALL_LEVELS, CacheKeyBuilder};

#[cfg(test)]
mod tests;

/// Entries of a cache; one more empties it.
const ENTRIES_MAX: usize = 256;

/// Size of a key; objects with larger ones are not cached.
const KEY_BYTES_MAX: usize = 16 << 10;

/// Size of an object that is looked up. A list entry takes at least two bytes, so no list or map
/// of such an object exceeds its limit.
const OBJECT_BYTES_MAX: usize = 2 * LIST_ENTRIES_MAX;

const _: () = assert!(OBJECT_BYTES_MAX <= MAP_BYTES_MAX);

/// Lowers pods and nodes, and caches the fields that they share.
#[derive(Default)]
pub struct LoweringCache {
    /// The annotations to keep.
    keys: Arc<AnnotationKeys>,
    pods: Map<Box<[u8]>, SharedPodFields>,
    /// The distinct specs of `pods`: entries that differ only in labels share their spec.
    specs: Map<Arc<PodSpec>, Arc<PodSpec>>,
    /// Of the nodes of each key, one with empty per-node fields.
    nodes: Map<Box<[u8]>, Node>,
    /// The key of the current object.
    key: CacheKeyBuilder,
}

/// The lowered fields of pods with equal keys.
struct SharedPodFields {
    namespace: Text,
    labels: Labels,
    spec: Arc<PodSpec>,
}

impl LoweringCache {
    /// Returns an empty cache for objects with the annotations of these keys.
    pub fn new(keys: Arc<AnnotationKeys>) -> Self {
        Self { keys, ..Self::default() }
    }

    /// Lowers a pod with the result of [`super::pod()`], and with its annotations.
    pub fn pod(&mut self, source: Source<'_>) -> Lowered<Pod> {
        let Self { keys, pods, specs, key, .. } = self;
        let Source::Protobuf(_, bytes) = source else { return super::pod_with(source, keys) };
        let Ok(Some(own)) = split(bytes, &keys.pods, key) else {
            return super::pod_with(source, keys);
        };
        if let Some(shared) = pods.get(key.bytes())
            && let Some(lowered) = own.lower(shared)
        {
            return lowered;
        }
        let (mut pod, problems) = super::pod_with(source, keys);
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

/// Builds the key of a pod and returns its own fields, or `None` if the pod cannot be cached.
fn split<'a>(
    pod: &'a [u8],
    annotations: &BTreeSet<Text>,
    key: &mut CacheKeyBuilder,
) -> Result<Option<PerPodFields<'a>>, Error> {
    key.clear();
    if pod.len() > OBJECT_BYTES_MAX {
        return Ok(None);
    }
    let mut splitter = PodSplitter { annotations, key, own: PerPodFields::default() };
    Ok(splitter.pod(pod)?.then_some(splitter.own))
}

/// The fields that are not shared.
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
    facts: PodFacts,
}

/// Seconds and nanoseconds since the Unix epoch; both are zero if the time is unset.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Time(i64, i64);

impl Time {
    fn read(payload: Payload<'_>) -> Result<Self, Error> {
        seconds_and_nanoseconds(payload).map(|(seconds, nanos)| Self(seconds, nanos))
    }

    fn is_set(self) -> bool {
        self != Self::default()
    }

    /// Returns nanoseconds since the Unix epoch, or `None` outside the years 1970 to 2106.
    fn nanoseconds(self) -> Option<i64> {
        let usual = (0..1 << 32).contains(&self.0) && (0..1_000_000_000).contains(&self.1);
        usual.then(|| self.0 * 1_000_000_000 + self.1)
    }
}

impl PerPodFields<'_> {
    /// Combines own and shared fields; returns `None` if a field needs the checks of
    /// [`super::pod()`].
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
            facts: self.facts,
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

/// Reads a pod in one pass. Each field that lowering reads goes either to the key or to the pod's
/// own fields.
struct PodSplitter<'a, 's> {
    /// Keys of the annotations that are part of the spec.
    annotations: &'s BTreeSet<Text>,
    key: &'s mut CacheKeyBuilder,
    own: PerPodFields<'a>,
}

impl<'a> PodSplitter<'a, '_> {
    /// Returns `true` if the pod can be cached.
    fn pod(&mut self, mut bytes: &'a [u8]) -> Result<bool, Error> {
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                pod::METADATA => self.metadata(payload.bytes()?)?,
                pod::SPEC if !self.spec(payload.bytes()?)? => return Ok(false),
                pod::STATUS => self.status(payload.bytes()?)?,
                _ => {}
            }
        }
        Ok(true)
    }

    fn metadata(&mut self, mut bytes: &'a [u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                metadata::NAME => self.own.name = payload.text()?,
                metadata::UID => self.own.uid = payload.text()?,
                metadata::RESOURCE_VERSION => self.own.version = payload.text()?,
                metadata::GENERATION => self.own.generation = payload.number()?.cast_signed(),
                metadata::CREATION_TIMESTAMP => self.own.created = Time::read(payload)?,
                metadata::DELETION_TIMESTAMP => self.own.deleted = Time::read(payload)?,
                metadata::ANNOTATIONS => self.annotation(payload)?,
                metadata::NAMESPACE | metadata::LABELS | metadata::OWNER_REFERENCES => {
                    self.key.add(&schema::OBJECT_META, number, payload, 0)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn annotation(&mut self, payload: Payload<'a>) -> Result<(), Error> {
        let (key, value) = map_entry(payload)?;
        let key = key.text()?;
        match key {
            MIRROR => self.own.facts.mirror = true,
            SAFE_TO_EVICT => self.own.facts.safe_to_evict = safe_to_evict(value.text()?),
            _ => {}
        }
        if !self.annotations.is_empty() && self.annotations.contains(key) {
            self.key.add(&schema::OBJECT_META, metadata::ANNOTATIONS, payload, 0)?;
        }
        Ok(())
    }

    /// Returns `true` if the pod can be cached.
    fn spec(&mut self, mut bytes: &'a [u8]) -> Result<bool, Error> {
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                pod_spec::VOLUMES => match find_field(payload.bytes()?, volume::SOURCE)? {
                    // The claim is named after the pod, so the spec is the pod's own.
                    Some(source) if is_ephemeral(source.bytes()?)? => return Ok(false),
                    // For example the volume of the service account token, whose name is random.
                    Some(source) if !is_read(source.bytes()?)? => {}
                    _ => self.key.add(&schema::POD_SPEC, number, payload, 0)?,
                },
                // One level, which leaves out the mounts: they name the token's volume.
                pod_spec::CONTAINERS | pod_spec::INIT_CONTAINERS => {
                    self.key.add(&schema::POD_SPEC, number, payload, 1)?;
                }
                pod_spec::NODE_NAME => self.own.node = payload.text()?,
                pod_spec::PRIORITY => self.own.priority = payload.number()?.cast_signed(),
                pod_spec::SCHEDULING_GATES => {
                    let name = find_field(payload.bytes()?, scheduling_gate::NAME)?;
                    self.own.gates.push(name.map_or(Ok(""), Payload::text)?);
                }
                _ => self.key.add(&schema::POD_SPEC, number, payload, 0)?,
            }
        }
        Ok(true)
    }

    fn status(&mut self, mut bytes: &'a [u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                pod_status::PHASE => self.own.phase = payload.text()?,
                pod_status::CONDITIONS => self.condition(payload)?,
                pod_status::START_TIME => self.own.started = Time::read(payload)?,
                pod_status::NOMINATED_NODE_NAME => self.own.nominated_node = payload.text()?,
                pod_status::CONTAINER_STATUSES | pod_status::INIT_CONTAINER_STATUSES => {
                    self.container_status(number, payload)?;
                }
                // Requests depend on these.
                pod_status::ALLOCATED_RESOURCES | pod_status::RESOURCES => {
                    self.key.add(&schema::POD_STATUS, number, payload, ALL_LEVELS)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Separates the restarts from the other fields, on which requests depend.
    fn container_status(&mut self, number: u32, payload: Payload<'a>) -> Result<(), Error> {
        self.key.begin_message(number);
        let mut bytes = payload.bytes()?;
        while let Some((number, payload)) = next_field(&mut bytes)? {
            if number == container_status::RESTART_COUNT {
                let restarts = i32::try_from(payload.number()?.cast_signed())
                    .map_err(|_| Error::new("found a count of restarts beyond 32 bits"))?;
                let restarts = restarts.max(0).cast_unsigned();
                let total = &mut self.own.facts.restarts;
                *total = total.saturating_add(restarts);
            } else {
                self.key.add(&schema::CONTAINER_STATUS, number, payload, ALL_LEVELS)?;
            }
        }
        self.key.end_message();
        Ok(())
    }

    fn condition(&mut self, payload: Payload<'a>) -> Result<(), Error> {
        let (mut kind, mut status, mut reason) = ("", "", "");
        let mut bytes = payload.bytes()?;
        while let Some((number, payload)) = next_field(&mut bytes)? {
            match number {
                pod_condition::TYPE => kind = payload.text()?,
                pod_condition::STATUS => status = payload.text()?,
                pod_condition::REASON => reason = payload.text()?,
                _ => {}
            }
        }
        match (kind, status, reason) {
            // Requests depend on it.
            ("PodResizePending", ..) => {
                let conditions = pod_status::CONDITIONS;
                self.key.add(&schema::POD_STATUS, conditions, payload, ALL_LEVELS)?;
            }
            ("DisruptionTarget", "True", "PreemptionByScheduler") => self.own.preempted = true,
            ("Ready", "True", _) => self.own.facts.ready = true,
            _ => {}
        }
        Ok(())
    }
}

/// Returns `true` for a volume with a claim that is created for the pod.
fn is_ephemeral(source: &[u8]) -> Result<bool, Error> {
    Ok(find_field(source, volume_source::EPHEMERAL)?.is_some())
}

/// Returns `true` if scheduling reads volumes of this type.
fn is_read(mut source: &[u8]) -> Result<bool, Error> {
    while let Some((number, _)) = next_field(&mut source)? {
        if schema::VOLUME_SOURCE.reads(number) {
            return Ok(true);
        }
    }
    Ok(false)
}
