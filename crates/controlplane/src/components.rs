//! Ports, kubeconfigs and arguments of the programs of a control plane.

use std::path::Path;

use serde_json::json;

use crate::files::{FileError, write_private};
use crate::ports::{self, NoFreePort};

/// Range of service addresses.
const SERVICE_RANGE: &str = "10.0.0.0/16";

/// First address of the range, which is that of the API server inside of the cluster.
pub(crate) const SERVICE_ADDRESS: &str = "10.0.0.1";

/// Range of pod addresses, assigned by kwok.
const POD_RANGE: &str = "10.244.0.1/16";

/// Configuration of kwok: the stages of nodes and pods.
pub(crate) const STAGES: &str = include_str!("../../../conformance/controlplane/kwok/stages.yaml");

/// Ports of one control plane, all on loopback.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
    controller_manager: u16,
    kwok: u16,
    scheduler: u16,
}

impl Ports {
    pub(crate) fn free() -> Result<Self, NoFreePort> {
        let [etcd, etcd_peer, apiserver, controller_manager, kwok, scheduler] = ports::free()?;
        Ok(Self { etcd, etcd_peer, apiserver, controller_manager, kwok, scheduler })
    }

    /// Returns the port that a program listens on once it works.
    pub(crate) fn of(self, program: &str) -> u16 {
        match program {
            "etcd" => self.etcd,
            "kube-apiserver" => self.apiserver,
            "kube-controller-manager" => self.controller_manager,
            "kube-scheduler" => self.scheduler,
            _ => self.kwok,
        }
    }
}

/// Returns the address of the API server.
pub(crate) fn server(ports: Ports) -> String {
    format!("https://127.0.0.1:{}", ports.apiserver)
}

/// Writes `NAME.kubeconfig` for each user.
pub(crate) fn write_kubeconfigs(folder: &Path, server: &str) -> Result<(), FileError> {
    for user in ["admin", "kube-controller-manager", "kube-scheduler", "kwok"] {
        let file = |name: &str| folder.join("certificates").join(name);
        // JSON is YAML, and paths instead of contents keep keys in one place.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "jindou",
            "clusters": [{"name": "jindou", "cluster": {
                "server": server, "certificate-authority": file("ca.crt"),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate": file(&format!("{user}.crt")),
                "client-key": file(&format!("{user}.key")),
            }}],
            "contexts": [{"name": "jindou", "context": {"cluster": "jindou", "user": user}}],
        });
        let text = format!("{config:#}\n");
        write_private(&folder.join(format!("{user}.kubeconfig")), &text)?;
    }
    Ok(())
}

/// Returns the arguments of a program whose state is in a folder.
pub(crate) fn arguments(program: &str, folder: &Path, ports: Ports) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let secret = |name: &str| file(&format!("certificates/{name}"));
    let own = file(&format!("{program}.kubeconfig"));
    let pairs: Vec<(&str, String)> = match program {
        "etcd" => {
            let client = format!("https://127.0.0.1:{}", ports.etcd);
            let peer = format!("https://127.0.0.1:{}", ports.etcd_peer);
            vec![
                ("name", "one".into()),
                ("data-dir", file("etcd")),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer.clone()),
                ("initial-cluster", format!("one={peer}")),
                ("cert-file", secret("etcd.crt")),
                ("key-file", secret("etcd.key")),
                ("trusted-ca-file", secret("etcd-ca.crt")),
                ("client-cert-auth", "true".into()),
                ("peer-cert-file", secret("etcd.crt")),
                ("peer-key-file", secret("etcd.key")),
                ("peer-trusted-ca-file", secret("etcd-ca.crt")),
                ("peer-client-cert-auth", "true".into()),
                // The data is deleted afterwards, so it need not survive a power failure.
                ("unsafe-no-fsync", "true".into()),
                // For load tests: 8 GiB, the largest size that etcd recommends.
                ("quota-backend-bytes", (8_u64 << 30).to_string()),
                ("log-level", "warn".into()),
            ]
        }
        "kube-apiserver" => vec![
            ("bind-address", "127.0.0.1".into()),
            ("advertise-address", "127.0.0.1".into()),
            ("secure-port", ports.apiserver.to_string()),
            ("tls-cert-file", secret("kube-apiserver.crt")),
            ("tls-private-key-file", secret("kube-apiserver.key")),
            ("client-ca-file", secret("ca.crt")),
            ("requestheader-client-ca-file", secret("front-proxy-ca.crt")),
            ("requestheader-allowed-names", "front-proxy".into()),
            ("requestheader-username-headers", "X-Remote-User".into()),
            ("requestheader-group-headers", "X-Remote-Group".into()),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
            ("proxy-client-cert-file", secret("front-proxy.crt")),
            ("proxy-client-key-file", secret("front-proxy.key")),
            ("authorization-mode", "Node,RBAC".into()),
            ("etcd-servers", format!("https://127.0.0.1:{}", ports.etcd)),
            ("etcd-cafile", secret("etcd-ca.crt")),
            ("etcd-certfile", secret("etcd-client.crt")),
            ("etcd-keyfile", secret("etcd-client.key")),
            ("service-account-issuer", "https://kubernetes.default.svc.cluster.local".into()),
            ("service-account-key-file", secret("service-accounts.pub")),
            ("service-account-signing-key-file", secret("service-accounts.key")),
            ("service-cluster-ip-range", SERVICE_RANGE.into()),
            ("allow-privileged", "true".into()),
            // Nothing in the cluster can reach loopback, so there is no endpoint to publish.
            ("endpoint-reconciler-type", "none".into()),
            ("event-ttl", "10m".into()),
        ],
        "kube-controller-manager" => vec![
            ("kubeconfig", own.clone()),
            ("authentication-kubeconfig", own.clone()),
            ("authorization-kubeconfig", own),
            ("bind-address", "127.0.0.1".into()),
            ("secure-port", ports.controller_manager.to_string()),
            ("cert-dir", file("kube-controller-manager")),
            ("root-ca-file", secret("ca.crt")),
            ("cluster-signing-cert-file", secret("ca.crt")),
            ("cluster-signing-key-file", secret("ca.key")),
            ("service-account-private-key-file", secret("service-accounts.key")),
            ("use-service-account-credentials", "true".into()),
            ("leader-elect", "false".into()),
            // With the default of 20 a Deployment of 5000 pods takes minutes to be created.
            ("kube-api-qps", "500".into()),
            ("kube-api-burst", "1000".into()),
        ],
        "kube-scheduler" => vec![
            ("kubeconfig", own.clone()),
            ("authentication-kubeconfig", own.clone()),
            ("authorization-kubeconfig", own),
            ("bind-address", "127.0.0.1".into()),
            ("secure-port", ports.scheduler.to_string()),
            ("cert-dir", file("kube-scheduler")),
            ("leader-elect", "false".into()),
        ],
        _ => vec![
            ("kubeconfig", own),
            ("config", file("stages.yaml")),
            ("server-address", format!("127.0.0.1:{}", ports.kwok)),
            ("manage-all-nodes", "true".into()),
            ("node-lease-duration-seconds", "40".into()),
            ("node-ip", "127.0.0.1".into()),
            ("cidr", POD_RANGE.into()),
        ],
    };
    pairs.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
