//! The content of all tables as text, for tests: two states of equal content decide alike. Logs,
//! versions and what is only computed from the rest (tallies, label columns) are no content.

use std::sync::Arc;

use crate::index::{LabelSetIdx, NodeIdx, SpecIdx};
use crate::object::Volume;

use super::State;

impl State {
    /// Returns the content, one line per entry of a table. Label sets and specs are counted without
    /// the given users.
    pub(crate) fn content(&self, without: &[(LabelSetIdx, SpecIdx)]) -> Vec<String> {
        let mut lines = Vec::new();
        self.nodes.content(&mut lines);
        self.pod_content(&mut lines);
        self.interned_content(without, &mut lines);
        self.volume_content(&mut lines);
        for slot in 0..self.nodes.slots() {
            lines.push(format!("{slot} {:?}", self.lowest_priorities.kept(NodeIdx::from(slot))));
        }
        let Self { namespaces, services, budgets, device_classes, .. } = self;
        lines.push(format!("{namespaces:?} {services:?} {budgets:?} {device_classes:?}"));
        let Self { replication_controllers, replica_sets, stateful_sets, .. } = self;
        lines.push(format!("{replication_controllers:?} {replica_sets:?} {stateful_sets:?}"));
        let Self { deployments, daemon_sets, jobs, waiting_on_permit, plugin_states, .. } = self;
        lines.push(format!("{deployments:?} {daemon_sets:?} {jobs:?} {waiting_on_permit:?}"));
        lines.push(plugin_states.content());
        lines
    }

    fn pod_content(&self, lines: &mut Vec<String>) {
        for (pod, record) in self.pods.iter() {
            assert_eq!(self.pods.find(&record.uid), Some(pod));
            let mut record = record.clone();
            if !record.node.is_some() {
                (record.position_in_label_set, record.position_in_spec) = (0, 0);
            }
            lines.push(format!("{pod:?} {record:?}"));
        }
        let (slots, free) = (self.pods.slots(), self.pods.records.free());
        lines.push(format!("{slots} pod slots, free {free:?}"));
    }

    fn interned_content(&self, without: &[(LabelSetIdx, SpecIdx)], lines: &mut Vec<String>) {
        for (index, record) in self.label_sets.records.iter().enumerate() {
            let Some(record) = record else { continue };
            let index = LabelSetIdx::from(index);
            let named = self.label_sets.by_name.get(&record.namespace);
            assert_eq!(named.and_then(|sets| sets.get(&record.labels)), Some(&index));
            for (key, value) in record.labels.iter() {
                let pair = (key.into(), value.into());
                assert!(self.label_sets.by_pair.get(&pair).is_some_and(|l| l.contains(&index)));
            }
            // Those that match, in any order: a tally is created when something asks for it.
            let mut tallies = record.tallies.clone();
            tallies.sort_unstable();
            let mut matching = self.tallies.matching(&record.namespace, &record.labels);
            matching.sort_unstable();
            assert_eq!(tallies, matching);
            let others = without.iter().filter(|(other, _)| *other == index).count();
            let users = record.users as usize - others;
            let (namespace, labels, pods) = (&record.namespace, &record.labels, &record.pods);
            lines.push(format!("{index:?} {namespace} {labels:?} {pods:?} {users}"));
        }
        for (index, record) in self.specs.records.iter().enumerate() {
            let Some(record) = record else { continue };
            let index = SpecIdx::from(index);
            assert_eq!(self.specs.by_spec.get(&record.spec), Some(&index));
            let address = Arc::as_ptr(&record.spec).addr();
            assert_eq!(self.specs.by_address.get(&address), Some(&index));
            let others = without.iter().filter(|(_, other)| *other == index).count();
            let users = record.users as usize - others;
            let (on_node, terms, pods) = (&record.on_node, &record.terms, &record.pods);
            lines.push(format!("{index:?} {on_node:?} {terms:?} {pods:?} {users}"));
        }
        for (index, record) in self.terms.records.iter().enumerate() {
            let Some(record) = record else { continue };
            let (kind, term, specs) = (record.kind, &record.term, &record.specs);
            lines.push(format!("term {index} {kind:?} {term:?} {specs:?}"));
        }
        lines.push(format!(
            "label sets {} {:?}, specs {} {:?}, terms {} {:?}",
            self.label_sets.slots(),
            self.label_sets.free,
            self.specs.slots(),
            self.specs.free,
            self.terms.slots(),
            self.terms.free,
        ));
    }

    fn volume_content(&self, lines: &mut Vec<String>) {
        let volumes = &self.volumes;
        for (pod, _) in self.pods.iter() {
            for volume in &self.spec(pod).volumes {
                if let Volume::Claim { name } = volume {
                    let users = volumes.claim_users(self.namespace(pod), name);
                    lines.push(format!("claim {name} of {pod:?}: {users}"));
                }
            }
        }
        let (reserved, claims, nodes) =
            (&volumes.reserved, &volumes.assumed_claims, &volumes.assumed_nodes);
        lines.push(format!("{} {reserved:?} {claims:?} {nodes:?}", volumes.users.len()));
        let (claims, classes) = (&volumes.claims, &volumes.classes);
        lines.push(format!("{:?} {claims:?} {classes:?}", volumes.volumes));
    }
}
