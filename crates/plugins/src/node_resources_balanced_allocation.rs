//! NodeResourcesBalancedAllocation: scores nodes higher on which the pod evens out the requested shares of
//! resources.

use api::config::args::NodeResourcesBalancedAllocationArgs;
use api::config::{Gates, PluginArgs};
use engine::framework::{Class, KeyPart, Plugin, Point, Preparation, Scorer};
use engine::index::{NodeIdx, ResourceIdx};
use engine::object::is_scalar_resource;
use engine::simd_dispatch;
use engine::state::State;

use crate::node_resources_fit::exact;

pub(crate) const NAME: &str = "NodeResourcesBalancedAllocation";
pub(crate) const POINTS: &[Point] = &[Point::PreScore, Point::Score];
pub(crate) const DOC: &str =
    "Scores nodes higher on which the pod evens out the requested shares of resources.";

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    if let Some(PluginArgs::NodeResourcesBalancedAllocation(args)) = args {
        return Box::new(BalancedAllocation::new(args));
    }
    match PluginArgs::default_of(NAME, Gates::default()) {
        Some(PluginArgs::NodeResourcesBalancedAllocation(args)) => {
            Box::new(BalancedAllocation::new(&args))
        }
        _ => unreachable!("the plugin has default arguments"),
    }
}

struct BalancedAllocation {
    resources: Vec<String>,
}

impl BalancedAllocation {
    fn new(args: &NodeResourcesBalancedAllocationArgs) -> Self {
        Self { resources: args.resources.iter().map(|resource| resource.name.clone()).collect() }
    }
}

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let requests = &class.spec.requests_on_node;
        // Otherwise all pods without requests would go to the node that is most even already.
        if self.resources.iter().all(|name| requests.amount(name) == 0) {
            return None;
        }
        let resources = self.resources.iter().filter_map(|name| {
            let amount = requests.amount(name);
            let counts = amount != 0 || !is_scalar_resource(name);
            // No node has a resource that no object ever named.
            let resource = preparation.state.resources.get(name).filter(|_| counts)?;
            Some(BalancedResource { resource, amount })
        });
        Some(Box::new(BalanceScorer { resources: resources.collect() }))
    }
}

/// A resource that is scored.
struct BalancedResource {
    resource: ResourceIdx,
    /// Request of the pod.
    amount: i64,
}

/// Scores by the change of a node's balance that the pod makes.
struct BalanceScorer {
    resources: Box<[BalancedResource]>,
}

impl BalanceScorer {
    /// Returns 100 minus the standard deviation of the requested shares in percent (50 to 100), with the pod
    /// or without it.
    fn evenness(&self, state: &State, node: NodeIdx, with_pod: bool) -> i64 {
        let mut first_two = [0.0; 2];
        let (mut total, mut count) = (0.0, 0);
        for fraction in self.fractions(state, node, with_pod) {
            total += fraction;
            if let Some(slot) = first_two.get_mut(count) {
                *slot = fraction;
            }
            count += 1;
        }
        let deviation = match count {
            0 | 1 => 0.0,
            2 => deviation_of_two(first_two[0], first_two[1]),
            _ => {
                let mean = total / count as f64;
                let fractions = self.fractions(state, node, with_pod);
                let squares = fractions.fold(0.0, |sum, f| sum + (f - mean) * (f - mean));
                (squares / count as f64).sqrt()
            }
        };
        ((1.0 - deviation) * 100.0) as i64
    }

    /// Returns the requested share of each resource that the node has, at most 1.
    fn fractions(&self, state: &State, node: NodeIdx, with_pod: bool) -> impl Iterator<Item = f64> {
        self.resources.iter().filter_map(move |resource| {
            let allocatable = state.nodes.allocatable_of(resource.resource, node);
            let used = state.nodes.requested_of(resource.resource, node);
            let used = if with_pod { used.saturating_add(resource.amount) } else { used };
            (allocatable != 0).then(|| capped(used as f64 / allocatable as f64))
        })
    }

    /// Returns the columns of the resources if there are two, which is the default.
    fn pair<'a>(&self, state: &'a State) -> Option<[ResourceColumns<'a>; 2]> {
        let [first, second] = &*self.resources else { return None };
        Some([ResourceColumns::of(first, state)?, ResourceColumns::of(second, state)?])
    }
}

impl Scorer for BalanceScorer {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let after = self.evenness(state, node, true);
        let before = self.evenness(state, node, false);
        50 + (50 + after - before) / 2
    }

    fn score_all(&mut self, state: &State, raw: &mut [i64]) {
        let pair = self.pair(state);
        if let Some([first, second]) = &pair
            && simd_dispatch!(_ => score_pair(first, second, raw))
        {
            return;
        }
        // Only slots with numbers above the limit (orphan slots included) are scored the slow way.
        let is_done = |node| {
            pair.as_ref().is_some_and(|pair| pair.iter().all(|column| column.is_exact_on(node)))
        };
        for node in (0..raw.len()).map(NodeIdx::from).filter(|node| !is_done(*node)) {
            raw[node.at()] = self.score(state, node);
        }
    }

    fn reads_pods(&self) -> bool {
        true
    }
}

/// Allocatable and requested amounts of one resource on all nodes, and the request of the pod.
struct ResourceColumns<'a> {
    allocatable: &'a [i64],
    used: &'a [i64],
    amount: i64,
}

impl<'a> ResourceColumns<'a> {
    fn of(resource: &BalancedResource, state: &'a State) -> Option<Self> {
        let allocatable = state.nodes.allocatable(resource.resource)?;
        let used = state.nodes.requested(resource.resource)?;
        Some(Self { allocatable, used, amount: resource.amount })
    }

    /// Returns `true` if the numbers of one node are below [`exact::EXACT_LIMIT`].
    fn is_exact_on(&self, node: NodeIdx) -> bool {
        exact::all_exact(self.amount | self.allocatable[node.at()] | self.used[node.at()])
    }

    /// Returns (allocatable, used) by slot.
    #[inline(always)]
    fn pairs(&self) -> impl Iterator<Item = (i64, i64)> {
        self.allocatable.iter().copied().zip(self.used.iter().copied())
    }
}

/// Does the same as [`BalanceScorer::score`] for two resources, in operations that compile to vector
/// instructions. Returns `false` if some numbers exceed [`exact::EXACT_LIMIT`]; the scores of their slots
/// are then undefined.
#[inline(always)]
fn score_pair(first: &ResourceColumns, second: &ResourceColumns, raw: &mut [i64]) -> bool {
    let mut bits = first.amount | second.amount;
    let (amount0, amount1) = (exact::to_f64(first.amount), exact::to_f64(second.amount));
    let pairs = first.pairs().zip(second.pairs());
    for (raw, ((allocatable0, used0), (allocatable1, used1))) in raw.iter_mut().zip(pairs) {
        bits |= allocatable0 | used0 | allocatable1 | used1;
        let (allocatable0, used0) = (exact::to_f64(allocatable0), exact::to_f64(used0));
        let (allocatable1, used1) = (exact::to_f64(allocatable1), exact::to_f64(used1));
        // One resource alone has no deviation.
        let lacks = allocatable0 == 0.0 || allocatable1 == 0.0;
        let divisor0 = if lacks { 1.0 } else { allocatable0 };
        let divisor1 = if lacks { 1.0 } else { allocatable1 };
        let evenness = |used0: f64, used1: f64| {
            let apart = deviation_of_two(capped(used0 / divisor0), capped(used1 / divisor1));
            exact::floor((1.0 - if lacks { 0.0 } else { apart }) * 100.0)
        };
        let after = evenness(used0 + amount0, used1 + amount1);
        let before = evenness(used0, used1);
        *raw = 50 + exact::to_i64(exact::floor((50.0 + after - before) * 0.5));
    }
    exact::all_exact(bits)
}

#[inline(always)]
fn capped(fraction: f64) -> f64 {
    if fraction > 1.0 { 1.0 } else { fraction }
}

/// Returns the standard deviation of two numbers.
#[inline(always)]
fn deviation_of_two(a: f64, b: f64) -> f64 {
    ((a - b) / 2.0).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    use api::config::args::ResourceSpec;
    use engine::object::{Node, Pod, PodSpec, Resources};
    use engine::testing::{class, node, pod, scores, state};
    use proptest::prelude::*;

    const GPU: &str = "example.com/gpu";

    fn balancing(resources: &[&str]) -> Box<dyn Plugin> {
        let resources = resources.iter();
        let resources =
            resources.map(|name| ResourceSpec { name: (*name).to_owned(), weight: 1 }).collect();
        let args = NodeResourcesBalancedAllocationArgs { resources };
        build(Some(&PluginArgs::NodeResourcesBalancedAllocation(args)))
    }

    fn amounts(cpu: i64, memory: i64, gpu: i64) -> Resources {
        let scalars = if gpu == 0 { Box::default() } else { [(GPU.into(), gpu)].into() };
        Resources { cpu, memory, ephemeral: 0, scalars }
    }

    fn spec(requests_on_node: Resources) -> PodSpec {
        PodSpec { requests_on_node, ..PodSpec::default() }
    }

    fn score(plugin: &dyn Plugin, has: Resources, used: Resources, asks: Resources) -> String {
        let node = Node { allocatable: has, ..node("a") };
        let existing = Pod { node: "a".into(), spec: spec(used).into(), ..pod("p") };
        let found = scores(plugin, &class(spec(asks)), &mut state([node], [existing]));
        found.map_or("skipped".to_owned(), |scores| scores.concat())
    }

    #[test]
    fn scores_are_those_of_upstream() {
        const GI: i64 = 1 << 30;
        let none = amounts(0, 0, 0);
        let has = amounts(4000, 8 * GI, 0);
        let usual = build(None);
        for (used, asks, expected) in [
            (&none, amounts(1000, 4 * GI, 0), "a: 68"),
            (&none, amounts(1000, 2 * GI, 0), "a: 75"),
            (&amounts(2000, 0, 0), amounts(0, 4 * GI, 0), "a: 87"),
            (&none, amounts(4000, 0, 0), "a: 50"),
            // Shares are capped at 1.
            (&none, amounts(9000, 16 * GI, 0), "a: 75"),
            (&none, none.clone(), "skipped"),
            (&none, amounts(0, 0, 3), "skipped"),
        ] {
            assert_eq!(score(&*usual, has.clone(), used.clone(), asks), expected);
        }
        // One resource alone has no deviation.
        let no_memory = amounts(4000, 0, 0);
        assert_eq!(score(&*usual, no_memory, none.clone(), amounts(4000, 1, 0)), "a: 75");
    }

    #[test]
    fn more_than_two_resources_deviate_from_their_mean() {
        let plugin = balancing(&["cpu", "memory", GPU]);
        let (has, none) = (amounts(100, 100, 10), amounts(0, 0, 0));
        // Deviation of 1, 0, 0 is 0.47…, so 52 after and 100 before.
        assert_eq!(score(&*plugin, has.clone(), none.clone(), amounts(0, 0, 10)), "a: 51");
        // Scalars that are not requested do not count: 0.5 and 0.5 are even.
        let used = amounts(0, 0, 10);
        assert_eq!(score(&*plugin, has, used, amounts(50, 50, 0)), "a: 75");
    }

    proptest! {
        #[test]
        fn columns_agree_with_the_formulas(
            nodes in prop::collection::vec(prop::array::uniform4(amount()), 1..20),
            asks in (amount(), amount()),
        ) {
            prop_assume!(asks != (0, 0));
            let existing = nodes.iter().enumerate().map(|(i, [_, _, cpu, memory])| Pod {
                node: i.to_string().into(),
                spec: spec(amounts(*cpu, *memory, 0)).into(),
                ..pod(&format!("p{i}"))
            });
            let objects = nodes.iter().enumerate().map(|(i, [cpu, memory, _, _])| Node {
                allocatable: amounts(*cpu, *memory, 0),
                ..node(&i.to_string())
            });
            let mut state = state(objects, existing);
            let class = class(spec(amounts(asks.0, asks.1, 0)));
            let found = scores(&*build(None), &class, &mut state);
            let expected = nodes.iter().enumerate().map(|(i, [cpu, memory, used_cpu, used_memory])| {
                let even = |used_cpu: i64, used_memory: i64| {
                    if *cpu == 0 || *memory == 0 {
                        return 100;
                    }
                    let fraction = |used: i64, has: i64| (used as f64 / has as f64).min(1.0);
                    let apart = fraction(used_cpu, *cpu) - fraction(used_memory, *memory);
                    ((1.0 - (apart / 2.0).abs()) * 100.0) as i64
                };
                let after =
                    even(used_cpu.saturating_add(asks.0), used_memory.saturating_add(asks.1));
                let before = even(*used_cpu, *used_memory);
                format!("{i}: {}", 50 + (50 + after - before) / 2)
            });
            prop_assert_eq!(found, Some(expected.collect::<Vec<_>>()));
        }
    }

    /// Generates amounts of every magnitude, and the boundary values.
    fn amount() -> impl proptest::strategy::Strategy<Value = i64> {
        prop_oneof![
            4 => 0i64..10_000,
            2 => 0i64..1 << 46,
            1 => prop::sample::select(vec![0, 1, (1 << 46) - 1, 1 << 46, 1 << 53, i64::MAX / 2, i64::MAX]),
        ]
    }
}
