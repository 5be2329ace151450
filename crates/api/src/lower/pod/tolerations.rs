//! Lowering of tolerations.

use engine::object::{Toleration, TolerationOperator};
use serde::Deserialize;

use super::super::node::taint_effect;
use super::super::problem::{FieldPath, ProblemReport, quoted};
use super::super::raw::Str;

/// `tolerations[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawToleration {
    key: Str,
    operator: Str,
    value: Str,
    effect: Str,
}

pub(super) fn tolerations(
    path: &FieldPath<'_>,
    raw: &[RawToleration],
    report: &mut ProblemReport,
) -> Box<[Toleration]> {
    if !report.check_entries(path, raw) {
        return Box::default();
    }
    let raw = raw.iter().enumerate();
    raw.map(|(index, raw)| toleration(&path.index(index), raw, report)).collect()
}

fn toleration(path: &FieldPath<'_>, raw: &RawToleration, report: &mut ProblemReport) -> Toleration {
    let mut operator = match &*raw.operator.0 {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        // Valid only with a feature gate that is off: the API server stores them, and they tolerate
        // nothing.
        "Lt" | "Gt" => TolerationOperator::Other,
        found => {
            let found = quoted(found);
            report
                .error(&path.field("operator"), format!("found {found}, expected Equal or Exists"));
            TolerationOperator::Other
        }
    };
    if raw.key.is_empty() && operator == TolerationOperator::Equal {
        let message = "found Equal with an empty key, expected Exists or a key";
        report.error(&path.field("operator"), message);
    }
    let effect = match &*raw.effect.0 {
        "" => None,
        text => {
            let effect = taint_effect(&path.field("effect"), text, report);
            if effect.is_none() {
                // No taint has an unknown effect, so the toleration matches nothing.
                operator = TolerationOperator::Other;
            }
            effect
        }
    };
    Toleration { key: raw.key.0.clone(), operator, value: raw.value.0.clone(), effect }
}
