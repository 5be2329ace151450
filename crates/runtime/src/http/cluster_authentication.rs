//! What the cluster says about who may vouch for whom: the ConfigMap that the API server keeps for
//! servers like this one, with the authorities of clients and of front proxies.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::client_authorities::ClientAuthorities;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// How long one look may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the API server keeps a watch open, and how much longer its end may take to arrive.
const WATCH_SECONDS: u32 = 290;
const WATCH_SILENCE_MAX: Duration = Duration::from_mins(5);
/// Between tries: so soon at first, and not later than that.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// Follows the ConfigMap.
pub struct ClusterAuthentication {
    api: Api<ConfigMap>,
    known: ClusterAuthorities,
}

/// The authorities of a server that runs.
pub struct Authorities {
    cluster: ClusterAuthentication,
    client_ca: Arc<ClientAuthorities>,
}

impl Authorities {
    /// Looks once, so that it is known whether that works, and the server need not find out later.
    pub async fn look_up(&self) -> Result<()> {
        apply(&self.client_ca, &self.cluster.read().await?.0)
    }
}

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterAuthorities {
    /// Authorities of clients, in PEM; empty when there are none.
    pub(super) client_ca: String,
    pub(super) proxies: Option<RequestHeaderConfig>,
}

/// Who is a front proxy, and where it says on whose behalf it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestHeaderConfig {
    /// Authorities of proxies, in PEM.
    pub(super) ca: String,
    /// Common names of proxies; any if there are none.
    pub(super) allowed_names: Vec<String>,
    pub(super) user_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

impl ClusterAuthentication {
    /// Knows nothing yet.
    pub fn new(client: kube::Client) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE), known: ClusterAuthorities::default() }
    }

    /// Looks once, so that it is known at the start whether that works.
    pub async fn look_up(&mut self) -> Result<()> {
        self.known = self.read().await?.0;
        Ok(())
    }

    /// Those of a server that takes over what is known here.
    pub(super) fn authorities(&self, client_ca: Arc<ClientAuthorities>) -> Authorities {
        let cluster = Self { api: self.api.clone(), known: ClusterAuthorities::default() };
        Authorities { cluster, client_ca }
    }

    /// What was seen last.
    pub(super) fn known(&self) -> &ClusterAuthorities {
        &self.known
    }

    /// Tells of every change, for ever.
    pub(super) async fn follow(self, client_ca: Arc<ClientAuthorities>) {
        let mut delay = RETRY_DELAY;
        let mut failed = false;
        loop {
            match self.follow_once(&client_ca, &mut delay).await {
                Ok(()) => failed = false,
                Err(error) => {
                    if !failed {
                        warn!(error = %format_args!("{error:#}"), "cannot follow the authorities of the cluster; those known stay");
                    }
                    failed = true;
                }
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    /// Looks, and then watches until the watch ends.
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
                    // What was known stays, as upstream has it.
                    WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => bail!("{}", status.message),
                }
            }
            anyhow::Ok(())
        };
        // A watch that is silent for longer than it may last is dead.
        timeout(WATCH_SILENCE_MAX, watch).await.unwrap_or(Ok(()))
    }

    async fn read(&self) -> Result<(ClusterAuthorities, String)> {
        let map = timeout(READ_TIMEOUT, self.api.get(NAME)).await;
        let map = map.context("no answer").and_then(|map| Ok(map?));
        let map = map.with_context(|| format!("ConfigMap {NAMESPACE}/{NAME}"))?;
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
    /// Reads the ConfigMap. A list that cannot be read is an error: an empty one would allow more.
    pub(super) fn parse(data: &BTreeMap<String, String>) -> Result<Self> {
        let text = |key: &str| data.get(key).map_or("", String::as_str).trim().to_owned();
        let list = |key: &str| -> Result<Vec<String>> {
            let Some(text) = data.get(key).filter(|text| !text.is_empty()) else {
                return Ok(Vec::new());
            };
            let names: Vec<String> = serde_json::from_str(text).with_context(|| {
                format!("{key} of ConfigMap {NAMESPACE}/{NAME} is not a list of texts")
            })?;
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
