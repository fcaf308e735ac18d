//! A live session: the state that its steps share, the handling of commands during a step, and the source of its
//! model.

use super::bus::Bus;
use super::child::{PROBE_LIMIT, probe_child};
use super::follow;
use super::plan::SessionConfig;
use crate::core::{EventBody, LogLevel, ModelInfo, Target, units};
use crate::models::{self, Profile, WeightsError};
use crate::session::Command;
use crate::telemetry::SystemWatch;
use crate::trust::Scratch;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A running session.
pub(super) struct Session {
    pub(super) config: SessionConfig,
    pub(super) bus: Bus,
    pub(super) commands: Receiver<Command>,
    pub(super) scratch: Scratch,
    pub(super) next_lane: u32,
    pub(super) watcher: Watcher,
    /// Models that are loaded together with the first model.
    pub(super) others: Vec<ModelInfo>,
    /// The models for plans that load, after they were opened.
    pub(super) loaded: Vec<ModelInfo>,
    /// The name of the plan that ran last. `None` if it is the plan with which the session began.
    pub(super) plan: Option<String>,
    /// The causes that were reported from the logs of its runs.
    pub(super) reported_causes: follow::ReportedCauses,
}

/// Samples the processes that use the machine while a front end needs this. The thread that handles commands during a
/// run shares it.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) bus: Bus,
    pub(super) running: Arc<Mutex<Option<SystemWatch>>>,
}

impl Watcher {
    pub(super) fn set(&self, on: bool) {
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

/// Whether the session continues or ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    GoOn,
    Quit,
}

/// The source of the model.
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Source {
    Opened(ModelInfo),
    Profile(Profile),
    Demo,
}

impl Source {
    /// Finds the source for a name. A path has priority over a shape profile with the same name. Without a name it is
    /// the small synthetic model.
    pub(super) fn of(named: Option<&str>) -> Result<Self, WeightsError> {
        match named {
            None => Ok(Self::Demo),
            Some(named) if !Path::new(named).exists() && Profile::names().contains(&named) => {
                Profile::named(named).map(Self::Profile)
            }
            Some(named) => models::open(named).map(Self::Opened),
        }
    }
}

impl Session {
    /// Does `work` while a thread handles commands. A command that ends the work is sent to `cancels`. If the thread
    /// cannot be started, no work is done, because the user could not stop it.
    ///
    /// # Errors
    /// Returns a sentence if the thread cannot be started.
    pub(super) fn while_listening<T>(
        &self,
        cancels: Vec<Sender<()>>,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Heard), String> {
        let (done, is_done) = bounded::<()>(1);
        let (commands, watcher) = (self.commands.clone(), self.watcher.clone());
        let listener = std::thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listen(&commands, &cancels, &is_done, &watcher))
            .map_err(units::no_thread)?;
        let came = work();
        let _ = done.send(());
        Ok((came, listener.join().unwrap_or_default()))
    }

    /// The reason why cuFile cannot be used for the target, from a child process. `None` if it can be used.
    pub(super) fn cufile_obstacle(&self, target: &Target) -> Option<String> {
        let scratch = self.scratch.path().to_string_lossy().into_owned();
        match probe_child(&self.config.exe, &["__probe-cufile", &scratch], PROBE_LIMIT) {
            Ok(answer) => cufile_obstacle(&answer, target),
            Err(error) => Some(error),
        }
    }

    /// The reason why libcufile cannot be loaded, from a child process that does not open its driver. `None` if it can
    /// be loaded, or if the child process gives no answer: then the runs show the reason.
    pub(super) fn libcufile_obstacle(&self) -> Option<String> {
        let scratch = self.scratch.path().to_string_lossy().into_owned();
        let probed = probe_child(&self.config.exe, &["__probe-cufile", &scratch, "--no-open"], PROBE_LIMIT);
        libcufile_obstacle(&probed.ok()?)
    }
}

/// The commands that arrived during a run.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard {
    pub(super) cancel: bool,
    pub(super) quit: bool,
}

/// Handles commands until the turn is done.
fn listen(commands: &Receiver<Command>, cancels: &[Sender<()>], done: &Receiver<()>, watcher: &Watcher) -> Heard {
    let mut heard = Heard::default();
    loop {
        crossbeam_channel::select! {
            recv(done) -> _ => return heard,
            recv(commands) -> command => match command {
                Ok(Command::CancelRace) => heard.cancel = true,
                // If the front end has ended, the session ends too.
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

/// The reason why a probe could not load libcufile, with the errors of the files that it tried.
fn libcufile_obstacle(answer: &serde_json::Value) -> Option<String> {
    let error = answer.get("error")?.as_str()?;
    let tried = answer.get("tried").and_then(|tried| tried.as_array()).into_iter().flatten();
    let tried: Vec<&str> = tried.filter_map(|one| one.get("error")?.as_str()).collect();
    let tried = if tried.is_empty() { String::new() } else { format!(" ({})", tried.join(", ")) };
    Some(format!("{error}{tried}; {GET_LIBCUFILE}"))
}

/// The advice if libcufile cannot be loaded.
const GET_LIBCUFILE: &str = "'gds-top check' shows how to install libcufile, or set GDS_TOP_LIBCUFILE";

/// The reason why cuFile cannot be used for the target, from the result of the probe.
fn cufile_obstacle(answer: &serde_json::Value, target: &Target) -> Option<String> {
    if let Some(error) = answer.get("error").and_then(|e| e.as_str()) {
        return Some(format!("{error}; {GET_LIBCUFILE}"));
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

/// The directory or file that the checks examine if no model was named.
#[must_use]
pub(super) fn default_path() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}
