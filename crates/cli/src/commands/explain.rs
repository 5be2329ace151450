//! `jindou explain`: the decision about a pod and its reasons.

mod live;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use api::config::Gates;
use api::lower::Severity;
use api::snapshot::{self, Snapshot};
use clap::Args;
use engine::framework::Profile;
use engine::object::{AnnotationKeys, Pod};
use plugins::registry::Registry;

use crate::explain::{explain_with_suggestions, table};
use crate::output::{Format, complain, print};

/// Explain the decision about a pod: the chosen node, or why no node fits and what would help.
///
/// The pod is `pod/NAME` of a live cluster, or a file (--snapshot and --pod).
/// The cluster is only read.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Options {
    /// Pod of a live cluster, as `pod/NAME`; a bound pod is explained as if it were not bound.
    #[arg(value_name = "pod/NAME", required_unless_present_any = ["snapshot", "pod"])]
    live: Option<String>,
    /// Namespace of the pod [default: that of the kubeconfig's context].
    #[arg(short, long, requires = "live")]
    namespace: Option<String>,
    /// Kubeconfig of the cluster [default: the one that kubectl uses].
    #[arg(long, value_name = "FILE", requires = "live")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, value_name = "NAME", requires = "live")]
    context: Option<String>,
    /// Objects of the cluster: any Kubernetes YAML or JSON, such as the output of `kubectl get nodes,pods -A -o yaml`; `-` for standard input.
    #[arg(long, value_name = "FILE", requires = "pod", conflicts_with = "live")]
    snapshot: Option<PathBuf>,
    /// The pod to explain, YAML or JSON; `-` for standard input.
    #[arg(long, value_name = "FILE", requires = "snapshot", conflicts_with = "live")]
    pod: Option<PathBuf>,
    /// KubeSchedulerConfiguration, YAML or JSON [default: the built-in configuration].
    #[arg(long)]
    config: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  a node fits
  2  no node fits
  1  no decision: wrong arguments or files, no nodes, or a plugin failed

Colours appear only on a terminal, and not if NO_COLOR is set.";

/// Exit code if no node fits, which scripts can distinguish from a failure.
const NO_NODE_FITS: u8 = 2;

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    let files = [&options.snapshot, &options.pod, &options.config];
    if files.iter().filter(|file| file.as_deref() == Some(Path::new("-"))).count() > 1 {
        bail!("only one of --snapshot, --pod and --config can be standard input");
    }
    let configuration = super::config::load(options.config.as_deref(), Gates::default(), registry)?;
    let profiles = registry.profiles(&configuration).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })?;
    if !configuration.extenders.is_empty() {
        complain(
            "note: the extenders of the configuration are not called, so the scheduler's decision may differ",
        );
    }
    let known: Vec<String> = profiles.iter().map(|profile| profile.name.clone()).collect();
    let (cluster, pod) = read(options, &Arc::new(Profile::annotations(&profiles)))?;
    let mut objects = cluster.objects;
    objects.pods.retain(|other| (&other.namespace, &other.name) != (&pod.namespace, &pod.name));
    let mut engine = objects.into_engine(profiles);
    let Some(answer) = explain_with_suggestions(&mut engine, &pod, now()) else {
        bail!(
            "{}Pod {}/{}: spec.schedulerName: found {:?}, expected one of the configured profiles: {}",
            options.pod.as_ref().map_or_else(String::new, |file| format!("{}: ", file.display())),
            pod.namespace,
            pod.name,
            pod.spec.scheduler_name,
            known.join(", ")
        );
    };
    print(options.output, &answer, || table::table(&answer))?;
    Ok(match (&answer.error, &*answer.selected) {
        (Some(_), _) => ExitCode::FAILURE,
        (None, "") => NO_NODE_FITS.into(),
        (None, _) => ExitCode::SUCCESS,
    })
}

/// Returns the cluster and the pod.
fn read(options: &Options, keys: &Arc<AnnotationKeys>) -> Result<(Snapshot, Pod)> {
    match (&options.live, &options.snapshot, &options.pod) {
        (Some(pod), ..) => live::read(&live::PodQuery {
            pod,
            keys,
            namespace: options.namespace.as_deref(),
            kubeconfig: options.kubeconfig.as_deref(),
            context: options.context.as_deref(),
        }),
        (None, Some(snapshot), Some(pod)) => {
            Ok((read_snapshot(snapshot, keys)?, read_pod(pod, keys)?))
        }
        _ => bail!("use `pod/NAME`, or --snapshot and --pod"),
    }
}

/// Reads a file, or standard input for `-`.
pub(super) fn read_text(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn read_snapshot(file: &Path, keys: &Arc<AnnotationKeys>) -> Result<Snapshot> {
    let snapshot = snapshot::read_with(&read_text(file)?, Arc::clone(keys));
    report_problems(&file.display().to_string(), &snapshot)?;
    Ok(snapshot)
}

fn read_pod(file: &Path, keys: &Arc<AnnotationKeys>) -> Result<Pod> {
    let mut read = snapshot::read_with(&read_text(file)?, Arc::clone(keys));
    report_problems(&file.display().to_string(), &read)?;
    match read.objects.pods.len() {
        1 => Ok(read.objects.pods.remove(0)),
        0 => {
            let mut kinds: BTreeSet<String> = read.ignored.into_keys().collect();
            kinds.extend(read.objects.nodes.first().map(|_| "Node".to_owned()));
            kinds.extend(read.objects.others.iter().map(|object| format!("{:?}", object.kind())));
            if !kinds.is_empty() {
                let kinds: Vec<_> = kinds.into_iter().collect();
                bail!("{} contains no pod, only {}", file.display(), kinds.join(", "));
            }
            bail!("{} contains no pod", file.display())
        }
        count => bail!("{} contains {count} pods; expected one", file.display()),
    }
}

fn report_problems(source: &str, snapshot: &Snapshot) -> Result<()> {
    for problem in &snapshot.problems {
        let severity = match problem.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        complain(&format!("{severity}: {source}: {problem}"));
    }
    let errors = snapshot.problems.iter().filter(|p| p.severity == Severity::Error).count();
    if errors > 0 {
        let problems = if errors == 1 { "a problem" } else { "problems" };
        bail!("{source} has {problems}; nothing was decided");
    }
    Ok(())
}

/// Returns the wall-clock time in nanoseconds since the epoch.
fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}
