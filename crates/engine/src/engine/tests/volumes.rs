//! Volumes that are prepared before the bind.

use crate::change::Change;
use crate::command::Command;
use crate::engine::testing::*;
use crate::framework::VolumeRequest;
use crate::queue::QueueStage;

#[test]
fn volumes_are_prepared_before_the_bind_is_sent() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    let commands = harness.place(with_claim(pending("p", 600)));
    assert_eq!(commands, ["nominate p for n1", "prepare volumes of p on n1"]);
    let Command::PrepareVolumes { requests, timeout, .. } = &harness.commands[1] else { panic!() };
    let (namespace, claim, node) = ("default".into(), "claim".into(), "n1".into());
    assert_eq!(*requests, [VolumeRequest::Provision { namespace, claim, node }]);
    assert_eq!(*timeout, 5 * SECOND);
    assert_eq!(harness.stage("p"), Some(QueueStage::Binding));
    assert_eq!(harness.volumes("p", None), ["bind p to n1"]);
    assert_eq!(harness.volumes("p", None), [""; 0], "an answer counts once");
}

#[test]
fn volumes_follow_permission() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.wait_at("PermitA", "p", MINUTE);
    assert_eq!(harness.place(with_claim(pending("p", 600))), ["nominate p for n1"]);
    let commands = harness.tell(allowed("p", "PermitA"));
    assert_eq!(commands, ["nominate p for n1", "prepare volumes of p on n1"]);
}

#[test]
fn volumes_that_fail_give_the_place_back_and_the_pod_is_retried() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(with_claim(pending("p", 600)));
    harness.place(pending("q", 600));
    let commands = harness.volumes("p", Some("no space"));
    assert_eq!(commands, ["SchedulerError p, nominate for none"]);
    assert_eq!(harness.message(), "no space");
    assert_eq!(harness.stage("p"), Some(QueueStage::ErrorBackoff));
    assert_eq!(harness.schedule(), ["bind q to n1"]);
    assert_eq!(harness.after(2 * SECOND), ["Unschedulable p, nominate for none"]);
}

#[test]
fn an_answer_to_an_earlier_command_is_ignored() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(with_claim(pending("p", 600)));
    let first = harness.tickets["p"];
    harness.volumes("p", Some("no space"));
    let commands = harness.after(2 * SECOND);
    assert_eq!(commands, ["nominate p for n1", "prepare volumes of p on n1"]);
    assert_ne!(harness.tickets["p"], first);
    for failure in [None, Some("late".into())] {
        let late = Change::VolumesReady { uid: "p".into(), ticket: first, failure };
        assert_eq!(harness.tell(late), [""; 0]);
    }
    let unknown = Change::VolumesReady { uid: "x".into(), ticket: first, failure: None };
    assert_eq!(harness.tell(unknown), [""; 0]);
    assert_eq!(harness.volumes("p", None), ["bind p to n1"]);
}

#[test]
fn answers_of_other_stages_do_not_stand_for_the_volumes() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.place(with_claim(pending("p", 600)));
    for change in [bound("p"), bind_failed("p", "conflict"), allowed("p", "PermitA")] {
        assert_eq!(harness.tell(change), [""; 0]);
    }
    assert_eq!(harness.volumes("p", None), ["bind p to n1"]);
}
