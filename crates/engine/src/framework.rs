//! The plugin API.
//!
//! The engine asks a plugin once per pod class to *prepare* a filter and a scorer. These work on
//! whole node columns and live as long as the parts of the state that they were prepared from stay
//! unchanged. Between decisions they are only updated for the nodes and pods that changed.

pub mod class;
pub mod effects;
pub mod event;
pub mod extender;
pub mod filter;
pub mod plugin;
pub mod preparation;
pub mod profile;
pub mod rejection;
pub mod scorer;

pub use class::Class;
pub use effects::{BindContext, Effects, Report};
pub use event::{Action, Event, PodView, Resource, Subscription};
pub use extender::Extender;
pub use filter::{Filter, Freshness, NodeVerdict};
pub use plugin::{
    KeyPart, Permit, Plugin, Point, PostFilterOutcome, PreFilterResult, QueueKey, QueueTraits,
    Reservation, VolumeRequest,
};
pub use preparation::Preparation;
pub use profile::Profile;
pub use rejection::{Code, Reason, Rejection};
pub use scorer::{Extremes, ScoreBuckets, ScoreChanges, Scorer};

pub use crate::state::plugin_states::{InitialState, PluginState};

#[cfg(test)]
mod tests;
