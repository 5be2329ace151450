//! The flags of kube-scheduler v1.36: their effects, and the parser of those without effect.
//!
//! Flags with an effect are declared in `flags.rs`, under the names of this table. All others are declared
//! here, so that any command line of kube-scheduler starts this scheduler, too.

mod page;
mod table;
#[cfg(test)]
mod tests;

use api::config::gates::parse_bool;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, Error, FromArgMatches};

use super::flags::{Alone, Span, VersionFlag};

pub use page::reference_page;
pub use table::FLAGS;

/// The version of Kubernetes whose flags and decisions are reproduced.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// Returns the parser of all flags.
fn command() -> Command {
    Alone::command()
}

/// Returns the output of `--version`; `None` if the flag is not set.
pub(super) fn version(requested: &VersionFlag) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    match requested {
        VersionFlag::No | VersionFlag::Other(_) => None,
        VersionFlag::Line => Some(format!("Kubernetes {KUBERNETES_VERSION} (Jindou {own})\n")),
        VersionFlag::Raw => Some(format!(
            "version.Info{{Major:\"1\", Minor:\"36\", GitVersion:\"{KUBERNETES_VERSION}\", Jindou:\"{own}\"}}\n"
        )),
    }
}

/// A flag of kube-scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Type of its value.
    pub value: Value,
    /// Its effect here.
    pub effect: Effect,
    /// Reason why it has no effect or is refused, or difference from kube-scheduler; may be empty.
    pub note: &'static str,
}

/// Type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A boolean; no value means `true`.
    Bool,
    /// Any text.
    Text,
    /// Comma-separated texts; repeatable.
    List,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A duration in Go's syntax.
    Duration,
}

/// Effect of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The same as in kube-scheduler.
    Acts,
    /// None. A warning is logged unless the value is one of these, which apply anyway.
    Nothing(&'static [&'static str]),
    /// None. Values other than these are refused, since they would change decisions.
    Only(&'static [&'static str]),
}

impl Flag {
    /// Returns the argument of the command line; `None` if `flags.rs` declares it.
    fn argument(&self) -> Option<Arg> {
        if self.effect == Effect::Acts {
            return None;
        }
        let argument = Arg::new(self.name).long(self.name).hide(true).help(self.note);
        Some(match self.value {
            Value::Bool => argument
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .action(ArgAction::Set)
                .value_parser(self.parser()),
            Value::List => argument.action(ArgAction::Append).value_parser(self.parser()),
            _ => argument.action(ArgAction::Set).value_parser(self.parser()),
        })
    }

    /// Returns a parser that validates a value and leaves it unchanged.
    fn parser(&self) -> ValueParser {
        let Self { value, effect, note, .. } = *self;
        let check = move |text: String| {
            let is_valid = match value {
                Value::Bool => parse_bool(&text).is_some(),
                Value::Text | Value::List => true,
                Value::Integer => text.parse::<i64>().is_ok(),
                Value::Number => text.parse::<f64>().is_ok(),
                Value::Duration => text.parse::<Span>().is_ok(),
            };
            match effect {
                _ if !is_valid => Err(format!("this flag takes {}", value.shown())),
                Effect::Only(values)
                    if !text.split(',').all(|one| values.contains(&one.trim())) =>
                {
                    Err(format!("{note}; omit the flag"))
                }
                _ => Ok(text),
            }
        };
        match value {
            Value::Text | Value::List => {
                clap::builder::StringValueParser::new().try_map(check).into()
            }
            _ => NonEmptyStringValueParser::new().try_map(check).into(),
        }
    }
}

impl Value {
    /// Returns a description for help and errors.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Text => "a text",
            Self::List => "a comma-separated list",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Duration => "a duration such as 30s",
        }
    }
}

/// The given flags without effect, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inert(Vec<(&'static Flag, String)>);

impl PartialEq for Flag {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Flag {}

impl Inert {
    /// Returns a warning for each flag, unless its value applies anyway.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let ineffective = self.0.iter().filter(|(flag, value)| match flag.effect {
            Effect::Nothing(quiet) => !quiet.contains(&value.as_str()),
            Effect::Acts | Effect::Only(_) => false,
        });
        ineffective.map(|(flag, value)| {
            format!("--{}={value} has no effect here: {}", flag.name, flag.note)
        })
    }
}

impl clap::Args for Inert {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().filter_map(Flag::argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Inert {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut inert = Self::default();
        inert.update_from_arg_matches(matches)?;
        Ok(inert)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for flag in FLAGS.iter().filter(|flag| flag.effect != Effect::Acts) {
            if matches.value_source(flag.name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values = matches.get_many::<String>(flag.name).into_iter().flatten();
            let values = values.map(|value| match (flag.value, parse_bool(value)) {
                (Value::Bool, Some(value)) => value.to_string(),
                _ => value.clone(),
            });
            self.0.push((flag, values.collect::<Vec<_>>().join(",")));
        }
        Ok(())
    }
}
