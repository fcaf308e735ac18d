//! The published figures that the lesson explains (the study Mini-GDS), the arithmetic that checks them, and the
//! recordings of gds-top. All published runs and all recordings used compat mode. Nothing here was measured on a
//! direct route.

use super::lesson::{Lesson, ModelLoads};
use crate::core::{CacheState, Engine, NixlPlugin, Phase, units};

/// The published figures of one loader for one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedLoad {
    /// Time of the load in milliseconds.
    pub wall_ms: f64,
    /// Additional host memory in MB.
    pub host_mb: f64,
}

/// The published figures of two loaders for one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedModel {
    /// Name of the model.
    pub name: &'static str,
    /// Number of its tensors.
    pub tensors: u64,
    /// The loader of Hugging Face.
    pub plain: PublishedLoad,
    /// NIXL with one transfer per tensor.
    pub nixl: PublishedLoad,
}

/// The figures of the study for Qwen3-0.6B.
pub const SMALL: PublishedModel = PublishedModel {
    name: "Qwen3-0.6B",
    tensors: 311,
    plain: PublishedLoad { wall_ms: 1230.0, host_mb: 252.0 },
    nixl: PublishedLoad { wall_ms: 3030.0, host_mb: 1287.0 },
};
/// The figures of the study for Qwen2.5-7B.
pub const LARGE: PublishedModel = PublishedModel {
    name: "Qwen2.5-7B",
    tensors: 339,
    plain: PublishedLoad { wall_ms: 8120.0, host_mb: 252.0 },
    nixl: PublishedLoad { wall_ms: 5700.0, host_mb: 1287.0 },
};
/// The overhead per tensor in milliseconds, as published: register, wait, clean up.
const PER_TENSOR_MS: [f64; 3] = [0.6, 1.8, 0.3];
/// The share of overhead in percent, as published: of the small model, and of the large one.
const CLAIMED_SHARES: [f64; 2] = [73.0, 13.0];

/// The overhead of all tensors of a model in milliseconds, computed from the published overhead per tensor.
#[must_use]
pub fn overhead_ms(model: &PublishedModel) -> f64 {
    PER_TENSOR_MS.iter().sum::<f64>() * model.tensors as f64
}

/// This overhead as a share of the load time, in percent.
#[must_use]
pub fn overhead_percent(model: &PublishedModel) -> f64 {
    100.0 * overhead_ms(model) / model.nixl.wall_ms
}

/// Size of a KV cache in bytes: two vectors per layer, head and token.
#[must_use]
pub const fn kv_bytes(layers: u64, kv_heads: u64, head_size: u64, element_bytes: u64, tokens: u64) -> u64 {
    2 * layers * kv_heads * head_size * element_bytes * tokens
}

/// The time of an engine in a recording with hot loads.
fn hot_ns(model_loads: &ModelLoads, engine: &Engine) -> Option<u64> {
    model_loads.load_in(engine, CacheState::Hot).map(|load| load.wall_ns)
}

/// `NIXL 612 ms and mmap 238 ms`, from the recording.
fn pair(model_loads: &ModelLoads, engine: &Engine, name: &str) -> String {
    let time = |engine| hot_ns(model_loads, engine).map_or_else(|| "?".to_owned(), units::duration);
    format!("{name} {} and mmap {}", time(engine), time(&Engine::Mmap))
}

/// The step about NIXL with one transfer per tensor.
pub(crate) fn nixl(lesson: &Lesson) -> Vec<String> {
    let factor = |model: &PublishedModel| model.nixl.wall_ms / model.plain.wall_ms;
    let times = |model: &PublishedModel| {
        format!("{}: {:.2} s instead of {:.2} s", model.name, model.nixl.wall_ms / 1e3, model.plain.wall_ms / 1e3)
    };
    let engine = Engine::Nixl(NixlPlugin::Gds);
    vec![
        format!(
            "Mini-GDS (2026) loaded with NIXL, tensor by tensor. {}, {:.2} times as long. {}, {:.2} times as fast.",
            times(&SMALL),
            factor(&SMALL),
            times(&LARGE),
            1.0 / factor(&LARGE)
        ),
        format!(
            "Recorded here, hot, compat mode: {}; large model {}.",
            pair(&lesson.small, &engine, "NIXL"),
            pair(&lesson.large_usual, &engine, "NIXL")
        ),
        "mmap represents the study's Hugging Face loader, without Python and building the model."
            .to_owned(),
        "The large model was faster with NIXL: each overhead is for ten times the bytes, and mmap copies in one thread. Elsewhere mmap won: 2.01 s, NIXL 2.52 s."
            .to_owned(),
        "--set one_transfer=1 registers once, which the study tried. In compat mode it makes several transfers.".to_owned(),
    ]
}

/// The step about the memory that a registration pins in compat mode.
pub(crate) fn registration(lesson: &Lesson) -> Vec<String> {
    let each = Engine::GdsPerTensor;
    let overhead = |model_loads: &ModelLoads| {
        let load = model_loads.load_in(&each, CacheState::Hot);
        load.map_or_else(
            || "?".to_owned(),
            |load| units::duration(load.phases.get(Phase::RegisterBuffer) + load.phases.get(Phase::Deregister)),
        )
    };
    let recorded = |model_loads: &ModelLoads| {
        let time = |engine| hot_ns(model_loads, engine).map_or_else(|| "?".to_owned(), units::duration);
        format!("{each} {} (registrations {}), mmap {}", time(&each), overhead(model_loads), time(&Engine::Mmap))
    };
    vec![
        "In compat mode each registration also pins host memory. Its size is max_direct_io_size_kb, usually 16384, and does not depend on the tensor.".to_owned(),
        format!(
            "Recorded, hot. With 16384: {}. With 1024: {}. With 1024, both take almost the same time.",
            recorded(&lesson.small),
            recorded(&lesson.small_1024)
        ),
        "So one setting removes most of the overhead: --set max_direct_io_size_kb=1024. This was not measured on a direct route."
            .to_owned(),
    ]
}

/// The step about host memory and compat mode.
pub(crate) fn memory_and_route() -> Vec<String> {
    vec![
        format!(
            "The study counted {} MB more host memory for GDS and {} MB for the plain loader. But a mapping is file memory, which the kernel can drop. It cannot drop pinned memory. Measured for 14.2 GiB: NIXL 1.4 GiB, a mapping 14.3 GiB of files.",
            SMALL.nixl.host_mb, SMALL.plain.host_mb
        ),
        "All runs used compat mode, in the study and here: cuFile copies, and no error shows it. `gds-top check DIR` and the column 'route' show it."
            .to_owned(),
        "Less host memory and CPU time are claims about a direct route. They were not measured.".to_owned(),
    ]
}

/// The step that checks the arithmetic of the study.
pub(crate) fn arithmetic() -> Vec<String> {
    let kv = kv_bytes(80, 8, 128, 2, 2048);
    vec![
        format!(
            "{} tensors with {:.1} ms each take {:.0} ms: {:.0} % of {:.0} ms, not {:.0} % as in the study (large model: {:.0} %, not {:.0} %). The wait of 1.8 ms moves bytes; without it {:.0} ms remain.",
            SMALL.tensors,
            PER_TENSOR_MS.iter().sum::<f64>(),
            overhead_ms(&SMALL),
            overhead_percent(&SMALL),
            SMALL.nixl.wall_ms,
            CLAIMED_SHARES[0],
            overhead_percent(&LARGE),
            CLAIMED_SHARES[1],
            (PER_TENSOR_MS[0] + PER_TENSOR_MS[2]) * SMALL.tensors as f64
        ),
        format!(
            "A guide reads 64 GB of KV cache for 2048 tokens of a 70B model. It is 2 × 80 layers × 8 heads × 128 × 2 bytes × 2048 = {}: {} at 7 GB/s, not 2 to 5 s.",
            units::bytes(kv),
            units::duration(kv * 1_000_000_000 / 7_000_000_000)
        ),
        "Check such figures first: bytes over time, against the disk.".to_owned(),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::units::MIB;

    #[test]
    fn the_published_overhead_is_a_smaller_share() {
        assert!((overhead_ms(&SMALL) - 839.7).abs() < 0.1);
        assert_eq!(overhead_percent(&SMALL).round(), 28.0);
        assert_eq!(overhead_percent(&LARGE).round(), 16.0);
        assert_eq!(kv_bytes(80, 8, 128, 2, 2048), 640 * MIB);
        assert!(
            arithmetic()[0].contains("28 %")
                && arithmetic()[0].contains("16 %, not 13 %")
                && arithmetic()[1].contains("640 MiB"),
            "{:?}",
            arithmetic()
        );
    }

    #[test]
    fn the_steps_name_the_recorded_times_side_by_side() {
        let lesson = Lesson::load().unwrap();
        let said = registration(&lesson).join(" ");
        assert!(said.contains("gds-per-tensor 245 ms"), "{said}");
        let said = nixl(&lesson).join(" ");
        assert!(said.contains("NIXL 612 ms and mmap 238 ms") && !said.contains('?'), "{said}");
    }

    #[test]
    fn the_ratios_are_the_published_ones() {
        assert_eq!((SMALL.nixl.wall_ms / SMALL.plain.wall_ms * 100.0).round(), 246.0);
        assert_eq!((LARGE.plain.wall_ms / LARGE.nixl.wall_ms * 100.0).round(), 142.0);
        assert_eq!((SMALL.nixl.host_mb / SMALL.plain.host_mb * 10.0).round(), 51.0);
    }
}
