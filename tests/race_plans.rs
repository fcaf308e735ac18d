//! Tests of plans that the user chooses during a session. Each has a separate page, writes only to the announced
//! directory, and leaves nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "program/mod.rs"]
mod program;

use crate::program::{PROGRAM, gds_top};
use gds_top::core::{CacheState, Engine, EventBody};
use gds_top::session::live::{self, GpuChoice, SessionConfig};
use gds_top::session::{Command, Feed, LaneStatus, State};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of the tests. It only prevents that a test hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// A directory on a real file system, with a small model in a separate directory.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        let made = gds_top()
            .args(["synth", "qwen3-0.6b", place.model().to_str().unwrap(), "--scale", "0.005", "--quiet"])
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        place
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    /// The files next to the model.
    fn beside(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| *path != self.model() && path.extension().is_none()).collect()
    }

    fn session(&self, change: impl FnOnce(&mut SessionConfig)) -> Session {
        let mut config = SessionConfig::new(PROGRAM.into());
        config.model = Some(self.model().to_string_lossy().into_owned());
        config.checks = false;
        config.telemetry = false;
        config.end_after_race = false;
        config.gpu = GpuChoice::Host;
        config.engines = Some(vec![Engine::Pread]);
        config.caches = vec![CacheState::AsIs];
        change(&mut config);
        Session { feed: live::start(config).unwrap(), state: State::default() }
    }
}

struct Session {
    feed: Feed,
    state: State,
}

impl Session {
    /// Reads events until `is_it` accepts one.
    fn until(&mut self, what: &str, is_it: impl Fn(&EventBody, &State) -> bool) {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < 2 * PATIENCE, "{what} never came; {:?}", self.state.messages);
            let Ok(event) = self.feed.events.recv_timeout(PATIENCE) else {
                panic!("{what} never came; {:?}", self.state.messages)
            };
            self.state.reduce(&event);
            if is_it(&event.body, &self.state) {
                return;
            }
        }
    }

    /// Waits until nothing is running, because plans are only offered then.
    fn until_idle(&mut self) {
        self.until("the plans", |body, _| matches!(body, EventBody::RacePlansOffered { .. }));
    }

    fn send(&self, command: Command) {
        self.feed.commands.send(command).unwrap();
    }

    fn end(mut self) {
        self.send(Command::Quit);
        self.until("the end", |body, _| matches!(body, EventBody::SessionEnded { .. }));
        // The recording is renamed after the last event, before the session drops its sender.
        while self.feed.events.recv_timeout(PATIENCE).is_ok() {}
    }
}

#[test]
fn every_plan_is_offered_with_what_it_writes_and_where() {
    let place = Place::new();
    let mut session = place.session(|_| {});
    session.until_idle();
    let names: Vec<&str> = session.state.race_plans.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "load",
            "load, cold and hot",
            "bench-kv lmcache-mp",
            "bench-kv lmcache-nixl",
            "bench-kv lmcache",
            "bench-kv ucm",
            "bench-kv llmd",
            "bench-kv vllm-fs",
            "io grid"
        ]
    );
    let here = place.folder.path().canonicalize().unwrap();
    for plan in &session.state.race_plans {
        assert!(plan.answers.ends_with('?'));
        if plan.name.starts_with("load") {
            assert_eq!(plan.writes, None);
            assert!(plan.title.contains("model"), "{}", plan.title);
        } else if plan.obstacle.is_none() {
            let writes = plan.writes.as_deref().unwrap();
            assert!(writes.contains(&*here.to_string_lossy()), "{writes}");
            assert!(writes.contains("iB") && writes.contains("remove"), "{writes}");
        } else {
            // The machine that runs the tests may have too little space. Any other obstacle is an error.
            assert!(plan.obstacle.as_ref().is_some_and(|why| why.contains("free")), "{plan:?}");
        }
    }
    assert_eq!(place.beside(), Vec::<PathBuf>::new());
    session.end();
}

#[test]
fn a_plan_has_a_page_of_its_own_and_the_session_before_it_stays() {
    let place = Place::new();
    let recording = place.folder.path().join("session.gdsrec");
    let mut session = place.session(|config| config.record = Some(recording.clone()));
    session.until_idle();
    assert_eq!((session.state.lanes.len(), session.state.earlier.len()), (1, 0));
    session.send(Command::RunPlan("load, cold and hot".into()));
    session.until_idle();
    let caches: Vec<CacheState> = session.state.lanes.iter().map(|lane| lane.cache).collect();
    assert_eq!(caches, [CacheState::Cold, CacheState::Hot]);
    assert_eq!(session.state.earlier.len(), 1);
    assert_eq!(session.state.earlier[0].lanes[0].cache, CacheState::AsIs);
    assert!(session.state.model.is_some() && session.state.race_title().ends_with("cold and hot"));
    // Runs the first plan again, with the command that the lesson uses. It has the settings of the session.
    session.send(Command::Race(None));
    session.until_idle();
    assert_eq!(session.state.lanes.iter().map(|lane| lane.cache).collect::<Vec<_>>(), [CacheState::AsIs]);
    assert_eq!(session.state.earlier.len(), 2);
    session.end();
    told_again(&recording);
}

/// Tests that a recording has the same pages, and that its report contains each.
fn told_again(recording: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let output = gds_top()
        .args(["report", recording.to_str().unwrap(), "--export", folder.path().to_str().unwrap(), "--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.matches("== load model").count(), 3, "{text}");
    let runs = |at: &str| {
        let text = std::fs::read_to_string(folder.path().join(at)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["runs"].as_array().unwrap().len()
    };
    assert_eq!(runs("report.json"), 1);
    // The last report names the earlier plans with their runs.
    let text = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let earlier: Vec<(&str, usize)> = value["earlier"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| (page["folder"].as_str().unwrap(), page["runs"].as_array().unwrap().len()))
        .collect();
    assert_eq!(earlier, [("1-load-model", 1), ("2-load-model-cold-and-hot", 2)]);
    assert_eq!(runs("1-load-model/report.json"), 1);
    assert_eq!(runs("2-load-model-cold-and-hot/report.json"), 2);
}

#[test]
fn a_stopped_plan_leaves_nothing_behind_and_the_session_goes_on() {
    let place = Place::new();
    let mut session = place.session(|_| {});
    session.until_idle();
    let able = |session: &Session, name: &str| {
        session.state.race_plans.iter().any(|plan| plan.name == name && plan.obstacle.is_none())
    };
    if able(&session, "io grid") {
        session.send(Command::RunPlan("io grid".into()));
        session.until("the files", |body, _| matches!(body, EventBody::GridFilesWritten { .. }));
        let files = place.beside().len();
        session.send(Command::CancelRace);
        session.until_idle();
        assert_eq!(place.beside(), Vec::<PathBuf>::new());
        let grid = session.state.grid.as_ref().unwrap();
        // The directory exists while the plan runs. But this test may have been delayed until it was over.
        assert!(files == 1 || grid.done() == grid.plan.cells.len(), "{files} directories");
        assert!(session.state.lanes.is_empty());
    }
    if able(&session, "bench-kv ucm") {
        session.send(Command::RunPlan("bench-kv ucm".into()));
        session.until("a lane", |body, _| matches!(body, EventBody::LaneStarted { .. }));
        let files = place.beside().len();
        session.send(Command::CancelRace);
        session.until_idle();
        assert_eq!(place.beside(), Vec::<PathBuf>::new());
        let lanes = &session.state.lanes;
        assert!(files == 1 || lanes.iter().all(|lane| lane.status == LaneStatus::Done), "{files} directories");
        assert!(session.state.grid.is_none() && !lanes.is_empty());
        assert_eq!(session.state.race_title(), "bench-kv ucm");
    }
    session.end();
}

#[test]
fn what_cannot_be_run_is_a_sentence_and_no_page() {
    let place = Place::new();
    let mut session = place.session(|_| {});
    session.until_idle();
    session.send(Command::RunPlan("make coffee".into()));
    session.until("a sentence", |body, _| matches!(body, EventBody::Said { text, .. } if text.contains("make coffee")));
    // A directory of another program has the name of the directory for the files.
    std::fs::create_dir(place.folder.path().join("gds-top-kv-llmd")).unwrap();
    std::fs::write(place.folder.path().join("gds-top-kv-llmd/thesis"), "x").unwrap();
    session.send(Command::RunPlan("bench-kv llmd".into()));
    session.until(
        "a sentence",
        |body, _| matches!(body, EventBody::Said { text, .. } if text.contains("bench-kv llmd cannot be run")),
    );
    assert!(place.folder.path().join("gds-top-kv-llmd/thesis").exists());
    assert_eq!((session.state.earlier.len(), session.state.lanes.len()), (0, 1));
    session.end();
}
