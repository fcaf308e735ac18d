//! The command `check`: checks only, with the verdict for each path.

use super::args::{Export, OutputArgs};
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, Ran, fail, note, print_coloured, print_json};
use super::targets;
use super::terminal::{columns, headless_options};
use super::view::{examined, live_view, open_view};
use crate::checks;
use crate::core::{Event, EventBody, Route, Verdict};
use crate::machine::{self, Root};
use crate::present;
use crate::report;
use crate::session::live::GpuChoice;
use crate::session::{self, State};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The minimum that `--require` sets for each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Level {
    /// cuFile reads work, possibly through host memory.
    Compat,
    /// The route is direct.
    Direct,
    /// The route is direct and proven by a read.
    Proven,
}

impl Level {
    fn is_met(self, verdict: &Verdict) -> bool {
        // Without a GPU, no route reaches GPU memory.
        let works = verdict.route != Route::None && !present::verdict::no_gpu(verdict);
        match self {
            Self::Compat => works,
            Self::Direct => works && verdict.route.is_direct(),
            Self::Proven => works && verdict.route.is_direct() && verdict.proven,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Compat => "compat",
            Self::Direct => "direct",
            Self::Proven => "proven",
        }
    }
}

/// The request of the user: the level of `--require`, and the GPU of `--target`.
pub(super) struct Wanted<'a> {
    pub(super) level: Option<Level>,
    pub(super) target: Option<&'a str>,
}

/// The GPU that the checks examine; `None` for all. The inner error is the sentence for a GPU that does not exist.
fn gpu(view: &Root, choice: &GpuChoice) -> Result<Result<Option<String>, String>, String> {
    let gpus = machine::machine(view).gpus;
    let found = match choice {
        GpuChoice::All => gpus.first().map(|_| None),
        GpuChoice::Index(index) => gpus.iter().find(|gpu| gpu.index == *index).map(|gpu| Some(gpu.index.to_string())),
        GpuChoice::Uuid(uuid) => {
            gpus.iter().find(|gpu| gpu.uuid.eq_ignore_ascii_case(uuid)).map(|gpu| Some(gpu.uuid.clone()))
        }
        GpuChoice::Auto | GpuChoice::Host | GpuChoice::Several(_) => {
            return Err(
                "check examines routes into GPU memory: pass the index or UUID of one GPU, or 'all', to --target"
                    .to_owned(),
            );
        }
    };
    let names: Vec<String> = gpus.iter().map(|gpu| format!("{} ({}, {})", gpu.index, gpu.name, gpu.uuid)).collect();
    let asked = match choice {
        GpuChoice::Index(index) => format!("there is no GPU {index}"),
        GpuChoice::Uuid(uuid) => format!("there is no GPU {uuid}"),
        _ => "there is no GPU".to_owned(),
    };
    let have = if names.is_empty() {
        "this machine has none".to_owned()
    } else {
        format!("this machine has {}", names.join(" and "))
    };
    Ok(found.ok_or_else(|| format!("{asked}: {have}; leave out --target to check without a GPU")))
}

/// Whether all verdicts meet the level. The others are printed on standard error.
fn meets(level: Level, verdicts: &[Verdict]) -> bool {
    let unmet: Vec<&Verdict> = verdicts.iter().filter(|verdict| !level.is_met(verdict)).collect();
    if verdicts.is_empty() {
        note(&present::verdict::unmet(level.name(), None));
    }
    unmet.iter().for_each(|verdict| note(&present::verdict::unmet(level.name(), Some(verdict))));
    unmet.is_empty() && !verdicts.is_empty()
}

/// The paths, or the working directory if there are none.
pub(super) fn or_here(paths: &[PathBuf]) -> Vec<PathBuf> {
    if paths.is_empty() { vec![PathBuf::from(".")] } else { paths.to_vec() }
}

/// Runs the checks and prints their findings. The exit status is 1 if cuFile reads cannot work for a path and GPU.
///
/// If `probe` is set and the machine is live, real reads prove the verdicts.
pub(super) fn run(
    paths: &[PathBuf],
    root: Option<&Path>,
    probe: bool,
    wanted: &Wanted<'_>,
    export: Option<Export>,
    output: &OutputArgs,
) -> Ran {
    let view = match root {
        // cuFileDriverOpen initialises CUDA, so it is part of the proof.
        None => live_view(probe)?,
        Some(_) => open_view(root)?,
    };
    // The report and the plans of fixes read what the checks have read.
    let _kept = view.keep_reads();
    let paths = examined(&view, paths)?;
    let began = Instant::now();
    let mut first = None;
    let gpu = match wanted.target.map(targets::parse).transpose()? {
        None => None,
        Some(choice) => match gpu(&view, &choice)? {
            Ok(gpu) => gpu,
            Err(missing) => return Ok(fail(COULD_NOT_RUN, &missing)),
        },
    };
    let mut found = checks::run(&view, &paths, gpu.as_deref(), &mut |_| {
        first.get_or_insert_with(|| began.elapsed());
    });
    if output.verbose {
        say_timings(&view, first, began.elapsed());
    }
    if probe
        && view.is_live()
        && found.has_gpu
        && let Ok(exe) = std::env::current_exe()
    {
        for verdict in session::live::prove(&exe, &found) {
            found.take_proven(verdict);
        }
    }
    super::fix::list_open(&found, root);
    let status = if found.has_gpu && found.blocks_route_in_use() { BAD_ANSWER } else { FINE };
    let is_met = wanted.level.is_none_or(|level| meets(level, &found.verdicts));
    let status = if is_met { status } else { BAD_ANSWER };
    let mut state = as_state(&view, &found);
    if output.json || export.is_some() {
        for plan in crate::fixes::plan(&view, &found) {
            state.reduce(&Event { at_ns: 0, body: EventBody::FixPlanned { plan } });
        }
    }
    if let Some((folder, formats)) = export
        && let Err(error) = report::export(&state, &folder, &formats)
    {
        return Err(error.to_string());
    }
    let printed = if output.json {
        print_json(&report::json(&state))
    } else {
        let text = if output.quiet { report::verdicts } else { report::findings };
        let colour = headless_options(output, None).colour;
        print_coloured(&text(&found.findings, &found.verdicts, usize::from(columns()), colour), colour)
    };
    Ok(printed.max(status))
}

/// Prints the duration of each source on standard error.
fn say_timings(view: &Root, first: Option<Duration>, all: Duration) {
    let ms = |took: Duration| took.as_secs_f64() * 1000.0;
    let mut timings = view.timings();
    timings.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    for (source, took) in timings {
        note(&format!("{:>8.1} ms  {source}", ms(took)));
    }
    if let Some(first) = first {
        note(&format!("{:>8.1} ms  until the first finding", ms(first)));
    }
    note(&format!("{:>8.1} ms  all checks; the sources were read at the same time", ms(all)));
}

/// The findings as a session state, from which the usual report is written.
pub(super) fn as_state(view: &Root, found: &checks::Report) -> State {
    let mut state = State::default();
    let bodies = [session::live::started(), EventBody::MachineSeen { machine: checks::machine(view, &found.paths) }]
        .into_iter()
        .chain(found.findings.iter().map(|finding| EventBody::CheckDone { finding: finding.clone() }))
        .chain(found.verdicts.iter().map(|verdict| EventBody::VerdictReached { verdict: verdict.clone() }))
        .chain([EventBody::ChecksDone { took_ns: found.took_ns }, EventBody::SessionEnded { interrupted: false }]);
    for body in bodies {
        state.reduce(&Event { at_ns: 0, body });
    }
    state
}
