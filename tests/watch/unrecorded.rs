//! Programs whose calls are not recorded are named.

use crate::harness::{Place, Seen};
use crate::standins;
use std::path::Path;
use std::process::Command;

#[test]
fn a_program_that_lost_the_library_is_named() {
    let Some(place) = Place::new() else { return };
    // Not even the recording library of the parent is asked: the system call is made directly.
    let source = place.file("direct.c");
    let code = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words)
{
    static char folder[4096];
    snprintf(folder, sizeof folder, "LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH"));
    char *few[] = {folder, NULL};
    return (int)syscall(SYS_execve, words[1], words + 1, few) + count;
}
"#;
    std::fs::write(&source, code).unwrap();
    assert!(Command::new("cc").arg("-o").arg(place.file("direct")).arg(&source).status().unwrap().success());
    let mut command = place.watch(&["--json"]);
    command.arg(place.file("direct")).arg(place.file("linked")).arg(place.data()).args(["read", "2", "sleep", "1500"]);
    let seen = Seen::of(command);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 0));
    let program = place.file("linked").canonicalize().unwrap();
    assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!([program.to_string_lossy()]));
    assert!(seen.advice().contains(&"programs-not-recorded"), "{:?}", seen.advice());
}

#[test]
fn a_program_of_root_that_changes_its_user_runs_and_is_named_as_not_recorded() {
    use std::os::unix::fs::PermissionsExt;
    let Some(place) = Place::new() else { return };
    let can = rustix::process::geteuid().is_root()
        && Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success());
    // The other user needs access to the program and to the stand-ins.
    let reachable = place.file("linked").ancestors().skip(1).all(|folder| {
        std::fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0)
            || folder == place.folder.path()
    });
    if !can || !reachable {
        standins::skipped("needs root, setpriv, and a target directory that other users can enter");
        return;
    }
    std::fs::set_permissions(place.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(place.data(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut command = place.watch(&["--json"]);
    command.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(place.file("linked")).arg(place.data()).args(["read", "3"]);
    let seen = Seen::of(command);
    let errors = String::from_utf8_lossy(&seen.output.stderr).into_owned();
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 0), "{errors}");
    assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!([place.file("linked").to_string_lossy()]));
}

#[test]
fn a_short_child_with_elevated_rights_is_named_as_not_recorded() {
    use std::os::unix::fs::PermissionsExt;
    let Some(place) = Place::new() else { return };
    place.compile("elevated", true, &[]);
    let program = place.file("elevated");
    if std::os::unix::fs::chown(&program, Some(65_534), None).is_err() {
        standins::skipped("only root can give a file to another user");
        return;
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let code = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words)
{
    int (*at)(int, const char *, char **, char **, int) =
        (int (*)(int, const char *, char **, char **, int))dlsym(RTLD_DEFAULT, "execveat");
    int program = open(words[2], O_PATH | O_CLOEXEC);
    if (!strcmp(words[1], "fexecve") || !at)
        fexecve(program, words + 2, environ);
    else if (!strcmp(words[1], "execveat"))
        at(AT_FDCWD, words[2], words + 2, environ, 0);
    else
        at(program, "", words + 2, environ, AT_EMPTY_PATH);
    return count;
}
"#;
    std::fs::write(place.file("by.c"), code).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-o").args([place.file("by"), place.file("by.c")]).arg("-ldl");
    assert!(cc.status().unwrap().success());
    let by = |how: &str| format!("{} {how} {}", place.file("by").display(), program.display());
    let path = program.display().to_string();
    for (start, name) in [
        (path.clone(), path.as_str()),
        (format!("PATH={}:$PATH env elevated", place.folder.path().display()), "elevated"),
        (by("fexecve"), &path),
        (by("execveat"), &path),
        (by("empty"), &path),
    ] {
        let mut shell = place.watch(&["--json"]);
        shell.args(["sh", "-c", &format!("{start} {}; /sbin/ldconfig -p > /dev/null; true", place.data().display())]);
        let seen = Seen::of(shell);
        assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!([name]), "{start}");
        assert!(seen.advice().contains(&"programs-not-recorded"), "{:?}", seen.advice());
    }
}

/// The program itself is listed too, if gds-top sees it while it runs.
fn assert_has(seen: &Seen, expected: &str) {
    let unrecorded = seen.report["program"]["unrecorded"].as_array().unwrap();
    assert!(unrecorded.iter().any(|name| name == expected) && unrecorded.len() <= 2, "{unrecorded:?}");
}

#[test]
fn a_short_program_that_cannot_see_the_shared_file_is_named_as_not_recorded() {
    let Some(place) = Place::new() else { return };
    // The file with the calls, and the library.
    let code = tempfile::tempdir().unwrap();
    for folder in [Path::new("/dev/shm"), code.path()] {
        let hidden = format!("mount -t tmpfs none {}", folder.display());
        if !Command::new("unshare").args(["-rm", "sh", "-c", &hidden]).output().is_ok_and(|out| out.status.success()) {
            standins::skipped("needs unshare and permission to mount");
            return;
        }
        let program = place.file("linked");
        let mut command = place.watch(&["--json"]);
        command.env("TMPDIR", code.path()).env("XDG_RUNTIME_DIR", code.path());
        // Not every place can have the library, see `Scratch::for_code`.
        let hide_library = r#"mount -t tmpfs none "$(dirname "$(dirname "${LD_AUDIT%%:*}")")""#;
        let hide = if folder == code.path() { hide_library } else { hidden.as_str() };
        let script = format!("{hide}; {} {} read 3; true", program.display(), place.data().display());
        command.args(["unshare", "-rm", "sh", "-c", &script]);
        let seen = Seen::of(command);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 0));
        assert_has(&seen, &program.to_string_lossy());
        assert!(seen.advice().contains(&"programs-not-recorded"), "{:?}", seen.advice());
    }
}

#[test]
fn a_program_whose_environment_names_a_file_that_no_session_reads_is_recorded() {
    let Some(place) = Place::new() else { return };
    // The file of an earlier session that was killed.
    let old = place.file("old");
    let keep = format!("cp \"$GDS_TOP_WATCH_FILE\" {}", old.display());
    assert!(place.watch(&["-q"]).args(["sh", "-c", &keep]).status().unwrap().success());
    for other in [Path::new("/nowhere"), &old] {
        let program = format!("{} {} read 3", place.file("linked").display(), place.data().display());
        let mut command = place.watch(&["--json"]);
        command.args(["sh", "-c", &format!("GDS_TOP_WATCH_FILE={} {program}; true", other.display())]);
        let seen = Seen::of(command);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 3));
        let facts = &seen.report["program"];
        assert_eq!(
            (&facts["in_other_session"], &facts["unrecorded"]),
            (&serde_json::json!([]), &serde_json::json!([]))
        );
    }
}

#[test]
fn a_program_with_little_address_space_runs_and_is_recorded_if_a_small_part_is_enough() {
    let Some(place) = Place::new() else { return };
    let limit = "1 program with too little address space";
    for (kilobytes, megabytes, reads, unrecorded) in [(1_000_000, 900, 3, None), (60_000, 20, 0, Some(limit))] {
        let (program, data) = (place.file("linked"), place.data());
        let actions = format!("allocate {megabytes} read 3");
        let script = format!("ulimit -v {kilobytes}; exec {} {} {actions}", program.display(), data.display());
        let mut command = place.watch(&["--json"]);
        command.args(["sh", "-c", &script]);
        let seen = Seen::of(command);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), reads), "{kilobytes}");
        match unrecorded {
            Some(limit) => assert_has(&seen, limit),
            None => assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!([])),
        }
    }
}

#[test]
fn programs_in_a_sandbox_that_hides_the_recording_are_named() {
    let Some(place) = Place::new() else { return };
    // Landlock allows the directories in the first argument, which does not include those of the recording.
    let code = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words)
{
    struct landlock_ruleset_attr all = {.handled_access_fs = (1 << 13) - 1};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0), status = 0;
    if (rules < 0)
        return 77;
    for (char *directory = strtok(words[1], ":"); directory; directory = strtok(NULL, ":")) {
        struct landlock_path_beneath_attr rule = {.allowed_access = (1 << 13) - 1, .parent_fd = open(directory, O_PATH)};
        if (rule.parent_fd >= 0)
            syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, rules, 0))
        return 77;
    if (!strcmp(words[2], "execv"))
        execv(words[3], words + 3);
    else if (!strcmp(words[2], "execl"))
        execl(words[3], words[3], words[4], words[5], words[6], NULL);
    else if (!strcmp(words[2], "spawn") && !posix_spawn(NULL, words[3], NULL, NULL, words + 3, environ))
        return wait(&status) < 0 || status;
    else if (!strcmp(words[2], "system"))
        return system(words[3]);
    return count;
}
"#;
    std::fs::write(place.file("hide.c"), code).unwrap();
    let compiled = Command::new("cc").arg("-o").args([place.file("hide"), place.file("hide.c")]).output().unwrap();
    let folders =
        format!("/usr:/lib:/lib64:/etc:/proc:{}:{}", place.folder.path().display(), place.built.folder.display());
    let hidden = |how: &str| {
        let mut command = place.watch(&["--json", "--require", "direct"]);
        command
            .arg(place.file("hide"))
            .args([&folders, how])
            .arg(place.file("linked"))
            .arg(place.data())
            .args(["read", "3"]);
        Seen::of(command)
    };
    if !compiled.status.success() || hidden("execv").report["program"]["ended"]["status"] == 77 {
        standins::skipped("needs Landlock");
        return;
    }
    for how in ["execv", "execl", "spawn", "system"] {
        let seen = hidden(how);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(1), 0), "{how}");
        // system() starts a shell, whose own start of the program is seen only if the program lives long enough.
        let linked = place.file("linked").to_string_lossy().into_owned();
        let mut named: Vec<_> = seen.report["program"]["unrecorded"].as_array().unwrap().iter().collect();
        if how == "system" && named.len() == 2 {
            assert_eq!(named.pop().unwrap(), &linked);
        }
        assert_eq!(named, [if how == "system" { "/bin/sh" } else { &linked }], "{how}");
        let headline = seen.report["summary"]["answers"][0]["headline"].as_str().unwrap();
        assert!(headline.contains("not recorded"), "{how}: {headline}");
    }
}

#[test]
fn programs_that_start_after_the_shared_file_was_removed_are_reported() {
    let Some(place) = Place::new() else { return };
    let line = format!("{} {} read 3", place.file("linked").display(), place.data().display());
    let seen = place.seen("linked", &["--require", "direct"], &["remove", "1", "shell", &line]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(1), 0));
    let unrecorded = seen.report["program"]["unrecorded"].as_array().unwrap();
    assert!(unrecorded.iter().any(|name| name.as_str().unwrap().contains("removed")), "{unrecorded:?}");
    assert!(seen.advice().contains(&"programs-not-recorded"), "{:?}", seen.advice());
}

#[test]
fn a_program_that_changes_its_user_is_recorded_and_the_programs_it_starts_are_named() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        standins::skipped("only root can change the user of a program");
        return;
    }
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(place.folder.path(), 0o755);
    open(&place.data(), 0o666);
    let seen = place.seen("linked", &[], &["drop", "65534", "read", "4", "threads", "2", "3", "shell", "true"]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 10));
    assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!(["/bin/sh"]));
}

#[test]
fn a_program_of_root_gets_only_variables_that_name_nothing_of_another_user() {
    let Some(place) = Place::new() else { return };
    let open = place.folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let (libraries, settings) = (format!("{}:/usr/lib", open.display()), open.join("cufile.json"));
    let is_root = rustix::process::geteuid().is_root();
    let named = format!("LD_LIBRARY_PATH={libraries}");
    for words in [&["sh", "-c", "env >&2"][..], &["env", &named, "sh", "-c", "env >&2"]] {
        let mut command = place.watch(&["--json"]);
        command.env("LD_LIBRARY_PATH", &libraries).env("CUFILE_ENV_PATH_JSON", &settings);
        command.args(words);
        let seen = Seen::of(command);
        let printed = String::from_utf8_lossy(&seen.output.stderr);
        let has = |expected: &str| printed.lines().any(|line| line == expected);
        let is_left_out = is_root && words[0] == "sh";
        assert_eq!(has(&named), !is_left_out, "{words:?}: {printed}");
        assert_eq!(has("LD_LIBRARY_PATH=/usr/lib"), is_left_out, "{words:?}: {printed}");
        assert_eq!(has(&format!("CUFILE_ENV_PATH_JSON={}", settings.display())), !is_root, "{words:?}: {printed}");
    }
}

#[test]
fn programs_of_a_user_namespace_are_recorded_and_their_set_user_bits_do_not_count() {
    let Some(place) = Place::new() else { return };
    let namespace = ["--user", "--map-user=1"];
    if !Command::new("unshare").args(namespace).arg("true").output().is_ok_and(|out| out.status.success()) {
        standins::skipped("needs unshare and permission to make a user namespace");
        return;
    }
    let mut command = place.watch(&["--json"]);
    // The namespace has no user 0, so the kernel ignores that this program belongs to it.
    let others = ["/usr/bin/passwd", "/usr/bin/su"].into_iter().find(|path| Path::new(path).exists()).unwrap_or("true");
    let script = format!("{others} --help >&2; {} {} read 3", place.file("linked").display(), place.data().display());
    command.arg("unshare").args(namespace).args(["sh", "-c", &script]);
    let seen = Seen::of(command);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 3));
    assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!([]));
}

#[test]
fn a_program_whose_path_is_not_utf_8_is_recorded_and_not_named() {
    use std::os::unix::ffi::OsStrExt;
    let Some(place) = Place::new() else { return };
    let program = place.folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff"));
    std::fs::copy(place.file("linked"), &program).unwrap();
    let mut command = place.watch(&["--json"]);
    command.arg(program).arg(place.data()).args(["read", "2", "sleep", "600"]);
    let seen = Seen::of(command);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 2));
    assert_eq!(seen.report["program"]["unrecorded"], serde_json::json!([]));
}
