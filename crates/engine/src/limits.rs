//! Limits on what the engine keeps, has open or waits for, with their reasons.
//!
//! Bounds within one algorithm or type, such as `queue::PLUGINS_MAX`, are defined beside it.

/// Retained changes of pods on nodes. Replaying this many costs about as much as evaluating a class
/// from scratch, so an evaluation further behind is rebuilt.
pub const NODE_CHANGES_MAX: usize = 4096;

/// Retained changes of one tally, for the same reason.
pub const TALLY_CHANGES_MAX: usize = 1024;

/// Maximum number of tallies. Each class in use has a few; the least recently read are dropped.
pub const TALLIES_MAX: usize = 4096;

/// Tallies dropped at once, so that the search for the oldest is rare.
pub const TALLIES_DROP_BATCH: usize = 256;

/// Maximum number of cached evaluations. At 5,000 nodes one takes 0.3 to 2.5 MB.
pub const EVALUATIONS_MAX: usize = 256;

/// Evaluations dropped at once, so that the search for the oldest is rare.
pub const EVALUATIONS_DROP_BATCH: usize = 64;

/// Maximum number of distinct rejections in a cached diagnosis. A filter usually has a few; a
/// plugin with a message of its own for every node would make the cache large.
pub const CACHED_REJECTIONS_MAX: usize = 256;

/// Maximum number of open extender calls; further pods wait until one is answered.
pub const EXTENDER_CALLS_MAX: usize = 64;

/// Maximum number of extender calls in one attempt, before it fails.
pub const EXTENDER_CALLS_PER_ATTEMPT_MAX: usize = 3;

/// Size of the filter of recently evaluated classes; see `Classes::keep_if_recurring`.
pub const SEEN_KEYS_MAX: usize = 4096;

/// Maximum number of events kept for pods in flight. Most attempts end at once; only a pod that
/// waits for a permit or an extender accumulates events, and this many are some seconds of a busy
/// cluster. A pod whose events were dropped is retried after its backoff.
pub const IN_FLIGHT_EVENTS_MAX: usize = 4096;

/// Maximum number of values of `status.nominatedNodeName` per pod that are remembered as written until
/// the API server shows them. The status writer coalesces the values of a pod, so more than two are
/// rare.
pub const WRITTEN_NOMINATIONS_MAX: usize = 8;

/// Maximum time-out of a Permit plugin in nanoseconds: 15 minutes, as in upstream.
pub const PERMIT_TIMEOUT_MAX: i64 = 15 * 60 * 1_000_000_000;

const _: () = assert!(EVALUATIONS_MAX < TALLIES_MAX, "every cached evaluation can keep a tally");
