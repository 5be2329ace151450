//! The HTTP API of a [`Cluster`].

mod addresses;
mod certificate;
mod counts;
mod discovery;
mod guard;
mod handler;
mod listen;
mod openapi;
mod query;
mod read;
mod response;
mod reviews;
mod routes;
mod watch;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use certificate::ServerIdentity;
pub(crate) use certificate::{local_url, url};
pub use guard::handles_request;
pub use handler::Handler;
pub use listen::{ListenError, Server};
pub use response::Body;

use crate::actors::usage::Usage;
use crate::cluster::Cluster;
use crate::faults::Faults;
use counts::RequestCounts;

/// State shared by all requests.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) cluster: Arc<Cluster>,
    /// Bearer token that clients must send.
    pub(crate) token: String,
    /// Address of the server.
    pub(crate) address: SocketAddr,
    /// Model of the usage of nodes and pods.
    pub(crate) usage: Usage,
    /// Injected faults.
    pub(crate) faults: Arc<Faults>,
    /// Counts of responses.
    pub(crate) counts: RequestCounts,
    /// Cancelled at shutdown; ends all watches.
    pub(crate) shutdown: CancellationToken,
}
