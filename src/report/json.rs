//! The report as JSON, `schema/report.schema.json`: sizes in bytes, times in nanoseconds, never formatted text.

use super::document::{Document, LaneReport, model_bytes};
use crate::analysis::{TensorRow, size_classes};
use crate::domain::{FixPlan, FixProgress};
use crate::session::{LaneStatus, State};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// The report as a JSON value. A model of many tensors makes it large; [`write()`] does not hold it in memory.
#[must_use]
pub fn json(state: &State) -> Value {
    // Every part is made of maps with text keys, of text and of finite numbers, which cannot fail.
    serde_json::to_value(Report::new(&Document::new(state))).unwrap_or(Value::Null)
}

/// Writes the report as JSON, tensor by tensor.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(state: &State, mut out: impl Write) -> io::Result<()> {
    let document = Document::new(state);
    serde_json::to_writer(&mut out, &Report::new(&document))?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Report<'a> {
    schema_version: u32,
    tool: &'a str,
    started_unix_ms: u64,
    ended: Option<&'static str>,
    machine: &'a Option<crate::domain::Machine>,
    checks: &'a [crate::domain::Finding],
    verdicts: &'a [crate::domain::Verdict],
    plan: Plan<'a>,
    runs: Vec<Value>,
    together: Vec<Value>,
    ceilings: &'a [crate::domain::Ceiling],
    tensors: Tensors<'a>,
    samples: Samples<'a>,
    analysis: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<Value>,
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

/// What plans before this one measured in the same session, in order; an export has a folder with the whole report of each.
fn earlier(state: &State) -> Vec<Value> {
    let one = |(number, page): (usize, &std::sync::Arc<State>)| {
        let title = page.race_title();
        let document = Document::new(page);
        let runs: Vec<Value> = document.lanes.iter().map(|lane| run(page, lane)).collect();
        let mut told = json!({
            "title": title,
            "folder": super::export::page_name(number, &title),
            "plan": plan(page),
            "runs": runs,
            "together": super::groups::json(page),
            "ceilings": page.ceilings,
        });
        if let (Some(grid), Some(told)) = (&page.grid, told.as_object_mut()) {
            told.insert("grid".to_owned(), super::grid::json(grid));
        }
        told
    };
    state.earlier.iter().enumerate().map(one).collect()
}

impl<'a> Report<'a> {
    fn new(document: &'a Document<'a>) -> Self {
        let state = document.state;
        Self {
            schema_version: SCHEMA_VERSION,
            tool: &state.tool,
            started_unix_ms: state.started_unix_ms,
            ended: state.ended.map(|interrupted| if interrupted { "interrupted" } else { "whole" }),
            machine: &state.machine,
            checks: &state.checks,
            verdicts: &state.verdicts,
            plan: plan(state),
            runs: document.lanes.iter().map(|lane| run(state, lane)).collect(),
            together: super::groups::json(state),
            ceilings: &state.ceilings,
            tensors: Tensors(document),
            samples: Samples(state),
            analysis: analysis(document),
            grid: state.grid.as_ref().map(super::grid::json),
            earlier: earlier(state),
            messages: state
                .messages
                .iter()
                .map(|(at_ns, level, text)| json!({"at_ns": at_ns, "level": level, "text": text}))
                .collect(),
        }
    }
}

/// A number, or null where it is none: JSON has neither NaN nor infinity.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn plan(state: &State) -> Plan<'_> {
    let describe = |m: &crate::domain::ModelInfo| {
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

fn run(state: &State, report: &LaneReport<'_>) -> Value {
    let lane = report.lane;
    let Some(r) = &lane.result else {
        // The lane died: what it would have measured is unknown.
        return json!({
            "lane": lane.id, "engine": lane.engine, "model": null, "cache": lane.cache, "cache_resident_before_fraction": null,
            "target": lane.target.to_string(), "repeat": lane.repeat, "bytes": null, "wall_ns": null, "setup_ns": null,
            "bytes_per_s": null, "verified": null, "route": null, "phases": {}, "host_peak_bytes": null,
            "pinned_peak_bytes": null, "gpu_peak_bytes": null, "cpu_ns": null, "error": report.error(),
            "last_words": lane.last_words,
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
        "host_peak_bytes": r.host_peak_bytes, "pinned_peak_bytes": r.pinned_peak_bytes, "gpu_peak_bytes": r.gpu_peak_bytes,
        "ceiling": super::ceilings::of_run(state, lane),
        "outside": r.outside, "cpu_ns": r.cpu_ns, "knobs": r.knobs, "knobs_why": r.knobs_why, "setup_parts_ns": r.setup_parts_ns, "auto_choice": r.auto_choice,
        "first_difference": r.first_difference, "notes": r.notes, "workload": r.workload,
        "error": report.error(), "last_words": lane.last_words,
    })
}

struct Tensors<'a>(&'a Document<'a>);

#[derive(Serialize)]
struct Tensor<'a> {
    lane: crate::domain::LaneId,
    engine: String,
    cache: crate::domain::CacheState,
    repeat: u32,
    name: &'a str,
    shard: u32,
    bytes: u64,
    file_offset: u64,
    aligned: bool,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    phases: crate::domain::PhaseTimes,
}

impl Serialize for Tensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for lane in &self.0.lanes {
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
            // A reading that is no number is a gap: it is left out.
            let values: Map<String, Value> = timed
                .readings()
                .filter(|(_, v)| v.is_finite())
                .map(|(metric, v)| (super::metric_name(metric), number(v)))
                .collect();
            json!({"at_ns": timed.at_ns, "lane": timed.lane, "values": values})
        }))
    }
}

fn analysis(document: &Document<'_>) -> Value {
    let engines: Vec<Value> = document
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
                "fit_relative_error": number(cost.fit.relative_error), "fit_time_fraction": number(cost.fit.time_told),
                "tensors_used": cost.fit.used, "tensors_rejected": cost.fit.rejected, "size_classes": classes,
            })
        })
        .collect();
    let comparisons: Vec<Value> = document
        .comparisons
        .iter()
        .map(|c| {
            let standings: Vec<Value> = c
                .standings
                .iter()
                .map(|s| {
                    json!({
                        "engine": s.engine, "runs": s.runs, "failed": s.failed, "wall_ns": s.wall_ns,
                        "wall_min_ns": s.wall_range_ns.0, "wall_max_ns": s.wall_range_ns.1, "bytes_per_s": number(s.bytes_per_s),
                        "ratio_to_fastest": if s.in_doubt { Value::Null } else { number(s.ratio_to_fastest) },
                        "verified": s.verified, "in_doubt": s.in_doubt,
                    })
                })
                .collect();
            json!({"model": c.model, "target": c.target, "cache": c.cache, "standings": standings})
        })
        .collect();
    let crossovers: Vec<Value> = document
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
    let predictions: Vec<Value> = document
        .checks_of_the_cost_model()
        .iter()
        .map(|p| {
            json!({
                "engine": p.engine, "cache": p.cache, "model": p.model, "in_sample": true,
                "wall_ns": p.told.wall_ns, "low_ns": p.told.low_ns, "high_ns": p.told.high_ns, "measured_ns": p.measured_ns,
                "repeats_apart_fraction": p.told.repeats_apart,
            })
        })
        .collect();
    let advice: Vec<Value> = document
        .advice
        .iter()
        .map(|a| json!({"engine": a.engine, "cache": a.cache, "text": a.text, "at_stake_ns": a.at_stake_ns}))
        .collect();
    json!({
        "engines": engines, "comparisons": comparisons, "crossovers": crossovers, "predictions": predictions, "advice": advice,
        "timings": document.timings(), "beside_plain_reads": super::ceilings::beside_json(document.state),
    })
}
