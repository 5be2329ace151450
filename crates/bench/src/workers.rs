//! Bounded concurrency for requests.

use std::future::Future;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _};

/// Requests in flight while objects are created and deleted, as in upstream's scheduler_perf.
pub(crate) const WORKERS: usize = 30;

/// Runs `act` for each item, at most `concurrency` at once. The first error cancels the others.
pub(crate) async fn for_each_concurrent<T, F: Future<Output = Result<()>>>(
    items: impl IntoIterator<Item = T>,
    concurrency: usize,
    act: impl FnMut(T) -> F,
) -> Result<()> {
    let acts = futures::stream::iter(items).map(act);
    acts.buffer_unordered(concurrency).try_for_each(|()| std::future::ready(Ok(()))).await
}
