//! Merges the results of a check into one finding.

use crate::checks::context::Context;
use crate::checks::judged::{Judged, Scope};
use crate::core::Finding;

/// Returns one finding per check id. If a check has several paths or GPUs, the worst result is used, with the
/// evidence of all results of the same status.
pub(crate) fn merge(ctx: &Context<'_>, judged: &[Judged]) -> Vec<Finding> {
    let mut out: Vec<Finding> = Vec::new();
    let mut members: Vec<Vec<&Judged>> = Vec::new();
    for one in judged {
        match out.iter().position(|f| f.id == one.finding.id) {
            Some(at) => members[at].push(one),
            None => {
                out.push(one.finding.clone());
                members.push(vec![one]);
            }
        }
    }
    for (finding, members) in out.iter_mut().zip(&members) {
        if members.len() == 1 {
            continue;
        }
        let worst = members.iter().map(|j| j.finding.status.weight()).max().unwrap_or(0);
        let bad: Vec<&&Judged> = members.iter().filter(|j| j.finding.status.weight() == worst).collect();
        if let Some(first) = bad.first() {
            *finding = first.finding.clone();
            let same = bad.iter().all(|j| j.finding.summary == first.finding.summary);
            let is_of_machine = members.iter().all(|j| j.scope == Scope::Machine);
            if (bad.len() < members.len() || !same) && !is_of_machine {
                finding.summary = format!("{}: {}", name(ctx, first.scope), first.finding.summary);
            }
            for other in bad.iter().skip(1) {
                for evidence in &other.finding.evidence {
                    if !finding.evidence.contains(evidence) && finding.evidence.len() < 16 {
                        finding.evidence.push(evidence.clone());
                    }
                }
                for fact in &other.finding.facts {
                    if !finding.facts.contains(fact) {
                        finding.facts.push(fact.clone());
                    }
                }
                for route in &other.finding.blocks {
                    if !finding.blocks.contains(route) {
                        finding.blocks.push(*route);
                    }
                }
            }
            finding.blocks.sort();
        }
    }
    out.sort_by_key(|finding| (finding.group, finding.id.rank()));
    out
}

fn name(ctx: &Context<'_>, scope: Scope) -> String {
    match scope {
        Scope::Machine => "machine".to_owned(),
        Scope::Path(number) => ctx.subjects.get(number).map_or_else(String::new, |s| s.path.display().to_string()),
        Scope::Gpu(number) => ctx.gpus().get(number).map_or_else(String::new, |gpu| format!("GPU {}", gpu.label())),
        Scope::Pair(path, gpu) => format!("{}, {}", name(ctx, Scope::Path(path)), name(ctx, Scope::Gpu(gpu))),
    }
}
