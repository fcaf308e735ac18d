//! Tests that each kind of advice is given, with the calls that prove it, only to a program that needs it.

use crate::harness::{Place, Seen};

fn advice(place: &Place, route: &str, words: &[&str]) -> Vec<(String, String)> {
    let mut command = place.watch(&["--json", "--statistics"]);
    command.env("STANDIN_CUFILE_ROUTE", route).arg(place.file("linked")).arg(place.data()).args(words);
    let seen = Seen::of(command);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let all = seen.report["watch"]["advice"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    all.iter().map(|advice| (text(&advice["id"]), text(&advice["proof"]))).collect()
}

#[test]
fn a_good_program_gets_no_advice() {
    let Some(place) = Place::new() else { return };
    // Four threads make large aligned reads with O_DIRECT into registered memory, on a proven direct route.
    assert_eq!(advice(&place, "p2p", &["direct", "20"]), Vec::new());
}

#[test]
fn each_habit_gets_its_advice_with_its_counts() {
    let Some(place) = Place::new() else { return };
    for (route, words, id, proof) in [
        (
            "p2p",
            ["each", "20", "0"].as_slice(),
            "registration-per-call",
            "20 registrations of buffers for 20 transfers",
        ),
        ("p2p", &["register", "each", "20", "1"], "unaligned-transfers", "20 transfers of 20"),
        ("p2p", &["read", "20"], "unregistered-buffers", "20 transfers of 20"),
        ("p2p", &["register", "read", "20"], "small-reads", "20 reads of 20"),
        ("p2p", &["huge", "80"], "one-thread", "80 reads, 320 MiB"),
        ("p2p", &["huge", "20"], "no-o-direct", "1 file of 1"),
        ("posix", &["direct", "20"], "compat-route", "1 file on the route compat, proven"),
        (
            "p2p",
            &["bad", "bad", "direct", "20"],
            "failed-calls",
            "cuFileRead failed 2 times with -5027 CU_FILE_HANDLE_NOT_REGISTERED, first on (unknown file); the program ended with status 0",
        ),
        // In compat mode, an offset in unregistered memory fails after the call.
        ("posix", &["stream", "4096"], "failed-calls", "stream transfer failed once with -5"),
    ] {
        let given = advice(&place, route, words);
        let found = given.iter().find(|(given, _)| given == id).unwrap_or_else(|| panic!("{id}: {given:?}"));
        assert!(found.1.contains(proof), "{id}: {found:?}");
    }
}

#[test]
fn advice_about_buffers_and_o_direct_is_not_given_in_compat_mode() {
    let Some(place) = Place::new() else { return };
    for (route, wanted) in [
        ("p2p", ["unregistered-buffers", "small-reads", "no-o-direct"].as_slice()),
        ("posix", &["compat-route", "small-reads"]),
    ] {
        let given: Vec<String> = advice(&place, route, &["read", "20"]).into_iter().map(|(id, _)| id).collect();
        assert_eq!(given, wanted, "{route}");
    }
}

#[test]
fn transfers_that_fail_or_reach_the_end_of_the_file_give_no_advice_about_buffers_and_sizes() {
    let Some(place) = Place::new() else { return };
    let words: Vec<&str> = ["bad"; 20].into_iter().chain(["direct", "20"]).collect();
    let given: Vec<String> = advice(&place, "p2p", &words).into_iter().map(|(id, _)| id).collect();
    assert_eq!(given, ["failed-calls"]);
    std::fs::write(place.data(), "").unwrap();
    // The program expects the bytes and ends after its first read.
    let seen = place.seen("linked", &[], &["read", "20"]);
    let reads = &seen.file(&place.data())["reads"];
    assert_eq!((&reads["count"], &reads["empty"], &reads["unregistered"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(seen.advice(), Vec::<&str>::new());
}

#[test]
fn the_document_lists_each_kind_of_advice_with_its_limit() {
    let page = include_str!("../../docs/watch.md");
    let code = include_str!("../../src/analysis/watch.rs");
    let (_, ids) = code.split_once("pub const fn id(&self)").unwrap();
    let (ids, _) = ids.split_once("\n    }\n").unwrap();
    let ids: Vec<&str> = ids.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert!(ids.len() > 15, "{ids:?}");
    for id in ids {
        assert!(page.lines().any(|line| line.starts_with(&format!("| `{id}` |"))), "{id} is not in docs/watch.md");
    }
}
