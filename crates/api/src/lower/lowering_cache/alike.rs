//! Pods that are alike byte for byte, save where each has its own.
//!
//! Most pods differ from one seen just before in their name, their uid, their version, their times
//! and their node, which are of the same length, and in what nobody reads. Such a pod has all
//! fields where the other has them: there is nothing to be searched for.

use std::ops::Range;
use std::sync::Arc;

use engine::object::Pod;

use super::super::raw;
use super::{PerPodFields, Time};
use crate::protobuf::wire::Payload;

/// Pods that others are compared with; when there is one more, the earliest is forgotten.
const MODELS_MAX: usize = 8;

/// Bytes of one of them.
const BYTES_MAX: usize = 16 << 10;

/// Where something is in an object.
pub(super) type Place = Range<u32>;

/// Pods that others are compared with.
#[derive(Default)]
pub(super) struct Alike {
    models: Vec<Model>,
    /// Where the next one goes.
    next: usize,
}

struct Model {
    bytes: Box<[u8]>,
    /// Where others have the same, in order.
    same: Box<[Place]>,
    own: Places,
    pod: Pod,
}

/// Where in a pod something may be its own; empty where the pod has no such thing.
#[derive(Clone, Default)]
pub(super) struct Places {
    pub(super) name: Place,
    pub(super) uid: Place,
    pub(super) version: Place,
    pub(super) created: Place,
    pub(super) node: Place,
    pub(super) started: Place,
}

impl Alike {
    /// The pod, if it is like one of the last.
    pub(super) fn lower(&self, bytes: &[u8]) -> Option<Pod> {
        self.models.iter().find(|model| model.is_like(bytes))?.lower(bytes)
    }

    /// Has others compared with a pod, of which everything was read but what was left out and what
    /// is its own.
    pub(super) fn add(
        &mut self,
        bytes: &[u8],
        skipped_ranges: &[Place],
        own: &PerPodFields<'_>,
        pod: &Pod,
    ) {
        if bytes.len() > BYTES_MAX {
            return;
        }
        let mut places = skipped_ranges.to_vec();
        places.sort_unstable_by_key(|place| place.start);
        let (mut same, mut begin) = (Vec::new(), 0);
        for place in &places {
            if begin < place.start {
                same.push(begin..place.start);
            }
            begin = begin.max(place.end);
        }
        same.push(begin..bytes.len() as u32);
        let model = Model {
            bytes: bytes.into(),
            same: same.into(),
            own: own.places.clone(),
            pod: pod.clone(),
        };
        if self.models.len() < MODELS_MAX {
            self.models.push(model);
        } else {
            self.models[self.next] = model;
        }
        self.next = (self.next + 1) % MODELS_MAX;
    }
}

impl Model {
    fn is_like(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes.len()
            && self.same.iter().all(|place| at(bytes, place) == at(&self.bytes, place))
    }

    /// A pod that is like this one; `None` if something is odd.
    fn lower(&self, bytes: &[u8]) -> Option<Pod> {
        let Places { name, uid, version, created, node, started } = &self.own;
        let text = |place| str::from_utf8(at(bytes, place)).ok();
        let time = |place| Time::read(Payload::Bytes(at(bytes, place))).ok();
        let started = time(started)?;
        Some(Pod {
            name: text(name)?.into(),
            uid: text(uid)?.into(),
            resource_version: raw::version(text(version)?),
            creation_time: time(created)?.nanoseconds()?,
            start_time: if started.is_set() { Some(started.nanoseconds()?) } else { None },
            node: text(node)?.into(),
            namespace: self.pod.namespace.clone(),
            labels: self.pod.labels.clone(),
            nominated_node: self.pod.nominated_node.clone(),
            gates: self.pod.gates.clone(),
            spec: Arc::clone(&self.pod.spec),
            ..self.pod
        })
    }
}

fn at<'a>(bytes: &'a [u8], place: &Place) -> &'a [u8] {
    &bytes[place.start as usize..place.end as usize]
}
