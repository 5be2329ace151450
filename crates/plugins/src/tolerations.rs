//! Matching of taints and tolerations.

use engine::bitset::NodeSet;
use engine::object::{Taint, TaintEffect, Toleration, TolerationOperator};
use engine::state::State;

/// Returns `true` if one of the tolerations tolerates the taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| matches(toleration, taint))
}

/// Returns `true` if all hard taints (`NoSchedule`, `NoExecute`) are tolerated.
pub(crate) fn tolerates_all_hard(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    let hard = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    taints.iter().filter(hard).all(|taint| tolerates(tolerations, taint))
}

/// Returns the nodes with a hard taint that these tolerations do not cover.
pub(crate) fn untolerated_nodes(state: &State, tolerations: &[Toleration]) -> NodeSet {
    let lists = state.nodes.taint_lists();
    let tolerated = lists.map_each(|taints| tolerates_all_hard(tolerations, taints));
    let mut nodes = state.nodes.hard_tainted().clone();
    nodes.retain(|node| !tolerated[lists.of(node).at()]);
    nodes
}

fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_none_or(|effect| effect == taint.effect);
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    effect
        && key
        && match toleration.operator {
            // An empty key matches every key, but the value is still compared.
            TolerationOperator::Equal => toleration.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Other => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(effect: TaintEffect) -> Taint {
        Taint { key: "k".into(), value: "v".into(), effect }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect: None }
    }

    #[test]
    fn key_operator_and_value_decide() {
        use TolerationOperator::{Equal, Exists, Other};
        for (key, operator, value, expected) in [
            ("k", Equal, "v", true),
            ("k", Equal, "w", false),
            ("k", Equal, "", false),
            ("other", Equal, "v", false),
            ("", Equal, "v", true),
            ("", Equal, "w", false),
            ("k", Exists, "", true),
            ("k", Exists, "ignored", true),
            ("other", Exists, "", false),
            ("", Exists, "", true),
            ("k", Other, "v", false),
            ("", Other, "v", false),
        ] {
            let tolerations = [toleration(key, operator, value)];
            let found = tolerates(&tolerations, &taint(TaintEffect::NoSchedule));
            assert_eq!(found, expected, "{key:?} {operator:?} {value:?}");
        }
    }

    #[test]
    fn a_toleration_with_an_effect_covers_that_effect_only() {
        let effects =
            [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
        for named in effects {
            let everything = toleration("", TolerationOperator::Exists, "");
            let tolerations = [Toleration { effect: Some(named), ..everything }];
            for effect in effects {
                assert_eq!(tolerates(&tolerations, &taint(effect)), named == effect);
            }
        }
    }

    #[test]
    fn one_matching_toleration_is_enough() {
        let tolerations = [
            toleration("a", TolerationOperator::Exists, ""),
            toleration("k", TolerationOperator::Exists, ""),
        ];
        assert!(tolerates(&tolerations, &taint(TaintEffect::NoExecute)));
        assert!(!tolerates(&[], &taint(TaintEffect::NoExecute)));
    }

    #[test]
    fn soft_taints_need_no_toleration() {
        let taints = [taint(TaintEffect::PreferNoSchedule)];
        assert!(tolerates_all_hard(&[], &taints));
        assert!(tolerates_all_hard(&[], &[]));
        for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute] {
            let taints = [taint(TaintEffect::PreferNoSchedule), taint(effect)];
            assert!(!tolerates_all_hard(&[], &taints));
            let tolerations = [toleration("k", TolerationOperator::Exists, "")];
            assert!(tolerates_all_hard(&tolerations, &taints));
        }
    }
}
