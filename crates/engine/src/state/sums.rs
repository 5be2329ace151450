//! Columns of sums that stay exact beyond 64 bits.
//!
//! One pod may request almost 2⁶³ of a resource, so the sum of two can overflow. A saturated sum
//! would be wrong once a pod leaves, and a wrapped sum would make a full node look empty. Readers
//! therefore see the clamped number, and the remainder is stored beside the column.

use std::collections::BTreeMap;

use crate::column;
use crate::index::NodeIdx;

/// Column of sums by node slot.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactSums {
    clamped: Vec<i64>,
    /// Sum minus clamped number by slot, where they differ. Nearly always empty.
    beyond: BTreeMap<NodeIdx, i128>,
}

impl ExactSums {
    /// Creates a column of zeros.
    pub(super) fn zeros(slots: usize) -> Self {
        Self { clamped: vec![0; slots], beyond: BTreeMap::new() }
    }

    pub(super) fn add_slot(&mut self) {
        column::push(&mut self.clamped, 0);
    }

    /// Returns the sums by slot, clamped to 64 bits.
    pub(super) fn clamped(&self) -> &[i64] {
        &self.clamped
    }

    /// Returns the exact sum of a slot.
    pub(super) fn sum(&self, node: NodeIdx) -> i128 {
        i128::from(self.clamped[node.at()]) + self.beyond.get(&node).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn add(&mut self, node: NodeIdx, amount: i64) {
        match self.clamped[node.at()].checked_add(amount) {
            Some(sum) if self.beyond.is_empty() => self.clamped[node.at()] = sum,
            _ => self.set(node, self.sum(node) + i128::from(amount)),
        }
    }

    #[inline]
    pub(super) fn subtract(&mut self, node: NodeIdx, amount: i64) {
        match self.clamped[node.at()].checked_sub(amount) {
            Some(sum) if self.beyond.is_empty() => self.clamped[node.at()] = sum,
            _ => self.set(node, self.sum(node) - i128::from(amount)),
        }
    }

    pub(super) fn set(&mut self, node: NodeIdx, sum: i128) {
        let clamped = sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        self.clamped[node.at()] = clamped;
        match sum - i128::from(clamped) {
            0 => self.beyond.remove(&node),
            beyond => self.beyond.insert(node, beyond),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn amount() -> impl Strategy<Value = i64> {
        prop_oneof![
            -1000i64..1000,
            any::<i64>(),
            prop::sample::select(vec![i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]),
        ]
    }

    proptest! {
        #[test]
        fn sums_are_exact_in_whatever_order_amounts_come_and_go(
            amounts in prop::collection::vec((0u32..3, amount()), 0..40),
            leaving in any::<prop::sample::Index>(),
            order in any::<u64>(),
        ) {
            let mut sums = ExactSums::zeros(2);
            sums.add_slot();
            let mut exact = [0i128; 3];
            for (slot, amount) in &amounts {
                sums.add(NodeIdx(*slot), *amount);
                exact[*slot as usize] += i128::from(*amount);
                prop_assert_eq!(sums.sum(NodeIdx(*slot)), exact[*slot as usize]);
            }
            let mut left = amounts.clone();
            let rotation = leaving.index(amounts.len().max(1));
            left.rotate_left(rotation);
            left.sort_by_key(|(_, amount)| amount.wrapping_mul(order.cast_signed()));
            for (slot, amount) in left {
                sums.subtract(NodeIdx(slot), amount);
                exact[slot as usize] -= i128::from(amount);
                let nearest = exact[slot as usize].clamp(i64::MIN.into(), i64::MAX.into());
                prop_assert_eq!(i128::from(sums.clamped()[slot as usize]), nearest);
            }
            prop_assert_eq!((sums.clamped(), sums.beyond.len()), (&[0; 3][..], 0));
        }
    }
}
