//! Reads safetensors models (headers, shards, indices and read plans) and writes synthetic models. This module does
//! not use devices.

#[cfg(test)]
mod any_model;
pub mod demo;
pub mod dtype;
pub mod error;
pub mod header;
mod held;
pub mod inspect;
pub mod layout;
mod locate;
mod marker;
mod open;
#[cfg(test)]
mod open_tests;
mod part;
pub mod plan;
pub mod profile;
pub mod synth;

pub use demo::{KeptModel, cache_folder, make_cache_folder};
pub use error::WeightsError;
pub use inspect::{Inspection, inspect};
pub use open::{open, reread};
pub use part::{clipped, clipped_numbers, part_ranges};
pub use plan::{Block, TensorRange, coalesced, coalesced_in, per_tensor};
pub use profile::Profile;
pub use synth::{SynthOptions, synthesize};
