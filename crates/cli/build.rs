//! Has the linker lay the functions of a scheduler together, as `near.txt` names them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

const PATTERNS: &str = "near.txt";

/// The number of a crate in names; it is another one with every version and compiler.
const CRATE_NUMBER: &str = "Cs???????????_";

/// Linkers that know no scripts.
const WITHOUT_SCRIPTS: [&str; 3] = ["mold", "wild", "gold"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PATTERNS}");
    let given = |name: &str| env::var(name).unwrap_or_default();
    let flags = given("CARGO_ENCODED_RUSTFLAGS") + &given("RUSTC_LINKER");
    let scripts = !WITHOUT_SCRIPTS.iter().any(|linker| flags.contains(linker));
    if given("CARGO_CFG_TARGET_OS") != "linux" || given("PROFILE") != "release" || !scripts {
        return Ok(());
    }
    let mut sections = String::new();
    for pattern in fs::read_to_string(PATTERNS)?.lines() {
        let pattern = pattern.replace('~', CRATE_NUMBER);
        // What the compiler takes for unlikely runs too, once.
        let _ = writeln!(sections, "*(.text.{pattern} .text.unlikely.{pattern})");
    }
    let script = format!("SECTIONS {{ .text.near : {{\n{sections}}} }}\nINSERT BEFORE .text;\n");
    let path = PathBuf::from(given("OUT_DIR")).join("near.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-bin=jindou=-Wl,-T,{}", path.display());
    Ok(())
}
