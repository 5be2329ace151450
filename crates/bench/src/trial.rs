//! Measures trials on a filled cluster: the cost of each step and of rolling back, the copy of the state for a planner
//! on another thread, and decisions while that planner works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use engine::bitset::NodeSet;
use engine::change::Change;
use engine::command::Command;
use engine::cycle::decide::Decision;
use engine::engine::{Engine, Fork, Settings, Trial};
use engine::framework::Profile;
use engine::index::PodIdx;
use engine::object::{Pod, WhenUnsatisfiable};
use serde::Serialize;

use crate::memory::Growth;
use crate::objects::{ZONE, default_pod, node, set_requests, with_owner, with_spread};
use crate::statistics::percentile;

const SECOND: i64 = 1_000_000_000;

/// Pods of one deployment.
const REPLICAS: usize = 100;

/// Decisions of each round, alone and beside the planner.
const DECISIONS: usize = 2000;

/// Rounds of decisions, alone and beside the planner in turn.
const ROUNDS: usize = 5;

/// The results. Times are in microseconds unless the name says otherwise.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) steps: usize,
    pub(crate) remove: Times,
    /// Decisions for a class that the trial decided on before.
    pub(crate) decide: Times,
    /// First decisions for a class, which evaluate it.
    pub(crate) first_decide: Times,
    pub(crate) place: Times,
    /// Rolling all back, divided by the number of steps.
    pub(crate) roll_back_per_step: f64,
    /// Shortest copy of the state, in milliseconds.
    pub(crate) fork_ms: f64,
    /// Resident memory of one copy.
    pub(crate) fork_bytes: u64,
    pub(crate) decisions_per_second_alone: f64,
    pub(crate) decisions_per_second_beside_planner: f64,
    /// Moves that the planner tried per second meanwhile.
    pub(crate) planner_moves_per_second: f64,
}

/// Distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Times {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Times {
    fn of(mut nanoseconds: Vec<u64>) -> Self {
        nanoseconds.sort_unstable();
        let count = nanoseconds.len();
        let mean = nanoseconds.iter().sum::<u64>() as f64 / count.max(1) as f64 / 1000.0;
        let at = |share| percentile(&nanoseconds, share).map_or(0.0, |time| time as f64 / 1000.0);
        Self { count, mean, p50: at(0.5), p99: at(0.99) }
    }
}

/// Measures with this many nodes, pods and moves.
pub(crate) fn run(
    profiles: Vec<Profile>,
    nodes: usize,
    pods: usize,
    steps: usize,
) -> Result<Outcome> {
    let mut cluster = Cluster::new(profiles, nodes, pods);
    let moved = cluster.sample(steps);
    let mut moves = Moves::default();
    let started = {
        let mut trial = cluster.engine.trial();
        moves.make(&mut trial, &moved);
        let started = Instant::now();
        drop(trial);
        started
    };
    let roll_back = started.elapsed().as_secs_f64() * 1e6;
    let (fork_ms, fork_bytes) = measure_fork(&cluster.engine)?;
    let beside = cluster.decide_beside_planner(&moved)?;
    let Moves { remove, decide, first_decide, place } = moves;
    Ok(Outcome {
        nodes,
        pods,
        steps,
        remove: Times::of(remove),
        decide: Times::of(decide),
        first_decide: Times::of(first_decide),
        place: Times::of(place),
        roll_back_per_step: roll_back / steps as f64,
        fork_ms,
        fork_bytes,
        decisions_per_second_alone: beside.alone,
        decisions_per_second_beside_planner: beside.with_planner,
        planner_moves_per_second: beside.planner,
    })
}

/// Nanoseconds of each operation of the moves.
#[derive(Default)]
struct Moves {
    remove: Vec<u64>,
    decide: Vec<u64>,
    first_decide: Vec<u64>,
    place: Vec<u64>,
}

impl Moves {
    /// Moves each pod from its node to the best other one.
    fn make(&mut self, trial: &mut Trial, pods: &[PodIdx]) {
        let mut excluded = NodeSet::new(trial.state().nodes.slots());
        let mut decided = std::collections::BTreeSet::new();
        for pod in pods {
            let record = trial.state().pods.get(*pod);
            let (node, class) = (record.node, (record.label_set, record.spec));
            timed(&mut self.remove, || trial.remove(*pod));
            excluded.insert(node);
            let is_first = decided.insert(class);
            let times = if is_first { &mut self.first_decide } else { &mut self.decide };
            let decision = timed(times, || trial.decide(*pod, &excluded));
            excluded.remove(node);
            if let Decision::Node { node, .. } = decision {
                let placed = timed(&mut self.place, || trial.place(*pod, node));
                debug_assert!(placed.is_ok(), "the pods have no volumes");
            }
        }
    }
}

fn timed<T>(times: &mut Vec<u64>, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = work();
    times.push(started.elapsed().as_nanos() as u64);
    done
}

/// Returns the time of a copy in milliseconds and its resident bytes.
fn measure_fork(engine: &Engine) -> Result<(f64, u64)> {
    let mut growth = Growth::begin()?;
    let mut shortest = f64::INFINITY;
    let mut bytes = 0;
    let mut forks = Vec::new();
    // All copies are kept, so that none reuses the memory of another.
    for _ in 0..3 {
        let started = Instant::now();
        forks.push(engine.fork());
        shortest = shortest.min(started.elapsed().as_secs_f64() * 1e3);
        bytes = growth.step()?;
    }
    Ok((shortest, bytes))
}

/// Decisions per second, and moves per second of the planner.
struct Beside {
    alone: f64,
    with_planner: f64,
    planner: f64,
}

/// An engine with pods on all nodes.
struct Cluster {
    engine: Engine,
    commands: Vec<Command>,
    now: i64,
    added: usize,
}

impl Cluster {
    fn new(profiles: Vec<Profile>, nodes: usize, pods: usize) -> Self {
        let engine = Engine::new(profiles, Settings::default());
        let mut cluster = Self { engine, commands: Vec::new(), now: 1000 * SECOND, added: 0 };
        for index in 0..nodes {
            cluster.apply(Change::Node(node(index, 3).into()));
        }
        for index in 0..pods {
            let mut pod = cluster.next_pod();
            pod.node = format!("node-{:05}", (index + index / nodes) % nodes).into();
            cluster.apply(Change::Pod(pod.into()));
        }
        cluster
    }

    fn apply(&mut self, change: Change) {
        self.engine.apply(change, self.now, &mut self.commands);
    }

    /// Returns another pod, the next replica of the next deployment. A quarter spreads over zones.
    fn next_pod(&mut self) -> Pod {
        let (deployment, replica) = (self.added / REPLICAS, self.added % REPLICAS);
        self.added += 1;
        let app = format!("app-{deployment}");
        let name = format!("{app}-{replica:03}");
        let mut pod = with_owner(default_pod("ns", &name, &[("app", &app)]), &app);
        set_requests(&mut pod, 50 + (deployment % 8) as i64 * 10, 200 << 20);
        if deployment.is_multiple_of(4) {
            let when = WhenUnsatisfiable::ScheduleAnyway;
            pod = with_spread(pod, ZONE, 1, when, ("app", &app), false);
        }
        pod
    }

    /// Returns pods in turn of as many deployments as there are in a tenth of the count.
    fn sample(&self, count: usize) -> Vec<PodIdx> {
        let deployments = (count / 10).max(1);
        let pods = self.engine.state().pods.slots();
        let at = |step: usize| (step % deployments) * REPLICAS + step / deployments;
        (0..count).map(|step| PodIdx::from(at(step) % pods)).collect()
    }

    /// Makes rounds of decisions, alone and while a thread plans on a fork.
    fn decide_beside_planner(&mut self, moved: &[PodIdx]) -> Result<Beside> {
        let (mut alone, mut with_planner, mut planned) = (0.0, 0.0, 0.0);
        self.decide_round()?;
        for _ in 0..ROUNDS {
            alone += self.decide_round()?;
            let stop = Arc::new(AtomicBool::new(false));
            let fork = self.engine.fork();
            let planner = {
                let (stop, moved) = (Arc::clone(&stop), moved.to_vec());
                thread::spawn(move || plan(fork, &moved, &stop))
            };
            with_planner += self.decide_round()?;
            stop.store(true, Ordering::Relaxed);
            let Ok(rate) = planner.join() else { bail!("the planner failed") };
            planned += rate;
        }
        let mean = |seconds: f64| DECISIONS as f64 * ROUNDS as f64 / seconds;
        Ok(Beside {
            alone: mean(alone),
            with_planner: mean(with_planner),
            planner: planned / ROUNDS as f64,
        })
    }

    /// Adds pods, decides on them, and removes them again. Returns the seconds of the decisions.
    fn decide_round(&mut self) -> Result<f64> {
        let mut added = Vec::new();
        for _ in 0..DECISIONS {
            let pod = self.next_pod();
            added.push(pod.uid.clone());
            self.apply(Change::Pod(pod.into()));
        }
        self.commands.clear();
        let started = Instant::now();
        for _ in 0..DECISIONS {
            self.engine.schedule(self.now, &mut self.commands);
        }
        let seconds = started.elapsed().as_secs_f64();
        let is_bind = |command: &&Command| matches!(command, Command::Bind { .. });
        let bound = self.commands.iter().filter(is_bind).count();
        for uid in added {
            self.apply(Change::PodGone { uid });
        }
        self.commands.clear();
        if bound < DECISIONS {
            bail!(
                "{} of {DECISIONS} pods fit nowhere; give more --nodes or fewer --pods",
                DECISIONS - bound
            );
        }
        Ok(seconds)
    }
}

/// Tries the same moves over and over until told to stop, and returns the moves per second.
fn plan(mut fork: Fork, moved: &[PodIdx], stop: &AtomicBool) -> f64 {
    let started = Instant::now();
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut trial = fork.trial();
        for pods in moved.chunks(10) {
            Moves::default().make(&mut trial, pods);
            made += pods.len();
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    made as f64 / started.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_timed() {
        let built = plugins::registry::Registry::default()
            .profiles(&::api::config::defaults(::api::config::Gates::default()));
        let profiles = built.unwrap_or_else(|problems| panic!("{problems:?}"));
        let outcome = run(profiles, 200, 2000, 50).unwrap();
        let counts = [outcome.remove.count, outcome.place.count];
        assert_eq!(counts, [50, 50]);
        assert_eq!((outcome.first_decide.count, outcome.decide.count), (5, 45));
        assert!(outcome.planner_moves_per_second > 0.0);
    }

    #[test]
    fn the_distribution_is_in_microseconds() {
        let times = Times::of(vec![3000, 1000, 2000]);
        assert_eq!((times.count, times.mean, times.p50), (3, 2.0, 2.0));
    }
}
