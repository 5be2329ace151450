//! All flags of kube-scheduler v1.36, in the order of its help.

use super::Effect::{Acts, Nothing, Only};
use super::Flag;
use super::Value::{Bool, Duration, Integer, List, Number, Text};
use super::{Effect, Value};

const METRICS: &str = "all metrics are always exposed";
const FRONT_PROXY: &str =
    "front proxies are configured by the ConfigMap extension-apiserver-authentication only";
const PROFILES: &str = "/debug/pprof is not served";
const CACHED: &str = "reviews by the API server are cached for 10 s";
const LOG: &str = "log lines are written to standard error immediately";

/// The flags and their effects.
pub const FLAGS: &[Flag] = &[
    // misc
    flag("config", Text, Acts, ""),
    flag("master", Text, Acts, ""),
    flag("write-config-to", Text, Acts, ""),
    // secure serving
    flag("bind-address", Text, Acts, ""),
    flag(
        "cert-dir",
        Text,
        Acts,
        "kube-scheduler.crt and kube-scheduler.key are read there if both exist, and never written",
    ),
    flag("disable-http2-serving", Bool, Acts, ""),
    flag(
        "http2-max-streams-per-connection",
        Integer,
        Nothing(&["100"]),
        "each connection serves up to 100 concurrent requests",
    ),
    flag("permit-address-sharing", Bool, Nothing(&["true", "false"]), "SO_REUSEADDR is always set"),
    flag("permit-port-sharing", Bool, Acts, ""),
    flag("secure-port", Integer, Acts, ""),
    flag("tls-cert-file", Text, Acts, ""),
    flag(
        "tls-cipher-suites",
        List,
        Acts,
        "suites without forward secrecy or with CBC are not supported",
    ),
    flag("tls-curve-preferences", List, Acts, ""),
    flag("tls-min-version", Text, Acts, "versions before TLS 1.2 are not supported"),
    flag("tls-private-key-file", Text, Acts, ""),
    flag(
        "tls-sni-cert-key",
        List,
        Nothing(&[]),
        "the certificate of --tls-cert-file is used for every server name",
    ),
    // authentication
    flag("authentication-kubeconfig", Text, Acts, ""),
    flag("authentication-skip-lookup", Bool, Acts, ""),
    flag("authentication-token-webhook-cache-ttl", Duration, Nothing(&["10s"]), CACHED),
    flag("authentication-tolerate-lookup-failure", Bool, Acts, ""),
    flag("client-ca-file", Text, Acts, ""),
    flag("requestheader-allowed-names", List, Nothing(&[]), FRONT_PROXY),
    flag("requestheader-client-ca-file", Text, Nothing(&[""]), FRONT_PROXY),
    flag("requestheader-extra-headers-prefix", List, Nothing(&[]), FRONT_PROXY),
    flag("requestheader-group-headers", List, Nothing(&[]), FRONT_PROXY),
    flag("requestheader-uid-headers", List, Nothing(&[]), FRONT_PROXY),
    flag("requestheader-username-headers", List, Nothing(&[]), FRONT_PROXY),
    // authorization
    flag("authorization-always-allow-paths", List, Acts, ""),
    flag("authorization-kubeconfig", Text, Acts, ""),
    flag("authorization-webhook-cache-authorized-ttl", Duration, Nothing(&["10s"]), CACHED),
    flag("authorization-webhook-cache-unauthorized-ttl", Duration, Nothing(&["10s"]), CACHED),
    // deprecated
    flag("contention-profiling", Bool, Nothing(&["false"]), PROFILES),
    flag(
        "kube-api-burst",
        Integer,
        Acts,
        "no limit unless this or --kube-api-qps is given; ignored with --config",
    ),
    flag(
        "kube-api-content-type",
        Text,
        Nothing(&["application/vnd.kubernetes.protobuf"]),
        "protobuf is requested where Kubernetes supports it, JSON elsewhere",
    ),
    flag(
        "kube-api-qps",
        Number,
        Acts,
        "no limit unless this or --kube-api-burst is given; ignored with --config",
    ),
    flag("kubeconfig", Text, Acts, "also used with --config if the file names no kubeconfig"),
    flag("pod-max-in-unschedulable-pods-duration", Duration, Acts, ""),
    flag("profiling", Bool, Nothing(&["false"]), PROFILES),
    // leader election
    flag("leader-elect", Bool, Acts, ""),
    flag(
        "leader-elect-lease-duration",
        Duration,
        Acts,
        "must exceed the retry period by 5.5 s, the time in which a request of an old leader may still arrive",
    ),
    flag("leader-elect-renew-deadline", Duration, Acts, ""),
    flag("leader-elect-resource-lock", Text, Acts, "leases is the only kind, as in kube-scheduler"),
    flag("leader-elect-resource-name", Text, Acts, ""),
    flag("leader-elect-resource-namespace", Text, Acts, ""),
    flag("leader-elect-retry-period", Duration, Acts, ""),
    // feature gate
    flag(
        "emulated-version",
        List,
        Only(&["1.36", "kube=1.36", ""]),
        "decisions are those of Kubernetes 1.36, and no other version is emulated",
    ),
    flag("feature-gates", List, Acts, "see the table of feature gates"),
    flag(
        "min-compatibility-version",
        List,
        Nothing(&[]),
        "no feature of the scheduler depends on it",
    ),
    // metrics
    flag("allow-metric-labels", List, Nothing(&[]), METRICS),
    flag("allow-metric-labels-manifest", Text, Nothing(&[""]), METRICS),
    flag("disabled-metrics", List, Nothing(&[""]), METRICS),
    flag("show-hidden-metrics-for-version", Text, Nothing(&[""]), METRICS),
    // logs
    flag("log-flush-frequency", Duration, Nothing(&[]), LOG),
    flag("log-json-info-buffer-size", Text, Nothing(&["0"]), LOG),
    flag("log-json-split-stream", Bool, Nothing(&["false"]), LOG),
    flag("log-text-info-buffer-size", Text, Nothing(&["0"]), LOG),
    flag("log-text-split-stream", Bool, Nothing(&["false"]), LOG),
    flag("logging-format", Text, Acts, ""),
    flag("v", Integer, Acts, ""),
    flag(
        "vmodule",
        List,
        Nothing(&[""]),
        "it names source files of kube-scheduler; use -v instead",
    ),
    // global
    flag("help", Bool, Acts, ""),
    flag("version", Text, Acts, "also names the version of Jindou"),
];

const fn flag(name: &'static str, value: Value, effect: Effect, note: &'static str) -> Flag {
    Flag { name, value, effect, note }
}
