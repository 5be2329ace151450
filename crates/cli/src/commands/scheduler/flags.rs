//! The flags that act, by kube-scheduler's names, and those of our own. `upstream.rs` has the others.

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

/// Schedule the pods of a cluster, in kube-scheduler's place and with its configuration file.
#[derive(Args)]
#[command(
    args_override_self = true,
    after_help = "All other flags of kube-scheduler are accepted, too; docs/reference/flags.md says what each does here.\n\nExit codes: 0 when asked to stop, 1 when anything is wrong or the lease was lost."
)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is given on its own")]
pub(in crate::commands) struct Options {
    /// KubeSchedulerConfiguration, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Write the complete configuration to a file and exit.
    #[arg(long, value_name = "FILE")]
    pub(super) write_config_to: Option<PathBuf>,
    /// How to reach the cluster. Without it, and without one in the configuration file: as the pod that we run in.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the one in the kubeconfig.
    #[arg(long, value_name = "URL", default_value = "")]
    pub(super) master: String,

    /// Elect a leader among replicas; overrides the configuration file. So do the next ones.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = truth)]
    leader_elect: Option<bool>,
    /// How long others wait for a leader that does not renew.
    #[arg(long, value_name = "DURATION")]
    leader_elect_lease_duration: Option<Span>,
    /// How long a leader tries to renew before it gives up.
    #[arg(long, value_name = "DURATION")]
    leader_elect_renew_deadline: Option<Span>,
    /// Time between tries.
    #[arg(long, value_name = "DURATION")]
    leader_elect_retry_period: Option<Span>,
    /// Kind of the lock; `leases` is the only one.
    #[arg(long, value_name = "KIND")]
    leader_elect_resource_lock: Option<String>,
    /// Name of the lease.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the lease.
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,

    /// Port for health, metrics and configuration over HTTPS; 0 switches it off.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub(super) secure_port: u16,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(super) bind_address: IpAddr,
    /// Let other processes listen at the same address and port.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_parser = truth)]
    pub(super) permit_port_sharing: bool,
    /// Speak HTTP/1.1 only.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_parser = truth)]
    pub(super) disable_http2_serving: bool,
    /// Folder with kube-scheduler.crt and kube-scheduler.key; without both, a certificate is made for localhost.
    #[arg(long, value_name = "FOLDER")]
    cert_dir: Option<String>,
    /// Certificate to show, in PEM; wins over the folder.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// The oldest TLS: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: String,
    /// Cipher suites of TLS 1.2; without it, all that are safe.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
    /// Numbers of key exchanges; without it, all that are safe.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    tls_curve_preferences: Vec<u16>,
    /// Authorities whose client certificates are taken for identities, in PEM; without it, those that the cluster names.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Do not ask the cluster which authorities vouch for clients and for front proxies.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_parser = truth)]
    authentication_skip_lookup: bool,
    /// Go on when the cluster cannot be asked that; it is asked again later.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set, value_parser = truth)]
    authentication_tolerate_lookup_failure: bool,
    /// Kubeconfig for TokenReviews; without it, the one of the cluster.
    #[arg(long, value_name = "FILE")]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig for SubjectAccessReviews; without it, the one for authentication.
    #[arg(long, value_name = "FILE")]
    pub(super) authorization_kubeconfig: Option<PathBuf>,
    /// Paths that anybody may read.
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
    /// Requests per second to the API server, without --config; no limit unless this or the next one is given.
    #[arg(long, value_name = "NUMBER")]
    kube_api_qps: Option<f32>,
    /// Requests at once after a rest, without --config.
    #[arg(long, value_name = "COUNT")]
    kube_api_burst: Option<i32>,
    /// How long a pod may wait for an event before it is tried anyway.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(super) pod_max_in_unschedulable_pods_duration: Span,
    /// Tell each pod that is bound how long that took since it could first be tried, in its annotation scheduling.novasphere.dev/schedulerLatency. Not for pods that an extender binds.
    #[arg(long)]
    pub(super) annotate_latency: bool,
    /// Send traces of attempts and binds to this collector: OTLP, protobuf over HTTP, such as http://localhost:4318.
    #[arg(long, value_name = "URL")]
    tracing_endpoint: Option<String>,
    /// Of how many attempts in a million.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, requires = "tracing_endpoint", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    tracing_sampling_rate_per_million: u32,
    /// How much is logged: 0 to 3 tell what matters to operators, 4 and 5 details, 6 and more everything of ours, 10 also of libraries.
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    pub(super) v: u32,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t)]
    pub(super) logging_format: LogFormat,

    /// Print the version of Kubernetes whose decisions are made, and exit.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub(super) version: Version,

    /// Flags of kube-scheduler that do nothing here.
    #[command(flatten)]
    inert: Inert,

    /// Where it runs.
    #[arg(skip)]
    pub(super) place: Place,
    /// The program around, if it waits for the start and asks for the end.
    #[arg(skip)]
    pub(super) embedding: Option<Embedding>,
}

/// The flags alone, for programs that start a scheduler themselves.
#[derive(clap::Parser)]
pub(super) struct Alone {
    #[command(flatten)]
    pub(super) options: Options,
}

/// Where a scheduler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// On a cluster.
    #[default]
    Cluster,
    /// In a program that has a cluster of its own: its kubeconfig counts whatever the file says, and
    /// only what goes wrong is logged.
    Embedded,
}

/// Form of the log.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(in crate::commands) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// Objects for programs.
    Json,
}

/// What `--version` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Nothing.
    No,
    /// A line.
    Line,
    /// All parts of it.
    Raw,
    /// To report another one, which is not done.
    Other(String),
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, parse_bool(text)) {
            ("raw", _) => Ok(Self::Raw),
            (_, Some(true)) => Ok(Self::Line),
            (_, Some(false)) => Ok(Self::No),
            _ if text.starts_with('v') => Ok(Self::Other(text.to_owned())),
            _ => Err("give nothing, raw, true or false".to_owned()),
        }
    }
}

/// Reads a truth value as Go does.
fn truth(text: &str) -> Result<bool, String> {
    parse_bool(text).ok_or_else(|| "give true or false".to_owned())
}

/// Whether the cluster is asked who vouches for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It is not.
    Skip,
    /// It is, and may fail to answer.
    May,
    /// It must answer.
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
    /// Options of a scheduler that is the only one of a cluster in the same process.
    pub(in crate::commands) fn embedded(
        config: Option<&Path>,
        embedding: &Embedding,
    ) -> Result<Self> {
        let mut options =
            Alone::try_parse_from(["scheduler", "--secure-port=0", "--leader-elect=false"])?
                .options;
        options.config = config.map(Path::to_owned);
        options.place = Place::Embedded;
        options.embedding = Some(embedding.clone());
        Ok(options)
    }

    /// Sets how the cluster is reached.
    pub(in crate::commands) fn kubeconfig(&mut self, path: &Path) {
        self.kubeconfig = Some(path.to_owned());
    }

    /// Starts the log of an embedded scheduler and of the program around.
    pub(in crate::commands) fn log(&mut self, v: u8, format: LogFormat) {
        (self.v, self.logging_format) = (v.into(), format);
        super::log::start(self);
    }

    /// What is to be told of flags and feature gates that do nothing.
    pub(super) fn warnings(&self, parsed: &gates::ParsedGates) -> Vec<String> {
        let mut warnings: Vec<_> = self.inert.warnings().collect();
        if self.config.is_some() && (self.kube_api_qps.is_some() || self.kube_api_burst.is_some()) {
            warnings.push(
                "--kube-api-qps and --kube-api-burst have no effect with --config, as in kube-scheduler: write clientConnection there"
                    .to_owned(),
            );
        }
        if let Version::Other(version) = &self.version {
            warnings.push(format!(
                "--version={version} has no effect here: the reported version is that of the program"
            ));
        }
        if !parsed.ignored.is_empty() {
            warnings.push(format!(
                "--feature-gates: {} do nothing here: they concern other components, or how a scheduler works and not what it decides",
                parsed.ignored.join(", ")
            ));
        }
        warnings
    }

    /// The limits of flags, which count without a configuration file. Whether there are any.
    pub(super) fn override_limits(&self, connection: &mut ClientConnection) -> bool {
        if self.config.is_some() {
            return false;
        }
        connection.qps = self.kube_api_qps.unwrap_or(connection.qps);
        connection.burst = self.kube_api_burst.unwrap_or(connection.burst);
        self.kube_api_qps.is_some() || self.kube_api_burst.is_some()
    }

    /// The feature gates.
    pub(super) fn gates(&self) -> Result<gates::ParsedGates> {
        let settings = self.feature_gates.iter().map(String::as_str);
        Gates::parse(settings).map_err(|wrong| anyhow!("--feature-gates: {wrong}"))
    }

    /// Flags that were given override the file.
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

    /// The certificate to show.
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
            _ => bail!("--tls-cert-file and --tls-private-key-file go together"),
        }
    }

    /// Where traces go, if anywhere.
    pub(super) fn traces(&self, instance: &str, io: &Handle) -> Result<Traces> {
        let Some(endpoint) = &self.tracing_endpoint else { return Ok(Traces::off()) };
        let share = self.tracing_sampling_rate_per_million;
        Traces::start(endpoint, share, instance, io.clone()).context("--tracing-endpoint")
    }

    /// Whether the cluster is asked who vouches for clients.
    pub(super) fn lookup(&self) -> Lookup {
        match (self.authentication_skip_lookup, self.authentication_tolerate_lookup_failure) {
            (true, _) => Lookup::Skip,
            (false, true) => Lookup::May,
            (false, false) => Lookup::Must,
        }
    }

    /// The oldest TLS. Nothing older than 1.2 is spoken.
    pub(super) fn tls_min(&self) -> Result<TlsMin> {
        match &*self.tls_min_version {
            "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "" => Ok(TlsMin::V1_2),
            "VersionTLS13" => Ok(TlsMin::V1_3),
            other => bail!("--tls-min-version: {other:?} is not VersionTLS12 or VersionTLS13"),
        }
    }

    /// Cipher suites and key exchanges.
    pub(super) fn ciphers(&self) -> Result<Ciphers> {
        let (ciphers, unspoken) =
            Ciphers::choose(&self.tls_cipher_suites, &self.tls_curve_preferences)
                .context("--tls-cipher-suites, --tls-curve-preferences")?;
        if !unspoken.is_empty() {
            tracing::warn!("--tls-cipher-suites: {} are not spoken", unspoken.join(", "));
        }
        Ok(ciphers)
    }
}
