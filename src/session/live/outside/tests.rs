//! Tests of the line protocol and of the loader scripts.

use super::lines::CommandMessages;
use super::loaders::{all, line};
use crate::core::{LOADERS, Note, Phase, Span};

fn received(lines: &[(u64, &str)]) -> CommandMessages {
    let mut received = CommandMessages::default();
    for (at, line) in lines {
        received.take(line, *at);
    }
    received
}

#[test]
fn the_clock_is_what_the_command_says_or_when_its_lines_arrive() {
    let all = received(&[
        (100, r#"{"program": "x 1.0"}"#),
        (200, r#"{"ready": true}"#),
        (900, r#"{"phase": "transfer", "ns": 500, "at_ns": 800, "bytes": 64}"#),
        (950, r#"{"done": true, "at_ns": 940, "bytes": 64}"#),
        (990, r#"{"verified": true, "note": "fine"}"#),
        (995, r#"{"supervisor": {"code": 0, "cpu_ns": 7}}"#),
    ]);
    assert_eq!((all.ready_ns, all.done_ns, all.bytes, all.verified), (Some(200), Some(940), Some(64), Some(true)));
    assert_eq!((all.program.as_deref(), all.notes.len()), (Some("x 1.0"), 1));
    assert_eq!(all.ended.clone().unwrap_or_default().code, Some(0));
    let (spans, slots) = all.spans(200, 740);
    assert_eq!((spans.len(), slots, spans[0].phase, spans[0].bytes), (1, 1, Phase::Transfer, 64));
    assert_eq!((spans[0].start_ns, spans[0].end_ns), (100, 600));
    // A time in the future is ignored.
    assert_eq!(received(&[(50, r#"{"ready": true, "at_ns": 70}"#)]).ready_ns, Some(50));
    // Only the first message of each kind counts.
    assert_eq!(received(&[(50, r#"{"ready": true}"#), (60, r#"{"ready": true}"#)]).ready_ns, Some(50));
}

#[test]
fn what_is_not_understood_is_said_once_and_harms_nothing() {
    let strange = received(&[
        (1, "loading 10 %"),
        (2, "loading 10 %"),
        (3, r#"{"phase": "thinking", "ns": 4}"#),
        (4, r#"{"phase": "copy"}"#),
        (5, "[1, 2]"),
        (6, r#"{"ready": "yes"}"#),
        (7, "\n"),
        (8, r#"{"something": "new"}"#),
        (9, r#"{"ready": true}"#),
    ]);
    assert_eq!(strange.ready_ns, Some(9));
    assert_eq!(strange.notes.len(), 5, "{:?}", strange.notes);
    let mut flood = CommandMessages::default();
    for number in 0..1000 {
        flood.take(&format!("line {number}"), number);
    }
    assert_eq!(flood.notes.len(), 3);
    assert!(flood.more_garbled() == Some(Note::MoreLinesNotUnderstood { lines: 997 }));
    assert_eq!(strange.more_garbled(), None);
}

#[test]
fn phases_that_claim_the_same_time_are_cut_so_that_the_sum_stays_the_wall() {
    let all = received(&[
        (1000, r#"{"phase": "transfer", "ns": 600}"#),
        (1100, r#"{"phase": "copy", "ns": 400}"#),
        (1050, r#"{"phase": "map", "ns": 20}"#),
        (2000, r#"{"phase": "sync", "ns": 5000, "slot": 1}"#),
    ]);
    let (spans, slots) = all.spans(300, 1000);
    assert_eq!(slots, 2);
    let times = Span::phase_times(&spans, 1000, slots);
    assert_eq!(times.total_ns(), 1000, "{times:?}");
    for pair in spans.windows(2).filter(|pair| pair[0].slot == pair[1].slot) {
        assert!(pair[0].end_ns <= pair[1].start_ns, "{pair:?}");
    }
    // The phase of the second slot began before the clock.
    assert_eq!((spans.last().map(|s| (s.start_ns, s.end_ns))), Some((0, 1000)));
}

#[test]
fn every_loader_has_a_script_that_reports_version_start_and_end() {
    let scratch = tempfile::tempdir().unwrap_or_else(|e| unreachable!("{e}"));
    for (loader, name) in all().into_iter().zip(LOADERS) {
        assert_eq!(loader.name, name);
        for part in ["lane.need(", "lane.ready()", "lane.done(paths, place)", "lane.verify(tensors, paths)", "program"]
        {
            assert!(loader.script.contains(part), "{name} has no {part}");
        }
        let line = line(name, scratch.path()).unwrap_or_default();
        assert!(line.contains("gds_top_loader.py") && line.ends_with("{model} {gpu}"), "{line}");
    }
    assert!(line("nothing", scratch.path()).is_err());
}
