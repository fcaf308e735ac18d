//! `inspect --predict`: what each engine would take for a model of this shape, from loads that were measured and recorded.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, BAD_CALL, fail, print, print_json};
use crate::analysis::{self, Prediction, Shape};
use crate::domain::{Machine, units};
use crate::engines;
use crate::report::{self, Timings};
use crate::session::{State, recording, shipped};
use crate::weights::{self, Profile, dtype};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Threads, slots and bytes of a slot, by the bytes of the model and the CPUs.
type Rule = fn(u64, usize) -> (u64, u64, u64);

/// The runs of an engine in one recording or report.
struct Source {
    timings: Timings,
    /// Name of the recording or report.
    from: String,
    /// Memory of the GPU that it was loaded onto, in bytes; `None` where that is not known, and for host memory.
    gpu_bytes: Option<u64>,
}

impl Source {
    fn measured_bytes(&self) -> u64 {
        self.timings.runs.first().map_or(0, |run| run.bytes)
    }

    /// What the engine would pin for a model of so many bytes, where its settings are its own choice by the size of the model.
    fn pinned_for(&self, bytes: u64) -> Option<u64> {
        let knob = |name| self.timings.knobs.get(name).copied();
        let used = (knob("threads")?, knob("slots")?, knob("block_bytes")?);
        let cpus = self.timings.cpus? as usize;
        let rules: [Rule; 2] = [engines::pread_settings, earlier_settings];
        let rule = rules.into_iter().find(|rule| rule(self.measured_bytes(), cpus) == used)?;
        let (threads, slots, block_bytes) = rule(bytes, cpus);
        Some(threads * slots * block_bytes)
    }

    fn predict(&self, sizes_bytes: &[u64]) -> Option<Prediction> {
        let bytes = sizes_bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let shape = Shape { sizes_bytes: sizes_bytes.to_vec(), pinned_bytes: self.pinned_for(bytes) };
        analysis::predict(&self.timings.runs, &shape)
    }
}

/// What `pread` took for a model where nothing was set when the first recordings were made: they are predictions of a load with these.
fn earlier_settings(model_bytes: u64, cpus: usize) -> (u64, u64, u64) {
    let cpus = cpus.max(1) as u64;
    match model_bytes {
        more if more > 4 * units::GIB => (cpus.min(16), 2, 4 * units::MIB),
        more if more > 512 * units::MIB => (cpus.min(8), 4, 2 * units::MIB),
        _ => engines::pread_settings(model_bytes, cpus as usize),
    }
}

/// The model whose load is to be predicted.
struct Model {
    name: String,
    sizes_bytes: Vec<u64>,
}

impl Model {
    fn bytes(&self) -> u64 {
        self.sizes_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Prints the predictions.
pub(super) fn run(model: &str, from: &[PathBuf], output: &OutputArgs) -> u8 {
    let model = match named(model) {
        Ok(model) => model,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let sources = match sources(from) {
        Ok(sources) => sources,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let mut told = predictions(&model, &sources);
    if told.is_empty() {
        return fail(
            BAD_ANSWER,
            "nothing can be predicted: the model has no bytes, or no load in there ended well with a timeline; record one with 'gds-top load MODEL \
             --record FILE'",
        );
    }
    told.sort_by_key(|(source, prediction)| (source.timings.cache, prediction.wall_ns));
    if output.json {
        let list: Vec<_> = told.iter().map(|(source, prediction)| to_json(&model, source, prediction)).collect();
        return print_json(&json!(list));
    }
    print(to_text(&model, &told, from.is_empty()).as_bytes())
}

/// A profile by name needs no files.
fn named(model: &str) -> Result<Model, String> {
    if !Path::new(model).exists() && Profile::names().contains(&model) {
        let profile = Profile::named(model).map_err(|e| e.to_string())?;
        let sizes = profile.expand().iter().map(|t| dtype::tensor_bytes(&t.dtype, &t.shape)).collect::<Result<_, _>>();
        let sizes_bytes = sizes.map_err(|problem| format!("the profile '{model}' is damaged: {problem:?}"))?;
        return Ok(Model { name: profile.title, sizes_bytes });
    }
    let opened = weights::open(model).map_err(|e| e.to_string())?;
    Ok(Model { name: opened.name.clone(), sizes_bytes: opened.tensors.iter().map(|t| t.bytes).collect() })
}

fn sources(from: &[PathBuf]) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    let mut add = |name: &str, (timings, machine): Measured| {
        sources.extend(timings.into_iter().map(|timings| {
            let gpu_bytes = machine.as_ref().and_then(|machine| gpu_bytes(machine, &timings.target));
            Source { timings, from: name.to_owned(), gpu_bytes }
        }));
    };
    if from.is_empty() {
        for shipped in [shipped::SMALL, shipped::LARGE] {
            add(shipped.name, measured(&shipped.state().map_err(|e| e.to_string())?));
        }
        return Ok(sources);
    }
    for path in from {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        add(&name, if name.ends_with(".json") { reported(path)? } else { recorded(path)? });
    }
    Ok(sources)
}

/// What was measured, and on which machine.
type Measured = (Vec<Timings>, Option<Machine>);

fn measured(state: &State) -> Measured {
    (report::timings(state), state.machine.clone())
}

/// Memory of the machine's smallest GPU of that name.
fn gpu_bytes(machine: &Machine, name: &str) -> Option<u64> {
    machine.gpus.iter().filter(|gpu| gpu.name == name).filter_map(|gpu| gpu.memory_total_bytes).min()
}

fn recorded(path: &Path) -> Result<Measured, String> {
    let mut state = State::default();
    for event in recording::read(path).map_err(|e| e.to_string())? {
        state.reduce(&event.map_err(|e| e.to_string())?);
    }
    Ok(measured(&state))
}

/// What is needed of report.json.
#[derive(Deserialize)]
struct Report {
    analysis: Analysis,
    #[serde(default)]
    machine: Option<Machine>,
}

#[derive(Deserialize)]
struct Analysis {
    timings: Vec<Timings>,
}

fn reported(path: &Path) -> Result<Measured, String> {
    // A report of a large model is some megabytes; more than this is something else.
    const MOST_BYTES: u64 = 1 << 30;
    let bad = |what: String| format!("{} is no report of gds-top: {what}", path.display());
    let length = std::fs::metadata(path).map_err(|e| format!("reading {} failed: {e}", path.display()))?;
    if !length.is_file() || length.len() > MOST_BYTES {
        return Err(bad("it is no regular file of at most 1 GiB".to_owned()));
    }
    let text = std::fs::read(path).map_err(|e| format!("reading {} failed: {e}", path.display()))?;
    let report: Report = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    Ok((report.analysis.timings, report.machine))
}

/// One prediction for each engine and cache state, from the measured model nearest in size: engines set themselves by the size of the model.
fn predictions<'a>(model: &Model, sources: &'a [Source]) -> Vec<(&'a Source, Prediction)> {
    let distance = |source: &Source| (model.bytes().max(1) as f64 / source.measured_bytes().max(1) as f64).ln().abs();
    let mut nearest: Vec<&Source> = Vec::new();
    for source in sources {
        let same =
            |s: &&mut &Source| s.timings.engine == source.timings.engine && s.timings.cache == source.timings.cache;
        match nearest.iter_mut().find(same) {
            Some(known) if distance(source) < distance(known) => *known = source,
            Some(_) => {}
            None => nearest.push(source),
        }
    }
    nearest.into_iter().filter_map(|source| Some((source, source.predict(&model.sizes_bytes)?))).collect()
}

fn to_json(model: &Model, source: &Source, prediction: &Prediction) -> serde_json::Value {
    json!({
        "model": model.name, "tensors": model.sizes_bytes.len(), "bytes": model.bytes(),
        "engine": source.timings.engine, "cache": source.timings.cache, "wall_ns": prediction.wall_ns, "low_ns": prediction.low_ns,
        "high_ns": prediction.high_ns, "overhead_ns": prediction.overhead_ns, "extrapolated": prediction.extrapolated,
        "untold": prediction.untold, "repeats_apart_fraction": prediction.repeats_apart,
        "gpu_memory_bytes": source.gpu_bytes, "fits_one_gpu": source.gpu_bytes.map(|has| model.bytes() <= has),
        "based_on": {
            "source": source.from, "model": source.timings.model, "bytes": source.measured_bytes(),
            "target": source.timings.target, "runs": source.timings.runs.len(),
        },
    })
}

fn to_text(model: &Model, told: &[(&Source, Prediction)], shipped: bool) -> String {
    let between = |p: &Prediction| format!("{} and {}", units::duration(p.low_ns), units::duration(p.high_ns));
    let wide = told.iter().map(|(_, p)| between(p).chars().count()).max().unwrap_or(0).max("likely between".len());
    let mut out = format!(
        "{}: {} tensors, {}\n\n{:<5} {:<15} {:>12}  {:>wide$} {:>10}  {:>13}  {}\n",
        model.name,
        units::count(model.sizes_bytes.len() as u64),
        units::bytes(model.bytes()),
        "cache",
        "engine",
        "expected",
        "likely between",
        "rate",
        "tensors cost",
        "from"
    );
    for (source, p) in told {
        let between = between(p);
        let rate = units::bytes_per_s(model.bytes(), p.wall_ns).map_or_else(String::new, units::rate);
        let marks = [(p.extrapolated, " *"), (p.untold, " †"), (p.repeats_apart.is_some(), " ‡")];
        let mark: String = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect();
        let _ = writeln!(
            out,
            "{:<5} {:<15} {:>12}  {between:>wide$} {rate:>10}  {:>13}  {}{mark}",
            source.timings.cache,
            source.timings.engine,
            units::duration(p.wall_ns),
            units::duration(p.overhead_ns),
            source.timings.model,
        );
    }
    out.push('\n');
    let mut too_small: Vec<(&str, u64)> = told
        .iter()
        .filter_map(|(source, _)| Some((source.timings.target.as_str(), source.gpu_bytes?)))
        .filter(|(_, has)| *has > 0 && model.bytes() > *has)
        .collect();
    too_small.sort_unstable();
    too_small.dedup();
    for (gpu, has) in too_small {
        let _ = writeln!(
            out,
            "It does not fit: the tensors take {} and one {gpu} has {}. It needs {} of them or more ('load MODEL --gpu 0,1,…' cuts it); the times are those of \
             as many bytes by way of one GPU.",
            units::bytes(model.bytes()),
            units::bytes(has),
            model.bytes().div_ceil(has)
        );
    }
    let mut bases: Vec<String> = told
        .iter()
        .map(|(s, _)| {
            let bytes = units::bytes(s.measured_bytes());
            let runs = s.timings.runs.len();
            let runs = if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") };
            let Timings { model, target, .. } = &s.timings;
            format!("{model}: loads of {bytes} onto {target} in {}, {runs} of an engine", s.from)
        })
        .collect();
    bases.sort();
    bases.dedup();
    for base in bases {
        let _ = writeln!(out, "{base}");
    }
    let _ = writeln!(
        out,
        "Each measured run is taken apart into what is paid once, by byte and by tensor, and makes its own prediction; expected is the middle one (of hot mmap, \
         for a model over twice or under half the size, the fastest or the slowest: its pace wanders), and what is likely lies \
         around them as widely as they differ, wider the further the model is from the measured one."
    );
    if told.iter().any(|(_, p)| p.extrapolated) {
        let _ = writeln!(
            out,
            "* far from what was measured: tensors more than twice as large or small, or a model of more than four times the bytes or less than a \
             sixty-fourth"
        );
    }
    if told.iter().any(|(_, p)| p.untold) {
        let _ = writeln!(
            out,
            "† what tensors of some of these sizes cost beside their bytes was seen in the first calls of the measured loads only, where libraries still warm up: \
             the interval spans what that allows, and what is expected is its middle by factors"
        );
    }
    let apart: Vec<String> = told
        .iter()
        .filter_map(|(s, p)| Some((s, p.repeats_apart?)))
        .map(|(s, apart)| format!("{} ({}) {:.0} %", s.timings.engine, s.timings.cache, apart * 100.0))
        .collect();
    if !apart.is_empty() {
        let _ = writeln!(
            out,
            "‡ its measured repeats of one and the same load lie far apart, and no prediction from them can promise to be nearer: {}",
            apart.join(", ")
        );
    }
    if shipped {
        let _ = writeln!(
            out,
            "That is another machine than this one: 'gds-top load MODEL --record FILE' here and '--from FILE' predict for this one."
        );
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod tests {
    use super::*;
    use crate::domain::CacheState;
    use std::sync::OnceLock;

    const PAIRS: [(&str, &str); 3] = [
        ("h200-qwen3-0.6b", "h200-qwen2.5-7b"),
        ("h200-auto-qwen3-0.6b", "h200-auto-qwen2.5-7b"),
        ("h200-full-qwen3-0.6b", "h200-full-qwen2.5-7b"),
    ];

    fn state(name: &str) -> State {
        let mut state = State::default();
        for event in recording::read(Path::new(&format!("assets/recordings/{name}.gdsrec"))).unwrap() {
            state.reduce(&event.unwrap());
        }
        state
    }

    fn of(state: &State) -> Vec<Source> {
        report::timings(state)
            .into_iter()
            .map(|timings| Source { timings, from: String::new(), gpu_bytes: None })
            .collect()
    }

    /// A prediction that a recording of a pair makes of the other's model.
    struct Way {
        engine: String,
        cache: CacheState,
        /// What is expected over what was measured, less one.
        error: f64,
        /// Whether the interval holds what was measured.
        held: bool,
        /// How far the runs that it comes from, and those that it speaks of, lie apart.
        apart: f64,
        /// Error and whether the interval holds, each of the runs that it comes from left out in turn.
        without_one: Vec<(f64, bool)>,
    }

    fn all_ways() -> &'static [Way] {
        static WAYS: OnceLock<Vec<Way>> = OnceLock::new();
        WAYS.get_or_init(|| {
            let mut ways = Vec::new();
            for (small, large) in PAIRS {
                let (small, large) = (state(small), state(large));
                ways.extend(ways_from(&small, &large));
                ways.extend(ways_from(&large, &small));
            }
            ways
        })
    }

    fn ways_from(from: &State, to: &State) -> Vec<Way> {
        let model = to.model.as_ref().unwrap();
        let sizes: Vec<u64> = model.tensors.iter().map(|t| t.bytes).collect();
        let measured = of(to);
        let mut ways = Vec::new();
        for mut source in of(from) {
            let (engine, cache) = (source.timings.engine.clone(), source.timings.cache);
            let same = |s: &&Source| s.timings.engine == engine && s.timings.cache == cache;
            // A recording may have been made in one cache state only.
            let Some(truth) = measured.iter().find(same).map(|s| &s.timings.runs) else { continue };
            let walls: Vec<u64> = truth.iter().map(|run| run.wall_ns).collect();
            let middle = analysis::median_u64(&walls).unwrap();
            let judged = |told: &Prediction| {
                (told.wall_ns as f64 / middle as f64 - 1.0, (told.low_ns..=told.high_ns).contains(&middle))
            };
            let apart = |runs: &[analysis::Timing]| {
                let walls = || runs.iter().map(|run| run.wall_ns as f64);
                walls().fold(0.0, f64::max) / walls().fold(f64::MAX, f64::min) - 1.0
            };
            let apart = apart(&source.timings.runs).max(apart(truth));
            let told = source.predict(&sizes).unwrap();
            let (error, held) = judged(&told);
            let all = source.timings.runs.clone();
            let without_one: Vec<(f64, bool)> = (0..all.len())
                .map(|left_out| {
                    source.timings.runs = all.clone();
                    source.timings.runs.remove(left_out);
                    judged(&source.predict(&sizes).unwrap())
                })
                .collect();
            println!(
                "{:>11} from {:<10} {cache:<4} {engine:<14} {:>9} ({} to {}), measured {:>9}: {:+5.1} %, runs within {:.0} %; without one {}",
                model.name,
                source.timings.model,
                units::duration(told.wall_ns),
                units::duration(told.low_ns),
                units::duration(told.high_ns),
                units::duration(middle),
                error * 100.0,
                apart * 100.0,
                without_one
                    .iter()
                    .map(|(e, held)| format!("{:+.0} %{} ", e * 100.0, if *held { "" } else { " MISSED" }))
                    .collect::<String>(),
            );
            ways.push(Way { engine: engine.to_string(), cache, error, held, apart, without_one });
        }
        ways
    }

    #[test]
    fn hot_each_engine_of_one_model_predicts_the_other_within_15_percent() {
        // What no figure of one recording can tell is how fast the machine was in the other: where runs of the very same load lie more than a fifth
        // apart, the middle one is not known to 15 % itself.
        let hot: Vec<_> = all_ways().iter().filter(|way| way.cache == CacheState::Hot).collect();
        assert_eq!(hot.len(), 36);
        for Way { engine, error, held, apart, .. } in &hot {
            assert!(*held, "{engine}: {error:+.2}");
            assert!(
                error.abs() < 0.15 || (*apart > 0.2 && error.abs() < 0.2),
                "{engine}: {error:+.2}, runs within {apart:.2}"
            );
        }
        let missed = hot.iter().filter(|way| way.error.abs() >= 0.15).count();
        assert!(missed <= 3, "{missed} of {}", hot.len());
    }

    #[test]
    fn cold_the_interval_holds_what_was_measured() {
        for Way { engine, cache, error, held, .. } in all_ways() {
            assert!(held, "{engine} {cache}: {error:+.2}");
        }
    }

    #[test]
    fn with_any_run_left_out_the_interval_holds_what_was_measured() {
        let hot = all_ways().iter().filter(|way| way.cache == CacheState::Hot);
        for Way { engine, without_one, .. } in hot {
            for (error, held) in without_one {
                assert!(*held && error.abs() < 0.45, "{engine}: {error:+.2}");
            }
        }
    }

    #[test]
    fn a_report_predicts_what_its_recording_does() {
        let state = state("h200-qwen3-0.6b");
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), report::json(&state).to_string()).unwrap();
        let (from_report, from_recording) = (sources(&[file.path().to_owned()]).unwrap(), of(&state));
        assert_eq!(from_report.len(), from_recording.len());
        let large = named("qwen2.5-7b").unwrap();
        for (one, other) in from_report.iter().zip(&from_recording) {
            assert_eq!(one.predict(&large.sizes_bytes), other.predict(&large.sizes_bytes), "{}", one.timings.engine);
        }
    }

    #[test]
    fn a_profile_is_predicted_from_the_nearest_measured_size() {
        let all = sources(&[]).unwrap();
        let (large, small) = (named("llama-3.1-70b").unwrap(), named("qwen3-0.6b").unwrap());
        assert!(predictions(&large, &all).iter().all(|(s, _)| s.from.contains("7b")));
        assert!(predictions(&small, &all).iter().all(|(s, _)| s.from.contains("0.6b")));
        assert!(predictions(&large, &all).iter().all(|(_, p)| p.low_ns < p.wall_ns && p.wall_ns < p.high_ns));
        let text = to_text(&large, &predictions(&large, &all), true);
        assert!(
            text.contains("gds-per-tensor") && text.contains("NVIDIA H200") && text.contains("--from FILE"),
            "{text}"
        );
    }

    #[test]
    fn a_model_that_no_single_gpu_holds_is_said_not_to_fit() {
        let mut all = sources(&[]).unwrap();
        let (large, small) = (named("llama-3.1-405b").unwrap(), named("qwen3-0.6b").unwrap());
        assert!(all.iter().all(|source| source.gpu_bytes.is_some_and(|bytes| bytes > 100 << 30)));
        let text = to_text(&large, &predictions(&large, &all), true);
        assert!(text.contains("It does not fit") && text.contains("It needs 6 of them"), "{text}");
        let told = to_json(&large, &all[0], &predictions(&large, &all)[0].1);
        assert_eq!(told["fits_one_gpu"], false);
        assert!(!to_text(&small, &predictions(&small, &all), true).contains("does not fit"));
        // What is not known is not said.
        all.iter_mut().for_each(|source| source.gpu_bytes = None);
        assert!(!to_text(&large, &predictions(&large, &all), true).contains("does not fit"));
    }

    #[test]
    fn engines_whose_repeats_lie_apart_are_named_with_how_far() {
        let all = sources(&[]).unwrap();
        let model = named("llama-3.1-8b").unwrap();
        let told = predictions(&model, &all);
        let walls = |s: &Source| s.timings.runs.iter().map(|run| run.wall_ns as f64).collect::<Vec<_>>();
        let text = to_text(&model, &told, true);
        for (source, p) in &told {
            let (low, high) = walls(source).iter().fold((f64::MAX, 0.0_f64), |(l, h), ns| (l.min(*ns), h.max(*ns)));
            assert_eq!(p.repeats_apart.is_some(), high / low > 1.15, "{}", source.timings.engine);
            let words =
                format!("{} ({}) {:.0} %", source.timings.engine, source.timings.cache, (high / low - 1.0) * 100.0);
            assert_eq!(text.contains(&words), p.repeats_apart.is_some(), "{words}\n{text}");
        }
    }

    #[test]
    fn what_is_no_model_and_no_recording_is_said() {
        assert!(named("no-such-model").is_err());
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let said = sources(&[file.path().to_owned()]).err().unwrap();
        assert!(said.contains("no report of gds-top"), "{said}");
    }
}
