//! One scheduling cycle: filter, score, choose, and what to do when nothing fits.

pub mod best;
pub mod choose;
mod claims;
pub mod decide;
pub mod diagnosis;
pub mod evaluation;
pub mod explain;
mod failure;
pub mod post_filter;
pub mod ranking;
pub(crate) mod rivals;
pub mod scores;
pub mod shortlist;
mod turned;
pub mod what_if;
