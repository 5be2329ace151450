//! How much a class likes a node for what would be left, or used, of its resources.

use engine::framework::Scorer;
use engine::framework::scorer::SCORE_MAX;
use engine::index::{NodeIdx, ResourceIdx};
use engine::simd_dispatch;
use engine::state::State;

use super::exact;

/// How the use of one resource becomes a score.
#[derive(Clone)]
pub(super) enum FitStrategy {
    /// The more is left, the better.
    Least,
    /// The more is used, the better.
    Most,
    /// The score of every whole percentage of use.
    Shape(Box<[i64; 101]>),
}

impl FitStrategy {
    /// The broken line through points of (utilisation, score), as scores of 0 to 100.
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

/// Which column tells what is used of a resource.
#[derive(Clone, Copy)]
pub(super) enum UsedColumn {
    NonZeroCpu,
    NonZeroMemory,
    Requested,
}

/// A resource that counts.
#[derive(Clone)]
pub(super) struct ScoredResource {
    pub(super) resource: ResourceIdx,
    pub(super) used: UsedColumn,
    /// What the pod adds.
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

    /// Whether the numbers of one node are below [`exact::EXACT_LIMIT`].
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
            // A node with more than the largest number on it must not pass for an empty one.
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
        // A huge number on one node, or on one that does not exist, costs only that one the fast way.
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

/// Upstream's integer formulas, which wrap around where Go's do.
fn resource_score(strategy: &FitStrategy, requested: i64, allocatable: i64) -> i64 {
    let percent = |amount: i64| amount.wrapping_mul(SCORE_MAX).wrapping_div(allocatable);
    match strategy {
        FitStrategy::Least if requested > allocatable => 0,
        FitStrategy::Least => percent(allocatable.wrapping_sub(requested)),
        FitStrategy::Most => percent(requested.min(allocatable)),
        FitStrategy::Shape(scores) if requested > allocatable => scores[100],
        // Only numbers that wrapped around are out of range; the line goes on level there.
        FitStrategy::Shape(scores) => scores[percent(requested).clamp(0, 100) as usize],
    }
}

/// The same as [`ResourceScorer::score`] for all slots whose numbers are below [`exact::EXACT_LIMIT`]. False when
/// there are others: their scores are worth nothing. (Weights are at most 100, and so is the number of
/// resources in a list.)
pub(super) fn score_columns(
    strategy: &FitStrategy,
    resources: &[ScoredResource],
    state: &State,
    raw: &mut [i64],
) -> bool {
    match (strategy, resources) {
        (FitStrategy::Least, [first, second]) if first.weight == second.weight => {
            simd_dispatch!(_ => score_pair(first, second, state, raw, left))
        }
        (FitStrategy::Most, [first, second]) if first.weight == second.weight => {
            simd_dispatch!(_ => score_pair(first, second, state, raw, taken))
        }
        _ => simd_dispatch!(_ => score_chunks(strategy, resources, state, raw)),
    }
}

/// What is left of a resource.
#[inline(always)]
fn left(requested: f64, allocatable: f64) -> f64 {
    let left = allocatable - requested;
    if left > 0.0 { left } else { 0.0 }
}

/// What is taken of a resource.
#[inline(always)]
fn taken(requested: f64, allocatable: f64) -> f64 {
    if requested < allocatable { requested } else { allocatable }
}

/// What a node gets for a resource of which `share` counts when a pod adds to it, and whether it has any.
#[inline(always)]
fn percentage(
    added: f64,
    allocatable: i64,
    used: i64,
    share: impl Fn(f64, f64) -> f64,
) -> (f64, bool) {
    let (allocatable, used) = (exact::to_f64(allocatable), exact::to_f64(used));
    // Nodes without the resource: the share is zero.
    let exists = allocatable > 0.0;
    let divisor = if exists { allocatable } else { 1.0 };
    (exact::floor(100.0 * share(used + added, allocatable) / divisor), exists)
}

/// Two resources of equal weight, as usual, in one go: their average is half their sum, or what
/// there is of it if a node lacks one.
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

/// Slots that are worked on at a time, so that sums stay in the nearest cache.
const CHUNK_SLOTS: usize = 256;

/// ChunkSums of one chunk.
struct ChunkSums {
    totals: [f64; CHUNK_SLOTS],
    weights: [f64; CHUNK_SLOTS],
}

/// Any number of resources.
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
                FitStrategy::Least => sums.add(part, allocatable, used, left),
                FitStrategy::Most => sums.add(part, allocatable, used, taken),
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
    /// Adds a resource, of which `share` is the part that counts.
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
            // Out of range only where the numbers are too large.
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

/// The part of a column that belongs to a chunk; a column that nobody uses is all zeros.
fn chunk_of(column: Option<&[i64]>, chunk: usize) -> &[i64] {
    let first = chunk * CHUNK_SLOTS;
    column.map_or(&[0; CHUNK_SLOTS], |column| {
        &column[first.min(column.len())..column.len().min(first + CHUNK_SLOTS)]
    })
}
