//! Entry point of `jindou-bench`.

use std::process::ExitCode;

/// The allocator of `jindou`, so that measurements in this process have the same cost of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bench::commands::run()
}
