//! The reference page of flags and feature gates, generated from the tables.

use std::fmt::Write as _;

use api::config::gates::{GateEffect, Gates};

use super::{Effect, FLAGS, command};

/// Returns the page in Markdown.
pub fn reference_page() -> String {
    let mut text = String::from(
        "# Flags\n\nGenerated from the tables of flags and feature gates by `cargo xtask codegen`.\n\n\
         `jindou scheduler` accepts every flag of kube-scheduler v1.36. The command is optional: \
         `jindou --config=…` works, and so does a program whose name ends in `-scheduler`. \
         A flag without effect causes one warning, unless its value applies anyway.\n\n\
         | flag | value | effect | note |\n| --- | --- | --- | --- |\n",
    );
    for flag in FLAGS {
        let effect = match flag.effect {
            Effect::Acts => "acts".to_owned(),
            Effect::Nothing(_) => "none".to_owned(),
            Effect::Only(values) => {
                let values: Vec<_> = values.iter().filter(|value| !value.is_empty()).collect();
                let shown: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
                format!("values other than {} are refused", shown.join(" and "))
            }
        };
        let (name, value, note) = (flag.name, flag.value.shown(), flag.note);
        let _ = writeln!(text, "| `--{name}` | {value} | {effect} | {note} |");
    }
    text += "\n## Flags of Jindou alone\n\n| flag | effect |\n| --- | --- |\n";
    for own in command().get_arguments() {
        let Some(name) = own.get_long().filter(|name| FLAGS.iter().all(|flag| flag.name != *name))
        else {
            continue;
        };
        let help = own.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "| `--{name}` | {} |", help.replace('|', "\\|"));
    }
    text += "\n## Feature gates\n\n\
         `--feature-gates` accepts every gate of kube-scheduler v1.36, `AllAlpha` and `AllBeta`. \
         A gate that changes decisions either acts, or can only have its default. \
         A gate without effect concerns other components, or the implementation and not the decisions.\n\n\
         | gate | stage | default | effect |\n| --- | --- | --- | --- |\n";
    for gate in Gates::ALL {
        let effect = match gate.effect {
            GateEffect::Supported if gate.locked => "acts, locked",
            GateEffect::Supported => "acts",
            GateEffect::Ignored => "none",
            GateEffect::DefaultOnly => "default only",
        };
        let stage = format!("{:?}", gate.stage).to_lowercase();
        let _ = writeln!(text, "| `{}` | {stage} | {} | {effect} |", gate.name, gate.default);
    }
    text
}
