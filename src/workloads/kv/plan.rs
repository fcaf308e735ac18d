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

    /// Prepares the plan for the folder, which must exist. Writes libcufile's settings and adds the identity of the
    /// folder to the order of the runs. Planning itself changes nothing.
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
            let beside = if lane.lane.write { 0 } else { lane.settings.get(KvSetting::WritePercent) };
            // Concurrently written files are in the same folder as the files that are read.
            let all = files.file_bytes().saturating_mul(100 + beside) / 100;
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn request(kind: KvSystem) -> Request {
        Request { cufile_json: Some("none".to_owned()), ..Request::usual(kind) }
    }

    fn names(plan: &Plan) -> Vec<String> {
        plan.lanes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_variant_writes_and_then_reads() {
        let plan = plan(&request(KvSystem::Lmcache), Path::new("/kv")).unwrap();
        assert_eq!(
            names(&plan),
            ["disk", "ram", "gds", "gds-registered"]
                .iter()
                .flat_map(|v| ["write", "read"].map(|d| format!("lmcache/{v}/{d}")))
                .collect::<Vec<_>>()
        );
        assert_eq!(plan.model.name, "lmcache llama-3.1-70b 2k");
        // 2048 tokens of 320 KiB each, in 8 chunks.
        assert_eq!((plan.model.tensor_bytes(), plan.model.shards.len()), (640 << 20, 8));
    }

    #[test]
    fn a_comparison_runs_every_variant_with_every_value() {
        let mut asked = request(KvSystem::Ucm);
        asked.variants = vec!["gds".to_owned()];
        asked.compare = Some("handle_cache=0,65536".to_owned());
        asked.directions = (false, true);
        assert_eq!(
            names(&plan(&asked, Path::new("/kv")).unwrap()),
            ["ucm/gds:handle_cache=0/read", "ucm/gds:handle_cache=65536/read"]
        );
        asked.compare = Some("handle_cache=0,x".to_owned());
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("not a number"));
        asked.compare = Some("handle_cache=7,07".to_owned());
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("names 7 twice"));
    }

    #[test]
    fn a_comparison_without_effect_is_rejected_or_reported() {
        let of = |kind: KvSystem, variants: &[&str], compare: &str, set: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
            let asked = Request {
                variants: owned(variants),
                compare: Some(compare.to_owned()),
                settings: owned(set),
                directions: (false, true),
                ..request(kind)
            };
            plan(&asked, Path::new("/kv"))
        };
        for (kind, variants, compare, set, part) in [
            (KvSystem::Ucm, &["ram"][..], "handle_cache=0,65536", &[][..], "host memory has no files"),
            (KvSystem::Ucm, &["disk"], "register=0,1", &[], "does not use cuFile"),
            (KvSystem::Ucm, &["gds"], "async_depth=1,16", &[], "async=1"),
            (KvSystem::Lmcache, &["gds"], "prefetch_factor=0,2", &["enable_layerwise=0"], "enable_layerwise=1"),
            (KvSystem::Lmcache, &["gds"], "fsync=0,1", &[], "only affects writes"),
            (
                KvSystem::Lmcache,
                &["gds"],
                "prefetch_factor=500,900",
                &["enable_layerwise=1"],
                "have the same effect as 80",
            ),
            (KvSystem::Llmd, &["gds", "staging"], "read_priority=0,1", &[], "write_percent"),
        ] {
            let said = of(kind, variants, compare, set).unwrap_err().0;
            assert!(said.contains(part) && said.contains(compare), "{compare}: {said}");
        }
        let plan = of(KvSystem::Ucm, &["ram", "gds"], "handle_cache=0,65536", &[]).unwrap();
        assert_eq!(names(&plan), ["ucm/ram/read", "ucm/gds:handle_cache=0/read", "ucm/gds:handle_cache=65536/read"]);
        assert!(plan.warnings[0].contains("ram (host memory has no files)"), "{:?}", plan.warnings);
        assert_eq!(of(KvSystem::Ucm, &["gds"], "async_depth=1,16", &["async=1"]).unwrap().warnings, [""; 0]);
    }

    #[test]
    fn a_setting_without_effect_is_reported() {
        let of = |variants: &[&str], set: &str| {
            let mut asked = request(KvSystem::Llmd);
            asked.variants = variants.iter().map(|one| (*one).to_owned()).collect();
            asked.settings = vec![set.to_owned()];
            plan(&asked, Path::new("/kv")).unwrap().warnings
        };
        for (variants, set, part) in [
            (&["gds"][..], "register=2", "gds:register=N"),
            (&["staging", "ram"], "register=1", "does not use cuFile"),
            (&["gds:handle_cache=3"], "handle_cache=4", "set it themselves"),
        ] {
            let said = of(variants, set);
            assert!(said.len() == 1 && said[0].contains(part) && said[0].contains(set), "{said:?}");
        }
        assert_eq!(of(&[], "register=2"), [""; 0]);
        assert_eq!(of(&["gds"], "fsync=1"), [""; 0]);
    }

    #[test]
    fn a_hit_rate_of_zero_writes_nothing_and_an_impossible_one_is_reported() {
        let mut asked = request(KvSystem::Lmcache);
        asked.variants = vec!["disk".to_owned()];
        asked.hit_rate = 0.0;
        let all_misses = plan(&asked, Path::new("/kv")).unwrap();
        assert_eq!((names(&all_misses), all_misses.disk_bytes), (vec!["lmcache/disk/read".to_owned()], 0));
        assert!(all_misses.warnings[0].contains("nothing is written"));
        asked.directions = (true, false);
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("nothing to write"));
        asked.directions = (true, true);
        asked.tokens = Some(768);
        asked.hit_rate = 0.5;
        let odd = plan(&asked, Path::new("/kv")).unwrap();
        assert_eq!(odd.model.shards.len(), 2);
        assert_eq!(odd.warnings, ["a hit rate of 0.5 with 3 files per sequence gives 2 stored files, which is 66.7 %"]);
        asked.tokens = Some(1024);
        assert_eq!(plan(&asked, Path::new("/kv")).unwrap().warnings, [""; 0]);
    }

    #[test]
    fn what_cannot_be_is_a_sentence() {
        let mut asked = request(KvSystem::Ucm);
        asked.provoke = Some(FallbackReason::InitFailed);
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("does not fall back"));
        let mut asked = request(KvSystem::Llmd);
        asked.hit_rate = -0.1;
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("--hit-rate"));
        asked.hit_rate = 1.0;
        asked.settings = vec!["gpu_block=15".to_owned()];
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("not a multiple of"));
        asked.settings.clear();
        asked.cufile_json = Some("/none/such.json".to_owned());
        assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("--cufile-json"));
    }
}
