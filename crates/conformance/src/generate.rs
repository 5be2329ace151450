//! Combines the topics into a random case.

use serde_json::Value;

use crate::draft::CaseDraft;
use crate::rng::Rng;
use crate::theme::{ClusterSize, Theme};
use crate::{cluster, config, pod, preemption, spread, volumes};

/// A case with its topics.
pub(crate) struct Case {
    /// The case in the oracle's form.
    pub(crate) value: Value,
    /// Names of the topics that it is about.
    pub(crate) topics: Vec<String>,
}

/// Returns case `index` of a seed. Equal arguments give equal cases.
pub(crate) fn case(seed: u64, index: u64, plugin: Option<&'static str>, size: ClusterSize) -> Case {
    let mut rng = Rng::new(seed, index);
    let theme = Theme::random(&mut rng, plugin, size);
    let topics = theme.names();
    let id = format!("{seed}-{index}{}", if theme.hostile { "-hostile" } else { "" });
    let mut draft = CaseDraft::new(rng, theme);
    cluster::add_nodes(&mut draft);
    pod::add_taints(&mut draft);
    cluster::add_pods(&mut draft);
    pod::add_pod(&mut draft);
    preemption::add_nominated(&mut draft);
    preemption::add_budgets(&mut draft);
    spread::add_owners(&mut draft);
    volumes::add_volumes(&mut draft);
    config::add_config(&mut draft);
    Case { value: draft.finish(&id), topics }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_cases() {
        for index in 0..50 {
            assert_eq!(
                case(3, index, None, ClusterSize::Usual).value,
                case(3, index, None, ClusterSize::Usual).value
            );
        }
    }

    #[test]
    fn names_are_unique_within_a_case() {
        for index in 0..300 {
            let case = case(11, index, None, ClusterSize::Usual).value;
            let mut names: Vec<String> = case["objects"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|object| {
                    format!(
                        "{} {} {}",
                        object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
                    )
                })
                .collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "case {}", case["id"]);
        }
    }
}
