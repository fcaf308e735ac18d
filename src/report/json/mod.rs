//! The report as JSON (`schema/report.schema.json`). Sizes are in bytes and times in nanoseconds. Only `summary`
//! contains text: the answers and tables that users see.

mod checks;
mod grid;
mod summary;
mod together;
mod watch;

use crate::analysis::{ComparisonGroup, Outcome, TensorRow, size_classes};
use crate::core::{FixPlan, FixProgress};
use crate::present::analysed::{SessionAnalysis, model_bytes};
use crate::present::notes;
use crate::present::{advice, ceilings};
use crate::session::{Lane, LaneStatus, State};
use crate::text::write_json;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 2;

/// The report as a JSON value. It is large for a model with many tensors. [`write()`] does not build it in memory.
#[must_use]
pub fn json(state: &State) -> Value {
    // Serializing cannot fail, because all parts are maps with string keys, strings and finite numbers.
    serde_json::to_value(Report::new(&SessionAnalysis::new(state))).unwrap_or(Value::Null)
}

/// Writes the report as JSON, one tensor at a time.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn write(state: &State, mut out: impl Write) -> io::Result<()> {
    let analysis = SessionAnalysis::new(state);
    write_json(&mut out, &Report::new(&analysis))?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Report<'a> {
    schema_version: u32,
    tool: &'a str,
    command: Option<&'a str>,
    started_unix_ms: u64,
    ended: Option<&'static str>,
    left_out_variables: &'a [crate::core::LeftOutVariable],
    summary: Value,
    machine: &'a Option<crate::core::Machine>,
    checks: Vec<Value>,
    verdicts: &'a [crate::core::Verdict],
    plan: Plan<'a>,
    runs: Vec<Value>,
    together: Vec<Value>,
    ceilings: &'a [crate::core::Ceiling],
    tensors: Tensors<'a>,
    samples: Samples<'a>,
    analysis: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<watch::Program<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<Value>,
    messages: Vec<Value>,
}

#[derive(Serialize)]
struct Plan<'a> {
    model: Value,
    models: Vec<Value>,
    lanes: Vec<Value>,
    unavailable: Vec<Value>,
    fixes: &'a [FixPlan],
    fix_log: &'a [FixProgress],
}

/// The results of earlier plans of the same session, in order. An export contains the full report of each plan in a
/// directory.
fn earlier(state: &State) -> Vec<Value> {
    let one = |(number, page): (usize, &std::sync::Arc<State>)| {
        let title = page.race_title();
        let ended = page.lanes.iter().filter(|lane| lane.ended_ns.is_some());
        let runs: Vec<Value> = ended.map(|lane| run(page, lane)).collect();
        let mut page_json = json!({
            "title": title,
            "folder": super::sections::folder_name(number, &title),
            "plan": plan(page),
            "runs": runs,
            "together": together::json(page),
            "ceilings": page.ceilings,
        });
        if let (Some(grid), Some(page_json)) = (&page.grid, page_json.as_object_mut()) {
            page_json.insert("grid".to_owned(), grid::json(grid));
        }
        page_json
    };
    state.earlier.iter().enumerate().map(one).collect()
}

impl<'a> Report<'a> {
    fn new(analysis: &'a SessionAnalysis<'a>) -> Self {
        let state = analysis.state;
        Self {
            schema_version: SCHEMA_VERSION,
            tool: &state.tool,
            command: Some(state.command.as_str()).filter(|command| !command.is_empty()),
            started_unix_ms: state.started_unix_ms,
            ended: state.ended.map(|interrupted| if interrupted { "interrupted" } else { "whole" }),
            left_out_variables: &state.left_out_variables,
            summary: summary::json(analysis),
            machine: &state.machine,
            checks: checks::checks(state),
            verdicts: &state.verdicts,
            plan: plan(state),
            runs: analysis.runs.iter().map(|analysed| run(state, analysed.lane)).collect(),
            together: together::json(state),
            ceilings: &state.ceilings,
            tensors: Tensors(analysis),
            samples: Samples(state),
            analysis: figures(analysis),
            grid: state.grid.as_ref().map(grid::json),
            watch: state.watch.as_deref().map(|report| watch::watch(state, report)),
            program: state.watch.as_deref().map(|report| watch::program(state, report)),
            earlier: earlier(state),
            messages: state
                .messages
                .iter()
                .map(|(at_ns, level, text)| json!({"at_ns": at_ns, "level": level, "text": text}))
                .collect(),
        }
    }
}

/// A JSON number. NaN and infinity become null, because JSON does not have them.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn plan(state: &State) -> Plan<'_> {
    let describe = |m: &crate::core::ModelInfo| {
        let shards: Vec<Value> = m
            .shards
            .iter()
            .map(
                |s| json!({"path": s.path.to_string_lossy(), "file_bytes": s.file_bytes, "data_offset": s.data_offset}),
            )
            .collect();
        json!({
            "name": m.name,
            "path": m.path.to_string_lossy(),
            "tensors": m.tensors.len(),
            "bytes": model_bytes(m),
            "shards": shards,
        })
    };
    let model = state.model.as_ref().map_or(Value::Null, |m| describe(m));
    let models = state.models.iter().map(|m| describe(m)).collect();
    let lanes = state.lanes.iter().map(|l| {
        let status = match &l.status {
            LaneStatus::Waiting => "waiting",
            LaneStatus::Running(_) => "running",
            LaneStatus::Done => "done",
            LaneStatus::Failed(_) => "failed",
            LaneStatus::Cancelled => "cancelled",
        };
        json!({"lane": l.id, "engine": l.engine, "cache": l.cache, "target": l.target, "repeat": l.repeat, "status": status, "share": l.share})
    });
    Plan {
        model,
        models,
        lanes: lanes.collect(),
        unavailable: state.unavailable.iter().map(|(e, why)| json!({"engine": e, "why": why})).collect(),
        fixes: &state.plans,
        fix_log: &state.fix_log,
    }
}

fn run(state: &State, lane: &Lane) -> Value {
    let Some(r) = &lane.result else {
        // The run's process died, so its measurements are unknown.
        return json!({
            "lane": lane.id, "engine": lane.engine, "model": null, "cache": lane.cache, "cache_resident_before_fraction": null,
            "target": lane.target.to_string(), "repeat": lane.repeat, "bytes": null, "wall_ns": null, "setup_ns": null,
            "bytes_per_s": null, "verified": null, "route": null, "phases": {}, "host_peak_bytes": null,
            "pinned_peak_bytes": null, "gpu_peak_bytes": null, "cpu_ns": null, "error": lane.error(),
            "stderr_tail": lane.stderr_tail,
        });
    };
    let route = r.route.as_ref().map(|c| {
        json!({
            "route": c.route, "proven": c.proven, "nvfs_reads": c.nvfs_reads, "p2p_reads": c.p2p_reads,
            "posix_reads": c.posix_reads, "source": c.source,
        })
    });
    json!({
        "lane": lane.id, "engine": r.engine, "model": r.model, "cache": r.cache,
        "cache_resident_before_fraction": r.cache_resident_before_fraction.map_or(Value::Null, number),
        "target": r.target, "repeat": r.repeat, "bytes": r.bytes, "wall_ns": r.wall_ns, "setup_ns": r.setup_ns,
        "bytes_per_s": if r.wall_ns > 0 { number(r.bytes_per_s) } else { Value::Null },
        "verified": r.verified, "route": route, "phases": r.phases, "slots": r.slots,
        "host_peak_bytes": r.host_peak_bytes, "host_anonymous_bytes": r.host_anonymous_bytes, "host_file_bytes": r.host_file_bytes, "pinned_peak_bytes": r.pinned_peak_bytes, "gpu_peak_bytes": r.gpu_peak_bytes,
        "ceiling": ceiling(state, lane),
        "outside": r.outside, "cpu_ns": r.cpu_ns, "settings": r.settings, "settings_why": r.settings_why, "setup_parts_ns": r.setup_parts_ns, "auto_choice": r.auto_choice,
        "first_difference": r.first_difference, "repeated_reads": r.repeated_reads, "notes": r.notes.iter().map(notes::sentence).collect::<Vec<_>>(), "workload": r.workload,
        "error": lane.error(), "stderr_tail": lane.stderr_tail,
    })
}

/// The ceiling of a run and the share of it that the run reached. Null if no ceiling was measured.
fn ceiling(state: &State, lane: &Lane) -> Value {
    ceilings::reached(state, lane).map_or(
        Value::Null,
        |(ceiling, share)| json!({"kind": ceiling.kind, "bytes_per_s": ceiling.bytes_per_s, "fraction": share}),
    )
}

/// The cold loads compared with a plain reader.
fn compared_with_plain_reads(state: &State) -> Vec<Value> {
    let one = |cold: &ceilings::ColdReads<'_>| {
        let rounds = cold.by_round();
        json!({
            "engine": cold.engine, "model": cold.ceiling.model, "target": cold.target, "runs": cold.rates.len(),
            "passes": cold.ceiling.passes.len(), "run_bytes_per_s": cold.median_rate(), "read_bytes_per_s": cold.ceiling.bytes_per_s,
            "fraction": cold.median_rate() / cold.ceiling.bytes_per_s,
            "lowest_fraction": rounds.map(|r| r.0), "highest_fraction": rounds.map(|r| r.1),
        })
    };
    ceilings::cold_reads(state).iter().map(one).collect()
}

struct Tensors<'a>(&'a SessionAnalysis<'a>);

#[derive(Serialize)]
struct Tensor<'a> {
    lane: crate::core::LaneId,
    engine: String,
    cache: crate::core::CacheState,
    repeat: u32,
    name: &'a str,
    shard: u32,
    bytes: u64,
    file_offset: u64,
    aligned: bool,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    phases: crate::core::PhaseTimes,
}

impl Serialize for Tensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for lane in &self.0.runs {
            let Some(model) = self.0.state.model_of(lane.lane) else { continue };
            for row in &lane.rows {
                let TensorRow { bytes, file_offset, aligned, start_ns, end_ns, phases, .. } = *row;
                let Some(tensor) = model.tensors.get(row.tensor as usize) else { continue };
                list.serialize_element(&Tensor {
                    lane: lane.lane.id,
                    engine: lane.lane.engine.to_string(),
                    cache: lane.lane.cache,
                    repeat: lane.lane.repeat,
                    name: &tensor.name,
                    shard: tensor.shard,
                    bytes,
                    file_offset,
                    aligned,
                    start_ns,
                    end_ns,
                    phases,
                })?;
            }
        }
        list.end()
    }
}

struct Samples<'a>(&'a State);

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.samples.iter().map(|timed| {
            // NaN and infinity are left out, so they appear as missing values.
            let values: Map<String, Value> = timed
                .readings()
                .filter(|(_, v)| v.is_finite())
                .map(|(metric, v)| (super::common::metric_name(metric), number(v)))
                .collect();
            json!({"at_ns": timed.at_ns, "lane": timed.lane, "values": values})
        }))
    }
}

/// The result of a group's ranking as a word.
fn outcome(group: &ComparisonGroup) -> &'static str {
    match group.outcome() {
        None | Some(Outcome::NothingMoved) => "nothing_moved",
        Some(Outcome::NotCold { .. }) => "not_cold",
        Some(Outcome::Alone { .. }) => "alone",
        Some(Outcome::TooFewRuns { .. }) => "too_few_runs",
        Some(Outcome::Noisy { .. } | Outcome::TooNoisy { .. }) => "noisy",
        Some(Outcome::Tie { .. }) => "tie",
        Some(Outcome::Winner { .. }) => "winner",
    }
}

fn figures(analysis: &SessionAnalysis<'_>) -> Value {
    let engines: Vec<Value> = analysis
        .costs()
        .into_iter()
        .map(|(lane, cost)| {
            let classes: Vec<Value> = size_classes(&lane.rows)
                .into_iter()
                .map(|c| {
                    let above = (c.sizes_bytes.end != u64::MAX).then_some(c.sizes_bytes.end);
                    json!({
                        "from_bytes": c.sizes_bytes.start, "below_bytes": above, "tensors": c.tensors, "bytes": c.bytes,
                        "median_ns": c.median_ns, "phases": c.phases,
                        "overhead_fraction": c.overhead_fraction().map_or(Value::Null, number),
                    })
                })
                .collect();
            json!({
                "engine": lane.lane.engine, "cache": lane.lane.cache, "model": lane.good().map(|r| &r.model), "in_blocks": lane.in_blocks,
                "per_tensor_overhead_ns": number(cost.per_tensor_ns()),
                "bandwidth_bytes_per_s": number(cost.bytes_per_s()),
                "fit_r2": number(cost.fit.r2),
                "per_tensor_overhead_on_slot_ns": number(cost.fit.overhead_ns),
                "bandwidth_on_slot_bytes_per_s": number(cost.fit.bytes_per_s),
                "parallelism": number(cost.parallelism), "fixed_ns": cost.fixed_ns,
                "fit_relative_error": number(cost.fit.relative_error), "fit_time_fraction": number(cost.fit.explained_share),
                "tensors_used": cost.fit.used, "tensors_rejected": cost.fit.rejected, "size_classes": classes,
            })
        })
        .collect();
    let comparisons: Vec<Value> = analysis
        .comparisons
        .iter()
        .map(|comparison| {
            let group = &comparison.group;
            let engines: Vec<Value> = group
                .engines
                .iter()
                .map(|e| {
                    json!({
                        "engine": e.engine, "runs": e.runs, "failed": e.failed, "wall_ns": e.wall_ns,
                        "wall_min_ns": e.wall_range_ns.0, "wall_max_ns": e.wall_range_ns.1, "bytes_per_s": number(e.bytes_per_s),
                        "ratio_to_fastest": if e.in_doubt { Value::Null } else { number(e.ratio_to_fastest) },
                        "verified": e.verified, "in_doubt": e.in_doubt, "auto_chose": e.auto_chose,
                    })
                })
                .collect();
            json!({
                "model": group.model, "target": group.target, "cache": group.cache, "outcome": outcome(group),
                "cpu_pressure": group.cpu_pressure, "busy": group.busy().is_some(), "standings": engines,
            })
        })
        .collect();
    let crossovers: Vec<Value> = analysis
        .crossings()
        .iter()
        .map(|c| {
            let (below, above) = if c.crossover.first_wins_below { (c.first, c.second) } else { (c.second, c.first) };
            json!({
                "cache": c.cache, "bytes": c.crossover.bytes, "faster_below": below, "faster_above": above,
                "extrapolated": c.crossover.extrapolated,
            })
        })
        .collect();
    let predictions: Vec<Value> = analysis
        .predictions()
        .iter()
        .map(|p| {
            json!({
                "engine": p.engine, "cache": p.cache, "model": p.model, "in_sample": true,
                "wall_ns": p.predicted.wall_ns, "low_ns": p.predicted.low_ns, "high_ns": p.predicted.high_ns, "measured_ns": p.measured_ns,
                "repeats_apart_fraction": p.predicted.repeats_apart,
            })
        })
        .collect();
    let advice: Vec<Value> = analysis
        .advice
        .iter()
        .map(|a| json!({"engine": a.engine, "cache": a.cache, "text": advice::sentence(a), "at_stake_ns": a.at_stake_ns}))
        .collect();
    json!({
        "engines": engines, "comparisons": comparisons, "crossovers": crossovers, "predictions": predictions, "advice": advice,
        "timings": analysis.timings(), "compared_with_plain_reads": compared_with_plain_reads(analysis.state),
    })
}
