//! A bar chart of the results, as SVG.

use std::fmt::Write as _;

use super::contender::Contender;
use super::report::Run;
use crate::statistics::median;

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 24.0;
const PANEL_HEIGHT: f64 = 190.0;
const BARS_HEIGHT: f64 = 120.0;
const BAR_WIDTH: f64 = 46.0;
const HEAD_HEIGHT: f64 = 64.0;

const SCHEDULERS: [(Contender, &str); 2] =
    [(Contender::KubeScheduler, "#8c959f"), (Contender::Jindou, "#d97706")];

/// One quantity over all families.
struct Panel {
    title: &'static str,
    value: fn(&Run) -> Option<f64>,
    digits: usize,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "CPU seconds for 1,000 pods (logarithmic, less is better)",
        value: |run| Some(run.cpu_s_per_1000),
        digits: 3,
    },
    Panel {
        title: "pods bound per second (logarithmic, more is better)",
        value: |run| Some(run.pods_per_second),
        digits: 0,
    },
    Panel {
        title: "p99 from creation to bind, ms (logarithmic, less is better)",
        value: |run| run.p99_ms,
        digits: 0,
    },
    Panel {
        title: "peak memory, MB (logarithmic, less is better)",
        value: |run| Some(run.rss_mb),
        digits: 0,
    },
];

/// Returns an SVG image of the medians of the counted runs.
pub(super) fn plot(runs: &[Run]) -> String {
    let mut families: Vec<&str> = runs.iter().map(|run| run.family).collect();
    families.dedup();
    // Latency may not have been measured.
    let measured = |panel: &&Panel| runs.iter().any(|run| (panel.value)(run).is_some());
    let panels: Vec<&Panel> = PANELS.iter().filter(measured).collect();
    let height = HEAD_HEIGHT + PANEL_HEIGHT * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    legend(&mut svg, runs);
    for (index, panel) in panels.into_iter().enumerate() {
        draw(&mut svg, panel, HEAD_HEIGHT + PANEL_HEIGHT * index as f64, &families, runs);
    }
    svg += "</svg>\n";
    svg
}

fn legend(svg: &mut String, runs: &[Run]) {
    let sizes = runs.first().map(|run| (run.nodes, run.pods));
    let sizes = sizes.map_or_else(String::new, |(nodes, _)| format!(" on {nodes} nodes"));
    text(svg, (MARGIN, 26.0), "16\" font-weight=\"600", &format!("Draining a workload{sizes}"));
    let mut x = MARGIN;
    for (scheduler, colour) in SCHEDULERS {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        );
        text(svg, (x + 18.0, 49.0), "12", scheduler.name());
        x += 140.0;
    }
}

fn draw(svg: &mut String, panel: &Panel, top: f64, families: &[&str], runs: &[Run]) {
    text(svg, (MARGIN, top + 14.0), "13\" font-weight=\"600", panel.title);
    let value = |family: &str, scheduler: Contender| {
        let of =
            runs.iter().filter(|r| r.counted && r.family == family && r.scheduler == scheduler);
        median(of.filter_map(panel.value)).filter(|value| *value > 0.0)
    };
    let all = families.iter().flat_map(|family| SCHEDULERS.map(|(who, _)| value(family, who)));
    let all: Vec<f64> = all.flatten().collect();
    let most = all.iter().copied().fold(f64::MIN, f64::max);
    // Half of the lowest value is the origin, so that its bar is visible.
    let least = all.iter().copied().fold(f64::MAX, f64::min) / 2.0;
    let base = top + 36.0 + BARS_HEIGHT;
    let _ = writeln!(
        svg,
        "<line x1=\"{MARGIN}\" y1=\"{base}\" x2=\"{}\" y2=\"{base}\" stroke=\"#d0d7de\"/>",
        WIDTH - MARGIN
    );
    let step = (WIDTH - 2.0 * MARGIN) / families.len().max(1) as f64;
    for (index, family) in families.iter().enumerate() {
        let middle = MARGIN + step * (index as f64 + 0.5);
        for (side, (scheduler, colour)) in SCHEDULERS.iter().enumerate() {
            let Some(value) = value(family, *scheduler) else { continue };
            let height = BARS_HEIGHT * (value / least).ln() / (most / least).ln();
            let x = middle + (side as f64 - 1.0) * (BAR_WIDTH + 4.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{BAR_WIDTH}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
                base - height
            );
            let shown = format!("{value:.*}", panel.digits);
            let at = (x + BAR_WIDTH / 2.0, base - height - 4.0);
            text(svg, at, "11\" text-anchor=\"middle", &shown);
        }
        text(svg, (middle, base + 15.0), "11\" text-anchor=\"middle", family);
    }
}

/// Writes a text without escaping, since names of families need none.
fn text(svg: &mut String, (x, y): (f64, f64), size: &str, content: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"#1f2328\">{content}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::report::tests::example;

    #[test]
    fn every_scheduler_gets_a_bar_in_every_panel() {
        insta::assert_snapshot!(plot(&example()));
    }

    #[test]
    fn a_quantity_that_was_not_measured_has_no_panel() {
        let mut runs = example();
        assert!(plot(&runs).contains("p99"));
        for run in &mut runs {
            run.p99_ms = None;
        }
        let svg = plot(&runs);
        assert!(!svg.contains("p99") && svg.contains("peak memory"), "{svg}");
    }

    #[test]
    fn no_runs_give_an_empty_image() {
        let svg = plot(&[]);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }
}
