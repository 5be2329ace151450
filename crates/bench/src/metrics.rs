//! Reads metrics in Prometheus' text format.

/// Returns the sum of a metric over all series with these labels.
pub fn sum(metrics: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let lines = metrics.lines().filter(|line| {
        let rest = line.strip_prefix(name).unwrap_or("");
        rest.starts_with(['{', ' '])
            && labels.iter().all(|(key, value)| label_value(rest, key) == Some(*value))
    });
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Returns the value of a label in a line of a metric.
pub fn label_value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let wanted = format!("{name}=\"");
    // The name of one label may be the end of another's.
    let mut found = line.match_indices(&wanted);
    let (at, _) = found.find(|(at, _)| line[..*at].ends_with(['{', ',']))?;
    line[at + wanted.len()..].split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_the_series_with_the_labels() {
        let text = "\
# TYPE apiserver_request_total counter
apiserver_request_total{code=\"201\",resource=\"pods\",subresource=\"binding\"} 7
apiserver_request_total{code=\"201\",resource=\"pods\",subresource=\"\"} 3
apiserver_request_total{code=\"409\",resource=\"pods\",subresource=\"binding\"} 1
apiserver_request_total_other{code=\"201\"} 5
process_cpu_seconds_total 1.25
";
        let requests = |labels: &[(&str, &str)]| sum(text, "apiserver_request_total", labels);
        assert_eq!(requests(&[("subresource", "binding")]), 8.0);
        assert_eq!(requests(&[("code", "201"), ("subresource", "binding")]), 7.0);
        assert_eq!(requests(&[("source", "pods")]), 0.0);
        assert_eq!(sum(text, "process_cpu_seconds_total", &[]), 1.25);
    }
}
