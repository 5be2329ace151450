//! Results of runs, and the ratios computed from them.

use cli::output::columns;
use serde::Serialize;

use super::contender::Contender;
use crate::statistics::median;

/// Maximum spread of the baseline's runs, as a share of their median, for figures to be valid.
const SPREAD_MAX: f64 = 0.15;

/// Resolution of the kernel's CPU time, in seconds.
const TICK_S: f64 = 0.01;

/// Maximum difference of the numbers of events, as a share, for both schedulers to have done the same work.
const EVENTS_SHARE_MAX: f64 = 0.05;

/// The results of one scheduler that drained one workload once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    /// Family of the workload.
    pub(super) family: &'static str,
    /// Number of nodes.
    pub(super) nodes: usize,
    /// Number of pods measured.
    pub(super) pods: usize,
    /// The scheduler.
    pub(super) scheduler: Contender,
    /// Round, from 1; each has one run of each scheduler.
    pub(super) round: usize,
    /// `true` if the run enters the ratios; the first round warms up.
    pub(super) counted: bool,
    /// CPU seconds of the scheduler per 1,000 pods, from its start until it was idle.
    pub(super) cpu_s_per_1000: f64,
    /// Pods bound per second, from the first bind to the last.
    pub(super) pods_per_second: f64,
    /// Median milliseconds from the creation of a pod to its bind, with pods arriving one by one.
    pub(super) p50_ms: Option<f64>,
    /// 99th percentile of this latency.
    pub(super) p99_ms: Option<f64>,
    /// Arrivals per second in that part.
    pub(super) arrivals_per_second: Option<f64>,
    /// Peak resident memory of the scheduler, in megabytes.
    pub(super) rss_mb: f64,
    /// CPU seconds of the API server, over the same time as the scheduler's.
    pub(super) apiserver_cpu_s: f64,
    /// Seconds from the start of the process to the first bind.
    pub(super) first_bind_s: f64,
    /// Seconds from the first bind to the last.
    pub(super) drain_s: f64,
    /// CPU seconds of the scheduler per 1,000 pods, from the first bind to the last.
    pub(super) drain_cpu_s_per_1000: f64,
    /// CPU seconds of all other processes per 1,000 pods, from the first bind to the last.
    pub(super) outside_cpu_s_per_1000: f64,
    /// Events that the scheduler wrote.
    pub(super) events: u64,
    /// Wrong placements, and pods that were bound twice.
    pub(super) violations: usize,
}

/// The results of all counted runs of a family; each ratio is Jindou's value divided by kube-scheduler's.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// Family of the workload.
    pub(super) family: &'static str,
    /// `true` if schedulers had a core of their own.
    pub(super) pinned: bool,
    /// Median ratio of CPU time.
    pub(super) cpu_ratio: f64,
    /// Highest ratio of CPU time in a round.
    pub(super) cpu_ratio_worst: f64,
    /// Median ratio of CPU time from the first bind to the last, without the cost of the start, which does not depend on
    /// the number of pods.
    pub(super) drain_cpu_ratio: f64,
    /// Median ratio of pods bound per second.
    pub(super) drain_ratio: f64,
    /// Lowest ratio of pods bound per second in a round.
    pub(super) drain_ratio_worst: f64,
    /// Upper bound of `drain_ratio` if all cores are busy: (S+B)/(S+C), where B is the CPU time of kube-scheduler, C
    /// that of Jindou and S that of all other processes, measured in the run of each. If schedulers have a core of their
    /// own: max(S,B)/max(S,C), with S divided by the number of other cores.
    pub(super) bound: f64,
    /// `drain_ratio` divided by `bound`.
    pub(super) fraction_of_bound: f64,
    /// Median ratio of peak memory.
    pub(super) rss_ratio: f64,
    /// Median ratio of the 99th percentile of latency.
    pub(super) p99_ratio: Option<f64>,
    /// Binds per second without a scheduler: the limit of this API server.
    pub(super) raw_binds_per_second: f64,
    /// Difference between kube-scheduler's fastest and slowest drain, as a share of their median.
    pub(super) baseline_spread: f64,
    /// `true` if the baseline ran more than once with a small spread, both did the same work, and no placement is wrong.
    pub(super) valid: bool,
    /// Why the figures are not valid.
    #[serde(skip)]
    pub(super) doubt: Option<String>,
}

/// Summarises the runs of one family. Returns `None` if no round is counted.
pub(super) fn summarise(
    runs: &[Run],
    raw_binds_per_second: f64,
    cores_of_others: Option<usize>,
) -> Option<Summary> {
    let of = |scheduler| runs.iter().filter(move |run| run.counted && run.scheduler == scheduler);
    let kube: Vec<&Run> = of(Contender::KubeScheduler).collect();
    let jindou: Vec<&Run> = of(Contender::Jindou).collect();
    let pairs = || jindou.iter().zip(&kube);
    let ratios = |value: fn(&Run) -> f64| -> Vec<f64> {
        pairs().map(|(ours, theirs)| value(ours) / value(theirs)).collect()
    };
    let cpu = ratios(|run| run.cpu_s_per_1000);
    let drain = ratios(|run| run.pods_per_second);
    let p99 = pairs().filter_map(|(ours, theirs)| Some(ours.p99_ms? / theirs.p99_ms?));
    let used = |run: &Run| {
        let (outside, drain) = (run.outside_cpu_s_per_1000, run.drain_cpu_s_per_1000);
        let used = match cores_of_others {
            None => outside + drain,
            Some(cores) => drain.max(outside / cores as f64),
        };
        used.max(tick(run))
    };
    let bound = median(pairs().map(|(ours, theirs)| used(theirs) / used(ours)))?;
    let drain_ratio = median(drain.iter().copied())?;
    let baseline = kube.iter().map(|run| run.pods_per_second);
    let spread = (baseline.clone().fold(f64::MIN, f64::max)
        - baseline.clone().fold(f64::MAX, f64::min))
        / median(baseline)?;
    let violations: usize = runs.iter().map(|run| run.violations).sum();
    let events = |runs: &[&Run]| median(runs.iter().map(|run| run.events as f64));
    let (written, expected) = (events(&jindou)?, events(&kube)?);
    let same_work = (written - expected).abs() <= EVENTS_SHARE_MAX * expected;
    let doubt = if violations > 0 {
        Some(format!("{violations} placements are wrong"))
    } else if !same_work {
        Some(format!("{written} events were written where kube-scheduler wrote {expected}"))
    } else if kube.len() < 2 {
        Some("at least two rounds must be counted; use --rounds 3".to_owned())
    } else {
        let percent = spread * 100.0;
        (spread > SPREAD_MAX).then(|| {
            format!("the runs of kube-scheduler differ by {percent:.0} %; use a quiet machine")
        })
    };
    Some(Summary {
        family: runs.first()?.family,
        pinned: cores_of_others.is_some(),
        cpu_ratio: median(cpu.iter().copied())?,
        cpu_ratio_worst: cpu.iter().copied().fold(f64::MIN, f64::max),
        drain_cpu_ratio: median(ratios(|run| run.drain_cpu_s_per_1000.max(tick(run))))?,
        drain_ratio,
        drain_ratio_worst: drain.iter().copied().fold(f64::MAX, f64::min),
        bound,
        fraction_of_bound: drain_ratio / bound,
        rss_ratio: median(ratios(|run| run.rss_mb))?,
        p99_ratio: median(p99),
        raw_binds_per_second,
        baseline_spread: spread,
        valid: doubt.is_none(),
        doubt,
    })
}

/// Returns a table with a row per run.
pub(super) fn runs_table(runs: &[Run]) -> String {
    let head = [
        "FAMILY",
        "NODES",
        "PODS",
        "ROUND",
        "SCHEDULER",
        "CPU S/1000",
        "PODS/S",
        "P50 MS",
        "P99 MS",
        "RSS MB",
        "API CPU S",
        "VIOLATIONS",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for run in runs {
        let first = if run.counted { "" } else { "*" };
        rows.push(vec![
            run.family.to_owned(),
            run.nodes.to_string(),
            run.pods.to_string(),
            format!("{}{first}", run.round),
            run.scheduler.name().to_owned(),
            format!("{:.3}", run.cpu_s_per_1000),
            format!("{:.0}", run.pods_per_second),
            run.p50_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}")),
            run.p99_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}")),
            format!("{:.1}", run.rss_mb),
            format!("{:.2}", run.apiserver_cpu_s),
            run.violations.to_string(),
        ]);
    }
    let note =
        if runs.iter().all(|run| run.counted) { "" } else { "* warms up and is not counted\n" };
    columns(&rows) + note
}

/// Returns a table with a row per family.
pub(super) fn summaries_table(summaries: &[Summary]) -> String {
    let head = [
        "JINDOU / KUBE-SCHEDULER",
        "CPU",
        "WORST",
        "CPU IN DRAIN",
        "DRAIN",
        "BOUND",
        "OF BOUND",
        "P99",
        "RSS",
        "RAW BINDS/S",
        "SPREAD",
        "VALID",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for summary in summaries {
        rows.push(vec![
            summary.family.to_owned(),
            parts(summary.cpu_ratio),
            parts(summary.cpu_ratio_worst),
            parts(summary.drain_cpu_ratio),
            format!("{:.2}x", summary.drain_ratio),
            format!("{:.2}x", summary.bound),
            format!("{:.0}%", summary.fraction_of_bound * 100.0),
            summary.p99_ratio.map_or_else(|| "-".to_owned(), parts),
            parts(summary.rss_ratio),
            format!("{:.0}", summary.raw_binds_per_second),
            format!("{:.0}%", summary.baseline_spread * 100.0),
            if summary.valid { "yes" } else { "no" }.to_owned(),
        ]);
    }
    columns(&rows)
}

/// Returns the resolution of CPU time per 1,000 pods, since a drain of few pods may take less than it.
fn tick(run: &Run) -> f64 {
    TICK_S * 1000.0 / run.pods as f64
}

/// Returns a ratio as text, with ratios below 1 as fractions such as `1/57.1`.
fn parts(ratio: f64) -> String {
    if ratio < 1.0 { format!("1/{:.1}", 1.0 / ratio) } else { format!("{ratio:.2}x") }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns runs of one family.
    pub(in crate::live) fn example() -> Vec<Run> {
        let run = |round, scheduler, cpu_s_per_1000, pods_per_second, rss_mb| Run {
            family: "SchedulingBasic",
            nodes: 5000,
            pods: 10_000,
            scheduler,
            round,
            counted: round > 1,
            cpu_s_per_1000,
            pods_per_second,
            p50_ms: Some(8.04),
            p99_ms: Some(if scheduler == Contender::Jindou { 20.0 } else { 80.0 }),
            arrivals_per_second: Some(180.0),
            rss_mb,
            apiserver_cpu_s: 12.5,
            first_bind_s: 2.5,
            drain_s: 10_000.0 / pods_per_second,
            drain_cpu_s_per_1000: cpu_s_per_1000,
            outside_cpu_s_per_1000: 1.0,
            events: 10_000,
            violations: 0,
        };
        vec![
            run(1, Contender::KubeScheduler, 4.0, 250.0, 400.0),
            run(1, Contender::Jindou, 0.1, 900.0, 40.0),
            run(2, Contender::KubeScheduler, 3.0, 300.0, 400.0),
            run(2, Contender::Jindou, 0.06, 1200.0, 30.0),
            run(3, Contender::KubeScheduler, 3.2, 310.0, 400.0),
            run(3, Contender::Jindou, 0.048, 1240.0, 30.0),
        ]
    }

    #[test]
    fn ratios_are_medians_over_rounds_without_the_first() {
        let summary = summarise(&example(), 1480.0, None).unwrap();
        assert!((summary.cpu_ratio - 0.0175).abs() < 1e-12);
        assert!((summary.cpu_ratio_worst - 0.02).abs() < 1e-12);
        assert_eq!((summary.drain_ratio, summary.rss_ratio), (4.0, 0.075));
        assert!((summary.bound - f64::midpoint(4.0 / 1.06, 4.2 / 1.048)).abs() < 1e-12);
        assert!((summary.baseline_spread - 10.0 / 305.0).abs() < 1e-12);
        assert_eq!(summary.p99_ratio, Some(0.25));
        assert!(summary.valid);
        assert!(summarise(&example()[..2], 1480.0, None).is_none());
    }

    #[test]
    fn with_a_core_of_their_own_the_busier_side_sets_the_bound() {
        // Kube-scheduler is busier than the others, and they are busier than Jindou.
        let summary = summarise(&example(), 1480.0, Some(1)).unwrap();
        assert!(summary.pinned);
        assert!((summary.bound - 3.1).abs() < 1e-12);
        let summary = summarise(&example(), 1480.0, Some(4)).unwrap();
        assert!((summary.bound - 12.4).abs() < 1e-12);
    }

    #[test]
    fn invalid_figures_have_a_reason() {
        let doubt = |spoil: fn(&mut Vec<Run>)| {
            let mut runs = example();
            spoil(&mut runs);
            let summary = summarise(&runs, 1.0, None).unwrap();
            assert!(!summary.valid);
            summary.doubt.unwrap()
        };
        assert_eq!(doubt(|runs| runs[1].violations = 1), "1 placements are wrong");
        assert_eq!(
            doubt(|runs| runs[4].pods_per_second = 380.0),
            "the runs of kube-scheduler differ by 24 %; use a quiet machine"
        );
        assert_eq!(
            doubt(|runs| runs[3..6].iter_mut().for_each(|run| run.events -= 5000)),
            "5000 events were written where kube-scheduler wrote 7500"
        );
        assert_eq!(
            doubt(|runs| runs.truncate(4)),
            "at least two rounds must be counted; use --rounds 3"
        );
    }

    #[test]
    fn tables_have_a_row_per_run_and_per_family() {
        let runs = example();
        let summaries = [summarise(&runs, 1480.0, None).unwrap()];
        insta::assert_snapshot!(format!("{}\n{}", runs_table(&runs), summaries_table(&summaries)));
    }

    #[test]
    fn json_has_one_object_per_run_and_family() {
        let runs = example();
        let mut lines = vec![serde_json::to_string(&runs[3]).unwrap()];
        lines.push(serde_json::to_string(&summarise(&runs, 1480.0, None)).unwrap());
        insta::assert_snapshot!(lines.join("\n"));
    }
}
