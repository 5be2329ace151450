//! After any sequence of steps, incremental state equals state from scratch, no pod is lost or bound
//! twice, and no pod that would fit waits for an event.

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

/// Runs a scenario. Returns the first violation, with the number of its step.
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
    // A scenario takes a few milliseconds, and a defect shows in one of thousands. `PROPTEST_CASES` sets
    // another number.
    let cases = if config.cases == 256 { 1500 } else { config.cases };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_scenario_leaves_a_consistent_engine(scenario in scenario(100)) {
        run(&scenario).map_err(TestCaseError::fail)?;
    }
}
