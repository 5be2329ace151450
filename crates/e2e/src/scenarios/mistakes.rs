//! A scheduler that is started with wrong files, servers or permissions exits soon, with one sentence
//! that names the cause.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::checkout::root;
use crate::schedulers::{self, DEFAULT_CONFIG};
use crate::test_env::TestEnv;
use controlplane::write_expired_client;

/// Maximum of lines on standard error: the sentence, and notes on the configuration.
const LINES_MAX: usize = 6;

/// A command line that must fail.
struct Mistake {
    name: &'static str,
    kubeconfig: String,
    config: String,
    /// Texts that the sentence must contain.
    expected: &'static [&'static str],
}

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let mistakes = mistakes(env)?;
    // All at once, because some wait for a response until a timeout.
    let started: Result<Vec<_>> = mistakes.iter().map(|mistake| start(env, mistake)).collect();
    let mut children = started?;
    let mut wrong = Vec::new();
    for (mistake, child) in mistakes.iter().zip(&mut children) {
        if let Err(error) = judge(env, mistake, child) {
            let _ = child.kill();
            let _ = child.wait();
            wrong.push(format!("{}: {error:#}", mistake.name));
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

fn mistakes(env: &TestEnv) -> Result<Vec<Mistake>> {
    env.kubectl(&["create", "serviceaccount", "powerless"])?;
    let token = env.kubectl(&["create", "token", "powerless"])?;
    let server = &env.plane.server;
    let ca = env.plane.ca.clone();
    let other_ca = ca.with_file_name("etcd-ca.crt");
    let scheduler = &env.plane.scheduler_kubeconfig;
    let kubeconfig = |name: &str, server: &str, ca: &Path, token: &str| -> Result<String> {
        let path = env.write(&format!("{name}.kubeconfig"), &access(server, ca, token))?;
        Ok(path.to_string_lossy().into_owned())
    };
    write_expired_client(&ca, &env.folder, "expired-client", "system:kube-scheduler")?;
    let expired = env.folder.join("expired-client.crt");
    let kubeconfig_with = |name: &str, certificate: &Path| -> Result<String> {
        let key = certificate.with_extension("key");
        let user = json!({"client-certificate": certificate, "client-key": key});
        let path = env.write(&format!("{name}.kubeconfig"), &kubeconfig_of(server, &ca, &user))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let plain = root().join(DEFAULT_CONFIG).to_string_lossy().into_owned();
    let absent = env.folder.join("absent").to_string_lossy().into_owned();
    let scheduler = scheduler.to_string_lossy().into_owned();
    let damaged = env.write("damaged.kubeconfig", "clusters: 7\n")?;
    let damaged = damaged.to_string_lossy().into_owned();
    let unknown = root().join("conformance/e2e/unknown-plugins.yaml");
    let unknown = unknown.to_string_lossy().into_owned();
    let with =
        |name, kubeconfig, expected| Mistake { name, kubeconfig, config: plain.clone(), expected };
    Ok(vec![
        with("no-kubeconfig", absent.clone(), &["cannot read the kubeconfig", "absent"]),
        with("damaged-kubeconfig", damaged, &["kubeconfig", "damaged"]),
        with(
            "other-authority",
            kubeconfig("other-authority", server, &other_ca, "")?,
            &["cannot talk to the API server", "certificate"],
        ),
        with(
            "bad-token",
            kubeconfig("bad-token", server, &ca, "wrong")?,
            &["cannot talk to the API server", "Unauthorized"],
        ),
        with(
            "no-rights",
            kubeconfig("no-rights", server, &ca, token.trim())?,
            &["system:serviceaccount:mistakes:powerless", "nodes", "system:kube-scheduler"],
        ),
        with(
            "expired-client",
            kubeconfig_with("expired-client", &expired)?,
            &["cannot talk to the API server", "expired-client.crt is no longer valid since 20"],
        ),
        Mistake {
            name: "no-config",
            kubeconfig: scheduler.clone(),
            config: absent,
            expected: &["absent"],
        },
        Mistake {
            name: "unknown-plugins",
            kubeconfig: scheduler,
            config: unknown,
            expected: &["unknown-plugins.yaml"],
        },
    ])
}

fn access(server: &str, ca: &Path, token: &str) -> String {
    let user = if token.is_empty() { json!({}) } else { json!({"token": token}) };
    kubeconfig_of(server, ca, &user)
}

fn kubeconfig_of(server: &str, ca: &Path, user: &Value) -> String {
    let config: Value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "mistake",
        "clusters": [{"name": "mistake", "cluster": {
            "server": server, "certificate-authority": ca,
        }}],
        "users": [{"name": "mistake", "user": user}],
        "contexts": [{"name": "mistake", "context": {"cluster": "mistake", "user": "mistake"}}],
    });
    config.to_string()
}

fn start(env: &TestEnv, mistake: &Mistake) -> Result<Child> {
    let log = File::create(env.folder.join(format!("{}.log", mistake.name)))?;
    Command::new(env.jindou)
        .args(["scheduler", "--config", &mistake.config, "--kubeconfig", &mistake.kubeconfig])
        .args(["--secure-port=0"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start jindou")
}

fn judge(env: &TestEnv, mistake: &Mistake, child: &mut Child) -> Result<()> {
    let status = schedulers::wait(child, "jindou")?;
    let said = fs::read_to_string(env.folder.join(format!("{}.log", mistake.name)))?;
    ensure!(status.code() == Some(1), "it ended with {status} and said:\n{said}");
    let sentences = said.lines().filter(|line| line.starts_with("error: "));
    let sentences: Vec<_> = sentences.collect();
    ensure!(sentences.len() == 1, "not one sentence:\n{said}");
    ensure!(said.lines().count() <= LINES_MAX, "too many lines:\n{said}");
    for expected in mistake.expected {
        ensure!(sentences[0].contains(expected), "{expected:?} is not in:\n{said}");
    }
    Ok(())
}
