//! Tests of plugins without a cluster, a clock or a network.
//!
//! [`TestScheduler`] is a whole scheduler: profiles from a `KubeSchedulerConfiguration`, objects from
//! Kubernetes manifests, a clock that the test sets, and an API server on which every write succeeds at
//! once. After every step it compares cached decisions with decisions from scratch; see
//! [`TestScheduler::check`].
//!
//! ```
//! use jindou::{Args, Class, NodePlugin, NodeView, Point, Registry, Rejection};
//! use jindou::testing::TestScheduler;
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
//!         match node.label("spot") {
//!             Some("true") => Err(Rejection::unresolvable("node(s) were spot nodes")),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! let registry = Registry::default().with_plugin::<NoSpot>();
//! let mut scheduler = TestScheduler::new(&registry, "
//! apiVersion: kubescheduler.config.k8s.io/v1
//! kind: KubeSchedulerConfiguration
//! profiles:
//!   - plugins:
//!       multiPoint:
//!         enabled: [{name: NoSpot}]
//! ");
//! scheduler.apply("
//! {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {spot: 'true'}}, status: {allocatable: {pods: 10}}}
//! ---
//! {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: main}]}}
//! ");
//! assert_eq!(scheduler.bound_to("a"), None);
//! assert!(scheduler.reason("a").unwrap().contains("1 node(s) were spot nodes"));
//! ```

mod check;
mod scheduler;
#[cfg(test)]
mod tests;
mod world;

pub use api::answer::{Answer, NodeAnswer, Objection};
pub use engine::testing::{class, labels, node, pod, scores, state, verdicts};

pub use scheduler::TestScheduler;
pub use world::PodEvent;
