//! Arguments of DynamicResources.

use serde::Serialize;

use super::super::duration::Duration;
use super::super::fields::Fields;
use super::super::gates::Gates;
use super::super::problem::{forbidden, invalid_text};

/// Timeouts of device allocation.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicResourcesArgs {
    /// Timeout of filtering one node; zero disables it. Absent if its gate is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_timeout: Option<Duration>,
    /// Timeout of waiting for device binding conditions, at least one second. Absent if its gates
    /// are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<Duration>,
}

impl DynamicResourcesArgs {
    pub(super) fn read(mut fields: Fields<'_>, gates: Gates) -> Self {
        let mut filter = fields.duration("filterTimeout");
        let mut binding = fields.duration("bindingTimeout");
        if !gates.dra_scheduler_filter_timeout {
            if filter.is_some() {
                let detail = "DRASchedulingFilterTimeout feature gate is disabled";
                fields.sink.report(fields.child("filterTimeout"), forbidden(detail));
            }
        } else if let found = *filter.get_or_insert(Duration::from_secs(10))
            && found < Duration::ZERO
        {
            let message = invalid_text(&found.to_string(), "must be zero or positive");
            fields.sink.report(fields.child("filterTimeout"), message);
        }
        if !gates.has_binding_timeout() {
            if binding.is_some() {
                let detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled";
                fields.sink.report(fields.child("bindingTimeout"), forbidden(detail));
            }
        } else if let found = *binding.get_or_insert(Duration::from_secs(600))
            && found < Duration::from_secs(1)
        {
            let message = invalid_text(&found.to_string(), "must be at least 1 second");
            fields.sink.report(fields.child("bindingTimeout"), message);
        }
        fields.finish();
        Self { filter_timeout: filter, binding_timeout: binding }
    }
}
