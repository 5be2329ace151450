//! Tests of the state as a whole.

mod areas;
mod model;
mod objects;
mod pods;
