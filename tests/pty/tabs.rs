//! The completions of bash, zsh and fish, with a real Tab in a real shell.

use crate::program::gds_top;
use crate::terminal::Terminal;
use std::path::Path;

/// A shell with the completions of gds-top.
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    /// The line that loads the script.
    load: &'static str,
    /// The keys that delete a line.
    clear: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell { name: "bash", arguments: &["--norc", "--noprofile", "-i"], load: "source ./script", clear: "\u{15}" },
    Shell {
        name: "zsh",
        arguments: &["-f", "-i"],
        load: "autoload -U compinit; compinit -D -u; source ./script",
        clear: "\u{15}",
    },
    Shell { name: "fish", arguments: &["--no-config", "-i"], load: "source ./script", clear: "\u{15}" },
];

/// Lines that have one possible end, and this end.
const COMPLETED: [(&str, &str); 21] = [
    ("gds-top ch", "eck"),
    ("gds-top bench-k", "v"),
    ("gds-top check --req", "uire"),
    ("gds-top bench --repe", "at"),
    ("gds-top bench qwen3-0", ".6b"),
    ("gds-top bench weig", "hts"),
    ("gds-top bench m --cache co", "ld"),
    ("gds-top bench m --cache cold,hot,", "as-is"),
    ("gds-top check --for lmc", "ache"),
    ("gds-top check --for lmcache weig", "hts"),
    ("gds-top bench m --engine odi", "rect"),
    ("gds-top bench m --engine mmap,odi", "rect"),
    ("gds-top bench m --engine mmap,pread,gds-sl", "ab"),
    ("gds-top bench m --engine nixl:GDS", "_MT"),
    ("gds-top bench-kv lmcache-m", "p"),
    ("gds-top bench-kv uc", "m"),
    ("gds-top bench-kv v", "llm-fs"),
    ("gds-top bench-kv ucm l", "ake"),
    ("gds-top fix udev", "-record"),
    ("gds-top fix --undo nvfs-lo", "ad"),
    ("gds-top config li", "nt"),
];

fn lines_of(shell: &Shell) {
    let found = std::process::Command::new(shell.name).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no {}", shell.name);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for file in ["weights", "lake", "vast"] {
        std::fs::write(folder.path().join(file), b"").unwrap();
    }
    let script = gds_top().args(["completions", shell.name]).output().unwrap();
    std::fs::write(folder.path().join("script"), script.stdout).unwrap();
    let mut terminal = Terminal::of(shell.name, shell.arguments, &[], (200, 50));
    let enter = |folder: &Path| format!("cd {}; {}; echo lo''aded\r", folder.display(), shell.load);
    terminal.keys(&enter(folder.path()));
    terminal.until("loaded");
    for (typed, rest) in COMPLETED {
        terminal.keys(&format!("{typed}\t"));
        let wanted = format!("{typed}{rest}");
        terminal.wait(&format!("{wanted} in {}", shell.name), |t| t.shown().lines().any(|line| line.contains(&wanted)));
        terminal.keys(shell.clear);
        terminal.until_gone(&wanted);
    }
    terminal.keys("exit\r");
    terminal.end();
}

#[test]
fn tab_completes_commands_values_and_lists_in_bash() {
    lines_of(&SHELLS[0]);
}

#[test]
fn tab_completes_commands_values_and_lists_in_zsh() {
    lines_of(&SHELLS[1]);
}

#[test]
fn tab_completes_commands_values_and_lists_in_fish() {
    lines_of(&SHELLS[2]);
}
