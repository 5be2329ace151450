//! How much one object may hold.
//!
//! A cluster stores an object in one request of at most 1.5 MiB, so whatever is larger was never in a cluster.
//! Everything below these bounds is processed in full. An object beyond them is there all the same: what it holds
//! counts, and files with such objects are refused.

/// Entries of one list: tolerations, affinity terms, values of an expression, containers, taints, images and so on.
///
/// Work per entry is constant, so this many cost milliseconds; 10,000 tolerations still fit.
pub const LIST_ENTRIES_MAX: usize = 16_384;

/// Bytes of keys and values in one map of labels or annotations: the size of the largest stored object.
pub const MAP_BYTES_MAX: usize = 1_572_864;

/// Problems reported for one object; the rest is counted only.
pub const PROBLEMS_MAX: usize = 100;

/// Problems reported for one snapshot; the rest is counted only.
pub const SNAPSHOT_PROBLEMS_MAX: usize = 10_000;

/// Characters of what was found that a message repeats.
pub const FOUND_CHARS_MAX: usize = 64;

/// Lists within lists in a snapshot; real ones have one level.
pub const LIST_DEPTH_MAX: usize = 8;

/// Levels of maps and lists within one YAML document; parsing is recursive, and a thread's stack holds twice this many.
pub const DOCUMENT_DEPTH_MAX: usize = 64;
