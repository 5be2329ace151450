//! The fields of each message that are read, by their numbers in Kubernetes' protobuf definitions.
//!
//! `cargo xtask ci` compares them with the definitions of the Kubernetes version under test.

use super::Shape;
use Shape::{Bool, Inline, Int, List, Map, Quantity, Text, Time};

/// Defines messages.
macro_rules! messages {
    ($($visibility:vis static $constant:ident = $name:literal {
        $($number:literal $field:literal $shape:expr;)*
    })*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            $visibility static $constant: $crate::protobuf::Message = $crate::protobuf::Message {
                name: $name,
                fields: &[$($crate::protobuf::Field {
                    number: $number,
                    name: $field,
                    shape: $shape,
                }),*],
                numbers: 0 $(| 1 << $number)*,
            };
        )*
    };
}

pub(crate) use messages;

messages! {
    pub static POD = "Pod" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&POD_SPEC);
        3 "status" Shape::Message(&POD_STATUS);
    }
    pub static POD_SPEC = "PodSpec" {
        1 "volumes" List(&Shape::Message(&VOLUME));
        2 "containers" List(&Shape::Message(&CONTAINER));
        7 "nodeSelector" Map(&Text);
        10 "nodeName" Text;
        11 "hostNetwork" Bool;
        18 "affinity" Shape::Message(&AFFINITY);
        19 "schedulerName" Text;
        20 "initContainers" List(&Shape::Message(&CONTAINER));
        22 "tolerations" List(&Shape::Message(&TOLERATION));
        25 "priority" Int;
        31 "preemptionPolicy" Text;
        32 "overhead" Map(&Quantity);
        33 "topologySpreadConstraints" List(&Shape::Message(&TOPOLOGY_SPREAD_CONSTRAINT));
        37 "hostUsers" Bool;
        38 "schedulingGates" List(&Shape::Message(&POD_SCHEDULING_GATE));
        39 "resourceClaims" List(&Shape::Message(&POD_RESOURCE_CLAIM));
        40 "resources" Shape::Message(&RESOURCE_REQUIREMENTS);
    }
    pub static POD_RESOURCE_CLAIM = "PodResourceClaim" {
        1 "name" Text;
    }
    pub static POD_SCHEDULING_GATE = "PodSchedulingGate" {
        1 "name" Text;
    }
    pub static CONTAINER = "Container" {
        1 "name" Text;
        2 "image" Text;
        6 "ports" List(&Shape::Message(&CONTAINER_PORT));
        8 "resources" Shape::Message(&RESOURCE_REQUIREMENTS);
        24 "restartPolicy" Text;
        25 "restartPolicyRules" List(&Shape::Message(&CONTAINER_RESTART_RULE));
    }
    pub static CONTAINER_PORT = "ContainerPort" {
        2 "hostPort" Int;
        4 "protocol" Text;
        5 "hostIP" Text;
    }
    pub static CONTAINER_RESTART_RULE = "ContainerRestartRule" {
        1 "action" Text;
    }
    pub static RESOURCE_REQUIREMENTS = "ResourceRequirements" {
        1 "limits" Map(&Quantity);
        2 "requests" Map(&Quantity);
    }
    pub static TOLERATION = "Toleration" {
        1 "key" Text;
        2 "operator" Text;
        3 "value" Text;
        4 "effect" Text;
    }
    pub static VOLUME = "Volume" {
        1 "name" Text;
        2 "volumeSource" Inline(&VOLUME_SOURCE);
    }
    pub static VOLUME_SOURCE = "VolumeSource" {
        1 "hostPath" Shape::Message(&HOST_PATH_VOLUME_SOURCE);
        2 "emptyDir" Shape::Message(&EMPTY_DIR_VOLUME_SOURCE);
        3 "gcePersistentDisk" Shape::Message(&GCE_PERSISTENT_DISK_VOLUME_SOURCE);
        4 "awsElasticBlockStore" Shape::Message(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE);
        8 "iscsi" Shape::Message(&ISCSI_VOLUME_SOURCE);
        10 "persistentVolumeClaim" Shape::Message(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE);
        11 "rbd" Shape::Message(&RBD_VOLUME_SOURCE);
        13 "cinder" Shape::Message(&CINDER_VOLUME_SOURCE);
        18 "azureFile" Shape::Message(&AZURE_FILE_VOLUME_SOURCE);
        20 "vsphereVolume" Shape::Message(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE);
        22 "azureDisk" Shape::Message(&AZURE_DISK_VOLUME_SOURCE);
        24 "portworxVolume" Shape::Message(&PORTWORX_VOLUME_SOURCE);
        28 "csi" Shape::Message(&CSI_VOLUME_SOURCE);
        29 "ephemeral" Shape::Message(&EPHEMERAL_VOLUME_SOURCE);
        30 "image" Shape::Message(&IMAGE_VOLUME_SOURCE);
    }
    pub static POD_STATUS = "PodStatus" {
        1 "phase" Text;
        2 "conditions" List(&Shape::Message(&POD_CONDITION));
        7 "startTime" Time;
        8 "containerStatuses" List(&Shape::Message(&CONTAINER_STATUS));
        10 "initContainerStatuses" List(&Shape::Message(&CONTAINER_STATUS));
        11 "nominatedNodeName" Text;
        19 "allocatedResources" Map(&Quantity);
        20 "resources" Shape::Message(&RESOURCE_REQUIREMENTS);
    }
    pub static POD_CONDITION = "PodCondition" {
        1 "type" Text;
        2 "status" Text;
        5 "reason" Text;
        6 "message" Text;
    }
    pub static CONTAINER_STATUS = "ContainerStatus" {
        1 "name" Text;
        5 "restartCount" Int;
        10 "allocatedResources" Map(&Quantity);
        11 "resources" Shape::Message(&RESOURCE_REQUIREMENTS);
    }
    pub static AFFINITY = "Affinity" {
        1 "nodeAffinity" Shape::Message(&NODE_AFFINITY);
        2 "podAffinity" Shape::Message(&POD_AFFINITY);
        3 "podAntiAffinity" Shape::Message(&POD_ANTI_AFFINITY);
    }
    pub static NODE_AFFINITY = "NodeAffinity" {
        1 "requiredDuringSchedulingIgnoredDuringExecution" Shape::Message(&NODE_SELECTOR);
        2 "preferredDuringSchedulingIgnoredDuringExecution" List(&Shape::Message(&PREFERRED_SCHEDULING_TERM));
    }
    pub static PREFERRED_SCHEDULING_TERM = "PreferredSchedulingTerm" {
        1 "weight" Int;
        2 "preference" Shape::Message(&NODE_SELECTOR_TERM);
    }
    pub static POD_AFFINITY = "PodAffinity" {
        1 "requiredDuringSchedulingIgnoredDuringExecution" List(&Shape::Message(&POD_AFFINITY_TERM));
        2 "preferredDuringSchedulingIgnoredDuringExecution" List(&Shape::Message(&WEIGHTED_POD_AFFINITY_TERM));
    }
    pub static POD_ANTI_AFFINITY = "PodAntiAffinity" {
        1 "requiredDuringSchedulingIgnoredDuringExecution" List(&Shape::Message(&POD_AFFINITY_TERM));
        2 "preferredDuringSchedulingIgnoredDuringExecution" List(&Shape::Message(&WEIGHTED_POD_AFFINITY_TERM));
    }
    pub static WEIGHTED_POD_AFFINITY_TERM = "WeightedPodAffinityTerm" {
        1 "weight" Int;
        2 "podAffinityTerm" Shape::Message(&POD_AFFINITY_TERM);
    }
    pub static POD_AFFINITY_TERM = "PodAffinityTerm" {
        1 "labelSelector" Shape::Message(&LABEL_SELECTOR);
        2 "namespaces" List(&Text);
        3 "topologyKey" Text;
        4 "namespaceSelector" Shape::Message(&LABEL_SELECTOR);
        5 "matchLabelKeys" List(&Text);
        6 "mismatchLabelKeys" List(&Text);
    }
    pub static TOPOLOGY_SPREAD_CONSTRAINT = "TopologySpreadConstraint" {
        1 "maxSkew" Int;
        2 "topologyKey" Text;
        3 "whenUnsatisfiable" Text;
        4 "labelSelector" Shape::Message(&LABEL_SELECTOR);
        5 "minDomains" Int;
        6 "nodeAffinityPolicy" Text;
        7 "nodeTaintsPolicy" Text;
        8 "matchLabelKeys" List(&Text);
    }
    pub static NODE_SELECTOR = "NodeSelector" {
        1 "nodeSelectorTerms" List(&Shape::Message(&NODE_SELECTOR_TERM));
    }
    pub static NODE_SELECTOR_TERM = "NodeSelectorTerm" {
        1 "matchExpressions" List(&Shape::Message(&NODE_SELECTOR_REQUIREMENT));
        2 "matchFields" List(&Shape::Message(&NODE_SELECTOR_REQUIREMENT));
    }
    pub static NODE_SELECTOR_REQUIREMENT = "NodeSelectorRequirement" {
        1 "key" Text;
        2 "operator" Text;
        3 "values" List(&Text);
    }
    pub static TOPOLOGY_SELECTOR_TERM = "TopologySelectorTerm" {
        1 "matchLabelExpressions" List(&Shape::Message(&TOPOLOGY_SELECTOR_LABEL_REQUIREMENT));
    }
    pub static TOPOLOGY_SELECTOR_LABEL_REQUIREMENT = "TopologySelectorLabelRequirement" {
        1 "key" Text;
        2 "values" List(&Text);
    }
    pub static LABEL_SELECTOR = "LabelSelector" {
        1 "matchLabels" Map(&Text);
        2 "matchExpressions" List(&Shape::Message(&LABEL_SELECTOR_REQUIREMENT));
    }
    pub static LABEL_SELECTOR_REQUIREMENT = "LabelSelectorRequirement" {
        1 "key" Text;
        2 "operator" Text;
        3 "values" List(&Text);
    }
    pub static OBJECT_META = "ObjectMeta" {
        1 "name" Text;
        3 "namespace" Text;
        5 "uid" Text;
        6 "resourceVersion" Text;
        7 "generation" Int;
        8 "creationTimestamp" Time;
        9 "deletionTimestamp" Time;
        11 "labels" Map(&Text);
        12 "annotations" Map(&Text);
        13 "ownerReferences" List(&Shape::Message(&OWNER_REFERENCE));
    }
    pub static OWNER_REFERENCE = "OwnerReference" {
        1 "kind" Text;
        3 "name" Text;
        4 "uid" Text;
        5 "apiVersion" Text;
        6 "controller" Bool;
    }
    pub static LIST_META = "ListMeta" {
        2 "resourceVersion" Text;
        3 "continue" Text;
    }
    pub static STATUS = "Status" {
        1 "metadata" Shape::Message(&LIST_META);
        2 "status" Text;
        3 "message" Text;
        4 "reason" Text;
        6 "code" Int;
    }
    pub static NODE = "Node" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&NODE_SPEC);
        3 "status" Shape::Message(&NODE_STATUS);
    }
    pub static NODE_SPEC = "NodeSpec" {
        4 "unschedulable" Bool;
        5 "taints" List(&Shape::Message(&TAINT));
    }
    pub static TAINT = "Taint" {
        1 "key" Text;
        2 "value" Text;
        3 "effect" Text;
    }
    pub static NODE_STATUS = "NodeStatus" {
        2 "allocatable" Map(&Quantity);
        4 "conditions" List(&Shape::Message(&NODE_CONDITION));
        8 "images" List(&Shape::Message(&CONTAINER_IMAGE));
        14 "declaredFeatures" List(&Text);
    }
    pub static NODE_CONDITION = "NodeCondition" {
        1 "type" Text;
        2 "status" Text;
    }
    pub static CONTAINER_IMAGE = "ContainerImage" {
        1 "names" List(&Text);
        2 "sizeBytes" Int;
    }
    pub static NAMESPACE = "Namespace" {
        1 "metadata" Shape::Message(&OBJECT_META);
    }
    pub static SERVICE = "Service" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&SERVICE_SPEC);
    }
    pub static SERVICE_SPEC = "ServiceSpec" {
        2 "selector" Map(&Text);
    }
    pub static REPLICATION_CONTROLLER = "ReplicationController" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&REPLICATION_CONTROLLER_SPEC);
        3 "status" Shape::Message(&REPLICATION_CONTROLLER_STATUS);
    }
    pub static REPLICATION_CONTROLLER_STATUS = "ReplicationControllerStatus" {
        1 "replicas" Int;
        3 "observedGeneration" Int;
        4 "readyReplicas" Int;
        5 "availableReplicas" Int;
    }
    pub static REPLICATION_CONTROLLER_SPEC = "ReplicationControllerSpec" {
        1 "replicas" Int;
        2 "selector" Map(&Text);
    }
    pub static REPLICA_SET = "ReplicaSet" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&REPLICA_SET_SPEC);
        3 "status" Shape::Message(&REPLICA_SET_STATUS);
    }
    pub static REPLICA_SET_STATUS = "ReplicaSetStatus" {
        1 "replicas" Int;
        3 "observedGeneration" Int;
        4 "readyReplicas" Int;
        5 "availableReplicas" Int;
    }
    pub static REPLICA_SET_SPEC = "ReplicaSetSpec" {
        1 "replicas" Int;
        2 "selector" Shape::Message(&LABEL_SELECTOR);
    }
    pub static STATEFUL_SET = "StatefulSet" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&STATEFUL_SET_SPEC);
        3 "status" Shape::Message(&STATEFUL_SET_STATUS);
    }
    pub static STATEFUL_SET_STATUS = "StatefulSetStatus" {
        1 "observedGeneration" Int;
        2 "replicas" Int;
        3 "readyReplicas" Int;
        5 "updatedReplicas" Int;
        11 "availableReplicas" Int;
    }
    pub static STATEFUL_SET_SPEC = "StatefulSetSpec" {
        1 "replicas" Int;
        2 "selector" Shape::Message(&LABEL_SELECTOR);
    }
    pub static POD_DISRUPTION_BUDGET = "PodDisruptionBudget" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&POD_DISRUPTION_BUDGET_SPEC);
        3 "status" Shape::Message(&POD_DISRUPTION_BUDGET_STATUS);
    }
    pub static POD_DISRUPTION_BUDGET_SPEC = "PodDisruptionBudgetSpec" {
        2 "selector" Shape::Message(&LABEL_SELECTOR);
    }
    pub static POD_DISRUPTION_BUDGET_STATUS = "PodDisruptionBudgetStatus" {
        2 "disruptedPods" Map(&Time);
        3 "disruptionsAllowed" Int;
    }
    pub static PERSISTENT_VOLUME = "PersistentVolume" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&PERSISTENT_VOLUME_SPEC);
        3 "status" Shape::Message(&PERSISTENT_VOLUME_STATUS);
    }
    pub static PERSISTENT_VOLUME_STATUS = "PersistentVolumeStatus" {
        1 "phase" Text;
    }
    pub static PERSISTENT_VOLUME_SPEC = "PersistentVolumeSpec" {
        1 "capacity" Map(&Quantity);
        2 "persistentVolumeSource" Inline(&PERSISTENT_VOLUME_SOURCE);
        3 "accessModes" List(&Text);
        4 "claimRef" Shape::Message(&OBJECT_REFERENCE);
        6 "storageClassName" Text;
        8 "volumeMode" Text;
        9 "nodeAffinity" Shape::Message(&VOLUME_NODE_AFFINITY);
        10 "volumeAttributesClassName" Text;
    }
    pub static PERSISTENT_VOLUME_SOURCE = "PersistentVolumeSource" {
        1 "gcePersistentDisk" Shape::Message(&GCE_PERSISTENT_DISK_VOLUME_SOURCE);
        2 "awsElasticBlockStore" Shape::Message(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE);
        8 "cinder" Shape::Message(&CINDER_PERSISTENT_VOLUME_SOURCE);
        16 "azureDisk" Shape::Message(&AZURE_DISK_VOLUME_SOURCE);
        18 "portworxVolume" Shape::Message(&PORTWORX_VOLUME_SOURCE);
        22 "csi" Shape::Message(&CSI_PERSISTENT_VOLUME_SOURCE);
    }
    pub static OBJECT_REFERENCE = "ObjectReference" {
        2 "namespace" Text;
        3 "name" Text;
        4 "uid" Text;
    }
    pub static VOLUME_NODE_AFFINITY = "VolumeNodeAffinity" {
        1 "required" Shape::Message(&NODE_SELECTOR);
    }
    pub static PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&PERSISTENT_VOLUME_CLAIM_SPEC);
        3 "status" Shape::Message(&PERSISTENT_VOLUME_CLAIM_STATUS);
    }
    pub static PERSISTENT_VOLUME_CLAIM_STATUS = "PersistentVolumeClaimStatus" {
        1 "phase" Text;
    }
    pub static PERSISTENT_VOLUME_CLAIM_SPEC = "PersistentVolumeClaimSpec" {
        1 "accessModes" List(&Text);
        2 "resources" Shape::Message(&VOLUME_RESOURCE_REQUIREMENTS);
        3 "volumeName" Text;
        4 "selector" Shape::Message(&LABEL_SELECTOR);
        5 "storageClassName" Text;
        6 "volumeMode" Text;
        9 "volumeAttributesClassName" Text;
    }
    pub static VOLUME_RESOURCE_REQUIREMENTS = "VolumeResourceRequirements" {
        2 "requests" Map(&Quantity);
    }
    pub static STORAGE_CLASS = "StorageClass" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "provisioner" Text;
        7 "volumeBindingMode" Text;
        8 "allowedTopologies" List(&Shape::Message(&TOPOLOGY_SELECTOR_TERM));
    }
    pub static CSI_NODE = "CSINode" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&CSI_NODE_SPEC);
    }
    pub static CSI_NODE_SPEC = "CSINodeSpec" {
        1 "drivers" List(&Shape::Message(&CSI_NODE_DRIVER));
    }
    pub static CSI_NODE_DRIVER = "CSINodeDriver" {
        1 "name" Text;
        3 "topologyKeys" List(&Text);
        4 "allocatable" Shape::Message(&VOLUME_NODE_RESOURCES);
    }
    pub static VOLUME_NODE_RESOURCES = "VolumeNodeResources" {
        1 "count" Int;
    }
    pub static CSI_DRIVER = "CSIDriver" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&CSI_DRIVER_SPEC);
    }
    pub static CSI_DRIVER_SPEC = "CSIDriverSpec" {
        1 "attachRequired" Bool;
        4 "storageCapacity" Bool;
        11 "preventPodSchedulingIfMissing" Bool;
    }
    pub static CSI_STORAGE_CAPACITY = "CSIStorageCapacity" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "nodeTopology" Shape::Message(&LABEL_SELECTOR);
        3 "storageClassName" Text;
        4 "capacity" Quantity;
        5 "maximumVolumeSize" Quantity;
    }
    pub static VOLUME_ATTACHMENT = "VolumeAttachment" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&VOLUME_ATTACHMENT_SPEC);
    }
    pub static VOLUME_ATTACHMENT_SPEC = "VolumeAttachmentSpec" {
        1 "attacher" Text;
        2 "source" Shape::Message(&VOLUME_ATTACHMENT_SOURCE);
        3 "nodeName" Text;
    }
    pub static VOLUME_ATTACHMENT_SOURCE = "VolumeAttachmentSource" {
        1 "persistentVolumeName" Text;
    }
    pub static DEVICE_CLASS = "DeviceClass" {
        1 "metadata" Shape::Message(&OBJECT_META);
        2 "spec" Shape::Message(&DEVICE_CLASS_SPEC);
    }
    pub static DEVICE_CLASS_SPEC = "DeviceClassSpec" {
        4 "extendedResourceName" Text;
    }
    pub static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE = "AWSElasticBlockStoreVolumeSource" {
        1 "volumeID" Text;
        4 "readOnly" Bool;
    }
    pub static AZURE_DISK_VOLUME_SOURCE = "AzureDiskVolumeSource" {
        2 "diskURI" Text;
        5 "readOnly" Bool;
        6 "kind" Text;
    }
    pub static AZURE_FILE_VOLUME_SOURCE = "AzureFileVolumeSource" {
        1 "secretName" Text;
        2 "shareName" Text;
    }
    pub static CINDER_VOLUME_SOURCE = "CinderVolumeSource" {
        1 "volumeID" Text;
        3 "readOnly" Bool;
    }
    pub static CINDER_PERSISTENT_VOLUME_SOURCE = "CinderPersistentVolumeSource" {
        1 "volumeID" Text;
    }
    pub static CSI_VOLUME_SOURCE = "CSIVolumeSource" {
        1 "driver" Text;
    }
    pub static CSI_PERSISTENT_VOLUME_SOURCE = "CSIPersistentVolumeSource" {
        1 "driver" Text;
        2 "volumeHandle" Text;
    }
    pub static EMPTY_DIR_VOLUME_SOURCE = "EmptyDirVolumeSource" {
        1 "medium" Text;
    }
    pub static EPHEMERAL_VOLUME_SOURCE = "EphemeralVolumeSource" {}
    pub static HOST_PATH_VOLUME_SOURCE = "HostPathVolumeSource" {}
    pub static GCE_PERSISTENT_DISK_VOLUME_SOURCE = "GCEPersistentDiskVolumeSource" {
        1 "pdName" Text;
        4 "readOnly" Bool;
    }
    pub static IMAGE_VOLUME_SOURCE = "ImageVolumeSource" {
        1 "reference" Text;
    }
    pub static ISCSI_VOLUME_SOURCE = "ISCSIVolumeSource" {
        2 "iqn" Text;
        6 "readOnly" Bool;
    }
    pub static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE = "PersistentVolumeClaimVolumeSource" {
        1 "claimName" Text;
        2 "readOnly" Bool;
    }
    pub static PORTWORX_VOLUME_SOURCE = "PortworxVolumeSource" {
        1 "volumeID" Text;
        3 "readOnly" Bool;
    }
    pub static RBD_VOLUME_SOURCE = "RBDVolumeSource" {
        1 "monitors" List(&Text);
        2 "image" Text;
        4 "pool" Text;
        8 "readOnly" Bool;
    }
    pub static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE = "VsphereVirtualDiskVolumeSource" {
        1 "volumePath" Text;
    }
}
