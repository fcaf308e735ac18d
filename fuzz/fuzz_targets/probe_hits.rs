//! Runs the format `probe-hits` with cargo fuzz.
#![no_main]

#[path = "../../tests/fuzz/targets.rs"]
#[allow(dead_code, clippy::expect_used)]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::probe_hits(bytes));
