//! Measures the engine alone: time per decision, on one thread, with every node scored.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use engine::change::Change;
use engine::command::Command;
use engine::engine::{AuditPart, Engine, Settings};
use engine::framework::Profile;
use engine::object::{Pod, Text, Uid};
use serde::Serialize;

use crate::families::{Family, Measures, Stream, Work};
use crate::memory::{Footprint, Growth};
use crate::statistics::percentile;

const SECOND: i64 = 1_000_000_000;

/// Seconds of simulated time without an attempt after which a run fails.
const IDLE_SECONDS_MAX: usize = 1000;

/// The results of one family with one number of nodes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    /// Family.
    pub(crate) family: &'static str,
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Number of pods measured.
    pub(crate) pods: usize,
    /// Decisions per second of time spent deciding.
    pub(crate) decisions_per_second: f64,
    /// Median time of one decision, in microseconds.
    pub us_p50: f64,
    /// 99th percentile of the time of one decision.
    pub us_p99: f64,
    /// Longest decision.
    pub(crate) us_max: f64,
    /// For families with a quiet case: mean time of a decision (of an audit: the longest part) divided by that of the
    /// quiet case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times_quiet: Option<f64>,
    /// Memory per object; not measured of families with a quiet case.
    #[serde(flatten)]
    pub(crate) footprint: Option<Footprint>,
}

/// An engine whose commands succeed at once.
struct EngineHarness {
    engine: Engine,
    now: i64,
    commands: Vec<Command>,
    /// Pods that are not bound yet, by uid, if the watch is simulated.
    pods: BTreeMap<Uid, Pod>,
    bound: usize,
    /// Simulate the watch: each bind is followed by the pod's change on its node.
    watched: bool,
}

impl EngineHarness {
    fn new(profiles: Vec<Profile>, watched: bool) -> Self {
        Self {
            engine: Engine::new(profiles, Settings::default()),
            now: 1000 * SECOND,
            commands: Vec::new(),
            pods: BTreeMap::new(),
            bound: 0,
            watched,
        }
    }

    fn apply(&mut self, change: Change) {
        self.engine.apply(change, self.now, &mut self.commands);
        self.execute();
    }

    fn tick(&mut self) {
        self.engine.tick(self.now, &mut self.commands);
        self.execute();
    }

    fn add(&mut self, pod: Pod) {
        if self.watched {
            self.pods.insert(pod.uid.clone(), pod.clone());
        }
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Makes one scheduling attempt and returns its time in nanoseconds.
    fn decide(&mut self) -> u64 {
        let started = Instant::now();
        self.engine.schedule(self.now, &mut self.commands);
        let taken = started.elapsed().as_nanos() as u64;
        self.execute();
        taken
    }

    fn execute(&mut self) {
        while let Some(command) = self.commands.pop() {
            match command {
                Command::Bind { pod, node, .. } => {
                    self.bound += 1;
                    let uid = pod.uid.clone();
                    let done = Change::Bound { uid, failure: None };
                    self.engine.apply(done, self.now, &mut self.commands);
                    if let Some(mut shown) = self.pods.remove(&pod.uid) {
                        shown.node = node;
                        let change = Change::Pod(Box::new(shown));
                        self.engine.apply(change, self.now, &mut self.commands);
                    }
                }
                Command::DeleteVictim { victim, preemptor, .. } => {
                    let gone = Change::PodGone { uid: victim.uid.clone() };
                    self.engine.apply(gone, self.now, &mut self.commands);
                    let handled = Change::VictimHandled {
                        preemptor: preemptor.uid,
                        victim: victim.uid,
                        failure: None,
                    };
                    self.engine.apply(handled, self.now, &mut self.commands);
                }
                Command::PrepareVolumes { pod, ticket, .. } => {
                    let ready = Change::VolumesReady { uid: pod.uid, ticket, failure: None };
                    self.engine.apply(ready, self.now, &mut self.commands);
                }
                _ => {}
            }
        }
    }

    /// Makes attempts until `count` more pods are bound, and calls `each` with the time of each attempt.
    fn run(&mut self, count: usize, mut each: impl FnMut(u64)) -> Result<()> {
        let goal = self.bound + count;
        let mut idle = 0;
        while self.bound < goal {
            if self.engine.queue().has_next() {
                each(self.decide());
                continue;
            }
            idle += 1;
            if idle > IDLE_SECONDS_MAX {
                bail!("{} pods were not bound", goal - self.bound);
            }
            self.now += SECOND;
            self.tick();
        }
        Ok(())
    }

    /// Runs all parts of an audit once, and calls `each` with the time of each part.
    fn audit(&mut self, mut each: impl FnMut(u64)) -> Result<()> {
        let mut part = Some(AuditPart::default());
        while let Some(next) = part {
            let started = Instant::now();
            let (following, found) = self.engine.audit_part(next);
            each(started.elapsed().as_nanos() as u64);
            found.map_err(|found| anyhow!("the audit found a difference: {found}"))?;
            part = following;
        }
        Ok(())
    }

    /// Applies all that exists before the measurement, and returns the measured and the leaving pods.
    fn load(&mut self, work: Work) -> Result<(Stream<Pod>, Stream<Uid>)> {
        for node in work.nodes {
            self.apply(Change::Node(node.into()));
        }
        for object in work.objects {
            self.apply(object);
        }
        let mut initial = 0;
        for pod in work.initial {
            self.add(pod);
            initial += 1;
        }
        self.run(initial, |_| {})?;
        for pod in work.waiting {
            self.add(pod);
        }
        // Pods that never fit are tried once before the measurement.
        while self.engine.queue().counts().active > 0 {
            self.decide();
        }
        Ok((work.measured, work.leaving))
    }
}

/// Number of audits, of which the shortest time of each part is taken, since other processes only make a part longer.
const AUDITS: usize = 5;

/// Simulated time between pods that leave, in nanoseconds.
const BETWEEN_LEAVING: i64 = SECOND / 50;

/// Nanoseconds of each attempt, or of each part of an audit.
struct Measured {
    pods: usize,
    times: Vec<u64>,
}

impl Measured {
    fn of(profiles: Vec<Profile>, work: Work, measures: Measures) -> Result<Self> {
        let mut harness = EngineHarness::new(profiles, true);
        let (measured, mut leaving) = harness.load(work)?;
        let mut times = Vec::new();
        let mut pods = 0;
        if measures == Measures::AuditParts {
            for _ in 0..AUDITS {
                let mut part = 0;
                harness.audit(|taken| {
                    match times.get_mut(part) {
                        Some(shortest) => *shortest = taken.min(*shortest),
                        None => times.push(taken),
                    }
                    part += 1;
                })?;
            }
            return Ok(Self { pods, times });
        }
        let mut at_once = 0;
        for pod in measured {
            pods += 1;
            let Some(uid) = leaving.next() else {
                harness.add(pod);
                at_once += 1;
                continue;
            };
            harness.now += BETWEEN_LEAVING;
            harness.tick();
            harness.apply(Change::PodGone { uid });
            harness.add(pod);
            harness.run(1, |taken| times.push(taken))?;
        }
        harness.run(at_once, |taken| times.push(taken))?;
        times.shrink_to_fit();
        Ok(Self { pods, times })
    }

    fn total(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64
    }

    fn longest(&self) -> f64 {
        self.times.iter().max().map_or(0.0, |longest| *longest as f64)
    }

    /// Returns the figure that is compared with the quiet case.
    fn compared_with_quiet(&self, measures: Measures) -> f64 {
        match measures {
            Measures::Decisions => self.total() / self.times.len().max(1) as f64,
            Measures::AuditParts => self.longest(),
        }
    }
}

/// Measures one family with one number of nodes, and its quiet case if it has one.
pub(crate) fn run(
    profiles: impl Fn() -> Result<Vec<Profile>>,
    family: &Family,
    nodes: usize,
    footprint: Option<Footprint>,
) -> Result<Sample> {
    let measures = family.measures;
    let mut measured = Measured::of(profiles()?, (family.work)(nodes), measures)?;
    let times_quiet = match family.quiet {
        None => None,
        Some(quiet) => {
            let quiet = Measured::of(profiles()?, quiet(nodes), measures)?;
            Some(measured.compared_with_quiet(measures) / quiet.compared_with_quiet(measures))
        }
    };
    let (total, longest) = (measured.total(), measured.longest());
    let decisions = match measures {
        Measures::Decisions => measured.pods,
        Measures::AuditParts => measured.times.len(),
    };
    let times = &mut measured.times;
    times.sort_unstable();
    let percentile_us = |share| percentile(times, share).map_or(0.0, |ns| ns as f64 / 1000.0);
    Ok(Sample {
        family: family.name,
        nodes,
        pods: measured.pods,
        decisions_per_second: decisions as f64 * 1e9 / total,
        us_p50: percentile_us(0.5),
        us_p99: percentile_us(0.99),
        us_max: longest / 1000.0,
        times_quiet,
        footprint,
    })
}

/// Schedules exactly `count` of a family's measured pods, for instruction counts.
///
/// All measured pods are created and queued whatever the count, so that two runs differ only by their decisions.
pub(crate) fn work(
    profiles: Vec<Profile>,
    family: &Family,
    nodes: usize,
    count: usize,
) -> Result<()> {
    let mut harness = EngineHarness::new(profiles, false);
    let (measured, leaving) = harness.load((family.work)(nodes))?;
    // All pods that leave do so before the first attempt.
    leaving.for_each(|uid| harness.apply(Change::PodGone { uid }));
    let mut pods = 0;
    for pod in measured {
        harness.add(pod);
        pods += 1;
    }
    if count > pods {
        bail!("{} has {pods} measured pods with {nodes} nodes", family.name);
    }
    harness.run(count, |_| {})?;
    // Dropping the engine would cost instructions that depend on the count.
    std::mem::forget(harness);
    Ok(())
}

/// Measures the memory of a family's nodes, classes and pods in this process.
///
/// All pods are placed; then a twin of each is added that is on a node already. A twin adds no class, so the difference
/// between the two growths is the memory of the classes.
pub(crate) fn footprint(
    profiles: Vec<Profile>,
    family: &Family,
    nodes: usize,
) -> Result<Footprint> {
    let work = (family.work)(nodes);
    let mut harness = EngineHarness::new(profiles, false);
    let mut growth = Growth::begin()?;
    for node in work.nodes {
        harness.apply(Change::Node(node.into()));
    }
    let by_nodes = growth.step()?;
    for object in work.objects {
        harness.apply(object);
    }
    growth.step()?;
    let mut pods = 0;
    for pod in work.initial.chain(work.measured) {
        harness.add(pod);
        harness.run(1, |_| {})?;
        pods += 1;
    }
    let by_family = growth.step()?;
    let work = (family.work)(nodes);
    let places: Vec<Text> = work.nodes.map(|node| node.name).collect();
    growth.step()?;
    let before = harness.engine.state().pods.count();
    for (pod, node) in work.initial.chain(work.measured).zip(places.iter().cycle()) {
        harness.add(twin(pod, node.clone()));
    }
    let by_twins = growth.step()?;
    let twins = harness.engine.state().pods.count() - before;
    if twins != pods {
        bail!("{} has {pods} pods and {twins} twins of them", family.name);
    }
    let work = (family.work)(nodes);
    let parts = work.initial.chain(work.measured).map(|pod| (pod.namespace, pod.labels, pod.spec));
    let classes = parts.collect::<HashSet<_>>().len();
    Ok(Footprint::new(nodes, classes, pods, by_nodes, by_family, by_twins))
}

/// Returns a pod with the same spec and labels on a node, with other names of the same length.
fn twin(pod: Pod, node: Text) -> Pod {
    let rename = |name: &str| Text::from(format!("~{}", name.get(1..).unwrap_or_default()));
    let (name, uid) = (rename(&pod.name), rename(&pod.uid.to_string()));
    Pod { name, uid: uid.into(), node, ..pod }
}
