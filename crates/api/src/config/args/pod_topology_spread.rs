//! Arguments of PodTopologySpread.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::names::qualified_name_errors;
use super::super::problem::{
    child, duplicate, forbidden, index, invalid, invalid_text, required, unsupported,
};

/// Default constraints, for pods that set none.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTopologySpreadArgs {
    /// The default constraints, if the defaulting type is `List`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<TopologySpreadConstraint>,
    /// The source of the default constraints.
    pub defaulting_type: DefaultingType,
}

/// The source of the default constraints.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum DefaultingType {
    /// Kubernetes' built-in constraints: spread over nodes and zones.
    System,
    /// The list in the arguments.
    List,
}

/// A default constraint. Its selector is derived from the services and controllers of each pod.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// The maximum difference in matching pods between two domains; greater than zero.
    pub max_skew: i32,
    /// The node label whose value identifies the domain.
    pub topology_key: String,
    /// The action if the constraint cannot be satisfied.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The minimum number of eligible domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// Treatment of nodes that the pod's node affinity or node selector excludes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Treatment of nodes with taints that the pod does not tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    /// Keys of pod labels whose values are added to the selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// The action if a constraint cannot be satisfied.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum WhenUnsatisfiable {
    /// The node is filtered out.
    DoNotSchedule,
    /// The node gets a lower score.
    ScheduleAnyway,
}

/// The treatment of the nodes that a policy concerns.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum NodeInclusionPolicy {
    /// They are excluded from the count.
    Honor,
    /// They are counted.
    Ignore,
}

impl PodTopologySpreadArgs {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let constraints = fields.objects("defaultConstraints").unwrap_or_default();
        let constraints: Vec<_> = constraints.into_iter().map(read_constraint).collect();
        let path = fields.child("defaultConstraints");
        for (position, (constraint, action)) in constraints.iter().enumerate() {
            let same = |(other, other_action): &(TopologySpreadConstraint, String)| {
                other.topology_key == constraint.topology_key && other_action == action
            };
            if constraints[..position].iter().any(same) {
                let pair = format!("{{{}, {action}}}", constraint.topology_key);
                fields.sink.report(index(&path, position), duplicate(&pair));
            }
        }
        let defaulting_type = read_defaulting_type(&mut fields, !constraints.is_empty());
        fields.finish();
        let default_constraints =
            constraints.into_iter().map(|(constraint, _)| constraint).collect();
        Self { default_constraints, defaulting_type }
    }
}

fn read_defaulting_type(fields: &mut Fields<'_>, has_constraints: bool) -> DefaultingType {
    let path = fields.child("defaultingType");
    match fields.text("defaultingType").as_deref() {
        Some("List") => DefaultingType::List,
        None | Some("" | "System") => {
            if has_constraints {
                let detail = "when .defaultConstraints are not empty; set it to \"List\"";
                fields.sink.report(path, invalid_text("System", detail));
            }
            DefaultingType::System
        }
        Some(other) => {
            fields.sink.report(path, unsupported(other, &["System", "List"]));
            DefaultingType::System
        }
    }
}

/// Reads a constraint and its action as written, which takes part in the duplicate check even if it
/// is invalid.
fn read_constraint(mut fields: Fields<'_>) -> (TopologySpreadConstraint, String) {
    let before = fields.sink.count();
    let max_skew = fields.number("maxSkew").unwrap_or_default();
    if max_skew <= 0 && fields.sink.count() == before {
        fields
            .sink
            .report(fields.child("maxSkew"), invalid(max_skew, "not in valid range (0, inf)"));
    }
    let topology_key = fields.text("topologyKey").unwrap_or_default();
    let path = fields.child("topologyKey");
    if topology_key.is_empty() {
        fields.sink.report(&path, required("can not be empty"));
    } else {
        for error in qualified_name_errors(&topology_key) {
            fields.sink.report(&path, invalid_text(&topology_key, &error));
        }
    }
    let action = fields.text("whenUnsatisfiable").unwrap_or_default();
    let when_unsatisfiable = read_action(&action, &fields);
    if fields.any("labelSelector").is_some() {
        let detail = "constraint must not define a selector, as they deduced for each pod";
        fields.sink.report(fields.child("labelSelector"), forbidden(detail));
    }
    let constraint = TopologySpreadConstraint {
        max_skew,
        topology_key,
        when_unsatisfiable,
        min_domains: fields.number("minDomains"),
        node_affinity_policy: read_policy(&mut fields, "nodeAffinityPolicy"),
        node_taints_policy: read_policy(&mut fields, "nodeTaintsPolicy"),
        match_label_keys: fields.texts("matchLabelKeys").unwrap_or_default(),
    };
    fields.finish();
    (constraint, action)
}

fn read_action(action: &str, fields: &Fields<'_>) -> WhenUnsatisfiable {
    let path = child(&fields.path, "whenUnsatisfiable");
    match action {
        "DoNotSchedule" => return WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => return WhenUnsatisfiable::ScheduleAnyway,
        "" => fields.sink.report(path, required("can not be empty")),
        other => fields.sink.report(path, unsupported(other, &["DoNotSchedule", "ScheduleAnyway"])),
    }
    WhenUnsatisfiable::ScheduleAnyway
}

fn read_policy(fields: &mut Fields<'_>, key: &'static str) -> Option<NodeInclusionPolicy> {
    match fields.text(key)?.as_str() {
        "Honor" => Some(NodeInclusionPolicy::Honor),
        "Ignore" => Some(NodeInclusionPolicy::Ignore),
        other => {
            fields.sink.report(fields.child(key), unsupported(other, &["Honor", "Ignore"]));
            None
        }
    }
}
