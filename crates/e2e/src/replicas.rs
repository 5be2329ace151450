//! Two replicas, each behind its own proxy, which identifies the sender of every write.

use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bare::BareControlPlane;
use crate::checkout::root;
use crate::proxy::{Proxy, RunId, WriteLog, WriteRecord};
use crate::schedulers::{self, SchedulerProcess};
use crate::verdict::runs;

/// Both replicas.
pub(crate) struct Replicas<'a> {
    bare: &'a BareControlPlane<'a>,
    config: &'a str,
    election: &'a [&'a str],
    slots: [ReplicaSlot; 2],
    record: Arc<WriteLog>,
    /// Number of processes started.
    started: RunId,
}

/// A slot for a replica, and the process that runs in it.
struct ReplicaSlot {
    proxy: Proxy,
    running: Option<(RunId, SchedulerProcess)>,
}

impl ReplicaSlot {
    fn run(&self) -> Option<RunId> {
        self.running.as_ref().map(|(run, _)| *run)
    }
}

impl<'a> Replicas<'a> {
    /// Starts both replicas with a configuration file of the checkout and arguments for the election.
    pub(crate) fn start(
        bare: &'a BareControlPlane<'a>,
        config: &'a str,
        election: &'a [&'a str],
    ) -> Result<Self> {
        let record = Arc::new(WriteLog::default());
        let slot = |name| -> Result<ReplicaSlot> {
            let proxy = Proxy::start_as(bare.env, name, Arc::clone(&record))?;
            Ok(ReplicaSlot { proxy, running: None })
        };
        let slots = [slot("one")?, slot("two")?];
        let mut replicas = Self { bare, config, election, slots, record, started: 0 };
        replicas.launch(0)?;
        replicas.launch(1)?;
        Ok(replicas)
    }

    /// Returns the proxy of a replica.
    pub(crate) fn proxy(&self, slot: usize) -> &Proxy {
        &self.slots[slot].proxy
    }

    /// Returns both proxies.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.slots.iter().map(|slot| &slot.proxy)
    }

    /// Returns all writes of all processes.
    pub(crate) fn writes(&self) -> Vec<WriteRecord> {
        self.record.writes()
    }

    /// Starts a new process in a place that is free.
    pub(crate) fn launch(&mut self, slot: usize) -> Result<()> {
        self.started += 1;
        let (run, env) = (self.started, self.bare.env);
        let ReplicaSlot { proxy, running } = &mut self.slots[slot];
        ensure!(running.is_none(), "a replica already runs in place {slot}");
        proxy.serve(run);
        let name = format!("replica-{run}");
        let config = root().join(self.config);
        let process = schedulers::jindou_by(env, &name, &config, &proxy.kubeconfig, self.election)?;
        *running = Some((run, process));
        Ok(())
    }

    /// Waits until a running process holds the lease, and returns its place.
    pub(crate) fn wait_for_leader(&self) -> Result<usize> {
        self.bare.env.wait("a replica to lead", || self.leader())
    }

    /// Returns the place of the process that holds the lease.
    pub(crate) fn leader(&self) -> Result<usize> {
        let holder = self.bare.ledger.state().holder();
        let writes = self.writes();
        let run = runs(&writes).get(holder.as_str()).copied();
        match self.slots.iter().position(|slot| slot.run() == run) {
            Some(slot) if run.is_some() => Ok(slot),
            _ => bail!("{holder:?} holds the lease, which is run {run:?}"),
        }
    }

    /// Returns the process that runs in a place.
    pub(crate) fn run(&self, slot: usize) -> Option<RunId> {
        self.slots[slot].run()
    }

    /// Stops the process of a place by SIGTERM and waits for its exit.
    pub(crate) fn stop(&mut self, slot: usize) -> Result<()> {
        let (_, process) = self.slots[slot].running.take().context("no replica runs there")?;
        process.stop()
    }

    /// Returns the exit status of the process of a place if it exited by itself; the place is then free.
    pub(crate) fn take_ended(&mut self, slot: usize) -> Result<Option<ExitStatus>> {
        let Some((_, process)) = &mut self.slots[slot].running else { return Ok(None) };
        let ended = process.has_ended()?;
        if ended.is_some() {
            self.slots[slot].running = None;
        }
        Ok(ended)
    }
}
