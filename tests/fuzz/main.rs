//! Mutates examples of every format and reads them: no panic, no large memory. `cargo fuzz` uses the same functions (see `fuzz/`).
//!
//! | variable | meaning |
//! |---|---|
//! | `GDS_TOP_FUZZ_SECONDS` | seconds for each format (default: 2) |
//! | `GDS_TOP_FUZZ_MUTATIONS` | mutations of each format instead |
//! | `GDS_TOP_FUZZ_SEED` | another sequence of mutations (default: 1) |
//! | `GDS_TOP_FUZZ_TARGET` | only formats whose name contains this |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod mutate;
#[path = "seeds.rs"]
mod seeds;
mod targets;

use cap::Cap;
use mutate::Mutator;
use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use targets::{TARGETS, Target};

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Maximum memory in bytes that reading one input may need. A recording may have a line of 256 MiB, but mutations are
/// much smaller.
const MOST_BYTES: usize = 512 << 20;
/// Maximum length of mutated inputs. `repeat` doubles parts.
const LONGEST: usize = 1 << 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reads one input. It is stored if it causes a problem.
fn read(target: &Target, input: &[u8], heard: &str) -> usize {
    let before = HEAP.allocated();
    let top = HEAP.max_allocated();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let most = if HEAP.max_allocated() > top { HEAP.max_allocated() - before } else { 0 };
    if outcome.is_err() || most > MOST_BYTES {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("found-{}-{:08x}", target.name, crc(input)));
        std::fs::write(&path, input).unwrap();
        panic!(
            "{} ({heard}): {} MiB; the input is {}; keep it in tests/corpus/{}",
            target.name,
            most >> 20,
            path.display(),
            target.name
        );
    }
    most
}

fn crc(input: &[u8]) -> u32 {
    input.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[test]
fn no_mutation_of_any_format_makes_the_program_panic_or_grow() {
    let seconds = number("GDS_TOP_FUZZ_SECONDS").unwrap_or(2);
    let mutations = number("GDS_TOP_FUZZ_MUTATIONS");
    let seed = number("GDS_TOP_FUZZ_SEED").unwrap_or(1);
    let only = std::env::var("GDS_TOP_FUZZ_TARGET").unwrap_or_default();
    for target in TARGETS.iter().filter(|target| target.name.contains(&only)) {
        let examples = seeds::of(target.name);
        assert!(!examples.is_empty(), "{} has no example", target.name);
        let start = Instant::now();
        let mut most = examples.iter().map(|example| read(target, example, "an example")).max().unwrap_or(0);
        let mut mutator = Mutator::new(seed ^ u64::from(crc(target.name.as_bytes())));
        let (mut done, mut slowest) = (0_u64, Duration::ZERO);
        while mutations.map_or(start.elapsed() < Duration::from_secs(seconds), |all| done < all) {
            let input =
                if target.name == "capture-folder" { mutator.pieces(&examples) } else { mutator.mutated(&examples) };
            let began = Instant::now();
            most = most.max(read(target, &input[..input.len().min(LONGEST)], "a mutation"));
            slowest = slowest.max(began.elapsed());
            done += 1;
        }
        println!(
            "{:<20} {:>3} examples, {done:>7} mutations in {:>4} s, slowest {:>5} ms, most memory {:>3} MiB",
            target.name,
            examples.len(),
            start.elapsed().as_secs(),
            slowest.as_millis(),
            most >> 20
        );
    }
}

/// Each format also has a target for `cargo fuzz`.
#[test]
fn every_format_is_a_target_of_cargo_fuzz() {
    let manifest = include_str!("../../fuzz/Cargo.toml");
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is not in fuzz/Cargo.toml", target.name);
    }
}
