//! Repairs a cufile.json that libcufile rejects if the intended value is clear. Otherwise it only shows the errors.

use super::parts::{empty, run};
use crate::checks::Report;
use crate::checks::cufile_json::{SYSTEM_FILE, is_in_home, is_of_user, repair};
use crate::core::{Change, CheckId, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::Root;
use std::path::PathBuf;

const WHY: &str = "With an error in it every program fails to open cuFile, even if the user's file is correct.";

/// The plan that edits the files. It is only shown if the user must decide something, or if a file cannot be read.
pub(super) fn plan(root: &Root, report: &Report) -> FixPlan {
    let named = root.variable("CUFILE_ENV_PATH_JSON").filter(|path| path.starts_with('/') && path != SYSTEM_FILE);
    let (mut changes, mut done, mut left, mut needs) = (Vec::new(), Vec::new(), Vec::new(), Needs::User);
    if let Some(path) = facts(report).find_map(|fact| match fact {
        FindingFact::UnreadableFile(path) => Some(path),
        _ => None,
    }) {
        return if named.as_deref() == Some(path.as_str()) && is_in_home(path) {
            without(path)
        } else {
            readable(path)
        };
    }
    for path in [Some(SYSTEM_FILE.to_owned()), named].into_iter().flatten() {
        let Ok(before) = root.read_text(&path) else { continue };
        let repaired = repair(root, &before);
        left.extend(repaired.left.into_iter().map(|sentence| format!("{path}, {sentence}")));
        if repaired.text != before {
            if !is_of_user(&path) {
                needs = Needs::Root;
            }
            done.extend(repaired.done.into_iter().map(|what| format!("{path}, {what}")));
            changes.push(Change::WriteFile {
                path: PathBuf::from(&path),
                before: Some(before),
                after: repaired.text,
                mode: 0o644,
            });
        }
    }
    if left.is_empty() && !changes.is_empty() {
        return FixPlan {
            why: format!(
                "{WHY} Only rejected values are changed: to the intended value if it is clear, otherwise to the nearest valid one. Comments, order and all other keys are kept: {}.",
                done.join("; ")
            ),
            changes,
            verify: "the check cfg-parse runs again; gds-top config lint".to_owned(),
            ..empty(FixId::CufileConfig, needs, FixRisk::Low, FixPolicy::Ask)
        };
    }
    let by_hand = if left.is_empty() {
        String::new()
    } else {
        format!(" To be decided: {}.", left.join(" ").trim_end_matches('.'))
    };
    FixPlan {
        why: format!(
            "{WHY}{by_hand} 'config lint' shows line, column and the nearest known key. Keep your settings in a file that CUFILE_ENV_PATH_JSON names: its keys override those of /etc/cufile.json."
        ),
        changes: vec![run("gds-top config lint"), Change::Run { argv: vec!["sudoedit".to_owned(), broken(report)] }],
        verify: "gds-top config lint finds nothing, and gds-top check: cfg-parse and lib-open-probe".to_owned(),
        undo: "restore the editor's copy of the file; the package's file is /usr/local/cuda/gds/cufile.json".to_owned(),
        ..empty(FixId::CufileConfig, Needs::Root, FixRisk::Low, FixPolicy::Show)
    }
}

/// The plan that lets all users read a file.
fn readable(path: &str) -> FixPlan {
    let command = ["sudo", "chmod", "a+r", path].map(str::to_owned).to_vec();
    FixPlan {
        title: format!("Let all users read {path}"),
        why: "Every program that cannot read this file fails to open cuFile with 5030, even if the user's file is correct."
            .to_owned(),
        changes: vec![Change::Run { argv: command }],
        verify: "the same user runs gds-top check: cfg-parse passes".to_owned(),
        undo: format!("'sudo chmod go-r {path}' hides the file from other users again"),
        ..empty(FixId::CufileConfig, Needs::Root, FixRisk::Low, FixPolicy::Show)
    }
}

/// The plan for a named file in a home directory that this user may not enter.
fn without(path: &str) -> FixPlan {
    FixPlan {
        title: "Use a configuration that this user can read".to_owned(),
        why: format!(
            "Other users may not enter the home directory, so the mode of {path} alone changes nothing. The check cfg-parse shows the line that sets the variable. Keep keys that you need in a file outside of home directories."
        ),
        changes: vec![run("unset CUFILE_ENV_PATH_JSON")],
        verify: "gds-top check: cfg-parse passes in a new shell".to_owned(),
        undo: "set CUFILE_ENV_PATH_JSON again".to_owned(),
        ..empty(FixId::CufileConfig, Needs::User, FixRisk::Low, FixPolicy::Show)
    }
}

fn facts(report: &Report) -> impl Iterator<Item = &FindingFact> {
    report.finding(CheckId::CfgParse).into_iter().flat_map(|finding| &finding.facts)
}

/// The path of the file with the error.
fn broken(report: &Report) -> String {
    let file = facts(report).find_map(|fact| match fact {
        FindingFact::BrokenFile(file) => Some(file.clone()),
        _ => None,
    });
    file.unwrap_or_else(|| SYSTEM_FILE.to_owned())
}
