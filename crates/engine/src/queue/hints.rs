//! Queueing hints: the plugins that an event concerns, and the consequence of their answers.

use crate::framework::event::Object;
use crate::framework::{Action, Event, Point, Profile, Resource, Subscription};
use crate::index::ClassIdx;
use crate::map::Map;

use super::QueueContext;
use super::plugin_set::{PLUGINS_MAX, PluginSet};

/// Subscriptions of every plugin of every profile.
#[derive(Clone, Debug, Default)]
pub struct Subscriptions {
    /// Subscriptions by profile and plugin.
    pub profiles: Vec<Vec<Vec<Subscription>>>,
}

impl Subscriptions {
    /// Collects the subscriptions of all plugins that can reject a pod before it is bound.
    pub fn of(profiles: &[Profile]) -> Self {
        let of_profile = |profile: &Profile| {
            let plugins = profile.plugins.iter();
            plugins
                .map(|plugin| {
                    let rejects = plugin.points().iter().any(|point| REJECTING.contains(point));
                    if rejects { plugin.subscriptions() } else { Vec::new() }
                })
                .collect()
        };
        Self { profiles: profiles.iter().map(of_profile).collect() }
    }
}

const REJECTING: [Point; 5] =
    [Point::PreEnqueue, Point::PreFilter, Point::Filter, Point::Reserve, Point::Permit];

/// Plugins of one profile that an event concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// Plugins whose queueing hint runs.
    pub(super) asked: PluginSet,
    /// Plugins for which the event always helps.
    pub(super) always: PluginSet,
}

impl Interest {
    pub(super) fn all(self) -> PluginSet {
        self.asked.with(self.always)
    }
}

/// Consequence of an event for a pod; the greatest one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strategy {
    /// The event cannot help.
    Skip,
    /// The event may help; the pod becomes active after its backoff.
    AfterBackoff,
    /// A plugin with status `Pending` accepted the event; the pod becomes active at once.
    Immediately,
}

/// The properties of waiting pods that queueing hints can distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WaitingSubject {
    pub(super) profile: usize,
    pub(super) class: ClassIdx,
    pub(super) rejectors: PluginSet,
    pub(super) pending: PluginSet,
}

/// Interests by kind of event, cached since kinds are few.
#[derive(Clone, Debug)]
pub(super) struct Interests {
    subscriptions: Subscriptions,
    by_kind: Map<(Resource, Action), Option<Box<[Interest]>>>,
}

impl Interests {
    pub(super) fn new(subscriptions: Subscriptions) -> Self {
        let most = subscriptions.profiles.iter().map(Vec::len).max().unwrap_or(0);
        assert!(most <= PLUGINS_MAX, "a profile has {most} plugins, more than {PLUGINS_MAX}");
        Self { subscriptions, by_kind: Map::default() }
    }

    /// Returns the interests by profile; `None` if no plugin is interested.
    pub(super) fn of(&mut self, resource: Resource, action: Action) -> Option<&[Interest]> {
        let Self { subscriptions, by_kind } = self;
        let interests = by_kind.get_or_insert_with((resource, action), || {
            let event = Event { resource, action, object: Object::None, own: false };
            let of_profile = |plugins: &Vec<Vec<Subscription>>| interest(plugins, &event);
            let interests: Box<[_]> = subscriptions.profiles.iter().map(of_profile).collect();
            interests.iter().any(|interest| !interest.all().is_empty()).then_some(interests)
        });
        interests.as_deref()
    }
}

fn interest(plugins: &[Vec<Subscription>], event: &Event) -> Interest {
    let mut interest = Interest::default();
    for (plugin, subscriptions) in plugins.iter().enumerate() {
        if subscriptions.iter().any(|subscription| subscription.covers(event)) {
            interest.asked.insert(plugin);
        } else if TAINT_UPDATE.covers(event) && retries_on_taint_updates(subscriptions) {
            interest.always.insert(plugin);
        }
    }
    interest
}

const TAINT_UPDATE: Subscription =
    Subscription { resource: Resource::Node, action: Action::UPDATE_NODE_TAINT };

/// As upstream: a plugin that subscribes to new nodes but not to taints is retried on every taint
/// update, because hints of a new node may have been skipped while it had its start-up taints.
fn retries_on_taint_updates(subscriptions: &[Subscription]) -> bool {
    let on_nodes = |action: Action| {
        let mut nodes = subscriptions.iter().filter(|s| s.resource == Resource::Node);
        nodes.any(|subscription| subscription.action.meets(action))
    };
    on_nodes(Action::ADD) && !on_nodes(Action::UPDATE_NODE_TAINT)
}

/// Runs the queueing hints of the plugins that rejected a pod, as few as needed (upstream's
/// `isPodWorthRequeuing`). `interests` is indexed by profile.
pub(super) fn strategy(
    context: &dyn QueueContext,
    interests: &[Interest],
    subject: &WaitingSubject,
    event: &Event,
) -> Strategy {
    if subject.rejectors.with(subject.pending).is_empty() {
        return Strategy::AfterBackoff;
    }
    let interest = interests[subject.profile];
    let helps = |blockers: PluginSet| {
        blockers.meets(interest.always)
            || blockers
                .and(interest.asked)
                .iter()
                .any(|plugin| context.hint(subject.profile, plugin, subject.class, event))
    };
    if helps(subject.pending) {
        Strategy::Immediately
    } else if helps(subject.rejectors.without(subject.pending)) {
        Strategy::AfterBackoff
    } else {
        Strategy::Skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(resource: Resource, action: Action) -> Subscription {
        Subscription { resource, action }
    }

    fn interests(plugins: Vec<Vec<Subscription>>) -> Interests {
        Interests::new(Subscriptions { profiles: vec![plugins] })
    }

    #[track_caller]
    fn check(
        plugins: Vec<Vec<Subscription>>,
        event: (Resource, Action),
        want: (&[usize], &[usize]),
    ) {
        let mut interests = interests(plugins);
        let found = interests.of(event.0, event.1).map_or(Interest::default(), |found| found[0]);
        let asked: Vec<_> = found.asked.iter().collect();
        let always: Vec<_> = found.always.iter().collect();
        assert_eq!((&*asked, &*always), want);
    }

    #[test]
    fn plugins_are_asked_about_what_they_subscribed_to() {
        let plugins = || {
            vec![
                vec![subscription(Resource::Pod, Action::DELETE)],
                vec![subscription(Resource::Pod, Action::UPDATE)],
                vec![subscription(Resource::Wildcard, Action::ALL)],
                vec![],
            ]
        };
        check(plugins(), (Resource::AssignedPod, Action::DELETE), (&[0, 2], &[]));
        check(plugins(), (Resource::UnschedulablePod, Action::UPDATE_POD_LABEL), (&[1, 2], &[]));
        check(plugins(), (Resource::AssignedPod, Action::UPDATE), (&[1, 2], &[]));
        check(plugins(), (Resource::StorageClass, Action::ADD), (&[2], &[]));
    }

    #[test]
    fn a_wider_event_is_not_covered_by_a_narrow_subscription() {
        let plugins = vec![vec![subscription(Resource::Pod, Action::UPDATE_POD_LABEL)]];
        check(plugins, (Resource::AssignedPod, Action::UPDATE), (&[], &[]));
    }

    #[test]
    fn subscribers_to_new_nodes_retry_on_taint_updates() {
        let plugins = || {
            vec![
                vec![subscription(Resource::Node, Action::ADD)],
                vec![subscription(Resource::Node, Action::ADD.with(Action::UPDATE_NODE_TAINT))],
                vec![
                    subscription(Resource::Node, Action::ADD),
                    subscription(Resource::Node, Action::UPDATE_NODE_TAINT),
                ],
                vec![subscription(Resource::Node, Action::UPDATE_NODE_LABEL)],
                vec![subscription(Resource::Pod, Action::ADD)],
            ]
        };
        check(plugins(), (Resource::Node, Action::UPDATE_NODE_TAINT), (&[1, 2], &[0]));
        check(plugins(), (Resource::Node, Action::ADD), (&[0, 1, 2], &[]));
        check(plugins(), (Resource::Node, Action::UPDATE_NODE_LABEL), (&[3], &[]));
    }

    #[test]
    fn an_event_of_no_concern_is_told_apart() {
        let mut interests = interests(vec![vec![subscription(Resource::Node, Action::ADD)]]);
        assert!(interests.of(Resource::CsiNode, Action::ADD).is_none());
        assert!(interests.of(Resource::Node, Action::ADD).is_some());
        assert!(interests.of(Resource::CsiNode, Action::ADD).is_none(), "also the second time");
    }
}
