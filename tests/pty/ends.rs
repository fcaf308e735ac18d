//! Tests that the terminal is restored after any end or stop: keys, signals, a panic, or a closed terminal.

use crate::program::gds_top;
use crate::sessions::{folder, race, until_lanes};
use crate::terminal::{Terminal, recording};
use gds_top::session::{Feed, State};
use gds_top::tui;
use rustix::process::Signal;
use std::process::Stdio;

#[test]
fn q_and_ctrl_c_leave_the_terminal_whole() {
    for (key, status) in [("q", 0), ("\u{3}", 130)] {
        let mut terminal = Terminal::replay();
        terminal.leave(key, status, &format!("{key:?}"));
    }
}

#[test]
fn term_and_hup_leave_the_terminal_whole_and_say_so_in_the_status() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 130)] {
        let mut terminal = Terminal::replay();
        terminal.signal(signal);
        assert_eq!(terminal.end(), status, "{signal:?}");
        terminal.is_whole(&format!("{signal:?}"));
    }
}

#[test]
fn an_abort_and_the_end_of_the_cpu_time_leave_the_terminal_whole_with_the_reason() {
    for (signal, reason) in
        [(Signal::ABORT, "not enough memory or stack"), (Signal::XCPU, "its CPU time limit is reached")]
    {
        let mut terminal = Terminal::replay();
        terminal.signal(signal);
        assert_eq!(terminal.end(), 3, "{signal:?}");
        terminal.is_whole(&format!("{signal:?}"));
        terminal.until(reason);
    }
}

#[test]
fn a_crash_leaves_the_terminal_whole_with_a_sentence() {
    for signal in [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE] {
        let mut terminal = Terminal::replay();
        terminal.signal(signal);
        terminal.end();
        terminal.is_whole(&format!("{signal:?}"));
        terminal.until("the process crashed");
    }
}

#[test]
fn a_signal_at_a_question_ends_the_command_with_a_sentence() {
    let place = folder();
    let model = place.path().join("model");
    let mut terminal = Terminal::start(&["make-model", "qwen3-0.6b", model.to_str().unwrap()], &[]);
    terminal.until("Continue?");
    terminal.signal(Signal::INT);
    assert_eq!(terminal.end(), 130);
    terminal.until("no model was written");
    assert!(!model.exists());
}

#[test]
fn a_hangup_in_the_middle_of_a_race_ends_the_race_too() {
    let folder = folder();
    let recording = folder.path().join("race.gdsrec");
    let more = ["--engine", "mmap,pread", "--repeat", "1000", "--record", recording.to_str().unwrap()];
    let mut terminal = race(folder.path(), &more);
    // One load has finished, and another is running.
    terminal.until("/1000");
    until_lanes(folder.path(), true);
    terminal.signal(Signal::HUP);
    assert_eq!(terminal.end(), 129);
    terminal.is_whole("HUP in a race");
    until_lanes(folder.path(), false);
}

/// The test runs itself in a terminal. There it shows the screens of the library with an export that panics.
#[test]
fn a_panic_restores_the_terminal_and_is_told_below() {
    const IN_TERMINAL: &str = "GDS_TOP_TEST_IN_TERMINAL";
    if std::env::var_os(IN_TERMINAL).is_some() {
        let (_sender, events) = crossbeam_channel::unbounded();
        let (commands, _receiver) = crossbeam_channel::unbounded();
        let export = Some((|_| panic!("asked for by a test")) as fn(&State) -> String);
        tui::run(Feed::new(events, commands, false), tui::Options { export, ..tui::Options::default() }).unwrap();
        return;
    }
    let itself = std::env::current_exe().unwrap();
    let only = ["--exact", "ends::a_panic_restores_the_terminal_and_is_told_below", "--nocapture"];
    // A long backtrace would scroll the message away.
    let env = [(IN_TERMINAL, "1"), ("RUST_BACKTRACE", "0")];
    let mut terminal = Terminal::of(itself.to_str().unwrap(), &only, &env, (120, 36));
    terminal.until("1 Environment");
    terminal.leave("x", 101, "a panic");
    terminal.until("asked for by a test");
}

/// Waits until the process is stopped, or runs again.
fn stopped(terminal: &Terminal, wanted: bool) {
    terminal.wait(&format!("stopped: {wanted}"), |t| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", t.child.process_id().unwrap())).unwrap();
        stat.rsplit(')').next().unwrap().trim().starts_with('T') == wanted
    });
}

#[test]
fn ctrl_z_lends_the_terminal_to_the_shell_and_fg_brings_the_screen_back_in_the_size_of_then() {
    for from_outside in [false, true] {
        let mut terminal = Terminal::replay();
        if from_outside {
            terminal.signal(Signal::TSTP);
        } else {
            terminal.keys("\u{1a}");
        }
        stopped(&terminal, true);
        terminal.is_whole("a stop");
        terminal.resize(80, 24);
        terminal.signal(Signal::CONT);
        stopped(&terminal, false);
        terminal.until_it_fits();
        assert!(terminal.is_alternate());
        // Keys still work.
        terminal.keys("?");
        terminal.until("Keys and words");
        terminal.leave("?q", 0, "a stop, a return and q");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let terminal = Terminal::replay();
    // The reader still has a copy of the master open, so the test sends the hang-up signal that the kernel would
    // send.
    terminal.signal(Signal::HUP);
    let mut child = terminal.close();
    let status = child.wait().unwrap();
    assert_eq!(status.exit_code(), 129);
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    for arguments in [vec![], vec!["replay".to_owned(), recording()]] {
        let output = gds_top().args(&arguments).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("terminal") && said.contains("--headless"), "{said}");
        assert!(output.stdout.is_empty());
    }
}
