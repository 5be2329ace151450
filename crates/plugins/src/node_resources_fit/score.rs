//! The scorer: free or requested resources of a node after placing the pod, by the scoring strategy.

use engine::framework::Scorer;
use engine::framework::scorer::SCORE_MAX;
use engine::index::{NodeIdx, ResourceIdx};
use engine::simd_dispatch;
use engine::state::State;

use super::exact;

/// Scoring strategy for one resource.
#[derive(Clone)]
pub(super) enum FitStrategy {
    /// LeastAllocated: a larger free share scores higher.
    Least,
    /// MostAllocated: a larger requested share scores higher.
    Most,
    /// RequestedToCapacityRatio: the score of each whole percentage of the requested share.
    Shape(Box<[i64; 101]>),
}

impl FitStrategy {
    /// Returns the strategy that interpolates between points of (utilisation, score from 0 to 100).
    pub(super) fn shape(points: &[(i64, i64)]) -> Self {
        let mut scores = Box::new([0; 101]);
        for (score, used) in scores.iter_mut().zip(0..) {
            *score = interpolate(points, used);
        }
        Self::Shape(scores)
    }
}

fn interpolate(points: &[(i64, i64)], used: i64) -> i64 {
    match points.iter().position(|(utilisation, _)| used <= *utilisation) {
        None => points.last().map_or(0, |(_, score)| *score),
        Some(0) => points[0].1,
        Some(next) => {
            let ((x0, y0), (x1, y1)) = (points[next - 1], points[next]);
            y0 + (y1 - y0) * (used - x0) / (x1 - x0)
        }
    }
}

/// Column with the requested amount of a resource.
#[derive(Clone, Copy)]
pub(super) enum UsedColumn {
    NonZeroCpu,
    NonZeroMemory,
    Requested,
}

/// A resource that is scored.
#[derive(Clone)]
pub(super) struct ScoredResource {
    pub(super) resource: ResourceIdx,
    pub(super) used: UsedColumn,
    /// Request of the pod.
    pub(super) amount: i64,
    pub(super) weight: i64,
}

impl ScoredResource {
    fn allocatable<'a>(&self, state: &'a State) -> Option<&'a [i64]> {
        state.nodes.allocatable(self.resource)
    }

    fn used<'a>(&self, state: &'a State) -> Option<&'a [i64]> {
        match self.used {
            UsedColumn::NonZeroCpu => Some(state.nodes.non_zero_cpu()),
            UsedColumn::NonZeroMemory => Some(state.nodes.non_zero_memory()),
            UsedColumn::Requested => state.nodes.requested(self.resource),
        }
    }

    fn has_columns(&self, state: &State) -> bool {
        self.allocatable(state).is_some() && self.used(state).is_some()
    }

    #[inline(always)]
    fn bits(&self, state: &State) -> i64 {
        let bits = |column: Option<&[i64]>| column.map_or(0, exact::combined_bits);
        self.amount | bits(self.allocatable(state)) | bits(self.used(state))
    }

    /// Returns `true` if the numbers of one node are below [`exact::EXACT_LIMIT`].
    fn is_exact_on(&self, state: &State, node: NodeIdx) -> bool {
        let bits = |column: Option<&[i64]>| column.map_or(0, |column| column[node.at()]);
        exact::all_exact(self.amount | bits(self.allocatable(state)) | bits(self.used(state)))
    }
}

/// Scores by the resources of a node.
pub(super) struct ResourceScorer {
    pub(super) strategy: FitStrategy,
    pub(super) resources: Box<[ScoredResource]>,
}

impl Scorer for ResourceScorer {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let (mut total, mut weights) = (0i64, 0i64);
        for part in &self.resources {
            let allocatable = state.nodes.allocatable_of(part.resource, node);
            if allocatable == 0 {
                continue;
            }
            let used = part.used(state).map_or(0, |column| column[node.at()]);
            // Saturates so that an overflowing sum does not look like an empty node.
            let requested = used.saturating_add(part.amount);
            let score = resource_score(&self.strategy, requested, allocatable);
            if score > 0 || !matches!(self.strategy, FitStrategy::Shape(_)) {
                total = total.wrapping_add(score.wrapping_mul(part.weight));
                weights += part.weight;
            }
        }
        match self.strategy {
            _ if weights == 0 => 0,
            FitStrategy::Shape(_) => (total as f64 / weights as f64).round() as i64,
            FitStrategy::Least | FitStrategy::Most => total / weights,
        }
    }

    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        if score_columns(&self.strategy, &self.resources, state, raw) {
            return;
        }
        // Only slots with numbers above the limit (orphan slots included) are scored the slow way.
        for node in (0..raw.len()).map(NodeIdx::from) {
            if !self.resources.iter().all(|part| part.is_exact_on(state, node)) {
                raw[node.at()] = self.score(state, node);
            }
        }
    }

    fn reads_pods(&self) -> bool {
        true
    }
}

/// Returns the score of one resource by upstream's integer formulas, which wrap around as Go's do.
fn resource_score(strategy: &FitStrategy, requested: i64, allocatable: i64) -> i64 {
    let percent = |amount: i64| amount.wrapping_mul(SCORE_MAX).wrapping_div(allocatable);
    match strategy {
        FitStrategy::Least if requested > allocatable => 0,
        FitStrategy::Least => percent(allocatable.wrapping_sub(requested)),
        FitStrategy::Most => percent(requested.min(allocatable)),
        FitStrategy::Shape(scores) if requested > allocatable => scores[100],
        // Only percentages that wrapped around are out of range.
        FitStrategy::Shape(scores) => scores[percent(requested).clamp(0, 100) as usize],
    }
}

/// Does the same as [`ResourceScorer::score`] for all slots whose numbers are below
/// [`exact::EXACT_LIMIT`]. Returns `false` if there are others, whose scores are then undefined.
///
/// Weights are at most 100, and so is the number of resources in a list.
pub(super) fn score_columns(
    strategy: &FitStrategy,
    resources: &[ScoredResource],
    state: &State,
    raw: &mut [i64],
) -> bool {
    match (strategy, resources) {
        (FitStrategy::Least, [first, second]) if first.weight == second.weight => {
            simd_dispatch!(_ => score_pair(first, second, state, raw, free_amount))
        }
        (FitStrategy::Most, [first, second]) if first.weight == second.weight => {
            simd_dispatch!(_ => score_pair(first, second, state, raw, requested_amount))
        }
        _ => simd_dispatch!(_ => score_chunks(strategy, resources, state, raw)),
    }
}

/// Returns the free amount of a resource.
#[inline(always)]
fn free_amount(requested: f64, allocatable: f64) -> f64 {
    let free = allocatable - requested;
    if free > 0.0 { free } else { 0.0 }
}

/// Returns the requested amount of a resource, at most the allocatable one.
#[inline(always)]
fn requested_amount(requested: f64, allocatable: f64) -> f64 {
    if requested < allocatable { requested } else { allocatable }
}

/// Returns the percentage of a resource that `share` (free or requested amount) makes up once the pod is
/// added, and whether the node has the resource at all.
#[inline(always)]
fn percentage(
    added: f64,
    allocatable: i64,
    used: i64,
    share: impl Fn(f64, f64) -> f64,
) -> (f64, bool) {
    let (allocatable, used) = (exact::to_f64(allocatable), exact::to_f64(used));
    // Without the resource the share is zero, and the divisor must not be.
    let exists = allocatable > 0.0;
    let divisor = if exists { allocatable } else { 1.0 };
    (exact::floor(100.0 * share(used + added, allocatable) / divisor), exists)
}

/// Scores two resources of equal weight (the default) in one pass: the average is half of the sum, or the
/// only score if a node lacks one of them.
#[inline(always)]
fn score_pair(
    first: &ScoredResource,
    second: &ScoredResource,
    state: &State,
    raw: &mut [i64],
    share: impl Fn(f64, f64) -> f64,
) -> bool {
    let zeros = if first.has_columns(state) && second.has_columns(state) { 0 } else { raw.len() };
    let zeros = vec![0; zeros];
    let column = |column: Option<_>| column.unwrap_or(&zeros[..]);
    let rows = column(first.allocatable(state)).iter().zip(column(first.used(state)));
    let rows = rows.zip(column(second.allocatable(state)).iter().zip(column(second.used(state))));
    let (added0, added1) = (exact::to_f64(first.amount), exact::to_f64(second.amount));
    let mut bits = first.amount | second.amount;
    for (raw, ((allocatable0, used0), (allocatable1, used1))) in raw.iter_mut().zip(rows) {
        bits |= allocatable0 | used0 | allocatable1 | used1;
        let (score0, exists0) = percentage(added0, *allocatable0, *used0, &share);
        let (score1, exists1) = percentage(added1, *allocatable1, *used1, &share);
        let part = if exists0 && exists1 { 0.5 } else { 1.0 };
        *raw = exact::to_i64(exact::floor((score0 + score1) * part));
    }
    exact::all_exact(bits)
}

/// Number of slots per chunk, so that the sums stay in the L1 cache.
const CHUNK_SLOTS: usize = 256;

/// Sums over the resources for the slots of one chunk.
struct ChunkSums {
    totals: [f64; CHUNK_SLOTS],
    weights: [f64; CHUNK_SLOTS],
}

/// Scores any number of resources.
#[inline(always)]
fn score_chunks(
    strategy: &FitStrategy,
    resources: &[ScoredResource],
    state: &State,
    raw: &mut [i64],
) -> bool {
    let are_small = resources.iter().all(|part| exact::all_exact(part.bits(state)));
    let mut sums = ChunkSums { totals: [0.0; CHUNK_SLOTS], weights: [0.0; CHUNK_SLOTS] };
    for (chunk, raw) in raw.chunks_mut(CHUNK_SLOTS).enumerate() {
        sums.totals.fill(0.0);
        sums.weights.fill(0.0);
        for part in resources {
            let allocatable = chunk_of(part.allocatable(state), chunk);
            let used = chunk_of(part.used(state), chunk);
            match strategy {
                FitStrategy::Least => sums.add(part, allocatable, used, free_amount),
                FitStrategy::Most => sums.add(part, allocatable, used, requested_amount),
                FitStrategy::Shape(scores) => sums.add_by_shape(part, allocatable, used, scores),
            }
        }
        match strategy {
            FitStrategy::Least | FitStrategy::Most => sums.averages(raw, exact::floor),
            FitStrategy::Shape(_) => sums.averages(raw, f64::round),
        }
    }
    are_small
}

impl ChunkSums {
    /// Adds a resource, scored by `share`.
    #[inline(always)]
    fn add(
        &mut self,
        part: &ScoredResource,
        allocatable: &[i64],
        used: &[i64],
        share: impl Fn(f64, f64) -> f64,
    ) {
        let (amount, part_weight) = (exact::to_f64(part.amount), exact::to_f64(part.weight));
        let sums = self.totals.iter_mut().zip(&mut self.weights);
        for ((total, weight), (allocatable, used)) in sums.zip(allocatable.iter().zip(used)) {
            let (score, exists) = percentage(amount, *allocatable, *used, &share);
            *total += part_weight * score;
            *weight += if exists { part_weight } else { 0.0 };
        }
    }

    fn add_by_shape(
        &mut self,
        part: &ScoredResource,
        allocatable: &[i64],
        used: &[i64],
        scores: &[i64; 101],
    ) {
        let sums = self.totals.iter_mut().zip(&mut self.weights);
        for ((total, weight), (allocatable, used)) in sums.zip(allocatable.iter().zip(used)) {
            let exists = *allocatable > 0;
            let divisor = exact::to_f64((*allocatable).max(1));
            let requested = used.saturating_add(part.amount).min(*allocatable);
            let percent = exact::floor(100.0 * exact::to_f64(requested) / divisor);
            // Out of range only for numbers above the exact limit.
            let score = scores[exact::to_i64(percent).clamp(0, 100) as usize];
            let counts = if exists && score > 0 { part.weight } else { 0 };
            *total += exact::to_f64(counts * score);
            *weight += exact::to_f64(counts);
        }
    }

    #[inline(always)]
    fn averages(&self, raw: &mut [i64], round: impl Fn(f64) -> f64) {
        for (raw, (total, weight)) in raw.iter_mut().zip(self.totals.iter().zip(&self.weights)) {
            let divisor = if *weight > 0.0 { *weight } else { 1.0 };
            *raw = exact::to_i64(round(total / divisor));
        }
    }
}

/// Returns the part of a column that belongs to a chunk; zeros for an absent column.
fn chunk_of(column: Option<&[i64]>, chunk: usize) -> &[i64] {
    let first = chunk * CHUNK_SLOTS;
    column.map_or(&[0; CHUNK_SLOTS], |column| {
        &column[first.min(column.len())..column.len().min(first + CHUNK_SLOTS)]
    })
}
