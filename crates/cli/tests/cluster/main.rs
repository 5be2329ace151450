//! `jindou` on a cluster: the binary against the sandbox, and kube-scheduler where it is installed.

mod explain;
mod faults;
mod mistakes;
mod placements;
mod replicas;
mod scheduling;
mod test_cluster;
mod ties;
mod victims;
mod waiting;
