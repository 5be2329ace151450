//! The table of built-in kinds.

use k8s_openapi::api::admissionregistration::v1 as admission;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::authorization::v1 as authorization;
use k8s_openapi::api::autoscaling::v2 as autoscaling;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::api::node::v1 as node;
use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::api::resource::v1 as resource;
use k8s_openapi::api::scheduling::v1 as scheduling;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

use super::row::{Row, Verbs, field, row};
use crate::names::NameRule;
use crate::store::SelectableField;
use crate::{defaults, tables as show, validation};

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const RESOURCE: (&str, &str) = ("resource.k8s.io", "v1");
const AUTHORIZATION: (&str, &str) = ("authorization.k8s.io", "v1");
const METRICS: (&str, &str) = ("metrics.k8s.io", "v1beta1");

const POD_FIELDS: &[SelectableField] = &[
    field("metadata.name"),
    field("metadata.namespace"),
    field("spec.nodeName"),
    field("spec.restartPolicy"),
    field("spec.schedulerName"),
    field("spec.serviceAccountName"),
    SelectableField { name: "spec.hostNetwork", default: "false" },
    field("status.phase"),
    field("status.podIP"),
    field("status.nominatedNodeName"),
];
const NODE_FIELDS: &[SelectableField] =
    &[field("metadata.name"), SelectableField { name: "spec.unschedulable", default: "false" }];
const NAMESPACE_FIELDS: &[SelectableField] = &[field("metadata.name"), field("status.phase")];
const REPLICA_FIELDS: &[SelectableField] = &[
    field("metadata.name"),
    field("metadata.namespace"),
    SelectableField { name: "status.replicas", default: "0" },
];
const JOB_FIELDS: &[SelectableField] = &[
    field("metadata.name"),
    field("metadata.namespace"),
    SelectableField { name: "status.successful", default: "0" },
];
const SECRET_FIELDS: &[SelectableField] =
    &[field("metadata.name"), field("metadata.namespace"), field("type")];
const SERVICE_FIELDS: &[SelectableField] = &[
    field("metadata.name"),
    field("metadata.namespace"),
    field("spec.clusterIP"),
    field("spec.type"),
];
const CLASS_FIELDS: &[SelectableField] =
    &[field("metadata.name"), SelectableField { name: "globalDefault", default: "false" }];
const SLICE_FIELDS: &[SelectableField] =
    &[field("metadata.name"), field("spec.nodeName"), field("spec.driver")];
const EVENT_FIELDS: &[SelectableField] = &[
    field("metadata.name"),
    field("metadata.namespace"),
    field("involvedObject.kind"),
    field("involvedObject.namespace"),
    field("involvedObject.name"),
    field("involvedObject.uid"),
    field("involvedObject.apiVersion"),
    field("involvedObject.resourceVersion"),
    field("involvedObject.fieldPath"),
    field("reason"),
    field("reportingComponent"),
    field("source.component"),
    field("type"),
];

/// All built-in kinds. A kind that shares the objects of another one comes after it.
pub const TABLE: &[Row] = &[
    row::<core::Pod>(CORE, "Pod", ("pods", "pod"))
        .short(&["po"])
        .in_all()
        .status()
        .generations()
        .fields(POD_FIELDS)
        .indexed(2)
        .subresources(&[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
        ])
        .defaults(defaults::pod)
        .validate(validation::pod)
        .shown(
            "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
            show::pods::cells,
        ),
    row::<core::Node>(CORE, "Node", ("nodes", "node"))
        .cluster()
        .short(&["no"])
        .status()
        .fields(NODE_FIELDS)
        .subresources(&["proxy"])
        .validate(validation::node)
        .shown(
            "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
            show::nodes::cells,
        ),
    row::<core::Namespace>(CORE, "Namespace", ("namespaces", "namespace"))
        .cluster()
        .short(&["ns"])
        .status()
        .fields(NAMESPACE_FIELDS)
        .subresources(&["finalize"])
        .names(NameRule::Label)
        .defaults(defaults::namespace)
        .shown("Name|Status|Age", show::plain::namespace),
    row::<core::Service>(CORE, "Service", ("services", "service"))
        .short(&["svc"])
        .in_all()
        .status()
        .fields(SERVICE_FIELDS)
        .names(NameRule::Dns1035)
        .defaults(defaults::service)
        .validate(validation::service)
        .shown(
            "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*",
            show::plain::service,
        ),
    row::<core::Endpoints>(CORE, "Endpoints", ("endpoints", "endpoints"))
        .short(&["ep"])
        .shown("Name|Endpoints|Age", show::plain::endpoints),
    row::<core::ReplicationController>(
        CORE,
        "ReplicationController",
        ("replicationcontrollers", "replicationcontroller"),
    )
    .short(&["rc"])
    .in_all()
    .status()
    .generations()
    .scale("spec.selector")
    .fields(REPLICA_FIELDS)
    .defaults(defaults::replicas)
    .shown(
        "Name|Desired|Current|Ready|Age|Containers*|Images*|Selector*",
        show::workloads::replicas,
    ),
    row::<core::Event>(CORE, "Event", ("events", "event"))
        .short(&["ev"])
        .fields(EVENT_FIELDS)
        .shown(
            "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
            show::plain::event,
        ),
    row::<events::Event>(("events.k8s.io", "v1"), "Event", ("events", "event"))
        .short(&["ev"])
        .fields(EVENT_FIELDS)
        .stored_as("", "events")
        .shown(
            "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
            show::plain::event,
        ),
    row::<core::ConfigMap>(CORE, "ConfigMap", ("configmaps", "configmap"))
        .short(&["cm"])
        .shown("Name|Data|Age", show::plain::config_map),
    row::<core::Secret>(CORE, "Secret", ("secrets", "secret"))
        .fields(SECRET_FIELDS)
        .defaults(defaults::secret)
        .shown("Name|Type|Data|Age", show::plain::secret),
    row::<core::ServiceAccount>(CORE, "ServiceAccount", ("serviceaccounts", "serviceaccount"))
        .short(&["sa"])
        .subresources(&["token"]),
    row::<core::LimitRange>(CORE, "LimitRange", ("limitranges", "limitrange"))
        .short(&["limits"])
        .shown("Name|Created At", show::plain::limit_range),
    row::<core::ResourceQuota>(CORE, "ResourceQuota", ("resourcequotas", "resourcequota"))
        .short(&["quota"])
        .status()
        .shown("Name|Request|Limit|Age", show::plain::resource_quota),
    row::<core::PodTemplate>(CORE, "PodTemplate", ("podtemplates", "podtemplate"))
        .shown("Name|Containers|Images|Pod Labels", show::workloads::pod_template),
    row::<core::PersistentVolume>(
        CORE,
        "PersistentVolume",
        ("persistentvolumes", "persistentvolume"),
    )
    .cluster()
    .short(&["pv"])
    .status()
    .defaults(defaults::persistent_volume)
    .validate(validation::persistent_volume)
    .shown(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
        show::storage::volume,
    ),
    row::<core::PersistentVolumeClaim>(
        CORE,
        "PersistentVolumeClaim",
        ("persistentvolumeclaims", "persistentvolumeclaim"),
    )
    .short(&["pvc"])
    .status()
    .defaults(defaults::persistent_volume_claim)
    .validate(validation::persistent_volume_claim)
    .shown(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
        show::storage::claim,
    ),
    row::<apps::Deployment>(APPS, "Deployment", ("deployments", "deployment"))
        .short(&["deploy"])
        .in_all()
        .status()
        .generations()
        .scale("spec.selector")
        .defaults(defaults::deployment)
        .validate(validation::deployment)
        .shown(
            "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
            show::workloads::deployment,
        ),
    row::<apps::ReplicaSet>(APPS, "ReplicaSet", ("replicasets", "replicaset"))
        .short(&["rs"])
        .in_all()
        .status()
        .generations()
        .scale("spec.selector")
        .fields(REPLICA_FIELDS)
        .defaults(defaults::replicas)
        .validate(validation::replica_set)
        .shown(
            "Name|Desired|Current|Ready|Age|Containers*|Images*|Selector*",
            show::workloads::replicas,
        ),
    row::<apps::StatefulSet>(APPS, "StatefulSet", ("statefulsets", "statefulset"))
        .short(&["sts"])
        .in_all()
        .status()
        .generations()
        .scale("spec.selector")
        .defaults(defaults::stateful_set)
        .validate(validation::stateful_set)
        .shown("Name|Ready|Age|Containers*|Images*", show::workloads::stateful_set),
    row::<apps::DaemonSet>(APPS, "DaemonSet", ("daemonsets", "daemonset"))
        .short(&["ds"])
        .in_all()
        .status()
        .generations()
        .defaults(defaults::daemon_set)
        .validate(validation::daemon_set)
        .shown(
            "Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age|Containers*|Images*|Selector*",
            show::workloads::daemon_set,
        ),
    row::<apps::ControllerRevision>(
        APPS,
        "ControllerRevision",
        ("controllerrevisions", "controllerrevision"),
    )
    .shown("Name|Controller|Revision|Age", show::workloads::revision),
    row::<batch::Job>(BATCH, "Job", ("jobs", "job"))
        .in_all()
        .status()
        .generations()
        .fields(JOB_FIELDS)
        .defaults(defaults::job)
        .validate(validation::job)
        .shown(
            "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
            show::workloads::job,
        ),
    row::<batch::CronJob>(BATCH, "CronJob", ("cronjobs", "cronjob"))
        .short(&["cj"])
        .in_all()
        .status()
        .generations()
        .defaults(defaults::cron_job)
        .validate(validation::cron_job)
        .shown(
            "Name|Schedule|Timezone|Suspend|Active|Last Schedule|Age|Containers*|Images*|Selector*",
            show::workloads::cron_job,
        ),
    row::<policy::PodDisruptionBudget>(
        ("policy", "v1"),
        "PodDisruptionBudget",
        ("poddisruptionbudgets", "poddisruptionbudget"),
    )
    .short(&["pdb"])
    .status()
    .generations()
    .validate(validation::disruption_budget)
    .shown(
        "Name|Min Available|Max Unavailable|Allowed Disruptions|Age",
        show::plain::disruption_budget,
    ),
    row::<storage::StorageClass>(STORAGE, "StorageClass", ("storageclasses", "storageclass"))
        .cluster()
        .short(&["sc"])
        .defaults(defaults::storage_class)
        .validate(validation::storage_class)
        .shown(
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
            show::storage::class,
        ),
    row::<storage::CSINode>(STORAGE, "CSINode", ("csinodes", "csinode"))
        .cluster()
        .shown("Name|Drivers|Age", show::storage::csi_node),
    row::<storage::CSIDriver>(STORAGE, "CSIDriver", ("csidrivers", "csidriver"))
        .cluster()
        .defaults(defaults::csi_driver)
        .shown(
            "Name|AttachRequired|PodInfoOnMount|StorageCapacity|TokenRequests|RequiresRepublish|Modes|Age",
            show::storage::csi_driver,
        ),
    row::<storage::CSIStorageCapacity>(
        STORAGE,
        "CSIStorageCapacity",
        ("csistoragecapacities", "csistoragecapacity"),
    )
    .shown("StorageClassName|Capacity", show::storage::capacity),
    row::<storage::VolumeAttachment>(
        STORAGE,
        "VolumeAttachment",
        ("volumeattachments", "volumeattachment"),
    )
    .cluster()
    .status()
    .shown("Name|Attacher|PV|Node|Attached|Age", show::storage::attachment),
    row::<storage::VolumeAttributesClass>(
        STORAGE,
        "VolumeAttributesClass",
        ("volumeattributesclasses", "volumeattributesclass"),
    )
    .cluster()
    .short(&["vac"])
    .shown("Name|DriverName|Age", show::storage::attributes_class),
    row::<scheduling::PriorityClass>(
        ("scheduling.k8s.io", "v1"),
        "PriorityClass",
        ("priorityclasses", "priorityclass"),
    )
    .cluster()
    .short(&["pc"])
    .fields(CLASS_FIELDS)
    .defaults(defaults::priority_class)
    .validate(validation::priority_class)
    .shown("Name|Value|Global-Default|Age|PreemptionPolicy", show::plain::priority_class),
    row::<coordination::Lease>(("coordination.k8s.io", "v1"), "Lease", ("leases", "lease"))
        .shown("Name|Holder|Age", show::plain::lease),
    row::<resource::DeviceClass>(RESOURCE, "DeviceClass", ("deviceclasses", "deviceclass"))
        .cluster()
        .generations(),
    row::<resource::ResourceClaim>(RESOURCE, "ResourceClaim", ("resourceclaims", "resourceclaim"))
        .status()
        .shown("Name|State|Age", show::plain::resource_claim),
    row::<resource::ResourceClaimTemplate>(
        RESOURCE,
        "ResourceClaimTemplate",
        ("resourceclaimtemplates", "resourceclaimtemplate"),
    ),
    row::<resource::ResourceSlice>(RESOURCE, "ResourceSlice", ("resourceslices", "resourceslice"))
        .cluster()
        .fields(SLICE_FIELDS)
        .shown("Name|Node|Driver|Pool|Age", show::plain::resource_slice),
    row::<autoscaling::HorizontalPodAutoscaler>(
        ("autoscaling", "v2"),
        "HorizontalPodAutoscaler",
        ("horizontalpodautoscalers", "horizontalpodautoscaler"),
    )
    .short(&["hpa"])
    .in_all()
    .status()
    .defaults(defaults::autoscaler)
    .shown("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", show::plain::autoscaler),
    row::<networking::Ingress>(NETWORKING, "Ingress", ("ingresses", "ingress"))
        .short(&["ing"])
        .status()
        .generations(),
    row::<networking::IngressClass>(NETWORKING, "IngressClass", ("ingressclasses", "ingressclass"))
        .cluster(),
    row::<networking::NetworkPolicy>(
        NETWORKING,
        "NetworkPolicy",
        ("networkpolicies", "networkpolicy"),
    )
    .short(&["netpol"])
    .generations()
    .shown("Name|Pod-Selector|Age", show::plain::network_policy),
    row::<discovery::EndpointSlice>(
        ("discovery.k8s.io", "v1"),
        "EndpointSlice",
        ("endpointslices", "endpointslice"),
    ),
    row::<node::RuntimeClass>(
        ("node.k8s.io", "v1"),
        "RuntimeClass",
        ("runtimeclasses", "runtimeclass"),
    )
    .cluster()
    .shown("Name|Handler|Age", show::plain::runtime_class),
    row::<rbac::Role>(RBAC, "Role", ("roles", "role"))
        .names(NameRule::Path)
        .shown("Name|Created At", show::plain::limit_range),
    row::<rbac::RoleBinding>(RBAC, "RoleBinding", ("rolebindings", "rolebinding"))
        .names(NameRule::Path)
        .shown(
            "Name|Role|Age|Users*|Groups*|ServiceAccounts*",
            show::plain::role_binding,
        ),
    row::<rbac::ClusterRole>(RBAC, "ClusterRole", ("clusterroles", "clusterrole"))
        .cluster()
        .names(NameRule::Path)
        .shown("Name|Created At", show::plain::limit_range),
    row::<rbac::ClusterRoleBinding>(
        RBAC,
        "ClusterRoleBinding",
        ("clusterrolebindings", "clusterrolebinding"),
    )
    .cluster()
    .names(NameRule::Path)
    .shown("Name|Role|Age|Users*|Groups*|ServiceAccounts*", show::plain::role_binding),
    row::<admission::ValidatingWebhookConfiguration>(
        ("admissionregistration.k8s.io", "v1"),
        "ValidatingWebhookConfiguration",
        ("validatingwebhookconfigurations", "validatingwebhookconfiguration"),
    )
    .cluster()
    .categories(&["api-extensions"])
    .generations(),
    row::<admission::MutatingWebhookConfiguration>(
        ("admissionregistration.k8s.io", "v1"),
        "MutatingWebhookConfiguration",
        ("mutatingwebhookconfigurations", "mutatingwebhookconfiguration"),
    )
    .cluster()
    .categories(&["api-extensions"])
    .generations(),
    row::<extensions::CustomResourceDefinition>(
        ("apiextensions.k8s.io", "v1"),
        "CustomResourceDefinition",
        ("customresourcedefinitions", "customresourcedefinition"),
    )
    .cluster()
    .short(&["crd", "crds"])
    .categories(&["api-extensions"])
    .status()
    .generations()
    .validate(validation::definition)
    .defaults(defaults::definition)
    .shown("Name|Created At", show::plain::limit_range),
    row::<authentication::TokenReview>(
        ("authentication.k8s.io", "v1"),
        "TokenReview",
        ("tokenreviews", "tokenreview"),
    )
    .cluster()
    .verbs(Verbs::Create),
    row::<authentication::SelfSubjectReview>(
        ("authentication.k8s.io", "v1"),
        "SelfSubjectReview",
        ("selfsubjectreviews", "selfsubjectreview"),
    )
    .cluster()
    .verbs(Verbs::Create),
    row::<authorization::SubjectAccessReview>(
        AUTHORIZATION,
        "SubjectAccessReview",
        ("subjectaccessreviews", "subjectaccessreview"),
    )
    .cluster()
    .verbs(Verbs::Create),
    row::<authorization::SelfSubjectAccessReview>(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        ("selfsubjectaccessreviews", "selfsubjectaccessreview"),
    )
    .cluster()
    .verbs(Verbs::Create),
    row::<authorization::LocalSubjectAccessReview>(
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        ("localsubjectaccessreviews", "localsubjectaccessreview"),
    )
    .verbs(Verbs::Create),
    row::<authorization::SelfSubjectRulesReview>(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        ("selfsubjectrulesreviews", "selfsubjectrulesreview"),
    )
    .cluster()
    .verbs(Verbs::Create),
    // `k8s-openapi` has no types of this group; the schema is never used.
    row::<Status>(METRICS, "NodeMetrics", ("nodes", "")).cluster().verbs(Verbs::Read),
    row::<Status>(METRICS, "PodMetrics", ("pods", "")).verbs(Verbs::Read),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::kinds::Kinds;
    use crate::store::Store;

    use super::*;

    #[test]
    fn paths_and_short_names_are_unique() {
        let (mut paths, mut shorts) = (BTreeSet::new(), BTreeSet::new());
        for kind in TABLE.iter().map(Row::kind) {
            assert!(paths.insert((kind.group.clone(), kind.plural.clone())), "{}", kind.plural);
            for short in kind.short {
                // Events are one kind in two groups.
                assert!(shorts.insert(short.clone()) || kind.kind == "Event", "{short}");
            }
        }
    }

    #[test]
    fn kinds_in_two_groups_share_their_objects() {
        let kinds = Kinds::new(&Store::default());
        let old = kinds.get("", "v1", "events").unwrap();
        let new = kinds.get("events.k8s.io", "v1", "events").unwrap();
        assert!(std::sync::Arc::ptr_eq(&old.objects, &new.objects));
    }
}
