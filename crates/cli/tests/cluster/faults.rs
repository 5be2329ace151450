//! Whatever happens to requests and watches: every place is taken once, and no pod is lost.

use std::time::Duration;

use http::Method;
use sandbox::faults::{Fault, FaultRule};

use crate::stage::{PODS, Stage, node, pod};

const NODES: usize = 10;
const PLACES: usize = 10;

/// As many pods as there are places: one that is taken twice would be missing in the end.
async fn all_places_are_taken_despite(rules: Vec<FaultRule>) {
    let nodes = (0..NODES).map(|number| node(&format!("n{number}"), PLACES)).collect();
    let stage = Stage::new(nodes).await;
    for rule in rules {
        stage.sandbox.faults.add(rule);
    }
    let scheduler = stage.scheduler(&[]);
    for number in 0..NODES * PLACES {
        stage.make(PODS, &pod(&format!("p{number}"))).await;
    }
    let placements = stage.placements(NODES * PLACES).await;
    assert_eq!(placements.len(), NODES);
    assert!(placements.iter().all(|(_, pods)| *pods == PLACES), "{placements:?}");
    scheduler.stop().await;
    stage.end().await;
}

fn on_binds(every: u64, times: u64, fault: Fault) -> FaultRule {
    FaultRule { method: Some(Method::POST), path: "/binding".to_owned(), every, times, fault }
}

fn on_watches(path: &str, times: u64, fault: Fault) -> FaultRule {
    FaultRule { method: Some(Method::GET), path: format!("{path}?watch"), every: 1, times, fault }
}

#[tokio::test]
async fn binds_whose_answers_are_lost() {
    let lost = Fault::DropResponse(Duration::from_secs(1));
    all_places_are_taken_despite(vec![on_binds(10, 5, lost)]).await;
}

#[tokio::test]
async fn binds_that_never_arrive() {
    let swallowed = Fault::DropRequest(Duration::from_secs(1));
    all_places_are_taken_despite(vec![on_binds(10, 5, swallowed)]).await;
}

#[tokio::test]
async fn binds_that_are_refused() {
    let rules = [409, 429, 500, 503, 504].map(|code| on_binds(11, 3, Fault::Fail(code)));
    all_places_are_taken_despite(rules.to_vec()).await;
}

#[tokio::test]
async fn watches_that_break_off_again_and_again() {
    let rules = ["/pods", "/nodes"].map(|path| on_watches(path, 4, Fault::CutWatch(7)));
    all_places_are_taken_despite(rules.to_vec()).await;
}

#[tokio::test]
async fn watches_that_are_too_old_or_turned_away() {
    let rules = [410, 429, 500].map(|code| on_watches("/pods", 1, Fault::Fail(code)));
    all_places_are_taken_despite(rules.to_vec()).await;
}
