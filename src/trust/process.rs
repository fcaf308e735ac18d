//! Reads the files of procfs about a process. A process can make its command line, its environment and its list of
//! mappings as long as it wants (`PR_SET_MM_MAP` needs no permission), so only their beginning is read.
//!
//! The files of a process of another user are read only in the thread of an [`Examiner`](super::Examiner), because the
//! process decides when the kernel answers. The owner of its directory, its state and its links are always readable.

use super::allowance::{Allowance, Beginning};
use super::maker;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of an environment. `execve` accepts at most 6 MiB.
const ENVIRONMENT_BYTES: u64 = 8 << 20;
/// Maximum number of bytes of a list of mappings. A usual process has less than 1 MiB.
const MAPPINGS_BYTES: u64 = 64 << 20;
/// Maximum number of bytes of the state of a process. The users are in its first lines.
const STATUS_BYTES: u64 = 4 << 10;
/// Number of variables between two looks at the clock.
const PART_VARIABLES: usize = 4096;
/// Maximum number of bytes of a command line.
const COMMAND_BYTES: u64 = 64 << 10;
/// Maximum number of bytes of the facts about a descriptor. The kernel writes all locks of its file after the others.
const DESCRIPTOR_BYTES: u64 = 4 << 10;
/// Maximum number of characters of a command line in a result.
const SHOWN_CHARACTERS: usize = 400;

/// The directory of a process in procfs.
#[must_use]
pub fn folder(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The id and the start time of a process. The start time is 0 if procfs does not show it.
pub type Identity = (u32, u64);

/// The identity of the process that has this id now.
#[must_use]
pub fn identity(pid: u32) -> Identity {
    (pid, maker::stat_of(pid).map_or(0, |(_, start)| start))
}

/// Whether a process has only the effective user of this program. A set-user-ID program of root that another user started
/// has two.
#[must_use]
pub fn is_own(process: &Path) -> bool {
    let user = geteuid().as_raw();
    std::fs::metadata(process).is_ok_and(|folder| folder.uid() == user)
        && users(process).is_none_or(|users| users.iter().all(|id| *id == user))
}

/// The real user of a process. The directory of a process that the kernel protects belongs to root. `None` if the process has
/// ended.
#[must_use]
pub fn user(process: &Path) -> Option<u32> {
    let real = users(process).and_then(|users| users.first().copied());
    real.or_else(|| std::fs::metadata(process).ok().map(|folder| folder.uid()))
}

/// The real, effective, saved and file system user of a process.
fn users(process: &Path) -> Option<Vec<u32>> {
    let status = Allowance::unlimited().beginning(&process.join("status"), STATUS_BYTES).ok()?;
    let status = String::from_utf8_lossy(&status.bytes);
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().map(|id| id.parse().ok()).collect()
}

/// The directories of the processes of this user in `proc`.
pub fn own_folders(proc: &Path) -> impl Iterator<Item = PathBuf> {
    let is_process = |folder: &PathBuf| {
        folder.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit)) && is_own(folder)
    };
    std::fs::read_dir(proc).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_process)
}

/// Whether a process has the mounts and the root directory of this program, so that its paths have the same meaning here.
#[must_use]
pub fn has_these_mounts(process: &Path) -> bool {
    same_places(process).iter().all(|is_same| *is_same == Some(true))
}

/// Whether a process has other mounts or another root directory than this program. Those of a process that has ended are
/// unknown, as are those of a process that this user may not examine.
#[must_use]
pub fn has_other_mounts(process: &Path) -> bool {
    same_places(process).contains(&Some(false))
}

/// Whether a process has the mounts, and the root directory, of this program. `None` if it is unknown.
fn same_places(process: &Path) -> [Option<bool>; 2] {
    ["ns/mnt", "root"].map(|name| {
        let of = |process: &Path| process.join(name).read_link().ok();
        of(process).map(|link| Some(link) == of(Path::new("/proc/self")))
    })
}

/// The path under which this program finds a file of a process, which may be in a container. `None` for a process of
/// another user with other mounts: the user can mount a file system that never answers. If the process has ended, it is
/// the path itself.
#[must_use]
pub fn path_of(process: &Path, path: &Path) -> Option<PathBuf> {
    let root = process.join("root");
    if is_own(process) && root.read_link().is_ok() {
        return Some(root.join(path.strip_prefix("/").unwrap_or(path)));
    }
    let is_foreign = !is_own(process) && !has_these_mounts(process);
    // A process that ended in the meantime has no owner and no mounts any more.
    (!is_foreign || std::fs::metadata(process).is_err()).then(|| path.to_owned())
}

/// The beginning of the environment that a process had at its start.
///
/// # Errors
/// Fails if it cannot be read.
pub fn environment(process: &Path, allowed: &mut Allowance) -> io::Result<Beginning> {
    allowed.beginning(&process.join("environ"), ENVIRONMENT_BYTES)
}

/// The variables with these names that a process had at its start. `None` if they cannot be read or it has no variable at
/// all, as after its end.
#[must_use]
pub fn variables(process: &Path, names: &[&str], allowed: &mut Allowance) -> Option<HashMap<OsString, OsString>> {
    let all = environment(process, allowed).ok()?;
    let mut found = HashMap::new();
    let mut has_any = false;
    for (number, pair) in all.bytes.split(|byte| *byte == 0).enumerate() {
        if number % PART_VARIABLES == 0 && !allowed.may_go_on() {
            return None;
        }
        let Some(at) = pair.iter().position(|byte| *byte == b'=') else { continue };
        has_any = true;
        let (name, value) = (&pair[..at], &pair[at + 1..]);
        if names.iter().any(|wanted| wanted.as_bytes() == name) {
            found.insert(OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned());
        }
    }
    has_any.then_some(found)
}

/// The beginning of the facts about an open descriptor of a process (`fdinfo`). Empty if they cannot be read.
pub fn descriptor_facts(process: &Path, descriptor: &OsStr, allowed: &mut Allowance) -> String {
    let facts = allowed.beginning(&process.join("fdinfo").join(descriptor), DESCRIPTOR_BYTES);
    facts.map(|facts| String::from_utf8_lossy(&facts.bytes).into_owned()).unwrap_or_default()
}

/// The status flags in the facts about a descriptor, for example `O_DIRECT`.
#[must_use]
pub fn descriptor_flags(facts: &str) -> Option<u32> {
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok()
}

/// The words of the command line of a process. A long one is truncated.
///
/// # Errors
/// Fails if it cannot be read.
pub fn command_line(process: &Path, allowed: &mut Allowance) -> io::Result<Vec<String>> {
    let mut bytes = allowed.beginning(&process.join("cmdline"), COMMAND_BYTES)?.bytes;
    // Each word ends with a zero byte.
    bytes.pop_if(|last| *last == 0);
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Ok(if bytes.is_empty() { Vec::new() } else { words.collect() })
}

/// The beginning of a command line, with a space between two words, as results show it.
#[must_use]
pub fn shown_command(words: Vec<String>) -> Vec<String> {
    let mut left = SHOWN_CHARACTERS;
    let mut shown = Vec::new();
    for word in words {
        if left == 0 {
            break;
        }
        let word: String = word.chars().take(left).collect();
        left = left.saturating_sub(word.chars().count() + 1);
        shown.push(word);
    }
    shown
}

/// The lines of the mappings of a process. A path that is not UTF-8 gets replacement characters.
///
/// # Errors
/// Fails if they cannot be read, or are more than a usual process has.
pub fn mappings(process: &Path, allowed: &mut Allowance) -> io::Result<String> {
    let all = allowed.beginning(&process.join("maps"), MAPPINGS_BYTES)?;
    if all.is_cut {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the list is too long"));
    }
    Ok(String::from_utf8(all.bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn files_of_a_process_are_read_up_to_a_limit() {
        let place = tempfile::tempdir().unwrap();
        let put = |name: &str, size: u64| File::create(place.path().join(name)).unwrap().set_len(size).unwrap();
        put("environ", ENVIRONMENT_BYTES + 5);
        let seen = environment(place.path(), &mut Allowance::unlimited()).unwrap();
        assert_eq!((seen.bytes.len() as u64, seen.is_cut), (ENVIRONMENT_BYTES, true));
        put("environ", ENVIRONMENT_BYTES);
        assert!(!environment(place.path(), &mut Allowance::unlimited()).unwrap().is_cut);
        put("maps", 1 << 40);
        assert!(mappings(place.path(), &mut Allowance::unlimited()).is_err());
        put("cmdline", 1 << 40);
        assert!(command_line(place.path(), &mut Allowance::unlimited()).unwrap().iter().all(String::is_empty));
    }

    #[test]
    fn the_flags_of_a_descriptor_are_octal_and_come_before_its_locks() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("fdinfo")).unwrap();
        let locks = "lock:\t1: POSIX  ADVISORY  READ 9 08:01:5 0 EOF\n".repeat(1000);
        std::fs::write(place.path().join("fdinfo/5"), format!("pos:\t64\nflags:\t0140002\n{locks}")).unwrap();
        let facts = |name: &str| descriptor_facts(place.path(), OsStr::new(name), &mut Allowance::unlimited());
        assert_eq!((descriptor_flags(&facts("5")), facts("5").len()), (Some(0o140_002), 4096));
        assert_eq!((descriptor_flags(&facts("6")), facts("6")), (None, String::new()));
        assert_eq!(descriptor_flags("flags:\t9\n"), None);
    }

    #[test]
    fn words_and_variables_are_separated_by_zero_bytes() {
        let place = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(place.path().join(name), text).unwrap();
        put("cmdline", b"python\0\0-m\0");
        assert_eq!(command_line(place.path(), &mut Allowance::unlimited()).unwrap(), ["python", "", "-m"]);
        put("cmdline", b"");
        assert_eq!(command_line(place.path(), &mut Allowance::unlimited()).unwrap(), Vec::<String>::new());
        put("environ", b"A=1=2\0B=\0broken\0");
        let names = ["A", "B", "C"];
        let all = variables(place.path(), &names, &mut Allowance::unlimited()).unwrap();
        let value = |name: &str| all.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned());
        assert_eq!((value("A"), value("B"), all.len()), (Some("1=2".into()), Some(String::new()), 2));
        assert_eq!(variables(place.path(), &["C"], &mut Allowance::unlimited()).map(|found| found.len()), Some(0));
        put("environ", b"");
        assert!(variables(place.path(), &names, &mut Allowance::unlimited()).is_none());
    }

    #[test]
    fn results_show_the_beginning_of_a_command_line() {
        let words = |of: &[&str]| of.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown_command(words(&["python", "", "-m"])), ["python", "", "-m"]);
        let long = "é".repeat(SHOWN_CHARACTERS);
        assert_eq!(shown_command(words(&["sh", &long, "-x"])).join(" ").chars().count(), SHOWN_CHARACTERS);
        assert_eq!(shown_command(words(&[&long, "-x"])), [long]);
        assert_eq!(shown_command(vec![String::new(); 65_536]).len(), SHOWN_CHARACTERS);
    }

    #[test]
    fn a_process_with_another_real_user_is_not_an_own_one() {
        let place = tempfile::tempdir().unwrap();
        let own = geteuid().as_raw();
        let has = |users: [u32; 4]| {
            let [real, effective, saved, files] = users;
            let text = format!("Name:\tsu\nUid:\t{real}\t{effective}\t{saved}\t{files}\nGid:\t0\t0\t0\t0\n");
            std::fs::write(place.path().join("status"), text).unwrap();
            is_own(place.path())
        };
        assert!(has([own; 4]));
        assert!(!has([own + 1, own, own, own]) && user(place.path()) == Some(own + 1));
        assert!(!has([own, own, own + 1, own]));
        std::fs::remove_file(place.path().join("status")).unwrap();
        assert_eq!((user(place.path()), user(&place.path().join("none"))), (Some(own), None));
    }

    #[test]
    fn a_process_in_a_chroot_has_other_mounts() {
        let place = tempfile::tempdir().unwrap();
        let mounts = || (has_these_mounts(place.path()), has_other_mounts(place.path()));
        assert_eq!(mounts(), (false, false), "those of a process that has ended are unknown");
        std::fs::create_dir(place.path().join("ns")).unwrap();
        let link = |name: &str, target: &Path| std::os::unix::fs::symlink(target, place.path().join(name)).unwrap();
        link("ns/mnt", &Path::new("/proc/self/ns/mnt").read_link().unwrap());
        link("root", &Path::new("/proc/self/root").read_link().unwrap());
        assert_eq!(mounts(), (true, false));
        std::fs::remove_file(place.path().join("root")).unwrap();
        link("root", Path::new("/srv/chroot"));
        assert_eq!(mounts(), (false, true));
    }

    #[test]
    fn a_process_that_ends_while_it_is_examined_has_the_paths_of_this_program() {
        let file = Path::new("/etc");
        for _ in 0..100 {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let process = folder(child.id().cast_signed());
            let reaper = std::thread::spawn(move || child.wait());
            while !reaper.is_finished() {
                let path = path_of(&process, file);
                assert!(path.as_deref() == Some(file) || path == Some(process.join("root/etc")), "{path:?}");
            }
            reaper.join().unwrap().unwrap();
        }
    }

    #[test]
    fn no_path_is_resolved_in_the_mounts_of_another_user() {
        let own = folder(std::process::id().cast_signed());
        let file = Path::new("/data/x");
        assert_eq!(path_of(&own, file), Some(own.join("root/data/x")));
        assert!(has_these_mounts(&own) && is_own(&own));
        // No process has this number.
        assert_eq!(path_of(&folder(4_194_305), file), Some(file.to_owned()));
        let place = tempfile::tempdir().unwrap();
        let process = place.path().join("7");
        std::fs::create_dir(&process).unwrap();
        let names = || own_folders(place.path()).collect::<Vec<_>>();
        assert_eq!(names(), std::slice::from_ref(&process));
        if std::os::unix::fs::chown(&process, Some(54_321), None).is_err() {
            eprintln!("skipped: only root can give a directory to another user");
            return;
        }
        assert_eq!((path_of(&process, file), names().len()), (None, 0));
        std::fs::create_dir(process.join("ns")).unwrap();
        for name in ["ns/mnt", "root"] {
            let link = Path::new("/proc/self").join(name).read_link().unwrap();
            std::os::unix::fs::symlink(link, process.join(name)).unwrap();
        }
        assert_eq!(path_of(&process, file), Some(file.to_owned()), "it has the mounts of this program");
    }
}
