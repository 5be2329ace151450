//! Arguments of VolumeBinding.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::gates::Gates;
use super::super::problem::invalid;
use super::scoring::{UtilizationShapePoint, read_shape, validate_shape};

/// Settings of volume binding.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeBindingArgs {
    /// Timeout of binding in seconds; not negative.
    pub bind_timeout_seconds: i64,
    /// The function from storage utilization to score; only with the gate StorageCapacityScoring.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<UtilizationShapePoint>,
}

impl VolumeBindingArgs {
    pub(super) fn read(mut fields: Fields<'_>, gates: Gates) -> Self {
        let timeout = fields.number("bindTimeoutSeconds").unwrap_or(600);
        if timeout < 0 {
            let detail = "invalid BindTimeoutSeconds, should not be a negative value";
            fields.sink.report(fields.child("bindTimeoutSeconds"), invalid(timeout, detail));
        }
        let written = fields.objects("shape").map(read_shape);
        let mut shape = written.clone().unwrap_or_default();
        if gates.storage_capacity_scoring {
            if shape.is_empty() {
                shape = vec![
                    UtilizationShapePoint { utilization: 0, score: 10 },
                    UtilizationShapePoint { utilization: 100, score: 0 },
                ];
            }
            validate_shape(&shape, &fields.child("shape"), fields.sink);
        } else if let Some(written) = &written {
            let detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
            let points =
                written.iter().map(|point| format!("{{{}, {}}}", point.utilization, point.score));
            let points = points.take(5).collect::<Vec<_>>().join(", ");
            fields.sink.report(fields.child("shape"), invalid(format!("[{points}]"), detail));
        }
        fields.finish();
        Self { bind_timeout_seconds: timeout, shape }
    }
}
