//! What was measured, and what follows from it.

use cli::output::columns;
use serde::Serialize;

use super::contender::Contender;

/// The most that the baseline's runs may differ, as a share of their median, for figures to count.
const SPREAD_MAX: f64 = 0.15;

/// How finely the system counts processor time.
const TICK_S: f64 = 0.01;

/// How far the numbers of events may be apart for both to have done the same work.
const EVENTS_SHARE_MAX: f64 = 0.05;

/// One scheduler that drained one workload once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    /// Family of the workload.
    pub(super) family: &'static str,
    /// How many nodes there were.
    pub(super) nodes: usize,
    /// How many pods were measured.
    pub(super) pods: usize,
    /// Who was measured.
    pub(super) scheduler: Contender,
    /// Which pair of runs this belongs to, from one.
    pub(super) round: usize,
    /// Whether it enters the ratios; the first pair warms up.
    pub(super) counted: bool,
    /// Processor seconds of the scheduler for 1,000 pods, from its start until it came to rest.
    pub(super) cpu_s_per_1000: f64,
    /// Pods bound in a second, from the first bind to the last.
    pub(super) pods_per_second: f64,
    /// Median milliseconds from the creation of a pod to its bind, when pods arrive one by one.
    pub(super) p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub(super) p99_ms: Option<f64>,
    /// Pods that arrived in a second then.
    pub(super) arrivals_per_second: Option<f64>,
    /// Most memory that the scheduler had.
    pub(super) rss_mb: f64,
    /// Processor seconds of the API server, over the same time as the scheduler's.
    pub(super) apiserver_cpu_s: f64,
    /// Seconds from the start of the process to the first bind.
    pub(super) first_bind_s: f64,
    /// Seconds from the first bind to the last.
    pub(super) drain_s: f64,
    /// Processor seconds of the scheduler for 1,000 pods between these.
    pub(super) drain_cpu_s_per_1000: f64,
    /// Processor seconds of all others for 1,000 pods between these.
    pub(super) outside_cpu_s_per_1000: f64,
    /// Events that the scheduler wrote.
    pub(super) events: u64,
    /// Placements that break a rule, and pods that were bound twice.
    pub(super) violations: usize,
}

/// What all runs of a family say; each ratio is Jindou's over kube-scheduler's.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Closing {
    /// Family of the workload.
    pub(super) family: &'static str,
    /// Whether schedulers had a core of their own.
    pub(super) pinned: bool,
    /// Median ratio of processor time.
    pub(super) cpu_ratio: f64,
    /// The pair in which it was worst.
    pub(super) cpu_ratio_worst: f64,
    /// Median ratio of processor time from the first bind to the last: without the start, which is
    /// paid once and not for each pod.
    pub(super) drain_cpu_ratio: f64,
    /// Median ratio of pods bound in a second.
    pub(super) drain_ratio: f64,
    /// The pair in which it was worst.
    pub(super) drain_ratio_worst: f64,
    /// The most that the ratio could be if all cores are busy: (S+B)/(S+C), where B is the processor
    /// time of kube-scheduler, C Jindou's and S that of all others, as it was beside each of them.
    /// If schedulers have a core of their own, the busier side counts: max(S,B)/max(S,C), with S
    /// shared by all other cores.
    pub(super) bound: f64,
    /// How much of it was reached.
    pub(super) fraction_of_bound: f64,
    /// Median ratio of the memory.
    pub(super) rss_ratio: f64,
    /// Median ratio of the 99th percentile from creation to bind.
    pub(super) p99_ratio: Option<f64>,
    /// Binds in a second when nobody decides anything: the limit of this API server.
    pub(super) raw_binds_per_second: f64,
    /// How far the runs of kube-scheduler are apart, as a share of their median.
    pub(super) baseline_spread: f64,
    /// Whether the figures count: the baseline ran more than once and was steady, both did the
    /// same work, and nothing was violated.
    pub(super) valid: bool,
    /// Why they do not count.
    #[serde(skip)]
    pub(super) doubt: Option<String>,
}

/// The value at a share of all, by nearest rank. They must be sorted.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The middle of some values, or the mean of the two in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

/// What the runs of one family say; nothing when no pair of them counts.
pub(super) fn close(
    runs: &[Run],
    raw_binds_per_second: f64,
    cores_of_others: Option<usize>,
) -> Option<Closing> {
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
        Some("at least two pairs of runs must count; use --rounds 3".to_owned())
    } else {
        let percent = spread * 100.0;
        (spread > SPREAD_MAX).then(|| {
            format!("the runs of kube-scheduler differ by {percent:.0} %; use a quiet machine")
        })
    };
    Some(Closing {
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

/// The runs for people.
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
        if runs.iter().all(|run| run.counted) { "" } else { "* warms up, and does not count\n" };
    columns(&rows) + note
}

/// The conclusions for people.
pub(super) fn closings_table(closings: &[Closing]) -> String {
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
        "COUNTS",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for closing in closings {
        rows.push(vec![
            closing.family.to_owned(),
            parts(closing.cpu_ratio),
            parts(closing.cpu_ratio_worst),
            parts(closing.drain_cpu_ratio),
            format!("{:.2}x", closing.drain_ratio),
            format!("{:.2}x", closing.bound),
            format!("{:.0}%", closing.fraction_of_bound * 100.0),
            closing.p99_ratio.map_or_else(|| "-".to_owned(), parts),
            parts(closing.rss_ratio),
            format!("{:.0}", closing.raw_binds_per_second),
            format!("{:.0}%", closing.baseline_spread * 100.0),
            if closing.valid { "yes" } else { "no" }.to_owned(),
        ]);
    }
    columns(&rows)
}

/// What one tick of the clock is for 1,000 pods. A drain of few pods may end within it.
fn tick(run: &Run) -> f64 {
    TICK_S * 1000.0 / run.pods as f64
}

/// A ratio as people say it.
fn parts(ratio: f64) -> String {
    if ratio < 1.0 { format!("1/{:.1}", 1.0 / ratio) } else { format!("{ratio:.2}x") }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs of one family, as they could have been measured.
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
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            assert_eq!(percentile(&values, share), Some(expected));
        }
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn medians_lie_in_the_middle() {
        for (values, expected) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![4.0, 1.0], Some(2.5)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
        ] {
            assert_eq!(median(values), expected);
        }
    }

    #[test]
    fn ratios_are_medians_of_pairs_and_the_first_pair_does_not_count() {
        let closing = close(&example(), 1480.0, None).unwrap();
        assert!((closing.cpu_ratio - 0.0175).abs() < 1e-12);
        assert!((closing.cpu_ratio_worst - 0.02).abs() < 1e-12);
        assert_eq!((closing.drain_ratio, closing.rss_ratio), (4.0, 0.075));
        assert!((closing.bound - f64::midpoint(4.0 / 1.06, 4.2 / 1.048)).abs() < 1e-12);
        assert!((closing.baseline_spread - 10.0 / 305.0).abs() < 1e-12);
        assert_eq!(closing.p99_ratio, Some(0.25));
        assert!(closing.valid);
        assert!(close(&example()[..2], 1480.0, None).is_none());
    }

    #[test]
    fn with_cores_of_their_own_the_busier_side_is_the_bound() {
        // Kube-scheduler is busier than the others, and they are busier than Jindou.
        let closing = close(&example(), 1480.0, Some(1)).unwrap();
        assert!(closing.pinned);
        assert!((closing.bound - 3.1).abs() < 1e-12);
        let closing = close(&example(), 1480.0, Some(4)).unwrap();
        assert!((closing.bound - 12.4).abs() < 1e-12);
    }

    #[test]
    fn figures_that_do_not_count_say_why() {
        let doubt = |spoil: fn(&mut Vec<Run>)| {
            let mut runs = example();
            spoil(&mut runs);
            let closing = close(&runs, 1.0, None).unwrap();
            assert!(!closing.valid);
            closing.doubt.unwrap()
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
            "at least two pairs of runs must count; use --rounds 3"
        );
    }

    #[test]
    fn tables_are_for_people() {
        let runs = example();
        let closings = [close(&runs, 1480.0, None).unwrap()];
        insta::assert_snapshot!(format!("{}\n{}", runs_table(&runs), closings_table(&closings)));
    }

    #[test]
    fn programs_get_one_object_for_each_run_and_family() {
        let runs = example();
        let mut lines = vec![serde_json::to_string(&runs[3]).unwrap()];
        lines.push(serde_json::to_string(&close(&runs, 1480.0, None)).unwrap());
        insta::assert_snapshot!(lines.join("\n"));
    }
}
