//! Answers to the commands of the engines: binds, volumes, evictions and calls of extenders.

use engine::change::{Change, ExtenderVerdict};
use engine::command::Command;
use engine::object::{Text, Uid};

use super::{PendingBind, PendingEviction, VolumePreparation, World};
use crate::generators::GPU;

impl World {
    pub(super) fn execute_bind(&mut self, which: usize, accepted: bool) {
        if self.binds.is_empty() {
            return;
        }
        let which = which % self.binds.len();
        let bind = &mut self.binds[which];
        if bind.executed.is_some() {
            return;
        }
        let pod = self.pods.get_mut(&bind.uid);
        let free = pod.filter(|pod| accepted && pod.node.is_empty() && !pod.terminating);
        bind.executed = Some(free.is_some());
        if let Some(pod) = free {
            pod.node = bind.node.clone();
            pod.start_time = Some(self.now);
            self.undelivered.push(bind.uid.clone());
        }
    }

    pub(super) fn answer_bind(&mut self, which: usize, lost: bool) -> Result<(), String> {
        if self.binds.is_empty() {
            return Ok(());
        }
        let which = which % self.binds.len();
        self.execute_bind(which, true);
        let PendingBind { uid, executed, .. } = self.binds.remove(which);
        let succeeded = executed == Some(true) && !lost;
        if let Some(known) = self.known.get_mut(&uid)
            && known.assumed_on.is_some()
        {
            known.bound = succeeded;
            if !succeeded {
                known.assumed_on = None;
            }
        }
        let failure = (!succeeded).then(|| "binding failed".into());
        self.apply(Change::Bound { uid, failure })
    }

    pub(super) fn answer_volumes(
        &mut self,
        which: usize,
        fails: bool,
        shown_first: bool,
    ) -> Result<(), String> {
        if self.volume_preparations.is_empty() {
            return Ok(());
        }
        let which = which % self.volume_preparations.len();
        let VolumePreparation { uid, ticket, requests } = self.volume_preparations.remove(which);
        if fails {
            if let Some(known) = self.known.get_mut(&uid)
                && known.ticket == Some(ticket)
            {
                known.assumed_on = None;
            }
            let failure = Some("timed out".into());
            return self.apply(Change::VolumesReady { uid, ticket, failure });
        }
        let ready = Change::VolumesReady { uid, ticket, failure: None };
        if shown_first {
            self.prepare(&requests)?;
            self.apply(ready)
        } else {
            self.apply(ready)?;
            self.prepare(&requests)
        }
    }

    pub(super) fn answer_eviction(
        &mut self,
        which: usize,
        fails: bool,
        at_once: bool,
    ) -> Result<(), String> {
        if self.evictions.is_empty() {
            return Ok(());
        }
        let which = which % self.evictions.len();
        let PendingEviction { victim, preemptor } = self.evictions.remove(which);
        if !fails && at_once {
            self.pods.remove(&victim);
            self.undelivered.push(victim.clone());
        } else if !fails && let Some(pod) = self.pods.get_mut(&victim) {
            pod.terminating = true;
            pod.preempted = true;
            self.undelivered.push(victim.clone());
        }
        if !fails {
            if let Some(known) = self.known.get_mut(&victim) {
                // As when the watch shows that it terminates.
                self.changed_without_event |= !known.pod.terminating;
                known.deleted = true;
            }
            if let Some(room) = self.eviction_targets.get_mut(&preemptor) {
                room.deleted.insert(victim.clone());
            }
        }
        let failure = fails.then(|| "forbidden".into());
        self.apply(Change::VictimHandled { preemptor, victim, failure })
    }

    /// Extenders answer one call. They pass at least one node: a pod for which they reject every node
    /// waits, although the plugins would pass it, and `check_unschedulable` would report it.
    pub(super) fn answer_extenders(
        &mut self,
        which: usize,
        fails: bool,
        leave: u64,
    ) -> Result<(), String> {
        let Some(which) = which.checked_rem(self.extender_calls.len()) else { return Ok(()) };
        let stays = |place: usize| leave >> (place % 64) & 1 == 1;
        match self.extender_calls.remove(which) {
            Command::AskExtenders { pod, ticket, nodes, .. } => {
                let any_stays = (0..nodes.len()).any(stays);
                let nodes = nodes.into_iter().enumerate();
                let extender_nodes = nodes.filter(|(place, _)| stays(*place) || !any_stays);
                let extender_nodes: Vec<Text> = extender_nodes.map(|(_, node)| node).collect();
                self.extender_nodes.insert(pod.uid.clone(), extender_nodes.clone());
                let passed =
                    extender_nodes.into_iter().zip([30, 0, 100].into_iter().cycle()).collect();
                let verdict = ExtenderVerdict { passed, failed: Vec::new() };
                let verdict = if fails { Err("no answer".into()) } else { Ok(verdict) };
                self.apply(Change::ExtendersAnswered { uid: pod.uid, ticket, verdict })
            }
            Command::AskExtendersAboutVictims { pod, ticket, candidates, .. } => {
                let extender_nodes =
                    candidates.into_iter().enumerate().filter(|(place, _)| stays(*place));
                let extender_nodes = extender_nodes.map(|(_, candidate)| candidate).collect();
                let candidates = if fails { Err("no answer".into()) } else { Ok(extender_nodes) };
                self.apply(Change::ExtendersAnsweredAboutVictims {
                    uid: pod.uid,
                    ticket,
                    candidates,
                })
            }
            other => Err(format!("{other:?} is no extender call")),
        }
    }

    /// Checks that extenders passed the node of a pod that requests a resource they manage.
    pub(super) fn check_extender_nodes(&self, uid: &Uid, node: &Text) -> Result<(), String> {
        let Some(known) = self.known.get(uid) else { return Ok(()) };
        let concerns = known.pod.spec.requests.scalars.iter().any(|(name, _)| **name == *GPU);
        if concerns
            && !self
                .extender_nodes
                .get(uid)
                .is_some_and(|extender_nodes| extender_nodes.contains(node))
        {
            return Err(format!("extenders did not pass {node} for {uid}"));
        }
        Ok(())
    }
}
