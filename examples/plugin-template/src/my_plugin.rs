//! MyPlugin: rejects nodes in denied zones. Replace it by what you need.

use jindou::{Args, Class, NodePlugin, NodeView, Point, Rejection};
use serde::Deserialize;

/// Node label with the zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Built from the arguments in `pluginConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct MyPlugin {
    /// Zones whose nodes are rejected.
    denied_zones: Vec<String>,
}

impl NodePlugin for MyPlugin {
    const NAME: &'static str = "MyPlugin";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn new(args: Option<&Args>) -> Result<Self, String> {
        jindou::args(args)
    }

    fn filter(&self, _pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        match node.label(ZONE) {
            Some(zone) if self.denied_zones.iter().any(|denied| denied == zone) => {
                Err(Rejection::unresolvable(format!("node(s) were in the denied zone {zone}")))
            }
            _ => Ok(()),
        }
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use jindou::testing::TestScheduler;

    fn node(name: &str, zone: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Node, status: {{allocatable: {{pods: 10}}}}, \
             metadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}}}"
        )
    }

    #[test]
    fn pods_wait_for_a_node_in_another_zone() {
        let config = include_str!("../config.yaml");
        let mut scheduler = TestScheduler::new(&crate::registry(), config);
        scheduler.apply(&node("n1", "z1"));
        scheduler.apply(
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: main}]}}",
        );
        let reason = scheduler.reason("a").expect("it waits");
        assert!(reason.contains("1 node(s) were in the denied zone z1"), "{reason}");
        scheduler.apply(&node("n2", "z2"));
        assert_eq!(scheduler.bound_to("a"), Some("n2"));
    }
}
