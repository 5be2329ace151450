//! Node affinity, pod affinity and topology spread constraints of a pod.

use engine::object::{
    Labels, NodeAffinity, NodeTerm, PodAffinity, PodTerm, SpreadConstraint, Text, WhenUnsatisfiable,
};
use serde::Deserialize;

use super::problem::{FieldPath, ProblemReport, quoted};
use super::raw::{List, Nullable, Str};
use super::selector::{self, RawNodeSelector, RawNodeTerm, RawSelector};

/// `affinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawAffinity {
    node_affinity: Nullable<RawNodeAffinity>,
    pod_affinity: Option<RawPodAffinity>,
    pod_anti_affinity: Option<RawPodAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<RawNodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Option<Vec<RawPreferredNodeTerm>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPreferredNodeTerm {
    weight: Nullable<i32>,
    preference: Nullable<RawNodeTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: List<RawPodTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: List<RawWeightedPodTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawWeightedPodTerm {
    weight: Nullable<i32>,
    pod_affinity_term: Nullable<RawPodTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodTerm {
    label_selector: Option<RawSelector>,
    namespaces: List<Str>,
    namespace_selector: Option<RawSelector>,
    topology_key: Str,
}

/// `topologySpreadConstraints[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawSpread {
    max_skew: Nullable<i32>,
    topology_key: Str,
    when_unsatisfiable: Str,
    label_selector: Option<RawSelector>,
    match_label_keys: List<Str>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<Text>,
    node_taints_policy: Option<Text>,
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

impl RawAffinity {
    pub(super) fn node(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> NodeAffinity {
        let (raw, path) = (&self.node_affinity, path.field("nodeAffinity"));
        let required = raw.required.as_ref();
        let required = required.map(|raw| selector::node_terms(&path.field(REQUIRED), raw, report));
        let path = path.field(PREFERRED);
        let preferred = raw.preferred.as_ref().map(|raw| {
            report.check_entries(&path, raw);
            let terms = raw.iter().enumerate();
            terms.map(|(index, raw)| raw.lower(&path.index(index), report)).collect()
        });
        NodeAffinity { required, preferred }
    }

    pub(super) fn pod(
        &self,
        path: &FieldPath<'_>,
        namespace: &str,
        report: &mut ProblemReport,
    ) -> PodAffinity {
        let mut lower = |name, raw: &Option<RawPodAffinity>| match raw {
            Some(raw) => raw.lower(&path.field(name), namespace, report),
            None => Default::default(),
        };
        let (required, preferred) = lower("podAffinity", &self.pod_affinity);
        let (required_anti, preferred_anti) = lower("podAntiAffinity", &self.pod_anti_affinity);
        PodAffinity {
            required,
            required_anti,
            preferred,
            preferred_anti,
            has_affinity: self.pod_affinity.is_some(),
            has_anti_affinity: self.pod_anti_affinity.is_some(),
        }
    }
}

impl RawPreferredNodeTerm {
    fn lower(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> (i32, NodeTerm) {
        check_weight(path, self.weight.0, report);
        (self.weight.0, self.preference.lower(&path.field("preference"), report))
    }
}

/// Required terms, and preferred ones with their weights.
type PodTerms = (Box<[PodTerm]>, Box<[(i32, PodTerm)]>);

impl RawPodAffinity {
    fn lower(&self, path: &FieldPath<'_>, namespace: &str, report: &mut ProblemReport) -> PodTerms {
        let required_path = path.field(REQUIRED);
        report.check_entries(&required_path, &self.required);
        let required = self.required.iter().enumerate();
        let required = required
            .map(|(index, raw)| raw.lower(&required_path.index(index), namespace, report))
            .collect();
        let preferred_path = path.field(PREFERRED);
        report.check_entries(&preferred_path, &self.preferred);
        let preferred = self.preferred.iter().enumerate();
        let preferred = preferred
            .map(|(index, raw)| {
                let path = preferred_path.index(index);
                check_weight(&path, raw.weight.0, report);
                let path = path.field("podAffinityTerm");
                (raw.weight.0, raw.pod_affinity_term.lower(&path, namespace, report))
            })
            .collect();
        (required, preferred)
    }
}

impl RawPodTerm {
    fn lower(
        &self,
        path: &FieldPath<'_>,
        own_namespace: &str,
        report: &mut ProblemReport,
    ) -> PodTerm {
        let mut lower = |name, raw: &Option<RawSelector>| {
            raw.as_ref().and_then(|raw| raw.lower(&path.field(name), report))
        };
        let selector = lower("labelSelector", &self.label_selector);
        let namespace_selector = lower("namespaceSelector", &self.namespace_selector);
        check_topology_key(path, &self.topology_key, report);
        report.check_entries(&path.field("namespaces"), &self.namespaces);
        let mut namespaces: Vec<Text> =
            self.namespaces.iter().map(|namespace| namespace.0.clone()).collect();
        if namespaces.is_empty() && self.namespace_selector.is_none() {
            namespaces.push(own_namespace.into());
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        PodTerm {
            selector,
            namespaces: namespaces.into(),
            namespace_selector,
            topology_key: self.topology_key.0.clone(),
        }
    }
}

impl RawSpread {
    /// Returns the constraint, or reports an unknown `whenUnsatisfiable` and returns `None`.
    pub(super) fn lower(
        &self,
        path: &FieldPath<'_>,
        labels: &Labels,
        report: &mut ProblemReport,
    ) -> Option<SpreadConstraint> {
        let selector = self.label_selector.as_ref();
        let selector = selector.and_then(|raw| raw.lower(&path.field("labelSelector"), report));
        report.check_entries(&path.field("matchLabelKeys"), &self.match_label_keys);
        let max_skew = self.max_skew.0;
        if max_skew < 1 {
            report.error(&path.field("maxSkew"), format!("found {max_skew}, expected at least 1"));
        }
        if let Some(found) = self.min_domains.filter(|&found| found < 1) {
            report.error(&path.field("minDomains"), format!("found {found}, expected at least 1"));
        }
        check_topology_key(path, &self.topology_key, report);
        let honor_affinity =
            policy(&path.field("nodeAffinityPolicy"), self.node_affinity_policy.as_deref(), report);
        let honor_taints =
            policy(&path.field("nodeTaintsPolicy"), self.node_taints_policy.as_deref(), report);
        let when_unsatisfiable = match &**self.when_unsatisfiable {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            found => {
                let found = quoted(found);
                let expected = "expected DoNotSchedule or ScheduleAnyway";
                report
                    .error(&path.field("whenUnsatisfiable"), format!("found {found}, {expected}"));
                return None;
            }
        };
        Some(SpreadConstraint {
            max_skew,
            topology_key: self.topology_key.0.clone(),
            when_unsatisfiable,
            selector: selector
                .map(|own| selector::with_own_values(own, &self.match_label_keys, labels)),
            min_domains: self.min_domains.unwrap_or(1),
            honor_affinity: honor_affinity.unwrap_or(true),
            honor_taints: honor_taints.unwrap_or(false),
        })
    }
}

/// Returns `true` for `Honor`, `false` for anything else, and `None` if the policy is unset.
fn policy(path: &FieldPath<'_>, text: Option<&str>, report: &mut ProblemReport) -> Option<bool> {
    let text = text?;
    if !matches!(text, "Honor" | "Ignore") {
        report.error(path, format!("found {}, expected Honor or Ignore", quoted(text)));
    }
    Some(text == "Honor")
}

fn check_weight(path: &FieldPath<'_>, weight: i32, report: &mut ProblemReport) {
    if !(1..=100).contains(&weight) {
        report.error(&path.field("weight"), format!("found {weight}, expected 1 to 100"));
    }
}

fn check_topology_key(path: &FieldPath<'_>, key: &str, report: &mut ProblemReport) {
    if key.is_empty() {
        let expected = "expected a node label such as topology.kubernetes.io/zone";
        report.error(&path.field("topologyKey"), format!("found none, {expected}"));
    }
}
