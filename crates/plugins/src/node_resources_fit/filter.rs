//! The filter: nodes with enough free resources and room for one more pod.

use engine::bitset::NodeSet;
use engine::framework::{Code, Filter, NodeVerdict, Reason, Rejection};
use engine::index::{NodeIdx, ResourceIdx};
use engine::simd::Simd;
use engine::state::State;
use engine::{simd, simd_dispatch};

/// Request of a pod for one resource.
pub(super) struct ResourceDemand {
    pub(super) resource: ResourceIdx,
    pub(super) amount: i64,
    /// `true` if a device class offers it: nodes without any of it are left to DynamicResources.
    pub(super) delegated: bool,
    pub(super) reason: Reason,
}

impl ResourceDemand {
    #[inline]
    fn is_met(&self, allocatable: i64, requested: i64) -> bool {
        self.amount <= allocatable.wrapping_sub(requested) || self.delegated && allocatable <= 0
    }
}

/// Resources that a node lacks. Position 0 is room for one more pod, the others are positions of demands
/// plus one.
#[derive(PartialEq)]
struct Shortage {
    lacking: Box<[u32]>,
    unresolvable: bool,
}

/// The resource requests of a class.
pub(super) struct FitFilter {
    demands: Box<[ResourceDemand]>,
    /// Distinct shortages so far; a verdict is the position of its shortage plus one.
    shortages: Vec<Shortage>,
    lacking: Vec<u32>,
}

impl FitFilter {
    pub(super) fn new(demands: Vec<ResourceDemand>) -> Self {
        Self { demands: demands.into(), shortages: Vec::new(), lacking: Vec::new() }
    }

    /// Returns the verdict for the shortage in `lacking`.
    fn verdict(&mut self, unresolvable: bool) -> NodeVerdict {
        let same = |shortage: &Shortage| {
            *shortage.lacking == *self.lacking && shortage.unresolvable == unresolvable
        };
        let known = self.shortages.iter().position(same);
        let position = known.unwrap_or_else(|| {
            let lacking = self.lacking.as_slice().into();
            self.shortages.push(Shortage { lacking, unresolvable });
            self.shortages.len() - 1
        });
        NodeVerdict(position as u32 + 1)
    }
}

impl Filter for FitFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let nodes = &state.nodes;
        let mut unresolvable = false;
        self.lacking.clear();
        if nodes.pods(node).len() as i64 >= nodes.allowed_pods()[node.at()] {
            self.lacking.push(0);
        }
        for (demand, position) in self.demands.iter().zip(1..) {
            let allocatable = nodes.allocatable_of(demand.resource, node);
            if !demand.is_met(allocatable, nodes.requested_of(demand.resource, node)) {
                self.lacking.push(position);
                unresolvable |= demand.amount > allocatable;
            }
        }
        if self.lacking.is_empty() { NodeVerdict::PASS } else { self.verdict(unresolvable) }
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        let shortage = &self.shortages[verdict.0 as usize - 1];
        let reason = |position: &u32| match position {
            0 => Reason::Borrowed("Too many pods"),
            _ => self.demands[*position as usize - 1].reason.clone(),
        };
        let code = if shortage.unresolvable {
            Code::UnschedulableAndUnresolvable
        } else {
            Code::Unschedulable
        };
        Rejection::new(code, shortage.lacking.iter().map(reason).collect())
    }

    fn filter(&mut self, state: &State, nodes: &mut NodeSet) {
        let (allowed, counts) = (state.nodes.allowed_pods(), state.nodes.pod_counts());
        let plain: Vec<(i64, Column, Column)> = self
            .demands
            .iter()
            .filter(|demand| !demand.delegated && demand.amount >= 0)
            .map(|demand| {
                let columns = &state.nodes;
                let resource = demand.resource;
                (demand.amount, columns.allocatable(resource), columns.requested(resource))
            })
            .collect();
        simd_dispatch!(vectors => retain_fitting(vectors, nodes, (allowed, counts), &plain));
        for demand in self.demands.iter().filter(|d| d.delegated || d.amount < 0) {
            let allocatable = state.nodes.allocatable(demand.resource);
            let requested = state.nodes.requested(demand.resource);
            for (index, word) in nodes.words_mut().iter_mut().enumerate() {
                let pairs = word_of(allocatable, index).iter().zip(word_of(requested, index));
                *word &= bits(pairs.map(|(has, used)| demand.is_met(*has, *used)));
            }
        }
    }

    fn reads_pods(&self) -> bool {
        true
    }
}

/// Keeps the nodes that have room for one more pod and for these amounts.
///
/// Branch-free so that it works on several nodes at once: a shortage sets the sign bit. A negative free
/// amount is a shortage whatever is requested; for others the difference cannot overflow.
#[inline(always)]
fn retain_fitting(
    simd: impl Simd,
    nodes: &mut NodeSet,
    (allowed, counts): (&[i64], &[i64]),
    demands: &[(i64, Column, Column)],
) {
    for (index, word) in nodes.words_mut().iter_mut().enumerate() {
        let mut short = [0; WORD_BITS];
        let room = word_of(Some(allowed), index).iter().zip(word_of(Some(counts), index));
        for (short, (allowed, count)) in short.iter_mut().zip(room) {
            *short = allowed - count - 1;
        }
        for (amount, allocatable, requested) in demands {
            let pairs = word_of(*allocatable, index).iter().zip(word_of(*requested, index));
            for (short, (allocatable, requested)) in short.iter_mut().zip(pairs) {
                let left = allocatable.wrapping_sub(*requested);
                *short |= left | left.wrapping_sub(*amount);
            }
        }
        *word &= simd::non_negative_mask(simd, &short);
    }
}

/// A column; `None` if no node has and no pod requests the resource.
type Column<'a> = Option<&'a [i64]>;

/// Number of nodes in one word of a set.
const WORD_BITS: usize = u64::BITS as usize;

/// Returns the part of a column that belongs to a word; zeros for an absent column.
#[inline(always)]
fn word_of(column: Column<'_>, word: usize) -> &[i64] {
    let first = word * WORD_BITS;
    column.map_or(&[0; WORD_BITS], |column| &column[first..column.len().min(first + WORD_BITS)])
}

/// Packs booleans into a word, the first one into the lowest bit.
#[inline]
fn bits(flags: impl Iterator<Item = bool>) -> u64 {
    flags.zip(0..).fold(0, |bits, (flag, bit)| bits | u64::from(flag) << bit)
}
