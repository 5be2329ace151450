//! Every limit of the sandbox, with its reason.

use std::time::Duration;

/// Changes that one collection remembers for watches. Upstream's cache remembers as many at most.
pub(crate) const WATCH_CACHE_EVENTS_MAX: usize = 100_000;

/// Changes that it remembers however old they are. Upstream's cache remembers as many at least.
pub(crate) const WATCH_CACHE_EVENTS_MIN: usize = 100;

/// Other changes may be forgotten when they are so old, and are when they are twice as old. Upstream
/// compacts its store as often.
pub(crate) const COMPACTION_INTERVAL: Duration = Duration::from_mins(5);

/// Bytes that these changes may hold on to: a floor, so that a few objects which change often can be
/// followed, and for each byte of a live object so many more, so that whoever has to list again
/// because of it reads less than what has changed.
pub(crate) const WATCH_CACHE_BYTES_MIN: usize = 4 << 20;
pub(crate) const WATCH_CACHE_BYTES_PER_LIVE_BYTE: usize = 2;

/// The most bytes in all: a quarter of what a small machine has.
pub(crate) const WATCH_CACHE_BYTES_MAX: usize = 256 << 20;

/// The largest body of a request, as upstream has it.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;

/// The deepest nesting of an object. The reader of JSON stops at 128; what we add stays below.
pub(crate) const DEPTH_MAX: usize = 120;

/// Changes that a watch sends in one piece.
pub(crate) const WATCH_BATCH_MAX: usize = 256;

/// Bytes after which no more changes go into such a piece: it waits in memory until the client reads.
pub(crate) const WATCH_PIECE_BYTES: usize = 256 << 10;

/// How often a watch that wants bookmarks gets one, as upstream has it.
pub(crate) const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// How long a watch lives when the client does not say; upstream: between this and twice as long.
pub(crate) const WATCH_TIME: Duration = Duration::from_mins(30);

/// Bytes of a list that are written in one piece.
pub(crate) const LIST_PIECE_BYTES: usize = 256 << 10;

/// How often a write that did not ask for a version is tried again when others were faster.
pub(crate) const WRITE_TRIES_MAX: usize = 100;

/// Annotations of an object, as upstream has it.
pub(crate) const ANNOTATION_BYTES_MAX: usize = 256 << 10;

/// Connections at a time. Tests open hundreds; descriptors are the limit.
pub(crate) const CONNECTIONS_MAX: usize = 4096;

/// Requests at a time on one connection; watches are requests, too.
pub(crate) const STREAMS_MAX: u32 = 1024;

/// For the handshake of TLS.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long a connection may send no request before it is closed. Clients connect when they have one.
pub(crate) const SILENCE_TIME: Duration = Duration::from_secs(30);

/// How often connections of HTTP/2 are asked whether the other side lives; it has 20 s to answer.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(30);

/// How long requests may go on when the server ends.
pub(crate) const GRACE_TIME: Duration = Duration::from_secs(2);

/// Tries to find a free name for `generateName`, as upstream has it.
pub(crate) const NAME_TRIES_MAX: usize = 8;

/// Custom resource definitions: each costs a collection.
pub(crate) const CUSTOM_KINDS_MAX: usize = 1000;

/// How long an event is kept, as upstream has it.
pub(crate) const EVENT_TIME: Duration = Duration::from_hours(1);

/// Objects of all kinds. A pod with its events takes about 10 kB, so this many take 10 GB.
pub(crate) const OBJECTS_MAX: usize = 1_000_000;

/// Nodes of one group. Each costs a few kilobytes, and a heartbeat.
pub(crate) const NODES_MAX: usize = 100_000;
