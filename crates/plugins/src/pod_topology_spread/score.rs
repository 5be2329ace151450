//! Soft constraints: nodes in emptier domains score higher.

use engine::bitset::NodeSet;
use engine::framework::scorer::{EXCLUDED, SCORE_MAX};
use engine::framework::{Class, Extremes, Scorer, Touched};
use engine::index::{KeyIdx, NodeIdx};
use engine::object::SpreadConstraint;
use engine::state::State;
use engine::state::tallies::{Subject, TallyRef};

use super::HOSTNAME;
use super::constraints::{counted_nodes, counted_pods, nodes_with_all_keys};

/// The soft constraints of a class.
pub(super) struct Evenness {
    constraints: Vec<Soft>,
    /// Nodes that lack a key which they should have.
    ignored: NodeSet,
    /// The feasible nodes of the last decision.
    feasible: NodeSet,
    started: bool,
}

/// One soft constraint.
///
/// Nodes are counted by *place*: one for each domain and one for all nodes without the label, or,
/// for hostnames, one for each node.
struct Soft {
    key: KeyIdx,
    by_node: bool,
    /// Place of each node slot.
    places: Vec<u32>,
    /// The place of nodes without the label. They get nothing for it, but count as those with an empty value.
    unlabelled: u32,
    unlabelled_counts_at: u32,
    /// Nodes whose pods count.
    counted: NodeSet,
    followed: Option<(TallyRef, u64)>,
    /// Pods by place, as numbers that are multiplied in the next step.
    counts: Vec<f64>,
    /// Feasible nodes by place.
    members: Vec<u32>,
    /// Places with feasible nodes; feasible nodes, for hostnames.
    size: usize,
    weight: f64,
    /// What every labelled node gets.
    base: f64,
}

impl Evenness {
    pub(super) fn new(
        class: &Class,
        constraints: &[SpreadConstraint],
        all_keys_needed: bool,
        state: &mut State,
    ) -> Self {
        let mut eligible = state.nodes.present().clone();
        let mut ignored = NodeSet::new(state.nodes.slots());
        if all_keys_needed {
            ignored.copy_from(&eligible);
            eligible = nodes_with_all_keys(constraints, state);
            ignored.subtract(&eligible);
        }
        let constraints =
            constraints.iter().map(|c| Soft::new(c, class, &eligible, state)).collect();
        let feasible = NodeSet::new(state.nodes.slots());
        Self { constraints, ignored, feasible, started: false }
    }

    /// Takes over the feasible nodes. True if a weight changed.
    fn follow_feasible(&mut self, feasible: &NodeSet) -> bool {
        self.feasible.grow(feasible.words().len() * 64);
        let words = self.feasible.words().iter().zip(feasible.words()).enumerate();
        for (index, (old, new)) in words {
            let mut changed = old ^ new;
            while changed != 0 {
                let bit = changed.trailing_zeros();
                changed &= changed - 1;
                let node = NodeIdx::from(index * 64 + bit as usize);
                if !self.ignored.contains(node) {
                    let joins = new >> bit & 1 == 1;
                    self.constraints.iter_mut().for_each(|c| c.count_member(node, joins));
                }
            }
        }
        self.feasible.copy_from(feasible);
        self.constraints.iter_mut().fold(false, |changed, c| c.weigh() | changed)
    }
}

impl Scorer for Evenness {
    fn score(&mut self, _state: &State, node: NodeIdx) -> i64 {
        if self.ignored.contains(node) {
            return EXCLUDED;
        }
        rounded(self.constraints.iter().map(|constraint| constraint.share(node.at())).sum())
    }

    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        match &self.constraints[..] {
            [one] => one.score_alone(raw),
            [first, second] => score_two(first, second, raw),
            _ => {
                for node in state.nodes.present().iter() {
                    raw[node.at()] = self.score(state, node);
                }
            }
        }
        for node in self.ignored.iter() {
            raw[node.at()] = EXCLUDED;
        }
    }

    fn refresh(&mut self, state: &State, feasible: &NodeSet, feasible_changed: bool) -> Touched {
        // Re-scoring a node by itself costs several times what it costs in the column.
        let few = state.nodes.count() / 32;
        let mut touched = Vec::new();
        let mut all = false;
        for constraint in &mut self.constraints {
            let Some(changed) = constraint.catch_up(state, few, &mut touched) else {
                return Touched::Stale;
            };
            all |= changed;
        }
        if feasible_changed || !self.started {
            all |= self.follow_feasible(feasible) || !self.started;
            self.started = true;
        }
        match touched {
            _ if all => Touched::All,
            nodes if nodes.is_empty() => Touched::Nothing,
            nodes => Touched::Nodes(nodes),
        }
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        let Extremes { min, max } = extremes;
        if max == 0 { SCORE_MAX } else { SCORE_MAX * (max + min - raw) / max }
    }
}

impl Soft {
    fn new(
        constraint: &SpreadConstraint,
        class: &Class,
        eligible: &NodeSet,
        state: &mut State,
    ) -> Self {
        let by_node = *constraint.topology_key == *HOSTNAME;
        let key = state.label_column(&constraint.topology_key);
        let column = state.topology.column(key);
        let place_count = if by_node { state.nodes.slots() } else { column.domain_count() };
        let unlabelled = place_count as u32;
        let domains = column.domains().iter().enumerate();
        let places = domains.map(|(slot, domain)| match domain {
            domain if !domain.is_some() => unlabelled,
            _ if by_node => slot as u32,
            domain => domain.0,
        });
        let mut soft = Self {
            key,
            by_node,
            places: places.collect(),
            unlabelled,
            unlabelled_counts_at: column.find("").filter(|_| !by_node).map_or(unlabelled, |d| d.0),
            counted: counted_nodes(constraint, class, eligible.clone(), state),
            followed: None,
            counts: vec![0.0; place_count + 1],
            members: vec![0; place_count + 1],
            size: 0,
            weight: 0.0,
            base: f64::from(constraint.max_skew - 1),
        };
        if by_node {
            // Pods on the node itself count, whatever the constraint thinks of the node.
            soft.counted.copy_from(state.nodes.present());
        }
        if let Some(subject) = counted_pods(constraint, class) {
            soft.follow(&subject, state);
        }
        soft
    }

    fn follow(&mut self, subject: &Subject, state: &mut State) {
        let tally = state.tally(subject);
        let end = state.tallies.end(tally).expect("the tally was asked for just now");
        self.followed = Some((tally, end));
        state.for_each_subject(subject, |_, node| {
            if self.counted.contains(node) {
                let place = self.counting_place(node);
                self.counts[place] += 1.0;
            }
        });
    }

    fn place(&self, node: NodeIdx) -> usize {
        self.places.get(node.at()).copied().unwrap_or(self.unlabelled) as usize
    }

    fn counting_place(&self, node: NodeIdx) -> usize {
        let place = self.place(node);
        if place == self.unlabelled as usize { self.unlabelled_counts_at as usize } else { place }
    }

    /// Takes in the pods that came and went; adds the nodes concerned unless there are more than a
    /// few, then says so. `None` when that is not possible.
    fn catch_up(&mut self, state: &State, few: usize, touched: &mut Vec<NodeIdx>) -> Option<bool> {
        let Some((tally, position)) = self.followed else { return Some(false) };
        let changes = state.tallies.since(tally, position)?;
        self.followed = Some((tally, position + changes.len() as u64));
        let mut many = false;
        for (node, change) in changes {
            if !self.counted.contains(*node) {
                continue;
            }
            let place = self.counting_place(*node);
            self.counts[place] += f64::from(*change);
            if self.by_node {
                touched.push(*node);
            } else if place != self.unlabelled as usize {
                let nodes = state.topology.column(self.key).nodes((place).into());
                many |= nodes.len() > few || touched.len() > few;
                if !many {
                    touched.extend_from_slice(nodes);
                }
            }
        }
        Some(many || touched.len() > few)
    }

    fn count_member(&mut self, node: NodeIdx, joins: bool) {
        if self.by_node {
            self.size = if joins { self.size + 1 } else { self.size - 1 };
            return;
        }
        let place = self.counting_place(node);
        let members = &mut self.members[place];
        if joins {
            *members += 1;
            self.size += usize::from(*members == 1);
        } else {
            *members -= 1;
            self.size -= usize::from(*members == 0);
        }
    }

    /// Works the weight out. True if it changed.
    fn weigh(&mut self) -> bool {
        let weight = ((self.size + 2) as f64).ln();
        std::mem::replace(&mut self.weight, weight) != weight
    }

    /// What a node slot gets for this constraint.
    fn share(&self, slot: usize) -> f64 {
        let place = self.places[slot];
        if place == self.unlabelled { 0.0 } else { self.share_of(place) }
    }

    fn share_of(&self, place: u32) -> f64 {
        self.counts[place as usize] * self.weight + self.base
    }

    /// What each place gets, the last one being for nodes without the label.
    fn shares(&self) -> Vec<f64> {
        let mut shares: Vec<f64> =
            self.counts.iter().map(|count| count * self.weight + self.base).collect();
        shares[self.unlabelled as usize] = 0.0;
        shares
    }

    fn score_alone(&self, raw: &mut [i64]) {
        let scores: Vec<i64> = self.shares().into_iter().map(rounded).collect();
        for (raw, place) in raw.iter_mut().zip(&self.places) {
            *raw = scores[*place as usize];
        }
    }
}

fn score_two(first: &Soft, second: &Soft, raw: &mut [i64]) {
    let (firsts, seconds) = (first.shares(), second.shares());
    let places = first.places.iter().zip(&second.places);
    for (raw, (first, second)) in raw.iter_mut().zip(places) {
        *raw = rounded(firsts[*first as usize] + seconds[*second as usize]);
    }
}

/// Rounds a number that is not negative, halves up, without leaving the vector unit.
pub(super) fn rounded(number: f64) -> i64 {
    // At this size the last bit of a float is worth one: adding rounds, halves to even.
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let shifted = number + WHOLE;
    let nearest = shifted.to_bits().wrapping_sub(WHOLE.to_bits()) as i64;
    nearest + i64::from(number - (shifted - WHOLE) == 0.5)
}
