//! PrioritySort: orders the queue by priority, then by waiting time.

use std::cmp::Ordering;

use api::config::PluginArgs;
use engine::framework::{Plugin, Point, QueueKey};

pub(crate) const NAME: &str = "PrioritySort";
pub(crate) const POINTS: &[Point] = &[Point::QueueSort];
pub(crate) const DOC: &str = "Orders the queue by priority, then by waiting time.";

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(PrioritySort)
}

struct PrioritySort;

impl Plugin for PrioritySort {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn queue_order(&self, a: &QueueKey, b: &QueueKey) -> Ordering {
        b.priority.cmp(&a.priority).then(a.timestamp.cmp(&b.timestamp))
    }
}

#[cfg(test)]
mod tests {
    use engine::framework::QueueTraits;

    use super::*;

    #[test]
    fn priority_goes_before_time() {
        let key =
            |priority, timestamp| QueueKey { priority, timestamp, traits: QueueTraits::default() };
        for (a, b, expected) in [
            (key(2, 9), key(1, 1), Ordering::Less),
            (key(-1, 1), key(0, 9), Ordering::Greater),
            (key(1, 1), key(1, 2), Ordering::Less),
            (key(1, 2), key(1, 1), Ordering::Greater),
            (key(1, 1), key(1, 1), Ordering::Equal),
        ] {
            assert_eq!(build(None).queue_order(&a, &b), expected, "{a:?} {b:?}");
        }
    }
}
