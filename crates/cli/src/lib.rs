//! The command line of Jindou: arguments, wiring, and what people see.

pub mod bench;
pub mod cluster;
pub mod commands;
pub mod explain;
pub mod output;
mod requests;
