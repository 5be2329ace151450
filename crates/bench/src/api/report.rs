//! Ratios of operations per CPU second of the two API servers.

use std::collections::BTreeMap;

use cli::output::columns;
use serde::Serialize;

use super::{Operation, Run, Side};
use crate::statistics::median;

/// The results of all counted runs of one operation.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    operation: Operation,
    /// Median of kube-apiserver's operations per CPU second, with etcd.
    pub(super) kube_apiserver: f64,
    /// Median of the sandbox's operations per CPU second.
    pub(super) sandbox: f64,
    /// Median of the ratios (sandbox to kube-apiserver) of the two runs of a round.
    pub(super) ratio: f64,
    /// Lowest of these ratios.
    pub(super) ratio_worst: f64,
}

/// Summarises the counted runs by operation.
pub(super) fn summarise(runs: &[Run]) -> Vec<Summary> {
    let mut by_operation: BTreeMap<Operation, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.counted) {
        let (kube, sandbox) = by_operation.entry(run.operation).or_default();
        match run.side {
            Side::KubeApiserver => kube.push(run.per_cpu_second),
            Side::Sandbox => sandbox.push(run.per_cpu_second),
        }
    }
    let to_summary = |(operation, (kube, sandbox)): (Operation, (Vec<f64>, Vec<f64>))| {
        let ratios: Vec<f64> = kube.iter().zip(&sandbox).map(|(kube, own)| own / kube).collect();
        Some(Summary {
            operation,
            kube_apiserver: median(kube)?,
            sandbox: median(sandbox)?,
            ratio: median(ratios.iter().copied())?,
            ratio_worst: ratios.into_iter().fold(f64::INFINITY, f64::min),
        })
    };
    by_operation.into_iter().filter_map(to_summary).collect()
}

/// Returns a table with a row per operation.
pub(super) fn table(summaries: &[Summary]) -> String {
    let head = ["OPERATION", "KUBE-APISERVER", "SANDBOX", "RATIO", "WORST", "PER CPU SECOND"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for summary in summaries {
        rows.push(vec![
            summary.operation.name().to_owned(),
            format!("{:.0}", summary.kube_apiserver),
            format!("{:.0}", summary.sandbox),
            format!("{:.1}", summary.ratio),
            format!("{:.1}", summary.ratio_worst),
            summary.operation.unit(),
        ]);
    }
    columns(&rows)
}

/// Returns the range of the ratios as a sentence.
pub(super) fn last_line(summaries: &[Summary]) -> String {
    let by_ratio = |one: &&Summary, other: &&Summary| one.ratio.total_cmp(&other.ratio);
    let (Some(least), Some(most)) =
        (summaries.iter().min_by(by_ratio), summaries.iter().max_by(by_ratio))
    else {
        return "no run was counted".to_owned();
    };
    format!(
        "Per second of CPU time the sandbox does {:.1} ({}) to {:.1} ({}) times what kube-apiserver and etcd do.",
        least.ratio,
        least.operation.name(),
        most.ratio,
        most.operation.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Run> {
        let mut runs = Vec::new();
        for (round, kube, sandbox) in [(1, 1.0, 1.0), (2, 500.0, 10_000.0), (3, 1000.0, 11_000.0)] {
            for (side, rate) in [(Side::KubeApiserver, kube), (Side::Sandbox, sandbox)] {
                for (operation, factor) in [(Operation::Get, 2.0), (Operation::Create, 1.0)] {
                    runs.push(Run {
                        round,
                        counted: round > 1,
                        side,
                        operation,
                        count: 1000,
                        seconds: 1.0,
                        cpu_s: 1000.0 / rate,
                        per_cpu_second: rate * if side == Side::Sandbox { factor } else { 1.0 },
                    });
                }
            }
        }
        runs
    }

    #[test]
    fn ratios_are_medians_over_rounds_without_the_first() {
        let summaries = summarise(&runs());
        let create = Summary {
            operation: Operation::Create,
            kube_apiserver: 750.0,
            sandbox: 10_500.0,
            ratio: 15.5,
            ratio_worst: 11.0,
        };
        assert_eq!(summaries[0], create);
        assert_eq!((summaries[1].operation, summaries[1].ratio), (Operation::Get, 31.0));
        assert!(summarise(&[]).is_empty());
    }

    #[test]
    fn the_table_has_a_row_per_operation() {
        let summaries = summarise(&runs());
        let table = table(&summaries);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["create", "750", "10500", "15.5", "11.0", "pods"]);
        assert_eq!(lines[2][..4], ["get", "750", "21000", "31.0"]);
        assert_eq!(
            last_line(&summaries),
            "Per second of CPU time the sandbox does 15.5 (create) to 31.0 (get) times what kube-apiserver and etcd do."
        );
        assert_eq!(last_line(&[]), "no run was counted");
    }
}
