//! Tests of commands that write to a full disk. Results and temporary files are in a small tmpfs of ten sizes. Each
//! command ends with a documented status and one sentence, an earlier file stays complete, and no temporary directory
//! remains. `GDS_TOP_THOROUGH=1` tries all sizes, and `--nocapture` prints figures. Mounting the tmpfs needs
//! namespaces.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "program/mod.rs"]
mod program;

use program::{PROGRAM, VARIABLES};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Sizes of the file system in KiB. Its directory needs one page.
const SIZES: [u64; 10] = [8, 16, 32, 64, 128, 256, 512, 1_024, 4_096, 16_384];

/// Mounts the tmpfs in a separate mount namespace, runs the program and lists the remaining files. The list follows a
/// mark on standard error, because results are on standard output.
const SCRIPT: &str = r#"
size=$1 place=$2; shift 2
mount -t tmpfs -o "size=${size}k,mode=755" none "$place" || exit 99
mkdir "$place/tmp" || exit 98
TMPDIR="$place/tmp" "$@"
status=$?
echo "== left" >&2
cd "$place" && find . -mindepth 1 ! -path ./tmp | sort >&2
find . -mindepth 1 -type d -empty ! -path ./tmp -printf 'EMPTY %p\n' >&2
[ ! -f c.tar.zst ] || TMPDIR=/tmp "$1" check --no-probe --root c.tar.zst >/dev/null 2>&1 || [ $? = 1 ] || echo "BROKEN c.tar.zst" >&2
[ ! -f r.gdsrec ] || TMPDIR=/tmp "$1" report r.gdsrec >/dev/null 2>&1 || [ $? != 2 ] || echo "BROKEN r.gdsrec" >&2
[ ! -d made ] || "$1" inspect made >/dev/null 2>&1 || echo "BROKEN made" >&2
exit $status
"#;

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}

/// `unshare` with the options that this user needs.
fn namespace() -> Option<&'static [&'static str]> {
    let options: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    let works = Command::new("unshare").args(options).args(["sh", "-c", "mount -t tmpfs none /mnt"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(options);
    }
    eprintln!("skipped: a small file system needs unshare and the right to mount in a namespace");
    None
}

fn in_small(options: &[&str], size: u64, place: &Path, words: &[String]) -> Output {
    small(options, size, place, words).output().unwrap()
}

fn small(options: &[&str], size: u64, place: &Path, words: &[String]) -> Command {
    let mut command = Command::new("unshare");
    command.args(options).args(["sh", "-c", SCRIPT, "sh", &size.to_string()]).arg(place).arg(PROGRAM).args(words);
    command.env_clear().envs(VARIABLES).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

/// The commands, and the names that they may leave at the top of the file system.
fn commands(place: &Path, model: &Path, archive: &Path) -> Vec<(&'static str, Vec<String>, &'static [&'static str])> {
    let at = |name: &str| place.join(name).display().to_string();
    let (model, archive) = (model.display().to_string(), archive.display().to_string());
    let recording = repository("assets/recordings/h200-io.gdsrec");
    let of = |text: &str, more: &[&str]| {
        let words = text.split(' ').map(str::to_owned);
        words.chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>()
    };
    const BENCH: &str = "bench --target host --cache as-is --yes --no-telemetry --engine";
    let grid = "bench-io --file-size 1M --seconds 0.01 --size 64K --threads 1 --target host --yes";
    vec![
        ("check --root", of("check --root", &[&archive]), &[]),
        ("fix --list --root", of("fix --list --root", &[&archive]), &[]),
        ("config lint --root", of("config lint --root", &[&archive]), &[]),
        ("capture", of("capture", &[&at("c.tar.zst"), &model]), &["c.tar.zst"]),
        ("bench", of(BENCH, &["pread,mmap", &model]), &[]),
        ("bench command", of(BENCH, &["command:true", &model]), &[]),
        (
            "bench --record",
            of(BENCH, &["pread", &model, "--record", &at("r.gdsrec")]),
            &["r.gdsrec", "r.gdsrec.partial"],
        ),
        ("bench --export", of(BENCH, &["pread", &model, "--export", &at("e")]), &["e"]),
        ("report --export", of("report --export", &[&at("e"), &recording]), &["e"]),
        ("watch", of("watch -- true", &[]), &[]),
        ("watch --record", of("watch --record", &[&at("r.gdsrec"), "--", "true"]), &["r.gdsrec", "r.gdsrec.partial"]),
        ("selftest", of("selftest --target host", &[]), &[]),
        ("make-model", of("make-model odd-sizes --yes --scale 0.3", &[&at("made")]), &["made"]),
        ("bench-io", of(grid, &[&at("")]), &[]),
        ("bench-kv", of("bench-kv ucm --target host --tokens 300 --yes", &[&at("")]), &[]),
        ("learn --export", of("learn --export", &[&at("l.html")]), &["l.html"]),
        ("config tune", of("config tune", &[&model, "-o", &at("cufile.json")]), &["cufile.json"]),
        ("man", of("man", &[&at("man")]), &["man"]),
    ]
}

/// The errors in the result of a command.
fn wrong(output: &Output, may_stay: &[&str]) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(status) = output.status.code() else { return Some(format!("{}: {said}", output.status)) };
    let (said, left) = said.split_once("== left\n")?;
    let sentences: Vec<&str> = said.lines().filter(|line| line.contains("gds-top: ")).collect();
    if said.contains("panicked") || ![0, 1, 2, 3].contains(&status) {
        return Some(format!("status {status}: {said}"));
    }
    if status != 0 && sentences.is_empty() && output.stdout.is_empty() {
        return Some(format!("status {status} without a sentence"));
    }
    let top = |line: &str| line.trim_start_matches("./").split('/').next().unwrap_or(line).to_owned();
    if let (0, Some(made)) = (status, may_stay.first().filter(|made| !left.lines().any(|line| top(line) == **made))) {
        return Some(format!("status 0 without {made}: {said}"));
    }
    // An export into an existing directory can leave some of its files, each of them complete. No empty directory remains.
    let strange: Vec<&str> = left
        .lines()
        .filter(|line| {
            !may_stay.contains(&top(line).as_str())
                || line.contains(".gds-top")
                || line.starts_with("BROKEN")
                || line.starts_with("EMPTY")
        })
        .collect();
    (!strange.is_empty()).then(|| format!("status {status}, left: {strange:?}: {said}"))
}

#[test]
fn a_full_disk_ends_no_command_without_a_sentence_and_leaves_nothing() {
    let Some(options) = namespace() else { return };
    let thorough = std::env::var_os("GDS_TOP_THOROUGH").is_some();
    let around = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (place, model): (PathBuf, PathBuf) = (around.path().join("small"), around.path().join("model"));
    std::fs::create_dir(&place).unwrap();
    let archive = around.path().join("machine.tar.zst");
    let make = |words: &[&str]| {
        let output = program::gds_top().args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    make(&["make-model", "odd-sizes", model.to_str().unwrap(), "--yes", "--scale", "0.1"]);
    make(&["capture", archive.to_str().unwrap(), model.to_str().unwrap()]);
    let (mut runs, mut fine, mut problems) = (0, 0, Vec::new());
    for (at, size) in SIZES.into_iter().enumerate() {
        if !thorough && ![1, 5, 9].contains(&at) {
            continue;
        }
        for (name, words, may_stay) in commands(&place, &model, &archive) {
            let output = in_small(options, size, &place, &words);
            runs += 1;
            fine += usize::from(output.status.success());
            if let Some(what) = wrong(&output, may_stay) {
                problems.push(format!("{size} KiB, {name}: {what}"));
            }
        }
    }
    println!(
        "{runs} commands in full file systems, {fine} of them had room enough, {} broke a promise",
        problems.len()
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The request is valid, and another disk would do.
#[test]
fn every_command_ends_with_status_3_if_the_disk_has_no_space_for_its_model_or_temporary_files() {
    let Some(options) = namespace() else { return };
    let around = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (place, model) = (around.path().join("small"), around.path().join("model"));
    std::fs::create_dir(&place).unwrap();
    let words = ["make-model", "odd-sizes", model.to_str().unwrap(), "--yes", "--scale", "0.1"];
    assert!(program::gds_top().args(words).output().unwrap().status.success());
    let (made, recording) = (place.join("made"), place.join("r.gdsrec"));
    let [model, made, recording, dir] = [&model, &made, &recording, &place].map(|path| path.to_str().unwrap());
    for words in [
        &["selftest", "--target", "host"][..],
        &["bench", "tiny-tensors", "--target", "host", "--engine", "mmap"],
        &["make-model", "tiny-tensors", made, "--yes"],
        &["bench", model, "--target", "host", "--engine", "mmap", "--record", recording],
        &["overhead", model, "--target", "host", "--repeat", "1"],
        &["bench-io", dir, "--target", "host", "--yes"],
        &["bench-kv", "ucm", dir, "--variants", "staging", "--target", "host", "--yes", "--headless"],
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let output = small(options, 8, &place, &words).env("XDG_CACHE_HOME", &place).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
        assert!(said.contains(" free") || said.contains("No space left"), "{words:?}: {said}");
    }
}

/// The second place of a directory on the same file system has the same device.
#[test]
fn a_folder_that_is_mounted_in_a_folder_of_the_program_is_not_emptied() {
    let Some(options) = namespace() else { return };
    let dir = tempfile::tempdir().unwrap();
    let bound = dir.path().join("bound");
    std::fs::create_dir(&bound).unwrap();
    std::fs::write(bound.join("thesis"), "x").unwrap();
    let script = r#"
cd "$1" && shift && "$@" --keep >&2 && mkdir gds-top-kv-ucm/inner && mount --bind bound gds-top-kv-ucm/inner || exit 99
exec "$@"
"#;
    let mut command = Command::new("unshare");
    command.args(options).args(["sh", "-c", script, "sh"]).arg(dir.path()).arg(PROGRAM);
    command.args(["bench-kv", "ucm", ".", "--variants", "ram", "--target", "host", "--tokens", "256", "--repeat", "1"]);
    command.args(["--headless", "--yes"]).env_clear().envs(VARIABLES).stdin(Stdio::null());
    let output = command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("another directory or file system is mounted at inner"), "{said}");
    assert_eq!(std::fs::read(bound.join("thesis")).unwrap(), b"x");
}
