//! The flags that have an effect: kube-scheduler's and our own. `upstream.rs` has the others.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, anyhow, bail};
use api::config::gates::{self, Gates, parse_bool};
use api::config::{ClientConnection, Duration, LeaderElection};
use clap::{Args, Parser as _, ValueEnum};
use runtime::http::{Ciphers, ServingCertificate, TlsMin};
use runtime::traces::Traces;
use tokio::runtime::Handle;

use super::Embedding;
use super::upstream::Inert;

/// Schedule a real cluster in kube-scheduler's place, with its flags and configuration file.
#[derive(Args)]
#[command(
    args_override_self = true,
    after_help = "All other flags of kube-scheduler are accepted, too; docs/reference/flags.md lists their effects.\n\nExit codes: 0 after SIGTERM or SIGINT, 1 after an error or a lost lease."
)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is given on its own")]
pub(in crate::commands) struct Options {
    /// KubeSchedulerConfiguration, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Write the complete configuration to a file and exit.
    #[arg(long, value_name = "FILE")]
    pub(super) write_config_to: Option<PathBuf>,
    /// Kubeconfig of the cluster [default: that of the configuration file, then the service account of the pod].
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the one in the kubeconfig.
    #[arg(long, value_name = "URL", default_value = "")]
    pub(super) master: String,

    /// Elect a leader among replicas. This and the next flags override the configuration file.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = truth)]
    leader_elect: Option<bool>,
    /// Time after the last renewal at which another replica may take the lease.
    #[arg(long, value_name = "DURATION")]
    leader_elect_lease_duration: Option<Span>,
    /// Time for which a leader tries to renew the lease before it gives up.
    #[arg(long, value_name = "DURATION")]
    leader_elect_renew_deadline: Option<Span>,
    /// Time between attempts to acquire or renew the lease.
    #[arg(long, value_name = "DURATION")]
    leader_elect_retry_period: Option<Span>,
    /// Kind of the lock; only `leases` is supported.
    #[arg(long, value_name = "KIND")]
    leader_elect_resource_lock: Option<String>,
    /// Name of the lease.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the lease.
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,

    /// HTTPS port for health, metrics and configuration; 0 disables it.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub(super) secure_port: u16,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(super) bind_address: IpAddr,
    /// Allow other processes to listen on the same address and port (SO_REUSEPORT).
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_parser = truth)]
    pub(super) permit_port_sharing: bool,
    /// Serve HTTP/1.1 only.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_parser = truth)]
    pub(super) disable_http2_serving: bool,
    /// Directory with kube-scheduler.crt and kube-scheduler.key; without both, a self-signed certificate is used.
    #[arg(long, value_name = "DIRECTORY")]
    cert_dir: Option<String>,
    /// Serving certificate, in PEM; takes precedence over --cert-dir.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Private key of the serving certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// Minimum TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: String,
    /// Cipher suites of TLS 1.2 [default: all secure ones].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
    /// Numbers of key exchanges [default: all secure ones].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    tls_curve_preferences: Vec<u16>,
    /// Certificate authorities of clients, in PEM [default: those of the cluster].
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Do not look up the certificate authorities of clients and front proxies in the cluster.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_parser = truth)]
    authentication_skip_lookup: bool,
    /// Continue if that lookup fails, and retry it later.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set, value_parser = truth)]
    authentication_tolerate_lookup_failure: bool,
    /// Kubeconfig for TokenReviews [default: that of the cluster].
    #[arg(long, value_name = "FILE")]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig for SubjectAccessReviews [default: that for TokenReviews].
    #[arg(long, value_name = "FILE")]
    pub(super) authorization_kubeconfig: Option<PathBuf>,
    /// Paths that need no authorization.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub(super) authorization_always_allow_paths: Vec<String>,

    /// Feature gates, such as `A=true,B=false`.
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    feature_gates: Vec<String>,
    /// Limit of requests per second to the API server, without --config; no limit unless this or the next flag is given.
    #[arg(long, value_name = "NUMBER")]
    kube_api_qps: Option<f32>,
    /// Burst above that limit, without --config.
    #[arg(long, value_name = "COUNT")]
    kube_api_burst: Option<i32>,
    /// Longest time that an unschedulable pod waits for an event before it is retried.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(super) pod_max_in_unschedulable_pods_duration: Span,
    /// Write the latency of each bound pod, from when it could first be scheduled to its bind, into its annotation scheduling.novasphere.dev/schedulerLatency; not for pods that an extender binds.
    #[arg(long)]
    pub(super) annotate_latency: bool,
    /// Send OpenTelemetry traces of attempts and binds to this collector (OTLP, protobuf over HTTP), such as http://localhost:4318.
    #[arg(long, value_name = "URL")]
    tracing_endpoint: Option<String>,
    /// Number of attempts to trace, in a million.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, requires = "tracing_endpoint", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    tracing_sampling_rate_per_million: u32,
    /// Log level: 0 to 3 for operators, 4 and 5 with details, 6 and more everything of Jindou, 10 also libraries.
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    pub(super) v: u32,
    /// Log format.
    #[arg(long, value_enum, default_value_t)]
    pub(super) logging_format: LogFormat,

    /// Print the reproduced version of Kubernetes and the version of Jindou, and exit.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub(super) version: VersionFlag,

    /// Flags of kube-scheduler without effect.
    #[command(flatten)]
    inert: Inert,

    /// Where the scheduler runs.
    #[arg(skip)]
    pub(super) mode: RunMode,
    /// Signals to and from the program around an embedded scheduler.
    #[arg(skip)]
    pub(super) embedding: Option<Embedding>,
}

/// The flags as a command of their own, for parsing without `jindou scheduler`.
#[derive(clap::Parser)]
pub(super) struct Alone {
    #[command(flatten)]
    pub(super) options: Options,
}

/// Where a scheduler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RunMode {
    /// On a real cluster.
    #[default]
    Cluster,
    /// In a program with an embedded cluster: its kubeconfig overrides the configuration file, and only
    /// warnings and errors are logged by default.
    Embedded,
}

/// Log format.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(in crate::commands) enum LogFormat {
    /// Text lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Value of `--version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VersionFlag {
    /// Do not print the version.
    No,
    /// Print one line.
    Line,
    /// Print all parts.
    Raw,
    /// Report another version, which is not supported.
    Other(String),
}

impl FromStr for VersionFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, parse_bool(text)) {
            ("raw", _) => Ok(Self::Raw),
            (_, Some(true)) => Ok(Self::Line),
            (_, Some(false)) => Ok(Self::No),
            _ if text.starts_with('v') => Ok(Self::Other(text.to_owned())),
            _ => Err("expected no value, raw, true or false".to_owned()),
        }
    }
}

/// Parses a boolean as Go does.
fn truth(text: &str) -> Result<bool, String> {
    parse_bool(text).ok_or_else(|| "expected true or false".to_owned())
}

/// Lookup of the certificate authorities of clients in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// No lookup.
    Skip,
    /// The lookup may fail.
    May,
    /// The lookup must succeed.
    Must,
}

/// A duration in Go's syntax.
#[derive(Clone, Copy)]
pub(super) struct Span(pub(super) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Duration::parse(text).map(Self)
    }
}

impl Options {
    /// Returns the options of the scheduler of an embedded cluster.
    pub(in crate::commands) fn embedded(
        config: Option<&Path>,
        embedding: &Embedding,
    ) -> Result<Self> {
        let mut options =
            Alone::try_parse_from(["scheduler", "--secure-port=0", "--leader-elect=false"])?
                .options;
        options.config = config.map(Path::to_owned);
        options.mode = RunMode::Embedded;
        options.embedding = Some(embedding.clone());
        Ok(options)
    }

    /// Sets the kubeconfig.
    pub(in crate::commands) fn kubeconfig(&mut self, path: &Path) {
        self.kubeconfig = Some(path.to_owned());
    }

    /// Starts the log of an embedded scheduler and of the program around it.
    pub(in crate::commands) fn log(&mut self, v: u8, format: LogFormat) {
        (self.v, self.logging_format) = (v.into(), format);
        super::log::start(self);
    }

    /// Returns warnings about flags and feature gates without effect.
    pub(super) fn warnings(&self, parsed: &gates::ParsedGates) -> Vec<String> {
        let mut warnings: Vec<_> = self.inert.warnings().collect();
        if self.config.is_some() && (self.kube_api_qps.is_some() || self.kube_api_burst.is_some()) {
            warnings.push(
                "--kube-api-qps and --kube-api-burst have no effect with --config, as in kube-scheduler: set clientConnection in the file"
                    .to_owned(),
            );
        }
        if let VersionFlag::Other(version) = &self.version {
            warnings.push(format!(
                "--version={version} has no effect here: the reported version is that of the program"
            ));
        }
        if !parsed.ignored.is_empty() {
            warnings.push(format!(
                "--feature-gates: {} have no effect here: they concern other components, or the implementation and not the decisions",
                parsed.ignored.join(", ")
            ));
        }
        warnings
    }

    /// Applies the rate limits of flags, which count only without a configuration file. Returns `true` if
    /// there are any.
    pub(super) fn override_limits(&self, connection: &mut ClientConnection) -> bool {
        if self.config.is_some() {
            return false;
        }
        connection.qps = self.kube_api_qps.unwrap_or(connection.qps);
        connection.burst = self.kube_api_burst.unwrap_or(connection.burst);
        self.kube_api_qps.is_some() || self.kube_api_burst.is_some()
    }

    /// Parses the feature gates.
    pub(super) fn gates(&self) -> Result<gates::ParsedGates> {
        let settings = self.feature_gates.iter().map(String::as_str);
        Gates::parse(settings).map_err(|wrong| anyhow!("--feature-gates: {wrong}"))
    }

    /// Overrides the leader election of the file by the given flags.
    pub(super) fn override_leader_election(&self, election: &mut LeaderElection) -> Result<()> {
        if self.leader_elect_resource_lock.as_ref().is_some_and(|lock| lock != "leases") {
            bail!("--leader-elect-resource-lock: only \"leases\" is supported");
        }
        let set = |target: &mut Duration, given: Option<Span>| {
            if let Some(Span(given)) = given {
                *target = given;
            }
        };
        set(&mut election.lease_duration, self.leader_elect_lease_duration);
        set(&mut election.renew_deadline, self.leader_elect_renew_deadline);
        set(&mut election.retry_period, self.leader_elect_retry_period);
        election.leader_elect = self.leader_elect.unwrap_or(election.leader_elect);
        if let Some(name) = &self.leader_elect_resource_name {
            election.resource_name.clone_from(name);
        }
        if let Some(namespace) = &self.leader_elect_resource_namespace {
            election.resource_namespace.clone_from(namespace);
        }
        Ok(())
    }

    /// Returns the serving certificate.
    pub(super) fn certificate(&self) -> Result<ServingCertificate> {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (None, None) => {
                let folder = self.cert_dir.as_deref().filter(|folder| !folder.is_empty());
                let Some(folder) = folder.map(Path::new) else {
                    return Ok(ServingCertificate::SelfSigned);
                };
                let [certificate, key] =
                    ["kube-scheduler.crt", "kube-scheduler.key"].map(|file| folder.join(file));
                let is_there = certificate.exists() && key.exists();
                Ok(if is_there {
                    ServingCertificate::Files { certificate, key }
                } else {
                    ServingCertificate::SelfSigned
                })
            }
            (Some(certificate), Some(key)) => {
                Ok(ServingCertificate::Files { certificate: certificate.clone(), key: key.clone() })
            }
            _ => bail!("--tls-cert-file and --tls-private-key-file must be given together"),
        }
    }

    /// Returns the exporter of traces, which is off without an endpoint.
    pub(super) fn traces(&self, instance: &str, io: &Handle) -> Result<Traces> {
        let Some(endpoint) = &self.tracing_endpoint else { return Ok(Traces::off()) };
        let share = self.tracing_sampling_rate_per_million;
        Traces::start(endpoint, share, instance, io.clone()).context("--tracing-endpoint")
    }

    /// Returns how the certificate authorities of clients are looked up.
    pub(super) fn lookup(&self) -> Lookup {
        match (self.authentication_skip_lookup, self.authentication_tolerate_lookup_failure) {
            (true, _) => Lookup::Skip,
            (false, true) => Lookup::May,
            (false, false) => Lookup::Must,
        }
    }

    /// Returns the minimum TLS version, at least 1.2.
    pub(super) fn tls_min(&self) -> Result<TlsMin> {
        match &*self.tls_min_version {
            "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "" => Ok(TlsMin::V1_2),
            "VersionTLS13" => Ok(TlsMin::V1_3),
            other => {
                bail!("--tls-min-version: found {other:?}, expected VersionTLS12 or VersionTLS13")
            }
        }
    }

    /// Returns the cipher suites and key exchanges.
    pub(super) fn ciphers(&self) -> Result<Ciphers> {
        let (ciphers, unsupported) =
            Ciphers::choose(&self.tls_cipher_suites, &self.tls_curve_preferences)
                .context("--tls-cipher-suites, --tls-curve-preferences")?;
        if !unsupported.is_empty() {
            tracing::warn!("--tls-cipher-suites: {} are not supported", unsupported.join(", "));
        }
        Ok(ciphers)
    }
}
