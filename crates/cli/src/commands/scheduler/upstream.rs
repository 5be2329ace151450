//! The flags of kube-scheduler v1.36: which of them act here, and the parser of all others.
//!
//! Flags that act are declared in `flags.rs`, with the names of this table. All others are declared
//! by it, so that whatever starts kube-scheduler also starts this scheduler.

mod page;
mod table;
#[cfg(test)]
mod tests;

use api::config::gates::parse_bool;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, Error, FromArgMatches};

use super::flags::{Alone, Span, Version};

pub use page::reference_page;
pub use table::FLAGS;

/// The version of Kubernetes whose flags and decisions these are.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// The parser of all flags.
fn command() -> Command {
    Alone::command()
}

/// What `--version` prints, if it was asked for.
pub(super) fn version(asked: &Version) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    match asked {
        Version::No | Version::Other(_) => None,
        Version::Line => Some(format!("Kubernetes {KUBERNETES_VERSION} (Jindou {own})\n")),
        Version::Raw => Some(format!(
            "version.Info{{Major:\"1\", Minor:\"36\", GitVersion:\"{KUBERNETES_VERSION}\", Jindou:\"{own}\"}}\n"
        )),
    }
}

/// A flag of kube-scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it takes.
    pub value: Value,
    /// What it does here.
    pub effect: Effect,
    /// Why it does nothing or is refused, or in what it differs from kube-scheduler; may be empty.
    pub note: &'static str,
}

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A truth value; none is `true`.
    Bool,
    /// Any text.
    Text,
    /// Texts with commas between them; may be given several times.
    List,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A duration in Go's syntax.
    Duration,
}

/// What a flag does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What it does in kube-scheduler.
    Acts,
    /// Nothing, and a warning says so unless the value is one of these, which hold anyway.
    Nothing(&'static [&'static str]),
    /// Nothing, and values other than these are refused, since they would change decisions.
    Only(&'static [&'static str]),
}

impl Flag {
    /// As an argument of the command line; `None` if it is declared where it acts.
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

    /// Checks a value and returns it as it was written.
    fn parser(&self) -> ValueParser {
        let Self { value, effect, note, .. } = *self;
        let check = move |text: String| {
            let is_good = match value {
                Value::Bool => parse_bool(&text).is_some(),
                Value::Text | Value::List => true,
                Value::Integer => text.parse::<i64>().is_ok(),
                Value::Number => text.parse::<f64>().is_ok(),
                Value::Duration => text.parse::<Span>().is_ok(),
            };
            match effect {
                _ if !is_good => Err(format!("this flag takes {}", value.shown())),
                Effect::Only(values)
                    if !text.split(',').all(|one| values.contains(&one.trim())) =>
                {
                    Err(format!("{note}; leave the flag out"))
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
    /// What it is, for people.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Text => "a text",
            Self::List => "a list with commas",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Duration => "a duration such as 30s",
        }
    }
}

/// Flags that were given and do nothing here, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inert(Vec<(&'static Flag, String)>);

impl PartialEq for Flag {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Flag {}

impl Inert {
    /// What is to be told of them, a line each.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let told = self.0.iter().filter(|(flag, value)| match flag.effect {
            Effect::Nothing(quiet) => !quiet.contains(&value.as_str()),
            Effect::Acts | Effect::Only(_) => false,
        });
        told.map(|(flag, value)| {
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
