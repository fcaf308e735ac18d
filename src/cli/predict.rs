//! `inspect --predict`: predicts the time of each engine for a model from recorded loads.

use super::args::OutputArgs;
use super::measured::{Source, sources};
use super::outcome::{BAD_ANSWER, BAD_CALL, fail, print, print_json};
use crate::analysis::{Prediction, Timings};
use crate::core::units;
use crate::models::{self, Profile, dtype};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The model whose load is predicted.
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
            "nothing can be predicted: the model has no bytes, or the recordings have no successful load of a complete model, alone and with a timeline; record one with 'gds-top bench MODEL \
             --record FILE'",
        );
    }
    told.sort_by_key(|(source, prediction)| (source.timings.cache, prediction.wall_ns));
    if output.json {
        let list: Vec<_> = told.iter().map(|(source, prediction)| to_json(&model, source, prediction)).collect();
        return print_json(&json!({ "predictions": list }));
    }
    print(to_text(&model, &told, from.is_empty()).as_bytes())
}

/// The profile is read by its name, so no model files are needed.
fn named(model: &str) -> Result<Model, String> {
    if !Path::new(model).exists() && Profile::names().contains(&model) {
        let profile = Profile::named(model).map_err(|e| e.to_string())?;
        let sizes = profile.expand().iter().map(|t| dtype::tensor_bytes(&t.dtype, &t.shape)).collect::<Result<_, _>>();
        let sizes_bytes = sizes.map_err(|problem| format!("the profile '{model}' is damaged: {problem:?}"))?;
        return Ok(Model { name: profile.title, sizes_bytes });
    }
    let opened = models::open(model).map_err(|e| e.to_string())?;
    Ok(Model { name: opened.name.clone(), sizes_bytes: opened.tensors.iter().map(|t| t.bytes).collect() })
}

/// One prediction for each engine and cache state. The measured model of the nearest size is used, because engines
/// choose settings by size.
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
        "overhead",
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
            "It does not fit: the tensors need {} and one {gpu} has {}. It needs at least {} of them ('bench MODEL --gpu 0,1,…' divides it); the times are for this many bytes through one GPU.",
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
        "Each measured run is split into fixed time, time per byte and time per tensor, and gives a prediction. The expected time is the median (for hot mmap and a model of more than twice or less than half the size: the fastest or slowest, because its rate changes). The interval is wider if the runs differ more, or if the model differs more from the measured one."
    );
    if told.iter().any(|(_, p)| p.extrapolated) {
        let _ = writeln!(
            out,
            "* far outside the measured range: tensors more than twice as large or small, or a model of more than four times the bytes or less than a \
             sixty-fourth"
        );
    }
    if told.iter().any(|(_, p)| p.untold) {
        let _ = writeln!(
            out,
            "† the overhead of some tensor sizes was measured in the first calls only, while libraries warm up: the interval contains all possible times, and the expected time is its geometric mean"
        );
    }
    let unbounded: Vec<String> =
        told.iter().filter(|(s, _)| s.unbounded(model.bytes())).map(|(s, _)| s.timings.engine.to_string()).collect();
    if !unbounded.is_empty() {
        let _ = writeln!(
            out,
            "{} would use more threads for this model than were measured, and is predicted with the measured ones. 'bench MODEL --ceilings' also measures the ceiling for more threads",
            unbounded.join(", ")
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
            "‡ the measured repeats of the same load differ widely, so the prediction cannot be more precise: {}",
            apart.join(", ")
        );
    }
    if shipped {
        let _ = writeln!(
            out,
            "The loads were measured on another machine. For this machine, run 'gds-top bench MODEL --record FILE' and predict with '--from FILE'."
        );
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod tests {
    use super::*;
    use crate::analysis;
    use crate::core::CacheState;
    use crate::report;
    use crate::session::{State, recording};
    use std::sync::OnceLock;

    const PAIRS: [(&str, &str); 5] = [
        ("h200-qwen3-0.6b", "h200-qwen2.5-7b"),
        ("h200-auto-qwen3-0.6b", "h200-auto-qwen2.5-7b"),
        ("h200-full-qwen3-0.6b", "h200-full-qwen2.5-7b"),
        ("h200-hot-qwen3-0.6b", "h200-hot-qwen2.5-7b"),
        ("h200-hot-1024-qwen3-0.6b", "h200-hot-1024-qwen2.5-7b"),
    ];

    fn state(name: &str) -> State {
        let mut state = State::default();
        for event in recording::read(Path::new(&format!("assets/recordings/{name}.gdsrec"))).unwrap() {
            state.reduce(&event.unwrap());
        }
        state
    }

    fn of(state: &State) -> Vec<Source> {
        crate::present::SessionAnalysis::new(state)
            .timings()
            .into_iter()
            .map(|timings| Source { timings, from: String::new(), gpu_bytes: None })
            .collect()
    }

    /// The prediction of one recording of a pair from the other one.
    struct Way {
        /// The index of the pair in [`PAIRS`], and the predicted model.
        pair: usize,
        of: String,
        engine: String,
        cache: CacheState,
        /// The predicted time divided by the measured time, minus one.
        error: f64,
        /// Whether the interval contains the measured time.
        held: bool,
        /// The spread of the source runs and that of the predicted runs.
        apart: f64,
        /// The error and whether the interval contains the measured time, once for each omitted source run.
        without_one: Vec<(f64, bool)>,
    }

    fn all_ways() -> &'static [Way] {
        static WAYS: OnceLock<Vec<Way>> = OnceLock::new();
        WAYS.get_or_init(|| {
            let mut ways = Vec::new();
            for (pair, (small, large)) in PAIRS.into_iter().enumerate() {
                let (small, large) = (state(small), state(large));
                ways.extend(ways_from(pair, &small, &large));
                ways.extend(ways_from(pair, &large, &small));
            }
            ways
        })
    }

    fn ways_from(pair: usize, from: &State, to: &State) -> Vec<Way> {
        let model = to.model.as_ref().unwrap();
        let sizes: Vec<u64> = model.tensors.iter().map(|t| t.bytes).collect();
        let measured = of(to);
        let mut ways = Vec::new();
        for mut source in of(from) {
            let (engine, cache) = (source.timings.engine.clone(), source.timings.cache);
            let same = |s: &&Source| s.timings.engine == engine && s.timings.cache == cache;
            // Some recordings have only one cache state.
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
            let of = model.name.clone();
            ways.push(Way { pair, of, engine: engine.to_string(), cache, error, held, apart, without_one });
        }
        ways
    }

    #[test]
    fn hot_each_engine_of_one_model_predicts_the_other_within_15_percent() {
        // A recording does not show the speed of the machine in another session. If runs of the same load differ by
        // more than a fifth, their median itself is less precise than 15 %.
        let hot: Vec<_> = all_ways().iter().filter(|way| way.cache == CacheState::Hot).collect();
        assert_eq!(hot.len(), 60);
        assert!(hot.iter().all(|way| way.held));
        // In the fourth pair, NIXL took 1.5 times as long to register the same bytes of the large model. The
        // recordings of the small model cannot show this.
        let (known, hot): (Vec<&Way>, Vec<&Way>) =
            hot.into_iter().partition(|way| way.pair == 3 && way.of == "q06" && way.engine == "nixl");
        assert!(known.len() == 1 && known[0].error.abs() < 0.35, "{:?}", known.first().map(|way| way.error));
        for Way { engine, error, apart, .. } in &hot {
            assert!(
                error.abs() < 0.15 || (*apart > 0.2 && error.abs() < 0.2),
                "{engine}: {error:+.2}, runs within {apart:.2}"
            );
        }
        // The predictions with an error above 15 %: three of the first two pairs, and NIXL in both directions of the
        // last pair.
        let (nixl, others): (Vec<&Way>, Vec<&Way>) = hot
            .into_iter()
            .filter(|way| way.error.abs() >= 0.15)
            .partition(|way| way.pair == 4 && way.engine == "nixl");
        assert!(nixl.len() <= 2 && others.len() <= 3 && others.iter().all(|way| way.pair < 2), "{}", others.len());
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
        assert!(text.contains("It does not fit") && text.contains("at least 6 of them"), "{text}");
        let told = to_json(&large, &all[0], &predictions(&large, &all)[0].1);
        assert_eq!(told["fits_one_gpu"], false);
        assert!(!to_text(&small, &predictions(&small, &all), true).contains("does not fit"));
        // Unknown values are left out.
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
    fn more_threads_whose_pace_nothing_bounds_are_said() {
        let told = |recording: &str, model: &str| {
            let (all, model) = (of(&state(recording)), named(model).unwrap());
            to_text(&model, &predictions(&model, &all), false).contains("would use more threads")
        };
        assert!(told("h200-qwen3-0.6b", "qwen2.5-7b"));
        assert!(!told("h200-full-qwen3-0.6b", "qwen2.5-7b"), "ceilings were measured in that session");
        assert!(!told("h200-qwen2.5-7b", "llama-3.1-8b"), "as many threads");
    }

    #[test]
    fn what_is_no_model_and_no_recording_is_said() {
        assert!(named("no-such-model").is_err());
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let said = sources(&[file.path().to_owned()]).err().unwrap();
        assert!(said.contains("not a report of gds-top"), "{said}");
    }
}
