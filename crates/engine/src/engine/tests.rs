//! Tests of the engine with stub plugins, by idea.

mod attempt;
mod audit;
mod bind;
mod cluster;
mod effects;
mod evictions;
mod explain;
mod extender_slots;
mod extenders;
mod lifecycle;
mod nominations;
mod permit;
mod pods;
mod properties;
mod queueing;
mod requested_evictions;
mod requeued_victims;
mod reserve;
mod restart;
mod ties;
mod trials;
mod volumes;
