//! Scores on their way from raw to weighted totals, and evaluation keys of classes.

use crate::index::NodeIdx;
use crate::object::PodSpec;
use crate::state::State;
use crate::testing::{class, profile};

use super::scorer::{EXCLUDED, proportional, proportional_reversed};
use super::{Class, Extremes, KeyPart, Plugin, Point, Scorer};

/// A scorer that normalises in proportion, with the score of excluded nodes.
struct Proportional(i64);

impl Scorer for Proportional {
    fn score(&mut self, _state: &State, node: NodeIdx) -> i64 {
        node.at() as i64
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        proportional(raw, extremes)
    }

    fn excluded_score(&self) -> i64 {
        self.0
    }
}

#[test]
fn proportional_scores_map_the_largest_or_the_smallest_raw_score_to_100() {
    // (raw, largest, score, score of the reversed order)
    let table = [(0, 0, 0, 100), (0, 8, 0, 100), (2, 8, 25, 75), (8, 8, 100, 0), (1, 3, 33, 67)];
    for (raw, max, score, reversed) in table {
        let extremes = Extremes { min: 0, max };
        assert_eq!(proportional(raw, extremes), score, "{raw} of {max}");
        assert_eq!(proportional_reversed(raw, extremes), reversed, "{raw} of {max}");
    }
}

#[test]
fn totals_are_the_same_by_table_and_node_by_node() {
    // Ranges below 1,024 are normalised by a table.
    for (max, excluded) in [(7, 0), (8, 50), (1030, 0), (1031, 50), (5000, 50), (0, 50)] {
        let min = max.min(7);
        let raw = [min, EXCLUDED, max, i64::midpoint(min, max)];
        let extremes = Extremes { min, max };
        let mut totals = [1000; 4];
        Proportional(excluded).add_normalised(&raw, extremes, 3, &mut totals);
        for (raw, total) in raw.into_iter().zip(totals) {
            let score = if raw == EXCLUDED { excluded } else { proportional(raw, extremes) };
            assert_eq!(total, 1000 + 3 * score, "{raw} of {min}..={max}");
        }
    }
}

/// Depends on these numbers only.
struct Keyed(&'static str, Vec<u32>);

impl Plugin for Keyed {
    fn name(&self) -> &str {
        self.0
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Filter]
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::Fields(self.1.clone())
    }
}

#[test]
fn evaluation_keys_keep_the_numbers_of_plugins_apart() {
    let key = |fields: [&[u32]; 2]| {
        let [first, second] = fields.map(<[u32]>::to_vec);
        let mut profile = profile(Box::new(Keyed("first", first)));
        profile.plugins.push(Box::new(Keyed("second", second)));
        profile.evaluation_key(&class(PodSpec::default()), &State::default())
    };
    assert_eq!(key([&[1], &[2]]), key([&[1], &[2]]));
    assert_ne!(key([&[1], &[]]), key([&[], &[1]]));
    assert_ne!(key([&[1, 2], &[3]]), key([&[1], &[2, 3]]));
}
