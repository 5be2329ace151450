//! Entry point of `jindou-bench`.

use std::process::ExitCode;

/// The allocator of `jindou`, so that both spend the same on memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bench::commands::run()
}
