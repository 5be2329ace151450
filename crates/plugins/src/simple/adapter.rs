//! The adapter from [`NodePlugin`] to the engine's plugins.

use std::sync::Arc;

use engine::framework::scorer::{EXCLUDED, proportional, proportional_reversed};
use engine::framework::{
    Action, BindContext, Class, Code, Effects, Event, Extremes, Filter, InitialState, NodeVerdict,
    Permit, Plugin, Point, PreFilterResult, Preparation, Rejection, Reservation, Resource, Scorer,
    Subscription,
};
use engine::index::NodeIdx;
use engine::object::AnnotationKeys;
use engine::state::State;

use super::{NodePlugin, NodeView, PodOnNode, Scale};

/// Adapts a plugin for the engine.
pub fn plugin<P: NodePlugin>(plugin: P) -> Box<dyn Plugin> {
    Box::new(NodePluginAdapter(Arc::new(plugin)))
}

/// Returns all events that can change a result for some node.
pub(super) fn default_events(plugin: &impl NodePlugin) -> Vec<Subscription> {
    let mut all = vec![
        Subscription { resource: Resource::Node, action: Action::ADD.with(Action::UPDATE) },
        Subscription { resource: Resource::UnschedulablePod, action: Action::UPDATE },
    ];
    if plugin.reads_pods() || plugin.initial_state().is_some() {
        all.push(Subscription { resource: Resource::AssignedPod, action: Action::ALL });
    }
    all
}

struct NodePluginAdapter<P>(Arc<P>);

impl<P: NodePlugin> NodePluginAdapter<P> {
    /// Returns the plugin for a class, and limits the validity of its results.
    fn for_class(&self, class: &Class, preparation: &mut Preparation) -> PluginForClass<P> {
        if let Some(state) = self.0.initial_state() {
            preparation.depends_on_state_like(&state);
        }
        if let Some(time) = self.0.valid_until(class, preparation.state.now()) {
            preparation.valid_until(time);
        }
        PluginForClass { plugin: Arc::clone(&self.0), class: class.clone(), until: None }
    }
}

impl<P: NodePlugin> Plugin for NodePluginAdapter<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn points(&self) -> &'static [Point] {
        P::POINTS
    }

    fn initial_state(&self) -> Option<InitialState> {
        self.0.initial_state()
    }

    fn annotations(&self) -> AnnotationKeys {
        self.0.annotations()
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        PreFilterResult::Filter(Box::new(self.for_class(class, preparation)))
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        Some(Box::new(self.for_class(class, preparation)))
    }

    fn reserve(&self, reservation: &mut Reservation) -> Result<(), Rejection> {
        self.0.reserve(&mut PodOnNode::reserved(reservation))
    }

    fn unreserve(&self, reservation: &mut Reservation) {
        self.0.unreserve(&mut PodOnNode::reserved(reservation));
    }

    fn permit(&self, context: &mut BindContext) -> Permit {
        self.0.permit(&mut PodOnNode::bound(context))
    }

    fn post_bind(&self, context: &mut BindContext) {
        self.0.post_bind(&mut PodOnNode::bound(context));
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        self.0.events()
    }

    fn hint_with_effects(
        &self,
        _state: &State,
        class: &Class,
        event: &Event,
        effects: &mut Effects,
    ) -> bool {
        self.0.hint(class, event, effects)
    }
}

impl<'a> PodOnNode<'a> {
    fn reserved(reservation: &'a mut Reservation) -> Self {
        let Reservation { state, pod, node, effects } = reservation;
        Self { state, pod: *pod, node: *node, effects }
    }

    fn bound(context: &'a mut BindContext) -> Self {
        let BindContext { state, pod, node, effects } = context;
        Self { state, pod: *pod, node: *node, effects }
    }
}

/// The plugin, with the class that it filters or scores for.
struct PluginForClass<P> {
    plugin: Arc<P>,
    class: Class,
    /// Earliest end of the rejections given so far.
    until: Option<i64>,
}

impl<P: NodePlugin> Filter for PluginForClass<P> {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        match self.plugin.filter(&self.class, &NodeView { state, node }) {
            Ok(()) => NodeVerdict::PASS,
            Err(rejection) => {
                let times = self.until.into_iter().chain(rejection.until);
                self.until = times.min();
                NodeVerdict(1)
            }
        }
    }

    /// Calls the plugin again: every node may have a text of its own, so caching them is not bounded.
    fn rejection(&self, state: &State, node: NodeIdx, _verdict: NodeVerdict) -> Rejection {
        let result = self.plugin.filter(&self.class, &NodeView { state, node });
        let mut rejection = result.err().unwrap_or_else(|| {
            Rejection::unschedulable("node(s) were rejected without a stable reason")
        });
        // A rejection of one node must not fail the attempt as a whole.
        if rejection.code != Code::UnschedulableAndUnresolvable {
            rejection.code = Code::Unschedulable;
        }
        rejection
    }

    fn rejection_varies(&self, _verdict: NodeVerdict) -> bool {
        true
    }

    fn reads_pods(&self) -> bool {
        self.plugin.reads_pods()
    }

    fn valid_until(&self) -> Option<i64> {
        self.until
    }
}

/// Largest absolute raw score; scaling larger ones could overflow.
const SCORE_LIMIT: i64 = i64::MAX / 100;

impl<P: NodePlugin> Scorer for PluginForClass<P> {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let score = self.plugin.score(&self.class, &NodeView { state, node });
        if score == EXCLUDED { score } else { score.clamp(-SCORE_LIMIT, SCORE_LIMIT) }
    }

    fn reads_pods(&self) -> bool {
        self.plugin.reads_pods()
    }

    fn normalises(&self) -> bool {
        self.plugin.scale() != Scale::AsIs
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        match self.plugin.scale() {
            Scale::AsIs => raw,
            Scale::MoreIsBetter => proportional(raw, extremes),
            Scale::LessIsBetter => proportional_reversed(raw, extremes),
            Scale::Own => self.plugin.normalise(raw, extremes),
        }
    }

    fn excluded_score(&self) -> i64 {
        self.plugin.excluded_score()
    }
}
