//! CheapestNode: scores nodes by the price in their label, the cheapest 100 and the dearest 0.

use jindou::{Args, Class, EXCLUDED, Extremes, NodePlugin, NodeView, Point, Scale};

/// Node label with the price per hour, in any currency.
const PRICE: &str = "example.com/price";

/// Raw scores are prices in millionths.
const PRECISION: f64 = 1e6;

pub(crate) struct CheapestNode;

impl NodePlugin for CheapestNode {
    const NAME: &'static str = "CheapestNode";
    const POINTS: &'static [Point] = &[Point::Score];

    fn new(_args: Option<&Args>) -> Result<Self, String> {
        Ok(Self)
    }

    fn score(&self, _pod: &Class, node: &NodeView) -> i64 {
        let price: Option<f64> = node.label(PRICE).and_then(|price| price.parse().ok());
        let price = price.filter(|price| (0.0..=1e9).contains(price));
        price.map_or(EXCLUDED, |price| (price * PRECISION).round() as i64)
    }

    fn scale(&self) -> Scale {
        Scale::Own
    }

    fn normalise(&self, raw: i64, Extremes { min, max }: Extremes) -> i64 {
        if min == max { 100 } else { 100 * (max - raw) / (max - min) }
    }

    /// Nodes without a price are neutral.
    fn excluded_score(&self) -> i64 {
        50
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jindou::object::{Node, PodSpec};
    use jindou::testing::{class, labels, node, scores, state};

    #[test]
    fn the_cheapest_node_scores_100_and_the_dearest_0() {
        for (prices, expected) in [
            (&["0.10", "0.20", "0.50"][..], &[100, 75, 0][..]),
            (&["3", "3"], &[100, 100]),
            (&["0", "8", ""], &[100, 0, 50]),
            (&["1", "cheap", "-2", "inf", "5"], &[100, 50, 50, 50, 0]),
            (&["", ""], &[50, 50]),
            (&["0.4", ""], &[100, 50]),
        ] {
            let nodes = prices.iter().enumerate().map(|(number, price)| {
                let label = [(PRICE, *price)];
                Node {
                    labels: labels(if price.is_empty() { &[] } else { &label }),
                    ..node(&format!("n{number}"))
                }
            });
            let plugin = jindou::plugin(CheapestNode);
            let mut cluster = state(nodes, []);
            let found = scores(&*plugin, &class(PodSpec::default()), &mut cluster);
            let expected: Vec<_> =
                (0..).zip(expected).map(|(number, score)| format!("n{number}: {score}")).collect();
            assert_eq!(found, Some(expected), "{prices:?}");
        }
    }
}
