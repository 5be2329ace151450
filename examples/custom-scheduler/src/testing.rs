//! The scheduler of `config.yaml` with small manifests, for the tests of its plugins.

use std::fmt::Write as _;

use jindou::testing::TestScheduler;

pub(crate) const CONFIG: &str = include_str!("../config.yaml");

pub(crate) fn scheduler(configuration: &str) -> TestScheduler {
    TestScheduler::new(&crate::registry(), configuration)
}

pub(crate) fn node(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{pods: 10}}}}}}"
    )
}

pub(crate) fn pod(name: &str, profile: &str, annotations: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (key, value) in annotations {
        let _ = write!(text, "{key}: '{value}', ");
    }
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{text}}}}}, \
         spec: {{schedulerName: {profile}, containers: [{{name: main}}]}}}}"
    )
}
