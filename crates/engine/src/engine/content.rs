//! The content of an engine or a fork as text, for tests.

use super::core::Core;
use super::{Engine, Fork};

impl Core {
    fn content(&self) -> Vec<String> {
        let mut lines = self.state.content(&self.classes.held());
        for pod in self.nominator.all() {
            let node = self.nominator.node_of(*pod);
            let on_node = node.map(|node| self.nominator.on(node));
            lines.push(format!("{pod:?} is nominated for {node:?}: {on_node:?}"));
        }
        lines
    }
}

impl Engine {
    /// Returns everything on which decisions depend and that a trial must restore.
    pub fn content(&self) -> Vec<String> {
        let mut lines = self.core.content();
        lines.push(format!("{:?}", self.cursor));
        lines
    }
}

impl Fork {
    /// Returns everything on which decisions depend.
    pub fn content(&self) -> Vec<String> {
        self.core.content()
    }
}
