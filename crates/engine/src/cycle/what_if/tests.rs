//! Tests of what-if questions: their answers, and that nothing is left of them.

use proptest::prelude::*;

use super::*;
use crate::cycle::testing::{Judge, Stub, ZoneLimit, class, labelled, pods_on, profile, web};
use crate::framework::PreFilterResult;
use crate::index::ResourceIdx;
use crate::object::{HostPort, Pod, Protocol, Volume};
use crate::queue::Nominator;
use crate::testing;

/// Allows fewer than four pods on a node.
fn fewer_than_four() -> Stub {
    Stub::filter("PodLimit", |_, _| {
        let judge = |state: &State, node| u32::from(pods_on(state, node) >= 4);
        let rejections = vec![Rejection::unschedulable("full")];
        PreFilterResult::Filter(Box::new(Judge { judge, rejections, varies: false }))
    })
}

/// A pod that requests something of everything that is counted on a node.
fn pod(index: usize, node: &str) -> Pod {
    let mut pod = Pod { priority: index as i32, ..web(&format!("p{index}"), node) };
    let spec = pod.spec_mut();
    spec.requests_on_node.cpu = [i64::MAX, 7, i64::MAX - 1][index % 3];
    spec.requests_on_node.scalars = [("a.com/gpu".into(), index as i64)].into();
    (spec.non_zero_cpu, spec.non_zero_memory) = (10 + index as i64, i64::MAX);
    let port = |port| HostPort { ip: "0.0.0.0".into(), protocol: Protocol::Tcp, port };
    spec.host_ports = [port(80 + index as i32 % 3), port(90)].into();
    spec.volumes = [Volume::Claim { name: "c".into() }].into();
    pod
}

/// Two nodes in one zone; pods 0 to 4 on the first, 5 on the second, the others pending.
fn cluster() -> State {
    let nodes = ["n0", "n1"].map(|name| labelled(name, &[("zone", "a")]));
    let on = |index| ["n0", "n1", ""][usize::from(index >= 5) + usize::from(index > 5)];
    testing::state(nodes, (0..9).map(|index| pod(index, on(index))))
}

/// All that is counted on the nodes.
fn counted(state: &State) -> Vec<String> {
    let nodes = state.nodes.present().iter().map(|node| {
        let nodes = &state.nodes;
        let gpu = state.resources.get("a.com/gpu").unwrap();
        let requested = [ResourceIdx::CPU, gpu].map(|resource| nodes.requested_of(resource, node));
        let non_zero = (nodes.non_zero_cpu()[node.at()], nodes.non_zero_memory()[node.at()]);
        let (pods, ports) = (nodes.pods(node), nodes.ports(node));
        let count = (nodes.pod_counts()[node.at()], nodes.volumes(node));
        format!("{requested:?} {non_zero:?} {pods:?} {ports:?} {count:?}")
    });
    nodes.collect()
}

#[derive(Clone, Debug)]
enum Step {
    Remove(usize),
    PutBack(usize),
    Add(usize),
    Ask,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_usize..5).prop_map(Step::Remove),
        (0_usize..5).prop_map(Step::PutBack),
        (6_usize..9).prop_map(Step::Add),
        Just(Step::Ask),
    ]
}

proptest! {
    #[test]
    fn a_question_answers_for_the_pods_it_supposes_and_is_undone_exactly(
        limit in 0_i64..9,
        steps in prop::collection::vec(step(), 0..20),
        nominated in prop::sample::subsequence(vec![6_usize, 7, 8], 0..=3),
        priority in 0_i32..10,
    ) {
        let profile = profile([fewer_than_four(), ZoneLimit::plugin(limit)]);
        let mut state = cluster();
        let mut evaluation = Evaluation::new(&profile, class(), &mut state);
        let find = |state: &State, index: usize| state.find_pod("default", &format!("p{index}")).unwrap();
        let mut nominator = Nominator::default();
        for index in &nominated {
            nominator.nominate(find(&state, *index), NodeIdx(0));
        }
        let before = (counted(&state), state.versions());
        let verdicts = [0, 1].map(|node| evaluation.check(&state, NodeIdx(node)));
        let rivals = Rivals::of_any(&nominator, priority);
        let mut on_node: Vec<usize> = (0..5).collect();
        let mut what_if = WhatIf::new(&mut state, &mut evaluation, rivals, NodeIdx(0));
        for step in steps {
            match step {
                Step::Remove(index) if on_node.contains(&index) => {
                    what_if.remove(find(what_if.state(), index));
                    on_node.retain(|other| *other != index);
                }
                Step::PutBack(index) if !on_node.contains(&index) => {
                    what_if.put_back(find(what_if.state(), index));
                    on_node.push(index);
                }
                Step::Add(index) if !on_node.contains(&index) && !nominated.contains(&index) => {
                    what_if.add(find(what_if.state(), index));
                    on_node.push(index);
                }
                _ => {}
            }
            // One more pod of the zone is on the other node.
            let fits = |more: usize| {
                on_node.len() + more < 4 && ((on_node.len() + more + 1) as i64) < limit
            };
            let rivals = nominated.iter().filter(|index| **index as i32 >= priority).count();
            prop_assert_eq!(what_if.passes(), fits(rivals) && fits(0));
            prop_assert_eq!(what_if.fits().is_ok(), fits(rivals) && fits(0));
            prop_assert_eq!(pods_on(what_if.state(), NodeIdx(0)), on_node.len() as i64);
        }
        drop(what_if);
        prop_assert_eq!(&(counted(&state), state.versions()), &before);
        let after = [0, 1].map(|node| evaluation.check(&state, NodeIdx(node)));
        prop_assert_eq!(after, verdicts, "filters forget what was supposed");
        evaluation.refresh(&profile, &mut state);
        let fresh = Evaluation::new(&profile, class(), &mut state);
        prop_assert_eq!(evaluation.feasible(), fresh.feasible());
    }
}

#[test]
fn a_refusal_has_the_reason_of_the_first_pass_that_fails() {
    let profile = profile([fewer_than_four(), ZoneLimit::plugin(6)]);
    let mut state = cluster();
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let [first, rival] = ["p0", "p8"].map(|name| state.find_pod("default", name).unwrap());
    let second = state.find_pod("default", "p1").unwrap();
    let mut nominator = Nominator::default();
    nominator.nominate(rival, NodeIdx(0));
    let rivals = Rivals::of_any(&nominator, 0);
    let mut what_if = WhatIf::new(&mut state, &mut evaluation, rivals, NodeIdx(0));
    what_if.remove(first);
    what_if.remove(second);
    // Three are left, with the rival four.
    assert_eq!(what_if.fits(), Err(Rejection::unschedulable("full")));
    drop(what_if);
    let no_nominations = Nominator::default();
    let rivals = Rivals::of_any(&no_nominations, 0);
    let mut what_if = WhatIf::new(&mut state, &mut evaluation, rivals, NodeIdx(0));
    what_if.remove(first);
    what_if.remove(second);
    assert_eq!(what_if.fits(), Ok(()));
    what_if.put_back(second);
    assert_eq!(what_if.fits(), Err(Rejection::unschedulable("full")));
}
