//! The text of the steps in the lesson. Every figure in it is computed from the recordings. The last steps are about
//! the study that the lesson explains.

use super::cost::r2;
use super::labels::factor;
use super::lesson::{Lesson, Load, ModelLoads};
use super::published;
use crate::core::units::{bytes, bytes_per_s, count, duration, rate};
use crate::core::{CacheState, Engine, Phase};

/// Number of steps.
pub(crate) const STEPS: usize = 12;

/// The figure of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The paths of the bytes.
    Paths,
    /// A few tensors of the small model, each with a separate read.
    FewTensors,
    /// The complete load of the small model, tensor by tensor, with its phases.
    SmallLoad,
    /// The complete load of the large model.
    LargeLoad,
    /// Size and time of the tensors, with the crossover.
    Crossover,
    /// The load tensor by tensor, compared with the load with one registration.
    Slab,
    /// The reads and their sizes.
    Reads,
    /// A table of all loads of both models.
    Table,
    /// A table of the loads with NIXL: 16384 and 1024 KiB for each registration side by side.
    Pinned,
}

impl Figure {
    /// Whether the figure is animated. Other figures do not change.
    pub(crate) const fn moves(self) -> bool {
        matches!(self, Self::FewTensors | Self::SmallLoad | Self::LargeLoad | Self::Slab | Self::Reads)
    }
}

/// Titles and figures of the steps.
const ABOUT: [(&str, Figure); STEPS] = [
    ("The path of a byte", Figure::Paths),
    ("The overhead of a tensor", Figure::FewTensors),
    ("The overhead times the number of tensors", Figure::SmallLoad),
    ("The overhead with large tensors", Figure::LargeLoad),
    ("The crossover", Figure::Crossover),
    ("Registering once", Figure::Slab),
    ("Coalescing", Figure::Reads),
    ("When to use which engine", Figure::Table),
    ("A study: NIXL, tensor by tensor", Figure::Pinned),
    ("Memory that a registration pins", Figure::Pinned),
    ("Host memory, and compat mode in all runs", Figure::Paths),
    ("The study's arithmetic, checked", Figure::FewTensors),
];

/// The figure of a step, numbered from 0.
pub(crate) fn figure(number: usize) -> Figure {
    ABOUT[number.min(STEPS - 1)].1
}

/// A step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) title: &'static str,
    pub(crate) text: Vec<String>,
    /// Text about the keys, which is left out on paper.
    pub(crate) at_the_keys: Option<&'static str>,
    pub(crate) figure: Figure,
}

/// The step with this number, from 0.
pub(crate) fn step(lesson: &Lesson, number: usize) -> Step {
    let (small, large) = (&lesson.small, &lesson.large);
    let text = match number {
        0 => path(small, large),
        1 => before_first(small),
        2 => times_number(small),
        3 => large_tensors(small, large),
        4 => crossing(small, large),
        5 => once(small),
        6 => coalescing(small),
        7 => when(small, large),
        8 => published::nixl(lesson),
        9 => published::registration(lesson),
        10 => published::memory_and_route(),
        _ => published::arithmetic(),
    };
    let (title, figure) = ABOUT[number.min(STEPS - 1)];
    let at_the_keys = match number {
        0 => Some("Environment (key 1) shows which path this machine uses."),
        2 => Some("Move the sliders of the simulation: fewer, larger tensors or a cheaper registration both help."),
        _ => None,
    };
    Step { title, text, at_the_keys, figure }
}

fn time(load: &Load) -> String {
    duration(load.wall_ns)
}

/// The share of a load's time in which no bytes moved.
fn share(load: &Load) -> f64 {
    load.overhead_ns() as f64 * 100.0 / load.phases.total_ns().max(1) as f64
}

fn per_tensor(model_loads: &ModelLoads) -> Option<&Load> {
    model_loads.load(&Engine::GdsPerTensor)
}

/// A model with its times tensor by tensor and with mmap; `None` if one of them was not recorded.
fn result(model_loads: &ModelLoads) -> Option<String> {
    let (each, mmap) = (per_tensor(model_loads)?, model_loads.load(&Engine::Mmap)?);
    Some(format!("{} for {} ({}, mmap {})", against(each, mmap), model_loads.model, time(each), time(mmap)))
}

fn against(load: &Load, other: &Load) -> &'static str {
    if load.wall_ns < other.wall_ns { "faster" } else { "slower" }
}

fn path(small: &ModelLoads, large: &ModelLoads) -> Vec<String> {
    let mut text = Vec::new();
    if let (Some(one), Some(other)) = (result(small), result(large)) {
        text.push(format!(
            "A loader that read one tensor after another with cuFile, the library of GPUDirect Storage (GDS), was {one}, and {other}. This lesson shows why."
        ));
    }
    text.push(
        "mmap and pread read through the page cache, host memory in which the kernel keeps files, and copy to the GPU. Direct I/O bypasses the page cache. \
         GDS bypasses host memory, if hardware, kernel and file system allow it."
            .to_owned(),
    );
    if [small, large].into_iter().all(|model_loads| per_tensor(model_loads).is_some_and(|load| load.compat)) {
        text.push(
            "Here they did not: cuFile's counters show that all bytes went through host memory (compat mode). Neither result is about a direct route."
                .to_owned(),
        );
    }
    text
}

fn before_first(small: &ModelLoads) -> Vec<String> {
    let Some(load) = per_tensor(small) else { return missing() };
    let n = small.tensors.max(1);
    let of = |phase: Phase| duration(load.phases.get(phase) / n);
    let mut text = vec![
        "A model file contains tensors, its arrays of weights. Before cuFile can read a tensor into GPU memory, that memory must be registered: \
         pinned, so that it stays where it is, and mapped for the device. A simple loader does this for every tensor, and undoes it after the read."
            .to_owned(),
        format!(
            "In this load of {} a tensor spent {} on registering, {} on its bytes and {} on deregistering, on average.",
            small.model,
            of(Phase::RegisterBuffer),
            of(Phase::Transfer),
            of(Phase::Deregister)
        ),
    ];
    if let Some(cost) = &load.cost {
        text.push(format!(
            "A line through all {} tensors shows the same: {} per tensor, and its bytes at {} (R² {}; with 1, every tensor is on the line).",
            count(small.tensors),
            duration(cost.fit.overhead_ns.max(0.0) as u64),
            rate(cost.fit.bytes_per_s),
            r2(cost.fit.r2)
        ));
    }
    text
}

fn times_number(small: &ModelLoads) -> Vec<String> {
    let Some(load) = per_tensor(small) else { return missing() };
    let mut text = vec![format!(
        "{} has {} tensors, most of them small: {} on average. Their overhead adds up to {} of {}: in {:.0} % of the load no bytes move.",
        small.model,
        count(small.tensors),
        bytes(small.mean_bytes()),
        duration(load.overhead_ns()),
        time(load),
        share(load)
    )];
    if let Some(mmap) = small.load(&Engine::Mmap) {
        text.push(format!(
            "mmap registers nothing. It needed {} for the same bytes from the page cache, so cuFile was {}.",
            time(mmap),
            against(load, mmap)
        ));
    }
    text
}

fn large_tensors(small: &ModelLoads, large: &ModelLoads) -> Vec<String> {
    let (Some(few), Some(many)) = (per_tensor(small), per_tensor(large)) else { return missing() };
    let mut text = vec![format!(
        "{} has nearly as many tensors, {}, but they are {} on average. The overhead of a tensor is {}, compared with {} for {}, but it has {} as many bytes: in {:.0} % of the load no bytes move, compared with {:.0} %.",
        large.model,
        count(large.tensors),
        bytes(large.mean_bytes()),
        duration(many.overhead_ns() / large.tensors.max(1)),
        duration(few.overhead_ns() / small.tensors.max(1)),
        small.model,
        factor(large.mean_bytes() as f64 / small.mean_bytes().max(1) as f64),
        share(many),
        share(few)
    )];
    if let Some(mmap) = large.load(&Engine::Mmap) {
        text.push(format!(
            "In the rest of the time cuFile moves {}, and mmap's copy {}. With large tensors this rate decides: {} instead of {}, so cuFile was {}.",
            moving(large, many),
            moving(large, mmap),
            time(many),
            time(mmap),
            against(many, mmap)
        ));
    }
    text.push(
        "A benchmark with one large file does not show the overhead, but a model with many small tensors does."
            .to_owned(),
    );
    text
}

/// The rate of a load with one slot while its bytes move.
fn moving(model_loads: &ModelLoads, load: &Load) -> String {
    let moving_ns = load.phases.total_ns().saturating_sub(load.overhead_ns());
    bytes_per_s(model_loads.bytes, moving_ns).map_or_else(|| "?".to_owned(), rate)
}

fn crossing(small: &ModelLoads, large: &ModelLoads) -> Vec<String> {
    let mut text = vec![
        "Each dot is a tensor: its size, and its part of the load time. Each line is a fit, t = t₀ + bytes / rate. The flat part on the left is t₀, the \
         overhead of a tensor; at the size where lines cross, neither method is better."
            .to_owned(),
    ];
    for model_loads in [small, large] {
        text.push(match model_loads.crossover_with_mmap() {
            Some(size) => format!(
                "For {}, a separate cuFile read per tensor is as fast as mmap at {} per tensor.",
                model_loads.model,
                bytes(size)
            ),
            None => format!("For {}, no crossover was found among the sizes of its tensors.", model_loads.model),
        });
    }
    text.push("This is a property of the machine and not of the method. To measure yours, run gds-top learn MODEL and press m.".to_owned());
    text
}

/// The cold loads with a registration per tensor and with one registration. In hot loads the reads of the slab, which
/// are aligned, go to the disk, and those of the tensors to the page cache, so these cannot be compared.
fn both_cold(small: &ModelLoads) -> Option<(&Load, &Load)> {
    small.load_in(&Engine::GdsPerTensor, CacheState::Cold).zip(small.load_in(&Engine::GdsSlab, CacheState::Cold))
}

fn once(small: &ModelLoads) -> Vec<String> {
    let Some((each, slab)) = both_cold(small) else { return missing() };
    let calls = |n: u64| if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) };
    vec![
        format!(
            "A slab is one piece of GPU memory for the complete model (or a few), registered {} instead of {}. The tensors are views into it. The overhead \
             of registering is paid once, whatever the number of tensors.",
            calls(slab.count(Phase::RegisterBuffer)),
            calls(each.count(Phase::RegisterBuffer))
        ),
        format!(
            "The same file, cold, with the same library, one thread and O_DIRECT: {} instead of {}, {} as fast. The reads are also larger, see the next step.",
            time(slab),
            time(each),
            factor(each.wall_ns as f64 / slab.wall_ns.max(1) as f64)
        ),
    ]
}

fn coalescing(small: &ModelLoads) -> Vec<String> {
    let Some((each, slab)) = both_cold(small) else { return missing() };
    let reads = |load: &Load| {
        let sizes = || load.spans.iter().filter(|s| s.phase == Phase::Transfer && s.bytes > 0).map(|s| s.bytes);
        let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        (count(load.count(Phase::Transfer)), bytes(least), bytes(most))
    };
    let ((many, least, most), (few, _, block)) = (reads(each), reads(slab));
    vec![
        format!(
            "The tensors in a file are contiguous. If the memory is one piece too, the reads need not follow the tensors: {many} reads, from {least} \
             to {most}, became {few} of at most {block}. Small neighbours share one read, large tensors are cut."
        ),
        "Large aligned reads keep the queue of a disk full, need fewer calls, and divide the work evenly among the slots."
            .to_owned(),
    ]
}

fn when(small: &ModelLoads, large: &ModelLoads) -> Vec<String> {
    let mut text = Vec::new();
    for (cache, words) in [(CacheState::Cold, "Cold"), (CacheState::Hot, "Hot")] {
        let best = |model_loads: &ModelLoads| {
            Some((
                model_loads.fastest(cache)?.engine.to_string(),
                model_loads.model.clone(),
                time(model_loads.fastest(cache)?),
            ))
        };
        match (best(small), best(large)) {
            (Some((a, model, took)), Some((b, other, its))) if a == b => {
                text.push(format!("{words}: {a} won for {model} ({took}) and {other} ({its})."));
            }
            (a, b) => {
                text.extend(
                    [a, b]
                        .into_iter()
                        .flatten()
                        .map(|(engine, model, took)| format!("{words}: {engine} won for {model} ({took}).")),
                );
            }
        }
    }
    text.push(
        "If the model is in the page cache, copying from there is hard to beat. If it is on the disk, bypass the page cache and register \
         once. Read tensor by tensor only if you need a few large tensors."
            .to_owned(),
    );
    text.push(
        format!(
            "These are results in compat mode of two machines of one kind, one for each model, and not of a direct route. {} of {} is from step 6, with one thread. To measure yours, run gds-top learn MODEL and press m.",
            Engine::GdsSlab,
            small.model
        ),
    );
    text
}

fn missing() -> Vec<String> {
    vec!["The recording has no such load.".to_owned()]
}
