//! Tests of the images on nodes.

use super::*;

fn image(names: &[&str], size: i64) -> Image {
    Image { names: names.iter().map(|name| (*name).into()).collect(), size }
}

fn state(images: &Images, name: &str) -> Option<(i64, Vec<u32>)> {
    let found = images.get(name)?;
    Some((found.size, found.nodes.iter().map(|node| node.0).collect()))
}

#[test]
fn the_first_size_stays_while_a_node_has_the_image() {
    let mut images = Images::default();
    let (small, large) = ([image(&["a", "b"], 1)], [image(&["a"], 2), image(&["a"], 3)]);
    images.add(NodeIdx(7), &small);
    images.add(NodeIdx(3), &large);
    assert_eq!(state(&images, "a"), Some((1, vec![3, 7])));
    images.remove(NodeIdx(7), &small);
    assert_eq!(state(&images, "a"), Some((1, vec![3])));
    assert_eq!(state(&images, "b"), None);
    images.remove(NodeIdx(3), &large);
    assert_eq!(state(&images, "a"), None);
    images.add(NodeIdx(3), &large);
    assert_eq!(state(&images, "a"), Some((2, vec![3])));
}

mod properties {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::Images;
    use super::image;
    use crate::index::NodeIdx;

    proptest! {
        /// Nodes replace their lists of images; a list may name an image twice.
        #[test]
        fn nodes_of_an_image_are_those_that_list_it(
            steps in prop::collection::vec(
                (0_u32..5, prop::collection::vec(("[abc]", 1_i64..4), 0..4)),
                1..40,
            ),
        ) {
            let mut images = Images::default();
            let mut listed: BTreeMap<u32, Vec<(String, i64)>> = BTreeMap::new();
            for (node, names) in steps {
                let lists = |names: &[(String, i64)]| -> Vec<_> {
                    names.iter().map(|(name, size)| image(&[name], *size)).collect()
                };
                if let Some(old) = listed.remove(&node) {
                    images.remove(NodeIdx(node), &lists(&old));
                }
                images.add(NodeIdx(node), &lists(&names));
                listed.insert(node, names);
                for name in ["a", "b", "c"] {
                    let having: BTreeSet<NodeIdx> = listed
                        .iter()
                        .filter(|(_, names)| names.iter().any(|(other, _)| other == name))
                        .map(|(node, _)| NodeIdx(*node))
                        .collect();
                    let kept = images.get(name);
                    prop_assert_eq!(kept.is_some(), !having.is_empty());
                    if let Some(kept) = kept {
                        prop_assert_eq!(&kept.nodes, &having.into_iter().collect::<Vec<_>>());
                    }
                }
            }
        }
    }
}
