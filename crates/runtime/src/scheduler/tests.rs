//! Beginning and ending to decide.

use std::sync::atomic::AtomicBool;

use super::*;

fn scheduler() -> (Scheduler, mpsc::Receiver<Input>) {
    let (inputs, receiver) = mpsc::channel(100);
    let watches = KINDS.iter().map(|kind| (kind.name, Arc::default())).collect();
    let status = Arc::new(DriverStatus::default());
    (Scheduler { inputs, watches, status, beginning: Mutex::default() }, receiver)
}

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_decide_before_a_new_list() {
    let (scheduler, mut inputs) = scheduler();
    scheduler.lead(true).await;
    sleep(Duration::from_hours(1)).await;
    assert!(inputs.is_empty(), "nodes and pods were not listed since");
    scheduler.lead(false).await;
    assert!(matches!(inputs.recv().await, Some(Input::Lead(false))));
    sleep(Duration::from_hours(1)).await;
    assert!(inputs.is_empty(), "the lead that was lost does not begin later");
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_decisions_and_binds() {
    let (scheduler, _inputs) = scheduler();
    let limit = Duration::from_secs(8);
    assert!(scheduler.drain(limit).await, "nothing is under way");
    let set = |leading: bool, binding: usize| {
        scheduler.status.binding.store(binding, Ordering::Relaxed);
        AtomicBool::store(&scheduler.status.leading, leading, Ordering::Release);
    };
    let begun = Instant::now();
    set(true, 0);
    assert!(!scheduler.drain(limit).await, "decisions are still made");
    set(false, 1);
    assert!(!scheduler.drain(limit).await, "a bind is under way");
    assert!(begun.elapsed() >= 2 * limit);
    set(false, 0);
    assert!(scheduler.drain(limit).await);
}
