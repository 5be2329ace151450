//! Whatever happens, and in whatever order: what the engine keeps step by step equals what comes out
//! from scratch, pods are neither lost nor bound twice, and nobody waits for an event who fits.

mod checks;
mod decisions;
mod evictions;
mod generators;
mod nominations;
mod steps;
mod trials;
mod world;

use proptest::prelude::*;

use steps::{Scenario, scenario};
use world::World;

/// Runs a scenario and tells the first thing that is wrong, with the step after which it is.
fn run(scenario: &Scenario) -> Result<(), String> {
    let mut world = World::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let taken = world.apply_step(step.clone());
        let settled = taken.and_then(|()| if scenario.prompt { world.settle() } else { Ok(()) });
        let checked = settled.and_then(|()| world.check());
        checked.map_err(|wrong| format!("step {number}: {wrong}\n{}", world.history()))?;
    }
    world.check_twin()
}

fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    // A scenario takes a few milliseconds, and what is wrong shows in one of thousands. `PROPTEST_CASES`
    // asks for more (or fewer).
    let cases = if config.cases == 256 { 1500 } else { config.cases };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_story_leaves_a_sound_engine(scenario in scenario(100)) {
        run(&scenario).map_err(TestCaseError::fail)?;
    }
}
