//! An engine whose decision does not return.

use std::sync::Mutex;
use std::sync::mpsc as std_mpsc;

use plugins::simple::{self, NodePlugin as _};
use tokio::time::timeout;

use super::*;

/// Longer than any step of this test takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Blocks the thread of the engine from the first node on, until it is released.
struct Blocking {
    entered: std_mpsc::Sender<()>,
    released: Mutex<std_mpsc::Receiver<()>>,
}

impl simple::NodePlugin for Blocking {
    const NAME: &'static str = "NodeName";
    const POINTS: &'static [Point] = &[Point::Filter];

    fn filter(&self, _: &simple::Class, _: &simple::NodeView) -> Result<(), simple::Rejection> {
        let _ = self.entered.send(());
        let _ = self.released.lock().unwrap().recv_timeout(PATIENCE);
        Ok(())
    }
}

#[test]
fn a_decision_that_does_not_return_fails_liveness() {
    let (entered, has_entered) = std_mpsc::channel();
    let (release, released) = std_mpsc::channel();
    let (status_of, status) = std_mpsc::channel();
    let thread = std::thread::spawn(move || {
        let plugin = Mutex::new(Some(Blocking { entered, released: Mutex::new(released) }));
        let build = move |_: Option<&_>| {
            let plugin = plugin.lock().unwrap().take().expect("there is one profile");
            Ok(simple::plugin(plugin))
        };
        let registry = Registry::default().with(Blocking::NAME, Blocking::POINTS, Box::new(build));
        local(async {
            let mut stage = DriverFixture::leading_with(engine(&registry), 0).await;
            sleep(Duration::from_millis(1)).await;
            status_of.send(Arc::clone(&stage.status)).unwrap();
            stage.apply(pod("a", None)).await;
            assert_eq!(stage.issued().await, ["Bind a"]);
        });
    });
    let status = status.recv_timeout(PATIENCE).unwrap();
    has_entered.recv_timeout(PATIENCE).unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let error =
        runtime.block_on(async { timeout(2 * STEP_TIME_MAX, status.liveness.watch()).await });
    let error = error.expect("it is noticed").to_string();
    assert!(error.contains("has not finished one step"), "{error}");
    assert!(status.liveness.check().is_err());
    release.send(()).unwrap();
    drop(release);
    thread.join().unwrap();
}
