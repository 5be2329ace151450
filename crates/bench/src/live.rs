//! Schedulers side by side: the same workload on the same control plane, drained by one and the other in turn.
//!
//! ```text
//! place ─▶ nodes and pods of a family ─▶ raw binds ─▶ ┌─ pods are made, a contender starts ─▶ drain ─▶ check ─┐ ─▶ report, plot
//!                                                     └─ pods go ◀─ check ◀─ arrivals ◀─ pods go ◀────────────┘
//! ```

pub(super) mod contender;
mod drain;
mod manifest;
pub(super) mod observer;
mod place;
mod plot;
mod report;
mod stage;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use cli::api_client::ApiClient;
use cli::output::{complain, say};
use controlplane::Cores;

use crate::families::Family;
use crate::programs;
use contender::{Contender, Contenders};
use drain::Drain;
use place::Place;
use report::{Closing, Run};
use stage::Stage;

pub(crate) use contender::QPS;
pub(crate) use report::{median, percentile};

/// What to measure.
pub(crate) struct Plan {
    /// Families, in this order.
    pub(crate) families: Vec<&'static Family>,
    /// How many nodes.
    pub(crate) nodes: usize,
    /// How many pods, if not as many as the family has.
    pub(crate) pods: Option<usize>,
    /// How often each contender drains each family.
    pub(crate) rounds: usize,
    /// How long pods arrive one by one, to measure latency; zero leaves it out.
    pub(crate) arrival_seconds: u64,
    /// Access to a control plane that runs; without it one is started.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Whether it is the sandbox that is started, not upstream's control plane.
    pub(crate) sandbox: bool,
    /// The core that schedulers have for themselves, if they have one.
    pub(crate) cores: Option<Cores>,
    /// The program to measure as Jindou, if it is not this one.
    pub(crate) jindou: Option<PathBuf>,
    /// Where to draw the figures.
    pub(crate) plot: Option<PathBuf>,
    /// Whether to print objects for programs.
    pub(crate) json: bool,
}

/// Measures and prints. Fails when a placement breaks a rule.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let works = plan.families.iter().map(|family| stage::prepare(family, plan.nodes, plan.pods));
    let works = works.collect::<Result<Vec<_>>>()?;
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    let place = match &plan.kubeconfig {
        Some(kubeconfig) => Place::of(kubeconfig).await?,
        None if plan.sandbox => Place::sandbox().await?,
        None => Place::start().await?,
    };
    let folder = tempfile::Builder::new().prefix("jindou-bench-").tempdir()?;
    let contenders = Contenders {
        kube: place.bin.join("kube-scheduler"),
        jindou: programs::jindou(plan.jindou.as_deref())?,
        kubeconfig: place.scheduler_kubeconfig.clone(),
        folder: folder.path().to_owned(),
        cores: plan.cores.as_ref(),
    };
    let (mut runs, mut closings, mut namespaces) = (Vec::new(), Vec::new(), Vec::new());
    for work in works {
        let stage = Stage::set(&place, work).await?;
        let closing = measure(plan, &place, &contenders, &stage, &mut runs).await;
        // A control plane of our own goes as a whole.
        if !place.is_own() || closing.is_ok() {
            namespaces.extend(stage.clear().await?);
        }
        closings.extend(closing?);
    }
    if !place.is_own() {
        let requests = ApiClient::connect(&place.kubeconfig).await?;
        for name in namespaces {
            requests.delete(&format!("/api/v1/namespaces/{name}")).await?;
        }
    }
    place.stop().await?;
    if !plan.json {
        say(&format!("{}\n{}", report::runs_table(&runs), report::closings_table(&closings)))?;
    }
    for Closing { family, doubt, .. } in &closings {
        if let Some(doubt) = doubt {
            complain(&format!("warning: the figures of {family} do not count: {doubt}"));
        }
    }
    if let Some(file) = &plan.plot {
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
    plan: &Plan,
    place: &Place,
    contenders: &Contenders<'_>,
    stage: &Stage,
    all: &mut Vec<Run>,
) -> Result<Option<Closing>> {
    let family = stage.family();
    complain(&format!("{family}: {} nodes, {} pods", plan.nodes, stage.pods()));
    let raw = stage.raw_binds_per_second().await?;
    complain(&format!("{family}: the API server takes {raw:.0} binds/s when nobody decides"));
    let mut runs: Vec<Run> = Vec::new();
    let mut drain = Drain::new(place, contenders, stage, plan.arrival_seconds);
    for round in 1..=plan.rounds {
        for contender in [Contender::KubeScheduler, Contender::Jindou] {
            let mut run = drain
                .run(contender)
                .await
                .with_context(|| format!("{family}, round {round}, {}", contender.name()))?;
            run.round = round;
            run.counted = round > 1 || plan.rounds == 1;
            complain(&format!(
                "{family}: round {round} of {}: {}: {:.3} CPU-s per 1,000 pods, {:.0} pods/s",
                plan.rounds,
                contender.name(),
                run.cpu_s_per_1000,
                run.pods_per_second
            ));
            if plan.json {
                say(&(serde_json::to_string(&run)? + "\n"))?;
            }
            runs.push(run);
        }
    }
    let closing = report::close(&runs, raw, plan.cores.as_ref().map(Cores::others));
    if let Some(closing) = closing.as_ref().filter(|_| plan.json) {
        say(&(serde_json::to_string(closing)? + "\n"))?;
    }
    all.append(&mut runs);
    Ok(closing)
}
