//! One scheduling cycle: filter, score, choose, and what to do when nothing fits.

pub mod best;
pub mod choose;
pub mod decide;
pub mod diagnosis;
pub mod evaluation;
pub mod explain;
pub mod post_filter;
pub mod ranking;
pub mod scores;
pub mod shortlist;
mod turned;
pub mod what_if;
