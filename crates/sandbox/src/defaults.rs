//! Defaulting of built-in kinds, as upstream.

use serde_json::{Value, json};

use crate::json::{at, default, default_text, list, map, members, object, slot, text, truth};

fn each(value: &mut Value, name: &str, apply: impl Fn(&mut Value)) {
    if let Some(items) = value.get_mut(name).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(apply);
    }
}

/// Applies the defaults of a pod.
pub(crate) fn pod(pod: &mut Value) {
    let spec = slot(pod, &["spec"]);
    pod_spec(spec);
    for kind in ["containers", "initContainers"] {
        each(spec, kind, |container| {
            let limits: Vec<(String, Value)> = map(container, &["resources", "limits"])
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            for (name, value) in limits {
                default(slot(container, &["resources", "requests"]), &name, value);
            }
        });
    }
    default(spec, "enableServiceLinks", true);
    let qos = crate::pods::qos_class(pod);
    let status = slot(pod, &["status"]);
    default_text(status, "phase", "Pending");
    default_text(status, "qosClass", qos);
}

fn pod_spec(spec: &mut Value) {
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "securityContext", json!({}));
    let host = truth(spec, &["hostNetwork"]);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, kind, |one| container(one, host));
    }
    each(spec, "volumes", volume);
    let account = text(spec, &["serviceAccountName"]).to_owned();
    if !account.is_empty() {
        default_text(spec, "serviceAccount", &account);
    }
    each(spec, "topologySpreadConstraints", |constraint| {
        default_text(constraint, "whenUnsatisfiable", "DoNotSchedule");
    });
}

fn container(container: &mut Value, host: bool) {
    let image = text(container, &["image"]);
    let tag = image.rsplit('/').next().and_then(|last| last.rsplit_once(':')).map(|(_, tag)| tag);
    let latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    let policy = if latest { "Always" } else { "IfNotPresent" };
    default_text(container, "imagePullPolicy", policy);
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default(container, "resources", json!({}));
    each(container, "ports", |port| {
        default_text(port, "protocol", "TCP");
        if let Some(number) = port.get("containerPort").cloned().filter(|_| host) {
            default(port, "hostPort", number);
        }
    });
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(kind) {
            for (name, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                default(probe, name, value);
            }
            http_get(probe);
        }
    }
    for kind in ["postStart", "preStop"] {
        if let Some(handler) = container.get_mut("lifecycle").and_then(|all| all.get_mut(kind)) {
            http_get(handler);
        }
    }
    each(container, "env", |variable| {
        if let Some(field) = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"))
        {
            default_text(field, "apiVersion", "v1");
        }
    });
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    for kind in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(kind) {
            default(source, "defaultMode", 420);
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default(path, "type", "");
    }
    let alone = volume.as_object().is_some_and(|members| members.len() == 1);
    if alone && volume.get("name").is_some() {
        default(volume, "emptyDir", json!({}));
    }
    if let Some(template) =
        volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate"))
    {
        default_text(slot(template, &["spec"]), "volumeMode", "Filesystem");
    }
}

fn template(workload: &mut Value) {
    pod_spec(slot(workload, &["spec", "template", "spec"]));
}

/// Applies the defaults of a namespace.
pub(crate) fn namespace(namespace: &mut Value) {
    let name = crate::json::name(namespace).to_owned();
    default(slot(namespace, &["metadata", "labels"]), "kubernetes.io/metadata.name", name);
    default(slot(namespace, &["spec"]), "finalizers", json!(["kubernetes"]));
    default_text(slot(namespace, &["status"]), "phase", "Active");
}

/// Applies the defaults of a service.
pub(crate) fn service(service: &mut Value) {
    let spec = slot(service, &["spec"]);
    default_text(spec, "sessionAffinity", "None");
    default_text(spec, "type", "ClusterIP");
    default_text(spec, "internalTrafficPolicy", "Cluster");
    each(spec, "ports", |port| {
        default_text(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default(port, "targetPort", number);
        }
    });
    if text(spec, &["type"]) != "ExternalName" {
        default_text(spec, "ipFamilyPolicy", "SingleStack");
        default(spec, "ipFamilies", json!(["IPv4"]));
    }
    object(service, "status").entry("loadBalancer").or_insert_with(|| json!({}));
}

/// Applies the defaults of a secret.
pub(crate) fn secret(secret: &mut Value) {
    default_text(secret, "type", "Opaque");
    // `stringData` is stored as base64 in `data`.
    if let Some(Value::Object(texts)) = members(secret).remove("stringData") {
        use base64::Engine as _;
        let data = object(secret, "data");
        for (key, text) in texts {
            let encoded =
                base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
}

/// Applies the defaults of a replica set or replication controller.
pub(crate) fn replicas(set: &mut Value) {
    template(set);
    let labels = at(set, &["spec", "template", "metadata", "labels"]).cloned();
    let old = text(set, &["kind"]) == "ReplicationController";
    let spec = slot(set, &["spec"]);
    default(spec, "replicas", 1);
    if let Some(labels) = labels.filter(|_| old) {
        default(spec, "selector", labels.clone());
        default(slot(set, &["metadata"]), "labels", labels);
    }
    default(slot(set, &["status"]), "replicas", 0);
}

/// Applies the defaults of a deployment.
pub(crate) fn deployment(deployment: &mut Value) {
    template(deployment);
    let spec = slot(deployment, &["spec"]);
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    let strategy = slot(spec, &["strategy"]);
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, &["type"]) == "RollingUpdate" {
        let rolling = slot(strategy, &["rollingUpdate"]);
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
}

/// Applies the defaults of a stateful set.
pub(crate) fn stateful_set(set: &mut Value) {
    template(set);
    let spec = slot(set, &["spec"]);
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default_text(spec, "podManagementPolicy", "OrderedReady");
    default(
        spec,
        "persistentVolumeClaimRetentionPolicy",
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    let strategy = slot(spec, &["updateStrategy"]);
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, &["type"]) == "RollingUpdate" {
        default(slot(strategy, &["rollingUpdate"]), "partition", 0);
    }
    each(spec, "volumeClaimTemplates", |claim| {
        default_text(claim, "apiVersion", "v1");
        default_text(claim, "kind", "PersistentVolumeClaim");
        persistent_volume_claim(claim);
    });
    let status = slot(set, &["status"]);
    default(status, "replicas", 0);
    default(status, "availableReplicas", 0);
}

/// Applies the defaults of a daemon set.
pub(crate) fn daemon_set(set: &mut Value) {
    template(set);
    let spec = slot(set, &["spec"]);
    default(spec, "revisionHistoryLimit", 10);
    let strategy = slot(spec, &["updateStrategy"]);
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, &["type"]) == "RollingUpdate" {
        let rolling = slot(strategy, &["rollingUpdate"]);
        default(rolling, "maxUnavailable", 1);
        default(rolling, "maxSurge", 0);
    }
    let status = slot(set, &["status"]);
    for name in
        ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"]
    {
        default(status, name, 0);
    }
}

/// Applies the defaults of a job.
pub(crate) fn job(job: &mut Value) {
    template(job);
    let uid = crate::json::uid(job).to_owned();
    let name = crate::json::name(job).to_owned();
    let manual = truth(job, &["spec", "manualSelector"]);
    let spec = slot(job, &["spec"]);
    job_spec(spec);
    // The labels that select the pods of a job contain its uid.
    if !manual && !uid.is_empty() && spec.get("selector").is_none() {
        let labels = slot(spec, &["template", "metadata", "labels"]);
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            default(labels, key, value.as_str());
        }
        members(spec).insert(
            "selector".to_owned(),
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
        );
    }
    slot(job, &["status"]);
    if job["status"].is_null() {
        job["status"] = json!({});
    }
}

fn job_spec(spec: &mut Value) {
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    default(spec, "backoffLimit", 6);
    default_text(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    let replacement =
        if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    default_text(spec, "podReplacementPolicy", replacement);
}

/// Applies the defaults of a cron job.
pub(crate) fn cron_job(job: &mut Value) {
    let spec = slot(job, &["spec"]);
    default_text(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    pod_spec(slot(spec, &["jobTemplate", "spec", "template", "spec"]));
}

/// Applies the defaults of a persistent volume.
pub(crate) fn persistent_volume(volume: &mut Value) {
    let spec = slot(volume, &["spec"]);
    default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_text(spec, "volumeMode", "Filesystem");
    default_text(slot(volume, &["status"]), "phase", "Pending");
}

/// Applies the defaults of a persistent volume claim.
pub(crate) fn persistent_volume_claim(claim: &mut Value) {
    default_text(slot(claim, &["spec"]), "volumeMode", "Filesystem");
    default_text(slot(claim, &["status"]), "phase", "Pending");
}

/// Applies the defaults of a storage class.
pub(crate) fn storage_class(class: &mut Value) {
    default_text(class, "reclaimPolicy", "Delete");
    default_text(class, "volumeBindingMode", "Immediate");
}

/// Applies the defaults of a CSI driver.
pub(crate) fn csi_driver(driver: &mut Value) {
    let spec = slot(driver, &["spec"]);
    for (name, value) in [
        ("attachRequired", true),
        ("podInfoOnMount", false),
        ("storageCapacity", false),
        ("requiresRepublish", false),
        ("seLinuxMount", false),
    ] {
        default(spec, name, value);
    }
    default_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

/// Applies the defaults of a HorizontalPodAutoscaler.
pub(crate) fn autoscaler(autoscaler: &mut Value) {
    let spec = slot(autoscaler, &["spec"]);
    default(spec, "minReplicas", 1);
    if list(spec, &["metrics"]).is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([
            {"type": "Resource", "resource": {"name": "cpu", "target": target}},
        ]);
    }
}

/// Applies the defaults of a priority class.
pub(crate) fn priority_class(class: &mut Value) {
    default_text(class, "preemptionPolicy", "PreemptLowerPriority");
}

/// Applies the defaults of a custom resource definition.
pub(crate) fn definition(definition: &mut Value) {
    let kind = text(definition, &["spec", "names", "kind"]).to_owned();
    let has_plural = !list(definition, &["spec", "versions"]).is_empty();
    let spec = slot(definition, &["spec"]);
    default(spec, "conversion", json!({"strategy": "None"}));
    if has_plural && !kind.is_empty() {
        let names = slot(spec, &["names"]);
        default_text(names, "singular", &kind.to_lowercase());
        default_text(names, "listKind", &format!("{kind}List"));
    }
}
