//! Plans that the user can choose during a session: it lists the files that each plan would write, and runs a plan.

use super::examine::Examiner;
use super::plan::{GridRequest, WorkloadPlan};
use super::session::{After, Session, Source, default_path};
use crate::core::{
    Access, Engine, EventBody, GridPlan, KvSystem, LogLevel, ModelInfo, Pattern, RacePlan, Transfer, units,
};
use crate::models::{KeptModel, WeightsError};
use crate::session::race_plans::{self, Kept, What};
use crate::workloads::io;
use crate::workloads::kv::{self, Folder};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two progress events while a model is written.
const SHOWN_EVERY: Duration = Duration::from_millis(100);
/// Seed of the grid's files. The value has no meaning.
const GRID_SEED: u64 = 0x6764_735f_746f_7000;

impl Session {
    /// Reports the plans that can be run.
    pub(super) fn offer_plans(&self) {
        // Nothing can be measured on a captured machine.
        if self.config.folder.is_some() {
            return;
        }
        let place = self.place();
        let plans = race_plans::all().iter().map(|kept| self.offer(kept, &place)).collect();
        self.bus.emit(EventBody::RacePlansOffered { plans });
    }

    fn offer(&self, kept: &Kept, place: &Result<PathBuf, String>) -> RacePlan {
        let described = |writes: Option<String>, obstacle: Option<String>| RacePlan {
            name: kept.name.clone(),
            title: self.title(kept),
            answers: kept.answers.clone(),
            writes,
            obstacle,
        };
        let writes = match &kept.run {
            What::Load { .. } => self.model_writes().map_err(|error| error.to_string()),
            What::Kv { workload } => match self.own_kv(*workload) {
                Some(own) => Ok(Some(own_writes(own))),
                None => place.clone().and_then(|dir| self.kv_writes(*workload, &dir)).map(Some),
            },
            What::Grid { file_bytes, .. } => place.clone().and_then(|dir| {
                let (dir, file_bytes) = match &self.config.grid {
                    Some(own) => (own.plan.dir.clone(), own.plan.file_bytes),
                    None => (dir, *file_bytes),
                };
                io::room_for(&dir, file_bytes).map_err(|error| error.to_string())?;
                let size = units::bytes(file_bytes);
                Ok(Some(format!(
                    "writes two files of {size} into a new directory in {}, overwrites one of them during the measurement, and removes both",
                    dir.display()
                )))
            }),
        };
        match writes {
            Ok(writes) => described(writes, None),
            Err(why) => described(None, Some(why)),
        }
    }

    /// A sentence about the files of a plan that loads. A session without a model writes a synthetic one.
    fn model_writes(&self) -> Result<Option<String>, WeightsError> {
        let kept = match self.loaded.first() {
            Some(_) => None,
            None => match Source::of(self.config.model.as_deref())? {
                Source::Opened(_) => None,
                Source::Demo => Some(KeptModel::demo()?),
                Source::Profile(profile) => Some(KeptModel::full(profile)?),
            },
        };
        let Some(kept) = kept.filter(|kept| kept.written().is_none()) else {
            return Ok(None);
        };
        kept.fits()?;
        Ok(Some(writes(&kept)))
    }

    fn title(&self, kept: &Kept) -> String {
        let model = self.loaded.first().map_or("the small synthetic model", |model| model.name.as_str());
        match &kept.run {
            What::Load { caches } if caches.is_empty() => format!("load {model}"),
            What::Load { .. } => format!("load {model}, cold and hot"),
            _ => kept.name.clone(),
        }
    }

    /// The workload with which the session was started, if it is of this kind.
    fn own_kv(&self, kind: KvSystem) -> Option<&WorkloadPlan> {
        let of = |lane: &Engine| matches!(lane, Engine::Workload(lane) if lane.system == kind);
        self.config.workload.as_ref().filter(|plan| plan.lanes.iter().all(of))
    }

    fn kv_writes(&self, kind: KvSystem, dir: &Path) -> Result<String, String> {
        let folder = dir.join(format!("gds-top-kv-{}", kind.name()));
        let plan = kv::plan(&kv::Request::usual(kind), &folder).map_err(|error| error.to_string())?;
        let space = rustix::fs::statvfs(dir)
            .map_err(|error| format!("the free space of {} is unknown: {error}", dir.display()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < plan.disk_bytes {
            return Err(format!(
                "it needs {} on the disk, but {} has {} free; run 'gds-top bench-kv {} DIR' with another directory or fewer --tokens",
                units::bytes(plan.disk_bytes),
                dir.display(),
                units::bytes(free),
                kind.name()
            ));
        }
        let size = units::bytes(plan.disk_bytes);
        Ok(format!(
            "writes up to {size} at once into the new directory {}, which is removed at the end",
            folder.display()
        ))
    }

    /// The directory into which plans may write: the directory of the model, so that the storage is the same, or else the
    /// working directory.
    fn place(&self) -> Result<PathBuf, String> {
        let model = match (&self.config.grid, &self.config.workload) {
            (Some(grid), _) => Some(grid.plan.dir.clone()),
            (None, Some(workload)) => workload.model.path.parent().map(Path::to_owned),
            (None, None) => self.loaded.first().map(|model| model.path.clone()),
        };
        let device = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.dev());
        let beside = model.as_deref().and_then(|path| {
            if self.config.grid.is_some() || self.config.workload.is_some() {
                return None;
            }
            path.parent()
                .filter(|parent| device(parent).is_some() && device(parent) == device(path))
                .map(Path::to_owned)
        });
        let candidates: Vec<PathBuf> = [beside, model, Some(default_path())].into_iter().flatten().collect();
        let writable = |dir: &&PathBuf| dir.is_dir() && rustix::fs::access(*dir, rustix::fs::Access::WRITE_OK).is_ok();
        candidates.iter().find(writable).cloned().ok_or_else(|| {
            let tried: Vec<String> = candidates.iter().map(|dir| dir.display().to_string()).collect();
            format!("no directory can be written to; tried {}", tried.join(" and "))
        })
    }

    /// Runs a plan on a separate page.
    pub(super) fn run_plan(&mut self, name: &str, examiner: &mut Examiner) -> After {
        let Some(kept) = race_plans::named(name) else {
            self.bus.say(LogLevel::Error, format!("plan '{name}' does not exist"));
            return After::GoOn;
        };
        // Each plan starts with the original settings of the session.
        let own = self.config.clone();
        let after = match self.begin(kept, examiner) {
            Ok(after) => after,
            Err(why) => {
                self.bus.say(LogLevel::Error, format!("{name} cannot be run: {why}"));
                After::GoOn
            }
        };
        self.config = own;
        // The plans are listed again, because the free space has changed and newly opened models have names now.
        if after == After::GoOn {
            self.offer_plans();
        }
        after
    }

    fn begin(&mut self, kept: &Kept, examiner: &mut Examiner) -> Result<After, String> {
        match &kept.run {
            What::Load { caches } => {
                let models = self.models()?;
                if self.config.workload.take().is_some() || self.config.grid.take().is_some() {
                    self.config.engines = None;
                }
                if !caches.is_empty() {
                    self.config.caches.clone_from(caches);
                }
                self.turn_page(kept);
                self.send_models(&models);
                let engines = self.config.engines.clone();
                Ok(self.race(&models, engines, examiner))
            }
            What::Kv { workload } => self.kv(kept, *workload, examiner),
            What::Grid { block_bytes, threads, file_bytes, cell_ns } => {
                let request = match self.config.grid.clone() {
                    Some(own) => own,
                    None => GridRequest {
                        plan: GridPlan {
                            dir: self.place()?,
                            target: String::new(),
                            file_bytes: *file_bytes,
                            cell_ns: *cell_ns,
                            cells: GridPlan::cells_of(Transfer::ALL, Access::ALL, Pattern::ALL, block_bytes, threads),
                        },
                        able_only: true,
                        libcufile: None,
                        seed: GRID_SEED,
                    },
                };
                io::room_for(&request.plan.dir, request.plan.file_bytes).map_err(|error| error.to_string())?;
                self.turn_page(kept);
                Ok(self.grid(&request))
            }
        }
    }

    fn kv(&mut self, kept: &Kept, kind: KvSystem, examiner: &mut Examiner) -> Result<After, String> {
        // The directory of the session's workload is already open, with the requested settings.
        let own = self.own_kv(kind).cloned();
        if let Some(plan) = own {
            self.turn_page(kept);
            self.send_warnings();
            self.send_models(std::slice::from_ref(&plan.model));
            let engines = self.config.engines.clone();
            return Ok(self.race(&[plan.model], engines, examiner));
        }
        let dir = self.place()?;
        self.kv_writes(kind, &dir)?;
        let mut folder = Folder::open(&dir, kind.name(), false, false).map_err(|error| error.to_string())?;
        let planned = kv::plan(&kv::Request::usual(kind), folder.path())
            .and_then(|mut plan| plan.settle(&mut folder).map(|()| plan));
        let after = match planned {
            Ok(plan) => {
                self.turn_page(kept);
                for note in &plan.notes {
                    self.bus.say(LogLevel::Info, note.clone());
                }
                // llm-d continues without cuFile, so this is a valid result.
                let engines = (kind == KvSystem::Llmd).then(|| plan.lanes.clone());
                let models: [ModelInfo; 1] = [plan.model.clone()];
                self.config.grid = None;
                let warnings = plan.warnings;
                self.config.workload =
                    Some(WorkloadPlan { model: plan.model, lanes: plan.lanes, order: plan.order, warnings });
                // Settings of engines have no meaning for a workload.
                self.config.settings.clear();
                self.config.variants.clear();
                self.send_models(&models);
                Ok(self.race(&models, engines, examiner))
            }
            Err(error) => Err(error.to_string()),
        };
        if let Some(text) = folder.close() {
            self.bus.say(LogLevel::Warn, text);
        }
        after
    }

    fn turn_page(&mut self, kept: &Kept) {
        self.plan = Some(kept.name.clone());
        self.bus.emit(EventBody::RacePlanStarted { name: kept.name.clone(), title: self.title(kept) });
    }

    /// The model and all models that are loaded together with it. Models are distinguished by their names, so a
    /// second model with the same name gets a number.
    pub(super) fn all_models(&mut self, first: ModelInfo) -> Vec<ModelInfo> {
        let mut models = vec![first];
        for mut model in std::mem::take(&mut self.others) {
            let name = model.name.clone();
            let mut number = 2;
            while models.iter().any(|known| known.name == model.name) {
                model.name = format!("{name} ({number})");
                number += 1;
            }
            models.push(model);
        }
        models
    }

    /// The models of a race without a plan. They are opened if the session has none. `None` if there is nothing to
    /// load, which is reported.
    pub(super) fn opened(&mut self, models: &[ModelInfo]) -> Option<Vec<ModelInfo>> {
        if !models.is_empty() || self.config.folder.is_some() || self.config.grid.is_some() {
            return Some(models.to_vec());
        }
        let opened = self.models().inspect_err(|why| self.bus.say(LogLevel::Error, why.clone())).ok()?;
        self.send_models(&opened);
        Some(opened)
    }

    /// The models for plans that load. They are opened now if the session began with something else.
    fn models(&mut self) -> Result<Vec<ModelInfo>, String> {
        if self.loaded.is_empty() {
            let opened = Source::of(self.config.model.as_deref()).and_then(|source| self.open(source, &mut || true));
            self.loaded = vec![opened.map_err(|error| error.to_string())?];
        }
        Ok(self.loaded.clone())
    }

    pub(super) fn send_models(&self, models: &[ModelInfo]) {
        for model in models.iter().rev() {
            self.bus.emit(EventBody::ModelOpened { model: model.clone() });
        }
    }

    /// Opens the model, or writes it first. Stops if `go_on` returns false.
    pub(super) fn open(&self, source: Source, go_on: &mut dyn FnMut() -> bool) -> Result<ModelInfo, WeightsError> {
        let mut shown: Option<Instant> = None;
        let mut written = |bytes: u64, of_bytes: u64| {
            if shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY) {
                shown = Some(Instant::now());
                self.bus.emit(EventBody::ModelFilesWritten { bytes, of_bytes });
            }
            go_on()
        };
        match source {
            Source::Opened(model) => Ok(model),
            Source::Demo => {
                let kept = KeptModel::demo()?;
                self.bus.say(LogLevel::Info, format!("no model was named: {}", loaded(&kept)));
                kept.open_or_write(&mut written)
            }
            Source::Profile(profile) => {
                let kept = KeptModel::full(profile)?;
                self.bus.say(LogLevel::Info, loaded(&kept));
                kept.open_or_write(&mut written)
            }
        }
    }
}

/// A sentence about the files of a synthetic model that does not exist yet.
fn writes(kept: &KeptModel) -> String {
    let (size, dir) = (units::bytes(kept.bytes()), kept.dir().display());
    format!("writes a synthetic model of {size} to {dir} and keeps it for later runs")
}

/// A sentence about the synthetic model that is loaded.
fn loaded(kept: &KeptModel) -> String {
    match kept.written() {
        Some(_) => format!("loads the synthetic model in {}", kept.dir().display()),
        None => writes(kept),
    }
}

/// A sentence about the files that the session's workload writes.
fn own_writes(own: &WorkloadPlan) -> String {
    if own.lanes.iter().all(|lane| lane.direction() == Some(Access::Read)) {
        return "reads, with the settings of this session".to_owned();
    }
    format!(
        "with the settings of this session: writes {} at once into its directory {}",
        units::bytes(own.model.file_bytes()),
        own.model.path.display()
    )
}
