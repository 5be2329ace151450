//! Numbers of the protobuf fields that are read without deserializing the whole object, looked up
//! in the schema at compile time.

macro_rules! field_numbers {
    ($($module:ident of $message:ident { $($constant:ident = $name:literal;)* })*) => {
        $(
            pub(super) mod $module {
                use crate::protobuf::schema::$message;

                $(pub(in crate::lower) const $constant: u32 = $message.number_of($name);)*
            }
        )*
    };
}

field_numbers! {
    pod of POD {
        METADATA = "metadata";
        SPEC = "spec";
        STATUS = "status";
    }
    metadata of OBJECT_META {
        NAME = "name";
        NAMESPACE = "namespace";
        UID = "uid";
        RESOURCE_VERSION = "resourceVersion";
        GENERATION = "generation";
        CREATION_TIMESTAMP = "creationTimestamp";
        DELETION_TIMESTAMP = "deletionTimestamp";
        LABELS = "labels";
        ANNOTATIONS = "annotations";
        OWNER_REFERENCES = "ownerReferences";
    }
    pod_spec of POD_SPEC {
        VOLUMES = "volumes";
        CONTAINERS = "containers";
        NODE_NAME = "nodeName";
        INIT_CONTAINERS = "initContainers";
        PRIORITY = "priority";
        SCHEDULING_GATES = "schedulingGates";
    }
    scheduling_gate of POD_SCHEDULING_GATE {
        NAME = "name";
    }
    volume of VOLUME {
        SOURCE = "volumeSource";
    }
    volume_source of VOLUME_SOURCE {
        EPHEMERAL = "ephemeral";
    }
    pod_status of POD_STATUS {
        PHASE = "phase";
        CONDITIONS = "conditions";
        START_TIME = "startTime";
        CONTAINER_STATUSES = "containerStatuses";
        INIT_CONTAINER_STATUSES = "initContainerStatuses";
        NOMINATED_NODE_NAME = "nominatedNodeName";
        ALLOCATED_RESOURCES = "allocatedResources";
        RESOURCES = "resources";
    }
    container_status of CONTAINER_STATUS {
        RESTART_COUNT = "restartCount";
    }
    pod_condition of POD_CONDITION {
        TYPE = "type";
        STATUS = "status";
        REASON = "reason";
    }
    node of NODE {
        METADATA = "metadata";
        SPEC = "spec";
        STATUS = "status";
    }
    node_status of NODE_STATUS {
        IMAGES = "images";
    }
    container_image of CONTAINER_IMAGE {
        NAMES = "names";
        SIZE_BYTES = "sizeBytes";
    }
}
