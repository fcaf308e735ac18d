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
            "cuFileRead failed 2 times with -5027 CU_FILE_HANDLE_NOT_REGISTERED, first on unknown file (handle 0x1); the program ended with status 0",
        ),
        // In compat mode, an offset in unregistered memory fails after the call.
        ("posix", &["stream", "4096"], "failed-calls", "stream transfer failed once with -5"),
    ] {
        let given = advice(&place, route, words);
        let found = given.iter().find(|(given, _)| given == id).unwrap_or_else(|| panic!("{id}: {given:?}"));
        assert!(found.1.contains(proof), "{id}: {found:?}");
    }
}
