//! Sends requests derived from the fuzzer's bytes to the HTTP layer of the sandbox. The property test
//! `any_request_gets_a_proper_answer` does the same with fewer inputs.

#![no_main]

#[path = "../../crates/sandbox/tests/it/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
