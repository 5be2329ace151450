//! The cluster over HTTP: paths and forms become requests to [`Cluster`], and answers JSON.

mod addresses;
mod answer;
mod certificate;
mod counts;
mod discovery;
mod guard;
mod handler;
mod listen;
mod openapi;
mod query;
mod read;
mod reviews;
mod routes;
mod watch;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use answer::Body;
pub use certificate::ServerIdentity;
pub(crate) use certificate::{local_url, url};
pub use guard::handles_request;
pub use handler::Handler;
pub use listen::{ListenError, Server};

use crate::actors::usage::Usage;
use crate::cluster::Cluster;
use crate::faults::Faults;
use counts::RequestCounts;

/// What every request may need.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) cluster: Arc<Cluster>,
    /// What clients must show.
    pub(crate) token: String,
    /// Where we are reached.
    pub(crate) address: SocketAddr,
    /// How much pods and nodes use.
    pub(crate) usage: Usage,
    /// What goes wrong on demand.
    pub(crate) faults: Arc<Faults>,
    /// What was answered.
    pub(crate) counts: RequestCounts,
    /// Ends all watches.
    pub(crate) ending: CancellationToken,
}
