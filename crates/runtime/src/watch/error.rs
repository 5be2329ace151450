//! Errors of lists and watches.

use std::time::Duration;

use http::StatusCode;

use super::decoder::DecodeError;
use crate::api_error::{ApiError, BoxError};

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error(transparent)]
    Request(BoxError),
    #[error("the API server did not answer")]
    NoResponse,
    #[error(transparent)]
    Refused(#[from] ApiError),
    #[error(transparent)]
    Body(BoxError),
    #[error("nothing was received for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the API server says: {0}")]
    ErrorEvent(String),
    #[error("a page took too long")]
    PageTimeout,
    #[error("a list cannot be read")]
    Page(#[source] DecodeError),
    #[error("the list is of version {version}, but version {seen} was seen before")]
    StaleList { version: u64, seen: u64 },
}

impl WatchError {
    /// Returns the status of the error response, if there was a response.
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(error) => Some(error.status),
            _ => None,
        }
    }
}
