//! Sets the limit of locked memory in limits.d. Contradictory lines are changed, other lines are kept.

use super::parts::{empty, line_in};
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{Root, Starter, starter};
use std::path::PathBuf;

const FIRST: &str = "/etc/security/limits.conf";
const FOLDER: &str = "/etc/security/limits.d";
const OWN: &str = "/etc/security/limits.d/99-gds.conf";
const LINE: &str = "* - memlock unlimited";

/// The plan for this machine.
pub(super) fn plan(root: &Root) -> FixPlan {
    let changes = changes(root);
    let others = lines(root)
        .into_iter()
        .filter(|line| line.domain != "*")
        .map(|line| format!("{} in {}", line.domain, line.path));
    let others: Vec<String> = others.collect();
    let of_others = if others.is_empty() {
        String::new()
    } else {
        format!(" Lines for one user or group override * and are kept: {}.", others.join(", "))
    };
    FixPlan {
        why: format!(
            "Registered memory for RDMA and io_uring counts against it. For services of systemd set LimitMEMLOCK=infinity in their unit instead, for containers --ulimit memlock=-1.{of_others}"
        ),
        obstacle: match starter(root) {
            Some(Starter::Slurm) => Some(
                "a job of Slurm has the limit of slurmd: set LimitMEMLOCK=infinity in its unit and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"
                    .to_owned(),
            ),
            Some(Starter::Service(unit)) => {
                Some(format!("a login sets this limit, and not {unit}: set LimitMEMLOCK=infinity in its unit"))
            }
            None if changes.is_empty() => {
                Some(format!("the line is already in {FOLDER}; it takes effect at the next login"))
            }
            None => None,
        },
        changes,
        verify: "log out and in again (or reboot); 'ulimit -l' then shows unlimited".to_owned(),
        remaining: vec!["log out and in again".to_owned()],
        ..empty(FixId::Memlock, Needs::Reboot, FixRisk::Low, FixPolicy::Ask)
    }
}

/// A line of the form `DOMAIN TYPE memlock VALUE`.
struct Line {
    path: String,
    domain: String,
    /// The type: `soft`, `hard`, or `-` for both.
    kind: String,
    value: String,
    /// The position of the value in the text of the file.
    place: std::ops::Range<usize>,
}

impl Line {
    fn is_unlimited(&self) -> bool {
        matches!(self.value.as_str(), "unlimited" | "infinity" | "-1")
    }
}

/// The files in the order in which pam_limits reads them. Later files override earlier ones.
fn files(root: &Root) -> Vec<(String, String)> {
    let mut names = root.entries(FOLDER).unwrap_or_default();
    names.retain(|name| name.ends_with(".conf"));
    names.sort();
    let paths = std::iter::once(FIRST.to_owned()).chain(names.iter().map(|name| format!("{FOLDER}/{name}")));
    paths.filter_map(|path| Some((root.read_text(&path).ok()?, path))).map(|(text, path)| (path, text)).collect()
}

fn lines(root: &Root) -> Vec<Line> {
    files(root).iter().flat_map(|(path, text)| lines_of(path, text)).collect()
}

fn lines_of(path: &str, text: &str) -> Vec<Line> {
    let mut out = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let code = line.split('#').next().unwrap_or_default();
        let mut fields: Vec<(usize, &str)> = Vec::new();
        let mut at = 0;
        for field in code.split(char::is_whitespace) {
            if !field.is_empty() {
                fields.push((start + at, field));
            }
            at += field.len() + 1;
        }
        if let [(_, domain), (_, kind), (_, "memlock"), (at, value), ..] = fields.as_slice() {
            out.push(Line {
                path: path.to_owned(),
                domain: (*domain).to_owned(),
                kind: (*kind).to_owned(),
                value: (*value).to_owned(),
                place: *at..at + value.len(),
            });
        }
        start += line.len();
    }
    out
}

fn changes(root: &Root) -> Vec<Change> {
    let lines: Vec<Line> = lines(root).into_iter().filter(|line| line.domain == "*").collect();
    let last = |kind: &str| lines.iter().rev().find(|line| line.kind == kind || line.kind == "-");
    let is_set = ["soft", "hard"].into_iter().all(|kind| last(kind).is_some_and(Line::is_unlimited));
    if is_set {
        return Vec::new();
    }
    // Lines in later files override the line of gds-top, so they are changed. Lines in its own file are changed in
    // place.
    let is_later = |path: &str| path != FIRST && path >= OWN;
    let mut out = Vec::new();
    let mut own_has_line = false;
    for (path, text) in files(root).into_iter().filter(|(path, _)| is_later(path)) {
        let mut after = text.clone();
        for line in lines.iter().rev().filter(|line| line.path == path && !line.is_unlimited()) {
            after.replace_range(line.place.clone(), "unlimited");
        }
        if path == OWN {
            let kinds: Vec<&str> =
                lines.iter().filter(|line| line.path == path).map(|line| line.kind.as_str()).collect();
            own_has_line = kinds.contains(&"-") || (kinds.contains(&"soft") && kinds.contains(&"hard"));
            if !own_has_line {
                let gap = if after.is_empty() || after.ends_with('\n') { "" } else { "\n" };
                after = format!("{after}{gap}{LINE}\n");
                own_has_line = true;
            }
        }
        if after != text {
            out.push(Change::WriteFile { path: PathBuf::from(path), before: Some(text), after, mode: 0o644 });
        }
    }
    if !own_has_line {
        out.extend(line_in(root, OWN, LINE));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn limits_of_others_stay_and_contradicting_ones_are_changed() {
        const LATER: &str = "/etc/security/limits.d/99-z.conf";
        const EARLIER: &str = "/etc/security/limits.d/10-hpc.conf";
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Files<'_>, Files<'_>)] = &[
            (&[], &[(OWN, "* - memlock unlimited\n")]),
            (&[(OWN, "* - core 0 # x\n")], &[(OWN, "* - core 0 # x\n* - memlock unlimited\n")]),
            (
                &[(OWN, "*  soft memlock 64\n* hard  nofile 9")],
                &[(OWN, "*  soft memlock unlimited\n* hard  nofile 9\n* - memlock unlimited\n")],
            ),
            (&[(OWN, "* - memlock 64 # old\n")], &[(OWN, "* - memlock unlimited # old\n")]),
            (&[(EARLIER, "* - memlock 64\n")], &[(OWN, "* - memlock unlimited\n")]),
            (
                &[(LATER, "@gpu hard memlock 1\n* hard memlock 64\n* - core 0\n")],
                &[
                    (LATER, "@gpu hard memlock 1\n* hard memlock unlimited\n* - core 0\n"),
                    (OWN, "* - memlock unlimited\n"),
                ],
            ),
            (&[(EARLIER, "* soft memlock unlimited\n* hard memlock -1\n")], &[]),
            (&[(FIRST, "* - memlock unlimited\n")], &[]),
        ];
        for (files, wanted) in cases {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in *files {
                let path = folder.path().join(path.trim_start_matches('/'));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let root = Root::tree(folder.path()).unwrap();
            let made: Vec<(String, String)> = changes(&root)
                .into_iter()
                .map(|change| match change {
                    Change::WriteFile { path, after, .. } => (path.display().to_string(), after),
                    Change::Run { argv } => panic!("{argv:?}"),
                })
                .collect();
            let wanted: Vec<(String, String)> =
                wanted.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
            assert_eq!(made, wanted, "{files:?}");
        }
    }
}
