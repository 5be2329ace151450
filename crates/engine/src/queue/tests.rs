//! Tests of the queue, by idea.

mod backoff;
mod changes;
mod events;
mod flush;
mod gating;
mod model;
mod order;
mod replay;
mod timers;

use crate::framework::{Action, Resource};

use super::EventLabel;

fn label((resource, action): (Resource, Action)) -> EventLabel {
    EventLabel::of(resource, action)
}
