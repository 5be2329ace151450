//! Tests of the configuration as a whole, with a small table of what the in-tree plugins implement.

mod convert;
mod expand;
mod hostile;
mod messages;
mod strict;
mod whole;

use super::*;

const TABLE: &[(&str, &str)] = &[
    ("SchedulingGates", "preEnqueue"),
    ("PrioritySort", "queueSort"),
    ("NodeUnschedulable", "filter"),
    ("NodeName", "filter"),
    ("TaintToleration", "filter preScore score"),
    ("NodeAffinity", "preFilter filter preScore score"),
    ("NodePorts", "preFilter filter"),
    ("NodeResourcesFit", "preFilter filter preScore score placementScore"),
    ("VolumeRestrictions", "preFilter filter"),
    ("NodeVolumeLimits", "preFilter filter"),
    ("VolumeBinding", "preFilter filter preScore score reserve preBind"),
    ("VolumeZone", "preFilter filter"),
    ("PodTopologySpread", "preFilter filter preScore score"),
    ("InterPodAffinity", "preFilter filter preScore score"),
    ("DynamicResources", "preEnqueue preFilter filter postFilter score reserve preBind"),
    ("DefaultPreemption", "preEnqueue postFilter"),
    ("NodeResourcesBalancedAllocation", "preScore score"),
    ("ImageLocality", "score"),
    ("DefaultBinder", "bind"),
    ("NodeDeclaredFeatures", "preFilter filter"),
    ("Custom", "preFilter filter score bind queueSort"),
    ("Reverse", "queueSort"),
];

fn implements(plugin: &str, point: ExtensionPoint) -> bool {
    TABLE
        .iter()
        .any(|(name, points)| *name == plugin && points.split(' ').any(|key| key == point.key()))
}

fn known(plugin: &str) -> bool {
    TABLE.iter().any(|(name, _)| *name == plugin)
}

/// Returns a v1 file with this body.
fn v1_file(body: &str) -> String {
    format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{body}")
}

/// Returns a file of another version with this body.
fn file(version: &str, body: &str) -> String {
    v1_file(body).replace("k8s.io/v1\n", &format!("k8s.io/{version}\n"))
}

#[track_caller]
fn valid(text: &str) -> Configuration {
    let read = read(text);
    assert_eq!(read.problems, [], "{text}");
    read.config.expect("a file without problems gives a configuration")
}

/// Returns the problems of a file as lines.
#[track_caller]
fn problems(text: &str) -> Vec<String> {
    let read = check(text, Gates::default(), &implements, &known);
    assert_eq!(read.config.is_none(), !read.problems.is_empty());
    read.problems.iter().map(ToString::to_string).collect()
}

/// Checks that the problems of a v1 file with this body are these, in any order.
#[track_caller]
fn refused(body: &str, want: &[&str]) {
    let mut got = problems(&v1_file(body));
    let mut want = want.to_vec();
    got.sort();
    want.sort_unstable();
    assert_eq!(got, want, "{body}");
}

/// Returns the plugins at a point of the only profile of a file.
#[track_caller]
fn plugins_at(text: &str, point: ExtensionPoint) -> Vec<String> {
    let config = valid(text);
    let expanded = expand(&config.profiles[0], &implements, &known).expect("the profile expands");
    expanded
        .at(point)
        .iter()
        .map(|name| match expanded.weight(point, name) {
            Some(weight) => format!("{name} {weight}"),
            None => name.clone(),
        })
        .collect()
}
