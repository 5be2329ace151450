//! Admission by ResourceQuota: limits the total use of a namespace.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use serde_json::{Map, Value};

use crate::cluster::{Cluster, Part, WriteOptions};
use crate::json::{at, list, map, name, namespace, quantity, slot, text};
use crate::kinds::Resource;
use crate::lock::lock;
use crate::pods;
use crate::quantity::Quantity;
use crate::status_error::{ApiResult, StatusError};

/// Guard that keeps quotas locked until an object that was charged to them is stored.
pub(crate) struct QuotaGuard<'a> {
    _lock: MutexGuard<'a, ()>,
}

type Amounts = BTreeMap<String, Quantity>;

/// Charges an object to the quotas of its namespace, or rejects it.
pub(super) fn charge<'a>(
    cluster: &'a Cluster,
    resource: &Resource,
    object: &Value,
    dry_run: bool,
) -> ApiResult<Option<QuotaGuard<'a>>> {
    let quotas = cluster.resource("", "resourcequotas");
    if quotas.objects.is_empty() || resource.kind.plural == "resourcequotas" {
        return Ok(None);
    }
    let prefix = quotas.prefix(Some(namespace(object)));
    if quotas.objects.list(&prefix).objects.is_empty() {
        return Ok(None);
    }
    let guard = lock(&cluster.quotas);
    let wanted = charges(resource, object);
    for quota in quotas.objects.list(&prefix).objects {
        let quota = quota.value();
        if !in_scope(&quota, resource, object) {
            continue;
        }
        check(resource, object, &quota, &wanted)?;
    }
    if !dry_run {
        for quota in quotas.objects.list(&prefix).objects {
            let value = quota.value();
            if in_scope(&value, resource, object) {
                add(cluster, &quotas, &value, &wanted);
            }
        }
    }
    Ok(Some(QuotaGuard { _lock: guard }))
}

fn check(resource: &Resource, object: &Value, quota: &Value, wanted: &Amounts) -> ApiResult<()> {
    let hard: Vec<(&String, Quantity)> = map(quota, &["spec", "hard"])
        .filter_map(|(name, value)| Some((name, value.as_str().and_then(Quantity::parse)?)))
        .collect();
    let used = |name: &str| quantity(quota, &["status", "used", name]).unwrap_or(Quantity::ZERO);
    if resource.kind.plural == "pods" {
        let missing: Vec<&str> = hard
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| compute_resource(name).is_some() && !sets_resource(object, name))
            .collect();
        if !missing.is_empty() {
            let containers: Vec<&str> = list(object, &["spec", "containers"])
                .iter()
                .map(|one| text(one, &["name"]))
                .collect();
            let parts: Vec<String> = missing
                .iter()
                .map(|name| format!("{name} for: {}", containers.join(",")))
                .collect();
            let why = format!("failed quota: {}: must specify {}", name(quota), parts.join("; "));
            return Err(StatusError::forbidden(resource.group_resource(), name(object), &why));
        }
    }
    let over: Vec<&(&String, Quantity)> = hard
        .iter()
        .filter(|(name, hard)| {
            wanted
                .get(*name)
                .is_some_and(|amount| *amount > Quantity::ZERO && used(name).plus(*amount) > *hard)
        })
        .collect();
    if over.is_empty() {
        return Ok(());
    }
    let shown = |amount: &dyn Fn(&str, Quantity) -> Quantity| {
        let parts: Vec<String> =
            over.iter().map(|(name, hard)| format!("{name}={}", amount(name, *hard))).collect();
        parts.join(",")
    };
    let why = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        name(quota),
        shown(&|name, _| wanted.get(name).copied().unwrap_or(Quantity::ZERO)),
        shown(&|name, _| used(name)),
        shown(&|_, hard| hard),
    );
    Err(StatusError::forbidden(resource.group_resource(), name(object), &why))
}

/// Splits the quota name of a compute resource into `requests` or `limits` and the resource.
fn compute_resource(name: &str) -> Option<(&'static str, &str)> {
    if let Some(resource) = name.strip_prefix("limits.") {
        return Some(("limits", resource));
    }
    if let Some(resource) = name.strip_prefix("requests.") {
        return (resource != "storage").then_some(("requests", resource));
    }
    ["cpu", "memory", "ephemeral-storage"].contains(&name).then_some(("requests", name))
}

/// Returns `true` if all containers of a pod set the resource that a quota counts.
fn sets_resource(pod: &Value, name: &str) -> bool {
    let Some((kind, resource)) = compute_resource(name) else { return true };
    // Upstream requires it for CPU and memory only.
    if !["cpu", "memory"].contains(&resource) {
        return true;
    }
    list(pod, &["spec", "containers"])
        .iter()
        .all(|one| at(one, &["resources", kind, resource]).is_some())
}

/// Returns the amounts charged for an object, by quota name.
pub(crate) fn charges(resource: &Resource, object: &Value) -> Amounts {
    let mut amounts = Amounts::new();
    let one = Quantity::from_milli(1000);
    let kind = &resource.kind;
    let suffix = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    amounts.insert(format!("count/{}{suffix}", kind.plural), one);
    match (&*kind.group, &*kind.plural) {
        ("", "pods") => {
            if pods::is_finished(object) {
                // A finished pod counts as an object only.
                return amounts;
            }
            amounts.insert("pods".to_owned(), one);
            for part in ["requests", "limits"] {
                for name in pods::resources(object, part) {
                    let amount = pods::amount(object, part, &name);
                    if part == "requests"
                        && ["cpu", "memory", "ephemeral-storage"].contains(&&*name)
                    {
                        amounts.insert(name.clone(), amount);
                    }
                    amounts.insert(format!("{part}.{name}"), amount);
                }
            }
        }
        ("", "persistentvolumeclaims") => {
            amounts.insert("persistentvolumeclaims".to_owned(), one);
            let storage = quantity(object, &["spec", "resources", "requests", "storage"]);
            let storage = storage.unwrap_or(Quantity::ZERO);
            amounts.insert("requests.storage".to_owned(), storage);
            let class = text(object, &["spec", "storageClassName"]);
            if !class.is_empty() {
                let prefix = format!("{class}.storageclass.storage.k8s.io");
                amounts.insert(format!("{prefix}/requests.storage"), storage);
                amounts.insert(format!("{prefix}/persistentvolumeclaims"), one);
            }
        }
        ("", "services") => {
            amounts.insert("services".to_owned(), one);
            match text(object, &["spec", "type"]) {
                "LoadBalancer" => drop(amounts.insert("services.loadbalancers".to_owned(), one)),
                "NodePort" => drop(amounts.insert("services.nodeports".to_owned(), one)),
                _ => {}
            }
        }
        ("", "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") => {
            amounts.insert(kind.plural.to_string(), one);
        }
        _ => {}
    }
    amounts
}

/// Returns `true` if an object is in the scopes of a quota.
fn in_scope(quota: &Value, resource: &Resource, object: &Value) -> bool {
    let scopes = list(quota, &["spec", "scopes"]);
    let expressions = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    if scopes.is_empty() && expressions.is_empty() {
        return true;
    }
    if resource.kind.plural != "pods" {
        return false;
    }
    let holds = |scope: &str| {
        let best_effort = pods::qos_class(object) == "BestEffort";
        let terminating = at(object, &["spec", "activeDeadlineSeconds"]).is_some();
        match scope {
            "BestEffort" => best_effort,
            "NotBestEffort" => !best_effort,
            "Terminating" => terminating,
            "NotTerminating" => !terminating,
            "PriorityClass" => !text(object, &["spec", "priorityClassName"]).is_empty(),
            _ => false,
        }
    };
    let class = text(object, &["spec", "priorityClassName"]);
    scopes.iter().filter_map(Value::as_str).all(holds)
        && expressions.iter().all(|expression| {
            let scope = text(expression, &["scopeName"]);
            let named = list(expression, &["values"]).iter().any(|value| value == class);
            match text(expression, &["operator"]) {
                "In" => scope == "PriorityClass" && named,
                "NotIn" => scope == "PriorityClass" && !named,
                "DoesNotExist" => !holds(scope),
                _ => holds(scope),
            }
        })
}

fn add(cluster: &Cluster, quotas: &Resource, quota: &Value, wanted: &Amounts) {
    let hard: Vec<String> = map(quota, &["spec", "hard"]).map(|(name, _)| name.clone()).collect();
    write(cluster, quotas, quota, |before| {
        let used = hard.iter().map(|name| {
            let used = quantity(before, &["status", "used", name]).unwrap_or(Quantity::ZERO);
            let more = wanted.get(name).copied().unwrap_or(Quantity::ZERO);
            (name.clone(), Value::from(used.plus(more).to_string()))
        });
        used.collect()
    });
}

fn write(
    cluster: &Cluster,
    quotas: &Resource,
    quota: &Value,
    used: impl Fn(&Value) -> Map<String, Value>,
) {
    let options = WriteOptions::default();
    // The quota may have been deleted meanwhile.
    let _ = cluster.change(
        quotas,
        namespace(quota),
        name(quota),
        Part::Status,
        &options,
        |_, before| {
            let mut object = before.clone();
            let hard = at(before, &["spec", "hard"]).cloned().unwrap_or_default();
            let used = used(before);
            let status = slot(&mut object, &["status"]);
            status["hard"] = hard;
            status["used"] = Value::Object(used);
            Ok(Some(object))
        },
    );
}

/// Recounts the used amounts of the quotas of a namespace.
pub(super) fn recount(cluster: &Cluster, of: &str) {
    let quotas = cluster.resource("", "resourcequotas");
    let prefix = quotas.prefix(Some(of));
    let present = quotas.objects.list(&prefix).objects;
    if present.is_empty() {
        return;
    }
    let _lock = lock(&cluster.quotas);
    let resources = cluster.kinds.all();
    for quota in present {
        let quota = quota.value();
        let hard: Vec<String> =
            map(&quota, &["spec", "hard"]).map(|(name, _)| name.clone()).collect();
        let mut sums = Amounts::new();
        for resource in resources.iter().filter(|resource| counted(resource, &hard)) {
            for object in resource.objects.list(&resource.prefix(Some(of))).objects {
                let value = object.value();
                if in_scope(&quota, resource, &value) {
                    for (name, amount) in charges(resource, &value) {
                        let sum = sums.entry(name).or_insert(Quantity::ZERO);
                        *sum = sum.plus(amount);
                    }
                }
            }
        }
        write(cluster, &quotas, &quota, |_| {
            let used = hard.iter().map(|name| {
                (name.clone(), sums.get(name).copied().unwrap_or(Quantity::ZERO).to_string().into())
            });
            used.collect()
        });
    }
}

/// Returns `true` if a quota with these names may count objects of a kind.
fn counted(resource: &Resource, hard: &[String]) -> bool {
    let kind = &resource.kind;
    if !kind.namespaced
        || kind.strategy.stored_as.is_some()
        || kind.strategy.verbs != crate::kinds::Verbs::All
    {
        return false;
    }
    if ["pods", "persistentvolumeclaims", "services"].contains(&&*kind.plural)
        && kind.group.is_empty()
    {
        return true;
    }
    hard.iter()
        .any(|name| *name == kind.plural || name.starts_with(&format!("count/{}", kind.plural)))
}
