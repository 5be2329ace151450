//! Entry point of `jindou`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::commands::run()
}
