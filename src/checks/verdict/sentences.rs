//! The proof and the advice of a verdict, in words.

use crate::checks::context::Context;
use crate::checks::cufile::route_table;
use crate::checks::judged::{Judged, Weight};
use crate::checks::verdict::pairs::Pair;
use crate::domain::Route;

pub(crate) fn proof(ctx: &Context<'_>, pair: &Pair, mine: &[&Judged], has_gpu: bool) -> String {
    if !has_gpu {
        return "there is no GPU on this machine".to_owned();
    }
    let subject = &ctx.subjects[pair.path];
    let base = match pair.route {
        Route::None => "derived from the checks that fail; no read was tried".to_owned(),
        Route::Compat => {
            let listed = pair
                .goal
                .filter(|goal| route_table::says(ctx, subject, *goal) == Some(false))
                .and_then(|goal| route_table::sentence(ctx, subject, goal));
            match listed {
                Some(said) => format!("{said}; counters of a real read would prove it"),
                None => "derived from the checks; counters of a real read would prove it".to_owned(),
            }
        }
        route => match route_table::sentence(ctx, subject, route) {
            Some(said) => format!("{said}, but no read was counted yet"),
            None => "every check passes, but no read was counted yet".to_owned(),
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

pub(crate) fn advice(ctx: &Context<'_>, pair: &Pair, blockers: &[&Judged], has_gpu: bool) -> String {
    if !has_gpu {
        return "gds-top still races the engines into host memory and says so.".to_owned();
    }
    if pair.route.is_direct() {
        return "Nothing is in the way; gds-top bench proves the route with a real read.".to_owned();
    }
    let steps: Vec<String> = blockers
        .iter()
        .map(|j| {
            let step = j.finding.advice.as_deref().unwrap_or(&j.finding.summary).trim_end_matches('.');
            match j.price() {
                Some(cost) => format!("{step} ({})", cost.words()),
                None => step.to_owned(),
            }
        })
        .collect();
    match (steps.as_slice(), pair.goal) {
        ([], Some(goal)) if route_table::says(ctx, &ctx.subjects[pair.path], goal) == Some(false) => {
            format!(
                "Nothing that was checked tells why libcufile leaves {goal} out; its log does: run the program once with CUFILE_LOGGING_LEVEL=DEBUG and CUFILE_LOGFILE_PATH=/tmp/cufile.log, and read the lines with cufio-fs and cufio-rdma."
            )
        }
        ([], Some(goal)) => {
            format!(
                "{goal} may work already: nothing is known to be in its way, but nothing shows it either; a load with gds-top counts its reads."
            )
        }
        ([], None) => "Reads go through host memory; nothing that was checked explains it.".to_owned(),
        ([one], _) => format!("{one}."),
        (several, _) => several.iter().zip(1..).map(|(step, n)| format!("{n}. {step}.")).collect::<Vec<_>>().join(" "),
    }
}
