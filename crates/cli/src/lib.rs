//! The command line of Jindou: arguments, wiring and output.

pub mod api_client;
pub mod commands;
pub mod explain;
pub mod output;
pub mod panics;
