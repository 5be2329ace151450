//! Pod classes in use, and the cache of their evaluations.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::cycle::evaluation::Evaluation;
use crate::cycle::explain::class_of;
use crate::framework::{Class, Profile};
use crate::index::{ClassIdx, LabelSetIdx, PodIdx, SpecIdx};
use crate::limits::{EVALUATIONS_DROP_BATCH, EVALUATIONS_MAX, SEEN_KEYS_MAX};
use crate::map::Map;
use crate::object::Volume;
use crate::state::{Areas, State, Versions};

/// Identity of a class: profile, label set and spec; and the pod for pods with ephemeral claims,
/// which are made for one pod only.
type ClassKey = (u32, LabelSetIdx, SpecIdx, PodIdx);

/// Identity of a shared evaluation: profile, spec, and the other fields that the plugins'
/// evaluation depends on.
type EvaluationKey = (u32, SpecIdx, Arc<[u32]>);

struct ClassRecord {
    key: ClassKey,
    class: Class,
    /// `None` if the class shares its evaluation with no other class.
    evaluation_key: Option<EvaluationKey>,
    /// Versions of the state from which `evaluation_key` was computed.
    key_versions: Option<Versions>,
    /// Number of pods of the class that have no node.
    pods: u32,
    /// Taken out while an attempt uses it.
    evaluation: Option<Box<Evaluation>>,
    last_used: u64,
}

/// All classes that have pods to place or a cached evaluation.
#[derive(Default)]
pub(crate) struct Classes {
    records: Vec<Option<ClassRecord>>,
    by_key: Map<ClassKey, ClassIdx>,
    /// The class that holds the evaluation for each key.
    by_evaluation_key: Map<EvaluationKey, ClassIdx>,
    free: Vec<ClassIdx>,
    /// Direct-mapped filter of recently evaluated keys: slot = hash mod size, value = hash.
    seen: Vec<u64>,
    evaluations: usize,
    clock: u64,
}

impl Classes {
    /// Returns the class of a pod, creating it if necessary, and counts the pod.
    pub(crate) fn acquire(&mut self, state: &mut State, pod: PodIdx, profile: u32) -> ClassIdx {
        let key = key_of(state, pod, profile);
        let (_, label_set, spec, _) = key;
        if let Some(found) = self.by_key.get(&key) {
            let found = *found;
            self.get_mut(found).pods += 1;
            return found;
        }
        state.label_sets.hold(label_set);
        state.specs.hold(spec);
        let class = class_of(state, pod, "");
        let record = ClassRecord {
            key,
            class,
            evaluation_key: None,
            key_versions: None,
            pods: 1,
            evaluation: None,
            last_used: 0,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            ClassIdx::from(self.records.len() - 1)
        });
        self.records[index.at()] = Some(record);
        self.by_key.insert(key, index);
        index
    }

    /// Removes a pod. A class without pods lives as long as its evaluation, except a class of a
    /// single pod: another pod may reuse that pod's index.
    pub(crate) fn release(&mut self, state: &mut State, class: ClassIdx) {
        let record = self.get_mut(class);
        record.pods -= 1;
        if record.pods > 0 {
            return;
        }
        if record.key.3.is_some() {
            self.take_evaluation(class);
        }
        if self.get(class).evaluation.is_none() {
            self.forget(state, class);
        }
    }

    /// Returns the class whose evaluation this class shares: the first class with an equal key.
    pub(crate) fn representative(
        &mut self,
        state: &State,
        profile: &Profile,
        class: ClassIdx,
    ) -> ClassIdx {
        self.refresh_key(state, profile, class);
        let Some(evaluation_key) = &self.get(class).evaluation_key else { return class };
        let Some(other) = self.by_evaluation_key.get(evaluation_key).copied() else {
            let evaluation_key = evaluation_key.clone();
            self.by_evaluation_key.insert(evaluation_key, class);
            return class;
        };
        // The key of the other class may also be out of date.
        self.refresh_key(state, profile, other);
        if self.get(other).evaluation_key == self.get(class).evaluation_key {
            return other;
        }
        self.representative(state, profile, class)
    }

    /// Recomputes the evaluation key of a class if the state it depends on changed.
    fn refresh_key(&mut self, state: &State, profile: &Profile, class: ClassIdx) {
        let versions = state.versions();
        let record = self.get_mut(class);
        let current = |seen: &Versions| versions.agree(seen, Areas::EVALUATION_KEY);
        if record.key_versions.as_ref().is_some_and(current) {
            return;
        }
        let (profile_position, _, spec, alone) = record.key;
        let identity =
            if alone.is_some() { None } else { profile.evaluation_key(&record.class, state) };
        let evaluation_key = identity.map(|identity| (profile_position, spec, identity));
        record.key_versions = Some(versions);
        if record.evaluation_key != evaluation_key {
            let before = std::mem::replace(&mut record.evaluation_key, evaluation_key);
            self.unlink(class, before);
        }
    }

    /// Removes a class from `by_evaluation_key` when it is dropped or its key changes.
    fn unlink(&mut self, class: ClassIdx, evaluation_key: Option<EvaluationKey>) {
        if let Some(evaluation_key) = evaluation_key
            && self.by_evaluation_key.get(&evaluation_key) == Some(&class)
        {
            self.by_evaluation_key.remove(&evaluation_key);
        }
    }

    /// Returns what the plugins see of a class.
    pub(crate) fn class(&self, class: ClassIdx) -> &Class {
        &self.get(class).class
    }

    /// Returns the position of the profile that a class belongs to.
    pub(crate) fn profile(&self, class: ClassIdx) -> usize {
        self.get(class).key.0 as usize
    }

    /// Returns the first class at this index or after it.
    pub(crate) fn next_from(&self, place: usize) -> Option<ClassIdx> {
        let records = self.records.iter().enumerate().skip(place);
        records.filter(|(_, record)| record.is_some()).map(|(index, _)| index.into()).next()
    }

    /// Takes the evaluation out for use.
    pub(crate) fn take_evaluation(&mut self, class: ClassIdx) -> Option<Box<Evaluation>> {
        let taken = self.get_mut(class).evaluation.take();
        self.evaluations -= usize::from(taken.is_some());
        taken
    }

    /// Takes out the evaluation that a class uses, or makes it. Returns the class that holds it.
    pub(crate) fn take_or_evaluate(
        &mut self,
        state: &mut State,
        profile: &Profile,
        class: ClassIdx,
    ) -> (ClassIdx, Box<Evaluation>) {
        let evaluator = self.representative(state, profile, class);
        let evaluation = self.take_evaluation(evaluator).unwrap_or_else(|| {
            Box::new(Evaluation::new(profile, self.class(evaluator).clone(), state))
        });
        (evaluator, evaluation)
    }

    /// Drops the class of a pod that has been released and is about to go, if no other pod is of it.
    /// The class would keep the pod's label set and spec.
    pub(crate) fn drop_if_unused(&mut self, state: &mut State, pod: PodIdx, profile: u32) {
        let found = self.by_key.get(&key_of(state, pod, profile)).copied();
        if let Some(class) = found.filter(|class| self.get(*class).pods == 0) {
            self.drop_evaluation(state, class);
        }
    }

    /// Drops the evaluation of a class; the next pod makes a new one.
    pub(crate) fn drop_evaluation(&mut self, state: &mut State, class: ClassIdx) {
        self.take_evaluation(class);
        if self.get(class).pods == 0 {
            self.forget(state, class);
        }
    }

    /// Keeps the evaluation of an attempt if it is likely to be used again. Many classes have a
    /// single pod, and their evaluations would displace others.
    pub(crate) fn keep_if_recurring(
        &mut self,
        state: &mut State,
        class: ClassIdx,
        evaluation: Box<Evaluation>,
    ) {
        if self.get(class).pods != 1 || self.seen_recently(class) {
            self.keep_evaluation(state, class, evaluation);
        }
    }

    /// Returns `true` if an equal key was evaluated recently, and records this one.
    fn seen_recently(&mut self, class: ClassIdx) -> bool {
        let record = self.get(class);
        let mark = match &record.evaluation_key {
            Some(evaluation_key) => FxBuildHasher.hash_one(evaluation_key),
            None => FxBuildHasher.hash_one(record.key),
        };
        self.seen.resize(SEEN_KEYS_MAX, 0);
        let place = mark as usize % SEEN_KEYS_MAX;
        std::mem::replace(&mut self.seen[place], mark) == mark
    }

    /// Returns an evaluation that was only inspected, without counting as a use.
    pub(crate) fn put_back(&mut self, class: ClassIdx, evaluation: Box<Evaluation>) {
        self.get_mut(class).evaluation = Some(evaluation);
        self.evaluations += 1;
    }

    /// Keeps an evaluation; if there are too many, drops the least recently used.
    pub(crate) fn keep_evaluation(
        &mut self,
        state: &mut State,
        class: ClassIdx,
        evaluation: Box<Evaluation>,
    ) {
        self.clock += 1;
        let clock = self.clock;
        let record = self.get_mut(class);
        record.last_used = clock;
        record.evaluation = Some(evaluation);
        self.evaluations += 1;
        if self.evaluations > EVALUATIONS_MAX + EVALUATIONS_DROP_BATCH {
            self.drop_oldest(state);
        }
    }

    fn drop_oldest(&mut self, state: &mut State) {
        let kept = |record: &ClassRecord| record.evaluation.is_some();
        let mut ages: Vec<(u64, ClassIdx)> = self
            .records
            .iter()
            .enumerate()
            .filter_map(|(index, record)| {
                Some((record.as_ref().filter(|r| kept(r))?.last_used, index.into()))
            })
            .collect();
        ages.sort_unstable();
        for (_, class) in ages.into_iter().take(EVALUATIONS_DROP_BATCH) {
            self.drop_evaluation(state, class);
        }
    }

    /// Returns label set and spec of every class, each of which holds both.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn held(&self) -> Vec<(LabelSetIdx, SpecIdx)> {
        self.records.iter().flatten().map(|record| (record.key.1, record.key.2)).collect()
    }

    fn forget(&mut self, state: &mut State, class: ClassIdx) {
        let Some(record) = self.records[class.at()].take() else { return };
        self.by_key.remove(&record.key);
        self.unlink(class, record.evaluation_key);
        self.free.push(class);
        state.release_class(record.key.1, record.key.2);
    }

    fn get(&self, class: ClassIdx) -> &ClassRecord {
        self.records[class.at()].as_ref().expect("the index is held by a pod of the class")
    }

    fn get_mut(&mut self, class: ClassIdx) -> &mut ClassRecord {
        self.records[class.at()].as_mut().expect("the index is held by a pod of the class")
    }
}

fn key_of(state: &State, pod: PodIdx, profile: u32) -> ClassKey {
    let record = state.pods.get(pod);
    let volumes = &state.spec(pod).volumes;
    let alone = volumes.iter().any(|volume| matches!(volume, Volume::Ephemeral { .. }));
    (profile, record.label_set, record.spec, if alone { pod } else { PodIdx::NONE })
}

#[cfg(test)]
mod tests;
