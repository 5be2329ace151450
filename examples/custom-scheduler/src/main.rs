//! A scheduler with all commands of `jindou` and a custom plugin.

mod rack_pressure;

use std::process::ExitCode;

use plugins::registry::Registry;

fn main() -> ExitCode {
    let build = Box::new(rack_pressure::build);
    let registry = Registry::default().with(rack_pressure::NAME, rack_pressure::POINTS, build);
    cli::commands::run_with("custom-scheduler", &registry)
}
