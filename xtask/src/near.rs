//! Which functions a scheduler runs, for the linker to lay them together: `crates/cli/near.txt`.
//!
//! ```text
//! `jindou bench live`, with Jindou under callgrind ─▶ functions that ran ─┐
//! `nm` ─▶ names and sizes of all functions ───────────────────────────────┴─▶ as few patterns as cover them
//! ```
//!
//! The kernel maps 64 KiB around whatever is touched of a program. Laid in the order of their crates, a
//! scheduler's three megabytes of functions bring most of the binary into memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use regex_lite::{Captures, Regex};

use crate::instructions::{ABSENT, find_valgrind};
use crate::shell::{output, root, run as run_shown, say, target_folder};

/// Where the patterns are.
const COMMITTED: &str = "crates/cli/near.txt";

/// The workload: small, as it is the ways that count.
const WORKLOAD: &[&str] = &["--nodes", "1000", "--rounds", "1", "--arrival-seconds", "2"];

/// Bytes of functions that do not run which may come along to save one pattern.
const PATTERN_BYTES: u64 = 2000;

/// In the names of loops that there are for each kind of vectors. Valgrind does not know the widest, so
/// that it is not seen which of them a machine runs.
const VECTORED: &str = "13fearless_simd9generated";

/// A function, or several that differ in the numbers of crates only.
#[derive(Clone, Debug, Default)]
struct Function {
    name: String,
    bytes: u64,
    ran: bool,
}

pub(crate) fn run() -> Result<ExitCode> {
    if !find_valgrind() {
        bail!("{ABSENT}");
    }
    run_shown("cargo", &["build", "--release", "--package", "cli", "--bin", "jindou"])?;
    let program = target_folder()?.join("release/jindou");
    let ran = trace(&program)?;
    let symbols = output("nm", &["--print-size", &program.to_string_lossy()])?;
    let functions = functions(&symbols, &ran)?;
    let mut patterns = Vec::new();
    cover(&functions, 0, &mut patterns);
    fs::write(root().join(COMMITTED), patterns.join("\n") + "\n")
        .with_context(|| format!("cannot write {COMMITTED}"))?;
    let bytes = |only_ran: bool| -> u64 {
        let counted = functions.iter().filter(|function| function.ran || !only_ran);
        counted.map(|function| function.bytes).sum()
    };
    say(&format!(
        "{} KiB of {} KiB run; wrote {} patterns to {COMMITTED}",
        bytes(true) >> 10,
        bytes(false) >> 10,
        patterns.len()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Names of the functions that a scheduler runs.
fn trace(program: &Path) -> Result<BTreeSet<String>> {
    let folder = tempfile::tempdir()?;
    let wrapper = folder.path().join("jindou");
    let script = format!(
        "#!/bin/sh\nexec valgrind --tool=callgrind --demangle=no \
        --callgrind-out-file='{}/profile.%p' '{}' \"$@\"\n",
        folder.path().display(),
        program.display()
    );
    fs::write(&wrapper, script)?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700))?;
    let (program, wrapper) = (program.to_string_lossy(), wrapper.to_string_lossy());
    run_shown(&program, &[&["bench", "live", "--jindou", &*wrapper], WORKLOAD].concat())?;
    let mut ran = BTreeSet::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("profile.") {
            ran.extend(names(&fs::read_to_string(entry.path())?));
        }
    }
    if ran.is_empty() {
        bail!("callgrind told of no function");
    }
    Ok(ran)
}

/// Functions of a profile. It tells each name once, as `fn=(12) name` or `cfn=(12) name`, and marks recursion by `'2`.
fn names(profile: &str) -> impl Iterator<Item = String> {
    profile.lines().filter_map(|line| {
        let (_, name) =
            line.strip_prefix('c').unwrap_or(line).strip_prefix("fn=(")?.split_once(") ")?;
        Some(name.split('\'').next().unwrap_or(name).to_owned())
    })
}

/// All functions, sorted by name, from what `nm` prints: `address size kind name`.
fn functions(symbols: &str, ran: &BTreeSet<String>) -> Result<Vec<Function>> {
    let mut found: BTreeMap<String, Function> = BTreeMap::new();
    // Crates have numbers, which are others with every version of theirs and of the compiler.
    let number = Regex::new("Cs[0-9A-Za-z]{9,11}_")?;
    for line in symbols.lines() {
        let [_, size, kind, symbol] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            continue;
        };
        let bytes = u64::from_str_radix(size, 16).unwrap_or(0);
        let plain = symbol.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !matches!(kind, "t" | "T" | "w" | "W") || !plain {
            continue;
        }
        let name = number.replace_all(symbol, |found: &Captures<'_>| {
            let digits = "?".repeat(found[0].len() - "Cs_".len());
            // Nearly all numbers are that long, so the file has a sign for them.
            if digits.len() == 11 { "~".to_owned() } else { format!("Cs{digits}_") }
        });
        let name = name.into_owned();
        let function = found.entry(name.clone()).or_default();
        function.name = name;
        function.bytes += bytes;
        function.ran |= ran.contains(symbol) || symbol.contains(VECTORED);
    }
    Ok(found.into_values().collect())
}

/// Adds patterns that match all functions that ran, and few others. Returns what they cost in bytes.
/// The names of these functions begin with the same `shared` bytes, and no others do.
fn cover(functions: &[Function], shared: usize, patterns: &mut Vec<String>) -> u64 {
    let ([first, ..], [.., last]) = (functions, functions) else { return 0 };
    if !functions.iter().any(|function| function.ran) {
        return 0;
    }
    let others = functions.iter().filter(|function| !function.ran);
    let together = PATTERN_BYTES + others.map(|function| function.bytes).sum::<u64>();
    let before = patterns.len();
    if functions.len() > 1 {
        let pairs = first.name.bytes().zip(last.name.bytes());
        let common = pairs.take_while(|(one, other)| one == other).count();
        let next = |function: &Function| function.name.as_bytes().get(common).copied();
        let groups = functions.chunk_by(|one, other| next(one) == next(other));
        let apart: u64 = groups.map(|group| cover(group, common + 1, patterns)).sum();
        if apart < together {
            return apart;
        }
    }
    patterns.truncate(before);
    patterns.push(match first.name.get(..shared) {
        Some(begin) => format!("{begin}*"),
        // Others go on where this name ends.
        None => first.name.clone(),
    });
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(functions: &[(&str, u64, bool)], expected: &[&str]) {
        let functions: Vec<Function> = functions
            .iter()
            .map(|(name, bytes, ran)| Function {
                name: (*name).to_owned(),
                bytes: *bytes,
                ran: *ran,
            })
            .collect();
        let mut patterns = Vec::new();
        cover(&functions, 0, &mut patterns);
        assert_eq!(patterns, expected);
    }

    #[test]
    fn small_neighbours_come_along_and_large_ones_do_not() {
        let (near, far) = (true, false);
        check(&[("a1", 9, near), ("a2", 1999, far), ("a3", 9, near), ("b", 9, far)], &["a*"]);
        check(&[("a12", 9, near), ("a2", 2001, far), ("a3", 9, near)], &["a1*", "a3*"]);
        check(&[("ab1", 9, near), ("ab2", 9, near), ("ac", 5000, far)], &["ab*"]);
        check(&[("a", 9, near), ("ab", 5000, far)], &["a"]);
        check(&[("a", 9, near)], &["*"]);
        check(&[("a", 9, false)], &[]);
        check(&[], &[]);
    }

    #[test]
    fn numbers_of_crates_are_left_open() {
        let symbols = "\
0001 0010 t _RNvCsabcdefghijk_7runtime4main
0002 0020 t _RNvCs0123456789_7runtime4main
0003 0004 t _RNvCsbcdefghijkl_7runtime4main
0003 0030 d _RNvCsabcdefghijk_7runtime4DATA
0004 0040 T mi_malloc
     U memcpy
";
        let profile =
            "fn=(1) _RNvCs0123456789_7runtime4main\ncfn=(2) mi_malloc'2\nfn=(1)\ncalls=1 1\n";
        let ran = names(profile).collect();
        let found = functions(symbols, &ran).unwrap();
        let found: Vec<_> = found.iter().map(|f| (&*f.name, f.bytes, f.ran)).collect();
        let expected = [
            ("_RNvCs??????????_7runtime4main", 0x20, true),
            ("_RNv~7runtime4main", 0x14, false),
            ("mi_malloc", 0x40, true),
        ];
        assert_eq!(found, expected);
    }
}
