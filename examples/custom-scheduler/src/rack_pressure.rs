//! RackPressure: rejects nodes in denied racks, and scores nodes lower that have many pods of the same app.

use jindou::{Args, Class, NodePlugin, NodeView, Point, Rejection, Scale};
use serde::Deserialize;

/// Node label with the rack.
const RACK: &str = "example.com/rack";

/// Arguments in `pluginConfig`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RackPressureArgs {
    /// Racks whose nodes are rejected.
    denied_racks: Vec<String>,
    /// Pod label with the app.
    app_label: String,
}

impl Default for RackPressureArgs {
    fn default() -> Self {
        Self { denied_racks: Vec::new(), app_label: "app".to_owned() }
    }
}

impl RackPressureArgs {
    fn check(&self) -> Result<(), String> {
        if let Some(position) = self.denied_racks.iter().position(String::is_empty) {
            return Err(format!("args.deniedRacks[{position}]: found \"\", expected a rack"));
        }
        if self.app_label.is_empty() {
            return Err("args.appLabel: found \"\", expected the key of a label".to_owned());
        }
        Ok(())
    }
}

pub(crate) struct RackPressure(RackPressureArgs);

impl NodePlugin for RackPressure {
    const NAME: &'static str = "RackPressure";
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];

    fn new(args: Option<&Args>) -> Result<Self, String> {
        let args: RackPressureArgs = jindou::args(args)?;
        args.check()?;
        Ok(Self(args))
    }

    fn filter(&self, _pod: &Class, node: &NodeView) -> Result<(), Rejection> {
        match node.label(RACK) {
            // Evicting pods cannot help.
            Some(rack) if self.0.denied_racks.iter().any(|denied| denied == rack) => {
                Err(Rejection::unresolvable(format!("node(s) were in the denied rack {rack}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of pods of the same app on the node.
    fn score(&self, pod: &Class, node: &NodeView) -> i64 {
        let key = &*self.0.app_label;
        let Some(app) = pod.labels.get(key) else { return 0 };
        let siblings = node.pods().filter(|other| {
            *other.namespace == *pod.namespace && other.labels.get(key) == Some(app)
        });
        siblings.count() as i64
    }

    fn scale(&self) -> Scale {
        Scale::LessIsBetter
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jindou::object::{Node, Pod, PodSpec};
    use jindou::testing::{class, labels, node, pod, scores, state, verdicts};
    use jindou::{Plugin, State};
    use serde_json::{Value, json};

    fn built(args: Value) -> Result<Box<dyn Plugin>, String> {
        RackPressure::new(Some(&Args::Other(args))).map(jindou::plugin)
    }

    fn in_rack(name: &str, rack: &str) -> Node {
        Node { labels: labels(&[(RACK, rack)]), ..node(name) }
    }

    fn placed(name: &str, node: &str, app: &str) -> Pod {
        Pod { node: node.into(), labels: labels(&[("app", app)]), ..pod(name) }
    }

    fn cluster() -> State {
        let nodes = [in_rack("a", "r1"), in_rack("b", "r2"), node("c")];
        let elsewhere = Pod { namespace: "other".into(), ..placed("w4", "c", "web") };
        let pods = [
            placed("w1", "a", "web"),
            placed("w2", "a", "web"),
            placed("w3", "b", "web"),
            placed("db", "c", "db"),
            elsewhere,
        ];
        state(nodes, pods)
    }

    fn web() -> Class {
        Class { labels: labels(&[("app", "web")]), ..class(PodSpec::default()) }
    }

    #[test]
    fn denied_racks_get_no_pods() {
        for (args, expected) in [
            (json!({}), ["a: ok", "b: ok", "c: ok"]),
            (
                json!({"deniedRacks": ["r1", "r9"]}),
                [
                    "a: UnschedulableAndUnresolvable node(s) were in the denied rack r1",
                    "b: ok",
                    "c: ok",
                ],
            ),
        ] {
            let plugin = built(args).expect("the arguments are right");
            assert_eq!(verdicts(plugin, web(), &mut cluster()), expected);
        }
    }

    #[test]
    fn nodes_with_fewer_siblings_score_better() {
        for (args, expected) in [
            (json!({}), ["a: 0", "b: 50", "c: 100"]),
            (json!({"appLabel": "team"}), ["a: 100", "b: 100", "c: 100"]),
        ] {
            let plugin = built(args).expect("the arguments are right");
            let found = scores(&*plugin, &web(), &mut cluster()).expect("it scores");
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn wrong_arguments_are_reported_with_the_value_found() {
        for (args, expected) in [
            (
                json!({"deniedRacks": "r1"}),
                "args.deniedRacks: invalid type: string \"r1\", expected a sequence",
            ),
            (
                json!({"denyRacks": []}),
                "args.denyRacks: unknown field `denyRacks`, expected `deniedRacks` or `appLabel`",
            ),
            (
                json!({"deniedRacks": ["r1", ""]}),
                "args.deniedRacks[1]: found \"\", expected a rack",
            ),
            (json!({"appLabel": ""}), "args.appLabel: found \"\", expected the key of a label"),
        ] {
            assert_eq!(built(args).err().as_deref(), Some(expected));
        }
    }
}
