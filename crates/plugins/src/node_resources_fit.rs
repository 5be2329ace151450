//! NodeResourcesFit: rejects nodes without enough free resources, and scores the others by their free or
//! requested resources.

pub(crate) mod exact;
mod filter;
mod score;
#[cfg(test)]
mod tests;

use api::config::args::{NodeResourcesFitArgs, ScoringStrategy, ScoringStrategyType};
use api::config::{Gates, PluginArgs};
use engine::framework::event::Object;
use engine::framework::{
    Action, Class, Event, KeyPart, Plugin, PodView, Point, PreFilterResult, Preparation, Reason,
    Resource, Scorer, Subscription,
};
use engine::index::ResourceIdx;
use engine::object::{Node, PodSpec, Resources, is_extended_resource, is_scalar_resource};
use engine::state::{Areas, State};

use filter::{FitFilter, ResourceDemand};
use score::{FitStrategy, ResourceScorer, ScoredResource, UsedColumn};

pub(crate) const NAME: &str = "NodeResourcesFit";
pub(crate) const POINTS: &[Point] =
    &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];
pub(crate) const DOC: &str = "Rejects nodes without enough free resources, and scores the others by free or requested resources.";

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    if let Some(PluginArgs::NodeResourcesFit(args)) = args {
        return Box::new(NodeResourcesFit::new(args));
    }
    match PluginArgs::default_of(NAME, Gates::default()) {
        Some(PluginArgs::NodeResourcesFit(args)) => Box::new(NodeResourcesFit::new(&args)),
        _ => unreachable!("the plugin has default arguments"),
    }
}

/// Returns `true` if a device class may offer the resource instead of the node.
pub(crate) fn may_be_devices(resource: &str) -> bool {
    is_extended_resource(resource) || resource.starts_with("deviceclass.resource.kubernetes.io/")
}

struct NodeResourcesFit {
    ignored: Vec<String>,
    ignored_groups: Vec<String>,
    strategy: FitStrategy,
    /// Resources that are scored, with their weights.
    scored: Vec<(String, i64)>,
}

impl NodeResourcesFit {
    fn new(args: &NodeResourcesFitArgs) -> Self {
        let scored = args.scoring_strategy.resources.iter();
        Self {
            ignored: args.ignored_resources.clone(),
            ignored_groups: args.ignored_resource_groups.clone(),
            strategy: strategy(&args.scoring_strategy),
            scored: scored.map(|resource| (resource.name.clone(), resource.weight)).collect(),
        }
    }

    fn ignores(&self, resource: &str) -> bool {
        let group = resource.split('/').next().unwrap_or_default();
        is_extended_resource(resource)
            && (self.ignored.iter().any(|ignored| ignored == resource)
                || self.ignored_groups.iter().any(|ignored| ignored == group))
    }

    /// Returns the requests that the filter checks, in upstream's order, scalars by name.
    fn demands<'a>(&self, requests: &'a Resources) -> impl Iterator<Item = (&'a str, i64)> {
        let basic = [
            ("cpu", requests.cpu),
            ("memory", requests.memory),
            ("ephemeral-storage", requests.ephemeral),
        ];
        let scalars = requests.scalars.iter().map(|(name, amount)| (&**name, *amount));
        let scalars = scalars.filter(|(name, _)| !self.ignores(name));
        basic.into_iter().chain(scalars).filter(|(_, amount)| *amount > 0)
    }

    /// Returns `true` if the pod would fit on the node without other pods.
    ///
    /// Upstream does not exclude ignored resources here, so that a pod which would fit goes on waiting.
    fn fits_empty(&self, state: &State, spec: &PodSpec, node: &Node) -> bool {
        node.allowed_pods > 0
            && self.demands(&spec.requests).all(|(name, amount)| {
                amount <= node.allocatable.amount(name) || is_delegated(state, name, node)
            })
    }

    /// Returns `true` if a node has more than before of a resource that the pod requests.
    fn has_more(&self, state: &State, spec: &PodSpec, old: &Node, new: &Node) -> bool {
        new.allowed_pods > old.allowed_pods
            || self.demands(&spec.requests).any(|(name, _)| {
                new.allocatable.amount(name) > old.allocatable.amount(name)
                    || is_delegated(state, name, new)
            })
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("error reading \"PreFilterNodeResourcesFit\" from cycleState: not found")
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        let demands = self.demands(&class.spec.requests).map(|(name, amount)| {
            let may_be_devices = may_be_devices(name);
            if may_be_devices {
                preparation.depends_on(Areas::DEVICES);
            }
            ResourceDemand {
                resource: preparation.state.resources.intern(name),
                amount,
                delegated: may_be_devices && preparation.state.device_class_offers(name),
                reason: insufficient(name),
            }
        });
        let fits = FitFilter::new(demands.collect());
        PreFilterResult::Filter(Box::new(fits))
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        let requests = &class.spec.requests_for_score;
        let state = &preparation.state;
        let resources = self.scored.iter().filter_map(|(name, weight)| {
            let amount = requests.amount(name);
            if amount == 0 && is_scalar_resource(name) {
                return None;
            }
            // No node has a resource that no object ever named.
            let resource = state.resources.get(name)?;
            let used = match resource {
                ResourceIdx::CPU => UsedColumn::NonZeroCpu,
                ResourceIdx::MEMORY => UsedColumn::NonZeroMemory,
                _ => UsedColumn::Requested,
            };
            Some(ScoredResource { resource, used, amount, weight: *weight })
        });
        let strategy = self.strategy.clone();
        Some(Box::new(ResourceScorer { strategy, resources: resources.collect() }))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription {
                resource: Resource::Pod,
                action: Action::DELETE.with(Action::UPDATE_POD_SCALE_DOWN),
            },
            Subscription {
                resource: Resource::Node,
                action: Action::ADD.with(Action::UPDATE_NODE_ALLOCATABLE),
            },
            Subscription {
                resource: Resource::DeviceClass,
                action: Action::ADD.with(Action::UPDATE),
            },
        ]
    }

    fn hint(&self, state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::Pod { old: Some(old), new: None } => old.assigned || old.nominated,
            Object::Pod { old: Some(old), new: Some(new) } => {
                event.own || new.assigned && frees_requested(&class.spec, old, new)
            }
            Object::Node { old, new: Some(new) } => {
                self.fits_empty(state, &class.spec, new)
                    && old.is_none_or(|old| self.has_more(state, &class.spec, old, new))
            }
            // The event does not contain the resource that the class offers.
            _ if event.resource == Resource::DeviceClass => {
                class.spec.requests.scalars.iter().any(|(name, _)| may_be_devices(name))
            }
            _ => true,
        }
    }
}

fn strategy(args: &ScoringStrategy) -> FitStrategy {
    match args.strategy {
        ScoringStrategyType::LeastAllocated => FitStrategy::Least,
        ScoringStrategyType::MostAllocated => FitStrategy::Most,
        ScoringStrategyType::RequestedToCapacityRatio => {
            let points = args.requested_to_capacity_ratio.iter().flat_map(|ratio| &ratio.shape);
            // Scores in configurations range from 0 to 10.
            let points = points.map(|p| (i64::from(p.utilization), i64::from(p.score) * 10));
            FitStrategy::shape(&points.collect::<Vec<_>>())
        }
    }
}

fn insufficient(resource: &str) -> Reason {
    match resource {
        "cpu" => Reason::Borrowed("Insufficient cpu"),
        "memory" => Reason::Borrowed("Insufficient memory"),
        _ => Reason::Owned(format!("Insufficient {resource}")),
    }
}

fn is_delegated(state: &State, resource: &str, node: &Node) -> bool {
    may_be_devices(resource)
        && node.allocatable.amount(resource) <= 0
        && state.device_class_offers(resource)
}

/// Returns `true` if a pod on a node now requests less of a resource that the waiting pod requests.
fn frees_requested(spec: &PodSpec, old: PodView, new: PodView) -> bool {
    let (old, new) = (&old.spec.requests_on_node, &new.spec.requests_on_node);
    let waiting = &spec.requests_on_node;
    let shrank = |name: &str| waiting.amount(name) != 0 && old.amount(name) > new.amount(name);
    ["cpu", "memory", "ephemeral-storage"].into_iter().any(shrank)
        || waiting.scalars.iter().any(|(name, _)| shrank(name))
}
