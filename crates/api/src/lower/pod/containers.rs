//! Lowering of containers.

use engine::object::{HostPort, Protocol};
use serde::Deserialize;

use super::super::problem::{FieldPath, ProblemReport, quoted};
use super::super::raw::{List, Nullable, Str};
use super::super::resources::RawResources;

/// `containers[]` and `initContainers[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawContainer {
    pub(super) name: Str,
    pub(super) image: Str,
    ports: List<RawPort>,
    pub(super) resources: Nullable<RawResources>,
    restart_policy: Str,
    restart_policy_rules: List<RawRestartRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPort {
    #[serde(rename = "hostIP")]
    host_ip: Str,
    host_port: Nullable<i32>,
    protocol: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawRestartRule {
    action: Str,
}

impl RawContainer {
    /// Returns `true` for an init container that keeps running beside the main containers.
    pub(super) fn is_sidecar(&self) -> bool {
        &**self.restart_policy == "Always"
    }

    /// Returns `true` if the exit of the container can restart all containers of the pod.
    pub(super) fn restarts_all(&self) -> bool {
        self.restart_policy_rules.iter().any(|rule| &**rule.action == "RestartAllContainers")
    }

    pub(super) fn add_host_ports(
        &self,
        path: &FieldPath<'_>,
        ports: &mut Vec<HostPort>,
        report: &mut ProblemReport,
    ) {
        let path = path.field("ports");
        report.check_entries(&path, &self.ports);
        for (index, raw) in self.ports.iter().enumerate() {
            let path = path.index(index);
            let port = raw.host_port.0;
            if !(0..=65_535).contains(&port) {
                report.error(&path.field("hostPort"), format!("found {port}, expected 1 to 65535"));
            }
            if port <= 0 {
                continue;
            }
            let protocol = match &*raw.protocol.0 {
                "" | "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                found => {
                    let found = quoted(found);
                    let path = path.field("protocol");
                    report.error(&path, format!("found {found}, expected TCP, UDP or SCTP"));
                    continue;
                }
            };
            let ip = if raw.host_ip.is_empty() { "0.0.0.0".into() } else { raw.host_ip.0.clone() };
            ports.push(HostPort { ip, protocol, port });
        }
    }
}
