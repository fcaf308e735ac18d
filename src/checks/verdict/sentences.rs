//! The sentences for the proof and the advice of a verdict.

use crate::checks::context::Context;
use crate::checks::cufile::route_table;
use crate::checks::judged::{Judged, Weight};
use crate::checks::verdict::commands::{self, fix_command};
use crate::checks::verdict::pairs::Pair;
use crate::core::Route;
use crate::machine;

pub(crate) fn proof(ctx: &Context<'_>, pair: &Pair, mine: &[&Judged], has_gpu: bool) -> String {
    if !has_gpu {
        return "this machine has no GPU".to_owned();
    }
    let subject = &ctx.subjects[pair.path];
    let base = match pair.route {
        Route::None => "derived from the failing checks; no read was tried".to_owned(),
        Route::Compat => {
            let listed = pair
                .goal
                .filter(|goal| route_table::says(ctx, subject, *goal) == Some(false))
                .and_then(|goal| route_table::sentence(ctx, subject, goal));
            match listed {
                Some(said) => format!("{said}; only counters of a real read prove it"),
                None => "derived from the checks; only counters of a real read prove it".to_owned(),
            }
        }
        route => match route_table::sentence(ctx, subject, route) {
            Some(said) => format!("{said}, but no read was counted"),
            None => "all checks pass, but no read was counted".to_owned(),
        },
    };
    let asked = if pair.route == Route::None { Route::Compat } else { pair.route };
    let unknown: Vec<&str> = mine
        .iter()
        .filter(|j| j.bears.iter().any(|(route, weight)| *route == asked && *weight == Weight::Unknown))
        .map(|j| j.finding.id.as_str())
        .collect();
    if unknown.is_empty() { base } else { format!("{base}; could not be checked: {}", unknown.join(", ")) }
}

/// The next action. `permanent` are the blockers that close every direct route permanently, `blockers` the steps.
pub(crate) fn advice(
    ctx: &Context<'_>,
    pair: &Pair,
    permanent: &[&Judged],
    blockers: &[&Judged],
    has_gpu: bool,
) -> String {
    if !has_gpu {
        return "GDS needs an NVIDIA GPU. Add one, or pass one to this virtual machine.".to_owned();
    }
    if pair.route.is_direct() {
        return "Nothing blocks the route. Run `gds-top bench MODEL` to prove it.".to_owned();
    }
    let count = permanent.len() + blockers.len();
    let steps: Vec<String> = blockers.iter().map(|j| sentence(ctx, pair, j, count)).collect();
    if !permanent.is_empty() {
        // A blocker without advice has nothing to do, unless it is the only one.
        let has_advice = |j: &&&Judged| j.finding.advice.is_some();
        let any = permanent.iter().any(|j| has_advice(&j));
        let mut text: Vec<String> = permanent
            .iter()
            .filter(|j| !any || has_advice(j))
            .map(|j| format!("{}.", sentence(ctx, pair, j, count)))
            .collect();
        // A sentence can be the advice of several checks.
        text.dedup();
        text.push("Until then, no other fix gives a direct route.".to_owned());
        match steps.as_slice() {
            [] => {}
            [one] => text.push(format!("Reads through host memory need one step. {one}.")),
            several => {
                text.push(format!("Reads through host memory need {} steps.", several.len()));
                text.extend(several.iter().zip(1..).map(|(step, n)| format!("{n}. {step}.")));
            }
        }
        return text.join(" ");
    }
    match (steps.as_slice(), pair.goal) {
        ([], Some(goal)) if route_table::says(ctx, &ctx.subjects[pair.path], goal) == Some(false) => {
            format!(
                "No check explains why libcufile omits {goal}. Run the program with CUFILE_LOGGING_LEVEL=DEBUG and CUFILE_LOGFILE_PATH=/tmp/cufile.log, then run `gds-top explain - < /tmp/cufile.log`."
            )
        }
        ([], Some(goal)) => {
            format!("{goal} may work already: no check blocks it. Run `gds-top bench MODEL` to count its reads.")
        }
        ([], None) => "Reads go through host memory, and no check explains it.".to_owned(),
        ([one], _) => format!("{one}."),
        (several, _) => {
            let mut text: Vec<String> = several.iter().zip(1..).map(|(step, n)| format!("{n}. {step}.")).collect();
            let can_apply = blockers.iter().filter(|j| j.finding.fix.is_some()).count();
            if can_apply > 1 && pair.goal.is_some() {
                let command = fix_command("nvidia-gds", commands::path_to_name(ctx, pair.path));
                text.push(format!("Run `{command}` for all steps in order."));
            }
            text.join(" ")
        }
    }
}

/// The advice of a finding as one step of `count`, without the full stop.
fn sentence(ctx: &Context<'_>, pair: &Pair, j: &Judged, count: usize) -> String {
    // A problem alone is not a step.
    let text = j.finding.advice.as_ref().unwrap_or(&j.finding.summary);
    let is_complete = j.finding.advice.is_some() && (count > 1 || pair.goal.is_none());
    // In a container the advice is for the person who starts it.
    let has_command = j.finding.advice.is_some() && (text.contains('`') || machine::container(ctx.root).is_some());
    let advice = match &j.finding.command {
        Some(command) if !is_complete && !has_command => {
            format!("{}: run `{command}`", text.trim_end_matches('.'))
        }
        _ => text.clone(),
    };
    advice.trim_end_matches('.').to_owned()
}
