//! A process that runs already.

use crate::harness::{Place, Seen};
use crate::program::gds_top;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn the_library_and_the_files_of_a_running_process_are_shown() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    place.prepare(program.arg(place.data()).args(["read", "3", "wait"]).stdout(Stdio::piped()));
    let mut running = program.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    let mut command = gds_top();
    command.args(["watch", "--json", "--seconds", "1", "--pid", &running.id().to_string()]);
    let seen = Seen::of(command);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(seen.status(), Some(0));
    let process = &seen.report["program"]["attached"];
    assert!(process["libcufile"].as_str().unwrap().contains("libcufile.so"), "{process}");
    let path = place.data().canonicalize().unwrap();
    let files = process["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == *path.to_string_lossy()).unwrap();
    assert_eq!((&file["o_direct"], &file["descriptors"]), (&true.into(), &1.into()));
    // Calls are a gap, not a zero.
    assert_eq!(seen.report["watch"]["files"], serde_json::json!([]));
    let mut command = gds_top();
    let output = command.args(["watch", "--pid", "4194305"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}
