//! Nodes.

use engine::object::{Digest, Image, Node, Taint, TaintEffect, Text};
use serde::Deserialize;

use super::problem::{Path, Report, quoted};
use super::raw::{Hashed, List, Meta, Nullable, RawAmounts, Str};
use super::{Lower, resources};

/// `v1 Node`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawNode {
    metadata: Nullable<Meta>,
    spec: Nullable<RawSpec>,
    status: Nullable<RawStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
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
struct RawStatus {
    allocatable: RawAmounts,
    conditions: List<RawCondition>,
    declared_features: List<Str>,
    images: List<RawImage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: Nullable<Hashed>,
    status: Nullable<Hashed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawImage {
    names: List<Str>,
    size_bytes: Nullable<i64>,
}

impl Lower for RawNode {
    type Object = Node;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut Report) -> Node {
        let Self { metadata: Nullable(meta), spec, status } = self;
        let path = Path::Root.field("status");
        let allocatable_path = path.field("allocatable");
        if status.allocatable.is_empty() {
            let message = "found none, expected what the node offers: no pod fits without it";
            report.warning(&allocatable_path, message);
        }
        let (allocatable, allowed_pods) =
            resources::allocatable(&allocatable_path, &status.allocatable, report);
        report.bounded(&path.field("images"), &status.images);
        report.bounded(&path.field("conditions"), &status.conditions);
        report.bounded(&path.field("declaredFeatures"), &status.declared_features);
        let images = status.images.iter().map(|image| Image {
            names: image.names.iter().map(|name| name.0.clone()).collect(),
            size: image.size_bytes.0,
        });
        let conditions = status.conditions.iter();
        let mut conditions: Vec<(Hashed, Hashed)> =
            conditions.map(|condition| (condition.kind.0, condition.status.0)).collect();
        conditions.sort_unstable();
        let mut declared_features: Vec<Text> =
            status.declared_features.iter().map(|feature| feature.0.clone()).collect();
        declared_features.sort_unstable();
        declared_features.dedup();
        Node {
            name: meta.name.0,
            annotations: Digest::of(meta.annotations.iter()),
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

fn taints(raw: &[RawTaint], report: &mut Report) -> Box<[Taint]> {
    let path = Path::Root.field("spec");
    let path = path.field("taints");
    report.bounded(&path, raw);
    let mut taints = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = path.index(index);
        if raw.key.is_empty() {
            report.error(&path.field("key"), "found none, expected the key of the taint");
        }
        // Scheduling looks at the three effects only, so an unknown one changes nothing.
        if let Some(effect) = taint_effect(&path.field("effect"), &raw.effect, report) {
            taints.push(Taint { key: raw.key.0.clone(), value: raw.value.0.clone(), effect });
        }
    }
    taints.into()
}

/// Reads the effect of a taint or a toleration; `None` after reporting that there is no such effect.
pub(super) fn taint_effect(
    path: &Path<'_>,
    text: &str,
    report: &mut Report,
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
