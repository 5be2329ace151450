//! Every limit of the engine, with its reason.

/// Changes of the pods on nodes kept for classes to catch up with; a class further behind is evaluated anew,
/// which costs about as much as replaying this many changes.
pub const NODE_CHANGES_MAX: usize = 4096;

/// Changes of one tally kept for its readers, for the same reason.
pub const TALLY_CHANGES_MAX: usize = 1024;

/// Tallies kept alive. Each live class uses a few; the least recently read go first.
pub const TALLIES_MAX: usize = 4096;

/// Tallies dropped at once when there are too many, so that finding the oldest is paid for rarely.
pub const TALLIES_DROP_BATCH: usize = 256;

/// Classes whose evaluation is kept. At 5,000 nodes one takes 0.3 to 2.5 MB.
pub const EVALUATIONS_MAX: usize = 256;

/// Refusals in a diagnosis that is kept for the next pod of the class. There are a few for each filter,
/// unless a plugin has something else to say about every node.
pub const CACHED_REJECTIONS_MAX: usize = 256;

/// Questions to extenders that may be open at a time; further pods wait for their turn.
pub const EXTENDER_CALLS_MAX: usize = 64;

/// How often extenders are asked in one attempt before it counts as failed.
pub const EXTENDER_CALLS_PER_ATTEMPT_MAX: usize = 3;

/// Classes of which it is known that they were evaluated before.
pub const SEEN_KEYS_MAX: usize = 4096;

/// Evaluations dropped at once when there are too many, so that finding the oldest is paid for rarely.
pub const EVALUATIONS_DROP_BATCH: usize = 64;

/// Nodes in the table. Positions are 32 bits wide and node sets are dense.
pub const NODES_MAX: usize = 1 << 20;

const _: () = assert!(NODES_MAX < u32::MAX as usize);
const _: () = assert!(EVALUATIONS_MAX < TALLIES_MAX);
