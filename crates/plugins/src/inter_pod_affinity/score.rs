//! The scorer: weights of the terms that match in the domains of a node, anti-affinity negative.

use engine::bitset::NodeSet;
use engine::framework::scorer::SCORE_MAX;
use engine::framework::{Class, Extremes, ScoreChanges, Scorer};
use engine::index::NodeIdx;
use engine::state::State;
use engine::state::domains::DomainSums;
use engine::state::tallies::TallySource;
use engine::state::terms::TermKind;

use super::terms::{ExistingTerms, matcher, matching};

/// The preferred terms of a class, and the terms of existing pods that match it.
pub(super) struct AffinityScorer {
    existing: ExistingTerms,
    keys: Vec<KeyWeights>,
    started: bool,
}

/// Weights in the domains of one topology key.
struct KeyWeights {
    sums: DomainSums,
    /// `true` if all nodes are in one domain. Its weight shifts all scores equally, which normalising
    /// undoes.
    uniform: bool,
}

impl AffinityScorer {
    pub(super) fn new(class: &Class, hard_affinity_weight: i64, state: &mut State) -> Self {
        let kinds: fn(TermKind) -> bool = if hard_affinity_weight > 0 {
            |kind| kind != TermKind::RequiredAnti
        } else {
            |kind| matches!(kind, TermKind::Preferred(_) | TermKind::PreferredAnti(_))
        };
        let existing = ExistingTerms::new(class, kinds, state);
        let mut scorer = Self { existing, keys: Vec::new(), started: false };
        let own = &class.spec.pod_affinity;
        let affinity = own.preferred.iter().map(|(weight, term)| (i64::from(*weight), term));
        let anti_affinity =
            own.preferred_anti.iter().map(|(weight, term)| (-i64::from(*weight), term));
        for (weight, term) in affinity.chain(anti_affinity) {
            if let Some(matcher) = matcher(term, state) {
                let subject = matching(Box::new([matcher]));
                scorer.key(&term.topology_key, state).follow(state, &subject, weight);
            }
        }
        for term in scorer.existing.terms().to_vec() {
            let record = state.terms.get(term);
            let weight = match record.kind {
                TermKind::Required | TermKind::RequiredAnti => hard_affinity_weight,
                TermKind::Preferred(weight) => i64::from(weight),
                TermKind::PreferredAnti(weight) => -i64::from(weight),
            };
            let topology_key = record.term.topology_key.clone();
            let sums = scorer.key(&topology_key, state);
            sums.follow(state, &TallySource::Carrying(term), weight);
        }
        scorer
    }

    /// Returns the weights of a topology key, which are added if they are new.
    fn key(&mut self, topology_key: &str, state: &mut State) -> &mut DomainSums {
        let key = state.label_column(topology_key);
        let found = self.keys.iter().position(|other| other.sums.key() == key);
        let position = found.unwrap_or_else(|| {
            let sums = DomainSums::new(state, topology_key, None);
            let column = state.topology.column(key);
            let first = state.nodes.order().first();
            let uniform = first.is_some_and(|node| {
                let domain = column.domain(*node);
                domain.is_some() && column.nodes(domain).len() == state.nodes.count()
            });
            self.keys.push(KeyWeights { sums, uniform });
            self.keys.len() - 1
        });
        &mut self.keys[position].sums
    }

    fn varying(&self) -> impl Iterator<Item = &DomainSums> {
        self.keys.iter().filter(|key| !key.uniform).map(|key| &key.sums)
    }
}

impl Scorer for AffinityScorer {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let weight = |sums: &DomainSums| {
            let domain = state.topology.column(sums.key()).domain(node);
            sums.sums().get(domain.at()).copied().unwrap_or(0)
        };
        self.varying().map(weight).sum()
    }

    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        raw.fill(0);
        for sums in self.varying() {
            let domains = state.topology.column(sums.key()).domains();
            let sums = sums.sums();
            for (raw, domain) in raw.iter_mut().zip(domains) {
                // The domain of nodes without the label is out of bounds.
                *raw += sums.get(domain.at()).copied().unwrap_or(0);
            }
        }
    }

    fn refresh(
        &mut self,
        state: &State,
        _feasible: &NodeSet,
        _feasible_changed: bool,
    ) -> ScoreChanges {
        if !self.existing.are_current(state) {
            return ScoreChanges::Stale;
        }
        // Scoring one node costs several times its share of scoring the column.
        let nodes_max = state.nodes.count() / 32;
        let mut nodes = Vec::new();
        let mut many = !std::mem::replace(&mut self.started, true);
        for KeyWeights { sums, uniform } in &mut self.keys {
            let column = state.topology.column(sums.key());
            let current = sums.refresh(state, |domain| {
                let touched = column.nodes(domain);
                if *uniform {
                    return;
                }
                many |= nodes.len() + touched.len() > nodes_max;
                if !many {
                    nodes.extend_from_slice(touched);
                }
            });
            if !current {
                return ScoreChanges::Stale;
            }
        }
        match nodes {
            _ if many => ScoreChanges::All,
            nodes if nodes.is_empty() => ScoreChanges::Nothing,
            nodes => ScoreChanges::Nodes(nodes),
        }
    }

    fn skipped(&self) -> bool {
        self.keys.iter().all(|key| key.sums.pods() == 0)
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        let Extremes { min, max } = extremes;
        if max <= min { 0 } else { share_of_range(raw - min, max - min) }
    }
}

/// Returns the score of a node that is `above` the lowest raw score. Upstream divides first, so that the
/// result is often slightly below the exact integer and is truncated to the next lower one.
pub(super) fn share_of_range(above: i64, range: i64) -> i64 {
    (SCORE_MAX as f64 * (above as f64 / range as f64)) as i64
}
