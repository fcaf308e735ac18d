//! Tests of the single calls in the JSON report, in the trace and in recordings.

use crate::harness::{Place, Seen};
use crate::program::gds_top;
use serde_json::Value;
use std::path::Path;

/// The calls of the timeline with one of these functions.
fn calls<'a>(report: &'a Value, function: &str) -> Vec<&'a Value> {
    let all = report["program"]["timeline"].as_array().unwrap().iter();
    all.filter(|call| call["function"] == function).collect()
}

fn report_of(recording: &Path) -> Value {
    let output = gds_top().args(["report", "--json"]).arg(recording).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_call_has_its_file_offset_memory_flags_and_result() {
    let Some(place) = Place::new() else { return };
    let (folder, recording) = (place.file("export"), place.file("run.gdsrec"));
    let (export, record) = (folder.to_str().unwrap(), recording.to_str().unwrap());
    let mut command = place.watch(&["--json", "--record", record, "--export", export, "--format", "trace"]);
    command.arg(place.file("linked")).arg(place.data());
    command.args([
        "register",
        "read",
        "3",
        "batch",
        "8",
        "deregister",
        "read",
        "2",
        "stream",
        "0",
        "plain",
        "1",
        "bad",
    ]);
    let seen = Seen::of(command);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let data = place.data().canonicalize().unwrap().to_string_lossy().into_owned();
    for report in [&seen.report, &report_of(&recording)] {
        assert_eq!(report["program"]["timeline_left_out"], 0);
        let reads = calls(report, "cuFileRead");
        let registered: Vec<&Value> = reads.iter().take(5).map(|read| &read["registered"]).collect();
        assert_eq!(registered, [true, true, true, false, false]);
        for (number, read) in reads.iter().take(3).enumerate() {
            assert_eq!(
                (&read["file"], &read["bytes"], &read["result"]),
                (&data.as_str().into(), &4096.into(), &4096.into())
            );
            assert_eq!((&read["offset"], &read["alignment"]), (&(number * 4096).into(), &4096.into()), "{read}");
        }
        let open = calls(report, "cuFileHandleRegister")[0];
        assert!(open["flags"].as_u64().is_some() && open.get("offset").is_none(), "{open}");
        assert_eq!(calls(report, "cuFileBufRegister")[0]["flags"], 0);
        assert_eq!(calls(report, "cuFileHandleDeregister")[0]["file"], data);
        let submission = calls(report, "cuFileBatchIOSubmit")[0];
        assert_eq!((&submission["file"], &submission["flags"]), (&data.as_str().into(), &0.into()));
        let entries = calls(report, "batch entry");
        let offsets: Vec<u64> = entries.iter().map(|entry| entry["offset"].as_u64().unwrap()).collect();
        assert_eq!(offsets, (0..8).map(|entry| entry * 4096).collect::<Vec<_>>());
        for entry in &entries {
            assert_eq!(
                (&entry["file"], &entry["result"], &entry["registered"]),
                (&data.as_str().into(), &4096.into(), &true.into())
            );
            assert_eq!((&entry["start_ns"], &entry["thread"]), (&submission["start_ns"], &submission["thread"]));
            assert!(entry["duration_ns"].as_u64() >= submission["duration_ns"].as_u64(), "{entry} {submission}");
        }
        let [stream] = calls(report, "stream transfer")[..] else { panic!("one stream transfer") };
        assert_eq!(
            (&stream["file"], &stream["result"], &stream["bytes"]),
            (&data.as_str().into(), &4096.into(), &4096.into())
        );
        assert_eq!(calls(report, "cuFileReadAsync")[0]["offset"], 0);
        let pread = calls(report, "pread").into_iter().chain(calls(report, "pread64")).next().unwrap();
        assert_eq!((&pread["offset"], &pread["result"]), (&0.into(), &(1 << 17).into()));
        assert!(
            reads.iter().any(|read| read["error"].as_i64() < Some(0) && read["error"] == read["result"]),
            "{reads:?}"
        );
    }
    let trace: Value = serde_json::from_slice(&std::fs::read(folder.join("trace.json")).unwrap()).unwrap();
    let events = |phase: &str, name: &str| -> Vec<&Value> {
        let all = trace["traceEvents"].as_array().unwrap().iter();
        all.filter(|event| event["ph"] == phase && event["name"] == name).collect()
    };
    let read = events("X", "cuFileRead")[1];
    let (arguments, wanted) = (&read["args"], [4096, 4096, 4096]);
    assert_eq!(
        [&arguments["offset"], &arguments["alignment"], &arguments["result"]],
        wanted.map(Value::from).each_ref()
    );
    assert_eq!(arguments["registered"], true);
    // A viewer joins the begin and the end of an asynchronous event by its id.
    let ids =
        |phase: &str| -> Vec<u64> { events(phase, "batch entry").iter().map(|e| e["id"].as_u64().unwrap()).collect() };
    assert_eq!((ids("b").len(), ids("b") == ids("e"), events("X", "batch entry").len()), (8, true, 0));
    assert_eq!(events("b", "batch entry")[7]["args"]["offset"], 7 * 4096);
}

#[test]
fn entries_of_a_batch_over_two_files_have_their_files_and_unseen_ends_no_result() {
    let Some(place) = Place::new() else { return };
    let second = place.file("second");
    std::fs::write(&second, vec![1; 1 << 20]).unwrap();
    let name = |path: &Path| Value::from(path.canonicalize().unwrap().to_string_lossy());
    let seen = place.seen("linked", &[], &["pair", second.to_str().unwrap(), "6", "abandon", "3"]);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let submissions = calls(&seen.report, "cuFileBatchIOSubmit");
    assert_eq!((&submissions[0]["file"], &submissions[1]["file"]), (&Value::Null, &name(&place.data())));
    let entries = calls(&seen.report, "batch entry");
    let files: Vec<&Value> = entries.iter().take(6).map(|entry| &entry["file"]).collect();
    let (first, second) = (name(&place.data()), name(&second));
    assert_eq!(files, [&first, &second, &first, &second, &first, &second]);
    let ended: Vec<bool> = entries.iter().map(|entry| entry.get("result").is_some()).collect();
    assert_eq!(ended, [true, true, true, true, true, true, false, false, false]);
}
