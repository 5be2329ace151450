//! Limits on the size of one object.
//!
//! The API server stores an object in one request of at most 1.5 MiB, so a larger object never was
//! in a cluster. Objects within these limits are processed in full. A larger object still counts
//! towards its node, but is not scheduled, and files that contain one are rejected.

/// Entries of one list: tolerations, affinity terms, values of an expression, containers, taints,
/// images and others.
///
/// Work per entry is constant, so this many take milliseconds; 10,000 tolerations still fit.
pub const LIST_ENTRIES_MAX: usize = 16_384;

/// Bytes of all keys and values in one map of labels or annotations: the largest size of a stored
/// object.
pub const MAP_BYTES_MAX: usize = 1_572_864;

/// Problems reported for one object; further ones are only counted.
pub const PROBLEMS_MAX: usize = 100;

/// Problems reported for one snapshot; further ones are only counted.
pub const SNAPSHOT_PROBLEMS_MAX: usize = 10_000;

/// Characters of the offending value that a message quotes.
pub const FOUND_CHARS_MAX: usize = 64;

/// Nesting of lists within lists in a snapshot; real snapshots have one level.
pub const LIST_DEPTH_MAX: usize = 8;

/// Nesting of maps and lists within one YAML document. Parsing is recursive, and the stack of a
/// thread holds twice this depth.
pub const DOCUMENT_DEPTH_MAX: usize = 64;
