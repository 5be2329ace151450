//! The table of scenarios; one file each, or one file for several that share their set-up.

mod absent;
mod apiserver;
mod constraints;
mod custom;
mod deployment;
mod etcd;
mod events;
mod extenders;
mod failover;
mod faults;
mod flags;
mod forms;
mod gates;
mod handover;
mod mistakes;
mod pages;
mod partition;
mod preemption;
mod profiles;
mod restart;
mod vanishing;
mod volumes;

use anyhow::Result;

use crate::test_env::TestEnv;

/// A scenario: a function that fails if Jindou does not behave as `shows` says.
pub(crate) struct Scenario {
    /// Name on the command line, of the namespace, and of the folder with the logs.
    pub(crate) name: &'static str,
    /// The behaviour that it checks, for the table of results.
    pub(crate) shows: &'static str,
    pub(crate) run: fn(&TestEnv) -> Result<()>,
}

/// All scenarios, in the order in which they run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "deployment",
        shows: "1,000 pods over 100 nodes run, each bound once, no node too full",
        run: deployment::run,
    },
    Scenario {
        name: "profiles",
        shows: "two profiles in one process; pods of other schedulers are left alone",
        run: profiles::run,
    },
    Scenario {
        name: "constraints",
        shows: "taints, node and pod affinity, anti-affinity, topology spread",
        run: constraints::run,
    },
    Scenario {
        name: "preemption",
        shows: "a pod of higher priority gets in; a disruption budget is respected",
        run: preemption::run,
    },
    Scenario {
        name: "gates",
        shows: "a gated pod waits until its gate is removed",
        run: gates::run,
    },
    Scenario {
        name: "volumes",
        shows: "volumes are bound when their pod is scheduled, made ahead or on demand",
        run: volumes::run,
    },
    Scenario {
        name: "custom",
        shows: "example configurations as users write them, in v1 and v1beta2",
        run: custom::run,
    },
    Scenario {
        name: "forms",
        shows: "objects of every kind are read alike from protobuf and from JSON",
        run: forms::run,
    },
    Scenario {
        name: "extenders",
        shows: "an HTTP extender turns nodes down and prefers others, for its own pods only",
        run: extenders::run,
    },
    Scenario {
        name: "events",
        shows: "events and conditions equal those of kube-scheduler beside it",
        run: events::run,
    },
    Scenario {
        name: "flags",
        shows: "the tables of flags and feature gates are those of kube-scheduler",
        run: flags::run,
    },
    Scenario {
        name: "mistakes",
        shows: "wrong files, servers and rights end with one clear sentence",
        run: mistakes::run,
    },
    Scenario {
        name: "pages",
        shows: "metrics, health and resources over HTTPS by client certificate; latency on pods",
        run: pages::run,
    },
    Scenario {
        name: "restart",
        shows: "killed in the middle of 500 pods, the next one binds the rest, none twice",
        run: restart::run,
    },
    Scenario {
        name: "failover",
        shows: "two replicas; the leader is killed in the middle of 500 pods, the other goes on",
        run: failover::run,
    },
    Scenario {
        name: "frozen",
        shows: "the leader is stopped and goes on when another leads: it ends and does no harm",
        run: failover::frozen,
    },
    Scenario {
        name: "lost",
        shows: "of the answers to binds 5 % are lost: no pod bound twice, no node too full",
        run: faults::lost,
    },
    Scenario {
        name: "answers",
        shows: "the API server answers 409, 410, 429, 500, 503 and 504 in between",
        run: faults::answers,
    },
    Scenario {
        name: "cut",
        shows: "a slow network whose connections break again and again",
        run: faults::cut,
    },
    Scenario {
        name: "stalled",
        shows: "a network that delivers nothing, for 4 and for 17 seconds",
        run: faults::stalled,
    },
    Scenario {
        name: "vanishing",
        shows: "nodes and pods are deleted while pods are bound",
        run: vanishing::run,
    },
    Scenario {
        name: "apiserver",
        shows: "the API server is killed and started again in the middle of 500 pods",
        run: apiserver::run,
    },
    Scenario {
        name: "etcd",
        shows: "etcd is killed again and again under load on nodes that are nearly full",
        run: etcd::run,
    },
    Scenario {
        name: "handover",
        shows: "replicas hand over by SIGTERM while binds are slow, refused and lost",
        run: handover::run,
    },
    Scenario {
        name: "partition",
        shows: "the leader is partitioned from the API server, and what it sent arrives late",
        run: partition::run,
    },
    Scenario {
        name: "absent",
        shows: "the API server is away at the start and in the middle, beside kube-scheduler",
        run: absent::run,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_valid_as_namespaces() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert!(scenario.name.chars().all(|c| c.is_ascii_lowercase()), "{}", scenario.name);
            assert!(SCENARIOS[..index].iter().all(|other| other.name != scenario.name));
        }
    }
}
