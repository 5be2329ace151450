//! ImageLocality: scores nodes higher that already have the pod's container images.

use api::config::PluginArgs;
use engine::framework::scorer::SCORE_MAX;
use engine::framework::{Class, KeyPart, Plugin, Point, Preparation, Scorer};
use engine::index::NodeIdx;
use engine::object::Text;
use engine::state::State;
use engine::state::images::ImageState;

pub(crate) const NAME: &str = "ImageLocality";
pub(crate) const POINTS: &[Point] = &[Point::Score];
pub(crate) const DOC: &str = "Scores nodes higher that already have the pod's container images.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(ImageLocality)
}

struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let state = &*preparation.state;
        let present = class.spec.images.iter().filter_map(|name| {
            let image = state.images.get(name)?;
            Some((name.clone(), scaled_score(image, state.nodes.count())))
        });
        let container_count = i64::from(class.spec.container_count);
        Some(Box::new(PresentImages { images: present.collect(), container_count }))
    }
}

/// Images of the pod that some nodes have, with their scaled scores. An image used by two containers
/// counts twice.
struct PresentImages {
    images: Vec<(Text, i64)>,
    container_count: i64,
}

impl PresentImages {
    fn final_score(&self, sum: i64) -> i64 {
        const MIB: i64 = 1 << 20;
        const SUM_MIN: i64 = 23 * MIB;
        let sum_max = 1000 * MIB * self.container_count;
        let sum = if sum < SUM_MIN { SUM_MIN } else { sum.min(sum_max) };
        SCORE_MAX * (sum - SUM_MIN) / (sum_max - SUM_MIN)
    }
}

impl Scorer for PresentImages {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let on_node = self.images.iter().filter(|(name, _)| {
            state.images.get(name).is_some_and(|image| image.nodes.binary_search(&node).is_ok())
        });
        self.final_score(
            on_node.fold(0, |sum: i64, (_, scaled_score)| sum.wrapping_add(*scaled_score)),
        )
    }

    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        raw.fill(0);
        for (name, scaled_score) in &self.images {
            let nodes = state.images.get(name).map_or(&[][..], |image| &image.nodes);
            for node in nodes {
                raw[node.at()] = raw[node.at()].wrapping_add(*scaled_score);
            }
        }
        // Neighbouring nodes mostly have equal sums; reusing the last result avoids a slow division.
        let mut last = (0, self.final_score(0));
        for score in raw {
            if *score != last.0 {
                last = (*score, self.final_score(*score));
            }
            *score = last.1;
        }
    }

    fn constant(&self) -> Option<i64> {
        self.images.is_empty().then_some(0)
    }
}

/// Returns the size of an image times the share of nodes that have it.
fn scaled_score(image: &ImageState, node_count: usize) -> i64 {
    let spread = image.nodes.len() as f64 / node_count as f64;
    (image.size as f64 * spread) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::object::{Image, Node, PodSpec};
    use engine::testing::{class, node, scores, state};

    const MIB: i64 = 1 << 20;

    fn holding(name: &str, images: &[(&str, i64)]) -> Node {
        let image = |(name, mib): &(&str, i64)| Image {
            names: [Text::from(*name), format!("{name}@sha256:x").into()].into(),
            size: mib * MIB,
        };
        Node { images: images.iter().map(image).collect(), ..node(name) }
    }

    fn using(container_count: u32, images: &[&str]) -> PodSpec {
        let images = images.iter().map(|name| (*name).into()).collect();
        PodSpec { images, container_count, ..PodSpec::default() }
    }

    #[test]
    fn size_and_spread_of_images_decide() {
        let cluster = || {
            [
                holding("a", &[("big", 500), ("small", 40), ("everywhere", 900)]),
                holding("b", &[("everywhere", 700), ("giant", 9000)]),
            ]
        };
        for (spec, expected) in [
            // 250 MiB of 23..1000.
            (using(1, &["big"]), [23, 0]),
            // 20 MiB is below the minimum of 23 MiB.
            (using(1, &["small"]), [0, 0]),
            // 250 + 250 + 20 of 23..3000.
            (using(3, &["big", "big", "small"]), [16, 0]),
            // The size that the first node reports counts for all nodes.
            (using(1, &["everywhere"]), [89, 89]),
            (using(1, &["giant"]), [0, 100]),
            (using(2, &["giant"]), [0, 100]),
            (using(5, &["giant"]), [0, 89]),
            // Image volumes add to the sum but not to the number of containers.
            (using(1, &["big", "everywhere"]), [100, 89]),
            (using(1, &["big@sha256:x"]), [23, 0]),
            (using(1, &["unknown"]), [0, 0]),
            (using(1, &["unknown", "big"]), [23, 0]),
        ] {
            let found = scores(&*build(None), &class(spec.clone()), &mut state(cluster(), []));
            let expected = vec![format!("a: {}", expected[0]), format!("b: {}", expected[1])];
            assert_eq!(found, Some(expected), "{:?}", spec.images);
        }
    }

    #[test]
    fn images_that_no_node_has_score_zero_everywhere() {
        let mut state = state([holding("a", &[("big", 500)])], []);
        let constant = |spec, state: &mut State| {
            let mut preparation = Preparation::new(state);
            build(None).prepare_score(&class(spec), &mut preparation).unwrap().constant()
        };
        assert_eq!(constant(using(1, &["unknown"]), &mut state), Some(0));
        assert_eq!(constant(using(1, &["big"]), &mut state), None);
    }
}
