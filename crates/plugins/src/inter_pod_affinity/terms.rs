//! Which pods a term speaks of, and which terms speak of a class.

use engine::framework::Class;
use engine::index::TermIdx;
use engine::object::{Labels, Operator, PodTerm, Text};
use engine::state::State;
use engine::state::tallies::{Matcher, NamespaceScope, TallySource};
use engine::state::terms::TermKind;

/// The pods that a term of a pending pod speaks of; `None` for none at all.
///
/// As upstream, the namespace selector is replaced by the namespaces it selects, but a selector that
/// accepts a namespace without labels is still asked about every namespace and says yes.
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

/// The pods that all terms of a pending pod speak of; `None` for none at all.
pub(super) fn common_matchers(terms: &[PodTerm], state: &State) -> Option<Box<[Matcher]>> {
    let matchers: Option<Vec<Matcher>> = terms.iter().map(|term| matcher(term, state)).collect();
    let mut matchers = matchers.filter(|matchers| !matchers.is_empty())?;
    // Pods are looked up by the first one.
    let finds_pods =
        |m: &Matcher| m.selector.requirements.iter().any(|r| r.operator == Operator::In);
    matchers.sort_by_key(|matcher| !finds_pods(matcher));
    Some(matchers.into())
}

/// The pods that all matchers speak of.
pub(super) fn matching(matchers: Box<[Matcher]>) -> TallySource {
    TallySource::Matching { matchers, live_only: false }
}

/// Whether a term speaks of such a pod, by upstream's reading for filters or by that for hints.
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

/// Terms of existing pods that speak of a class.
pub(super) struct ExistingTerms {
    namespace: Text,
    labels: Labels,
    kinds: fn(TermKind) -> bool,
    terms: Vec<TermIdx>,
    version: u64,
}

impl ExistingTerms {
    /// The terms of these kinds that speak of a class now.
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

    /// The terms, in index order.
    pub(super) fn terms(&self) -> &[TermIdx] {
        &self.terms
    }

    /// Whether they still are all there are. An index that was given to another term in the
    /// meantime is not noticed here, but by those who follow the pods that carry the old one.
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
