//! Exec plugins of kubeconfigs: programs that print credentials.

use std::io::{IsTerminal as _, stdin};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

/// Bytes that are shown of what a plugin complains about.
const STDERR_CHARS_MAX: usize = 1000;

/// What a plugin output.
#[derive(Debug)]
pub(crate) struct PluginCredentials {
    pub(crate) token: Option<String>,
    /// Certificate and key in PEM.
    pub(crate) certificate: Option<(String, String)>,
    /// When these end, if it says so.
    pub(crate) ends: Option<SystemTime>,
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredentialStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs a plugin and waits for it. With a terminal as standard input, it may prompt.
pub(crate) fn run(exec: &ExecConfig) -> Result<PluginCredentials> {
    let program = exec.command.as_deref().context("users[].user.exec.command is missing")?;
    output(exec, program).with_context(|| format!("the exec plugin {program}"))
}

fn output(exec: &ExecConfig, program: &str) -> Result<PluginCredentials> {
    let interactive =
        exec.interactive_mode != Some(ExecInteractiveMode::Never) && stdin().is_terminal();
    ensure!(
        interactive || exec.interactive_mode != Some(ExecInteractiveMode::Always),
        "needs a terminal (interactiveMode: Always), and standard input is none"
    );
    let mut spec = json!({"interactive": interactive});
    if exec.provide_cluster_info {
        spec["cluster"] = serde_json::to_value(&exec.cluster)?;
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    if interactive {
        command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        command.stdin(Stdio::null());
    }
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    let output = command.output().context("cannot be run")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr = stderr.trim().chars().take(STDERR_CHARS_MAX).collect::<String>();
    ensure!(output.status.success(), "failed ({}): {stderr}", output.status);
    let read: ExecCredential =
        serde_json::from_slice(&output.stdout).context("does not print an ExecCredential")?;
    let status = read.status.unwrap_or_default();
    let certificate = status.client_certificate_data.zip(status.client_key_data);
    ensure!(
        status.token.is_some() || certificate.is_some(),
        "prints neither status.token nor status.clientCertificateData with status.clientKeyData"
    );
    let ends = status.expiration_timestamp.map(|ends| {
        let ends: Timestamp = ends.parse().context("status.expirationTimestamp")?;
        anyhow::Ok(SystemTime::from(ends))
    });
    Ok(PluginCredentials { token: status.token, certificate, ends: ends.transpose()? })
}
