//! A snapshot as changes of the engine, and an engine filled from it.

use engine::change::Change;
use engine::engine::{Engine, Settings};
use engine::framework::Profile;

use super::Objects;

impl Objects {
    /// Returns the objects as changes, those that pods refer to before the pods.
    pub fn into_changes(self) -> impl Iterator<Item = Change> {
        (self.others.into_iter().map(Change::Object))
            .chain(self.nodes.into_iter().map(Change::Node))
            .chain(self.pods.into_iter().map(|pod| Change::Pod(Box::new(pod))))
    }

    /// Returns an engine with these profiles and objects that has scheduled nothing.
    pub fn into_engine(self, profiles: Vec<Profile>) -> Engine {
        let mut engine = Engine::new(profiles, Settings::default());
        // No attempt is made, so the commands are of no interest.
        let mut commands = Vec::new();
        for change in self.into_changes() {
            engine.apply(change, 0, &mut commands);
        }
        engine
    }
}
