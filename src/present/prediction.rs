//! The predicted loads of a model: the table and its remarks.

use super::labels::plural;
use super::view::{Table, number, text};
use crate::analysis::{Prediction, Timings};
use crate::core::units;

/// The model whose load is predicted.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The sizes of its tensors in bytes.
    pub sizes_bytes: Vec<u64>,
}

impl Model {
    /// The bytes of all tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sizes_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// The prediction of one engine in one cache state.
#[derive(Clone, Debug)]
pub struct Predicted<'a> {
    /// The expected time.
    pub prediction: Prediction,
    /// The measured runs.
    pub timings: &'a Timings,
    /// The name of the recording or report with these runs.
    pub from: &'a str,
    /// The memory of the target GPU in bytes. `None` if it is unknown, and for host memory.
    pub gpu_bytes: Option<u64>,
    /// Whether the engine would use more threads than were measured, and their ceiling is unknown.
    pub more_threads: bool,
}

impl Predicted<'_> {
    /// The bytes of the measured model.
    #[must_use]
    pub fn measured_bytes(&self) -> u64 {
        self.timings.runs.first().map_or(0, |run| run.bytes)
    }
}

/// The table of the predictions.
#[must_use]
pub fn table(model: &Model, all: &[Predicted<'_>]) -> Table {
    let row = |one: &Predicted<'_>| {
        let p = &one.prediction;
        let marks = [(p.extrapolated, " *"), (p.untold, " †"), (p.repeats_apart.is_some(), " ‡")];
        let marks: String = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect();
        vec![
            one.timings.cache.to_string(),
            one.timings.engine.to_string(),
            units::duration(p.wall_ns),
            format!("{} and {}", units::duration(p.low_ns), units::duration(p.high_ns)),
            units::bytes_per_s(model.bytes(), p.wall_ns).map_or_else(String::new, units::rate),
            units::duration(p.overhead_ns),
            format!("{}{marks}", one.timings.model),
        ]
    };
    Table {
        title: model.name.clone(),
        note: format!("{}, {}.", units::plural(model.sizes_bytes.len() as u64, "tensor"), units::bytes(model.bytes())),
        heads: vec![
            text("cache"),
            text("engine"),
            number("expected"),
            number("likely between"),
            number("rate"),
            number("overhead"),
            text("measured with"),
        ],
        rows: all.iter().map(row).collect(),
    }
}

/// Sentences about the predictions. `shipped` is whether they are from the recordings of gds-top.
#[must_use]
pub fn remarks(model: &Model, all: &[Predicted<'_>], shipped: bool) -> Vec<String> {
    let mut remarks = too_small(model, all);
    let mut bases: Vec<String> = all.iter().map(base).collect();
    bases.sort();
    bases.dedup();
    remarks.extend(bases);
    remarks.push("Each measured run is split into fixed time, time per byte and time per tensor, and gives one prediction. The expected time is their median. The rate of hot mmap varies during a load. For a model of more than twice the size, its expected time is the shortest prediction. For less than half the size it is the longest. The interval is wider if the runs differ more, or if the model differs more from the measured one.".to_owned());
    if all.iter().any(|one| one.prediction.extrapolated) {
        remarks.push("* Far outside the measured range: tensors more than twice as large or small, or a model of more than four times or less than a sixty-fourth of the bytes.".to_owned());
    }
    if all.iter().any(|one| one.prediction.untold) {
        remarks.push("† The overhead of some tensor sizes was measured in the first calls only, while libraries warm up. The interval contains all possible times, and the expected time is its geometric mean.".to_owned());
    }
    let apart = all.iter().filter_map(|one| {
        let share = one.prediction.repeats_apart?;
        Some(format!("{} ({}) {}", one.timings.engine, one.timings.cache, units::percent(share)))
    });
    let apart: Vec<String> = apart.collect();
    if !apart.is_empty() {
        remarks.push(format!(
            "‡ The measured repeats of the same load differ, so the prediction cannot be more precise: {}.",
            apart.join(", ")
        ));
    }
    let threads: Vec<String> =
        all.iter().filter(|one| one.more_threads).map(|one| one.timings.engine.to_string()).collect();
    if !threads.is_empty() {
        remarks.push(format!(
            "For this model, {} would use more threads than were measured. The times are for the measured threads; `bench MODEL --ceilings` also measures the ceiling for more.",
            threads.join(", ")
        ));
    }
    if shipped {
        remarks.push("The loads were measured on another machine. For this machine, run `gds-top bench MODEL --record FILE` and predict with `--from FILE`.".to_owned());
    }
    remarks
}

/// A sentence for each recording or report with runs that should be cold and were not.
#[must_use]
pub fn not_cold(sources: &[(String, u64)]) -> Vec<String> {
    let sentence = |(name, runs): &(String, u64)| {
        format!(
            "Left out: {} of {name}, because the page cache had a part of the model before.",
            units::plural(*runs, "cold run")
        )
    };
    sources.iter().map(sentence).collect()
}

/// GPUs on which the model does not fit.
fn too_small(model: &Model, all: &[Predicted<'_>]) -> Vec<String> {
    let gpu = |one: &Predicted<'_>| Some((one.timings.target.to_string(), one.gpu_bytes?));
    let mut gpus: Vec<(String, u64)> =
        all.iter().filter_map(gpu).filter(|(_, has)| *has > 0 && model.bytes() > *has).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let sentence = |(gpu, has): (String, u64)| {
        format!(
            "The model does not fit on one {gpu}: its tensors need {} and the GPU has {}. Use at least {} GPUs (`bench MODEL --target 0,1,…`); the times are for all bytes on one GPU.",
            units::bytes(model.bytes()),
            units::bytes(has),
            model.bytes().div_ceil(has)
        )
    };
    gpus.into_iter().map(sentence).collect()
}

fn base(one: &Predicted<'_>) -> String {
    let Timings { model, target, runs, .. } = one.timings;
    format!(
        "{model}: {} on {target} in {}, {} {} per engine.",
        units::bytes(one.measured_bytes()),
        one.from,
        runs.len(),
        plural(runs.len(), "run")
    )
}
