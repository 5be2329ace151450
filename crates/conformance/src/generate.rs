//! Puts a random case together.

use serde_json::Value;

use crate::draft::CaseDraft;
use crate::rng::Rng;
use crate::theme::{ClusterSize, Theme};
use crate::{cluster, config, pod, preemption, spread, volumes};

/// One case with the topics it is about.
pub(crate) struct Case {
    /// The line for the oracle.
    pub(crate) value: Value,
    pub(crate) topics: Vec<String>,
}

/// The case `index` of a seed. The same arguments always give the same case.
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
    fn same_seed_same_case() {
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
