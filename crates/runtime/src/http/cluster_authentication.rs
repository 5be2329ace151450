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

use super::client_ca::ClientCa;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// How long one look may take.
const LOOK_TIME: Duration = Duration::from_secs(10);
/// How long the API server keeps a watch open, and how much longer its end may take to arrive.
const WATCH_SECONDS: u32 = 290;
const WATCH_TIME: Duration = Duration::from_mins(5);
/// Between tries: so soon at first, and not later than that.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Follows the ConfigMap.
pub struct ClusterAuthentication {
    api: Api<ConfigMap>,
    said: Said,
}

/// The authorities of a server that runs.
pub struct Authorities {
    cluster: ClusterAuthentication,
    client_ca: Arc<ClientCa>,
}

impl Authorities {
    /// Looks once, so that it is known whether that works, and the server need not find out later.
    pub async fn look_up(&self) -> Result<()> {
        tell(&self.client_ca, &self.cluster.look().await?.0)
    }
}

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Authorities of clients, in PEM; empty when there are none.
    pub(super) client_ca: String,
    pub(super) proxies: Option<ProxyRules>,
}

/// Who is a front proxy, and where it says on whose behalf it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProxyRules {
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
        Self { api: Api::namespaced(client, NAMESPACE), said: Said::default() }
    }

    /// Looks once, so that it is known at the start whether that works.
    pub async fn look_up(&mut self) -> Result<()> {
        self.said = self.look().await?.0;
        Ok(())
    }

    /// Those of a server that takes over what is said here.
    pub(super) fn authorities(&self, client_ca: Arc<ClientCa>) -> Authorities {
        let cluster = Self { api: self.api.clone(), said: Said::default() };
        Authorities { cluster, client_ca }
    }

    /// What was seen last.
    pub(super) fn said(&self) -> &Said {
        &self.said
    }

    /// Tells of every change, for ever.
    pub(super) async fn follow(self, client_ca: Arc<ClientCa>) {
        let mut pause = PAUSE;
        let mut failed = false;
        loop {
            match self.follow_once(&client_ca, &mut pause).await {
                Ok(()) => failed = false,
                Err(error) => {
                    if !failed {
                        warn!(error = %format_args!("{error:#}"), "cannot follow the authorities of the cluster; those known stay");
                    }
                    failed = true;
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Looks, and then watches until the watch ends.
    async fn follow_once(&self, client_ca: &ClientCa, pause: &mut Duration) -> Result<()> {
        let (said, version) = self.look().await?;
        tell(client_ca, &said)?;
        *pause = PAUSE;
        let only = WatchParams::default()
            .fields(&format!("metadata.name={NAME}"))
            .timeout(WATCH_SECONDS)
            .disable_bookmarks();
        let watch = async {
            let mut events = pin!(self.api.watch(&only, &version).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                        tell(client_ca, &Said::parse(&map.data.unwrap_or_default())?)?;
                    }
                    // What was known stays, as upstream has it.
                    WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => bail!("{}", status.message),
                }
            }
            anyhow::Ok(())
        };
        // A watch that is silent for longer than it may last is dead.
        timeout(WATCH_TIME, watch).await.unwrap_or(Ok(()))
    }

    async fn look(&self) -> Result<(Said, String)> {
        let map = timeout(LOOK_TIME, self.api.get(NAME)).await;
        let map = map.context("no answer").and_then(|map| Ok(map?));
        let map = map.with_context(|| format!("ConfigMap {NAMESPACE}/{NAME}"))?;
        let said = Said::parse(&map.data.unwrap_or_default())?;
        Ok((said, map.metadata.resource_version.unwrap_or_default()))
    }
}

fn tell(client_ca: &ClientCa, said: &Said) -> Result<()> {
    if client_ca.take_over(said)? {
        info!("authorities of the cluster were taken over");
    }
    Ok(())
}

impl Said {
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
        let proxies = ProxyRules {
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
