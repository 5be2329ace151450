//! The cluster's authorities of clients and front proxies, from the ConfigMap that the API server
//! maintains for extension servers.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::client_authorities::{AuthorityError, ClientAuthorities};
use crate::api_error::Chain;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Time limit of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which the API server closes a watch, in seconds.
const WATCH_SECONDS: u32 = 290;

/// Time after which a watch without an end is dead.
const WATCH_SILENCE_MAX: Duration = Duration::from_mins(5);

/// First delay after a watch has ended; it doubles with each failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Longest delay after a watch has ended.
const RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// Why the authorities of the cluster are unknown.
#[derive(Debug, thiserror::Error)]
pub enum ClusterAuthenticationError {
    /// The ConfigMap was not returned in time.
    #[error("ConfigMap {NAMESPACE}/{NAME}: no answer")]
    NoResponse,
    /// The ConfigMap cannot be read.
    #[error("ConfigMap {NAMESPACE}/{NAME}")]
    Read(#[source] kube::Error),
    /// A list in the ConfigMap is malformed.
    #[error("{key} of ConfigMap {NAMESPACE}/{NAME} is not a list of texts")]
    List {
        /// Key of the list.
        key: &'static str,
        /// Why it cannot be read.
        #[source]
        error: serde_json::Error,
    },
    /// The ConfigMap cannot be watched.
    #[error(transparent)]
    Watch(#[from] kube::Error),
    /// The watch reported an error.
    #[error("{0}")]
    WatchEvent(String),
    /// The authorities cannot be used.
    #[error(transparent)]
    Authorities(#[from] AuthorityError),
}

type Result<T> = std::result::Result<T, ClusterAuthenticationError>;

/// Reads and watches the ConfigMap.
pub struct ClusterAuthentication {
    api: Api<ConfigMap>,
    known: ClusterAuthorities,
}

/// The authorities of a running server, to be read once more.
pub struct Authorities {
    cluster: ClusterAuthentication,
    client_ca: Arc<ClientAuthorities>,
}

impl Authorities {
    /// Reads the ConfigMap and passes it to the server. An error shows that the server's own watch cannot
    /// work either.
    pub async fn look_up(&self) -> Result<()> {
        apply(&self.client_ca, &self.cluster.read().await?.0)
    }
}

/// Contents of the ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterAuthorities {
    /// Authorities of clients in PEM; empty if there are none.
    pub(super) client_ca: String,
    pub(super) proxies: Option<RequestHeaderConfig>,
}

/// Authorities of front proxies, and the headers in which these name the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestHeaderConfig {
    /// Authorities of proxies in PEM.
    pub(super) ca: String,
    /// Common names of proxies; empty allows any name.
    pub(super) allowed_names: Vec<String>,
    pub(super) user_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

impl ClusterAuthentication {
    /// Creates a reader that has not read the ConfigMap yet.
    pub fn new(client: kube::Client) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE), known: ClusterAuthorities::default() }
    }

    /// Reads the ConfigMap, so that an error is known at the start.
    pub async fn look_up(&mut self) -> Result<()> {
        self.known = self.read().await?.0;
        Ok(())
    }

    /// Returns a handle that reads the ConfigMap for a running server.
    pub(super) fn authorities(&self, client_ca: Arc<ClientAuthorities>) -> Authorities {
        let cluster = Self { api: self.api.clone(), known: ClusterAuthorities::default() };
        Authorities { cluster, client_ca }
    }

    /// Returns the contents that were read last.
    pub(super) fn known(&self) -> &ClusterAuthorities {
        &self.known
    }

    /// Passes every change to `client_ca`. Does not return.
    pub(super) async fn follow(self, client_ca: Arc<ClientAuthorities>) {
        let mut delay = RETRY_DELAY;
        let mut failed = false;
        loop {
            match self.follow_once(&client_ca, &mut delay).await {
                Ok(()) => failed = false,
                Err(error) => {
                    if !failed {
                        warn!(error = %Chain(&error), "cannot follow the authorities of the cluster; those known stay");
                    }
                    failed = true;
                }
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    /// Reads the ConfigMap and watches it until the watch ends.
    async fn follow_once(&self, client_ca: &ClientAuthorities, delay: &mut Duration) -> Result<()> {
        let (known, version) = self.read().await?;
        apply(client_ca, &known)?;
        *delay = RETRY_DELAY;
        let only = WatchParams::default()
            .fields(&format!("metadata.name={NAME}"))
            .timeout(WATCH_SECONDS)
            .disable_bookmarks();
        let watch = async {
            let mut events = pin!(self.api.watch(&only, &version).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                        apply(
                            client_ca,
                            &ClusterAuthorities::parse(&map.data.unwrap_or_default())?,
                        )?;
                    }
                    // The authorities stay in use, as upstream.
                    WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => {
                        return Err(ClusterAuthenticationError::WatchEvent(status.message));
                    }
                }
            }
            Ok(())
        };
        // A watch that outlives its time limit is dead.
        timeout(WATCH_SILENCE_MAX, watch).await.unwrap_or(Ok(()))
    }

    async fn read(&self) -> Result<(ClusterAuthorities, String)> {
        let map = timeout(READ_TIMEOUT, self.api.get(NAME)).await;
        let map = map.map_err(|_| ClusterAuthenticationError::NoResponse)?;
        let map = map.map_err(ClusterAuthenticationError::Read)?;
        let known = ClusterAuthorities::parse(&map.data.unwrap_or_default())?;
        Ok((known, map.metadata.resource_version.unwrap_or_default()))
    }
}

fn apply(client_ca: &ClientAuthorities, known: &ClusterAuthorities) -> Result<()> {
    if client_ca.update(known)? {
        info!("authorities of the cluster were taken over");
    }
    Ok(())
}

impl ClusterAuthorities {
    /// Parses the ConfigMap. A malformed list is an error, since an empty one would allow more.
    pub(super) fn parse(data: &BTreeMap<String, String>) -> Result<Self> {
        let text = |key: &str| data.get(key).map_or("", String::as_str).trim().to_owned();
        let list = |key: &'static str| -> Result<Vec<String>> {
            let Some(text) = data.get(key).filter(|text| !text.is_empty()) else {
                return Ok(Vec::new());
            };
            let names: Vec<String> = serde_json::from_str(text)
                .map_err(|error| ClusterAuthenticationError::List { key, error })?;
            Ok(names.into_iter().map(|name| name.trim().to_owned()).collect())
        };
        let ca = text("requestheader-client-ca-file");
        let proxies = RequestHeaderConfig {
            ca,
            allowed_names: list("requestheader-allowed-names")?,
            user_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        };
        let proxies = (!proxies.ca.is_empty()).then_some(proxies);
        Ok(Self { client_ca: text("client-ca-file"), proxies })
    }
}
