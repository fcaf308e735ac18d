//! Mending a cufile.json that libcufile refuses: edited where what was meant is plain, else shown.

use super::recipes::{empty, run};
use crate::checks::Report;
use crate::checks::cufile_json::{SYSTEM_FILE, repair};
use crate::domain::{Change, FixPlan, FixPolicy, FixRisk, Needs};
use crate::host::Root;
use std::path::PathBuf;

const TITLE: &str = "Mend cufile.json";
const WHY: &str = "A fault in it stops every program that opens cuFile, also where a file of one's own is fine.";

/// The files edited, each with its journal entry and backup; a plan that is only shown where a person must decide something, and where a file may
/// not be read: who may read it is its owner's to say, and the plan of another user, who can read it, would be another one.
pub(super) fn plan(root: &Root, report: &Report) -> FixPlan {
    let named = root.variable("CUFILE_ENV_PATH_JSON").filter(|path| path.starts_with('/') && path != SYSTEM_FILE);
    let (mut changes, mut done, mut left, mut needs) = (Vec::new(), Vec::new(), Vec::new(), Needs::User);
    for path in [Some(SYSTEM_FILE.to_owned()), named].into_iter().flatten() {
        let Ok(before) = root.read_text(&path) else { continue };
        let repaired = repair(root, &before);
        left.extend(repaired.left.into_iter().map(|sentence| format!("{path}, {sentence}")));
        if repaired.text != before {
            if path == SYSTEM_FILE {
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
            title: TITLE.to_owned(),
            why: format!(
                "{WHY} Only what libcufile refuses is changed, to what was plainly meant or to the nearest value that it takes; comments, order and \
                 everything else stay as they are: {}.",
                done.join("; ")
            ),
            changes,
            verify: "the check cfg-parse runs again; gds-top config lint".to_owned(),
            ..empty(needs, FixRisk::Low, FixPolicy::Ask)
        };
    }
    let by_hand = if left.is_empty() {
        String::new()
    } else {
        format!(" To be decided: {}.", left.join(" ").trim_end_matches('.'))
    };
    FixPlan {
        title: TITLE.to_owned(),
        why: format!(
            "{WHY}{by_hand} 'config lint' names line, column and the nearest known key. Settings of your own go into a file that CUFILE_ENV_PATH_JSON \
             names: it is merged over /etc/cufile.json key by key."
        ),
        changes: vec![run("gds-top config lint"), Change::Run { argv: vec!["sudoedit".to_owned(), broken(report)] }],
        verify: "gds-top config lint finds nothing, and gds-top check: cfg-parse and lib-open-probe".to_owned(),
        undo: "put the copy of the file back that the editor made; the package's own file is /usr/local/cuda/gds/cufile.json".to_owned(),
        ..empty(Needs::Root, FixRisk::Low, FixPolicy::Show)
    }
}

/// The file that the check complains of.
fn broken(report: &Report) -> String {
    let source = report.finding("cfg-parse").and_then(|f| f.evidence.first()).map(|e| e.source.clone());
    source.filter(|source| source.starts_with('/')).unwrap_or_else(|| SYSTEM_FILE.to_owned())
}
