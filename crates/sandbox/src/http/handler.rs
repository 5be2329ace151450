//! The HTTP API without sockets, for callers in the same process.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio_util::sync::CancellationToken;

use super::counts::RequestCounts;
use super::{Body, ServerState, routes};
use crate::actors::usage::Usage;
use crate::cluster::Cluster;
use crate::faults::Faults;

/// Answers requests to a cluster.
#[derive(Debug)]
pub struct Handler(Arc<ServerState>);

impl Handler {
    /// Creates a handler for requests with this bearer token.
    pub fn new(cluster: Arc<Cluster>, token: &str) -> Self {
        Self(Arc::new(ServerState {
            cluster,
            token: token.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 443)),
            usage: Usage::new(1.0),
            faults: Arc::new(Faults::default()),
            counts: RequestCounts::default(),
            shutdown: CancellationToken::new(),
        }))
    }

    /// Answers a request. Watches need a tokio runtime.
    pub async fn answer(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        routes::answer(&self.0, request).await
    }
}
