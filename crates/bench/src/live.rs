//! Measures schedulers side by side: each in turn drains the same workload on the same control plane.
//!
//! ```text
//! cluster ─▶ nodes and pods of a family ─▶ raw binds ─▶ ┌─ create pods, start a contender ─▶ drain ─▶ check ─┐ ─▶ report, plot
//!                                                     └─ delete ◀─ check ◀─ arrivals ◀─ delete ◀───────────┘
//! ```

mod cluster;
pub(super) mod contender;
mod drain;
mod manifest;
pub(super) mod observer;
mod plot;
mod report;
mod workload;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use cli::api_client::ApiClient;
use cli::output::{complain, say};
use controlplane::Cores;

use crate::families::Family;
use crate::programs;
use cluster::LiveCluster;
use contender::{Contender, Contenders};
use drain::Drain;
use report::{Run, Summary};
use workload::LiveWorkload;

pub(crate) use contender::QPS;

/// Settings of the measurement.
pub(crate) struct LiveSettings {
    /// Families, in this order.
    pub(crate) families: Vec<&'static Family>,
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Number of pods, if not as many as the family has.
    pub(crate) pods: Option<usize>,
    /// Number of rounds, in each of which both contenders drain each family.
    pub(crate) rounds: usize,
    /// Seconds during which pods arrive one by one, to measure latency; 0 skips this.
    pub(crate) arrival_seconds: u64,
    /// Kubeconfig of a running control plane; without it one is started.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Start the sandbox, not upstream's control plane.
    pub(crate) sandbox: bool,
    /// The core reserved for schedulers, if there is one.
    pub(crate) cores: Option<Cores>,
    /// Build of Jindou to measure, if not the one beside this program.
    pub(crate) jindou: Option<PathBuf>,
    /// File for the plot.
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON instead of tables.
    pub(crate) json: bool,
}

/// Runs the measurement and prints the results. Fails if a placement is wrong.
pub(crate) async fn run(settings: &LiveSettings) -> Result<()> {
    let works = settings
        .families
        .iter()
        .map(|family| workload::prepare(family, settings.nodes, settings.pods));
    let works = works.collect::<Result<Vec<_>>>()?;
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    let cluster = match &settings.kubeconfig {
        Some(kubeconfig) => LiveCluster::of(kubeconfig).await?,
        None if settings.sandbox => LiveCluster::sandbox().await?,
        None => LiveCluster::start().await?,
    };
    let folder = tempfile::Builder::new().prefix("jindou-bench-").tempdir()?;
    let contenders = Contenders {
        kube: cluster.bin.join("kube-scheduler"),
        jindou: programs::jindou(settings.jindou.as_deref())?,
        kubeconfig: cluster.scheduler_kubeconfig.clone(),
        folder: folder.path().to_owned(),
        cores: settings.cores.as_ref(),
    };
    let (mut runs, mut summaries, mut namespaces) = (Vec::new(), Vec::new(), Vec::new());
    for objects in works {
        let workload = LiveWorkload::set_up(&cluster, objects).await?;
        let summary = measure(settings, &cluster, &contenders, &workload, &mut runs).await;
        // A control plane that was started here is deleted as a whole.
        if !cluster.is_own() || summary.is_ok() {
            namespaces.extend(workload.clear().await?);
        }
        summaries.extend(summary?);
    }
    if !cluster.is_own() {
        let requests = ApiClient::connect(&cluster.kubeconfig).await?;
        for name in namespaces {
            requests.delete(&format!("/api/v1/namespaces/{name}")).await?;
        }
    }
    cluster.stop().await?;
    if !settings.json {
        say(&format!("{}\n{}", report::runs_table(&runs), report::summaries_table(&summaries)))?;
    }
    for Summary { family, doubt, .. } in &summaries {
        if let Some(doubt) = doubt {
            complain(&format!("warning: the figures of {family} are not valid: {doubt}"));
        }
    }
    if let Some(file) = &settings.plot {
        let drawn = std::fs::write(file, plot::plot(&runs));
        drawn.with_context(|| format!("cannot write {}", file.display()))?;
    }
    match runs.iter().map(|run| run.violations).sum::<usize>() {
        0 => Ok(()),
        count => bail!("{count} violations"),
    }
}

/// Measures one family.
async fn measure(
    settings: &LiveSettings,
    cluster: &LiveCluster,
    contenders: &Contenders<'_>,
    workload: &LiveWorkload,
    all: &mut Vec<Run>,
) -> Result<Option<Summary>> {
    let family = workload.family();
    complain(&format!("{family}: {} nodes, {} pods", settings.nodes, workload.pods()));
    let raw = workload.raw_binds_per_second().await?;
    complain(&format!("{family}: the API server takes {raw:.0} binds/s without a scheduler"));
    let mut runs: Vec<Run> = Vec::new();
    let mut drain = Drain::new(cluster, contenders, workload, settings.arrival_seconds);
    for round in 1..=settings.rounds {
        for contender in [Contender::KubeScheduler, Contender::Jindou] {
            let mut run = drain
                .run(contender)
                .await
                .with_context(|| format!("{family}, round {round}, {}", contender.name()))?;
            run.round = round;
            run.counted = round > 1 || settings.rounds == 1;
            complain(&format!(
                "{family}: round {round} of {}: {}: {:.3} CPU-s per 1,000 pods, {:.0} pods/s",
                settings.rounds,
                contender.name(),
                run.cpu_s_per_1000,
                run.pods_per_second
            ));
            if settings.json {
                say(&(serde_json::to_string(&run)? + "\n"))?;
            }
            runs.push(run);
        }
    }
    let summary = report::summarise(&runs, raw, settings.cores.as_ref().map(Cores::others));
    if let Some(summary) = summary.as_ref().filter(|_| settings.json) {
        say(&(serde_json::to_string(summary)? + "\n"))?;
    }
    all.append(&mut runs);
    Ok(summary)
}
