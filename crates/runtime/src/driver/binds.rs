//! The binds that the engine issued: those in flight, at most as many as the window allows, and those that
//! wait for room.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::command::Command;

use crate::bind::BindWindow;

/// Admits binds to the window.
pub(super) struct Binds {
    /// Number of binds that may be in flight, which the binder adapts.
    window: Arc<BindWindow>,
    in_flight: usize,
    /// Binds that became ready while the window was full, such as those of pods with volumes.
    waiting: VecDeque<Command>,
}

impl Binds {
    pub(super) fn new(window: Arc<BindWindow>) -> Self {
        Self { window, in_flight: 0, waiting: VecDeque::new() }
    }

    /// Returns the window.
    #[cfg(test)]
    pub(super) fn window(&self) -> Arc<BindWindow> {
        Arc::clone(&self.window)
    }

    /// Returns the number of binds in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns `true` if one more bind may be in flight.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.window.size()
    }

    /// Returns a bind that is in flight from now on. Without room it waits, and `None` is returned.
    pub(super) fn admit(&mut self, bind: Command) -> Option<Command> {
        self.waiting.push_back(bind);
        self.pop_ready()
    }

    /// Returns the bind that has waited longest, if there is room; it is in flight from now on.
    pub(super) fn pop_ready(&mut self) -> Option<Command> {
        let bind = self.waiting.pop_front_if(|_| self.in_flight < self.window.size())?;
        self.in_flight += 1;
        Some(bind)
    }

    /// Counts the answer to a bind in flight.
    pub(super) fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Removes and returns the binds that wait for room.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Command> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use engine::command::{AttemptHistory, PodRef};

    use super::*;

    fn bind(name: &str) -> Command {
        let pod = PodRef { name: name.into(), ..PodRef::default() };
        let history = AttemptHistory::default();
        Command::Bind { pod, node: "n1".into(), extender: None, history }
    }

    #[test]
    fn binds_over_the_window_wait_in_order() {
        let window = Arc::new(BindWindow::default());
        while window.size() > 4 {
            window.shrink();
        }
        let mut binds = Binds::new(Arc::clone(&window));
        for name in ["a", "b", "c", "d"] {
            assert_eq!(binds.admit(bind(name)), Some(bind(name)));
        }
        assert!(!binds.has_room());
        assert_eq!((binds.admit(bind("e")), binds.admit(bind("f"))), (None, None));
        assert_eq!((binds.pop_ready(), binds.in_flight()), (None, 4));
        binds.answered();
        assert_eq!(binds.admit(bind("g")), Some(bind("e")), "it has waited longest");
        assert_eq!((binds.pop_ready(), binds.in_flight()), (None, 4));
        window.grow();
        assert_eq!(binds.pop_ready(), Some(bind("f")));
        assert_eq!(binds.take_waiting(), [bind("g")]);
        (0..9).for_each(|_| binds.answered());
        assert_eq!((binds.pop_ready(), binds.in_flight()), (None, 0));
    }
}
