//! The scheduling plugins of kube-scheduler, and the table that lists them.
//!
//! One plugin, one file (or folder); [`table::TABLE`] names them all.

pub mod registry;
pub mod table;

mod default_binder;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_unschedulable;
mod priority_sort;
mod scheduling_gates;
mod taint_toleration;
mod tolerations;
