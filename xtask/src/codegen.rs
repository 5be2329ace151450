//! Files generated from the code: the references of plugins and flags, and the default configuration.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};

use crate::shell::root;

/// Writes the generated files; with `check`, writes nothing and fails if one is not current.
pub(crate) fn run(check: bool) -> Result<()> {
    let defaults = api::config::write(&api::config::defaults(api::config::Gates::default()));
    let files = [
        ("docs/reference/plugins.md", plugins_reference()),
        ("docs/reference/default-config.yaml", defaults),
        ("docs/reference/flags.md", cli::commands::upstream::reference_page()),
    ];
    let mut stale = Vec::new();
    for (file, text) in files {
        let path = root().join(file);
        let current = std::fs::read_to_string(&path).unwrap_or_default();
        if current == text {
            continue;
        }
        if check {
            stale.push(file);
            continue;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .context("cannot make the folder of a generated file")?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {file}"))?;
    }
    if !stale.is_empty() {
        bail!("not current: {}; run `cargo xtask codegen`", stale.join(", "));
    }
    Ok(())
}

fn plugins_reference() -> String {
    let mut text = String::from(
        "# Plugins\n\nMade from the table of plugins by `cargo xtask codegen`.\n\n| name | purpose | extension points |\n| --- | --- | --- |\n",
    );
    for entry in plugins::table::TABLE {
        let points: Vec<String> = entry.points.iter().map(|point| format!("{point:?}")).collect();
        let _ = writeln!(text, "| {} | {} | {} |", entry.name, entry.doc, points.join(", "));
    }
    text
}
