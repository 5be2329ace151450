//! Arguments of PodTopologySpread.

use serde::Serialize;

use super::super::fields::Fields;
use super::super::names::qualified_name_errors;
use super::super::problem::{
    child, duplicate, forbidden, index, invalid, invalid_text, required, unsupported,
};

/// The constraints of pods that have none of their own.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTopologySpreadArgs {
    /// The constraints, if the type is `List`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<TopologySpreadConstraint>,
    /// Where the constraints come from.
    pub defaulting_type: DefaultingType,
}

/// Where default constraints come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum DefaultingType {
    /// Kubernetes' own: spread over nodes and zones.
    System,
    /// The list in the arguments.
    List,
}

/// A default constraint; its selector is deduced for each pod.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// The allowed difference between domains; more than zero.
    pub max_skew: i32,
    /// The node label that names the domain.
    pub topology_key: String,
    /// What happens when the constraint cannot be met.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The least number of domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// Whether nodes the pod's node affinity excludes are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Whether nodes with taints the pod does not tolerate are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    /// Pod labels that are added to the selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// What happens when a constraint cannot be met.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum WhenUnsatisfiable {
    /// The node is filtered out.
    DoNotSchedule,
    /// The node scores lower.
    ScheduleAnyway,
}

/// Whether a kind of node is left out of the count.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum NodeInclusionPolicy {
    /// It is left out.
    Honor,
    /// It is counted.
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

/// Reads a constraint, and its action as written, which also counts if it is not a valid one.
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
