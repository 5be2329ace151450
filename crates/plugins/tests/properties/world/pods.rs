//! Pods of the API server: created, changed by their controllers, and shown by the watch.

use engine::change::Change;
use engine::object::{Pod, Uid};

use super::{KnownPod, World, nth};
use crate::generators::{SCHEDULER, node_name, storage};

impl World {
    pub(super) fn create_pod(&mut self, pod: Pod) -> Result<(), String> {
        let name = format!("p{}", self.versions);
        self.create_pod_as(&name, pod)
    }

    pub(super) fn create_pod_as(&mut self, name: &str, mut pod: Pod) -> Result<(), String> {
        pod.name = name.into();
        pod.uid = format!("uid-{}", self.next_version()).into();
        pod.creation_time = self.now;
        storage::name_ephemeral_claims(&mut pod);
        if !pod.node.is_empty() {
            pod.start_time = Some(self.now);
            pod.gates = [].into();
        }
        let uid = pod.uid.clone();
        if !pod.nominated_node.is_empty() {
            self.nominations.foreign.insert(uid.clone());
        }
        self.pods.insert(uid.clone(), pod);
        self.show(&uid)
    }

    pub(super) fn change_pod(
        &mut self,
        which: usize,
        change: impl FnOnce(&mut Pod),
    ) -> Result<(), String> {
        let Some(uid) = nth(&self.pods, which) else { return Ok(()) };
        if let Some(pod) = self.pods.get_mut(&uid) {
            change(pod);
        }
        self.show(&uid)
    }

    /// The watch shows a pod as the API server has it.
    pub(super) fn show(&mut self, uid: &Uid) -> Result<(), String> {
        self.undelivered.retain(|undelivered| undelivered != uid);
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(uid) else {
            self.known.remove(uid);
            self.nominations.forget(uid);
            self.eviction_targets.remove(uid);
            return self.apply(Change::PodGone { uid: uid.clone() });
        };
        pod.resource_version = version;
        let pod = pod.clone();
        if pod.node.is_empty() && *pod.spec.scheduler_name != *SCHEDULER {
            // Another scheduler's pod.
            return self.apply(Change::Pod(Box::new(pod)));
        }
        let known = self.known.entry(uid.clone()).or_insert_with(|| KnownPod {
            pod: pod.clone(),
            assumed_on: None,
            bound: false,
            deleted: false,
            ticket: None,
        });
        // Spreading does not count terminating pods; upstream's event comes only when they are gone.
        self.changed_without_event |= pod.terminating && !known.pod.terminating;
        known.pod = pod.clone();
        if !pod.node.is_empty() || pod.terminating && !known.bound {
            known.assumed_on = None;
        }
        let assumed_on = known.assumed_on.is_some();
        if pod.node.is_empty() {
            self.nominations.pod_shown(uid, &pod.nominated_node, assumed_on);
        } else {
            self.nominations.forget(uid);
        }
        self.nominations.activate(&self.nodes, &self.known);
        self.apply(Change::Pod(Box::new(pod)))
    }

    /// Another program nominates a waiting pod, unless a nomination by the engines is being written.
    pub(super) fn nominate_externally(&mut self, which: usize, node: usize) -> Result<(), String> {
        let Some(uid) = nth(&self.pods, which) else { return Ok(()) };
        let node = if node == 0 { "".into() } else { node_name(node) };
        let is_written = self.nominations.writes.iter().any(|(written, _)| *written == uid);
        let Some(pod) = self.pods.get_mut(&uid) else { return Ok(()) };
        if is_written
            || self.undelivered.contains(&uid)
            || !pod.node.is_empty()
            || pod.nominated_node == node
        {
            return Ok(());
        }
        pod.nominated_node = node;
        self.nominations.foreign.insert(uid.clone());
        self.show(&uid)
    }

    /// Carries out the first pending write of a pod's nomination.
    pub(super) fn write_nomination(&mut self, which: usize) -> Result<(), String> {
        let Some((uid, node)) = self.nominations.next_write(which) else { return Ok(()) };
        if self.undelivered.contains(&uid) {
            // The watch shows every change.
            self.show(&uid)?;
        }
        if let Some(stored) = self.pods.get_mut(&uid)
            && stored.node.is_empty()
            && stored.nominated_node != node
        {
            stored.nominated_node = node;
            self.undelivered.push(uid);
        }
        Ok(())
    }
}

/// Returns a new pod like this one, as its controller creates it.
pub(super) fn recreated(pod: Pod) -> Pod {
    Pod {
        node: "".into(),
        nominated_node: "".into(),
        terminating: false,
        preempted: false,
        start_time: None,
        ..pod
    }
}
