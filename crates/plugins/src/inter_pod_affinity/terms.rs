//! The pods that a term matches, and the terms that match a class.

use engine::framework::Class;
use engine::index::TermIdx;
use engine::object::{Labels, Operator, PodTerm, Text};
use engine::state::State;
use engine::state::tallies::{Matcher, NamespaceScope, TallySource};
use engine::state::terms::TermKind;

/// Returns the pods that a term of a pending pod matches; `None` if it matches none.
///
/// As upstream, the namespace selector is replaced by the namespaces that it selects; a selector that
/// accepts a namespace without labels matches all namespaces.
pub(super) fn matcher(term: &PodTerm, state: &State) -> Option<Matcher> {
    let selector = term.selector.clone()?;
    let scope = match &term.namespace_selector {
        None => NamespaceScope::Names(term.namespaces.clone()),
        Some(namespaces) if namespaces.matches(&Labels::default()) => NamespaceScope::All,
        Some(namespaces) => {
            let selected = state.namespaces().filter(|n| namespaces.matches(&n.labels));
            let mut names: Vec<Text> = selected.map(|n| n.name.clone()).collect();
            names.extend_from_slice(&term.namespaces);
            names.sort_unstable();
            names.dedup();
            NamespaceScope::Names(names.into())
        }
    };
    Some(Matcher { scope, selector })
}

/// Returns matchers for the pods that match all terms of a pending pod; `None` if none can.
pub(super) fn common_matchers(terms: &[PodTerm], state: &State) -> Option<Box<[Matcher]>> {
    let matchers: Option<Vec<Matcher>> = terms.iter().map(|term| matcher(term, state)).collect();
    let mut matchers = matchers.filter(|matchers| !matchers.is_empty())?;
    // Pods are looked up by the first matcher.
    let finds_pods =
        |m: &Matcher| m.selector.requirements.iter().any(|r| r.operator == Operator::In);
    matchers.sort_by_key(|matcher| !finds_pods(matcher));
    Some(matchers.into())
}

/// Returns the source that counts the pods which match all matchers.
pub(super) fn matching(matchers: Box<[Matcher]>) -> TallySource {
    TallySource::Matching { matchers, live_only: false }
}

/// Returns `true` if a term matches such a pod, by upstream's rules for filters or by those for hints.
pub(super) fn may_match(
    term: &PodTerm,
    namespace: &str,
    labels: &Labels,
    namespace_labels: &Labels,
) -> bool {
    let listed = || term.namespaces.iter().any(|name| **name == *namespace);
    let selected = || {
        let selector = term.namespace_selector.as_ref();
        selector.is_some_and(|s| s.matches(namespace_labels) || s.matches(&Labels::default()))
    };
    term.selector.as_ref().is_some_and(|selector| selector.matches(labels))
        && (listed() || selected())
}

/// Terms of existing pods that match a class.
pub(super) struct ExistingTerms {
    namespace: Text,
    labels: Labels,
    kinds: fn(TermKind) -> bool,
    terms: Vec<TermIdx>,
    version: u64,
}

impl ExistingTerms {
    /// Finds the terms of these kinds that match a class now.
    pub(super) fn new(class: &Class, kinds: fn(TermKind) -> bool, state: &State) -> Self {
        let mut existing = Self {
            namespace: class.namespace.clone(),
            labels: class.labels.clone(),
            kinds,
            terms: Vec::new(),
            version: state.terms.version(),
        };
        existing.terms = existing.find(state);
        existing
    }

    /// Returns the terms, in index order.
    pub(super) fn terms(&self) -> &[TermIdx] {
        &self.terms
    }

    /// Returns `true` if the matching terms are still the same. An index that was reused for another term
    /// is not noticed here, but by the tallies that follow the pods with the old term.
    pub(super) fn are_current(&mut self, state: &State) -> bool {
        if self.version == state.terms.version() {
            return true;
        }
        self.version = state.terms.version();
        self.terms == self.find(state)
    }

    fn find(&self, state: &State) -> Vec<TermIdx> {
        let namespace_labels = state.namespace_labels(&self.namespace);
        let mut terms = state.terms.matching(&self.namespace, &self.labels, namespace_labels);
        terms.retain(|term| (self.kinds)(state.terms.get(*term).kind));
        terms
    }
}
