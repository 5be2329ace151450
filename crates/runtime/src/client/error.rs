//! Why a request to the API server got no response.

use tokio::task::JoinError;

use super::{CredentialsError, DialError};
use crate::connect::{CONNECT_TIMEOUT, ConnectError};

/// Why a request to the API server got no response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The path has characters that no path has; names of objects are part of it.
    #[error("{0:?} is no path")]
    InvalidPath(String),
    /// The request cannot be converted from or to the form of kube's client.
    #[error("the request cannot be converted")]
    ConvertRequest(#[source] http::Error),
    /// The body of a request of kube's client cannot be read.
    #[error("the body of the request cannot be read")]
    ReadRequestBody(#[source] Box<kube::Error>),
    /// The address or the server name cannot be used.
    #[error(transparent)]
    Config(#[from] ConnectError),
    /// The credentials cannot be loaded.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No TCP connection could be established.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No connection was established in time.
    #[error("the API server did not answer for {CONNECT_TIMEOUT:?}")]
    ConnectTimeout,
    /// The TLS handshake failed.
    #[error("the TLS handshake with the API server failed")]
    TlsHandshake(#[source] std::io::Error),
    /// The task that connects panicked, or the runtime shuts down.
    #[error("connecting was interrupted")]
    ConnectTask(#[source] JoinError),
    /// The response did not arrive within the request's timeout.
    #[error("the API server did not answer")]
    NoResponse,
    /// The body of the response is larger than the limit of this many bytes.
    #[error("the response is larger than {0} bytes")]
    ResponseTooLarge(usize),
    /// The HTTP/2 connection failed.
    #[error(transparent)]
    Http2(http2::Error),
    /// kube's client failed.
    #[error(transparent)]
    Kube(Box<kube::Error>),
    /// The body of a response of kube's client ended early.
    #[error("the stream broke off")]
    ReadBody(#[source] Box<kube::Error>),
    /// The request failed, probably because the client certificate is not valid now.
    #[error("{problem}")]
    ClientCertificate {
        /// See [`crate::connect::client_certificate_problem`].
        problem: String,
        /// The failure.
        source: Box<ClientError>,
    },
}

impl ClientError {
    pub(super) fn kube(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

impl From<http2::Error> for ClientError {
    fn from(error: http2::Error) -> Self {
        match error {
            http2::Error::DeadlineExceeded => Self::NoResponse,
            http2::Error::ResponseTooLarge(limit) => Self::ResponseTooLarge(limit),
            error => Self::Http2(error),
        }
    }
}
