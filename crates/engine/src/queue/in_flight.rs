//! Pods in an attempt, and the events since they were popped.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::framework::event::Object;
use crate::framework::{Action, Event, PodView, Resource};
use crate::index::PodIdx;
use crate::kinds::with_kinds;
use crate::limits::IN_FLIGHT_EVENTS_MAX;
use crate::map::Map;
use crate::object::{Labels, Node, PodSpec, Text, Uid};

use super::counters::EventLabel;

/// Owned copy of a [`PodView`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields of PodView")]
pub struct OwnedPod {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub labels: Labels,
    pub spec: Arc<PodSpec>,
    pub assigned: bool,
    pub nominated: bool,
    pub gated: bool,
}

impl OwnedPod {
    /// Copies a pod.
    pub fn of(pod: &PodView) -> Self {
        Self {
            namespace: pod.namespace.into(),
            name: pod.name.into(),
            uid: pod.uid.clone(),
            labels: pod.labels.clone(),
            spec: Arc::new(pod.spec.clone()),
            assigned: pod.assigned,
            nominated: pod.nominated,
            gated: pod.gated,
        }
    }

    /// Returns the view that hints read.
    pub fn view(&self) -> PodView<'_> {
        PodView {
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            labels: &self.labels,
            spec: &self.spec,
            assigned: self.assigned,
            nominated: self.nominated,
            gated: self.gated,
        }
    }
}

macro_rules! define {
    ($($kind:ident($object:ty) $label:literal
        in $($table:ident).+, $areas:ident, [$($event:ident)*];)*) => {
        /// Owned copy of an [`Object`].
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "the variants of Object")]
        pub enum OwnedObject {
            None,
            Node(Option<Arc<Node>>, Option<Arc<Node>>),
            Pod(Option<OwnedPod>, Option<OwnedPod>),
            $($kind(Option<Arc<$object>>, Option<Arc<$object>>),)*
        }

        impl OwnedObject {
            /// Copies an object.
            pub fn of(object: &Object) -> Self {
                match *object {
                    Object::None => Self::None,
                    Object::Node { old, new } => Self::Node(to_shared(old), to_shared(new)),
                    Object::Pod { old, new } => {
                        Self::Pod(old.as_ref().map(OwnedPod::of), new.as_ref().map(OwnedPod::of))
                    }
                    $(Object::$kind { old, new } => Self::$kind(to_shared(old), to_shared(new)),)*
                }
            }

            /// Returns the view that hints read.
            pub fn view(&self) -> Object<'_> {
                match self {
                    Self::None => Object::None,
                    Self::Node(old, new) => {
                        Object::Node { old: old.as_deref(), new: new.as_deref() }
                    }
                    Self::Pod(old, new) => Object::Pod {
                        old: old.as_ref().map(OwnedPod::view),
                        new: new.as_ref().map(OwnedPod::view),
                    },
                    $(Self::$kind(old, new) => {
                        Object::$kind { old: old.as_deref(), new: new.as_deref() }
                    })*
                }
            }
        }
    };
}

with_kinds!(define);

fn to_shared<T: Clone>(object: Option<&T>) -> Option<Arc<T>> {
    object.map(|object| Arc::new(object.clone()))
}

/// An event kept for pods in flight.
#[derive(Clone, Debug)]
pub(super) struct RecordedEvent {
    pub(super) label: EventLabel,
    pub(super) resource: Resource,
    pub(super) action: Action,
    /// The waiting pod that the event is about; a wildcard event then concerns only this pod.
    pub(super) about: Option<PodIdx>,
    pub(super) object: OwnedObject,
}

impl RecordedEvent {
    pub(super) fn wildcard(label: EventLabel, about: Option<PodIdx>) -> Self {
        let (resource, action) = (Resource::Wildcard, Action::ALL);
        Self { label, resource, action, about, object: OwnedObject::None }
    }

    pub(super) fn is_wildcard(&self) -> bool {
        is_wildcard(self.resource, self.action)
    }

    /// Returns the event as the hints of a pod see it.
    pub(super) fn view_for(&self, pod: PodIdx) -> Event<'_> {
        Event {
            resource: self.resource,
            action: self.action,
            object: self.object.view(),
            own: self.about == Some(pod),
        }
    }
}

/// Returns `true` if the event stands for any change.
pub(super) fn is_wildcard(resource: Resource, action: Action) -> bool {
    resource == Resource::Wildcard && action == Action::ALL
}

/// Pods in an attempt, and the events since the first of them was popped.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// Position in the stream of events at which each pod was popped.
    markers: Map<PodIdx, u64>,
    /// The same in order; finished pods are removed when they reach the front.
    order: VecDeque<(PodIdx, u64)>,
    events: VecDeque<RecordedEvent>,
    /// Position of the first retained event.
    base: u64,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.markers.len()
    }

    pub(super) fn contains(&self, pod: PodIdx) -> bool {
        self.markers.contains_key(&pod)
    }

    pub(super) fn begin(&mut self, pod: PodIdx) {
        let position = self.end();
        let before = self.markers.insert(pod, position);
        debug_assert!(before.is_none(), "a pod is in flight once");
        self.order.push_back((pod, position));
    }

    /// Ends the attempt of a pod and drops the events that no other pod needs.
    pub(super) fn finish(&mut self, pod: PodIdx) {
        self.markers.remove(&pod);
        while let Some((pod, position)) = self.order.front() {
            if self.markers.get(pod) == Some(position) {
                break;
            }
            self.order.pop_front();
        }
        let needed = self.order.front().map_or(self.end(), |(_, position)| *position);
        let done = needed.saturating_sub(self.base) as usize;
        self.events.drain(..done);
        self.base += done as u64;
    }

    /// Records an event if a pod is in flight.
    pub(super) fn record(&mut self, event: impl FnOnce() -> RecordedEvent) {
        if self.markers.is_empty() {
            return;
        }
        if self.events.len() == IN_FLIGHT_EVENTS_MAX {
            self.events.pop_front();
            self.base += 1;
        }
        self.events.push_back(event());
    }

    /// Returns the events since a pod was popped, and `true` if none was dropped; `None` if the pod
    /// is not in flight.
    pub(super) fn since_popped(
        &self,
        pod: PodIdx,
    ) -> Option<(bool, impl Iterator<Item = &RecordedEvent>)> {
        let position = *self.markers.get(&pod)?;
        let complete = position >= self.base;
        let skip = position.saturating_sub(self.base) as usize;
        Some((complete, self.events.range(skip..)))
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &RecordedEvent> {
        self.events.iter()
    }

    /// Returns `true` if only needed events are kept and the markers are ordered.
    pub(super) fn is_sound(&self) -> bool {
        let ordered = self.order.iter().zip(self.order.iter().skip(1));
        let needed = self.order.front().map_or(self.end(), |(_, position)| *position);
        self.events.len() <= IN_FLIGHT_EVENTS_MAX
            && self.base >= needed.min(self.end())
            && (self.len() > 0 || self.events.is_empty() && self.order.is_empty())
            && ordered.into_iter().all(|((_, earlier), (_, later))| earlier <= later)
    }

    fn end(&self) -> u64 {
        self.base + self.events.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: u32) -> RecordedEvent {
        RecordedEvent {
            label: EventLabel::of(Resource::Node, Action(action)),
            resource: Resource::Node,
            action: Action(action),
            about: None,
            object: OwnedObject::None,
        }
    }

    fn seen(in_flight: &InFlight, pod: u32) -> Option<(bool, Vec<u32>)> {
        assert!(in_flight.is_sound());
        let (complete, events) = in_flight.since_popped(PodIdx(pod))?;
        Some((complete, events.map(|event| event.action.0).collect()))
    }

    #[test]
    fn each_pod_sees_what_happened_since_it_was_popped() {
        let mut in_flight = InFlight::default();
        in_flight.record(|| event(1));
        in_flight.begin(PodIdx(1));
        in_flight.record(|| event(2));
        in_flight.begin(PodIdx(2));
        in_flight.record(|| event(4));
        assert_eq!(seen(&in_flight, 1), Some((true, vec![2, 4])));
        assert_eq!(seen(&in_flight, 2), Some((true, vec![4])));
        assert_eq!(seen(&in_flight, 3), None);
        in_flight.finish(PodIdx(1));
        assert_eq!(in_flight.events().count(), 1, "no pod in flight needs the first event");
        assert_eq!(seen(&in_flight, 2), Some((true, vec![4])));
        in_flight.finish(PodIdx(2));
        in_flight.finish(PodIdx(2));
        assert_eq!(in_flight.events().count(), 0);
        in_flight.begin(PodIdx(1));
        assert_eq!(seen(&in_flight, 1), Some((true, vec![])));
    }

    #[test]
    fn a_pod_that_ends_out_of_order_leaves_the_events_of_older_ones() {
        let mut in_flight = InFlight::default();
        in_flight.begin(PodIdx(1));
        in_flight.record(|| event(1));
        in_flight.begin(PodIdx(2));
        in_flight.finish(PodIdx(2));
        in_flight.begin(PodIdx(2));
        in_flight.record(|| event(2));
        assert_eq!(seen(&in_flight, 1), Some((true, vec![1, 2])));
        in_flight.finish(PodIdx(1));
        assert_eq!(seen(&in_flight, 2), Some((true, vec![2])));
    }

    #[test]
    fn a_pod_that_missed_events_knows_it() {
        let mut in_flight = InFlight::default();
        in_flight.begin(PodIdx(1));
        for _ in 0..=IN_FLIGHT_EVENTS_MAX {
            in_flight.record(|| event(1));
        }
        in_flight.begin(PodIdx(2));
        in_flight.record(|| event(2));
        assert_eq!(
            seen(&in_flight, 1).map(|(complete, events)| (complete, events.len())),
            Some((false, IN_FLIGHT_EVENTS_MAX))
        );
        assert_eq!(seen(&in_flight, 2), Some((true, vec![2])));
        in_flight.finish(PodIdx(1));
        assert_eq!(seen(&in_flight, 2), Some((true, vec![2])));
    }

    #[test]
    fn a_kept_event_is_the_event() {
        let node = crate::testing::node("a");
        let object = Object::Node { old: None, new: Some(&node) };
        let kept = OwnedObject::of(&object);
        assert!(matches!(kept.view(), Object::Node { old: None, new: Some(n) } if *n == node));
        let (uid, labels, spec) = (Uid::from("c"), Labels::default(), PodSpec::default());
        let pod = PodView {
            namespace: "a",
            name: "b",
            uid: &uid,
            labels: &labels,
            spec: &spec,
            assigned: true,
            nominated: false,
            gated: true,
        };
        let kept = OwnedObject::of(&Object::Pod { old: Some(pod), new: None });
        let Object::Pod { old: Some(view), new: None } = kept.view() else { unreachable!() };
        assert_eq!((view.namespace, view.name, view.uid), ("a", "b", &uid));
        assert_eq!((view.assigned, view.nominated, view.gated), (true, false, true));
    }
}
