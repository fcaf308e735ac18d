//! The machine in labelled facts, and the counts of its checks.

use super::analysed::model_bytes;
use super::labels::plural;
use crate::core::{Fallback, FallbackReason, Machine, Status, units};
use crate::session::State;

/// A fact with its label.
pub type Fact = (&'static str, String);

/// The state of libcufile if the machine's summary does not name one, since only the checks look for it; and whether the need for one is met.
#[must_use]
pub fn unnamed_library(state: &State) -> (Option<bool>, &'static str) {
    let results = || state.lanes.iter().filter_map(|lane| lane.result.as_deref());
    if results().any(|run| run.route.is_some()) {
        return (Some(true), "used by runs of this session; its version was not read");
    }
    let missing = |fallback: &Fallback| {
        matches!(fallback.reason, FallbackReason::NoLibrary | FallbackReason::InitFailed) && !fallback.provoked
    };
    let fell_back = results().filter_map(|run| run.workload.as_ref()).any(|w| w.fallbacks.iter().any(missing));
    let in_vain = fell_back || state.unavailable.iter().any(|(engine, _)| engine.uses_cufile());
    match (in_vain, state.checks_took_ns) {
        (true, _) => (Some(false), "not usable in this session; the notes say why"),
        (false, None) => (None, "this session did not look for it"),
        (false, Some(_)) => (Some(false), "not found"),
    }
}

/// The machine and the model, fact by fact; none if the machine was not examined.
#[must_use]
pub fn facts(state: &State) -> Vec<Fact> {
    let Some(machine) = &state.machine else { return Vec::new() };
    let (cpus, memory) = machine.size();
    let mut facts = vec![
        ("Host", format!("{}, {cpus}, {memory}", machine.host)),
        ("System", format!("{}, kernel {}", machine.distribution, machine.kernel)),
    ];
    facts.extend(gpus(machine));
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "not found".to_owned());
    facts.push(("Driver", format!("{}, CUDA {}", or_none(&machine.driver), or_none(&machine.cuda))));
    facts.push((
        "libcufile",
        match &machine.libcufile {
            Some(library) => {
                format!("{} ({})", library.version.as_deref().unwrap_or("version unknown"), library.path)
            }
            None => unnamed_library(state).1.to_owned(),
        },
    ));
    facts.push((
        "nvidia-fs",
        match &machine.nvidia_fs {
            Some(module) => module.version.clone().unwrap_or_else(|| "loaded, version unknown".to_owned()),
            None => "not loaded".to_owned(),
        },
    ));
    facts.extend(machine.container.iter().map(|container| ("Container", container.clone())));
    facts.extend(model(state));
    facts
}

fn gpus(machine: &Machine) -> Vec<Fact> {
    if machine.gpus.is_empty() {
        return vec![("GPU", "none; data goes to host memory".to_owned())];
    }
    let gpu = |gpu: &crate::core::Gpu| {
        let memory = gpu.memory_total_bytes.map_or_else(String::new, |bytes| format!(", {}", units::bytes(bytes)));
        let link = match (gpu.pcie_generation, gpu.pcie_width) {
            (Some((_, generation)), Some((_, width))) => format!(", PCIe {generation}.0 ×{width}"),
            _ => String::new(),
        };
        ("GPU", format!("{} {}{memory}{link}", gpu.index, gpu.name))
    };
    machine.gpus.iter().map(gpu).collect()
}

/// The model: `Qwen3-0.6B: 311 tensors, 1.40 GiB, 1 file`.
#[must_use]
pub fn model(state: &State) -> Option<Fact> {
    let model = state.model.as_ref()?;
    let tensors = units::plural(model.tensors.len() as u64, "tensor");
    let (bytes, files) = (units::bytes(model_bytes(model)), units::plural(model.shards.len() as u64, "file"));
    Some(("Model", format!("{}: {tensors}, {bytes}, {files}", model.name)))
}

/// The number of checks by status: `71 ✔ pass · 6 ▲ warn · 2 ✖ fail`.
#[must_use]
pub fn check_counts(state: &State) -> String {
    let statuses = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na];
    let parts: Vec<String> = statuses
        .iter()
        .filter_map(|status| {
            let count = state.checks.iter().filter(|finding| finding.status == *status).count();
            (count > 0).then(|| format!("{count} {} {}", status.mark(), status.word()))
        })
        .collect();
    parts.join(" · ")
}

/// The extent of the session: `79 checks; 9 of 9 runs finished, all bytes verified.`
#[must_use]
pub fn extent(state: &State) -> String {
    let checks = state.checks.len();
    format!("{checks} {}; {}", plural(checks, "check"), measured(state))
}

/// The measurements of the session: `9 of 9 runs finished, all bytes verified.`
#[must_use]
pub fn measured(state: &State) -> String {
    if let Some(grid) = state.grid.as_ref().filter(|_| state.lanes.is_empty()) {
        return format!("{} of {} cells measured.", grid.done(), grid.plan.cells.len());
    }
    let results = state.lanes.iter().filter_map(|lane| lane.result.as_deref());
    let good: Vec<_> = results.filter(|run| run.is_good()).collect();
    let verified = good.iter().filter(|run| run.verified == Some(true)).count();
    let runs = plural(state.lanes.len(), "run");
    match (good.len(), state.lanes.len()) {
        (_, 0) => "no runs.".to_owned(),
        (0, all) => format!("none of {all} {runs} finished."),
        (n, all) if n == verified => format!("{n} of {all} {runs} finished, all bytes verified."),
        (n, all) => format!("{n} of {all} {runs} finished, {verified} of them verified."),
    }
}
