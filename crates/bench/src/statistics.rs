//! Medians and percentiles of measured values.

/// Returns the percentile at `share` (0 to 1) of sorted values by nearest rank, or `None` if there are none.
pub(crate) fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Returns the middle value, or the mean of the two in the middle, or `None` if there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            assert_eq!(percentile(&values, share), Some(expected));
        }
        assert_eq!(percentile(&[7_u64], 0.99), Some(7));
        assert_eq!(percentile::<u64>(&[], 0.5), None);
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
}
