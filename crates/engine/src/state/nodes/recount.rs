//! Recomputes the sums of a node from its pods and corrects the maintained ones.

use crate::index::{NodeIdx, ResourceIdx};

use super::super::resources::ResourceNames;
use super::super::specs::SpecRecord;
use super::super::sums::ExactSums;
use super::{Nodes, VolumeCount, column_of};

impl Nodes {
    /// Compares the sums of a node with those of its pods, whose specs are given, corrects the ones
    /// that differ and returns a sentence for each.
    pub(crate) fn recount<'a>(
        &mut self,
        node: NodeIdx,
        specs: impl Iterator<Item = &'a SpecRecord>,
        resources: &ResourceNames,
    ) -> Vec<String> {
        let mut requested = vec![0i128; resources.count()];
        let (mut cpu, mut memory, mut pods) = (0i128, 0i128, 0i64);
        let mut volumes = VolumeCount::default();
        for spec in specs {
            for (resource, amount) in &spec.on_node {
                requested[resource.at()] += i128::from(*amount);
            }
            cpu += i128::from(spec.spec.non_zero_cpu);
            memory += i128::from(spec.spec.non_zero_memory);
            pods += 1;
            volumes.add(VolumeCount::of(&spec.spec.volumes));
        }
        let mut found = Vec::new();
        let slots = self.slots();
        let Self { names, requested: columns, non_zero_cpu, non_zero_memory, .. } = self;
        let name = &names[node.at()];
        let mut compare = |what: &dyn Fn() -> String, column: &mut ExactSums, sum: i128| {
            let kept = column.sum(node);
            if kept != sum {
                let what = what();
                found.push(format!("{what} on node {name:?}: kept {kept}, sum of its pods {sum}"));
                column.set(node, sum);
            }
        };
        for (index, sum) in requested.into_iter().enumerate() {
            let resource = ResourceIdx::from(index);
            if sum != 0 || index < columns.len() {
                let column = column_of(columns, resource, || ExactSums::zeros(slots));
                let what = || format!("requested {}", resources.name(resource));
                compare(&what, column, sum);
            }
        }
        compare(&|| "requested cpu with defaults".to_owned(), non_zero_cpu, cpu);
        compare(&|| "requested memory with defaults".to_owned(), non_zero_memory, memory);
        let kept = (self.pod_counts[node.at()], self.volumes[node.at()]);
        if kept != (pods, volumes) {
            let (count, kept) = (kept.0, kept.1);
            found.push(format!(
                "pods and volumes on node {name:?}: kept {count} and {kept:?}, found {pods} and {volumes:?}"
            ));
            self.pod_counts[node.at()] = pods;
            self.volumes[node.at()] = volumes;
        }
        found
    }

    /// Corrupts a sum, for tests of the audit.
    #[cfg(test)]
    pub(crate) fn corrupt(&mut self, resource: ResourceIdx, node: NodeIdx, by: i64) {
        self.requested[resource.at()].add(node, by);
    }
}
