//! Lowering of nodes.

use engine::object::{AnnotationKeys, Digest, Image, Node, Taint, TaintEffect, Text};
use serde::Deserialize;

use super::problem::{FieldPath, ProblemReport, quoted};
use super::raw::{HashedText, List, Meta, Nullable, RawAmounts, Str};
use super::{Lower, resources};

/// `v1 Node`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawNode {
    metadata: Nullable<Meta>,
    spec: Nullable<RawNodeSpec>,
    status: Nullable<RawNodeStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawNodeSpec {
    taints: List<RawTaint>,
    unschedulable: Nullable<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawTaint {
    key: Str,
    value: Str,
    effect: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawNodeStatus {
    allocatable: RawAmounts,
    conditions: List<RawNodeCondition>,
    declared_features: List<Str>,
    images: List<RawContainerImage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawNodeCondition {
    #[serde(rename = "type")]
    kind: Nullable<HashedText>,
    status: Nullable<HashedText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawContainerImage {
    names: List<Str>,
    size_bytes: Nullable<i64>,
}

impl Lower for RawNode {
    type Object = Node;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> Node {
        self.lower_with(&AnnotationKeys::default(), report)
    }
}

impl RawNode {
    /// Lowers the node, with the annotations of these keys.
    pub(super) fn lower_with(self, keys: &AnnotationKeys, report: &mut ProblemReport) -> Node {
        let Self { metadata: Nullable(meta), spec, status } = self;
        let path = FieldPath::Root.field("status");
        let allocatable_path = path.field("allocatable");
        if status.allocatable.is_empty() {
            let message =
                "found none, expected the resources the node offers: no pod fits without them";
            report.warning(&allocatable_path, message);
        }
        let (allocatable, allowed_pods) =
            resources::allocatable(&allocatable_path, &status.allocatable, report);
        report.check_entries(&path.field("images"), &status.images);
        report.check_entries(&path.field("conditions"), &status.conditions);
        report.check_entries(&path.field("declaredFeatures"), &status.declared_features);
        let images = status.images.iter().map(|image| Image {
            names: image.names.iter().map(|name| name.0.clone()).collect(),
            size: image.size_bytes.0,
        });
        let conditions = status.conditions.iter();
        let mut conditions: Vec<(HashedText, HashedText)> =
            conditions.map(|condition| (condition.kind.0, condition.status.0)).collect();
        conditions.sort_unstable();
        let mut declared_features: Vec<Text> =
            status.declared_features.iter().map(|feature| feature.0.clone()).collect();
        declared_features.sort_unstable();
        declared_features.dedup();
        Node {
            annotations: meta.annotations_of(&keys.nodes),
            annotations_digest: Digest::of(meta.annotations.iter()),
            name: meta.name.0,
            labels: meta.labels.0.0,
            taints: taints(&spec.taints, report),
            unschedulable: spec.unschedulable.0,
            allocatable,
            allowed_pods,
            images: images.collect(),
            conditions: Digest::of(conditions),
            declared_features: declared_features.into(),
        }
    }
}

fn taints(raw: &[RawTaint], report: &mut ProblemReport) -> Box<[Taint]> {
    let path = FieldPath::Root.field("spec");
    let path = path.field("taints");
    report.check_entries(&path, raw);
    let mut taints = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = path.index(index);
        if raw.key.is_empty() {
            report.error(&path.field("key"), "found none, expected the key of the taint");
        }
        // Scheduling reads these three effects only, so dropping a taint with any other changes
        // nothing.
        if let Some(effect) = taint_effect(&path.field("effect"), &raw.effect, report) {
            taints.push(Taint { key: raw.key.0.clone(), value: raw.value.0.clone(), effect });
        }
    }
    taints.into()
}

/// Parses the effect of a taint or a toleration, or reports an unknown effect and returns `None`.
pub(super) fn taint_effect(
    path: &FieldPath<'_>,
    text: &str,
    report: &mut ProblemReport,
) -> Option<TaintEffect> {
    Some(match text {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        found => {
            let found = quoted(found);
            let expected = "expected NoSchedule, PreferNoSchedule or NoExecute";
            report.error(path, format!("found {found}, {expected}"));
            return None;
        }
    })
}
