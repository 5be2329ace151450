//! Sends requests derived from bytes to the HTTP handler of the sandbox. The property test
//! `any_request_gets_a_proper_response` does the same with fewer requests.

#![no_main]

#[path = "../../crates/sandbox/tests/it/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
