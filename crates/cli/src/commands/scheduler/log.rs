//! The log: levels of our own crates and of libraries.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use super::flags::{LogFormat, Options, RunMode};

/// Starts logging to standard error.
pub(super) fn start(options: &Options) {
    let (ours, others) = match options.v {
        0..4 if options.mode == RunMode::Embedded => (LevelFilter::WARN, LevelFilter::WARN),
        0..4 => (LevelFilter::INFO, LevelFilter::WARN),
        4..6 => (LevelFilter::DEBUG, LevelFilter::WARN),
        6..10 => (LevelFilter::TRACE, LevelFilter::INFO),
        _ => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    let shown = Targets::new().with_default(others).with_targets([
        ("cli", ours),
        ("http2", ours),
        ("runtime", ours),
        ("sandbox", ours),
    ]);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let registry = tracing_subscriber::registry().with(shown);
    match options.logging_format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
}
