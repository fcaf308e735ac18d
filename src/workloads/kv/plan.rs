//! Converts a user's request to the plan of a session: the files and pieces as a model, the runs in order, and their
//! order.

use super::compare::{Planned, Unused, compared};
use super::error::PlanError;
use super::folder::Folder;
use super::layout::{Layout, stored_of};
use super::order::KvOrder;
use super::params::{self, KvSetting};
use super::prepare;
use super::request::Request;
use super::shape::Shape;
use crate::core::{Access, Engine, FallbackReason, KvSystem, ModelInfo, WorkloadOrder};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The hidden subcommand that a run process executes.
const CHILD: &str = "__kv";
/// The environment variable with the path of libcufile's settings.
const CUFILE_JSON: &str = "CUFILE_ENV_PATH_JSON";

/// The smallest region of registered memory in bytes. Each region is a registration.
const LEAST_REGION: u64 = 1 << 20;
/// The largest range that one asynchronous transfer was seen to read correctly in registered memory in compat mode.
const ASYNC_REGION: u64 = 16 << 20;

/// llm-d's settings files by name: the one in its documentation and the one in its repository.
const CUFILE_PROFILES: [(&str, &str); 2] = [
    ("llmd", include_str!("../../../profiles/cufile/llmd.json")),
    ("llmd-32", include_str!("../../../profiles/cufile/llmd-32.json")),
];

/// The demand of a system on cuFile, for the settings of the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The memory that it registers, in bytes.
    pub registered_bytes: u64,
    /// The threads that call cuFile at the same time.
    pub threads: u64,
    /// The size of its largest transfer in bytes.
    pub transfer_bytes: u64,
    /// Whether its transfers use unregistered memory.
    pub unregistered: bool,
}

impl Demand {
    fn of(order: &KvOrder, lane: &Planned) -> Self {
        let Planned { settings, layout, .. } = lane;
        // The file may be for another machine, so the CPUs of this one are no limit.
        let threads = prepare::threads(order, settings, layout, usize::MAX) as u64;
        let depth = if settings.on(KvSetting::Async) { settings.get(KvSetting::AsyncDepth).max(1) } else { 1 };
        let memory = match (layout.scattered, order.kind) {
            (true, KvSystem::LmcacheNixl) => settings.get(KvSetting::BatchChunks) * layout.slab_step(),
            (true, _) => threads * depth * layout.slab_step(),
            (false, _) => layout.target_bytes,
        };
        // UCM's proposal leaves the memory unregistered. The other systems register it.
        let unregistered = order.kind == KvSystem::Ucm;
        Self {
            registered_bytes: if unregistered { 0 } else { memory },
            threads: if order.kind == KvSystem::LmcacheNixl { 1 } else { threads },
            transfer_bytes: layout.largest,
            unregistered,
        }
    }
}

/// The plan of a session.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The files and pieces as a model.
    pub model: ModelInfo,
    /// The runs in order.
    pub lanes: Vec<Engine>,
    /// The order for each run.
    pub order: WorkloadOrder,
    /// Notes that are shown before the first run.
    pub notes: Vec<String>,
    /// Sentences about parts of the request that are not possible. They are also in the report.
    pub warnings: Vec<String>,
    /// Maximum number of bytes on the disk at the same time.
    pub disk_bytes: u64,
    /// The demand of the first run on cuFile.
    pub demand: Demand,
    /// The shipped settings of libcufile that must be written.
    settings: Option<&'static str>,
}

impl Plan {
    /// Whether several variants write or read, so that one of them is the fastest.
    #[must_use]
    pub fn compares(&self) -> bool {
        let of = |access| {
            let same = |lane: &&Engine| matches!(lane, Engine::Workload(lane) if lane.access == access);
            self.lanes.iter().filter(same).count()
        };
        of(Access::Write) > 1 || of(Access::Read) > 1
    }

    /// Prepares the plan for the directory, which must exist. Writes libcufile's settings and adds the identity of the
    /// directory to the order of the runs. Planning itself changes nothing.
    ///
    /// # Errors
    /// Returns a sentence with the error of the operating system.
    pub fn settle(&mut self, folder: &mut Folder) -> Result<(), PlanError> {
        if let Some(text) = self.settings {
            let file = folder
                .write_settings(text)
                .map_err(|e| PlanError(format!("the settings of libcufile cannot be written: {e}")))?;
            self.order.environment.insert(CUFILE_JSON.to_owned(), file.to_string_lossy().into_owned());
        }
        let id =
            serde_json::to_value(folder.id()).map_err(|e| PlanError(format!("the order cannot be written: {e}")))?;
        if let Some(order) = self.order.order.as_object_mut() {
            order.insert("folder_id".to_owned(), id);
        }
        Ok(())
    }
}

/// Plans a session whose files are in `folder`.
///
/// # Errors
/// Returns a sentence with the invalid part of the request and the valid values.
pub fn plan(request: &Request, folder: &Path) -> Result<Plan, PlanError> {
    let kind = request.kind;
    let (usual_shape, usual_tokens) = kind.usual();
    let shape = Shape::named(request.shape.as_deref().unwrap_or(usual_shape)).map_err(PlanError)?;
    if !(0.0..=1.0).contains(&request.hit_rate) {
        return Err(PlanError(format!("--hit-rate is {}, but must be 0 to 1", request.hit_rate)));
    }
    if request.provoke.is_some() && kind != KvSystem::Llmd {
        return Err(PlanError(format!(
            "{} does not fall back, so there is nothing to provoke; llmd does",
            kind.name()
        )));
    }
    if request.provoke == Some(FallbackReason::Misaligned) {
        return Err(PlanError("llmd does not check the alignment; ucm with --misalign does".to_owned()));
    }
    if request.gds_mode.is_some()
        && (kind != KvSystem::Llmd || !request.variants.is_empty() || request.compare.is_some())
    {
        return Err(PlanError(
            "--gds-mode is a setting of llmd that determines the variants, so it cannot be combined with --variants or --compare"
                .to_owned(),
        ));
    }
    let mut settings = BTreeMap::new();
    for text in &request.settings {
        let (name, value) = params::parse(kind, text).map_err(PlanError)?;
        settings.insert(name, value);
    }
    // If lookups cannot find any file, nothing is written.
    let (write, read) = (request.directions.0 && request.hit_rate > 0.0, request.directions.1);
    if !write && !read {
        return Err(PlanError("at a hit rate of 0 there is nothing to write; leave out --direction write".to_owned()));
    }
    let order = KvOrder {
        kind,
        shape,
        tokens: request.tokens.unwrap_or(usual_tokens),
        batch: request.batch,
        hit_rate: request.hit_rate,
        seed: request.seed,
        folder: folder.to_owned(),
        folder_id: None,
        settings,
        provoke: request.provoke,
        prepare: !write && !request.as_found,
    };
    let directions: Vec<Access> =
        [(Access::Write, write), (Access::Read, read)].iter().filter(|(_, wanted)| *wanted).map(|(d, _)| *d).collect();
    let mut variants = named(request)?;
    let mut warnings = Vec::new();
    if let Some(compare) = &request.compare {
        let (all, said) = compared(&order, &variants, compare, &directions)?;
        variants = all;
        warnings.extend(said);
    }
    let mut unused = Unused::new(&order);
    let mut lanes = Vec::new();
    let mut model = None;
    let mut disk_bytes = 0;
    let mut demand = Demand::default();
    for variant in &variants {
        for direction in &directions {
            let of_mode = request.gds_mode.map(|mode| mode.variant(*direction));
            let lane = Planned::new(&order, of_mode.as_ref().unwrap_or(variant), *direction)?;
            impossible(&lane)?;
            let files = lane.layout.model(&order);
            let concurrent = if lane.lane.write { 0 } else { lane.settings.get(KvSetting::WritePercent) };
            // Concurrently written files are in the same directory as the files that are read.
            let all = files.file_bytes().saturating_mul(100 + concurrent) / 100;
            disk_bytes = disk_bytes.max(all);
            // Runs that divide files differently are measured too. The map of pieces is that of the first run.
            model.get_or_insert(files);
            lanes.push(Engine::Workload(lane.lane.lane.clone()));
            unused.see(&lane);
            warnings.extend(one_registration(&order, &lane).filter(|said| !warnings.contains(said)));
            if lanes.len() == 1 {
                demand = Demand::of(&order, &lane);
                warnings.extend(rounded(&order, request, &lane.layout));
            }
        }
    }
    warnings.extend(unused.said());
    let model = model.ok_or_else(|| PlanError("there is nothing to run: pass a variant and a direction".to_owned()))?;
    let mut notes = Vec::new();
    let (environment, settings) = environment(request, &mut notes)?;
    let order = serde_json::to_value(&order).map_err(|e| PlanError(format!("the order cannot be written: {e}")))?;
    Ok(Plan {
        model,
        lanes,
        order: WorkloadOrder { child: CHILD.to_owned(), environment, order },
        notes,
        warnings,
        disk_bytes,
        demand,
        settings,
    })
}

/// Checks for settings that contradict each other.
fn impossible(lane: &Planned) -> Result<(), PlanError> {
    let region = lane.settings.get(KvSetting::RegionBytes);
    if (1..LEAST_REGION).contains(&region) {
        return Err(PlanError(format!("region_bytes is {region}, but must be 0 or at least {LEAST_REGION}")));
    }
    if !lane.layout.scattered && lane.settings.on(KvSetting::DirectSlot) && lane.settings.on(KvSetting::Register) {
        return Err(PlanError(
            "register=1 registers the staging slab, but direct_slot=1 does not use it; use the variant gds".to_owned(),
        ));
    }
    Ok(())
}

/// A warning about asynchronous transfers into one large registration. On an H200 with libcufile 1.15 in compat mode
/// they failed with -5 or returned wrong bytes. Neither LMCache's back end (synchronous) nor its GDS L1 (regions of
/// 16 MiB) makes such transfers.
fn one_registration(order: &KvOrder, lane: &Planned) -> Option<String> {
    let (settings, layout) = (&lane.settings, &lane.layout);
    let on = settings.on(KvSetting::Async) && settings.on(KvSetting::Register) && layout.scattered;
    let large = layout.largest > ASYNC_REGION && settings.get(KvSetting::RegionBytes) == 0;
    (order.kind == KvSystem::Lmcache && on && large).then(|| {
        format!(
            "async=1 with one registration: with libcufile 1.15 in compat mode such transfers failed or returned wrong bytes. LMCache does not make them: its back end is synchronous, and its GDS L1 registers regions: --set region_bytes={ASYNC_REGION}"
        )
    })
}

/// The named variants, or else the default ones. With `--gds-mode` they differ by direction.
fn named(request: &Request) -> Result<Vec<String>, PlanError> {
    if let Some(mode) = request.gds_mode {
        return Ok(vec![mode.variant(Access::Read)]);
    }
    if request.variants.is_empty() {
        return Ok(request.kind.usual_variants().iter().map(|path| path.name().to_owned()).collect());
    }
    match request.variants.iter().enumerate().find(|(at, variant)| request.variants[..*at].contains(variant)) {
        Some((_, twice)) => {
            Err(PlanError(format!("--variants names {twice} twice; --repeat N runs each of them N times")))
        }
        None => Ok(request.variants.clone()),
    }
}

/// A note with the actual hit rate, if complete files cannot give the requested rate.
fn rounded(order: &KvOrder, request: &Request, layout: &Layout) -> Vec<String> {
    let mut said = Vec::new();
    if order.hit_rate == 0.0 && request.directions.0 {
        said.push(
            "at a hit rate of 0 nothing is stored, so nothing is written: the reads are lookups that find nothing"
                .to_owned(),
        );
    }
    let files = layout.asked.first().map_or(0, |keys| keys.len() as u64);
    let stored = stored_of(files, order.hit_rate);
    if files > 0 && (stored as f64 - files as f64 * order.hit_rate).abs() > 1e-6 {
        said.push(format!(
            "a hit rate of {} with {files} files per sequence gives {stored} stored files, which is {:.1} %",
            order.hit_rate,
            100.0 * stored as f64 / files as f64
        ));
    }
    said
}

/// The environment of the runs, and the settings of libcufile that must be written for it.
type Settings = (BTreeMap<String, String>, Option<&'static str>);

/// The environment of the runs, which contains the path of libcufile's settings.
fn environment(request: &Request, notes: &mut Vec<String>) -> Result<Settings, PlanError> {
    let wanted = match (&request.cufile_json, request.kind) {
        (Some(named), _) => Some(named.as_str()),
        (None, KvSystem::Llmd) if std::env::var_os(CUFILE_JSON).is_some() => {
            notes.push(format!(
                "{CUFILE_JSON} is set, so the settings of llm-d are not used; --cufile-json llmd uses them anyway"
            ));
            None
        }
        (None, KvSystem::Llmd) => Some("llmd"),
        (None, _) => None,
    };
    let file: PathBuf = match wanted {
        None | Some("none") => return Ok((BTreeMap::new(), None)),
        Some(name) => match CUFILE_PROFILES.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => {
                notes.push(format!("runs with cuFile use the settings '{name}' (profiles/cufile/{name}.json); --cufile-json none does not use them"));
                return Ok((BTreeMap::new(), Some(*text)));
            }
            None => std::fs::canonicalize(name).map_err(|e| {
                let known: Vec<&str> = CUFILE_PROFILES.iter().map(|(name, _)| *name).collect();
                PlanError(format!(
                    "--cufile-json must be {}, none or a file; '{name}' is none of them: {e}",
                    known.join(", ")
                ))
            })?,
        },
    };
    Ok((BTreeMap::from([(CUFILE_JSON.to_owned(), file.to_string_lossy().into_owned())]), None))
}

#[cfg(test)]
mod tests;
