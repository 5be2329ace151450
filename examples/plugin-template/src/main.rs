//! A scheduler with a plugin of its own.

mod my_plugin;

use std::process::ExitCode;

use jindou::Registry;

fn registry() -> Registry {
    Registry::default().with_plugin::<my_plugin::MyPlugin>()
}

fn main() -> ExitCode {
    jindou::run("my-scheduler", &registry())
}
