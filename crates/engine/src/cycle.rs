//! One scheduling cycle: filter, score, choose, and the PostFilter if no node is feasible.

mod candidates;
pub mod choose;
pub mod decide;
pub mod diagnosis;
mod diagnosis_cache;
pub mod evaluation;
pub mod explain;
mod flip_cache;
pub mod node_picker;
mod nomination_filter;
pub mod post_filter;
pub mod ranking;
pub(crate) mod rivals;
pub mod scores;
pub mod shortlist;
pub mod what_if;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
