//! Requests and limits of pods, for `/metrics/resources`.
//!
//! The text is streamed: the engine returns 512 pods at a time, so that it is not delayed for long and the
//! text is never in memory as a whole. As upstream's page it covers pods that have not ended, except
//! pending pods of other schedulers, which the engine does not know.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::object::{PodSpec, Resources, Text};
use engine::state::State;
use futures::stream::{self, Stream, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::driver::Input;

#[cfg(test)]
mod tests;

/// Number of pod slots per page; the engine reads them in a fraction of a millisecond.
const PAGE_SLOTS_MAX: usize = 512;

/// Maximum number of concurrent readers; there are one or two scrapers.
const READERS_MAX: usize = 2;

/// Time limit of a page, including the inputs that wait before it.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the page is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum ResourcesError {
    /// The engine's loop has ended.
    #[error("the scheduler has ended")]
    EngineEnded,
    /// The engine did not return a page in time.
    #[error("the scheduler did not answer")]
    Timeout,
}

/// Some of the engine's pods.
#[derive(Debug)]
pub struct PodPage {
    pods: Vec<PodRow>,
    /// First slot of the next page.
    next: Option<usize>,
}

#[derive(Debug)]
struct PodRow {
    namespace: Text,
    name: Text,
    node: Text,
    priority: i32,
    spec: Arc<PodSpec>,
}

impl PodPage {
    /// Reads the pods from a slot on.
    pub(crate) fn new(state: &State, from: usize) -> Self {
        let to = from.saturating_add(PAGE_SLOTS_MAX);
        let pods = state.pods.iter_within(from..to).map(|(pod, record)| PodRow {
            namespace: state.namespace(pod).into(),
            name: record.name.clone(),
            // Assumed pods have no node at the API server yet.
            node: match record.node {
                node if node.is_some() && !record.assumed => state.nodes.name(node).into(),
                _ => "".into(),
            },
            priority: record.priority,
            spec: Arc::clone(&state.specs.get(record.spec).spec),
        });
        Self { pods: pods.collect(), next: (to < state.pods.slots()).then_some(to) }
    }
}

/// Reads pages from the engine. Clones share the limit of readers.
#[derive(Clone)]
pub struct PodResources {
    inputs: mpsc::Sender<Input>,
    readers: Arc<Semaphore>,
}

/// The two metric families, in the order of their names.
#[derive(Clone, Copy)]
enum ResourceFamily {
    Limit,
    Request,
}

/// Position in the text.
struct StreamPosition {
    family: ResourceFamily,
    from: usize,
    _reader: OwnedSemaphorePermit,
}

impl PodResources {
    pub(crate) fn new(inputs: mpsc::Sender<Input>) -> Self {
        Self { inputs, readers: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    /// Returns the text in pieces, in Prometheus' format, or `None` if there are too many readers.
    pub(crate) fn text(
        &self,
    ) -> Option<impl Stream<Item = Result<Bytes, ResourcesError>> + Send + use<>> {
        let reader = Arc::clone(&self.readers).try_acquire_owned().ok()?;
        let inputs = self.inputs.clone();
        let first = StreamPosition { family: ResourceFamily::Limit, from: 0, _reader: reader };
        let pieces = stream::try_unfold(Some(first), move |position| {
            let inputs = inputs.clone();
            async move {
                let Some(position) = position else { return Ok(None) };
                let page = request_page(&inputs, position.from).await?;
                let piece = position.family.text(position.from == 0, &page.pods);
                Ok(Some((Bytes::from(piece), position.after(page.next))))
            }
        });
        Some(pieces.filter(|piece| {
            let is_empty = piece.as_ref().is_ok_and(Bytes::is_empty);
            std::future::ready(!is_empty)
        }))
    }
}

async fn request_page(
    inputs: &mpsc::Sender<Input>,
    from: usize,
) -> Result<PodPage, ResourcesError> {
    let page = timeout(PAGE_TIMEOUT, async {
        let (reply, page) = oneshot::channel();
        let sent = inputs.send(Input::Pods { from, reply }).await;
        sent.map_err(|_| ResourcesError::EngineEnded)?;
        page.await.map_err(|_| ResourcesError::EngineEnded)
    });
    page.await.unwrap_or(Err(ResourcesError::Timeout))
}

impl StreamPosition {
    fn after(self, next: Option<usize>) -> Option<Self> {
        match (self.family, next) {
            (_, Some(from)) => Some(Self { from, ..self }),
            (ResourceFamily::Limit, None) => {
                Some(Self { family: ResourceFamily::Request, from: 0, ..self })
            }
            (ResourceFamily::Request, None) => None,
        }
    }
}

impl ResourceFamily {
    fn text(self, first: bool, pods: &[PodRow]) -> String {
        let (name, help) = match self {
            Self::Limit => ("kube_pod_resource_limit", "Limit of a pod for a resource."),
            Self::Request => ("kube_pod_resource_request", "Request of a pod for a resource."),
        };
        let mut text = String::new();
        // Writing to a string cannot fail.
        if first {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        }
        for PodRow { namespace, name: pod, node, priority, spec } in pods {
            let amounts = match self {
                Self::Limit => &spec.limits,
                Self::Request => &spec.requests,
            };
            for (resource, unit, amount) in nonzero_amounts(amounts) {
                let _ = writeln!(
                    text,
                    "{name}{{namespace=\"{}\",pod=\"{}\",node=\"{}\",scheduler=\"{}\",priority=\"{priority}\",resource=\"{}\",unit=\"{unit}\"}} {amount}",
                    escaped(namespace),
                    escaped(pod),
                    escaped(node),
                    escaped(&spec.scheduler_name),
                    escaped(resource),
                );
            }
        }
        text
    }
}

/// Returns name, unit and amount of each resource with an amount other than zero.
fn nonzero_amounts(amounts: &Resources) -> impl Iterator<Item = (&str, &'static str, f64)> {
    let plain = [
        ("cpu", "cores", amounts.cpu as f64 / 1000.0),
        ("memory", "bytes", amounts.memory as f64),
        ("ephemeral-storage", "bytes", amounts.ephemeral as f64),
    ];
    let scalars = amounts.scalars.iter().map(|(name, amount)| {
        let unit = match &**name {
            name if name.starts_with("hugepages-") => "bytes",
            name if name.starts_with("attachable-volumes-") => "integer",
            _ => "",
        };
        (&**name, unit, *amount as f64)
    });
    plain.into_iter().chain(scalars).filter(|(_, _, amount)| *amount != 0.0)
}

/// Escapes the value of a label.
fn escaped(value: &str) -> std::borrow::Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n").into()
}
