//! What siblings share is lowered once.
//!
//! Nearly all pods have siblings, and each pod is seen again and again while it lives, with a spec that
//! stays the same. Of a pod in protobuf form, all that its spec is lowered from is hashed. A spec that
//! was lowered from the same is used again, and only what is the pod's own is read.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use engine::map::Map;
use engine::object::{Pod, PodSpec};

use super::limits::LIST_ENTRIES_MAX;
use super::pod::RawPod;
use super::problem::Report;
use super::{Lower, Lowered, Source};
use crate::protobuf::wire::{Payload, find, next_field};
use crate::protobuf::{Error, Message, Shape, schema};

#[cfg(test)]
mod tests;

/// Specs that are remembered; beyond that all are forgotten.
const SPECS_MAX: usize = 256;

/// Bytes of a pod that may have siblings. An entry of a list takes two, so that no list of it is too
/// long.
const BYTES_MAX: usize = 2 * LIST_ENTRIES_MAX;

/// Lowers pods, and remembers specs.
pub struct Siblings {
    seed: u64,
    specs: Map<u64, Arc<PodSpec>>,
}

impl Siblings {
    /// One that knows no pod yet. The seed is to be a secret: who knew it could make different specs
    /// look the same.
    pub fn new(seed: u64) -> Self {
        Self { seed, specs: Map::default() }
    }

    /// Lowers a pod, as [`super::pod`] does.
    pub fn pod(&mut self, source: Source<'_>) -> Lowered<Pod> {
        let Source::Protobuf(_, bytes) = source else { return super::pod(source) };
        let Ok(Some(digest)) = self.digest(bytes) else { return super::pod(source) };
        if let Some(spec) = self.specs.get(&digest)
            && let Some(lowered) = own(bytes, spec)
        {
            return lowered;
        }
        let (pod, problems) = super::pod(source);
        if let Some(pod) = &pod
            && problems.is_empty()
        {
            if self.specs.len() >= SPECS_MAX {
                self.specs = Map::default();
            }
            self.specs.insert(digest, Arc::clone(&pod.spec));
        }
        (pod, problems)
    }

    /// Of all that a pod's spec is lowered from; `None` if no sibling can have the same.
    fn digest(&self, pod: &[u8]) -> Result<Option<u64>, Error> {
        if pod.len() > BYTES_MAX {
            return Ok(None);
        }
        let mut digest = Digest(DefaultHasher::new());
        digest.0.write_u64(self.seed);
        Ok(digest.pod(pod)?.then(|| digest.0.finish()))
    }
}

/// A pod with the spec of a sibling; `None` if something is wrong.
fn own(bytes: &[u8], spec: &Arc<PodSpec>) -> Option<Lowered<Pod>> {
    let raw: RawPod = Source::Protobuf(&schema::OWN_POD, bytes).read().ok()?;
    if raw.is_finished() {
        return Some((None, Vec::new()));
    }
    let mut report = Report::default();
    raw.meta().check(&mut report);
    let pod = raw.lower_own(Arc::clone(spec), &mut report);
    report.is_empty().then(|| (Some(pod), Vec::new()))
}

struct Digest(DefaultHasher);

impl Digest {
    /// Whether siblings can have the same.
    fn pod(&mut self, mut pod: &[u8]) -> Result<bool, Error> {
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

    /// Namespace, labels and owners.
    fn metadata(&mut self, mut metadata: &[u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut metadata)? {
            if matches!(number, 3 | 11 | 13) {
                self.field(&schema::OBJECT_META, number, payload)?;
            }
        }
        Ok(())
    }

    /// All that is read but the node, the priority and the gates. Whether siblings can have the same.
    fn spec(&mut self, mut spec: &[u8]) -> Result<bool, Error> {
        while let Some((number, payload)) = next_field(&mut spec)? {
            match number {
                1 => match find(payload.bytes()?, 2)? {
                    Some(source) if is_ephemeral(source.bytes()?)? => return Ok(false),
                    // Each pod has a volume with its token, whose name is the pod's own.
                    Some(source) if !is_known(source.bytes()?)? => {}
                    _ => self.field(&schema::POD_SPEC, number, payload)?,
                },
                10 | 25 | 38 => {}
                _ => self.field(&schema::POD_SPEC, number, payload)?,
            }
        }
        Ok(true)
    }

    /// What is allocated to the pod, and whether it cannot be resized.
    fn status(&mut self, mut status: &[u8]) -> Result<(), Error> {
        while let Some((number, payload)) = next_field(&mut status)? {
            let counts = match number {
                2 => find(payload.bytes()?, 1)? == Some(Payload::Bytes(b"PodResizePending")),
                8 | 10 | 19 | 20 => true,
                _ => false,
            };
            if counts {
                self.field(&schema::POD_STATUS, number, payload)?;
            }
        }
        Ok(())
    }

    /// A field, if it is read.
    fn field(&mut self, of: &Message, number: u32, payload: Payload<'_>) -> Result<(), Error> {
        let Some(field) = of.field(number) else { return Ok(()) };
        self.0.write_u32(number);
        match (&field.shape, payload) {
            (
                Shape::Message(inner) | Shape::Inline(inner) | Shape::List(Shape::Message(inner)),
                Payload::Bytes(mut bytes),
            ) => {
                while let Some((number, payload)) = next_field(&mut bytes)? {
                    self.field(inner, number, payload)?;
                }
                // There is no field with this number.
                self.0.write_u32(0);
            }
            (_, Payload::Number(value)) => self.0.write_u64(value),
            (_, Payload::Bytes(bytes)) => {
                self.0.write_usize(bytes.len());
                self.0.write(bytes);
            }
        }
        Ok(())
    }
}

/// Whether a volume's claim is named after its pod.
fn is_ephemeral(source: &[u8]) -> Result<bool, Error> {
    Ok(find(source, 29)?.is_some())
}

/// Whether scheduling reads a kind of volume.
fn is_known(mut source: &[u8]) -> Result<bool, Error> {
    while let Some((number, _)) = next_field(&mut source)? {
        if schema::VOLUME_SOURCE.field(number).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
