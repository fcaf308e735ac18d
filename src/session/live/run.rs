//! The thread of the session: it examines the machine, opens the model, runs the race, and then handles commands
//! until the end.

use super::bus::Bus;
use super::examine::{Examiner, view};
use super::plan::{GpuChoice, SessionConfig};
use super::session::{After, Session, Source, Watcher, default_path};
use super::started::started;
use crate::core::{EventBody, LogLevel, ModelInfo, RacePlan, units};
use crate::device::heap;
use crate::models::{self, WeightsError};
use crate::session::recording::{MOST_RUNS, RecordingError};
use crate::session::{Command, Feed};
use crate::trust::Scratch;
use crossbeam_channel::{bounded, unbounded};
use std::path::Path;
use std::sync::Arc;

/// The reason why a session could not start.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The model cannot be used.
    #[error("{0}")]
    Weights(#[from] WeightsError),
    /// The recording cannot be written.
    #[error("{0}")]
    Recording(#[from] RecordingError),
    /// The session's thread could not be started.
    #[error("the session cannot start: {}", units::no_thread(_0))]
    Thread(std::io::Error),
    /// A recording with more runs would be rejected.
    #[error(
        "{runs} runs are planned, and a session has at most {MOST_RUNS}: choose a smaller --repeat, or fewer engines, cache states or variants"
    )]
    TooManyRuns {
        /// The number of runs.
        runs: u64,
    },
    /// A temporary directory could not be created.
    #[error("{doing} failed: {source}{}", remedy(source))]
    Folder {
        /// The failed operation.
        doing: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Whether gds-top refused a temporary directory, because other users can change it. The reason includes the remedy.
fn is_refusal(source: &std::io::Error) -> bool {
    source.kind() == std::io::ErrorKind::PermissionDenied && source.raw_os_error().is_none()
}

/// The remedy for an error of a temporary directory.
fn remedy(source: &std::io::Error) -> String {
    if is_refusal(source) {
        return String::new();
    }
    let folder = std::env::temp_dir();
    format!("; check free space and limits of {}, or set TMPDIR to a directory that you can write in", folder.display())
}

impl SessionError {
    /// Whether the request is valid, but this machine cannot run it now.
    #[must_use]
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            Self::Thread(_) => true,
            Self::Folder { source, .. } => !is_refusal(source),
            Self::Weights(error) => error.is_of_the_machine(),
            Self::Recording(error) => error.is_no_space(),
            Self::TooManyRuns { .. } => false,
        }
    }
}

/// A sentence if there are more runs than a recording can contain.
pub(super) fn within_a_session(runs: u64) -> Result<(), SessionError> {
    if runs > MOST_RUNS { Err(SessionError::TooManyRuns { runs }) } else { Ok(()) }
}

/// Finds a model and reads its headers, as [`start`] does.
///
/// # Errors
/// Fails if the model is malformed or missing.
pub fn find(model: &str) -> Result<(), SessionError> {
    Source::of(Some(model))?;
    Ok(())
}

/// Starts a live session. If a model was named, it is opened here, so that an error appears before the screens do.
///
/// # Errors
/// Fails if the model is malformed or missing, or if the recording cannot be created.
pub fn start(config: SessionConfig) -> Result<Feed, SessionError> {
    heap::keep_small();
    within_a_session(config.least_runs())?;
    let source = match &config.workload {
        Some(plan) => Source::Opened(plan.model.clone()),
        None => Source::of(config.model.as_deref())?,
    };
    let others: Vec<ModelInfo> = config.together_with.iter().map(models::open).collect::<Result<_, _>>()?;
    let (event_sender, events) = unbounded();
    let (commands, command_receiver) = unbounded();
    let bus = Bus::new(event_sender, config.record.as_deref())?;
    let unrecorded = bus.unrecorded();
    let scratch = Scratch::new("gds-top-")
        .map_err(|source| SessionError::Folder { doing: "making a temporary directory", source })?;
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
        reported_causes: Default::default(),
    };
    std::thread::Builder::new()
        .name("session".to_owned())
        .spawn(move || session.run(source))
        .map_err(SessionError::Thread)?;
    Ok(Feed { unrecorded, ..Feed::new(events, commands, false) })
}

impl Session {
    fn run(mut self, source: Source) {
        self.bus.begin(started());
        let interrupted = self.work(source) == After::Quit;
        self.watcher.set(false);
        // The directory is removed before the end is emitted, because a front end may end the process immediately after
        // that event.
        if let Err(error) = self.scratch.close() {
            self.bus.say(LogLevel::Warn, format!("the session's temporary directory could not be removed: {error}"));
        }
        self.bus.emit(EventBody::SessionEnded { interrupted });
        self.bus.finish();
    }

    fn work(&mut self, source: Source) -> After {
        // A directory that is created for a model stays only if the model is written.
        let mut _cache = None;
        let path = match &source {
            Source::Opened(model) => model.path.clone(),
            _ if self.config.grid.is_some() => {
                self.config.grid.as_ref().map_or_else(default_path, |g| g.plan.dir.clone())
            }
            // Synthetic models are written to the cache directory, so its disk is examined. On the first run that directory
            // does not exist yet. A race creates it now; without a race, the nearest existing parent directory is
            // examined.
            _ => models::cache_folder()
                .ok()
                .and_then(|folder| {
                    if self.config.race {
                        let (folder, held) = models::make_cache_folder().ok()?;
                        _cache = Some(held);
                        return Some(folder);
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
        // Loads into host memory must not open CUDA.
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
            examiner.send_interrupted();
            // The slow facts are collected during the quick checks, and the machine's description needs some of them.
            examiner.check_with(&root);
        } else {
            examiner.machine_in_detail();
        }
        drop(root);
        // The checks allocate much memory and keep little.
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
        // If no model is named, the demo model is written only when a race needs it. A user can read a lesson without
        // writing files.
        if matches!(source, Source::Demo) && !self.config.race {
            return self.serve(&mut examiner, &[]);
        }
        let model = match self.open_first(source) {
            Ok(model) => model,
            Err(None) => return After::Quit,
            Err(Some(error)) => {
                self.bus.say(LogLevel::Error, error);
                return self.serve(&mut examiner, &[]);
            }
        };
        let models = self.all_models(model);
        if self.config.workload.is_none() {
            self.loaded.clone_from(&models);
        }
        self.send_warnings();
        self.send_models(&models);
        if self.config.race {
            let engines = self.config.engines.clone();
            if self.race(&models, engines, &mut examiner) == After::Quit {
                return After::Quit;
            }
        }
        self.serve(&mut examiner, &models)
    }

    /// Opens the first model of the session. Writing a model may take minutes, so commands are handled meanwhile. The
    /// error has no sentence if a command ended the session.
    fn open_first(&self, source: Source) -> Result<ModelInfo, Option<String>> {
        if let Source::Opened(model) = source {
            return Ok(model);
        }
        let (cancel, cancelled) = bounded(1);
        let mut ended = false;
        let mut go_on = || {
            ended |= cancelled.try_recv().is_ok();
            !ended
        };
        match self.while_listening(vec![cancel], || self.open(source, &mut go_on)) {
            Ok((_, heard)) if heard.quit => Err(None),
            Ok((opened, _)) => opened.map_err(|error| Some(error.to_string())),
            Err(why) => Err(Some(format!("the model could not be created: {why}"))),
        }
    }

    /// Handles commands until the session ends.
    fn serve(&mut self, examiner: &mut Examiner, models: &[ModelInfo]) -> After {
        if self.config.end_after_race {
            return After::GoOn;
        }
        if !self.config.looks_only {
            self.offer_plans();
        }
        while let Ok(command) = self.commands.recv() {
            if self.config.looks_only && !matches!(command, Command::Quit | Command::WatchSystem(_)) {
                continue;
            }
            match command {
                Command::Recheck => examiner.check(),
                Command::ApplyFix(id, consent) => examiner.apply(id, &consent),
                Command::DryRunFix(id) => examiner.dry_run(id),
                Command::UndoFix(id) => examiner.undo(id),
                Command::Race(engines) => {
                    let after = match &self.plan {
                        None => {
                            let engines = engines.or_else(|| self.config.engines.clone());
                            match self.opened(models) {
                                Some(models) => {
                                    let after = self.race(&models, engines, examiner);
                                    // The model may have been written for this race.
                                    self.offer_plans();
                                    after
                                }
                                None => After::GoOn,
                            }
                        }
                        // Another plan has run since, so later loads get a separate page.
                        Some(_) => self.run_plan(RacePlan::LOAD, examiner),
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
                Command::CancelRace
                | Command::Pause(_)
                | Command::Speed(_)
                | Command::Seek(_)
                | Command::Loop(_)
                | Command::Signal(..) => {}
            }
        }
        After::GoOn
    }
}
