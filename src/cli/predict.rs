//! `inspect --predict`: what each engine would take for a model of this shape, from loads that were measured and recorded.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, BAD_CALL, fail, print, print_json};
use crate::analysis::{self, CostModel, Prediction, TensorRow};
use crate::domain::{CacheState, Engine, PhaseTimes, RunResult, units};
use crate::report;
use crate::session::{State, recording};
use crate::weights::{self, Profile, dtype};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The recordings that ship: two shapes on an NVIDIA H200.
const SHIPPED: [(&str, &[u8]); 2] = [
    ("h200-qwen3-0.6b.gdsrec", include_bytes!("../../assets/recordings/h200-qwen3-0.6b.gdsrec")),
    ("h200-qwen2.5-7b.gdsrec", include_bytes!("../../assets/recordings/h200-qwen2.5-7b.gdsrec")),
];

/// What an engine cost in one measured load.
struct Source {
    engine: Engine,
    cache: CacheState,
    cost: CostModel,
    /// Name of the recording or report.
    from: String,
    model: String,
    target: String,
    runs: usize,
}

/// The model whose load is to be predicted.
struct Shape {
    name: String,
    sizes_bytes: Vec<u64>,
}

impl Shape {
    fn bytes(&self) -> u64 {
        self.sizes_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Prints the predictions.
pub(super) fn run(model: &str, from: &[PathBuf], output: &OutputArgs) -> u8 {
    let shape = match shape(model) {
        Ok(shape) => shape,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let sources = match sources(from) {
        Ok(sources) => sources,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let mut told = predictions(&shape, &sources);
    if told.is_empty() {
        return fail(
            BAD_ANSWER,
            "nothing can be predicted: no load in there has enough tensors of different sizes with a time each; record one with 'gds-top load MODEL \
             --record FILE'",
        );
    }
    told.sort_by_key(|(source, prediction)| (source.cache, prediction.wall_ns));
    if output.json {
        let list: Vec<_> = told.iter().map(|(source, prediction)| to_json(&shape, source, prediction)).collect();
        return print_json(&json!(list));
    }
    print(to_text(&shape, &told, from.is_empty()).as_bytes())
}

/// A profile by name needs no files.
fn shape(model: &str) -> Result<Shape, String> {
    if !Path::new(model).exists() && Profile::names().contains(&model) {
        let profile = Profile::named(model).map_err(|e| e.to_string())?;
        let sizes = profile.expand().iter().map(|t| dtype::tensor_bytes(&t.dtype, &t.shape)).collect::<Result<_, _>>();
        let sizes_bytes = sizes.map_err(|problem| format!("the profile '{model}' is damaged: {problem:?}"))?;
        return Ok(Shape { name: profile.title, sizes_bytes });
    }
    let opened = weights::open(model).map_err(|e| e.to_string())?;
    Ok(Shape { name: opened.name.clone(), sizes_bytes: opened.tensors.iter().map(|t| t.bytes).collect() })
}

fn sources(from: &[PathBuf]) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    if from.is_empty() {
        for (name, bytes) in SHIPPED {
            let unpacked = tempfile::Builder::new().suffix(".gdsrec").tempfile();
            let mut file = unpacked.map_err(|e| format!("making a temporary file failed: {e}"))?;
            file.write_all(bytes).map_err(|e| format!("writing {} failed: {e}", file.path().display()))?;
            sources.extend(recorded(file.path(), name)?);
        }
        return Ok(sources);
    }
    for path in from {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        let found = if name.ends_with(".json") { reported(path, &name) } else { recorded(path, &name) };
        sources.extend(found?);
    }
    Ok(sources)
}

/// The cost models of a recording.
fn recorded(path: &Path, name: &str) -> Result<Vec<Source>, String> {
    let mut state = State::default();
    for event in recording::read(path).map_err(|e| e.to_string())? {
        state.reduce(&event.map_err(|e| e.to_string())?);
    }
    let costs = report::cost_models(&state);
    let good = |engine: &Engine, cache: CacheState| -> Vec<&RunResult> {
        let same = state.lanes.iter().filter(|l| l.engine == *engine && l.cache == cache);
        same.filter_map(|l| l.result.as_ref()).filter(|r| r.error.is_none() && r.verified != Some(false)).collect()
    };
    Ok(costs
        .into_iter()
        .filter_map(|(engine, cache, cost)| {
            let good = good(&engine, cache);
            let first = good.first()?;
            let (model, target, runs) = (first.model.clone(), first.target.clone(), good.len());
            Some(Source { engine, cache, cost, from: name.to_owned(), model, target, runs })
        })
        .collect())
}

/// What is needed of report.json.
#[derive(Deserialize)]
struct Report {
    runs: Vec<Run>,
    tensors: Vec<Tensor>,
}

#[derive(Deserialize)]
struct Run {
    engine: Engine,
    cache: CacheState,
    repeat: u32,
    model: Option<String>,
    target: Option<String>,
    wall_ns: Option<u64>,
    verified: Option<bool>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Tensor {
    engine: Engine,
    cache: CacheState,
    repeat: u32,
    bytes: u64,
    file_offset: u64,
    aligned: bool,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    phases: PhaseTimes,
}

/// The cost models of a report.
fn reported(path: &Path, name: &str) -> Result<Vec<Source>, String> {
    // A report of a large model is some megabytes; more than this is something else.
    const MOST_BYTES: u64 = 1 << 30;
    let bad = |what: String| format!("{} is no report of gds-top: {what}", path.display());
    let length = std::fs::metadata(path).map_err(|e| format!("reading {} failed: {e}", path.display()))?;
    if !length.is_file() || length.len() > MOST_BYTES {
        return Err(bad("it is no regular file of at most 1 GiB".to_owned()));
    }
    let text = std::fs::read(path).map_err(|e| format!("reading {} failed: {e}", path.display()))?;
    let report: Report = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    let mut sources: Vec<Source> = Vec::new();
    for run in report.runs.iter().filter(|run| run.is_good()) {
        if sources.iter().any(|s| s.engine == run.engine && s.cache == run.cache) {
            continue;
        }
        let rows: Vec<TensorRow> = (0_u32..)
            .zip(
                report
                    .tensors
                    .iter()
                    .filter(|t| t.engine == run.engine && t.cache == run.cache && t.repeat == run.repeat),
            )
            .filter(|(_, t)| t.start_ns.is_some())
            .map(|(number, t)| TensorRow {
                tensor: number,
                bytes: t.bytes,
                file_offset: t.file_offset,
                aligned: t.aligned,
                start_ns: t.start_ns,
                end_ns: t.end_ns,
                phases: t.phases,
            })
            .collect();
        let same = |r: &&Run| r.engine == run.engine && r.cache == run.cache && r.is_good();
        let walls: Vec<u64> = report.runs.iter().filter(same).filter_map(|r| r.wall_ns).collect();
        let Some(cost) = run.wall_ns.and_then(|wall_ns| analysis::cost_model(&rows, wall_ns, &walls)) else { continue };
        sources.push(Source {
            engine: run.engine.clone(),
            cache: run.cache,
            cost,
            from: name.to_owned(),
            model: run.model.clone().unwrap_or_default(),
            target: run.target.clone().unwrap_or_default(),
            runs: walls.len(),
        });
    }
    Ok(sources)
}

impl Run {
    fn is_good(&self) -> bool {
        self.error.is_none() && self.verified != Some(false) && self.wall_ns.is_some_and(|ns| ns > 0)
    }
}

/// One prediction for each engine and cache state, from the measured model nearest in size: engines set themselves by the size of the model.
fn predictions<'a>(shape: &Shape, sources: &'a [Source]) -> Vec<(&'a Source, Prediction)> {
    let distance =
        |source: &Source| (shape.bytes().max(1) as f64 / source.cost.measured_bytes.max(1) as f64).ln().abs();
    let mut nearest: Vec<&Source> = Vec::new();
    for source in sources {
        match nearest.iter_mut().find(|s| s.engine == source.engine && s.cache == source.cache) {
            Some(known) if distance(source) < distance(known) => *known = source,
            Some(_) => {}
            None => nearest.push(source),
        }
    }
    nearest.into_iter().map(|source| (source, analysis::predict(&source.cost, &shape.sizes_bytes))).collect()
}

fn to_json(shape: &Shape, source: &Source, prediction: &Prediction) -> serde_json::Value {
    json!({
        "model": shape.name, "tensors": shape.sizes_bytes.len(), "bytes": shape.bytes(),
        "engine": source.engine, "cache": source.cache, "wall_ns": prediction.wall_ns, "low_ns": prediction.low_ns,
        "high_ns": prediction.high_ns, "overhead_ns": prediction.overhead_ns, "extrapolated": prediction.extrapolated,
        "based_on": {
            "source": source.from, "model": source.model, "bytes": source.cost.measured_bytes, "target": source.target,
            "runs": source.runs, "fit_r2": source.cost.fit.r2,
        },
    })
}

fn to_text(shape: &Shape, told: &[(&Source, Prediction)], shipped: bool) -> String {
    let mut out = format!(
        "{}: {} tensors, {}\n\n{:<5} {:<15} {:>9}  {:>21} {:>10}  {:>13}  {}\n",
        shape.name,
        units::count(shape.sizes_bytes.len() as u64),
        units::bytes(shape.bytes()),
        "cache",
        "engine",
        "expected",
        "likely between",
        "rate",
        "tensors cost",
        "from"
    );
    for (source, p) in told {
        let between = format!("{} and {}", units::duration(p.low_ns), units::duration(p.high_ns));
        let rate = units::bytes_per_s(shape.bytes(), p.wall_ns).map_or_else(String::new, units::rate);
        let mark = if p.extrapolated { " *" } else { "" };
        let _ = writeln!(
            out,
            "{:<5} {:<15} {:>9}  {between:>21} {rate:>10}  {:>13}  {}{mark}",
            source.cache,
            source.engine,
            units::duration(p.wall_ns),
            units::duration(p.overhead_ns),
            source.model,
        );
    }
    out.push('\n');
    let mut bases: Vec<String> = told
        .iter()
        .map(|(s, _)| {
            let bytes = units::bytes(s.cost.measured_bytes);
            let runs = if s.runs == 1 { "one run".to_owned() } else { format!("{} runs", s.runs) };
            format!("{}: loads of {bytes} onto {} in {}, {runs} of an engine", s.model, s.target, s.from)
        })
        .collect();
    bases.sort();
    bases.dedup();
    for base in bases {
        let _ = writeln!(out, "{base}");
    }
    let _ = writeln!(
        out,
        "Expected is fixed + tensors × overhead + bytes / bandwidth of the measured load; what lies between covers the doubt of the line and the spread of the runs."
    );
    if told.iter().any(|(_, p)| p.extrapolated) {
        let _ = writeln!(out, "* some tensors are more than twice as large or as small as any that was measured");
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn hot(sources: &[Source], engine: Engine) -> &Source {
        sources.iter().find(|s| s.engine == engine && s.cache == CacheState::Hot).unwrap()
    }

    fn shipped(name: &str) -> Vec<Source> {
        let sources = sources(&[]).unwrap();
        sources.into_iter().filter(|s| s.from.contains(name)).collect()
    }

    #[test]
    fn one_shape_predicts_the_other_which_was_measured_too() {
        // Medians of three hot loads of the larger model on the same machine, from its own recording.
        let small = shipped("qwen3-0.6b");
        let large = shape("qwen2.5-7b").unwrap();
        for (engine, measured_ns) in
            [(Engine::GdsPerTensor, 1_631_832_000), (Engine::GdsSlab, 431_560_000), (Engine::Direct, 5_036_173_000)]
        {
            let told = analysis::predict(&hot(&small, engine.clone()).cost, &large.sizes_bytes);
            let off = told.wall_ns as f64 / measured_ns as f64 - 1.0;
            assert!(off.abs() < 0.15, "{engine}: {off:+.2}");
            assert!((told.low_ns..told.high_ns).contains(&measured_ns), "{engine}: {told:?}");
        }
    }

    #[test]
    fn a_report_predicts_what_its_recording_does() {
        let mut state = State::default();
        for event in recording::read(Path::new("assets/recordings/h200-qwen3-0.6b.gdsrec")).unwrap() {
            state.reduce(&event.unwrap());
        }
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), report::json(&state).to_string()).unwrap();
        let large = shape("qwen2.5-7b").unwrap();
        let (from_report, from_recording) = (sources(&[file.path().to_owned()]).unwrap(), shipped("qwen3-0.6b"));
        assert_eq!(from_report.len(), from_recording.len());
        for source in &from_recording {
            let same = from_report.iter().find(|s| s.engine == source.engine && s.cache == source.cache).unwrap();
            assert_eq!(
                analysis::predict(&same.cost, &large.sizes_bytes),
                analysis::predict(&source.cost, &large.sizes_bytes),
                "{} {}",
                source.engine,
                source.cache
            );
        }
    }

    #[test]
    fn a_profile_is_predicted_from_the_nearest_measured_size() {
        let all = sources(&[]).unwrap();
        let (large, small) = (shape("llama-3.1-70b").unwrap(), shape("qwen3-0.6b").unwrap());
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
    fn what_is_no_model_and_no_recording_is_said() {
        assert!(shape("no-such-model").is_err());
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let said = sources(&[file.path().to_owned()]).err().unwrap();
        assert!(said.contains("no report of gds-top"), "{said}");
    }
}
