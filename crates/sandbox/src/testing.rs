//! What tests of this crate share.

use serde_json::{Value, json};

use crate::cluster::{Cluster, WriteOptions};

/// A cluster with the namespace `default`.
pub(crate) fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let namespaces = cluster.resource("", "namespaces");
    let object = json!({"metadata": {"name": "default"}});
    cluster.create(&namespaces, "", object, &WriteOptions::default()).unwrap();
    cluster
}

/// A small pod.
pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}})
}
