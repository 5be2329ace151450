//! Tests of the engine with stub plugins, by idea.

mod attempt;
