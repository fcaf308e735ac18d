//! The checks of a report: each finding with the exact commands and file changes of its fix.

use crate::core::{Change, Finding, FixPlan};
use crate::session::State;
use crate::text::{diff, quoted_line};
use serde_json::{Value, json};

/// Number of context lines around a change of a file.
const CONTEXT: usize = 3;

/// All findings. `remedy` is the plan of the fix for this machine. It is null if no fix is needed or known.
pub(super) fn checks(state: &State) -> Vec<Value> {
    state.checks.iter().map(|finding| check(state, finding)).collect()
}

fn check(state: &State, finding: &Finding) -> Value {
    // One plan may fix several checks but contains only the id of the first one.
    let plan = state.plans.iter().find(|plan| plan.check == finding.id || finding.fix == Some(plan.id));
    // Serializing cannot fail, because a finding consists of strings and lists.
    let mut value = serde_json::to_value(finding).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("fix".to_owned(), json!(finding.fix.or(plan.map(|plan| plan.id))));
        fields.insert("remedy".to_owned(), plan.map_or(Value::Null, remedy));
    }
    value
}

fn remedy(plan: &FixPlan) -> Value {
    let step = |change: &Change| match change {
        Change::Run { argv } => json!({ "command": quoted_line(argv) }),
        Change::WriteFile { path, before, after, mode } => json!({
            "file": path.to_string_lossy(),
            "mode": format!("{mode:04o}"),
            "is_new": before.is_none(),
            "diff": changed_lines(before.as_deref().unwrap_or(""), after),
        }),
    };
    json!({
        "id": plan.id,
        "title": plan.title,
        "why": plan.why,
        "steps": plan.changes.iter().map(step).collect::<Vec<_>>(),
        "then": plan.remaining,
        "needs": plan.needs,
        "risk": plan.risk,
        "policy": plan.policy,
        "obstacle": plan.obstacle,
        "verify": plan.verify,
        "undo": plan.undo,
    })
}

/// The change of a file as lines of a unified diff.
fn changed_lines(before: &str, after: &str) -> Vec<String> {
    let line = |line: crate::text::DiffLine| match line.mark {
        '@' => line.text,
        mark => format!("{mark}{}", line.text),
    };
    diff(before, after, CONTEXT).into_iter().map(line).collect()
}
