//! Soft constraints: nodes in emptier domains score higher.

use engine::bitset::NodeSet;
use engine::framework::scorer::{EXCLUDED, SCORE_MAX};
use engine::framework::{Class, Extremes, Groups, Scorer, Touched};
use engine::index::NodeIdx;
use engine::map::Map;
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
    kinds: Kinds,
    started: bool,
}

/// One soft constraint.
///
/// Nodes are counted by *place*: one for each domain and one for all nodes without the label, or,
/// for hostnames, one for each node.
struct Soft {
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
    weight: f64,
    /// What every labelled node gets.
    base: f64,
    /// Places counted so far, while they are counted.
    seen: Vec<bool>,
}

/// Nodes that are of one kind: in the same domains, with as many pods where each node is a domain of
/// its own. They score alike.
struct Kinds {
    of_slot: Vec<u32>,
    /// For each kind and constraint, see [`Soft::part`]. The first kind is that of ignored nodes.
    parts: Vec<Box<[u32]>>,
    by_parts: Map<Box<[u32]>, u32>,
    /// Feasible nodes of each kind that are not ignored.
    members: Vec<u32>,
    raw: Vec<i64>,
    extremes: Extremes,
    scratch: Vec<u32>,
}

/// The kind of ignored nodes.
const IGNORED: u32 = 0;

/// Kinds that were left behind by nodes whose pods came and went are forgotten when there are this
/// many more than nodes.
const ABANDONED_MAX: usize = 4096;

impl Kinds {
    fn new(constraints: &[Soft], ignored: &NodeSet, state: &State) -> Self {
        let mut kinds = Self {
            of_slot: vec![IGNORED; state.nodes.slots()],
            parts: vec![Box::default()],
            by_parts: Map::default(),
            members: vec![0],
            raw: Vec::new(),
            extremes: Extremes::NONE,
            scratch: Vec::new(),
        };
        if let [one] = constraints
            && !one.by_node
        {
            // The usual case: places are numbered already.
            for place in 0..=one.unlabelled {
                kinds.add(Box::new([place]));
            }
            for (kind, place) in kinds.of_slot.iter_mut().zip(&one.places) {
                *kind = place + 1;
            }
        } else {
            for node in state.nodes.present().iter() {
                kinds.of_slot[node.at()] = kinds.find(constraints, node);
            }
        }
        for node in ignored.iter() {
            kinds.of_slot[node.at()] = IGNORED;
        }
        kinds
    }

    fn add(&mut self, parts: Box<[u32]>) -> u32 {
        let kind = self.parts.len() as u32;
        self.by_parts.insert(parts.clone(), kind);
        self.parts.push(parts);
        self.members.push(0);
        kind
    }

    fn find(&mut self, constraints: &[Soft], node: NodeIdx) -> u32 {
        let mut parts = std::mem::take(&mut self.scratch);
        parts.clear();
        parts.extend(constraints.iter().map(|constraint| constraint.part(node)));
        let known = self.by_parts.get(&parts[..]).copied();
        let kind = known.unwrap_or_else(|| self.add(parts.as_slice().into()));
        self.scratch = parts;
        kind
    }

    /// Puts a node where it belongs now.
    fn move_node(&mut self, constraints: &[Soft], node: NodeIdx, feasible: bool) {
        let before = self.of_slot[node.at()];
        if before == IGNORED {
            return;
        }
        let now = self.find(constraints, node);
        self.of_slot[node.at()] = now;
        if feasible {
            self.members[before as usize] -= 1;
            self.members[now as usize] += 1;
        }
    }

    /// Scores all kinds. True if one scores otherwise than before.
    fn score(&mut self, constraints: &[Soft]) -> bool {
        let mut changed = false;
        self.raw.resize(self.parts.len(), EXCLUDED);
        self.extremes = Extremes::NONE;
        for (kind, parts) in self.parts.iter().enumerate().skip(1) {
            let shares = constraints.iter().zip(parts).map(|(c, part)| c.share(*part));
            let raw = rounded(shares.sum());
            changed |= std::mem::replace(&mut self.raw[kind], raw) != raw;
            if self.members[kind] > 0 {
                self.extremes.take(raw);
            }
        }
        changed
    }
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
        let constraints: Vec<Soft> =
            constraints.iter().map(|c| Soft::new(c, class, &eligible, state)).collect();
        let feasible = NodeSet::new(state.nodes.slots());
        let kinds = Kinds::new(&constraints, &ignored, state);
        Self { constraints, ignored, feasible, kinds, started: false }
    }

    /// Takes over the feasible nodes.
    fn follow_feasible(&mut self, feasible: &NodeSet) {
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
                    let members = &mut self.kinds.members[self.kinds.of_slot[node.at()] as usize];
                    *members = if joins { *members + 1 } else { *members - 1 };
                }
            }
        }
        self.feasible.copy_from(feasible);
        for (position, constraint) in self.constraints.iter_mut().enumerate() {
            constraint.weigh(position, &self.kinds);
        }
    }
}

impl Scorer for Evenness {
    fn score(&mut self, _state: &State, node: NodeIdx) -> i64 {
        self.kinds.raw[self.kinds.of_slot[node.at()] as usize]
    }

    fn groups(&self) -> Option<Groups<'_>> {
        let Kinds { of_slot, raw, extremes, .. } = &self.kinds;
        Some(Groups { of_slot, raw, extremes: *extremes })
    }

    fn refresh(&mut self, state: &State, feasible: &NodeSet, feasible_changed: bool) -> Touched {
        let mut touched = Vec::new();
        for constraint in &mut self.constraints {
            if !constraint.catch_up(state, &mut touched) {
                return Touched::Stale;
            }
        }
        for node in &touched {
            let member = self.feasible.contains(*node);
            self.kinds.move_node(&self.constraints, *node, member);
        }
        if self.kinds.parts.len() > state.nodes.slots() + ABANDONED_MAX {
            return Touched::Stale;
        }
        if feasible_changed || !self.started {
            self.follow_feasible(feasible);
            self.started = true;
        }
        match touched {
            _ if self.kinds.score(&self.constraints) => Touched::All,
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
            by_node,
            places: places.collect(),
            unlabelled,
            unlabelled_counts_at: column.find("").filter(|_| !by_node).map_or(unlabelled, |d| d.0),
            counted: counted_nodes(constraint, class, eligible.clone(), state),
            followed: None,
            counts: vec![0.0; place_count + 1],
            weight: 0.0,
            base: f64::from(constraint.max_skew - 1),
            seen: Vec::new(),
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

    /// Takes in the pods that came and went, and notes the nodes of which the kind changed by that.
    /// False when that is not possible.
    fn catch_up(&mut self, state: &State, moved: &mut Vec<NodeIdx>) -> bool {
        let Some((tally, position)) = self.followed else { return true };
        let Some(changes) = state.tallies.since(tally, position) else { return false };
        self.followed = Some((tally, position + changes.len() as u64));
        for (node, change) in changes.iter().filter(|(node, _)| self.counted.contains(*node)) {
            let place = self.counting_place(*node);
            self.counts[place] += f64::from(*change);
            if self.by_node {
                moved.push(*node);
            }
        }
        true
    }

    /// Works the weight out from the number of places with feasible nodes, or of such nodes.
    fn weigh(&mut self, position: usize, kinds: &Kinds) {
        let used = || kinds.parts.iter().zip(&kinds.members).filter(|(_, members)| **members > 0);
        let size = if self.by_node {
            used().map(|(_, members)| *members as usize).sum()
        } else {
            self.seen.clear();
            self.seen.resize(self.counts.len(), false);
            let places = used().map(|(parts, _)| match parts[position] {
                unlabelled if unlabelled == self.unlabelled => self.unlabelled_counts_at,
                place => place,
            });
            places.filter(|place| !std::mem::replace(&mut self.seen[*place as usize], true)).count()
        };
        self.weight = ((size + 2) as f64).ln();
    }

    /// What the constraint sees of a node: its place; for hostnames, how many pods there are.
    fn part(&self, node: NodeIdx) -> u32 {
        let place = self.place(node);
        if self.by_node && place != self.unlabelled as usize {
            self.counts[place] as u32
        } else if self.by_node {
            u32::MAX
        } else {
            place as u32
        }
    }

    /// What a node with this part gets.
    fn share(&self, part: u32) -> f64 {
        let count = match part {
            u32::MAX => return 0.0,
            count if self.by_node => f64::from(count),
            place if place == self.unlabelled => return 0.0,
            place => self.counts[place as usize],
        };
        count * self.weight + self.base
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
