//! Discovery of groups, versions and kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use super::ServerState;
use super::response::{Body, json_value};
use super::routes::RequestHead;
use crate::cluster::Cluster;
use crate::kinds::{Kind, Resource, Verbs};
use crate::status_error::{ApiResult, StatusError};

const AGGREGATED: &str = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the version of the server: that of the upstream release whose behaviour it follows.
pub(super) fn version() -> String {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let members = [
        ("major", "1"),
        ("minor", "36"),
        ("emulationMajor", "1"),
        ("emulationMinor", "36"),
        ("minCompatibilityMajor", "1"),
        ("minCompatibilityMinor", "35"),
        ("gitVersion", "v1.36.4+jindou"),
        ("gitCommit", ""),
        ("gitTreeState", "clean"),
        ("buildDate", "1970-01-01T00:00:00Z"),
        ("goVersion", "none"),
        ("compiler", "rustc"),
        ("platform", &platform),
    ];
    let lines: Vec<String> =
        members.iter().map(|(name, value)| format!("  \"{name}\": \"{value}\"")).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

/// Returns the served root paths.
pub(super) fn paths(cluster: &Cluster) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in groups(cluster) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.keys().map(|version| format!("/apis/{group}/{version}")));
    }
    for path in ["/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"] {
        paths.push(path.to_owned());
    }
    json!({"paths": paths})
}

type Versions = BTreeMap<String, Vec<Arc<Resource>>>;

/// Returns the kinds of all groups but the core group, by group and version.
fn groups(cluster: &Cluster) -> BTreeMap<String, Versions> {
    let mut groups: BTreeMap<String, Versions> = BTreeMap::new();
    for resource in cluster.kinds.all() {
        let kind = &resource.kind;
        if !kind.group.is_empty() {
            let versions = groups.entry(kind.group.to_string()).or_default();
            versions.entry(kind.version.to_string()).or_default().push(Arc::clone(&resource));
        }
    }
    groups
}

fn core(cluster: &Cluster) -> Vec<Arc<Resource>> {
    cluster.kinds.all().into_iter().filter(|resource| resource.kind.group.is_empty()).collect()
}

/// Returns versions in order of preference: stable, beta, alpha, and higher numbers first.
fn ordered(versions: &Versions) -> Vec<(&String, &Vec<Arc<Resource>>)> {
    let mut ordered: Vec<_> = versions.iter().collect();
    ordered.sort_by_key(|(version, _)| {
        let stage = if version.contains("alpha") { 2 } else { i32::from(version.contains("beta")) };
        let number: i64 = version
            .trim_start_matches('v')
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        (stage, -number)
    });
    ordered
}

/// Answers a discovery request.
pub(super) fn answer(
    shared: &ServerState,
    head: &RequestHead,
    segments: &[&str],
) -> ApiResult<Response<Body>> {
    let cluster = &shared.cluster;
    let aggregated = head
        .accept()
        .split(',')
        .any(|one| one.contains("g=apidiscovery.k8s.io") && one.contains("v=v2;"));
    match segments {
        ["api"] if aggregated => {
            let mut versions = Versions::new();
            versions.insert("v1".to_owned(), core(cluster));
            Ok(aggregate(&[("", &versions)]))
        }
        ["apis"] if aggregated => {
            let groups = groups(cluster);
            let groups: Vec<(&str, &Versions)> =
                groups.iter().map(|(name, versions)| (&**name, versions)).collect();
            Ok(aggregate(&groups))
        }
        ["api"] => Ok(json_value(
            200,
            &json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": shared.address.to_string()}],
            }),
        )),
        ["apis"] => {
            let groups: Vec<Value> = groups(cluster)
                .iter()
                .map(|(name, versions)| group(name, versions, false))
                .collect();
            Ok(json_value(
                200,
                &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            ))
        }
        ["api", "v1"] => Ok(json_value(200, &resources("v1", &core(cluster)))),
        ["apis", name] => match groups(cluster).get(*name) {
            Some(versions) => Ok(json_value(200, &group(name, versions, true))),
            None => Err(StatusError::no_such_path()),
        },
        ["apis", name, version] => {
            match groups(cluster).get(*name).and_then(|versions| versions.get(*version)) {
                Some(found) => Ok(json_value(200, &resources(&format!("{name}/{version}"), found))),
                None => Err(StatusError::no_such_path()),
            }
        }
        _ => Err(StatusError::no_such_path()),
    }
}

fn group(name: &str, versions: &Versions, alone: bool) -> Value {
    let versions: Vec<Value> = ordered(versions)
        .iter()
        .map(
            |(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}),
        )
        .collect();
    let mut group =
        json!({"name": name, "preferredVersion": versions.first(), "versions": versions});
    if alone {
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
    }
    group
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    match kind.strategy.verbs {
        Verbs::All => {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
        Verbs::Create => &["create"],
        Verbs::Read => &["get", "list"],
    }
}

/// Returns the subresources of a kind: name; group, version and kind of their bodies; verbs.
fn subresources(kind: &Kind) -> Vec<(&str, &str, &str, &str, &'static [&'static str])> {
    let mut all: Vec<(&str, &str, &str, &str, &'static [&'static str])> = kind
        .strategy
        .subresources
        .iter()
        .map(|&name| match name {
            "binding" => (name, "", "v1", "Binding", &["create"][..]),
            "eviction" => (name, "policy", "v1", "Eviction", &["create"][..]),
            "token" => (name, "authentication.k8s.io", "v1", "TokenRequest", &["create"][..]),
            "log" => (name, "", "v1", &*kind.kind, &["get"][..]),
            "finalize" => (name, "", "v1", &*kind.kind, &["update"][..]),
            "exec" => (name, "", "v1", "PodExecOptions", &["create", "get"][..]),
            "attach" => (name, "", "v1", "PodAttachOptions", &["create", "get"][..]),
            "portforward" => (name, "", "v1", "PodPortForwardOptions", &["create", "get"][..]),
            "proxy" => (
                name,
                "",
                "v1",
                "PodProxyOptions",
                &["create", "delete", "get", "patch", "update"][..],
            ),
            _ => (name, "", "v1", &*kind.kind, &["get", "patch", "update"][..]),
        })
        .collect();
    if kind.scale.is_some() {
        all.push(("scale", "autoscaling", "v1", "Scale", &["get", "patch", "update"]));
    }
    if kind.status {
        all.push(("status", &kind.group, &kind.version, &kind.kind, &["get", "patch", "update"]));
    }
    all.sort_unstable_by_key(|(name, ..)| *name);
    all
}

fn resources(group_version: &str, found: &[Arc<Resource>]) -> Value {
    let mut all = Vec::new();
    for resource in found {
        let kind = &resource.kind;
        let mut entry = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs(kind),
        });
        if !kind.short.is_empty() {
            entry["shortNames"] = json!(kind.short);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        all.push(entry);
        for (name, group, version, of, verbs) in subresources(kind) {
            let mut entry = json!({
                "name": format!("{}/{name}", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": of, "verbs": verbs,
            });
            if group != kind.group {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            all.push(entry);
        }
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": all})
}

fn aggregate(groups: &[(&str, &Versions)]) -> Response<Body> {
    let items: Vec<Value> = groups
        .iter()
        .map(|(name, versions)| {
            let versions: Vec<Value> = ordered(versions)
                .into_iter()
                .map(|(version, resources)| {
                    let resources: Vec<Value> =
                        resources.iter().map(|resource| aggregated(resource)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    let mut response = json_value(200, &list);
    if let Ok(value) = HeaderValue::from_str(&format!("application/json;{AGGREGATED}")) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

fn aggregated(resource: &Resource) -> Value {
    let kind = &resource.kind;
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(name, group, version, of, verbs)| {
            json!({
                "subresource": name, "verbs": verbs,
                "responseKind": {"group": group, "version": version, "kind": of},
            })
        })
        .collect();
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    if !kind.short.is_empty() {
        entry["shortNames"] = json!(kind.short);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}
