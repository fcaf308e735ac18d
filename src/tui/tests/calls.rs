//! Tests of the second screen with the calls of a watched program.

use super::{app, frame, text};
use crate::config::Taste;
use crate::core::{
    CallTotal, Event, EventBody, LatencyClass, PlainReads, Route, RouteProof, Transfers, WatchReport, WatchedCall,
    WatchedFile, WatchedLibrary, WatchedTensor,
};
use crate::session::State;
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};

fn file(path: &str, reads: u64, plain: u64) -> WatchedFile {
    let route = if reads > 0 { Route::P2pdma } else { Route::None };
    WatchedFile {
        path: path.to_owned(),
        route,
        proven: reads > 0,
        proof: if reads > 0 { RouteProof::Statistics } else { RouteProof::NoTransfer },
        reads: Transfers { count: reads, bytes: reads << 20, ..Transfers::default() },
        writes: Transfers::default(),
        registrations: u64::from(reads > 0),
        failed_registrations: 0,
        o_direct: None,
        tensors: Vec::new(),
        tensors_of_file: 0,
        tensors_unknown: None,
        kv: None,
        plain: PlainReads { count: plain, bytes: plain << 20, ..PlainReads::default() },
        cached_fraction: None,
    }
}

/// A program that was watched for two seconds. Nothing here was measured.
pub(super) fn watched() -> State {
    let mut state = State::default();
    let call = |thread, start_ns| WatchedCall {
        process: 4711,
        thread,
        function: "cuFileRead".to_owned(),
        start_ns,
        duration_ns: 900_000_000,
        ..WatchedCall::default()
    };
    let calls = vec![call(4711, 0), call(4712, 1_000_000_000)];
    state.reduce(&Event { at_ns: 1, body: EventBody::CallsSeen { calls, left_out: 5 } });
    for seconds in [1, 2] {
        let report = WatchReport {
            wall_ns: seconds * 1_000_000_000,
            programs: 1,
            libraries: vec![WatchedLibrary::default()],
            calls: vec![CallTotal { function: "cuFileRead".to_owned(), count: 1000, ..CallTotal::default() }],
            files: vec![file("/models/a.safetensors", 900 * seconds, 0), file("/models/b.bin", 0, 100)],
            latencies: vec![LatencyClass { up_to_bytes: 1 << 20, up_to_ns: 256_000, count: 900 }],
            ..WatchReport::default()
        };
        state.reduce(&Event { at_ns: seconds, body: EventBody::ProgramSeen { report: Box::new(report) } });
    }
    state
}

#[test]
fn the_tensors_that_a_watched_program_read_are_listed_and_scrolled() {
    let mut state = watched();
    let mut report = state.watch.as_deref().cloned().unwrap_or_default();
    let tensor = |n: u64| WatchedTensor {
        name: format!("layer.{n}.weight"),
        size: 1 << 20,
        reads: n,
        bytes: 1 << 20,
        touched_bytes: 0,
        covered_bytes: Some(1 << 20),
        read_ns: Some(500_000),
    };
    report.files[0].tensors = (0..200).map(tensor).collect();
    report.files[0].tensors_of_file = 201;
    state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
    for (width, height) in [(140, 40), (80, 24)] {
        let mut ui = app(ScreenId::Tensors);
        let theme = Theme::new(Taste::default());
        let shown = text(&frame(&state, &mut ui, &theme, width, height));
        for words in ["200 of 201 tensors were read, 200 of them completely.", "layer.0.weight", "1 MiB"] {
            assert!(shown.contains(words), "{words} at {width}×{height}:\n{shown}");
        }
        for _ in 0..199 {
            ui.input(&Input::Key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE)), &state);
        }
        let shown = text(&frame(&state, &mut ui, &theme, width, height));
        assert!(shown.contains("layer.199.weight") && !shown.contains("layer.0.weight"), "{shown}");
    }
}

#[test]
fn the_tensors_of_a_watched_program_show_file_and_completeness_and_are_sorted_and_filtered() {
    let mut state = watched();
    let mut report = state.watch.as_deref().cloned().unwrap_or_default();
    let tensor = |name: &str, covered| WatchedTensor {
        name: name.to_owned(),
        size: 1 << 20,
        reads: 2,
        bytes: 1 << 20,
        touched_bytes: 0,
        covered_bytes: Some(covered),
        read_ns: Some(500_000),
    };
    report.files[0].tensors = vec![tensor("alpha", 1 << 20), tensor("half", 1 << 19)];
    report.files[1].tensors = vec![tensor("last", 1 << 20)];
    state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
    let theme = Theme::new(Taste::default());
    for (width, height) in [(200, 60), (120, 36), (80, 24), (60, 20)] {
        let mut ui = app(ScreenId::Tensors);
        let key = |glyph| Input::Key(KeyEvent::new(KeyCode::Char(glyph), KeyModifiers::NONE));
        let shown = text(&frame(&state, &mut ui, &theme, width, height));
        let row = |shown: &str, name: &str| shown.lines().position(|line| line.contains(name));
        let half = row(&shown, "half").and_then(|row| shown.lines().nth(row)).unwrap_or_default();
        assert!(half.contains("▲ no") && shown.contains("✔ yes") && shown.contains("/models/a.safe"), "{shown}");
        assert_eq!(shown.contains("/models/b.bin"), width >= 100, "{shown}");
        // 1 MiB in half a millisecond.
        assert_eq!(half.contains("500 µs") && half.contains("2.10 GB/s"), width >= 102, "{shown}");
        // The incomplete tensors are first if they are sorted by completeness.
        for _ in 0..7 {
            ui.input(&key('s'), &state);
        }
        let shown = text(&frame(&state, &mut ui, &theme, width, height));
        assert!(row(&shown, "half") < row(&shown, "alpha") && shown.contains("incomplete first"), "{shown}");
        for glyph in "/last".chars() {
            ui.input(&key(glyph), &state);
        }
        let shown = text(&frame(&state, &mut ui, &theme, width, height));
        assert!(shown.contains("(1 of 3)") && shown.contains("last") && row(&shown, "half").is_none(), "{shown}");
    }
}

#[test]
fn a_watched_program_has_its_calls_in_the_place_of_the_race() {
    let state = watched();
    for (width, height) in [(140, 40), (80, 24)] {
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        for words in ["2 Calls", "4711/4712", "/models/a.safetensors", "p2pdma", "cuFile calls in 2"] {
            assert!(shown.contains(words), "{words} at {width}×{height}:\n{shown}");
        }
        assert!(!shown.contains("Race") && shown.contains("Latency by size") && shown.contains("900"), "{shown}");
    }
}

#[test]
fn each_column_of_latencies_is_shown_if_there_is_space_next_to_or_below_the_others() {
    let times = [4_000, 16_000, 64_000, 256_000, 1_024_000, 4_096_000, 16_384_000, 65_536_000, 262_144_000, u64::MAX];
    for (columns, width, height) in [(7, 120, 36), (10, 120, 36), (10, 200, 60)] {
        let mut state = watched();
        let mut report = state.watch.as_deref().cloned().unwrap_or_default();
        let class = |up_to_ns| LatencyClass { up_to_bytes: 4096, up_to_ns, count: 1371 };
        report.latencies = times[..columns].iter().copied().map(class).collect();
        state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        assert_eq!(shown.matches("1\u{202f}371").count(), columns, "{width}×{height}:\n{shown}");
        assert!(shown.contains("16.4 ms") && !shown.contains("not shown"), "{shown}");
    }
}

#[test]
fn the_units_of_latencies_have_a_second_line_if_all_columns_fit_next_to_one_another_then() {
    let times = [4_000, 16_000, 64_000, 256_000, 1_024_000, 4_096_000, 16_384_000, 65_536_000];
    for (width, height, is_one_line) in [(120, 36, false), (200, 60, true)] {
        let mut state = watched();
        let mut report = state.watch.as_deref().cloned().unwrap_or_default();
        let class = |up_to_ns| LatencyClass { up_to_bytes: 4096, up_to_ns, count: 1371 };
        report.latencies = times.into_iter().map(class).collect();
        state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        let rows: Vec<&str> = shown.lines().filter(|line| line.contains("1\u{202f}371")).collect();
        assert!(rows.len() == 1 && rows[0].matches("1\u{202f}371").count() == times.len(), "{shown}");
        assert_eq!(shown.contains("65.5 ms"), is_one_line, "{shown}");
        assert!(shown.contains("65.5"), "{shown}");
    }
}

#[test]
fn a_replay_of_a_session_without_its_end_says_so_at_its_end() {
    let state = watched();
    for (screen, width, height) in
        [(ScreenId::Race, 140, 40), (ScreenId::Race, 80, 24), (ScreenId::Report, 140, 60), (ScreenId::Report, 80, 24)]
    {
        for is_over in [false, true] {
            let mut ui = app(screen);
            ui.ctx.over = is_over;
            let shown = text(&frame(&state, &mut ui, &Theme::new(Taste::default()), width, height));
            assert_eq!(shown.contains("ended unexpectedly"), is_over, "{width}×{height}:\n{shown}");
            assert!(!is_over || !shown.contains("so far"), "{shown}");
        }
    }
}

#[test]
fn the_rate_and_the_threads_have_the_same_time_axis() {
    let state = watched();
    for (width, height) in [(140, 40), (80, 40)] {
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        let column = |row: &str, glyph: char| row.chars().position(|shown| shown == glyph);
        let thread = shown.lines().find(|line| line.contains("4711/4711")).unwrap_or_default();
        let zero = shown.lines().find_map(|line| column(line, '┤'));
        assert_eq!(column(thread, '█'), zero.map(|zero| zero + 1), "{shown}");
    }
}

#[test]
fn the_time_axis_of_the_threads_is_below_the_last_thread() {
    let state = watched();
    let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), 140, 40));
    let lines: Vec<&str> = shown.lines().collect();
    let last = lines.iter().rposition(|line| line.contains("4711/471"));
    let axis = last.and_then(|last| lines.get(last + 1)).copied().unwrap_or_default();
    assert!(axis.contains("1.90 s"), "{shown}");
}

#[test]
fn panes_without_space_are_named() {
    let state = watched();
    for (width, height, is_named) in [(140, 40, false), (80, 24, false), (60, 20, true), (60, 14, true)] {
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        assert_eq!(shown.contains("No space for"), is_named, "{shown}");
        // The rates are a chart, or else a line, or else named as missing.
        let rates = ["╭ Rate", "Between reports: cuFile 944 MB/s", ": rate,"].map(|words| shown.contains(words));
        assert_eq!(rates, [height > 24, (20..=24).contains(&height), height < 20], "{shown}");
    }
}

#[test]
fn no_sentence_of_the_calls_is_cut_and_failures_are_kept() {
    let mut state = watched();
    let mut report = state.watch.as_deref().cloned().unwrap_or_default();
    report.files[0].reads.errors = 800;
    (report.files[0].route, report.files[0].proven) = (Route::None, false);
    report.files[0].proof = RouteProof::Nothing;
    state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
    for (width, height) in [(60, 20), (80, 24), (100, 30), (200, 60)] {
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        let above = shown.split("╭ ").take_while(|part| !part.starts_with("Threads")).collect::<String>();
        let words = above.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("failed") && words.contains("Not in the timeline: 5 calls."), "{shown}");
        let mut sentences = above.lines().filter(|line| line.starts_with("   "));
        assert!(sentences.all(|line| !line.contains('…')), "{shown}");
    }
}

#[test]
fn the_shades_of_the_threads_have_a_legend() {
    let state = watched();
    for (width, height) in [(60, 20), (80, 24), (120, 36), (200, 60)] {
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        assert!(shown.contains("░ 25 % ▒ 50 % ▓ 75 % █ 100 %"), "{shown}");
    }
}

#[test]
fn the_histogram_of_latencies_fills_its_pane() {
    let mut state = watched();
    let mut report = state.watch.as_deref().cloned().unwrap_or_default();
    let class = |up_to_bytes| LatencyClass { up_to_bytes, up_to_ns: 256_000, count: 900 };
    report.latencies = [4096, 16_384, 65_536].map(class).to_vec();
    state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
    let distance = |width, height| {
        let shown = text(&frame(&state, &mut app(ScreenId::Race), &Theme::new(Taste::default()), width, height));
        let line = |size: &str| shown.lines().position(|line| line.contains(size)).unwrap_or_default();
        line(" 16 KiB ") - line(" 4 KiB ")
    };
    assert_eq!((distance(200, 60), distance(80, 24)), (4, 1));
}

#[test]
fn the_help_has_the_title_of_the_tab() {
    let state = watched();
    let mut ui = app(ScreenId::Race);
    ui.input(&Input::Key(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::NONE)), &state);
    let shown = text(&frame(&state, &mut ui, &Theme::new(Taste::default()), 140, 60));
    assert!(shown.contains("On Calls") && !shown.contains("Race"), "{shown}");
}

#[test]
fn the_help_describes_the_screens_of_a_watched_program() {
    let state = watched();
    for (is_over, quits) in [(false, "in 'watch': quit, and end the program"), (true, "quit; asks first")] {
        let mut ui = app(ScreenId::Tensors);
        ui.ctx.over = is_over;
        ui.input(&Input::Key(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::NONE)), &state);
        let shown = text(&frame(&state, &mut ui, &Theme::new(Taste::default()), 140, 80));
        for words in ["Calls: rates, latencies, threads and files", "Tensors: tensors that the program read", quits] {
            assert!(shown.contains(words), "{words}:\n{shown}");
        }
        assert!(!shown.contains("overhead of each tensor"), "{shown}");
    }
}
