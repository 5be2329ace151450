//! Entry point of `jindou`.

use std::process::ExitCode;

/// Most of what is allocated lives as long as one request or one object of a watch; the system's
/// allocator takes several times as long for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::commands::run()
}
