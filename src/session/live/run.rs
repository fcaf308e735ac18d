//! The session's own thread: looks at the machine, opens the model, runs the race, then serves commands until it is told to end.

use super::bus::Bus;
use super::ceilings;
use super::child::probe_child;
use super::examine::{Examiner, view};
use super::follow::Follower;
use super::gate;
use super::lanes::{self, LaneEnd};
use super::plan::{GpuChoice, SessionConfig};
use super::race_plans::LOAD;
use super::{targets, turns};
use crate::device::heap;
use crate::domain::{CacheState, Engine, EventBody, LaneId, LaneOrder, LogLevel, ModelInfo, Target};
use crate::engines;
use crate::session::recording::RecordingError;
use crate::session::{Command, Feed};
use crate::telemetry::{self, GpuRef, Sampler, SamplerConfig, SystemWatch};
use crate::weights::{self, Profile, WeightsError};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit of a probe of CUDA or libcufile: opening either takes under two seconds where it works.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The model cannot be used.
    #[error("{0}")]
    Weights(#[from] WeightsError),
    /// The recording cannot be written.
    #[error("{0}")]
    Recording(#[from] RecordingError),
    /// A temporary folder or thread could not be made.
    #[error("{doing} failed: {source}; check free space and limits of {}", std::env::temp_dir().display())]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Starts a live session. A model that was named is opened here, so that a bad one is an error before anything is shown.
///
/// # Errors
/// When the model is malformed or missing, or the recording cannot be made.
pub fn start(config: SessionConfig) -> Result<Feed, SessionError> {
    heap::keep_small();
    let source = match (&config.model, &config.workload) {
        (_, Some(plan)) => Source::Opened(plan.model.clone()),
        (None, None) => Source::Demo,
        // A path wins over a profile of the same name.
        (Some(named), None) if !Path::new(named).exists() && Profile::names().contains(&named.as_str()) => {
            Source::Profile(Profile::named(named)?)
        }
        (Some(named), None) => Source::Opened(weights::open(named)?),
    };
    let others: Vec<ModelInfo> = config.together_with.iter().map(weights::open).collect::<Result<_, _>>()?;
    let (event_sender, events) = unbounded();
    let (commands, command_receiver) = unbounded();
    let bus = Bus::new(event_sender, config.record.as_deref())?;
    let scratch = tempfile::Builder::new()
        .prefix("gds-top-")
        .tempdir()
        .map_err(|source| SessionError::System { doing: "making a temporary folder", source })?;
    let watcher = Watcher { bus: bus.clone(), running: Arc::default() };
    let session = Session {
        config,
        bus,
        commands: command_receiver,
        scratch,
        next_lane: 0,
        watcher,
        others,
        loaded: Vec::new(),
        plan: None,
    };
    std::thread::Builder::new()
        .name("session".to_owned())
        .spawn(move || session.run(source))
        .map_err(|source| SessionError::System { doing: "starting the session's thread", source })?;
    Ok(Feed { events, commands, replay: false })
}

pub(super) struct Session {
    pub(super) config: SessionConfig,
    pub(super) bus: Bus,
    pub(super) commands: Receiver<Command>,
    pub(super) scratch: tempfile::TempDir,
    next_lane: u32,
    pub(super) watcher: Watcher,
    /// Models that are loaded together with the first.
    pub(super) others: Vec<ModelInfo>,
    /// The models of plans that load, once they are opened.
    pub(super) loaded: Vec<ModelInfo>,
    /// The name of the plan that ran last, where it was not the one that the session began with.
    pub(super) plan: Option<String>,
}

/// Looks at who uses the machine while a front asks for it; shared with the thread that listens while a lane runs.
#[derive(Clone)]
pub(super) struct Watcher {
    bus: Bus,
    running: Arc<Mutex<Option<SystemWatch>>>,
}

impl Watcher {
    fn set(&self, on: bool) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if on && running.is_none() {
            let bus = self.bus.clone();
            match SystemWatch::start(move |system| bus.show(EventBody::SystemSeen { system })) {
                Ok(watch) => *running = Some(watch),
                Err(error) => self.bus.say(LogLevel::Warn, format!("the machine cannot be watched: {error}")),
            }
        } else if !on {
            *running = None;
        }
    }
}

/// Where the model comes from.
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Source {
    Opened(ModelInfo),
    Profile(Profile),
    Demo,
}

/// Whether the session goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    GoOn,
    Quit,
}

impl Session {
    fn run(mut self, source: Source) {
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        let tool = concat!("gds-top ", env!("CARGO_PKG_VERSION")).to_owned();
        self.bus.emit(EventBody::SessionStarted { tool, unix_ms });
        let interrupted = self.work(source) == After::Quit;
        self.watcher.set(false);
        // Before the end is told, for a front may end the process then, and nothing would remove the folder.
        if let Err(error) = self.scratch.close() {
            self.bus.say(LogLevel::Warn, format!("the session's temporary folder is left behind: {error}"));
        }
        self.bus.emit(EventBody::SessionEnded { interrupted });
        self.bus.finish();
    }

    fn work(&mut self, source: Source) -> After {
        let path = match &source {
            Source::Opened(model) => model.path.clone(),
            _ if self.config.grid.is_some() => {
                self.config.grid.as_ref().map_or_else(default_path, |g| g.plan.dir.clone())
            }
            // Synthetic models are made in the cache folder, so that is whose disk matters. On a first run it does not exist yet: a race makes it now, and
            // whoever only reads is told of the folder that it would come into.
            _ => weights::cache_folder()
                .ok()
                .and_then(|folder| {
                    if self.config.race {
                        return std::fs::create_dir_all(&folder).is_ok().then_some(folder);
                    }
                    folder.ancestors().find(|ancestor| ancestor.is_dir()).map(Path::to_path_buf)
                })
                .unwrap_or_else(default_path),
        };
        let gpu = match &self.config.gpu {
            GpuChoice::Index(index) => Some(index.to_string()),
            GpuChoice::Uuid(uuid) => Some(uuid.clone()),
            GpuChoice::Auto | GpuChoice::Host | GpuChoice::All | GpuChoice::Several(_) => None,
        };
        // Whoever loads into host memory wants no CUDA opened.
        let exe = (!self.config.gpu.is_host()).then(|| self.config.exe.clone());
        let mut examiner = Examiner::new(self.bus.clone(), path, gpu, exe).of(self.config.folder.clone());
        let root = match view(self.config.folder.as_deref()) {
            Ok(root) => root,
            Err(why) => {
                self.bus.say(LogLevel::Error, why);
                return self.serve(&mut examiner, &[]);
            }
        };
        if self.config.checks {
            examiner.recover();
            // The slow answers are fetched beside the quick checks, and the machine's description needs some of them.
            examiner.check_with(&root);
        } else {
            examiner.machine(&root);
        }
        drop(root);
        // The checks read much and keep little.
        heap::give_back();
        if self.config.folder.is_some() {
            return self.serve(&mut examiner, &[]);
        }
        if let Some(request) = self.config.grid.clone() {
            if self.grid(&request) == After::Quit {
                return After::Quit;
            }
            return self.serve(&mut examiner, &[]);
        }
        // A model that is made for whoever names none is made when it is raced: a lesson is read without writing anything.
        if matches!(source, Source::Demo) && !self.config.race {
            return self.serve(&mut examiner, &[]);
        }
        let model = match self.open(source) {
            Ok(model) => model,
            Err(error) => {
                self.bus.say(LogLevel::Error, error.to_string());
                return self.serve(&mut examiner, &[]);
            }
        };
        let models = self.all_models(model);
        if self.config.workload.is_none() {
            self.loaded.clone_from(&models);
        }
        self.tell_models(&models);
        if self.config.race {
            let engines = self.config.engines.clone();
            if self.race(&models, engines, &mut examiner) == After::Quit {
                return After::Quit;
            }
        }
        self.serve(&mut examiner, &models)
    }

    /// Serves commands until the end.
    fn serve(&mut self, examiner: &mut Examiner, models: &[ModelInfo]) -> After {
        if self.config.end_after_race {
            return After::GoOn;
        }
        self.offer_plans();
        while let Ok(command) = self.commands.recv() {
            match command {
                Command::Recheck => examiner.check(),
                Command::ApplyFix(id) => examiner.apply(&id),
                Command::DryRunFix(id) => examiner.dry_run(&id),
                Command::UndoFix(id) => examiner.undo(&id),
                Command::Race(engines) => {
                    let after = match &self.plan {
                        None => {
                            let engines = engines.or_else(|| self.config.engines.clone());
                            match self.opened(models) {
                                Some(models) => self.race(&models, engines, examiner),
                                None => After::GoOn,
                            }
                        }
                        // Another plan ran since: what is loaded now has a page of its own.
                        Some(_) => self.run_plan(LOAD, examiner),
                    };
                    if after == After::Quit {
                        return After::GoOn;
                    }
                }
                Command::RunPlan(name) => {
                    if self.run_plan(&name, examiner) == After::Quit {
                        return After::GoOn;
                    }
                }
                Command::Quit => return After::GoOn,
                Command::WatchSystem(on) => self.watcher.set(on),
                Command::CancelRace | Command::Pause(_) | Command::Speed(_) => {}
            }
        }
        After::GoOn
    }

    /// Plans all lanes, then runs them: one after another, or those of a turn at the same time.
    pub(super) fn race(
        &mut self,
        models: &[ModelInfo],
        engines: Option<Vec<Engine>>,
        examiner: &mut Examiner,
    ) -> After {
        let targets = targets::targets(&self.bus, &self.config.exe, &self.config.gpu);
        let (Some(target), Some(model)) = (targets.first().cloned(), models.first()) else { return After::GoOn };
        let engines = match engines {
            Some(named) => named,
            None => self.able_engines(&target),
        };
        let engines = targets::that_take_parts(&self.bus, engines, models.len(), targets.len());
        let mut readers = ceilings::Readers::default();
        if std::mem::take(&mut self.config.ceilings) {
            readers = ceilings::measure(&self.bus, &self.config.exe, models, &targets, &self.config.caches);
        }
        let planned = self.planned(models, &targets, &engines);
        let sampler = self.sampler(&target, model);
        let mut round = None;
        for turn in planned {
            let before = std::mem::replace(&mut round, turn.first().map(|(_, order)| (order.cache, order.repeat)));
            let passed = match round {
                Some((CacheState::Cold, repeat)) if round != before => self.read_pass(&mut readers, repeat),
                _ => Heard::default(),
            };
            let (ends, heard) = match passed {
                Heard { cancel: false, quit: false } => self.take_turn(&turn, sampler.as_ref()),
                heard => (Vec::new(), heard),
            };
            for (end, (_, order)) in ends.iter().zip(&turn) {
                if let LaneEnd::Finished { route: Some(route), .. } = end {
                    examiner.learn(route, &order.target);
                }
            }
            if heard.quit {
                return After::Quit;
            }
            if ends.contains(&LaneEnd::Cancelled) || heard.cancel {
                self.bus.say(LogLevel::Warn, "the race was cancelled; lanes that had not started were dropped");
                break;
            }
        }
        After::GoOn
    }

    /// All lanes in the order of their turns, told as planned.
    fn planned(
        &mut self,
        models: &[ModelInfo],
        targets: &[Target],
        engines: &[Engine],
    ) -> Vec<Vec<(LaneId, LaneOrder)>> {
        let mut variants = self.config.variants.clone();
        if variants.is_empty() {
            variants.push(Default::default());
        }
        let turns = turns::turns(models.len(), targets);
        let models: Vec<Arc<ModelInfo>> = models.iter().cloned().map(Arc::new).collect();
        let plain = models.len() == 1 && targets.len() == 1;
        let mut planned = Vec::new();
        for cache in &self.config.caches.clone() {
            for repeat in 0..self.config.repeat.max(1) {
                let mut round: Vec<_> = engines.iter().flat_map(|e| variants.iter().map(move |v| (e, v))).collect();
                // Another goes first in each round, so that nobody always comes after the same other, whose use of the disk and of the machine may tell
                // on it. What a workload reads was written by the lanes before.
                if self.config.workload.is_none() && !round.is_empty() {
                    let first = repeat as usize % round.len();
                    round.rotate_left(first);
                }
                for (engine, variant) in round {
                    for turn in &turns {
                        let group = (turn.len() > 1).then_some(self.next_lane);
                        let mut lanes = Vec::with_capacity(turn.len());
                        for load in turn {
                            let Some(model) = models.get(load.model) else { continue };
                            let lane = LaneId(self.next_lane);
                            self.next_lane += 1;
                            let mut order = self.order(model, engine, *cache, repeat, &load.target);
                            order.knobs.extend(variant.iter().map(|(name, value)| (name.clone(), *value)));
                            self.bus.emit(EventBody::LanePlanned {
                                lane,
                                engine: engine.clone(),
                                cache: *cache,
                                target: load.target.clone(),
                                repeat,
                            });
                            if !plain {
                                let share = turns::share(&mut order, model, load, group);
                                self.bus.emit(EventBody::LaneShared { lane, share });
                            }
                            lanes.push((lane, order));
                        }
                        planned.push(lanes);
                    }
                }
            }
        }
        planned
    }

    /// Runs the lanes of a turn to their ends, while commands are looked at on this thread's behalf.
    fn take_turn(&self, turn: &[(LaneId, LaneOrder)], sampler: Option<&Sampler>) -> (Vec<LaneEnd>, Heard) {
        let places = if turn.len() > 1 { gate::places(turn.len()) } else { Vec::new() };
        let (cancels, cancelled): (Vec<_>, Vec<_>) = turn.iter().map(|_| bounded(1)).unzip();
        let (done, is_done) = bounded::<()>(1);
        let (commands, watcher) = (self.commands.clone(), self.watcher.clone());
        let listener = std::thread::spawn(move || listen(&commands, &cancels, &is_done, &watcher));
        let run = |number: usize| {
            let (lane, order) = turn[number].clone();
            // Of our own engines only those of cuFile leave anything there, its log.
            let drops = order.engine.opens_cufile() || order.engine.is_outside() || order.workload.is_some();
            if drops && let Err(error) = std::fs::create_dir_all(&order.scratch) {
                self.bus.say(LogLevel::Warn, format!("the lane's temporary folder could not be made: {error}"));
            }
            // Each lane of a group has meters of its own; the first, and a lane that runs alone, has those of the race.
            let own = sampler.filter(|_| number > 0).and_then(|_| self.sampler(&order.target, &order.model));
            let meters = own.as_ref().or(sampler);
            let watch = |pid: u32| {
                if let Some(meters) = meters {
                    meters.set_gpu(GpuRef::of(&turn[number].1.target));
                    meters.watch(Some((lane, pid)));
                }
            };
            let (uses_cufile, log) = (order.engine.opens_cufile(), order.scratch.join("cufile.log"));
            // Whoever wants no meters wants nothing else to look on either; what the log says is then told at the end.
            let follower = self.config.telemetry.then(|| Follower::begin(&self.bus, lane, &order.engine, log.clone()));
            let end = lanes::run_lane(
                &self.bus,
                &self.config.exe,
                (lane, order),
                places.get(number),
                &cancelled[number],
                &watch,
            );
            let said = follower.map(Follower::end).unwrap_or_default();
            if uses_cufile {
                super::explain::after_lane(&self.bus, &end, &log, &said);
            }
            if let Some(meters) = meters {
                meters.watch(None);
            }
            end
        };
        let ends = std::thread::scope(|scope| {
            let run = &run;
            let others: Vec<_> = (1..turn.len()).map(|number| scope.spawn(move || run(number))).collect();
            let mut ends = vec![run(0)];
            ends.extend(others.into_iter().map(|other| match other.join() {
                Ok(end) => end,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            ends
        });
        let _ = done.send(());
        (ends, listener.join().unwrap_or_default())
    }

    /// Starts the meters.
    fn sampler(&self, target: &Target, model: &ModelInfo) -> Option<Sampler> {
        if !self.config.telemetry {
            return None;
        }
        let config = SamplerConfig {
            gpu: GpuRef::of(target),
            // The files of a workload are not there yet; their folder is.
            model_device: model
                .shards
                .first()
                .and_then(|shard| telemetry::device_of(&shard.path))
                .or_else(|| telemetry::device_of(&model.path)),
            ..SamplerConfig::default()
        };
        let bus = self.bus.clone();
        match Sampler::start(config, move |sample| bus.emit(EventBody::Sampled { sample })) {
            Ok(sampler) => Some(sampler),
            Err(error) => {
                self.bus.say(LogLevel::Warn, format!("no meters are read: their thread could not be started: {error}"));
                None
            }
        }
    }

    fn order(
        &self,
        model: &Arc<ModelInfo>,
        engine: &Engine,
        cache: CacheState,
        repeat: u32,
        target: &Target,
    ) -> LaneOrder {
        LaneOrder {
            engine: engine.clone(),
            model: model.clone(),
            cache,
            target: target.clone(),
            repeat,
            verify: self.config.verify,
            knobs: self.config.knobs_for(engine),
            libcufile: None,
            scratch: self.scratch.path().join(format!("lane-{}", self.next_lane)),
            spawned_monotonic_ns: 0,
            ranges: Vec::new(),
            gated: false,
            poison: self.config.poison,
            workload: self.config.workload.as_ref().map(|plan| plan.order.clone()),
        }
    }

    /// What would run if it can: the lanes of a workload, or the engines of this version.
    fn offered(&self) -> Vec<Engine> {
        match &self.config.workload {
            Some(plan) => plan.lanes.clone(),
            None => engines::AVAILABLE.to_vec(),
        }
    }

    /// Why cuFile cannot serve the target, by asking a child process; `None` where it can.
    pub(super) fn cufile_obstacle(&self, target: &Target) -> Option<String> {
        let scratch = self.scratch.path().to_string_lossy().into_owned();
        match probe_child(&self.config.exe, &["__probe-cufile", &scratch], PROBE_LIMIT) {
            Ok(answer) => cufile_obstacle(&answer, target),
            Err(error) => Some(error),
        }
    }

    /// The engines that can run here; the others are said with their reasons.
    fn able_engines(&self, target: &Target) -> Vec<Engine> {
        let (cufile, mut others): (Vec<Engine>, Vec<Engine>) =
            self.offered().into_iter().partition(Engine::uses_cufile);
        if cufile.is_empty() {
            return others;
        }
        let reason = self.cufile_obstacle(target);
        others.retain(|engine| match super::nixl::obstacle(&self.config.exe, engine, reason.as_deref()) {
            Some(why) => {
                self.bus.emit(EventBody::EngineUnavailable { engine: engine.clone(), why });
                false
            }
            None => true,
        });
        match reason {
            None => {
                let (able, unable): (Vec<Engine>, Vec<Engine>) =
                    cufile.into_iter().partition(|engine| *engine != Engine::GdsStream || *target != Target::Host);
                for engine in unable {
                    let why = "cuFile reads on CUDA streams, and the target is host memory".to_owned();
                    self.bus.emit(EventBody::EngineUnavailable { engine, why });
                }
                others.into_iter().chain(able).collect()
            }
            Some(why) => {
                for engine in cufile {
                    self.bus.emit(EventBody::EngineUnavailable { engine, why: why.clone() });
                }
                others
            }
        }
    }
}

/// Why cuFile cannot serve the target, by the probe's answer.
fn cufile_obstacle(answer: &serde_json::Value, target: &Target) -> Option<String> {
    if let Some(error) = answer.get("error").and_then(|e| e.as_str()) {
        return Some(format!(
            "{error}; install libcufile (package nvidia-gds, or the Python package nvidia-cufile), or set GDS_TOP_LIBCUFILE"
        ));
    }
    let open = answer.get("open")?;
    if open.get("code").and_then(serde_json::Value::as_i64) != Some(0) {
        let said = open.get("error").and_then(|e| e.as_str()).unwrap_or("the driver does not open");
        return Some(format!("libcufile was found, but {said}"));
    }
    let version = answer.get("version").and_then(|v| v.as_str()).unwrap_or_default();
    let minor = version.split('.').nth(1).and_then(|m| m.parse::<u32>().ok()).unwrap_or(0);
    if *target == Target::Host && version.starts_with("1.") && minor < 16 {
        return Some(format!("cuFile reads into host memory need libcufile 1.16 or later, and this is {version}"));
    }
    None
}

/// What was asked for while a lane ran.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard {
    pub(super) cancel: bool,
    pub(super) quit: bool,
}

/// Listens to commands until the turn is done.
pub(super) fn listen(
    commands: &Receiver<Command>,
    cancels: &[Sender<()>],
    done: &Receiver<()>,
    watcher: &Watcher,
) -> Heard {
    let mut heard = Heard::default();
    loop {
        crossbeam_channel::select! {
            recv(done) -> _ => return heard,
            recv(commands) -> command => match command {
                Ok(Command::CancelRace) => heard.cancel = true,
                // A front that is gone ends the session.
                Ok(Command::Quit) | Err(_) => heard.quit = true,
                Ok(Command::WatchSystem(on)) => {
                    watcher.set(on);
                    continue;
                }
                Ok(_) => continue,
            },
        }
        for cancel in cancels {
            let _ = cancel.try_send(());
        }
        if heard.quit {
            let _ = done.recv();
            return heard;
        }
    }
}

/// The folder or file that the checks examine when no model was named.
#[must_use]
pub(super) fn default_path() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}
