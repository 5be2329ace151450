//! A scheduler with plugins of its own: the plugin API, the registry, and all commands of `jindou`.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use jindou::{Args, Class, NodePlugin, NodeView, Point, Registry, Rejection};
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
//! fn main() -> ExitCode {
//!     jindou::run("my-scheduler", &Registry::default().with_plugin::<NoSpot>())
//! }
//! ```
//!
//! - [`NodePlugin`] is the short form of a plugin, which looks at one node at a time.
//! - [`framework::Plugin`] is what the in-tree plugins implement; [`Registry::with`] adds one.
//! - `testing` runs plugins without a cluster: a configuration, manifests and a clock that the test
//!   sets (feature `testing`).
//!
//! `docs/plugins.md` of the repository explains the life cycle, caching and threads.

#![warn(missing_docs)]

use std::process::ExitCode;

#[doc(inline)]
pub use engine::{bitset, framework, index, object, state};
pub use plugins::registry::{PluginFactory, Registry};
#[doc(inline)]
pub use plugins::simple::{
    Action, AnnotationKeys, Args, Class, EXCLUDED, Effects, Event, Extremes, InitialState, NodeIdx,
    NodePlugin, NodeView, Object, OtherPod, Permit, PlacedPod, Plugin, PluginState, PodIdx,
    PodOnNode, Point, Rejection, Resource, Scale, State, Subscription, args, plugin,
};

#[cfg(feature = "testing")]
pub mod testing;

/// Runs the command that the arguments of the process name, as `jindou` does: `up`, `scheduler`,
/// `explain`, `config` and `bench`. `program` is the name in help and messages.
pub fn run(program: &'static str, registry: &Registry) -> ExitCode {
    cli::commands::run_with(program, registry)
}
