//! `jindou` on a cluster: the real binary against the sandbox, and kube-scheduler too where it is built.

mod explain;
mod faults;
mod mistakes;
mod placements;
mod replicas;
mod scheduling;
mod stage;
mod ties;
mod victims;
mod waiting;
