//! Exec plugins of kubeconfigs: programs that print credentials.

use std::io::{self, IsTerminal as _, stdin};
use std::process::{Command, ExitStatus, Stdio};
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

/// Maximum length of a plugin's standard error in a message, in characters.
const STDERR_CHARS_MAX: usize = 1000;

/// Why an exec plugin gave no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The plugin wants to prompt, and there is no terminal.
    #[error("needs a terminal (interactiveMode: Always), and standard input is none")]
    NeedsTerminal,
    /// The description of the cluster is not JSON.
    #[error("cannot be passed the cluster")]
    ClusterInfo(#[source] serde_json::Error),
    /// The program did not start.
    #[error("cannot be run")]
    Run(#[source] io::Error),
    /// The program failed.
    #[error("failed ({status}): {stderr}")]
    Failed {
        /// Its status.
        status: ExitStatus,
        /// The beginning of its standard error.
        stderr: String,
    },
    /// Its output is not an ExecCredential.
    #[error("does not print an ExecCredential")]
    ParseOutput(#[source] serde_json::Error),
    /// Its output has no credentials.
    #[error(
        "prints neither status.token nor status.clientCertificateData with status.clientKeyData"
    )]
    NoCredentials,
    /// The expiry is not a time.
    #[error("status.expirationTimestamp")]
    ParseExpiry(#[source] k8s_openapi::jiff::Error),
}

/// The output of a plugin.
#[derive(Debug)]
pub(crate) struct PluginCredentials {
    pub(crate) token: Option<String>,
    /// Certificate and key in PEM.
    pub(crate) certificate: Option<(String, String)>,
    pub(crate) expires: Option<SystemTime>,
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
pub(crate) fn run(exec: &ExecConfig, program: &str) -> Result<PluginCredentials, ExecError> {
    let is_interactive =
        exec.interactive_mode != Some(ExecInteractiveMode::Never) && stdin().is_terminal();
    if !is_interactive && exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(ExecError::NeedsTerminal);
    }
    let mut spec = json!({"interactive": is_interactive});
    if exec.provide_cluster_info {
        spec["cluster"] = serde_json::to_value(&exec.cluster).map_err(ExecError::ClusterInfo)?;
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    if is_interactive {
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
    let output = command.output().map_err(ExecError::Run)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr = stderr.trim().chars().take(STDERR_CHARS_MAX).collect();
        return Err(ExecError::Failed { status: output.status, stderr });
    }
    let credential: ExecCredential =
        serde_json::from_slice(&output.stdout).map_err(ExecError::ParseOutput)?;
    let status = credential.status.unwrap_or_default();
    let certificate = status.client_certificate_data.zip(status.client_key_data);
    if status.token.is_none() && certificate.is_none() {
        return Err(ExecError::NoCredentials);
    }
    let expires = status.expiration_timestamp.map(|expires| expires.parse::<Timestamp>());
    let expires = expires.transpose().map_err(ExecError::ParseExpiry)?.map(SystemTime::from);
    Ok(PluginCredentials { token: status.token, certificate, expires })
}
