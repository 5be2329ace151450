//! Custom plugins in short form: implement [`NodePlugin`] and register it.
//!
//! ```
//! use plugins::registry::Registry;
//! use plugins::simple::{Args, Class, NodePlugin, NodeView, Point, Rejection};
//!
//! struct NoSpot;
//!
//! impl NodePlugin for NoSpot {
//!     const NAME: &'static str = "NoSpot";
//!     const POINTS: &'static [Point] = &[Point::Filter];
//!
//!     fn new(_args: Option<&Args>) -> Result<Self, String> {
//!         Ok(Self)
//!     }
//!
//!     fn filter(&self, _pod: &Class, node: &NodeView) -> Result<(), Rejection> {
//!         match node.label("example.com/spot") {
//!             Some("true") => Err(Rejection::unresolvable("node(s) were spot nodes")),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! let registry = Registry::default().with_plugin::<NoSpot>();
//! assert!(registry.contains("NoSpot"));
//! ```
//!
//! A plugin that depends on pods of *other* nodes, or that must be fast on tens of thousands of nodes,
//! implements [`engine::framework::Plugin`] instead.

mod adapter;
mod pod_on_node;
#[cfg(test)]
mod tests;
mod view;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use api::config::PluginArgs as Args;
pub use engine::framework::event::Object;
pub use engine::framework::scorer::EXCLUDED;
pub use engine::framework::{
    Action, Class, Effects, Event, Extremes, InitialState, Permit, Plugin, PluginState, Point,
    Rejection, Resource, Subscription,
};
pub use engine::index::{NodeIdx, PodIdx};
pub use engine::object::AnnotationKeys;
pub use engine::state::State;

pub use adapter::plugin;
pub use pod_on_node::{OtherPod, PodOnNode};
pub use view::{NodeView, PlacedPod};

/// A plugin that looks at one node at a time. All methods have defaults; implement
/// [`NodePlugin::new`] and those of your [`NodePlugin::POINTS`].
///
/// Results of [`NodePlugin::filter`] and [`NodePlugin::score`] are cached. They may depend on the
/// arguments, the pod's [`Class`], the [`NodeView`], the plugin's own state (see
/// [`NodePlugin::initial_state`]) and the time (see [`NodePlugin::valid_until`]), and on nothing
/// else; they are computed again when one of these changes.
pub trait NodePlugin: Sized + Send + Sync + 'static {
    /// Name in configuration files.
    const NAME: &'static str;

    /// Extension points that the plugin implements: Filter, Score, Reserve, Permit or PostBind.
    const POINTS: &'static [Point];

    /// Builds the plugin from the arguments of its `pluginConfig`, or returns the error in them; see
    /// [`args`]. The default refuses: it is for plugins that are built otherwise, with
    /// [`Registry::with`](crate::registry::Registry::with).
    fn new(_args: Option<&Args>) -> Result<Self, String> {
        Err("it is not built from a configuration".to_owned())
    }

    /// Filter: accepts or rejects a node.
    ///
    /// [`Rejection::unresolvable`] means that evicting pods cannot help, [`Rejection::until`] that
    /// the node is accepted later without an event.
    fn filter(&self, _pod: &Class, _node: &NodeView) -> Result<(), Rejection> {
        Ok(())
    }

    /// Score: returns the raw score of a node. After scaling (see [`NodePlugin::scale`]) it must lie
    /// between 0 and 100. [`EXCLUDED`] leaves the node out of the scaling.
    fn score(&self, _pod: &Class, _node: &NodeView) -> i64 {
        0
    }

    /// Returns how raw scores are scaled to the range of 0 to 100.
    fn scale(&self) -> Scale {
        Scale::AsIs
    }

    /// Scales a raw score with the plugin's own function, for [`Scale::Own`]. `extremes` are those of
    /// the feasible nodes.
    fn normalise(&self, raw: i64, _extremes: Extremes) -> i64 {
        raw
    }

    /// Returns the score of nodes whose raw score is [`EXCLUDED`].
    fn excluded_score(&self) -> i64 {
        0
    }

    /// Returns the time at which results for the pod change without an event, in nanoseconds since
    /// the epoch; `None` if they do not. Then they are computed again, and pods that no node fits are
    /// retried.
    fn valid_until(&self, _pod: &Class, _now: i64) -> Option<i64> {
        None
    }

    /// Returns `true` if results depend on the pods of the node or on their requests. `false` saves the
    /// calls after each change of these pods.
    fn reads_pods(&self) -> bool {
        true
    }

    /// Returns the plugin's state for an empty cluster, if it has one: see [`PluginState`]. The first
    /// profile with the plugin provides it for all. [`NodeView::plugin_state`] reads it.
    fn initial_state(&self) -> Option<InitialState> {
        None
    }

    /// Returns the keys of the annotations that the plugin reads; pods and nodes have no others:
    /// `pod.spec.annotations.get(key)` and [`NodeView::annotation`].
    fn annotations(&self) -> AnnotationKeys {
        AnnotationKeys::default()
    }

    /// Reserve: accepts or rejects the node chosen for a pod, which is assumed to be on it.
    fn reserve(&self, _pod: &mut PodOnNode) -> Result<(), Rejection> {
        Ok(())
    }

    /// Undoes [`NodePlugin::reserve`]. It is called for all Reserve plugins, even if their `reserve` did
    /// not run.
    fn unreserve(&self, _pod: &mut PodOnNode) {}

    /// Permit: allows a pod to be bound, makes it wait, or rejects it.
    fn permit(&self, _pod: &mut PodOnNode) -> Permit {
        Permit::Allow
    }

    /// PostBind: called after the pod was bound.
    fn post_bind(&self, _pod: &mut PodOnNode) {}

    /// Returns the events that may make a pod schedulable that this plugin rejected. By default these
    /// are changes of nodes, of the pod itself and, with [`NodePlugin::reads_pods`] or a state of its
    /// own, of pods on nodes.
    fn events(&self) -> Vec<Subscription> {
        adapter::default_events(self)
    }

    /// Returns `false` only if the event certainly does not make pods of the class schedulable that this
    /// plugin rejected.
    fn hint(&self, _pod: &Class, _event: &Event, _effects: &mut Effects) -> bool {
        true
    }
}

/// Scaling of raw scores to the range of 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// No scaling. A score outside of the range fails the scheduling attempt, as it does upstream.
    AsIs,
    /// The highest score becomes 100, the others are scaled in proportion. Scores must not be negative.
    MoreIsBetter,
    /// Zero becomes 100 and the highest score becomes 0. Scores must not be negative.
    LessIsBetter,
    /// By [`NodePlugin::normalise`].
    Own,
}

/// Reads the arguments of a plugin from its `pluginConfig`, or returns the wrong field and its value.
///
/// Absent arguments are read as `{}`; `apiVersion` and `kind` are ignored.
pub fn args<T: DeserializeOwned>(args: Option<&Args>) -> Result<T, String> {
    let mut fields = match args {
        None | Some(Args::Other(Value::Null)) => Map::new(),
        Some(Args::Other(Value::Object(fields))) => fields.clone(),
        Some(Args::Other(value)) => {
            return Err(format!("args: found {value}, expected named fields"));
        }
        Some(_) => return Err("its name is that of an in-tree plugin with other args".to_owned()),
    };
    fields.retain(|name, _| !matches!(&**name, "apiVersion" | "kind"));
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        match error.path().to_string() {
            path if path == "." => format!("args: {}", error.inner()),
            path => format!("args.{path}: {}", error.inner()),
        }
    })
}
