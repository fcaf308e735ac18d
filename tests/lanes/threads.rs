//! Tests of a system that provides few threads. Each missing thread gives an error with a sentence, and nothing waits
//! for it.

use crate::harness::{folder, program};
use crate::models;
use crate::standins;

#[test]
fn threads_that_are_refused_are_told_and_held_nobody_up() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::odd(folder.path());
    let mut ended = Vec::new();
    for most in 0..9 {
        let most = most.to_string();
        let env =
            [("LD_PRELOAD", built.threads.to_str().unwrap()), ("GDS_TOP_TEST_THREADS", &most), ("RUST_BACKTRACE", "0")];
        let engines = ["--engine", "pread,odirect", "--gpu", "host,host", "--set", "threads=4"];
        // `program` fails the test if anything panicked.
        let out = program(&[&["load", folder.path().to_str().unwrap()][..], &engines].concat(), &env);
        let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).replace('\n', " ");
        let code = out.status.code().unwrap();
        assert!(matches!(code, 0 | 2 | 3), "{most}: {code} {text}");
        assert!(code == 0 || text.contains("raise the limit of processes"), "{most}: {text}");
        assert!(!text.contains("ended unexpectedly"), "{most}: {text}");
        ended.push(code);
    }
    assert_eq!(ended[0], 3, "without a thread no session begins");
    assert!(ended[1..].contains(&3), "{ended:?}");
}
