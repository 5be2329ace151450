//! BusinessHours: places pods only at the time of day, in UTC, that their annotation names.

use jindou::{AnnotationKeys, Args, Class, NodePlugin, NodeView, Point, Rejection};

/// Pod annotation such as `09:00-17:00`. Hours may go past midnight: `22:00-06:00`.
const HOURS: &str = "example.com/hours";

const MINUTE: i64 = 60_000_000_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// Beginning and end, in nanoseconds since midnight.
struct Hours {
    begin: i64,
    end: i64,
}

impl Hours {
    /// Reads the annotation of a pod, if it has one; an error is the text found.
    fn of(pod: &Class) -> Option<Result<Self, &str>> {
        let text = pod.spec.annotations.get(HOURS)?;
        Some(Self::parse(text).ok_or(text))
    }

    fn parse(text: &str) -> Option<Self> {
        let (begin, end) = text.split_once('-')?;
        let (begin, end) = (time_of_day(begin)?, time_of_day(end)?);
        (begin != end).then_some(Self { begin, end })
    }

    fn contain(&self, now: i64) -> bool {
        let time = now.rem_euclid(DAY);
        if self.begin < self.end {
            (self.begin..self.end).contains(&time)
        } else {
            !(self.end..self.begin).contains(&time)
        }
    }

    /// Returns the next time at which they begin or end.
    fn next_change(&self, now: i64) -> i64 {
        let until = |time: i64| (time - now - 1).rem_euclid(DAY) + 1;
        now + until(self.begin).min(until(self.end))
    }
}

/// Reads `hours:minutes`, in nanoseconds.
fn time_of_day(text: &str) -> Option<i64> {
    let number = |text: &str, max: i64| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| is_number && *number <= max)
    };
    let (hours, minutes) = text.split_once(':')?;
    Some((60 * number(hours, 23)? + number(minutes, 59)?) * MINUTE)
}

pub(crate) struct BusinessHours;

impl NodePlugin for BusinessHours {
    const NAME: &'static str = "BusinessHours";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn new(_args: Option<&Args>) -> Result<Self, String> {
        Ok(Self)
    }

    fn annotations(&self) -> AnnotationKeys {
        AnnotationKeys { pods: [HOURS.into()].into(), ..AnnotationKeys::default() }
    }

    fn filter(&self, pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        match Hours::of(pod) {
            None => Ok(()),
            Some(Ok(hours)) if hours.contain(node.now()) => Ok(()),
            Some(Ok(_)) => Err(Rejection::unresolvable("the pod is outside of its hours")),
            Some(Err(found)) => Err(Rejection::unresolvable(format!(
                "annotation {HOURS}: found {found:?}, expected hours in UTC such as 09:00-17:00"
            ))),
        }
    }

    fn valid_until(&self, pod: &Class, now: i64) -> Option<i64> {
        Some(Hours::of(pod)?.ok()?.next_change(now))
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CONFIG, node, pod, scheduler};
    use std::time::Duration;

    #[test]
    fn hours_are_read_and_may_go_past_midnight() {
        for (text, inside, outside) in [
            ("09:00-17:00", &["09:00", "16:59"][..], &["08:59", "17:00", "00:00"][..]),
            ("22:00-06:30", &["22:00", "00:00", "06:29"], &["06:30", "21:59"]),
            ("18:00-00:00", &["18:00", "23:59"], &["00:00", "17:59"]),
        ] {
            let hours = Hours::parse(text).expect("they are right");
            let contain = |time: &&str| hours.contain(7 * DAY + time_of_day(time).expect("a time"));
            assert!(inside.iter().all(contain) && !outside.iter().any(contain), "{text}");
        }
        for wrong in [
            "",
            "9-17",
            "9:00-17:00",
            "09:00",
            "09:00-24:00",
            "09:60-17:00",
            "+9:00-17:00",
            "09:00-09:00",
        ] {
            assert!(Hours::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn waiting_pods_are_bound_when_their_hours_begin() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.at("2026-01-05T08:59:59Z");
        scheduler.apply(&pod("day", "default-scheduler", &[(HOURS, "09:00-17:00")]));
        scheduler.apply(&pod("night", "default-scheduler", &[(HOURS, "17:00-09:00")]));
        scheduler.apply(&pod("any", "default-scheduler", &[]));
        assert_eq!(scheduler.bound_to("any"), Some("n1"));
        assert_eq!(scheduler.bound_to("night"), Some("n1"));
        let waiting = scheduler.waiting();
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert!(waiting[0].1.contains("1 the pod is outside of its hours"), "{waiting:?}");
        assert_eq!(scheduler.explain("day").selected, "");
        scheduler.advance(Duration::from_secs(1));
        assert_eq!(scheduler.bound_to("day"), Some("n1"));
    }

    #[test]
    fn pods_are_not_placed_after_their_hours() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.at("2026-01-05T16:59:59Z");
        scheduler.apply(&pod("early", "default-scheduler", &[(HOURS, "09:00-17:00")]));
        scheduler.at("2026-01-05T17:00:00Z");
        scheduler.apply(&pod("late", "default-scheduler", &[(HOURS, "09:00-17:00")]));
        assert_eq!(scheduler.bound(), [("early".to_owned(), "n1".to_owned())]);
        scheduler.at("2026-01-06T08:59:59Z");
        assert_eq!(scheduler.bound_to("late"), None);
        scheduler.at("2026-01-06T09:00:00Z");
        assert_eq!(scheduler.bound_to("late"), Some("n1"));
    }

    #[test]
    fn wrong_hours_are_named_in_the_reason() {
        let mut scheduler = scheduler(CONFIG);
        scheduler.apply(&node("n1"));
        scheduler.apply(&pod("a", "default-scheduler", &[(HOURS, "9 to 5")]));
        let reason = scheduler.reason("a").expect("it waits");
        let expected = "annotation example.com/hours: found \"9 to 5\", expected hours in UTC";
        assert!(reason.contains(expected), "{reason}");
        scheduler.apply(&pod("a", "default-scheduler", &[]));
        assert_eq!(scheduler.bound_to("a"), Some("n1"), "an update of the pod wakes it");
    }
}
