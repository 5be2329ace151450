//! Bodies of requests.

use std::fmt::Display;

use bytes::Bytes;
use serde::{Serialize, Serializer};

/// The body of a request of some hundred bytes.
pub(crate) fn json_bytes(body: &impl Serialize) -> Bytes {
    // Or it would grow step by step.
    let mut bytes = Vec::with_capacity(1024);
    // Nothing that is written here has a form that JSON lacks.
    let _ = serde_json::to_writer(&mut bytes, body);
    bytes.into()
}

/// Writes what is shown of a thing.
pub(crate) fn as_text<S: Serializer>(
    thing: &impl Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(thing)
}

/// Whether a version is none and must be left out: written, it would be a version that never was.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) fn is_unset(version: &u64) -> bool {
    *version == 0
}
