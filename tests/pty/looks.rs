//! Tests of the output to a terminal: frames, queries, sizes, colours, and no output at rest.

use crate::program::gds_top;
use crate::terminal::{PATIENCE, Terminal, recording};
use std::time::{Duration, Instant};

#[test]
fn frames_are_synchronized_and_none_waits_for_an_answer_of_the_terminal() {
    let mut terminal = Terminal::start(&["replay", &recording()], &[]);
    terminal.until("2 Race");
    eprintln!("first frame after {:?}", terminal.began.elapsed());
    assert!(terminal.is_alternate() && terminal.screen().parser.screen().hide_cursor());
    terminal.until_sent("\u{1b}[?2026l");
    let raw = terminal.sent();
    for question in ["\u{1b}[6n", "\u{1b}[c", "\u{1b}[>c", "\u{1b}[?2026$p"] {
        assert!(!raw.contains(question), "{question:?}");
    }
    assert!(raw.contains("\u{1b}[?2026h"), "frames are synchronized");
    terminal.leave("q", 0, "frames");
}

#[test]
fn the_background_that_the_terminal_reports_changes_the_colours_and_presses_no_key() {
    for (theme, asked) in [("auto", true), ("dark", false)] {
        let arguments = ["replay", &recording(), "--theme", theme];
        let mut terminal = Terminal::start(&arguments, &[("COLORTERM", "truecolor")]);
        terminal.until("2 Race");
        terminal.until_sent("\u{1b}[?2026l");
        assert_eq!(terminal.sent().contains("\u{1b}]11;?"), asked, "{theme}");
        if asked {
            let before = terminal.sent().len();
            // The digits are keys of other screens, and f is the key of a fix.
            terminal.keys("\u{1b}]11;rgb:ffff/ffff/ffff\u{1b}\\");
            // The text colour of the light theme.
            terminal.wait("dark text", |terminal| terminal.sent()[before..].contains("38;2;43;48;59"));
        }
        terminal.leave("q", 0, "colours");
    }
}

#[test]
fn a_storm_of_resizes_ends_in_a_screen_of_the_last_size() {
    let mut terminal = Terminal::replay();
    let mut seed = 12_345_u32;
    for _ in 0..60 {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let (columns, rows) = ((seed >> 16) as u16 % 200 + 1, (seed >> 8) as u16 % 60 + 1);
        terminal.tell_size(columns, rows);
    }
    terminal.resize(80, 24);
    terminal.until_it_fits();
    terminal.leave("q", 0, "resizes");
}

#[test]
fn at_rest_nothing_is_written_and_nobody_wakes() {
    let mut terminal = Terminal::replay();
    let pid = terminal.child.process_id().unwrap();
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let text = tasks.map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default());
        text.filter_map(|t| {
            t.lines()
                .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))
                .and_then(|n| n.trim().parse::<u64>().ok())
        })
        .sum()
    };
    // The time until the output stops depends on the machine. The test checks that it stops, and that nothing follows
    // for seconds.
    let start = Instant::now();
    loop {
        let (bytes, woken) = (terminal.screen().raw.len(), switches());
        std::thread::sleep(Duration::from_secs(3));
        let (bytes, woken) = (terminal.screen().raw.len() - bytes, switches() - woken);
        if bytes == 0 && woken <= 6 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "in three seconds {bytes} bytes were written and {woken} threads woke");
    }
    terminal.leave("q", 0, "rest");
}

#[test]
fn the_answer_is_copied_through_the_terminal() {
    let mut terminal = Terminal::replay();
    terminal.keys("y");
    terminal.until("copied: ");
    terminal.until_sent("\u{1b}]52;c;");
    terminal.leave("q", 0, "copying");
}

#[test]
fn settings_change_keys_mouse_and_colours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(
        &path,
        "theme = \"mono\"\nmouse = false\nmarkers = \"block\"\n[keys]\nquit = \"f10\"\nscreen_report = \"Z\"\n",
    )
    .unwrap();
    let settings = path.display().to_string();
    let mut terminal = Terminal::start(&["replay", &recording(), "--speed", "0", "--config", &settings], &[]);
    terminal.until("replay, at its end");
    terminal.until("F10 quit");
    let raw = terminal.sent();
    assert!(!raw.contains("?1000h"), "the mouse was asked for");
    for colour in ["38;2;", "38;5;", "48;2;", "48;5;"] {
        assert!(!raw.contains(colour), "{colour:?} in mono");
    }
    assert!(terminal.shown().contains('▖') || terminal.shown().contains('▀'), "{}", terminal.shown());
    terminal.keys("Z");
    terminal.until("Report");
    // q is no longer a key.
    terminal.keys("q?");
    terminal.until("Keys and words");
    terminal.leave("\u{1b}[21~", 0, "F10");
}

#[test]
fn a_dumb_terminal_gets_a_sentence_and_no_escape_sequence() {
    let mut terminal = Terminal::start(&["replay", &recording()], &[("TERM", "dumb")]);
    assert_ne!(terminal.end(), 0);
    // The last bytes may not have been read yet.
    terminal.wait("the sentence", |terminal| terminal.sent().contains("--headless"));
    let sent = terminal.sent();
    assert!(!sent.contains('\u{1b}'), "{sent:?}");
}

#[test]
fn a_result_on_a_terminal_follows_clicolor() {
    for (value, coloured) in [("0", false), ("1", true)] {
        let mut terminal = Terminal::start(&["report", &recording()], &[("CLICOLOR", value)]);
        terminal.end();
        terminal.wait("the result", |terminal| terminal.sent().contains("verified"));
        assert_eq!(terminal.sent().contains("\u{1b}[3"), coloured, "CLICOLOR={value}: {:?}", terminal.sent());
    }
}

#[test]
fn no_color_and_poor_terminals_are_honoured() {
    let replay = ["replay", &recording(), "--speed", "0"];
    let ended = "replay, at its end";
    for (variables, coloured, ascii) in [
        (vec![("NO_COLOR", "1")], false, false),
        (vec![("TERM", "vt100")], false, true),
        (vec![("LANG", "C"), ("LC_ALL", "C")], true, true),
        (vec![("COLORTERM", "truecolor")], true, false),
    ] {
        let mut terminal = Terminal::start(&replay, &variables);
        terminal.until(ended);
        let raw = terminal.sent();
        assert_eq!(raw.contains("38;2;") || raw.contains("38;5;"), coloured, "{variables:?}");
        assert_eq!(raw.contains("38;2;"), variables[0].0 == "COLORTERM", "{variables:?}");
        assert_eq!(terminal.shown().is_ascii(), ascii, "{variables:?}: {}", terminal.shown());
        terminal.leave("q", 0, &format!("{variables:?}"));
    }
}

#[test]
fn lists_and_errors_fit_a_narrow_terminal() {
    for arguments in [
        &["bench-kv", "--list"][..],
        &["config", "show"],
        &["config", "lint", "Cargo.toml"],
        &["config", "tune", "--kv", "lmcache-mp"],
        &["settings", "--engines"],
        &["settings", "--keys"],
        &["make-model", "--list"],
        &["bench", "--list-loaders"],
        &["check", "/usr", "--repeat", "3"],
        &["bench", "/nonexistent/model", "--headless"],
    ] {
        let mut terminal = Terminal::sized(arguments, &[], (40, 36));
        terminal.end();
        terminal.wait("the last line", |terminal| terminal.sent().ends_with('\n'));
        let sent = terminal.sent();
        // Bars are erased, and the lines of a file are not wrapped.
        let is_text = |line: &&str| !line.contains("\u{1b}[K") && !line.trim_start().starts_with('"');
        for line in sent.lines().filter(is_text) {
            let is_one_word = line.split_whitespace().count() == 1;
            assert!(is_one_word || line.chars().count() <= 40, "{arguments:?}: {line:?}");
        }
    }
}

#[test]
fn text_is_ascii_if_the_locale_is_not_utf8_and_json_is_not_changed() {
    let (recording, machine) = (recording(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/h200-vm-no-udev"));
    let written = |arguments: &[&str], locale: &str| {
        let output = gds_top().args(arguments).env("LC_ALL", locale).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for arguments in [
        &["check", "--capture", machine][..],
        &["report", &recording],
        &["report", &recording, "-q"],
        &["learn", "--headless"],
        &["inspect", "--predict", "tiny-tensors"],
        &["settings", "--engines"],
        &["explain", "5001"],
        &["fix", "--list", "--capture", machine],
        &["fleet", "/nonexistent – or not"],
        &["--help"],
    ] {
        let (text, ascii) = (written(arguments, "C.UTF-8"), written(arguments, "C"));
        assert!(ascii.is_ascii(), "{arguments:?}: {ascii}");
        // Each character has a replacement with a similar shape.
        assert_eq!(ascii.matches('?').count(), text.matches('?').count(), "{arguments:?}: {ascii}");
    }
    let json = ["report", &recording, "--json"];
    assert_eq!(written(&json, "C"), written(&json, "C.UTF-8"));
}

#[test]
fn the_result_of_a_fleet_is_coloured_on_a_terminal() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let report = folder.path().join("report.json");
    let checked = gds_top().args(["check", "/usr", "--no-probe", "--json"]).output().unwrap();
    std::fs::write(&report, checked.stdout).unwrap();
    let mut terminal = Terminal::start(&["fleet", report.to_str().unwrap()], &[]);
    terminal.end();
    terminal.wait("the result", |terminal| terminal.sent().contains("1 node"));
    assert!(terminal.sent().contains("\u{1b}[3") && !terminal.sent().contains('\u{fffd}'), "{}", terminal.sent());
}
