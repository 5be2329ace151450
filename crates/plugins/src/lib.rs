//! The scheduling plugins of kube-scheduler, and the table that lists them.
//!
//! One plugin, one file (or folder); [`table::TABLE`] lists them. [`registry`] builds profiles from a
//! configuration, and [`simple`] adapts custom plugins that look at one node at a time.

#![warn(missing_docs)]

pub mod registry;
pub mod simple;
pub mod table;

mod csi_migration;
mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod priority_sort;
mod scheduling_gates;
mod taint_toleration;
mod tolerations;
mod volume_binding;
mod volume_claims;
mod volume_restrictions;
mod volume_topology;
mod volume_zone;
