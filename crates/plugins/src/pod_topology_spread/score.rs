//! Soft constraints (ScheduleAnyway): scores nodes higher whose domains have fewer matching pods.

use engine::bitset::NodeSet;
use engine::framework::scorer::{EXCLUDED, SCORE_MAX};
use engine::framework::{Class, Extremes, ScoreBuckets, ScoreChanges, Scorer};
use engine::index::NodeIdx;
use engine::map::Map;
use engine::object::SpreadConstraint;
use engine::state::State;
use engine::state::tallies::{TallyRef, TallySource};

use super::HOSTNAME;
use super::constraints::{counted_nodes, counted_pods, nodes_with_all_keys};

/// The soft constraints of a class.
pub(super) struct SpreadScorer {
    constraints: Vec<SoftConstraint>,
    /// Nodes that lack a required topology key.
    ignored: NodeSet,
    /// Feasible nodes at the last refresh.
    feasible: NodeSet,
    buckets: NodeBuckets,
    started: bool,
}

/// One soft constraint.
///
/// Pods are counted by *counter*: one per domain and one for all nodes without the label, or, for
/// hostnames, one per node.
struct SoftConstraint {
    /// `true` for hostnames: every node is a domain of its own.
    by_node: bool,
    /// Counter of each node slot.
    counter_of_slot: Vec<u32>,
    /// Counter of nodes without the label, which the constraint scores zero.
    unlabelled: u32,
    /// Counter of the pods on them: that of the empty value, as upstream, if nodes have it.
    unlabelled_pods_counter: u32,
    /// Nodes whose pods are counted.
    counted: NodeSet,
    /// The tally of the counted pods, and the position up to which its changes are applied.
    followed: Option<(TallyRef, u64)>,
    /// Number of pods by counter, as floats because they are multiplied by the weight.
    counts: Vec<f64>,
    weight: f64,
    /// Constant share of every labelled node: `maxSkew` - 1.
    base: f64,
    /// Counters seen so far while computing the weight; a buffer.
    seen: Vec<bool>,
}

/// Score buckets: nodes in the same domains, with equal numbers of pods where each node is a domain of
/// its own. They have equal raw scores.
struct NodeBuckets {
    /// Bucket of each node slot.
    of_slot: Vec<u32>,
    /// For each bucket and constraint, see [`SoftConstraint::key`]. The first bucket is that of ignored nodes.
    keys: Vec<Box<[u32]>>,
    by_key: Map<Box<[u32]>, u32>,
    /// Number of feasible nodes of each bucket, ignored ones excluded.
    members: Vec<u32>,
    /// Raw score of each bucket.
    raw: Vec<i64>,
    extremes: Extremes,
    scratch: Vec<u32>,
}

/// The bucket of ignored nodes.
const IGNORED_BUCKET: u32 = 0;

/// Number of buckets beyond the number of nodes above which the scorer is prepared again, which drops the
/// buckets that nodes left when their pods changed.
const EMPTY_BUCKETS_MAX: usize = 4096;

impl NodeBuckets {
    fn new(constraints: &[SoftConstraint], ignored: &NodeSet, state: &State) -> Self {
        let mut buckets = Self {
            of_slot: vec![IGNORED_BUCKET; state.nodes.slots()],
            keys: vec![Box::default()],
            by_key: Map::default(),
            members: vec![0],
            raw: Vec::new(),
            extremes: Extremes::NONE,
            scratch: Vec::new(),
        };
        if let [one] = constraints
            && !one.by_node
        {
            // The usual case: the counters serve as bucket numbers.
            for counter in 0..=one.unlabelled {
                buckets.add(Box::new([counter]));
            }
            for (bucket, counter) in buckets.of_slot.iter_mut().zip(&one.counter_of_slot) {
                *bucket = counter + 1;
            }
        } else {
            for node in state.nodes.present().iter() {
                buckets.of_slot[node.at()] = buckets.find(constraints, node);
            }
        }
        for node in ignored.iter() {
            buckets.of_slot[node.at()] = IGNORED_BUCKET;
        }
        buckets
    }

    fn add(&mut self, keys: Box<[u32]>) -> u32 {
        let bucket = self.keys.len() as u32;
        self.by_key.insert(keys.clone(), bucket);
        self.keys.push(keys);
        self.members.push(0);
        bucket
    }

    fn find(&mut self, constraints: &[SoftConstraint], node: NodeIdx) -> u32 {
        let mut keys = std::mem::take(&mut self.scratch);
        keys.clear();
        keys.extend(constraints.iter().map(|constraint| constraint.key(node)));
        let known = self.by_key.get(&keys[..]).copied();
        let bucket = known.unwrap_or_else(|| self.add(keys.as_slice().into()));
        self.scratch = keys;
        bucket
    }

    /// Moves a node to the bucket that matches its current keys.
    fn move_node(&mut self, constraints: &[SoftConstraint], node: NodeIdx, feasible: bool) {
        let before = self.of_slot[node.at()];
        if before == IGNORED_BUCKET {
            return;
        }
        let now = self.find(constraints, node);
        self.of_slot[node.at()] = now;
        if feasible {
            self.members[before as usize] -= 1;
            self.members[now as usize] += 1;
        }
    }

    /// Scores all buckets. Returns `true` if a score changed.
    fn score(&mut self, constraints: &[SoftConstraint]) -> bool {
        let mut changed = false;
        self.raw.resize(self.keys.len(), EXCLUDED);
        self.extremes = Extremes::NONE;
        for (bucket, keys) in self.keys.iter().enumerate().skip(1) {
            let shares = constraints.iter().zip(keys).map(|(c, key)| c.share(*key));
            let raw = round_half_up(shares.sum());
            changed |= std::mem::replace(&mut self.raw[bucket], raw) != raw;
            if self.members[bucket] > 0 {
                self.extremes.take(raw);
            }
        }
        changed
    }
}

impl SpreadScorer {
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
        let constraints: Vec<SoftConstraint> =
            constraints.iter().map(|c| SoftConstraint::new(c, class, &eligible, state)).collect();
        let feasible = NodeSet::new(state.nodes.slots());
        let buckets = NodeBuckets::new(&constraints, &ignored, state);
        Self { constraints, ignored, feasible, buckets, started: false }
    }

    /// Applies the changes of the feasible nodes.
    fn update_feasible(&mut self, feasible: &NodeSet) {
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
                    let members =
                        &mut self.buckets.members[self.buckets.of_slot[node.at()] as usize];
                    *members = if joins { *members + 1 } else { *members - 1 };
                }
            }
        }
        self.feasible.copy_from(feasible);
        for (position, constraint) in self.constraints.iter_mut().enumerate() {
            constraint.update_weight(position, &self.buckets);
        }
    }
}

impl Scorer for SpreadScorer {
    fn score(&mut self, _state: &State, node: NodeIdx) -> i64 {
        self.buckets.raw[self.buckets.of_slot[node.at()] as usize]
    }

    fn score_buckets(&self) -> Option<ScoreBuckets<'_>> {
        let NodeBuckets { of_slot, raw, extremes, .. } = &self.buckets;
        Some(ScoreBuckets { of_slot, raw, extremes: *extremes })
    }

    fn refresh(
        &mut self,
        state: &State,
        feasible: &NodeSet,
        feasible_changed: bool,
    ) -> ScoreChanges {
        let mut touched = Vec::new();
        for constraint in &mut self.constraints {
            if !constraint.apply_changes(state, &mut touched) {
                return ScoreChanges::Stale;
            }
        }
        for node in &touched {
            let member = self.feasible.contains(*node);
            self.buckets.move_node(&self.constraints, *node, member);
        }
        if self.buckets.keys.len() > state.nodes.slots() + EMPTY_BUCKETS_MAX {
            return ScoreChanges::Stale;
        }
        if feasible_changed || !self.started {
            self.update_feasible(feasible);
            self.started = true;
        }
        match touched {
            _ if self.buckets.score(&self.constraints) => ScoreChanges::All,
            nodes if nodes.is_empty() => ScoreChanges::Nothing,
            nodes => ScoreChanges::Nodes(nodes),
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

impl SoftConstraint {
    fn new(
        constraint: &SpreadConstraint,
        class: &Class,
        eligible: &NodeSet,
        state: &mut State,
    ) -> Self {
        let by_node = *constraint.topology_key == *HOSTNAME;
        let key = state.label_column(&constraint.topology_key);
        let column = state.topology.column(key);
        let counter_count = if by_node { state.nodes.slots() } else { column.domain_count() };
        let unlabelled = counter_count as u32;
        let domains = column.domains().iter().enumerate();
        let counter_of_slot = domains.map(|(slot, domain)| match domain {
            domain if !domain.is_some() => unlabelled,
            _ if by_node => slot as u32,
            domain => domain.0,
        });
        let mut soft = Self {
            by_node,
            counter_of_slot: counter_of_slot.collect(),
            unlabelled,
            unlabelled_pods_counter: column
                .find("")
                .filter(|_| !by_node)
                .map_or(unlabelled, |d| d.0),
            counted: counted_nodes(constraint, class, eligible.clone(), state),
            followed: None,
            counts: vec![0.0; counter_count + 1],
            weight: 0.0,
            base: f64::from(constraint.max_skew - 1),
            seen: Vec::new(),
        };
        if by_node {
            // Upstream counts the pods of each node here, whatever the inclusion policies.
            soft.counted.copy_from(state.nodes.present());
        }
        if let Some(source) = counted_pods(constraint, class) {
            soft.follow(&source, state);
        }
        soft
    }

    fn follow(&mut self, source: &TallySource, state: &mut State) {
        let tally = state.tally(source);
        let end = state.tallies.end(tally).expect("the tally was asked for just now");
        self.followed = Some((tally, end));
        state.for_each_counted_pod(source, |_, node| {
            if self.counted.contains(node) {
                let counter = self.pods_counter(node);
                self.counts[counter] += 1.0;
            }
        });
    }

    fn counter(&self, node: NodeIdx) -> usize {
        self.counter_of_slot.get(node.at()).copied().unwrap_or(self.unlabelled) as usize
    }

    fn pods_counter(&self, node: NodeIdx) -> usize {
        let counter = self.counter(node);
        if counter == self.unlabelled as usize {
            self.unlabelled_pods_counter as usize
        } else {
            counter
        }
    }

    /// Applies the pods that were placed or removed, and collects the nodes whose bucket changed.
    /// Returns `false` if the changes are no longer available.
    fn apply_changes(&mut self, state: &State, moved: &mut Vec<NodeIdx>) -> bool {
        let Some((tally, position)) = self.followed else { return true };
        let Some(changes) = state.tallies.since(tally, position) else { return false };
        self.followed = Some((tally, position + changes.len() as u64));
        for (node, change) in changes.iter().filter(|(node, _)| self.counted.contains(*node)) {
            let counter = self.pods_counter(*node);
            self.counts[counter] += f64::from(*change);
            if self.by_node {
                moved.push(*node);
            }
        }
        true
    }

    /// Computes the weight from the number of domains with feasible nodes (for hostnames: of such nodes).
    fn update_weight(&mut self, position: usize, buckets: &NodeBuckets) {
        let used =
            || buckets.keys.iter().zip(&buckets.members).filter(|(_, members)| **members > 0);
        let size = if self.by_node {
            used().map(|(_, members)| *members as usize).sum()
        } else {
            self.seen.clear();
            self.seen.resize(self.counts.len(), false);
            let counters = used().map(|(keys, _)| match keys[position] {
                unlabelled if unlabelled == self.unlabelled => self.unlabelled_pods_counter,
                counter => counter,
            });
            counters
                .filter(|counter| !std::mem::replace(&mut self.seen[*counter as usize], true))
                .count()
        };
        self.weight = ((size + 2) as f64).ln();
    }

    /// Returns the part of the bucket key for this constraint: the counter of a node, or, for hostnames, its
    /// number of pods.
    fn key(&self, node: NodeIdx) -> u32 {
        let counter = self.counter(node);
        if self.by_node && counter != self.unlabelled as usize {
            self.counts[counter] as u32
        } else if self.by_node {
            u32::MAX
        } else {
            counter as u32
        }
    }

    /// Returns the share of the raw score of a node with this key.
    fn share(&self, key: u32) -> f64 {
        let count = match key {
            u32::MAX => return 0.0,
            count if self.by_node => f64::from(count),
            counter if counter == self.unlabelled => return 0.0,
            counter => self.counts[counter as usize],
        };
        count * self.weight + self.base
    }
}

/// Rounds a number that is not negative, halves up, without leaving the vector registers.
pub(super) fn round_half_up(number: f64) -> i64 {
    // Adding 2⁵² rounds to an integer, halves to even; the last line corrects halves.
    const INTEGER_SHIFT: f64 = (1_u64 << 52) as f64;
    let shifted = number + INTEGER_SHIFT;
    let nearest = shifted.to_bits().wrapping_sub(INTEGER_SHIFT.to_bits()) as i64;
    nearest + i64::from(number - (shifted - INTEGER_SHIFT) == 0.5)
}
