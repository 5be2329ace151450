//! Suggestions about constraints of the pod, and taints and cordons of nodes.

use std::collections::BTreeMap;

use engine::framework::Class;
use engine::object::{
    HostPort, NodeTerm, Operator, PodSpec, PodTerm, Protocol, Requirement, Selector, Taint,
    TaintEffect, Toleration, TolerationOperator, WhenUnsatisfiable,
};
use engine::state::State;

use super::Suggestion;
use super::question::{Question, clipped, listed};

/// Longest list whose entries are relaxed one by one; longer lists are relaxed as a whole.
const ENTRIES_TRIED_MAX: usize = 32;

/// Taint of cordoned nodes.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Prefixes of taints that Kubernetes sets on unhealthy nodes.
const SYSTEM_TAINT_PREFIXES: [&str; 2] =
    ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// Returns the single changes that make nodes feasible, except for requests and volumes.
pub(super) fn suggestions(question: &mut Question) -> Vec<Suggestion> {
    let mut found = Vec::new();
    node_name(question, &mut found);
    selector(question, &mut found);
    node_affinity(question, &mut found);
    taints(question, &mut found);
    cordon(question, &mut found);
    ports(question, &mut found);
    pod_affinity(question, &mut found);
    anti_affinity_of_others(question, &mut found);
    spread(question, &mut found);
    features(question, &mut found);
    devices(question, &mut found);
    found
}

/// Evaluates a change and adds a suggestion if it makes nodes feasible.
fn attempt(
    question: &mut Question,
    found: &mut Vec<Suggestion>,
    what: &str,
    change: impl FnOnce(&mut PodSpec),
) {
    let nodes = question.opened_by(change);
    if !nodes.is_empty() {
        let text = format!("{what}: opens {}", question.count(&nodes));
        found.push(Suggestion { opened: nodes.count(), text });
    }
}

fn node_name(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["NodeName"]) {
        return;
    }
    let nodes = question.opened_by_any_node_name();
    if !nodes.is_empty() {
        let name = clipped(&question.class.node_name);
        let text = format!("drop nodeName {name}: opens {}", question.count(&nodes));
        found.push(Suggestion { opened: nodes.count(), text });
    }
}

fn selector(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["NodeAffinity"]) {
        return;
    }
    let Some(selector) = question.class.spec.node_selector.clone() else { return };
    if (2..=ENTRIES_TRIED_MAX).contains(&selector.len()) {
        for (key, value) in selector.iter() {
            let what = format!("drop nodeSelector {}={}", clipped(key), clipped(value));
            attempt(question, found, &what, |spec| {
                let rest = selector.iter().filter(|(other, _)| *other != key);
                spec.node_selector = Some(rest.collect());
            });
        }
    } else if !selector.is_empty() {
        let pairs =
            selector.iter().map(|(key, value)| format!("{}={}", clipped(key), clipped(value)));
        let what = format!("drop nodeSelector {}", listed(&pairs.collect::<Vec<_>>()));
        attempt(question, found, &what, |spec| spec.node_selector = None);
    }
}

fn node_affinity(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["NodeAffinity"]) {
        return;
    }
    let Some(terms) = question.class.spec.node_affinity.required.clone() else { return };
    attempt(question, found, &affinity_as_a_whole(&terms), |spec| {
        spec.node_affinity.required = None;
    });
    let parts = |term: &NodeTerm| term.expressions.len() + term.fields.len();
    if terms.iter().map(parts).sum::<usize>() > ENTRIES_TRIED_MAX {
        return;
    }
    for (position, term) in terms.iter().enumerate() {
        // A term without its only requirement equals no affinity at all, which was tried above.
        if parts(term) < 2 {
            continue;
        }
        for dropped in 0..term.expressions.len() {
            let what =
                format!("drop the node affinity rule {}", condition(&term.expressions[dropped]));
            attempt(question, found, &what, |spec| {
                let mut terms = terms.clone();
                let mut rest = term.expressions.to_vec();
                rest.remove(dropped);
                terms[position].expressions = rest.into();
                spec.node_affinity.required = Some(terms);
            });
        }
    }
}

fn affinity_as_a_whole(terms: &[NodeTerm]) -> String {
    match terms {
        [term] if term.expressions.len() == 1 && term.fields.is_empty() => {
            format!("drop the node affinity rule {}", condition(&term.expressions[0]))
        }
        _ => "drop the required node affinity".to_owned(),
    }
}

/// Adds suggestions about taints, the most frequent first.
fn taints(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["TaintToleration"]) {
        return;
    }
    for taint in hard_taints(&question.state) {
        let is_custom = !SYSTEM_TAINT_PREFIXES.iter().any(|prefix| taint.key.starts_with(prefix));
        let what = if is_custom {
            format!("tolerate taint {}", taint_text(&taint))
        } else {
            format!("repair the nodes that Kubernetes tainted with {}", taint_text(&taint))
        };
        attempt(question, found, &what, |spec| {
            let toleration = Toleration {
                key: taint.key.clone(),
                operator: TolerationOperator::Equal,
                value: taint.value.clone(),
                effect: Some(taint.effect),
            };
            tolerate(spec, toleration);
        });
    }
}

fn hard_taints(state: &State) -> Vec<Taint> {
    let mut counts: BTreeMap<&Taint, usize> = BTreeMap::new();
    for node in state.nodes.hard_tainted().iter() {
        for taint in &state.nodes.object(node).taints {
            if taint.effect != TaintEffect::PreferNoSchedule && &*taint.key != CORDON {
                *counts.entry(taint).or_default() += 1;
            }
        }
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|(_, count)| usize::MAX - count);
    sorted.into_iter().take(ENTRIES_TRIED_MAX).map(|(taint, _)| taint.clone()).collect()
}

fn taint_text(taint: &Taint) -> String {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    match &*taint.value {
        "" => format!("{}:{effect}", clipped(&taint.key)),
        value => format!("{}={}:{effect}", clipped(&taint.key), clipped(value)),
    }
}

fn tolerate(spec: &mut PodSpec, toleration: Toleration) {
    let mut tolerations = std::mem::take(&mut spec.tolerations).into_vec();
    tolerations.push(toleration);
    spec.tolerations = tolerations.into();
}

fn cordon(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["NodeUnschedulable"]) {
        return;
    }
    attempt(question, found, "uncordon nodes", |spec| {
        let operator = TolerationOperator::Exists;
        tolerate(spec, Toleration { key: CORDON.into(), operator, value: "".into(), effect: None });
    });
}

fn ports(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["NodePorts"]) {
        return;
    }
    let ports = question.class.spec.host_ports.clone();
    if (2..=ENTRIES_TRIED_MAX).contains(&ports.len()) {
        for (position, port) in ports.iter().enumerate() {
            let what = format!("use another host port than {}", port_text(port));
            attempt(question, found, &what, |spec| {
                let mut rest = ports.to_vec();
                rest.remove(position);
                spec.host_ports = rest.into();
            });
        }
    } else {
        let texts: Vec<_> = ports.iter().map(port_text).collect();
        let what = format!("use another host port than {}", listed(&texts));
        attempt(question, found, &what, |spec| spec.host_ports = Box::default());
    }
}

fn port_text(port: &HostPort) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    };
    match &*port.ip {
        "0.0.0.0" => format!("{}/{protocol}", port.port),
        ip => format!("{}:{}/{protocol}", clipped(ip), port.port),
    }
}

fn pod_affinity(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["InterPodAffinity"]) {
        return;
    }
    let affinity = question.class.spec.pod_affinity.clone();
    each_term(question, found, "affinity", &affinity.required, |spec, terms| {
        spec.pod_affinity.required = terms;
    });
    each_term(question, found, "anti-affinity", &affinity.required_anti, |spec, terms| {
        spec.pod_affinity.required_anti = terms;
    });
}

fn each_term(
    question: &mut Question,
    found: &mut Vec<Suggestion>,
    kind: &str,
    terms: &[PodTerm],
    set: impl Fn(&mut PodSpec, Box<[PodTerm]>),
) {
    let already = found.len();
    for (position, term) in terms.iter().enumerate().filter(|_| terms.len() <= ENTRIES_TRIED_MAX) {
        let pods = selector_text(term.selector.as_ref());
        let key = clipped(&term.topology_key);
        let what = format!("drop the required pod {kind} to {pods} by {key}");
        attempt(question, found, &what, |spec| {
            let mut rest = terms.to_vec();
            rest.remove(position);
            set(spec, rest.into());
        });
    }
    if terms.len() > 1 && found.len() == already {
        let what = format!("drop all {} required pod {kind} terms", terms.len());
        attempt(question, found, &what, |spec| set(spec, Box::default()));
    }
}

/// Adds a suggestion if anti-affinity terms of existing pods reject nodes.
fn anti_affinity_of_others(question: &mut Question, found: &mut Vec<Suggestion>) {
    let mut nodes = question.blocked_only_by("InterPodAffinity");
    if nodes.is_empty() {
        return;
    }
    nodes.subtract(&question.opened_by(|spec| {
        spec.pod_affinity.required = Box::default();
        spec.pod_affinity.required_anti = Box::default();
    }));
    if nodes.is_empty() {
        return;
    }
    let (state, class) = (&question.state, &question.class);
    let repels_class = |term: &PodTerm| repels(state, term, class);
    let mut pods: Vec<String> = (state.pods.iter())
        .filter(|(pod, record)| {
            record.node.is_some()
                && state.spec(*pod).pod_affinity.required_anti.iter().any(repels_class)
        })
        .map(|(pod, _)| state.full_name(pod))
        .collect();
    if pods.is_empty() {
        return;
    }
    pods.sort_unstable();
    let (pods, opened) = (listed(&pods), question.count(&nodes));
    let text = format!(
        "move pods whose anti-affinity matches the labels of this one ({pods}): opens up to {opened}"
    );
    found.push(Suggestion { opened: nodes.count(), text });
}

/// Returns `true` if an anti-affinity term matches pods of the class.
fn repels(state: &State, term: &PodTerm, class: &Class) -> bool {
    let namespace = term.namespaces.contains(&class.namespace)
        || term
            .namespace_selector
            .as_ref()
            .is_some_and(|selector| selector.matches(state.namespace_labels(&class.namespace)));
    namespace && term.selector.as_ref().is_some_and(|selector| selector.matches(&class.labels))
}

fn spread(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["PodTopologySpread"]) {
        return;
    }
    let constraints = question.class.spec.spread.clone();
    if super::hard_spread(&question.class.spec).count() > ENTRIES_TRIED_MAX {
        return attempt(question, found, "drop all topology spread constraints", |spec| {
            spec.spread = Box::default();
        });
    }
    for (position, constraint) in constraints.iter().enumerate() {
        if constraint.when_unsatisfiable != WhenUnsatisfiable::DoNotSchedule {
            continue;
        }
        let (key, skew) = (clipped(&constraint.topology_key), constraint.max_skew);
        let what =
            format!("soften the spread constraint by {key} (maxSkew {skew}) to ScheduleAnyway");
        attempt(question, found, &what, |spec| {
            spec.spread[position].when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
        });
    }
}

fn features(question: &mut Question, found: &mut Vec<Suggestion>) {
    if !question.is_blocked_by(&["NodeDeclaredFeatures"]) {
        return;
    }
    let what = format!("use nodes that declare {}", listed(&question.class.spec.required_features));
    attempt(question, found, &what, |spec| spec.required_features = Box::default());
}

fn devices(question: &mut Question, found: &mut Vec<Suggestion>) {
    let claims = listed(&question.class.spec.resource_claims);
    if claims.is_empty() || !question.is_blocked_by(&["DynamicResources"]) {
        return;
    }
    let what = format!("drop the claims on devices ({claims}), which are not supported yet");
    attempt(question, found, &what, |spec| spec.resource_claims = Box::default());
}

fn selector_text(selector: Option<&Selector>) -> String {
    match selector {
        None => "no pods".to_owned(),
        Some(selector) if selector.is_empty() => "all pods".to_owned(),
        Some(selector) => listed(&selector.requirements.iter().map(condition).collect::<Vec<_>>()),
    }
}

/// Returns a requirement in kubectl's notation.
fn condition(requirement: &Requirement) -> String {
    let (key, values) = (clipped(&requirement.key), listed(&requirement.values));
    match requirement.operator {
        Operator::In if requirement.values.len() == 1 => format!("{key}={values}"),
        Operator::In => format!("{key} in ({values})"),
        Operator::NotIn if requirement.values.len() == 1 => format!("{key}!={values}"),
        Operator::NotIn => format!("{key} notin ({values})"),
        Operator::Exists => key,
        Operator::DoesNotExist => format!("!{key}"),
        Operator::Gt => format!("{key}>{values}"),
        Operator::Lt => format!("{key}<{values}"),
    }
}
