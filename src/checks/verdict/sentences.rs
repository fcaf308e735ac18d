//! The sentences for the proof and the advice of a verdict.

use crate::checks::advice::{Command, LAST, SINGLE_PATHS, how_to_fix, only_shows};
use crate::checks::container::bring::Lack;
use crate::checks::container::lxc::given;
use crate::checks::context::Context;
use crate::checks::cufile::route_table;
use crate::checks::judged::{Judged, Scope, Weight};
use crate::checks::logs::xid;
use crate::checks::verdict::pairs::{Pair, closes_all};
use crate::checks::verdict::{commands, elsewhere};
use crate::core::{CheckId, FixId, Needs, Route, Status};
use crate::machine;

pub(crate) fn proof(ctx: &Context<'_>, pair: &Pair, mine: &[&Judged]) -> String {
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
        // A finding that closes other routes was checked.
        .filter(|j| j.in_the_way().next().is_none())
        .filter(|j| j.effects.iter().any(|(route, weight)| *route == asked && *weight == Weight::Unknown))
        .map(|j| j.finding.id.as_str())
        .collect();
    if unknown.is_empty() { base } else { format!("{base}; could not be checked: {}", unknown.join(", ")) }
}

const PROVE: &str = "Nothing blocks the route. Run `gds-top bench MODEL` to prove it.";

/// The next action. `permanent` are the blockers that close every direct route permanently, `blockers` the steps.
pub(crate) fn advice(
    ctx: &Context<'_>,
    (pair, pairs): (&Pair, &[Pair]),
    permanent: &[&Judged],
    blockers: &[&Judged],
    mine: &[&Judged],
    has_gpu: bool,
) -> String {
    if !has_gpu {
        let present = mine.iter().find(|j| j.id == CheckId::GpuPresent);
        return present.and_then(|j| j.finding.advice.clone()).unwrap_or_else(|| "GDS needs an NVIDIA GPU.".to_owned());
    }
    if pair.route.is_direct() {
        let is_full = |j: &&&Judged| j.id == CheckId::GpuBar1Free && j.finding.status == Status::Warn;
        let has_failed = |j: &Judged| j.finding.evidence.iter().any(|line| xid::must_recover(&line.text));
        let is_lost = |j: &&&Judged| {
            j.finding.status == Status::Warn
                && (j.id == CheckId::GpuPresent || (j.id == CheckId::GpuEcc && has_failed(j)))
        };
        if let Some(lost) = mine.iter().find(is_lost) {
            return format!(
                "Nothing blocks the route of this GPU, but {}. {}",
                lost.finding.summary,
                step(ctx, lost, false)
            );
        }
        let is_excluded = |j: &&&Judged| {
            j.id == CheckId::CfgEffective && j.finding.status == Status::Warn && matches!(j.scope, Scope::Path(_))
        };
        if let Some(entry) = mine.iter().find(is_excluded) {
            return format!(
                "No check blocks the route for certain, but {}. {}",
                entry.finding.summary,
                step(ctx, entry, false)
            );
        }
        let translates = |j: &&&Judged| {
            j.id == CheckId::IommuState
                && (j.finding.fix == Some(FixId::IommuOff) || j.by_hand)
                && pair.route == Route::P2pdma
        };
        if let Some(iommu) = mine.iter().find(translates) {
            return format!(
                "{PROVE} NVIDIA's guide for P2PDMA switches off the IOMMU, which translates here. If reads fail or are slow: {}",
                step(ctx, iommu, true)
            );
        }
        return match mine.iter().find(is_full) {
            Some(j) => {
                format!("The route works for small buffers only: {}. {}", j.finding.summary, step(ctx, j, false))
            }
            None => PROVE.to_owned(),
        };
    }
    let can_apply = blockers.iter().filter(|j| j.finding.fix.is_some()).count();
    // Most steps of a container are those of its host.
    let has_one_command = can_apply > 1 && pair.goal.is_some() && machine::container(ctx.root).is_none();
    // Such a step is last, and the others keep their order.
    let is_last = |j: &&Judged| j.advice.as_ref().is_some_and(|advice| advice.plain().contains(LAST));
    let (last, first): (Vec<&Judged>, Vec<&Judged>) = blockers.iter().copied().partition(is_last);
    let steps: Vec<String> = first
        .iter()
        .chain(&last)
        .map(|j| start_with_all(ctx, pair, j, mine).unwrap_or_else(|| step(ctx, j, !has_one_command)))
        .collect();
    if !permanent.is_empty() {
        // A blocker without advice has nothing to do, unless it is the only one.
        let has_advice = |j: &&&Judged| j.advice.is_some();
        let any = permanent.iter().any(|j| has_advice(&j));
        // Another disk does not help if the machine has no direct route.
        let is_of_machine = |j: &&Judged| j.scope == Scope::Machine && closes_all(j, pair);
        let on_machine = permanent.iter().any(|j| is_of_machine(j) && has_advice(&j));
        let mut text: Vec<String> = permanent
            .iter()
            .filter(|j| (!any || has_advice(j)) && (!on_machine || is_of_machine(j)))
            .map(|j| step(ctx, j, false))
            .collect();
        // A sentence can be the advice of several checks.
        text.dedup();
        if let Some(doubt) = &pair.doubt {
            text.push(doubt.clone());
        } else if elsewhere::is_of_path(permanent) {
            text.push("No fix gives this path a direct route.".to_owned());
            text.extend(elsewhere::sentence(ctx, pair, pairs, mine));
        } else if permanent.iter().any(|j| matches!(j.scope, Scope::Gpu(_))) {
            text.push("No fix gives this GPU a direct route.".to_owned());
        } else {
            text.push("No fix gives this machine a direct route.".to_owned());
        }
        // The steps that are possible are first.
        let possible = match steps.as_slice() {
            [] => String::new(),
            [one] => format!("For reads through host memory: {one}\n"),
            several => format!("For reads through host memory:\n{}\n", numbered(several)),
        };
        return possible + &text.join(" ");
    }
    let text = match (steps.as_slice(), pair.goal) {
        ([], Some(goal)) if route_table::says(ctx, &ctx.subjects[pair.path], goal) == Some(false) => {
            format!(
                "No check explains why libcufile omits {goal}. Run the program with CUFILE_LOGGING_LEVEL=DEBUG and CUFILE_LOGFILE_PATH=$HOME/cufile.log, then run `gds-top explain - < $HOME/cufile.log`."
            )
        }
        ([], Some(goal)) => {
            let is_of_client =
                |j: &&&Judged| j.id == CheckId::DfsClientVersion && j.effects.contains(&(goal, Weight::Unknown));
            let ask = mine.iter().find(is_of_client).and_then(|j| j.finding.advice.clone());
            let ask = ask.map_or_else(String::new, |ask| format!(" {ask}"));
            format!("{goal} may work already: no check blocks it.{ask} Run `gds-top bench MODEL` to count its reads.")
        }
        ([], None) if pair.doubt.is_some() => {
            format!("{} Stay with compat mode here.", pair.doubt.clone().unwrap_or_default())
        }
        (steps, None) if pair.doubt.is_some() => {
            format!("{}\n{}", numbered(steps), pair.doubt.clone().unwrap_or_default())
        }
        ([], None) => "Reads go through host memory, and no check explains it.".to_owned(),
        ([one], _) => one.replace(LAST, ""),
        (several, _) if has_one_command => {
            let command = commands::examined(ctx, pair.path).line("nvidia-gds", Needs::Root);
            format!("{}\nRun `{command}` for all steps in order.", numbered(several))
        }
        (several, _) => numbered(several),
    };
    with_drain(ctx, text)
}

/// Advice with the commands before and after a reboot of the node, if this is a pod and a step needs one.
fn with_drain(ctx: &Context<'_>, text: String) -> String {
    const DRAIN: &str = "On a machine with access to the cluster, run `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data` before the node reboots, and `kubectl uncordon NODE` after it.";
    let is_pod = machine::container(ctx.root).is_some_and(|container| container.runtime == "kubernetes");
    if !is_pod || !text.contains("Then reboot") {
        return text;
    }
    format!("{text}{}{DRAIN}", if text.contains('\n') { "\n" } else { " " })
}

/// The step that gives a container several parts of its host, if it lacks more than the part of this finding.
fn start_with_all(ctx: &Context<'_>, pair: &Pair, step: &Judged, mine: &[&Judged]) -> Option<String> {
    let container = machine::container(ctx.root)?;
    let lack = |j: &Judged| match j.id {
        CheckId::UdevDatabase => Some(Lack::Udev),
        CheckId::NvfsDevnodes => Some(Lack::NvidiaFs),
        // Devices that exist and may not be opened need another option than missing ones.
        CheckId::CtrDevices if j.advice == Some(given(ctx.root, &container, &[Lack::Gpu]).into()) => Some(Lack::Gpu),
        _ => None,
    };
    let is_of_start = |j: &&Judged| {
        j.finding.fix == Some(FixId::ContainerDevices)
            && j.finding.cause.is_none()
            && (j.stops(Route::Compat) || pair.goal.is_some_and(|goal| j.stops(goal)))
    };
    let parts: Vec<&Judged> = mine.iter().copied().filter(is_of_start).collect();
    if parts.len() < 2 || !is_of_start(&step) {
        return None;
    }
    let advice =
        |parts: &[&Judged]| parts.iter().filter_map(|j| j.finding.advice.clone()).collect::<Vec<_>>().join(" ");
    // The keys of P2PDMA have an advice for each container.
    let (keys, parts): (Vec<&Judged>, Vec<&Judged>) = parts.into_iter().partition(|j| j.id == CheckId::CfgP2pBoth);
    let lacks: Option<Vec<Lack>> = parts.iter().map(|j| lack(j)).collect();
    let text = lacks
        .filter(|lacks| lacks.len() > 1)
        .map_or_else(|| advice(&parts), |lacks| given(ctx.root, &container, &lacks));
    Some(format!("{text} {}", advice(&keys)).trim().to_owned())
}

/// The steps with their numbers, one in a line. If several steps need a reboot, it follows all of them.
fn numbered(steps: &[String]) -> String {
    const REBOOT: &str = ", then reboot.";
    // Only the condition for disabling multipath can follow.
    let parts = |step: &String| {
        let (before, after) = step.split_once(REBOOT)?;
        (after.is_empty() || after == SINGLE_PATHS).then(|| (before.to_owned(), after.to_owned()))
    };
    let one_reboot = steps.iter().filter(|step| parts(step).is_some()).count() > 1;
    let text = |step: &String| match parts(step).filter(|_| one_reboot) {
        Some((before, after)) => format!("{before}.{after}"),
        None => step.clone(),
    };
    let lines = steps.iter().zip(1..).map(|(step, number)| format!("{number}. {}", text(step)));
    lines.chain(one_reboot.then(|| "Then run `sudo reboot` once.".to_owned())).collect::<Vec<_>>().join("\n")
}

/// The fix of a finding with its advice, or only the advice if the verdict has a command for all steps.
fn step(ctx: &Context<'_>, j: &Judged, with_command: bool) -> String {
    // A problem alone is not a step.
    let text = j.finding.advice.clone().unwrap_or_else(|| format!("{}.", j.finding.summary));
    let Some(command) = how_to_fix(&j.finding) else { return text };
    let Some(advice) = &j.advice else { return format!("{text} {command}") };
    // Advice can begin with the fix itself. In a container it is for the person who starts it.
    let names_fix = matches!(advice.first_command(), Some(Command::Fix(_)));
    let Some(fix) = j.finding.fix.filter(|_| with_command && !names_fix && machine::container(ctx.root).is_none())
    else {
        return text;
    };
    let label = match fix {
        // The start of a container is another way than the fix on its host.
        FixId::UdevRecord => "Alternative",
        _ if only_shows(&j.finding) => "In short",
        _ => "By hand",
    };
    format!("{command} {label}: {text}")
}
