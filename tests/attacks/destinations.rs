//! Attacks on the directories into which commands write, and on the memory and files that they share with a program.

use super::{ATTACKER, Stage, can_attack, give, image};
use crate::program::{PROGRAM, gds_top, started_by};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/recordings/h200-io.gdsrec");

fn small_model(stage: &Stage) -> String {
    let model = stage.at("victim-model").display().to_string();
    let made = gds_top().args(["make-model", "odd-sizes", &model, "--yes", "--scale", "0.05"]).output().unwrap();
    assert!(made.status.success());
    model
}

/// All commands with a destination below `place`.
fn commands<'a>(place: &'a str, model: &'a str, names: &'a [String; 6]) -> Vec<Vec<&'a str>> {
    let [record, archive, page, settings, capture, deep] = names;
    let bench = ["bench", model, "--target", "host", "--cache", "as-is", "--engine", "pread", "--yes"];
    let grid = "bench-io --file-size 1M --seconds 0.01 --size 64K --threads 1 --target host --yes";
    vec![
        vec!["report", RECORDING, "--export", place],
        vec!["report", RECORDING, "--export", deep],
        vec!["check", "--no-probe", "/usr", "--export", place],
        [&bench[..], &["--record", record]].concat(),
        [&bench[..], &["--export", deep]].concat(),
        vec!["capture", archive],
        vec!["capture", capture],
        vec!["learn", "--export", page],
        vec!["config", "tune", model, "-o", settings],
        vec!["man", place],
        vec!["make-model", "odd-sizes", deep, "--yes", "--scale", "0.05"],
        [&grid.split(' ').collect::<Vec<_>>()[..], &[place]].concat(),
        vec!["bench-kv", "ucm", place, "--target", "host", "--tokens", "128", "--yes"],
        vec!["watch", "--record", record, "--", "true"],
        vec!["fix", "memlock", "--yes", "--root", place],
    ]
}

fn names(place: &str) -> [String; 6] {
    ["r.gdsrec", "c.tar.zst", "l.html", "cufile.json", "captured", "a/b"].map(|name| format!("{place}/{name}"))
}

#[test]
fn a_link_of_another_user_leads_to_no_result() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let model = small_model(&stage);
    let victim = stage.at("victim/inner");
    symlink(&victim, stage.at("work/link")).unwrap();
    symlink(&victim, stage.at("own")).unwrap();
    give(&stage.at("work"));
    give(&stage.at("home"));
    let before = image(&stage.at("victim"));
    let place = stage.at("work/link").display().to_string();
    for words in commands(&place, &model, &names(&place)) {
        let output = gds_top().args(&words).env("TMPDIR", stage.at("victim-model")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // A captured directory is written by path, so root does not write it to a directory of another user.
        let is_refused = said.contains("is a link of another user") || said.contains("belongs to another user");
        assert!(!output.status.success() && is_refused, "{words:?}: {said}");
        assert_eq!(image(&stage.at("victim")), before, "{words:?}");
    }
    // The test file is only written into a directory without files.
    fs::remove_file(victim.join("thesis")).unwrap();
    let output = stage.run(&["check", "--no-probe", "--test-file", &place]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a link of another user"), "{output:?}");
    // A link of the user who runs the command is an ordinary way to name a directory.
    let own = stage.at("own").display().to_string();
    assert!(stage.run(&["report", RECORDING, "--export", &own]).status.success());
    assert!(stage.run(&["learn", "--export", &format!("{own}/l.html")]).status.success());
    assert!(victim.join("report.json").exists() && victim.join("l.html").exists());
}

/// The attacker could move `work/out` into a shared directory before `..` is resolved.
#[test]
fn no_result_is_written_above_a_folder_that_another_user_can_move() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let model = small_model(&stage);
    fs::create_dir(stage.at("work/out")).unwrap();
    give(&stage.at("work"));
    let before = image(&stage.at("work"));
    let place = stage.at("work/out/..").display().to_string();
    for words in commands(&place, &model, &names(&place)) {
        let output = stage.run_with(&words, "TMPDIR", "/tmp");
        let said = String::from_utf8_lossy(&output.stderr);
        let is_refused = said.contains("'..' is not followed") || said.contains("belongs to another user");
        assert!(!output.status.success() && is_refused, "{words:?}: {said}");
        assert_eq!(image(&stage.at("work")), before, "{words:?}");
    }
}

/// The attacker owns the directory with the results and exchanges it with a link while commands of root write.
#[test]
fn a_folder_that_is_exchanged_while_results_are_written_leads_nowhere() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let model = small_model(&stage);
    let (out, link) = (stage.at("work/out"), stage.at("work/link"));
    fs::create_dir(&out).unwrap();
    symlink(stage.at("victim"), &link).unwrap();
    give(&stage.at("work"));
    for name in ["report.json", "r.gdsrec", "r.gdsrec.partial", "l.html", "cufile.json"] {
        fs::write(stage.at("victim").join(name), "").unwrap();
    }
    let before = image(&stage.at("victim"));
    let (done, exchanges) = (AtomicBool::new(false), AtomicU64::new(0));
    let place = out.display().to_string();
    let mut tries = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                exchanges.fetch_add(1, Ordering::Relaxed);
                renameat_with(CWD, &out, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let rounds = std::env::var("GDS_TOP_RACES").ok().and_then(|number| number.parse().ok()).unwrap_or(2);
        for _ in 0..rounds {
            for words in commands(&place, &model, &names(&place)) {
                let output = stage.run_with(&words, "TMPDIR", "/tmp");
                tries += 1;
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.code().is_some() && !said.contains("panicked"), "{words:?}: {said}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let exchanges = exchanges.load(Ordering::Relaxed);
    eprintln!("{tries} commands, {exchanges} exchanges");
    assert!(exchanges > tries, "{exchanges} exchanges during {tries} commands test too little");
    assert_eq!(image(&stage.at("victim")), before);
}

#[test]
fn root_writes_no_model_below_a_home_of_another_user() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let place = "home/.cache/gds-top";
    fs::create_dir_all(stage.at("home/.cache")).unwrap();
    symlink(stage.at("victim/inner"), stage.at(place)).unwrap();
    give(&stage.at("home"));
    let before = image(&stage.at("victim"));
    let bench = ["bench", "odd-sizes", "--target", "host", "--cache", "as-is", "--engine", "pread", "--yes"];
    for planted in [true, false] {
        for words in [&bench[..], &["selftest", "--target", "host"]] {
            let output = stage.run(words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains("belongs to another user"), "{words:?}: {said}");
        }
        assert_eq!(image(&stage.at("victim")), before);
        let all = image(&stage.at("home"));
        let of_root: Vec<_> = all.iter().filter(|(_, (_, owner, _))| *owner != ATTACKER).collect();
        assert!(of_root.is_empty(), "{of_root:?}");
        if planted {
            fs::remove_file(stage.at(place)).unwrap();
        }
    }
    // The files of root are in directories of root.
    let cache = stage.at("cache");
    let output = stage.run_with(&bench, "GDS_TOP_NONE", "");
    assert!(!output.status.success() && !cache.exists());
    let output = Command::new(PROGRAM)
        .args(bench)
        .env_clear()
        .env("XDG_CACHE_HOME", &cache)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::metadata(cache.join("gds-top/models/odd-sizes")).unwrap().mode() & 0o022, 0);
}

/// A user follows no link of another user either, and removes only entries of the directory.
#[test]
fn an_ordinary_user_follows_no_link_of_another_user() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let (shared, mine) = (stage.at("shared"), stage.at("mine"));
    for folder in [&shared, &mine] {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    }
    symlink(&mine, shared.join("theirs")).unwrap();
    lchown(shared.join("theirs"), Some(ATTACKER + 1), Some(ATTACKER + 1)).unwrap();
    let run = |place: &Path| {
        let mut command = started_by("setpriv");
        command.args(["--reuid", &ATTACKER.to_string(), "--regid", &ATTACKER.to_string(), "--clear-groups", PROGRAM]);
        command.args(["report", RECORDING, "--export"]).arg(place).output().unwrap()
    };
    let first = run(&shared);
    if !first.status.success() {
        eprintln!("skipped: another user cannot run the program: {}", String::from_utf8_lossy(&first.stderr));
        return;
    }
    let refused = run(&shared.join("theirs"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is a link of another user"), "{refused:?}");
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
}

#[test]
fn a_watched_program_that_truncates_the_file_of_its_calls_ends_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("r.gdsrec");
    let script = "true; : > \"$GDS_TOP_WATCH_FILE\"; sleep 0.3; exit 0";
    let output =
        gds_top().args(["watch", "--record"]).arg(&recording).args(["--", "sh", "-c", script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("watch needs a glibc system") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(3), "no call is known: {output:?}");
    assert!(said.contains("became shorter") && !said.contains("panicked"), "{said}");
    assert!(gds_top().arg("report").arg(&recording).output().unwrap().status.success());
}

/// The environment of a program has the path of the library and of the shared file after the session. Another user could
/// create them again where all users can write.
#[test]
fn programs_that_outlive_watch_load_no_library_of_another_user() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let shared = stage.at("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let script = "echo \"$LD_AUDIT\"; cp --sparse=always \"$GDS_TOP_WATCH_FILE\" own; for f in theirs before; do cp --sparse=always own $f; done; \
                  chown 54321 theirs; for f in own theirs; do GDS_TOP_WATCH_FILE=$PWD/$f /bin/true; done; \
                  cmp -s own before && echo not recorded; cmp -s theirs before && echo not written";
    let mut command = gds_top();
    command.args(["watch", "--", "sh", "-c", script]).current_dir(stage.at("victim")).env("TMPDIR", &shared);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("watch needs a glibc system") {
        eprintln!("skipped: {said}");
        return;
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lines = printed.lines();
    let library = Path::new(lines.next().unwrap());
    assert!(library.is_absolute() && !library.exists(), "{printed}");
    // The directory of the library is removed, and the directories above it are not.
    for folder in library.ancestors().skip(2).take_while(|folder| *folder != shared) {
        let meta = fs::metadata(folder).unwrap();
        assert!(meta.uid() == 0 && meta.mode() & 0o002 == 0, "{}: {:o}", folder.display(), meta.mode());
    }
    assert_ne!(library.ancestors().nth(2), Some(shared.as_path()), "{printed}");
    // No session reads these files, so programs record in the file of the session instead.
    assert_eq!([lines.next(), lines.next()], [Some("not recorded"), Some("not written")], "{printed}");
}

#[test]
fn a_signal_ends_a_capture_with_a_sentence_and_leaves_no_temporary_folder() {
    let (temporary, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(temporary.path(), Permissions::from_mode(0o700)).unwrap();
    let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut command = gds_top();
        command.arg("capture").arg(place.path().join("c.tar.zst")).arg(place.path());
        command.env("TMPDIR", temporary.path()).env("GDS_TOP_CAPTURE_HOLD", "1");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.ends_with("holding the capture\n") {
            assert!(said.read_line(&mut text).unwrap() > 0, "it ended before it was complete: {text}");
        }
        assert!(count(temporary.path()) > 0, "{text}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        said.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}: {text}");
        assert!(text.contains("interrupted; the temporary files"), "{signal:?}: {text}");
        assert_eq!([temporary.path(), place.path()].map(count), [0, 0], "{signal:?}: {text}");
    }
}

/// The C library and the allocator abort the process if there is no memory. The test sends the same signal.
#[test]
fn an_abort_leaves_no_temporary_folder() {
    let (temporary, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(temporary.path(), Permissions::from_mode(0o700)).unwrap();
    let grid = ["--file-size", "4M", "--seconds", "60", "--size", "64K", "--threads", "1", "--target", "host", "--yes"];
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    for delay_ms in [0, 10, 100, 500] {
        let mut command = gds_top();
        command.arg("bench-io").arg(place.path()).args(grid).env("TMPDIR", temporary.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while entries(place.path()).next().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote a file");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(delay_ms));
        let process = Pid::from_child(&child);
        kill_process(process, Signal::ABORT).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains("the process cannot continue"), "{output:?}");
        let left: Vec<_> = [temporary.path(), place.path()].into_iter().flat_map(entries).collect();
        assert!(left.is_empty(), "{delay_ms} ms: {left:?}: {said}");
    }
}
