//! Kills commands that write with SIGKILL at random times. Each file is complete or unchanged, the next start removes
//! temporary files, and no process of the program survives. `GDS_TOP_KILLS=2000` sets the number of kills (default: 2
//! for each command), `GDS_TOP_KILLS_SEED` selects other times, and `--nocapture` prints figures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "program/mod.rs"]
mod program;
#[path = "program/tree.rs"]
mod tree;

use program::{PROGRAM, VARIABLES};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tree::tree;

/// Time limit for the end of all processes of a killed command.
const END: Duration = Duration::from_secs(20);
/// Marks the processes of one command.
const MARK: &str = "A_TEST_KILLS_THIS";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn room() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn words(text: &str, more: &[&Path]) -> Vec<String> {
    let words = text.split(' ').map(str::to_owned);
    words.chain(more.iter().map(|path| path.display().to_string())).collect()
}

/// The program with its temporary directories in `temporary`.
fn command(words: &[String], temporary: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).env_clear().envs(VARIABLES).env("TMPDIR", temporary).env("RUST_BACKTRACE", "0");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
    command
}

fn plain(words: &[String], temporary: &Path) -> Output {
    command(words, temporary).output().unwrap()
}

/// The numbers of the shards in a directory, with the number of all shards in their names.
fn shards(folder: &Path) -> Vec<(usize, usize)> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut found: Vec<(usize, usize)> = names
        .filter_map(|name| {
            let (number, of) =
                name.to_str()?.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
            Some((number.parse().ok()?, of.parse().ok()?))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Regular files below a directory with their content, without the journal.
fn image(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != ".gds-top" {
                left.push(entry.path());
            } else if kind.is_file() {
                found.insert(entry.path(), fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// Processes of the program with this mark.
fn alive(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let is_one = |pid: &u32| {
        let is_program = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(PROGRAM));
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_program && environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(is_one).collect()
}

/// Hidden files below a directory. They are unfinished files.
fn unfinished(folder: &Path) -> Result<(), String> {
    let is_hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let left: Vec<PathBuf> = image(folder).into_keys().filter(is_hidden).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left: {left:?}")) }
}

/// A command that is killed, in a new directory each time.
struct Operation<'a> {
    name: &'static str,
    /// Prepares the directory. Returns the arguments of the command.
    start: &'a dyn Fn(&Path) -> Vec<String>,
    /// Starts the program again if this completes or undoes a change. Returns whether the directory is then correct.
    holds: &'a dyn Fn(&Path, &Path) -> Result<(), String>,
}

/// Kills a command after a time. Returns the errors.
fn kill_once(operation: &Operation<'_>, after: Duration) -> Result<bool, String> {
    let (folder, temporary) = (room(), room());
    let words = (operation.start)(folder.path());
    let mark = format!("{:016x}", std::hash::RandomState::new().build_hasher().finish());
    let mut command = command(&words, temporary.path());
    let mut child = command.env(MARK, &mark).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let ran = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    let until = Instant::now() + END;
    while !alive(&mark).is_empty() {
        if Instant::now() > until {
            return Err(format!("processes {:?} survive", alive(&mark)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (operation.holds)(folder.path(), temporary.path())?;
    // The next command that makes a scratch directory removes those of ended processes.
    let next = plain(&["watch", "--", "true"].map(str::to_owned), temporary.path());
    if !next.status.success() {
        return Err(format!("the next start ended with {}", next.status));
    }
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    if !left.is_empty() {
        return Err(format!("left in the directory for temporary files: {left:?}"));
    }
    // The name of a recorded program's memory contains its process ID.
    let number = format!("-{}-", child.id());
    let memory = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let memory: Vec<_> = memory.filter(|name| name.to_string_lossy().contains(&number)).collect();
    if memory.is_empty() { Ok(ran) } else { Err(format!("left in /dev/shm: {memory:?}")) }
}

fn kill_often(operation: &Operation<'_>, kills: u64, seed: u64) -> Vec<String> {
    let (folder, temporary) = (room(), room());
    let words = (operation.start)(folder.path());
    let began = Instant::now();
    let output = plain(&words, temporary.path());
    let longest = began.elapsed();
    assert!(output.status.code().is_some_and(|status| status < 2), "{}: {output:?}", operation.name);
    let (mut hit, mut broken) = (0, Vec::new());
    let mut dice = seed;
    for _ in 0..kills {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let after = longest.mul_f64((dice >> 40) as f64 / f64::from(1_u32 << 24));
        match kill_once(operation, after) {
            Ok(ran) => hit += u64::from(ran),
            Err(what) => broken.push(format!("{} killed after {after:?}: {what}", operation.name)),
        }
    }
    println!(
        "{:<10} {kills} kills within {longest:?}, {hit} while it ran, {} promises kept",
        operation.name,
        kills - broken.len() as u64
    );
    broken
}

/// Whether the tree is unchanged or completely fixed. A start that changes files first resumes the interrupted fix.
fn before_or_after(folder: &Path, temporary: &Path) -> Result<(), String> {
    let name = |folder: &Path| {
        let of = |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(folder).unwrap().to_owned(), bytes);
        image(folder).into_iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let again = plain(&words("fix --undo kernel-p2pdma --root", &[&folder.join("root")]), temporary);
    let (was, fixed) = (room(), room());
    tree(was.path());
    let done = plain(&words("fix p2pdma-registry-keys --yes --root", &[&tree(fixed.path())]), temporary);
    assert!(done.status.success());
    let now = name(folder);
    if now == name(was.path()) || now == name(fixed.path()) {
        return Ok(());
    }
    Err(format!("neither as before nor applied: {:?}: {}", now.keys(), String::from_utf8_lossy(&again.stderr)))
}

#[test]
fn a_kill_at_any_time_leaves_whole_files_and_no_process() {
    let kills = number("GDS_TOP_KILLS");
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("GDS_TOP_KILLS_SEED").unwrap_or(clock);
    let (shared, scratch) = (room(), room());
    let model = shared.path().join("model");
    assert!(plain(&words("make-model odd-sizes --yes --scale 0.2", &[&model]), scratch.path()).status.success());
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-io.gdsrec");
    let earlier = fs::read(&recording).unwrap();
    let node = shared.path().join("node.json");
    fs::write(&node, plain(&words("report --json", &[&recording]), scratch.path()).stdout).unwrap();
    let export = |folder: &Path| words("report --format json,md,csv --export", &[&folder.join("out"), &recording]);
    let names = |folder: &Path| {
        let of = |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(folder).unwrap().to_owned(), bytes);
        image(folder).into_iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let whole = {
        let folder = room();
        assert!(plain(&export(folder.path()), scratch.path()).status.success());
        names(folder.path())
    };
    let kv = "bench-kv lmcache --target host --no-telemetry --tokens 256 --set chunk_size=64 --set compute_us=0 --variants disk --json";
    let reads = |path: &Path, temporary: &Path| {
        let status = plain(&words("report --json", &[path]), temporary).status.code();
        // Status 2 means that a file cannot be read.
        if matches!(status, Some(0 | 1 | 3)) { Ok(()) } else { Err(format!("{} cannot be read", path.display())) }
    };
    // The recording of an earlier session has the same name as the new one.
    let before = |folder: &Path| {
        let file = folder.join("r.gdsrec");
        fs::write(&file, &earlier).unwrap();
        file
    };
    let recorded = |folder: &Path, temporary: &Path| {
        let file = folder.join("r.gdsrec");
        if fs::read(&file).is_ok_and(|bytes| bytes == fs::read(&recording).unwrap()) {
            return Ok(());
        }
        reads(&file, temporary)
    };
    let bench = "bench --target host --cache as-is --engine pread,mmap --repeat 1 --record";
    let operations = [
        Operation {
            name: "fix",
            start: &|folder| words("fix p2pdma-registry-keys --yes --root", &[&tree(folder)]),
            holds: &before_or_after,
        },
        Operation {
            name: "undo",
            start: &|folder| {
                let top = tree(folder);
                let done = plain(&words("fix p2pdma-registry-keys --yes --root", &[&top]), scratch.path());
                assert!(done.status.success());
                words("fix --undo p2pdma-registry-keys --root", &[&top])
            },
            holds: &before_or_after,
        },
        Operation {
            name: "record",
            start: &|folder| words(bench, &[&before(folder), &model]),
            holds: &|folder, temporary| {
                recorded(folder, temporary)?;
                // The next session in the same directory removes the remaining files.
                assert!(plain(&words(bench, &[&folder.join("r.gdsrec"), &model]), temporary).status.success());
                unfinished(folder)
            },
        },
        Operation {
            name: "watch",
            start: &|folder| [words("watch --record", &[&before(folder)]), words("-- sleep 0.2", &[])].concat(),
            holds: &|folder, temporary| {
                // Removes the shared memory of the killed program, and lasts longer than the recorded program, which keeps
                // the directory of the library.
                let _ = plain(&words("watch -- sleep 0.4", &[]), temporary);
                recorded(folder, temporary)
            },
        },
        Operation {
            name: "export",
            start: &|folder| {
                assert!(plain(&export(folder), scratch.path()).status.success());
                export(folder)
            },
            holds: &|folder, temporary| {
                // An unfinished file stays until the next export.
                assert!(plain(&export(folder), temporary).status.success());
                let now = names(folder);
                if now == whole { Ok(()) } else { Err(format!("{:?}", now.keys())) }
            },
        },
        Operation {
            name: "KV write",
            start: &|folder| [words(kv, &[folder]), words("--direction write --keep", &[])].concat(),
            holds: &|folder, temporary| {
                let read = plain(&[words(kv, &[folder]), words("--as-found --keep", &[])].concat(), temporary);
                let wrong = String::from_utf8_lossy(&read.stdout).contains("\"verified\": false");
                match read.status.code() {
                    Some(0 | 2 | 3) if !wrong => Ok(()),
                    status => Err(format!("a reader of the store ended with {status:?}, wrong bytes: {wrong}")),
                }
            },
        },
        Operation {
            name: "make-model",
            start: &|folder| words("make-model odd-sizes --yes --scale 0.2", &[&folder.join("made")]),
            holds: &|folder, temporary| {
                let made = folder.join("made");
                let inspected = || plain(&words("inspect", &[&made]), temporary).status.code();
                let is_whole = || inspected() == Some(0);
                let shards = shards(&made);
                // The shards are renamed one after another. A directory that lacks some of them is refused; any other
                // model is whole.
                let expected = match shards.first() {
                    Some((_, of)) if shards.len() < *of => Some(2),
                    None if !image(&made)
                        .keys()
                        .any(|path| path.extension().is_some_and(|end| end == "safetensors")) =>
                    {
                        None
                    }
                    _ => Some(0),
                };
                if expected.is_some() && inspected() != expected {
                    return Err(format!("the shards {shards:?} were opened with status {:?}", inspected()));
                }
                let again = plain(&words("make-model odd-sizes --yes --scale 0.2", &[&made]), temporary);
                if is_whole() { Ok(()) } else { Err(String::from_utf8_lossy(&again.stderr).into_owned()) }
            },
        },
        Operation {
            name: "capture",
            start: &|folder| words("capture", &[&folder.join("c.tar.zst"), &model]),
            holds: &|folder, temporary| {
                let file = folder.join("c.tar.zst");
                let status = plain(&words("check --root", &[&file]), temporary).status.code();
                if file.exists() && !matches!(status, Some(0 | 1)) {
                    return Err("a part of a capture".to_owned());
                }
                let _ = fs::remove_file(&file);
                assert!(plain(&words("capture", &[&file, &model]), temporary).status.success());
                unfinished(folder)
            },
        },
        Operation { name: "fleet", start: &|_| words("fleet", &[&node]), holds: &|_, _| Ok(()) },
        Operation {
            name: "command",
            start: &|_| {
                let engine = ["--engine".to_owned(), "command:sleep 0.2".to_owned()];
                [words("bench --target host --cache as-is --repeat 1", &[&model]), engine.to_vec()].concat()
            },
            holds: &|_, _| Ok(()),
        },
    ];
    println!("seed {seed}");
    let each = kills.map_or(2, |all| all.div_ceil(operations.len() as u64));
    let broken: Vec<String> = operations
        .iter()
        .flat_map(|operation| kill_often(operation, each, seed ^ operation.name.len() as u64))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The part of a killed session is a result of the user, so it is not removed.
#[test]
fn each_recording_of_a_killed_session_is_kept_and_named() {
    let (folder, temporary) = (room(), room());
    let file = folder.path().join("r.gdsrec");
    let watch = [words("watch --record", &[&file]), words("-- sleep 600", &[])].concat();
    let partial = folder.path().join("r.gdsrec.partial");
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<std::collections::BTreeSet<_>>()
    };
    for kill in 1..=3 {
        let mut child = command(&watch, temporary.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the session records nothing", || {
            let is_next = kill == 1 || folder.path().join(format!("r.gdsrec.partial-{}", kill - 1)).exists();
            is_next && fs::metadata(&partial).is_ok_and(|file| file.len() > 200)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let expected = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names(), expected(&["r.gdsrec.partial", "r.gdsrec.partial-1", "r.gdsrec.partial-2"]));
    let last = plain(&[words("watch --record", &[&file]), words("-- true", &[])].concat(), temporary.path());
    let said = String::from_utf8_lossy(&last.stderr);
    assert!(said.contains("r.gdsrec.partial-3"), "{said}");
    let all = ["r.gdsrec", "r.gdsrec.partial-1", "r.gdsrec.partial-2", "r.gdsrec.partial-3"];
    assert_eq!(names(), expected(&all));
    for name in all {
        let status = plain(&words("report --json", &[&folder.path().join(name)]), temporary.path()).status.code();
        assert!(matches!(status, Some(0 | 1 | 3)), "{name}: {status:?}");
    }
}

/// Living processes whose command line contains the word, with their command lines.
fn named(word: &str) -> Vec<(u32, String)> {
    let of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
        let lives = !stat.rsplit_once(')')?.1.starts_with(" Z");
        (lives && line.contains(word)).then_some((pid, line))
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| of(name.to_str()?.parse().ok()?)).collect()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < END * 6, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_ends_if_its_session_and_its_supervisor_are_killed_together() {
    let (folder, temporary) = (room(), room());
    let model = folder.path().join("model");
    assert!(plain(&words("make-model odd-sizes --yes --scale 0.1", &[&model]), temporary.path()).status.success());
    for (number, killed) in [
        &["bench"][..],
        &["bench", "__outside "],
        &["bench", "__outside-supervisor"],
        &["__outside ", "__outside-supervisor"],
        &["bench", "__outside ", "__outside-supervisor"],
    ]
    .into_iter()
    .enumerate()
    {
        // A duration of days that no other process has.
        let mark = format!("7{number}{:07}.5", std::process::id());
        // The kernel kills only the group of the command if all three processes are killed.
        let other = if killed.len() == 3 { "" } else { "setsid " };
        let engine = ["--engine".to_owned(), format!("command:{other}sleep {mark} & sleep {mark}")];
        let words = [words("bench --target host --cache as-is --repeat 1", &[&model]), engine.to_vec()].concat();
        let mut command = command(&words, temporary.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let tree = || named(&mark);
        let sleeps = |tree: &[(u32, String)]| tree.iter().filter(|(_, line)| line.starts_with("sleep")).count();
        wait_until("the command did not start", || sleeps(&tree()) == 2);
        let pids: Vec<String> = tree()
            .into_iter()
            .filter(|(_, line)| killed.iter().any(|name| line.contains(&format!(" {name}"))))
            .map(|(pid, _)| pid.to_string())
            .collect();
        assert_eq!(pids.len(), killed.len(), "{killed:?}: {:?}", tree());
        // The session examines the process tree ten times a second, on a busy machine less often.
        std::thread::sleep(Duration::from_secs(2));
        assert!(Command::new("kill").arg("-KILL").args(&pids).status().unwrap().success());
        wait_until(&format!("{killed:?}: processes of the command are left"), || sleeps(&tree()) == 0);
        child.wait().unwrap();
    }
}
