//! Forks: copies of the engine's state for planning on another thread while decisions go on.

use std::fmt;
use std::sync::Arc;

use crate::cycle::ranking::ColumnPool;
use crate::framework::Profile;
use crate::state::State;

use super::Engine;
use super::core::Core;
use super::trial::{DecisionCursor, Trial};

/// A copy of the state and the nominations of an engine, which offers the same trials with an
/// evaluation cache of its own. It receives no changes.
pub struct Fork {
    pub(super) core: Core,
    column_pool: ColumnPool,
    cursor: DecisionCursor,
}

const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<Fork>();
};

impl Fork {
    /// Returns the state at the time of the fork.
    pub fn state(&self) -> &State {
        &self.core.state
    }

    /// Returns the profiles, which are shared with the engine.
    pub fn profiles(&self) -> &Arc<[Profile]> {
        &self.core.profiles
    }

    /// Returns the time of the last change before the fork, in nanoseconds since the epoch.
    pub fn now(&self) -> i64 {
        self.core.state.now()
    }

    /// Begins a trial.
    pub fn trial(&mut self) -> Trial<'_> {
        Trial::new(&mut self.core, &mut self.column_pool, self.cursor)
    }
}

impl fmt::Debug for Fork {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Fork").field("now", &self.core.state.now()).finish_non_exhaustive()
    }
}

impl Clone for Fork {
    fn clone(&self) -> Self {
        Self { core: self.core.copy(), column_pool: ColumnPool::default(), cursor: self.cursor }
    }
}

impl Engine {
    /// Copies the state for planning on another thread.
    pub fn fork(&self) -> Fork {
        Fork { core: self.core.copy(), column_pool: ColumnPool::default(), cursor: self.cursor }
    }

    /// Begins a trial on the engine itself. Its evaluations are those of the engine.
    pub fn trial(&mut self) -> Trial<'_> {
        Trial::new(&mut self.core, &mut self.column_pool, self.cursor)
    }
}
