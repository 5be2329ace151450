//! Conflicts that prove that a binding was not written.

/// Parts of the messages with which the API server refuses to bind a pod because of the pod's state. It
/// checks the pod before it writes, so none of them follows a write.
const DEFINITE_CONFLICTS: [&str; 5] = [
    "is being deleted, cannot be assigned to a host",
    "is already assigned to node ",
    "has non-empty .spec.schedulingGates",
    // Preconditions are uid and resourceVersion.
    "Precondition failed: ",
    "the object has been modified",
];

/// Returns `true` if a 409 with this message proves that the request changed nothing. Any other 409 may
/// carry an error of etcd, after which the pod may be bound or not.
pub(super) fn proves_no_write(message: &str) -> bool {
    DEFINITE_CONFLICTS.iter().any(|known| message.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_because_of_the_state_of_the_pod_are_proof() {
        const REFUSED: &str = "Operation cannot be fulfilled on pods/binding \"a\": ";
        for (message, proof) in [
            ("pod a is being deleted, cannot be assigned to a host", true),
            ("pod a is already assigned to node \"n1\"", true),
            ("pod a has non-empty .spec.schedulingGates", true),
            (
                "StorageError: invalid object, Code: 4, Key: /pods/ns/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: 1, UID in object meta: 2",
                true,
            ),
            (
                "StorageError: invalid object, Code: 4, Key: /pods/ns/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8",
                true,
            ),
            (
                "the object has been modified; please apply your changes to the latest version and try again",
                true,
            ),
            ("rpc error: code = Unavailable desc = error reading from server: EOF", false),
            ("etcdserver: leader changed", false),
            ("etcdserver: request timed out", false),
            ("context deadline exceeded", false),
            ("", false),
        ] {
            assert_eq!(proves_no_write(&format!("{REFUSED}{message}")), proof, "{message}");
        }
    }
}
