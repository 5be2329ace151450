//! Fixtures for tests of this crate.

use serde_json::{Value, json};

use crate::cluster::{Cluster, WriteOptions};

/// Returns a cluster with the namespace `default`.
pub(crate) fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let namespaces = cluster.resource("", "namespaces");
    let object = json!({"metadata": {"name": "default"}});
    cluster.create(&namespaces, "", object, &WriteOptions::default()).unwrap();
    cluster
}

/// Returns a minimal pod.
pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}})
}
