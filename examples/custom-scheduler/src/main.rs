//! A scheduler with all commands of `jindou` and a custom plugin.

mod rack_pressure;

use std::process::ExitCode;

use plugins::registry::Registry;

fn main() -> ExitCode {
    let registry = Registry::default().with_plugin::<rack_pressure::RackPressure>();
    cli::commands::run_with("custom-scheduler", &registry)
}
