//! Tests of the headless mode: its outputs and the exit status.

use crate::any::any_state;
use crate::race::{race, race_events, reduce, usual_paces};
use gds_top::core::{Engine, Event, EventBody, LaneId, Route, Status};
use gds_top::headless::{Asked, Options, Outcome, exit_code, exit_code_of, run};
use gds_top::report::Format;
use gds_top::session::{Command, Feed, State, recording, replay};
use proptest::prelude::*;
use std::io::{self, Write};

fn feed(events: &[Event]) -> (Feed, crossbeam_channel::Receiver<Command>) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    events.iter().for_each(|e| sender.send(e.clone()).unwrap());
    let (commands, commanded) = crossbeam_channel::unbounded();
    (Feed::new(receiver, commands, false), commanded)
}

fn told(events: &[Event], options: &Options) -> (Outcome, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = run(&feed(events).0, options, &mut out, &mut err);
    (outcome, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn the_result_goes_to_one_stream_and_progress_to_the_other() {
    let (outcome, out, err) = told(&race_events(&usual_paces()), &Options::default());
    insta::assert_snapshot!("headless.out", out);
    insta::assert_snapshot!("headless.err", err);
    assert_eq!(outcome.exit, 0);
}

#[test]
fn json_is_all_that_stands_on_the_output() {
    let (_, out, _) = told(&race_events(&usual_paces()), &Options { json: true, ..Options::default() });
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["schema_version"], 2);
}

#[test]
fn quiet_leaves_errors_and_plain_has_no_escapes() {
    let (_, out, err) =
        told(&race_events(&usual_paces()), &Options { quiet: true, progress: true, ..Options::default() });
    assert_eq!(err, "");
    assert!(!out.contains('\u{1b}'));
}

#[test]
fn the_bar_of_a_running_lane_redraws_itself_and_goes_away() {
    let events = race_events(&usual_paces());
    let landing = events.iter().rposition(|e| matches!(e.body, EventBody::LaneProgress { .. })).unwrap();
    let (sender, receiver) = crossbeam_channel::unbounded();
    let (commands, _commanded) = crossbeam_channel::unbounded();
    events.iter().take(landing).for_each(|e| sender.send(e.clone()).unwrap());
    let feed = Feed::new(receiver, commands, true);
    // No more events follow, but the session continues until the bar is drawn.
    let mut err = Watched { told: Vec::new(), session: Some(sender) };
    run(&feed, &Options { progress: true, ..Options::default() }, &mut Vec::new(), &mut err);
    assert!(err.session.is_none(), "the session ended by itself");
    let err = String::from_utf8(err.told).unwrap();
    let bar = err.rsplit("\r\u{1b}[K").find(|part| part.contains('█')).expect("a bar");
    assert!(bar.starts_with("[15/15] gds-per-tensor cold ") && bar.contains("100 %") && bar.contains("GB/s"), "{bar}");
    let end = "\r\u{1b}[Kgds-top: The session ended unexpectedly. Results are incomplete.\n";
    assert!(err.ends_with(end), "{err:?}");
}

/// Ends the session when the bar of the last run is full.
struct Watched {
    told: Vec<u8>,
    session: Option<crossbeam_channel::Sender<Event>>,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.told.extend_from_slice(bytes);
        let told = String::from_utf8_lossy(&self.told);
        if told.rsplit("\r\u{1b}[K").any(|part| part.starts_with("[15/15]") && part.contains("100 %")) {
            self.session = None;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_quiet_and_a_full_disk_is_not() {
    let events = race_events(&usual_paces());
    for json in [false, true] {
        let mut err = Vec::new();
        let options = Options { json, quiet: true, ..Options::default() };
        assert_eq!(run(&feed(&events).0, &options, &mut Closed, &mut Closed).exit, 0);
        assert_eq!(run(&feed(&events).0, &options, &mut Closed, &mut err).exit, 0);
        assert!(err.is_empty());
        assert_eq!(run(&feed(&events).0, &options, &mut Full, &mut err).exit, 2);
        assert!(String::from_utf8(err).unwrap().contains("could not be written"));
    }
}

#[test]
fn an_export_folder_that_cannot_be_written_ends_the_session_before_it_begins() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = Options { export: Some((file.path().to_owned(), vec![Format::Json])), ..Options::default() };
    let (feed, commanded) = feed(&race_events(&usual_paces()));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = run(&feed, &options, &mut out, &mut err);
    assert_eq!((outcome.exit, out.len(), outcome.state.lanes.len()), (2, 0, 0));
    assert_eq!(commanded.try_recv(), Ok(Command::Quit));
    assert!(String::from_utf8(err).unwrap().contains("opening the directory failed"));
}

#[test]
fn an_export_is_named_file_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { export: Some((folder.path().to_owned(), Format::ALL.to_vec())), ..Options::default() };
    let (outcome, _, err) = told(&race_events(&usual_paces()), &options);
    assert_eq!(outcome.exported.len(), 11);
    assert!(outcome.exported.iter().all(|f| f.exists() && err.contains(f.to_str().unwrap())));
}

/// The race with some changed events.
fn changed(change: impl Fn(&mut EventBody)) -> State {
    let mut events = race_events(&usual_paces());
    events.iter_mut().for_each(|e| change(&mut e.body));
    reduce(&events)
}

#[test]
fn exit_status_is_what_the_help_promises() {
    assert_eq!(exit_code(&race()), 0);
    let interrupted = changed(|b| {
        if let EventBody::SessionEnded { interrupted } = b {
            *interrupted = true;
        }
    });
    assert_eq!(exit_code(&interrupted), 130);
    let wrong = changed(|b| {
        if let EventBody::LaneFinished { lane: LaneId(4), result } = b {
            result.verified = Some(false);
        }
    });
    assert_eq!(exit_code(&wrong), 1);
    let one_failed = changed(|b| {
        if let EventBody::LaneFinished { lane: LaneId(4), result } = b {
            result.error = Some("registration refused".into());
        }
    });
    assert_eq!(exit_code(&one_failed), 0, "the others went on");
    let failed = one_failed.lanes[4].engine.clone();
    let asked = |engine: &Engine| Asked { engines: vec![engine.clone()], ..Asked::default() };
    assert_eq!(exit_code_of(&one_failed, &asked(&failed)), 3, "it was asked for by name");
    let other = one_failed.lanes.iter().find(|lane| lane.engine != failed).unwrap().engine.clone();
    assert_eq!(exit_code_of(&one_failed, &asked(&other)), 0, "only another was asked for");
    assert_eq!(exit_code_of(&wrong, &asked(&failed)), 1, "wrong bytes are a bad answer");
    assert_eq!(exit_code_of(&race(), &asked(&Engine::Command("x".into()))), 3, "it was not even planned");
    let all_failed = changed(|b| {
        if let EventBody::LaneFinished { result, .. } = b {
            result.error = Some("no memory".into());
        }
    });
    assert_eq!(exit_code(&all_failed), 3);
    let blocked = changed(|b| match b {
        EventBody::CheckDone { finding } if finding.status == Status::Fail => finding.blocks.push(Route::Compat),
        _ => {}
    });
    assert_eq!(exit_code(&blocked), 1, "a failing check blocks the route in use");
    let none_left = changed(|b| {
        if let EventBody::VerdictReached { verdict } = b {
            verdict.route = Route::None;
        }
    });
    assert_eq!(exit_code(&none_left), 1, "a failing check leaves no route");
    let no_gpu = changed(|b| {
        if let EventBody::VerdictReached { verdict } = b {
            (verdict.route, verdict.gpu) = (Route::None, None);
        }
    });
    assert_eq!(exit_code(&no_gpu), 0, "without a GPU no route is in use");
    let mut nothing = State::default();
    assert_eq!(exit_code(&nothing), 0);
    let load = Asked { load: true, ..Asked::default() };
    assert_eq!(exit_code_of(&nothing, &load), 3, "the model could not be opened");
    let why = "no libcufile".to_owned();
    nothing.reduce(&Event { at_ns: 0, body: EventBody::EngineUnavailable { engine: Engine::GdsSlab, why } });
    assert_eq!(exit_code(&nothing), 3);
}

#[test]
fn a_lane_that_dies_is_told_with_its_stderr_tail() {
    let mut events = race_events(&usual_paces());
    for e in &mut events {
        if matches!(e.body, EventBody::LaneFinished { lane: LaneId(3), .. }) {
            let stderr_tail = "first\nCUDA_ERROR_ILLEGAL_ADDRESS \u{1b}[2J".to_owned();
            e.body = EventBody::LaneDied { lane: LaneId(3), how: "killed by signal 11 (SIGSEGV)".into(), stderr_tail };
        }
    }
    let (outcome, out, err) = told(&events, &Options::default());
    assert!(err.contains("[4/15] pread hot #1: killed by signal 11") && err.contains("    CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert!(out.contains("Runs that failed") && out.contains("1 of 15 runs failed: pread."));
    assert!(!err.contains('\u{1b}'));
    assert_eq!(outcome.exit, 3, "a run that was asked for did not end");
}

#[test]
fn a_recording_gives_the_report_of_the_session_that_it_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("race.gdst");
    let events = race_events(&usual_paces());
    let mut writer = recording::Writer::create(&path).unwrap();
    events.iter().for_each(|e| writer.write(e).unwrap());
    writer.finish().unwrap();
    let feed = replay::start(&path, 0.0, replay::Options::default()).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = run(&feed, &Options { json: true, ..Options::default() }, &mut out, &mut err);
    assert_eq!(outcome.exit, 0);
    let replayed: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let mut live = Vec::new();
    gds_top::report::write_json(&reduce(&events), &mut live).unwrap();
    assert_eq!(replayed, serde_json::from_slice::<serde_json::Value>(&live).unwrap());
}

#[test]
fn a_session_that_breaks_off_is_not_called_fine() {
    let mut events = race_events(&usual_paces());
    events.pop();
    let (outcome, _, err) = told(&events, &Options::default());
    assert_eq!(outcome.exit, 1);
    assert!(err.contains("ended unexpectedly"));
}

proptest! {
    #[test]
    fn any_state_is_told_without_escapes_at_any_width(seed in any::<u64>(), width in 20_u16..200) {
        let text = gds_top::report::text(&any_state(seed), width, false);
        prop_assert!(!text.is_empty() && !text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{}", text);
    }
}
