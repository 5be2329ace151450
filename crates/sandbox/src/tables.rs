//! Tables of objects, as `kubectl get` prints them.

pub(crate) mod nodes;
pub(crate) mod plain;
pub(crate) mod pods;
pub(crate) mod storage;
pub(crate) mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json::{list, name, text};
use crate::kinds::{Columns, Kind};
use crate::path::Path;

/// The time for which ages are computed.
#[derive(Clone, Copy, Debug)]
pub struct Clock(pub Timestamp);

/// A printer column of a custom resource definition.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Name.
    pub name: String,
    /// Type: `string`, `integer`, `date` and so on.
    pub kind: String,
    /// Priority; columns above 0 are printed by `-o wide` only.
    pub priority: i64,
    /// Path of the value.
    pub path: Path,
}

/// Returns the column definitions of a kind.
pub(crate) fn heads(kind: &Kind) -> Value {
    let column = |name: &str, format: &str, kind: &str, priority: i64| json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority});
    match &kind.columns {
        Columns::Own(heads, _) => {
            let heads = heads.split('|').map(|head| {
                let (name, priority) = head.strip_suffix('*').map_or((head, 0), |name| (name, 1));
                column(name, if name == "Name" { "name" } else { "" }, "string", priority)
            });
            heads.collect()
        }
        Columns::Custom(columns) => {
            let own = std::iter::once(column("Name", "name", "string", 0));
            let printed = columns.iter().map(|one| column(&one.name, "", &one.kind, one.priority));
            own.chain(printed).collect()
        }
    }
}

/// Returns the cells of an object.
pub(crate) fn cells(kind: &Kind, object: &Value, clock: Clock) -> Vec<Value> {
    match &kind.columns {
        Columns::Own(_, cells) => cells(object, clock),
        Columns::Custom(columns) => {
            let mut cells = vec![Value::from(name(object))];
            cells.extend(columns.iter().map(|column| custom(column, object, clock)));
            cells
        }
    }
}

fn custom(column: &Printed, object: &Value, clock: Clock) -> Value {
    let found = column.path.find(object);
    let Some(first) = found.first() else { return Value::Null };
    match (&*column.kind, first) {
        ("date", Value::String(time)) => since(time, clock).into(),
        (_, Value::Array(_) | Value::Object(_)) => first.to_string().into(),
        ("string", Value::String(_)) => (*first).clone(),
        ("string", other) => other.to_string().into(),
        _ => (*first).clone(),
    }
}

/// Returns the cells of kinds without columns of their own.
pub(crate) fn name_and_age(object: &Value, clock: Clock) -> Vec<Value> {
    vec![name(object).into(), age(object, clock)]
}

/// Returns the age of an object.
pub(crate) fn age(object: &Value, clock: Clock) -> Value {
    since(text(object, &["metadata", "creationTimestamp"]), clock).into()
}

/// Returns the time that has passed since a timestamp.
pub(crate) fn since(time: &str, clock: Clock) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(clock.0.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Formats a duration in at most two units, as upstream's `HumanDuration`.
pub(crate) fn human(seconds: i64) -> String {
    let two = |high: i64, high_unit: &str, low: i64, low_unit: &str| {
        if low == 0 {
            format!("{high}{high_unit}")
        } else {
            format!("{high}{high_unit}{low}{low_unit}")
        }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// Returns the text, or `<none>` if it is empty.
pub(crate) fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// Formats labels as `a=b,c=d`.
pub(crate) fn labels(labels: Option<&Value>) -> Value {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let parts: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(&parts.join(","))
}

/// Returns names and images of the containers of a pod spec.
pub(crate) fn containers(spec: &Value) -> (Value, Value) {
    let all = list(spec, &["containers"]);
    let join = |what: &str| {
        let parts: Vec<&str> = all.iter().map(|container| text(container, &[what])).collect();
        Value::from(parts.join(","))
    };
    (join("name"), join("image"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_upstream_does() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (100_000, "27h"),
            (200_000, "2d7h"),
            (700_000, "8d"),
            (86_400 * 800, "2y70d"),
            (86_400 * 365 * 9, "9y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }
}
