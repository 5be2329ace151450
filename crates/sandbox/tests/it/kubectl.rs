//! Upstream's kubectl against the sandbox, if it was built.

use std::path::PathBuf;
use std::process::Command;

use crate::server::{TestServer, bind_pods, program};

struct Shell {
    kubectl: PathBuf,
    folder: tempfile::TempDir,
}

impl Shell {
    /// Runs a command. Returns `true` if it succeeded, and its output.
    fn run(&self, command: &str) -> (bool, String) {
        let output = Command::new(&self.kubectl)
            .args(command.split_whitespace())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .output()
            .expect("kubectl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }
}

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: applied
spec:
  replicas: 2
  selector:
    matchLabels: {app: applied}
  template:
    metadata:
      labels: {app: applied}
    spec:
      containers:
      - {name: app, image: 'nginx:1'}
";

const TYPO: &str = "apiVersion: v1
kind: Pod
metadata:
  name: typo
spec:
  containers:
  - {name: app, imagee: x}
";

/// Commands in order, the expected success, and a part of the expected output.
const SCRIPT: &[(&str, bool, &str)] = &[
    ("version", true, "Server Version: v1.36.4"),
    ("get nodes", true, "node-2   Ready"),
    ("get nodes -o wide", true, "Jindou sandbox"),
    ("api-resources", true, "deployments                       deploy"),
    ("api-versions", true, "apps/v1"),
    ("auth can-i create pods", true, "yes"),
    ("auth whoami", true, "jindou"),
    ("create deployment web --image=nginx:1 --replicas=3", true, "deployment.apps/web created"),
    (
        "rollout status deployment/web --timeout=60s",
        true,
        "deployment \"web\" successfully rolled out",
    ),
    ("get deployments", true, "web    3/3     3            3"),
    ("get pods -l app=web -o wide", true, "Running"),
    ("get all", true, "replicaset.apps/web-"),
    ("scale deployment web --replicas=5", true, "deployment.apps/web scaled"),
    (
        "wait --for=jsonpath={.status.availableReplicas}=5 deployment/web --timeout=60s",
        true,
        "condition met",
    ),
    ("set image deployment/web nginx=nginx:2", true, "image updated"),
    ("rollout status deployment/web --timeout=60s", true, "successfully rolled out"),
    ("rollout history deployment/web", true, "2"),
    ("rollout undo deployment/web", true, "rolled back"),
    ("rollout status deployment/web --timeout=60s", true, "successfully rolled out"),
    ("describe deployment web", true, "NewReplicaSetAvailable"),
    ("describe pods", true, "Started"),
    ("describe node node-0", true, "Allocated resources"),
    ("events", true, "ScalingReplicaSet"),
    ("get events", true, "SuccessfulCreate"),
    ("top nodes", true, "node-0"),
    ("top pods", true, "web-"),
    ("run one --image=nginx:1", true, "pod/one created"),
    ("wait --for=condition=Ready pod/one --timeout=60s", true, "pod/one condition met"),
    ("logs one", true, "is simulated"),
    ("exec one -- ls", false, "simulated"),
    ("label pod one tier=front", true, "pod/one labeled"),
    ("label pod one tier=back", false, "already has a value"),
    ("annotate pod one note=hello", true, "pod/one annotated"),
    ("get pods -l tier=front --show-labels", true, "tier=front"),
    ("get pods --field-selector spec.nodeName=none", true, "No resources found"),
    ("get pod one -o yaml", true, "qosClass: BestEffort"),
    ("get pod one -o jsonpath={.status.phase}", true, "Running"),
    ("get pod none", false, "Error from server (NotFound): pods \"none\" not found"),
    ("patch pod one -p {\"metadata\":{\"labels\":{\"a\":\"b\"}}}", true, "pod/one patched"),
    (
        "patch pod one --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/a\"}]",
        true,
        "pod/one patched",
    ),
    ("delete pod one", true, "pod \"one\" deleted"),
    ("apply -f web.yaml", true, "deployment.apps/applied created"),
    ("apply -f web.yaml", true, "deployment.apps/applied unchanged"),
    ("apply --server-side -f web.yaml", true, "serverside-applied"),
    ("diff -f web.yaml", true, ""),
    ("create -f typo.yaml", false, "unknown field \"spec.containers[0].imagee\""),
    ("create -f typo.yaml --validate=false", false, "spec.containers[0].image: Required value"),
    ("taint node node-1 dedicated=a:NoSchedule", true, "node/node-1 tainted"),
    ("taint node node-1 dedicated-", true, "node/node-1 untainted"),
    ("cordon node-0", true, "node/node-0 cordoned"),
    ("get node node-0", true, "Ready,SchedulingDisabled"),
    ("drain node-0 --ignore-daemonsets --timeout=60s", true, "node/node-0 drained"),
    ("uncordon node-0", true, "node/node-0 uncordoned"),
    ("create configmap c --from-literal=a=b", true, "configmap/c created"),
    ("create configmap c", false, "configmaps \"c\" already exists"),
    ("create secret generic s --from-literal=a=b", true, "secret/s created"),
    ("create namespace team", true, "namespace/team created"),
    ("create quota q --hard=pods=1 -n team", true, "resourcequota/q created"),
    ("create job once --image=busybox", true, "job.batch/once created"),
    ("wait --for=condition=complete job/once --timeout=60s", true, "condition met"),
    ("create service clusterip svc --tcp=80", true, "service/svc created"),
    ("get services", true, "ClusterIP"),
    ("create priorityclass high --value=1000", true, "created"),
    ("create poddisruptionbudget pdb --selector=app=web --min-available=1", true, "created"),
    ("get poddisruptionbudgets", true, "pdb"),
    ("explain pods.spec.nodeName", true, "nodeName"),
    ("explain deployments", true, "KIND:       Deployment"),
    ("get nonsense", false, "the server doesn't have a resource type \"nonsense\""),
    ("get storageclass", true, "standard (default)"),
    ("delete deployment web applied", true, "deployment.apps \"web\" deleted"),
    ("delete namespace team --timeout=60s", true, "namespace \"team\" deleted"),
    ("cluster-info", true, "Kubernetes control plane"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_commands_succeed_with_upstreams_output() {
    let Some(kubectl) = program("kubectl") else {
        eprintln!("SKIPPED: kubectl was not found; build it with `cargo xtask controlplane up`");
        return;
    };
    let server = TestServer::new(3).await;
    let scheduler = bind_pods(&server).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kubeconfig"), server.sandbox.kubeconfig()).unwrap();
    std::fs::write(folder.path().join("web.yaml"), WEB).unwrap();
    std::fs::write(folder.path().join("typo.yaml"), TYPO).unwrap();
    let failures = tokio::task::spawn_blocking(move || {
        let shell = Shell { kubectl, folder };
        let mut failures = Vec::new();
        for (command, good, says) in SCRIPT {
            let (went_well, said) = shell.run(command);
            if went_well != *good || !said.contains(says) {
                failures.push(format!("$ kubectl {command}\n{said}(expected {says:?})"));
            }
        }
        failures
    });
    let failures = failures.await.unwrap();
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        SCRIPT.len(),
        failures.join("\n\n")
    );
    scheduler.abort();
    server.stop().await;
}
