//! Pod classes in use, and their evaluations as long as there is room.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::cycle::evaluation::Evaluation;
use crate::cycle::explain::class_of;
use crate::framework::{Class, Profile};
use crate::index::{ClassIdx, GroupIdx, PodIdx, SpecIdx};
use crate::limits::{CLASSES_REMEMBERED, EVALUATIONS_DROPPED, EVALUATIONS_KEPT};
use crate::map::Map;
use crate::object::Volume;
use crate::state::{Areas, State, Versions};

/// What makes a class: the profile, the namespace and labels, the spec, and the pod itself where
/// claims are made for it alone.
type Key = (u32, GroupIdx, SpecIdx, PodIdx);

/// Whose evaluation serves a class: the profile, the spec, and what else evaluating depends on.
type Likeness = (u32, SpecIdx, Arc<[u32]>);

struct Record {
    key: Key,
    class: Class,
    /// `None` when only its own evaluation serves it.
    likeness: Option<Likeness>,
    /// The state that the likeness is true of.
    likeness_seen: Option<Versions>,
    /// Pods of it that are not on a node.
    pods: u32,
    /// Taken out while it is worked with.
    evaluation: Option<Box<Evaluation>>,
    last_used: u64,
}

/// All classes with pods to place or an evaluation to keep.
#[derive(Default)]
pub(crate) struct Classes {
    records: Vec<Option<Record>>,
    by_key: Map<Key, ClassIdx>,
    /// The class that evaluates for all of a likeness.
    by_likeness: Map<Likeness, ClassIdx>,
    free: Vec<ClassIdx>,
    /// Marks of classes that were evaluated, each in the place that it determines.
    seen: Vec<u64>,
    evaluations: usize,
    clock: u64,
}

impl Classes {
    /// The class of a pod, with one more pod in it.
    pub(crate) fn acquire(&mut self, state: &mut State, pod: PodIdx, profile: u32) -> ClassIdx {
        let record = state.pods.get(pod);
        let (group, spec) = (record.group, record.spec);
        let volumes = &state.spec(pod).volumes;
        let alone = volumes.iter().any(|volume| matches!(volume, Volume::Ephemeral { .. }));
        let key = (profile, group, spec, if alone { pod } else { PodIdx::NONE });
        if let Some(found) = self.by_key.get(&key) {
            let found = *found;
            self.get_mut(found).pods += 1;
            return found;
        }
        state.groups.hold(group);
        state.specs.hold(spec);
        let class = class_of(state, pod, "");
        let record = Record {
            key,
            class,
            likeness: None,
            likeness_seen: None,
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

    /// One pod less. A class without pods stays as long as its evaluation does, unless it was made for
    /// one pod: another one may get that pod's index.
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

    /// The class whose evaluation serves this one: the first of those that evaluate alike.
    pub(crate) fn evaluated_by(
        &mut self,
        state: &State,
        profile: &Profile,
        class: ClassIdx,
    ) -> ClassIdx {
        self.compare_likeness(state, profile, class);
        let Some(likeness) = &self.get(class).likeness else { return class };
        let Some(other) = self.by_likeness.get(likeness).copied() else {
            let likeness = likeness.clone();
            self.by_likeness.insert(likeness, class);
            return class;
        };
        // What the other one is like may have changed as well since it was last looked at.
        self.compare_likeness(state, profile, other);
        if self.get(other).likeness == self.get(class).likeness {
            return other;
        }
        self.evaluated_by(state, profile, class)
    }

    /// Finds out anew what a class is like, if that may have changed.
    fn compare_likeness(&mut self, state: &State, profile: &Profile, class: ClassIdx) {
        let versions = state.versions();
        let record = self.get_mut(class);
        let current = |seen: &Versions| versions.agree(seen, Areas::IDENTITIES);
        if record.likeness_seen.as_ref().is_some_and(current) {
            return;
        }
        let (profile_position, _, spec, alone) = record.key;
        let identity = if alone.is_some() { None } else { profile.identity(&record.class, state) };
        let likeness = identity.map(|identity| (profile_position, spec, identity));
        record.likeness_seen = Some(versions);
        if record.likeness != likeness {
            let before = std::mem::replace(&mut record.likeness, likeness);
            self.leave(class, before);
        }
    }

    /// A class is no longer, or no longer like this.
    fn leave(&mut self, class: ClassIdx, likeness: Option<Likeness>) {
        if let Some(likeness) = likeness
            && self.by_likeness.get(&likeness) == Some(&class)
        {
            self.by_likeness.remove(&likeness);
        }
    }

    /// What the pods of a class have in common.
    pub(crate) fn class(&self, class: ClassIdx) -> &Class {
        &self.get(class).class
    }

    /// Position of the profile that a class belongs to.
    pub(crate) fn profile(&self, class: ClassIdx) -> usize {
        self.get(class).key.0 as usize
    }

    /// The first class at this place or after it.
    pub(crate) fn next_from(&self, place: usize) -> Option<ClassIdx> {
        let records = self.records.iter().enumerate().skip(place);
        records.filter(|(_, record)| record.is_some()).map(|(index, _)| index.into()).next()
    }

    /// Takes the evaluation out to work with it.
    pub(crate) fn take_evaluation(&mut self, class: ClassIdx) -> Option<Box<Evaluation>> {
        let taken = self.get_mut(class).evaluation.take();
        self.evaluations -= usize::from(taken.is_some());
        taken
    }

    /// Drops the evaluation of a class; it is made anew for the next pod.
    pub(crate) fn drop_evaluation(&mut self, state: &mut State, class: ClassIdx) {
        self.take_evaluation(class);
        if self.get(class).pods == 0 {
            self.forget(state, class);
        }
    }

    /// Puts the evaluation of an attempt back, if it is likely to be used again: there are many classes
    /// of which one pod comes and no other ever.
    pub(crate) fn keep_if_recurring(
        &mut self,
        state: &mut State,
        class: ClassIdx,
        evaluation: Box<Evaluation>,
    ) {
        if self.get(class).pods != 1 || self.was_seen(class) {
            self.keep_evaluation(state, class, evaluation);
        }
    }

    /// Whether a class like this was evaluated lately; from now on it was.
    fn was_seen(&mut self, class: ClassIdx) -> bool {
        let record = self.get(class);
        let mark = match &record.likeness {
            Some(likeness) => FxBuildHasher.hash_one(likeness),
            None => FxBuildHasher.hash_one(record.key),
        };
        self.seen.resize(CLASSES_REMEMBERED, 0);
        let place = mark as usize % CLASSES_REMEMBERED;
        std::mem::replace(&mut self.seen[place], mark) == mark
    }

    /// Puts an evaluation back that was only looked at.
    pub(crate) fn put_back(&mut self, class: ClassIdx, evaluation: Box<Evaluation>) {
        self.get_mut(class).evaluation = Some(evaluation);
        self.evaluations += 1;
    }

    /// Puts it back. If there are too many, those not used for longest go.
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
        if self.evaluations > EVALUATIONS_KEPT + EVALUATIONS_DROPPED {
            self.drop_oldest(state);
        }
    }

    fn drop_oldest(&mut self, state: &mut State) {
        let kept = |record: &Record| record.evaluation.is_some();
        let mut ages: Vec<(u64, ClassIdx)> = self
            .records
            .iter()
            .enumerate()
            .filter_map(|(index, record)| {
                Some((record.as_ref().filter(|r| kept(r))?.last_used, index.into()))
            })
            .collect();
        ages.sort_unstable();
        for (_, class) in ages.into_iter().take(EVALUATIONS_DROPPED) {
            self.drop_evaluation(state, class);
        }
    }

    fn forget(&mut self, state: &mut State, class: ClassIdx) {
        let Some(record) = self.records[class.at()].take() else { return };
        self.by_key.remove(&record.key);
        self.leave(class, record.likeness);
        self.free.push(class);
        state.release_class(record.key.1, record.key.2);
    }

    fn get(&self, class: ClassIdx) -> &Record {
        self.records[class.at()].as_ref().expect("the index is held by a pod of the class")
    }

    fn get_mut(&mut self, class: ClassIdx) -> &mut Record {
        self.records[class.at()].as_mut().expect("the index is held by a pod of the class")
    }
}
