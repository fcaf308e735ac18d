//! The figures of the study Mini-GDS, which the lesson explains: the published figures, the arithmetic that checks
//! them, and the measurements for gds-top. All runs of the study and all measurements for gds-top used compat mode.
//! Nothing here was measured on a direct route.

use crate::core::units;

/// The published figures of one loader for one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudyLoad {
    /// Time of the load in milliseconds.
    pub wall_ms: f64,
    /// Additional host memory in MB.
    pub host_mb: f64,
}

/// The published figures of two loaders for one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudyModel {
    /// Name of the model.
    pub name: &'static str,
    /// Number of its tensors.
    pub tensors: u64,
    /// The loader of Hugging Face.
    pub plain: StudyLoad,
    /// NIXL with one transfer per tensor.
    pub nixl: StudyLoad,
}

/// The figures of the study for Qwen3-0.6B.
pub const SMALL: StudyModel = StudyModel {
    name: "Qwen3-0.6B",
    tensors: 311,
    plain: StudyLoad { wall_ms: 1230.0, host_mb: 252.0 },
    nixl: StudyLoad { wall_ms: 3030.0, host_mb: 1287.0 },
};
/// The figures of the study for Qwen2.5-7B.
pub const LARGE: StudyModel = StudyModel {
    name: "Qwen2.5-7B",
    tensors: 339,
    plain: StudyLoad { wall_ms: 8120.0, host_mb: 252.0 },
    nixl: StudyLoad { wall_ms: 5700.0, host_mb: 1287.0 },
};
/// The overhead per tensor in milliseconds, as published: register, wait, clean up.
const PER_TENSOR_MS: [f64; 3] = [0.6, 1.8, 0.3];
/// The share of overhead in percent, as published.
const CLAIMED_SHARE: f64 = 73.0;

/// The overhead of all tensors of a model in milliseconds, computed from the published overhead per tensor.
#[must_use]
pub fn overhead_ms(model: &StudyModel) -> f64 {
    PER_TENSOR_MS.iter().sum::<f64>() * model.tensors as f64
}

/// This overhead as a share of the load time, in percent.
#[must_use]
pub fn overhead_percent(model: &StudyModel) -> f64 {
    100.0 * overhead_ms(model) / model.nixl.wall_ms
}

/// Size of a KV cache in bytes: two vectors per layer, head and token.
#[must_use]
pub const fn kv_bytes(layers: u64, kv_heads: u64, head_size: u64, element_bytes: u64, tokens: u64) -> u64 {
    2 * layers * kv_heads * head_size * element_bytes * tokens
}

/// The sections of the lesson about the study, each with a title and paragraphs.
#[must_use]
pub fn sections() -> [(&'static str, Vec<String>); 4] {
    [
        ("NIXL, tensor by tensor, as a study measured it", nixl()),
        ("Memory that a registration pins", registration()),
        ("Host memory, and compat mode in all runs", memory_and_route()),
        ("The study's arithmetic, checked", arithmetic()),
    ]
}

/// The section about NIXL with one transfer per tensor.
fn nixl() -> Vec<String> {
    let factor = |model: &StudyModel| model.nixl.wall_ms / model.plain.wall_ms;
    vec![
        format!(
            "A study (Mini-GDS, 2026) loaded models with NIXL, tensor by tensor. {}: {:.2} s instead of {:.2} s, {:.2} times as long. {}: {:.2} s instead of {:.2} s, {:.2} times as fast.",
            SMALL.name,
            SMALL.nixl.wall_ms / 1e3,
            SMALL.plain.wall_ms / 1e3,
            factor(&SMALL),
            LARGE.name,
            LARGE.nixl.wall_ms / 1e3,
            LARGE.plain.wall_ms / 1e3,
            1.0 / factor(&LARGE)
        ),
        "Measured for this program on an H200 in compat mode, hot: NIXL 643 ms and mmap 273 ms for the small model, NIXL 2.52 s and mmap 2.01 s for the large one. NIXL was slower for both.".to_owned(),
        "The study's large model won against a loader that reads cold files through the page cache with one thread. The read of the study was cold too, with O_DIRECT. The size of the tensors is only a part of the reason."
            .to_owned(),
        "Try it: gds-top bench MODEL --engine nixl --set one_transfer=1 registers once and reads all tensors in one transfer. The study tried that and did not succeed.".to_owned(),
    ]
}

/// The section about the memory that a registration pins in compat mode.
fn registration() -> Vec<String> {
    vec![
        "In compat mode each registration of GPU memory pins host memory too: max_direct_io_size_kb of it, whatever the size of the tensor. The default is 16 MiB.".to_owned(),
        "Measured on an H200 with libcufile 1.15, hot, three loads each (2026-11-23): 409 ms with 16384 and 280 ms with 1024. Registering and deregistering fell from 231 to 70 ms."
            .to_owned(),
        "So most of the overhead per tensor in this lesson is a setting: gds-top bench MODEL --engine gds-per-tensor --set max_direct_io_size_kb=1024. On a direct route this was not measured.".to_owned(),
    ]
}

/// The section about host memory and compat mode.
fn memory_and_route() -> Vec<String> {
    vec![
        format!(
            "The study counted {} MB more host memory for GDS and {} MB for the plain loader, 5 times as much. A plain loader maps the files, and mapped pages are file memory that the kernel can drop; it cannot drop memory that cuFile pins.",
            SMALL.nixl.host_mb, SMALL.plain.host_mb
        ),
        "Results here show both parts: anonymous and of files. For a model of 14.2 GiB, gds-per-tensor held 319 MiB, NIXL 1.5 GiB, and a mapping 14.3 GiB of files.".to_owned(),
        "All runs used compat mode: nvidia-fs was not loaded, and cuFile then reads with POSIX calls and copies. No error shows this. How to notice: gds-top check DIR, or the column 'route' of a benchmark, which shows cuFile's counters."
            .to_owned(),
    ]
}

/// The section that checks the arithmetic of the study.
fn arithmetic() -> Vec<String> {
    let kv = kv_bytes(80, 8, 128, 2, 2048);
    vec![
        format!(
            "{} tensors at {:.1} ms are {:.0} ms. Of {:.0} ms that is {:.0} %, and not the {:.0} % that the study names. Two thirds of the load were something else.",
            SMALL.tensors,
            PER_TENSOR_MS.iter().sum::<f64>(),
            overhead_ms(&SMALL),
            SMALL.nixl.wall_ms,
            overhead_percent(&SMALL),
            CLAIMED_SHARE
        ),
        format!(
            "The 1.8 ms of waiting per tensor are not overhead either: the bytes move in that time. Without them {:.0} ms remain.",
            (PER_TENSOR_MS[0] + PER_TENSOR_MS[2]) * SMALL.tensors as f64
        ),
        format!(
            "A KV cache of 2048 tokens of a 70B model: 2 vectors × 80 layers × 8 heads × 128 elements × 2 bytes × 2048 = {}, not 64 GB. A guide that reads it in 2 to 5 s has measured something else.",
            units::bytes(kv)
        ),
        format!(
            "Check such figures first: bytes over time against the disk. {} at 7 GB/s take {}.",
            units::bytes(kv),
            units::duration(kv * 1_000_000_000 / 7_000_000_000)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::units::MIB;

    #[test]
    fn the_studys_arithmetic_comes_to_other_figures() {
        assert!((overhead_ms(&SMALL) - 839.7).abs() < 0.1);
        assert_eq!(overhead_percent(&SMALL).round(), 28.0);
        assert_eq!(overhead_percent(&LARGE).round(), 16.0);
        assert_eq!(kv_bytes(80, 8, 128, 2, 2048), 640 * MIB);
        assert!(arithmetic()[0].contains("28 %") && arithmetic()[2].contains("640 MiB"), "{:?}", arithmetic());
    }

    #[test]
    fn the_ratios_are_those_that_the_study_names() {
        assert_eq!((SMALL.nixl.wall_ms / SMALL.plain.wall_ms * 100.0).round(), 246.0);
        assert_eq!((LARGE.plain.wall_ms / LARGE.nixl.wall_ms * 100.0).round(), 142.0);
        assert_eq!((SMALL.nixl.host_mb / SMALL.plain.host_mb * 10.0).round(), 51.0);
    }
}
