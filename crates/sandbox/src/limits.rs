//! Limits of the sandbox and their reasons.

use std::time::Duration;

/// Maximum number of changes in the watch cache of a collection, as upstream.
pub(crate) const WATCH_CACHE_EVENTS_MAX: usize = 100_000;

/// Minimum number of changes that compaction keeps, as upstream.
pub(crate) const WATCH_CACHE_EVENTS_MIN: usize = 100;

/// Interval of compaction, as upstream. A change is removed after one to two intervals.
pub(crate) const COMPACTION_INTERVAL: Duration = Duration::from_mins(5);

/// Memory that the changes of a watch cache may hold: a minimum, so that a few frequently changing objects
/// can be watched, plus a multiple of the live objects, so that a client that has to relist reads less
/// than the changes it missed.
pub(crate) const WATCH_CACHE_BYTES_MIN: usize = 4 << 20;
pub(crate) const WATCH_CACHE_BYTES_PER_LIVE_BYTE: usize = 2;

/// Maximum memory of all watch caches: a quarter of a machine with 1 GiB.
pub(crate) const WATCH_CACHE_BYTES_MAX: usize = 256 << 20;

/// Maximum size of a request body, as upstream.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;

/// Maximum nesting depth of an object. The JSON parser stops at 128; fields that we add stay below.
pub(crate) const DEPTH_MAX: usize = 120;

/// Maximum number of changes that a watch reads at a time.
pub(crate) const WATCH_BATCH_MAX: usize = 256;

/// Size of a chunk above which a watch adds no more changes: the chunk stays in memory until the client
/// reads it.
pub(crate) const WATCH_CHUNK_BYTES: usize = 256 << 10;

/// Interval of bookmarks, as upstream.
pub(crate) const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// Duration of a watch without `timeoutSeconds`; upstream draws from one to two times this.
pub(crate) const WATCH_DURATION: Duration = Duration::from_mins(30);

/// Size of the chunks of a list.
pub(crate) const LIST_CHUNK_BYTES: usize = 256 << 10;

/// Maximum number of attempts of a write without precondition that conflicts with other writes.
pub(crate) const WRITE_ATTEMPTS_MAX: usize = 100;

/// Maximum size of the annotations of an object, as upstream.
pub(crate) const ANNOTATION_BYTES_MAX: usize = 256 << 10;

/// Maximum number of connections. Tests open hundreds; file descriptors are the limit.
pub(crate) const CONNECTIONS_MAX: usize = 4096;

/// Maximum number of concurrent HTTP/2 streams per connection; each watch is one.
pub(crate) const STREAMS_MAX: u32 = 1024;

/// Timeout of the TLS handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without a first request after which a connection is closed. Clients connect to send one.
pub(crate) const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval of HTTP/2 keep-alive pings; the peer has 20 s to answer.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Grace period of requests at shutdown.
pub(crate) const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Maximum number of attempts to find a free name for `generateName`, as upstream.
pub(crate) const NAME_ATTEMPTS_MAX: usize = 8;

/// Maximum number of custom resource definitions, each of which costs a collection.
pub(crate) const CUSTOM_KINDS_MAX: usize = 1000;

/// Time to live of events, as upstream.
pub(crate) const EVENT_TTL: Duration = Duration::from_hours(1);

/// Default maximum number of objects. A pod and its events take about 10 kB, so this many take 10 GB.
pub(crate) const OBJECTS_MAX: usize = 1_000_000;

/// Maximum number of nodes in a file of groups. Each costs a few kilobytes and a heartbeat.
pub(crate) const NODES_MAX: usize = 100_000;
