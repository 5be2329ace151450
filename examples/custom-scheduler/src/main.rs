//! A scheduler with all commands of `jindou` and custom plugins.

mod business_hours;
mod cheapest_node;
mod licences;
mod pairs;
mod rack_pressure;
#[cfg(test)]
mod testing;

use std::process::ExitCode;

use jindou::Registry;

fn registry() -> Registry {
    Registry::default()
        .with_plugin::<rack_pressure::RackPressure>()
        .with_plugin::<cheapest_node::CheapestNode>()
        .with_plugin::<business_hours::BusinessHours>()
        .with_plugin::<licences::Licences>()
        .with_plugin::<pairs::Pairs>()
}

fn main() -> ExitCode {
    jindou::run("custom-scheduler", &registry())
}
