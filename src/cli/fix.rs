//! The command `fix`: lists, previews, applies and undoes fixes, and continues them after a reboot.

use super::args::OutputArgs;
use super::fix_work::{Mode, Order, Work, ask, ended, open};
use super::guided;
use super::outcome::{
    BAD_ANSWER, BAD_CALL, COULD_NOT_RUN, FINE, INTERRUPTED, fail, note, print, print_coloured, print_json,
};
use super::race::on_each_signal;
use super::terminal::{columns, headless_options};
use super::view::examined;
use crate::checks::{self, Report};
use crate::core::nearest::nearest;
use crate::core::{CheckId, FixId, FixPlan, FixProgress, FixStage, Needs, OpenPlan, Status};
use crate::device::endings;
use crate::fixes::{self, Ended, Entry, FixError, Journal, Place, SetUp, Stage, guide};
use crate::machine::Root;
use signal_hook::consts::SIGHUP;
use std::path::{Path, PathBuf};

/// Runs the command.
pub(super) fn run(order: &Order<'_>, output: &OutputArgs) -> u8 {
    let (place, view) = match open(order.root) {
        Ok(both) => both,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    end_on_signals(&place);
    let status = run_on(order, output, place.clone(), view);
    if fixes::is_stopped() { interrupted(&place) } else { status }
}

/// At INT, TERM, HUP or QUIT, a fix that works ends after its running step, and its journal keeps it. Otherwise, and at
/// a second signal, the process ends.
fn end_on_signals(place: &Place) {
    let place = place.clone();
    on_each_signal(move |earlier, origin| {
        if !is_final(earlier, origin.signal) && fixes::stop() {
            if earlier == 0 {
                note("interrupted; the fix ends after its running step; a second signal ends gds-top immediately");
            }
            return true;
        }
        if earlier > 0 {
            return false;
        }
        endings::sweep_and_exit(interrupted(&place))
    });
}

/// Whether a signal after `earlier` others ends the process while a fix works. A second HUP does not, because the shell
/// and the kernel can both send one when the terminal is closed.
const fn is_final(earlier: usize, signal: i32) -> bool {
    earlier > 0 && signal != SIGHUP
}

/// The end after a signal: the applied fixes, and how to go on with one that is half done.
fn interrupted(place: &Place) -> u8 {
    note(&format!("interrupted; '{}' shows the applied fixes", place.again("--list", None)));
    fixes::interrupted(place).iter().for_each(|sentence| note(sentence));
    INTERRUPTED
}

/// Resumes what was interrupted, then lists, applies or undoes fixes.
fn run_on(order: &Order<'_>, output: &OutputArgs, place: Place, view: Root) -> u8 {
    if order.mode == Mode::Undo
        && let Some(sentence) = order.ids.iter().find_map(|id| cannot_undo(id))
    {
        return fail(BAD_CALL, &sentence);
    }
    let mut taken_back = Vec::new();
    // With `--json`, the checklist is only printed.
    if order.only_looks() || (output.json && order.names_guide()) {
        fixes::interrupted(&place).iter().for_each(|sentence| note(sentence));
    } else {
        match fixes::recover(&place, &mut |sentence| note(&sentence)) {
            Ok(ids) => taken_back = ids,
            Err(error) => return fail(BAD_CALL, &error.to_string()),
        }
    }
    if fixes::is_stopped() {
        return INTERRUPTED;
    }
    let mut named: Vec<PathBuf> = order.path.map(Path::to_path_buf).into_iter().collect();
    if named.is_empty() && order.names_guide() {
        // A set-up keeps the paths with which it was started, independent of the working directory.
        named = SetUp::load(&place).map(|set_up| set_up.paths).unwrap_or_default();
    }
    let paths = match examined(&view, &named) {
        Ok(paths) => paths,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let work = Work { order, output, place, view, paths };
    if order.mode == Mode::Undo { work.undo(&taken_back) } else { work.plan() }
}

/// Prints notes about interrupted fixes and fixes that need a reboot. Other commands call this. It writes no files.
pub(super) fn list_open(report: &Report, root: Option<&Path>) {
    let place = match root {
        None => Place::live(),
        // A captured machine has a journal only if fixes were applied to the capture.
        Some(folder) if folder.join(".gds-top").is_dir() => match Place::folder(folder) {
            Ok(place) => place,
            Err(sentence) => return note(&sentence),
        },
        Some(_) => return,
    };
    fixes::interrupted(&place).iter().for_each(|sentence| note(sentence));
    note_open(&fixes::take_up(report, &place));
}

fn note_open(open: &[OpenPlan]) {
    open.iter().filter(|plan| !plan.verified).flat_map(OpenPlan::lines).for_each(|line| note(&line));
}

impl Work<'_> {
    /// The fixes that this user and root have applied, and the number of those that this user can undo. These are first.
    fn applied(&self) -> (Vec<Entry>, usize) {
        let all = Journal::all(&self.place);
        let (own, others) = all.split_at(1);
        let of = |journals: &[Journal]| -> Vec<Entry> {
            journals.iter().flat_map(Journal::entries).filter(|e| e.stage == Stage::Applied).collect()
        };
        let mut out = of(own);
        let count = out.len();
        let more = of(others).into_iter().filter(|entry| out.iter().all(|known| known.id != entry.id));
        let more: Vec<Entry> = more.collect();
        out.extend(more);
        (out, count)
    }

    /// Undoes the named fixes, or all applied fixes. `taken_back` are interrupted fixes that this command has already
    /// rolled back.
    fn undo(&self, taken_back: &[FixId]) -> u8 {
        let (applied, own) = self.applied();
        let ids: Vec<FixId> = if self.order.ids.is_empty() {
            applied.iter().take(own).map(|entry| entry.id).collect()
        } else {
            let mut ids: Vec<FixId> = self.order.ids.iter().filter_map(|text| text.parse().ok()).collect();
            ids.retain(|id| !taken_back.contains(id) || applied.iter().any(|entry| entry.id == *id));
            ids
        };
        if ids.is_empty() && !taken_back.is_empty() {
            return FINE;
        }
        let undo_as_root = || self.place.command("--undo", None, Needs::Root);
        if ids.is_empty() && !applied.is_empty() {
            let ids: Vec<&str> = applied.iter().map(|entry| entry.id.as_str()).collect();
            return fail(
                COULD_NOT_RUN,
                &format!("all applied fixes were applied by root ({}); run: {}", ids.join(", "), undo_as_root()),
            );
        }
        if ids.is_empty() {
            if Journal::all(&self.place).iter().any(Journal::is_denied) {
                note(&format!("this user has applied no fix; for the fixes of root run: {}", undo_as_root()));
            } else {
                note("no fix is applied on this machine, so there is nothing to undo");
            }
            return FINE;
        }
        let mut status = FINE;
        // Files of fixes that could not be undone. An older fix of the same file cannot be undone before the newer
        // one.
        let mut kept: Vec<&PathBuf> = Vec::new();
        for id in newest_first(&ids, &applied[..own]) {
            if fixes::is_stopped() {
                break;
            }
            let entry = applied[..own].iter().find(|entry| entry.id == id);
            let files: Vec<&PathBuf> = entry.iter().flat_map(|entry| &entry.files).map(|file| &file.path).collect();
            if let Some(path) = files.iter().find(|path| kept.contains(path)) {
                let path = path.display();
                note(&format!("{id} was not undone, because a newer fix of {path} could not be undone"));
                status = status.max(BAD_ANSWER);
            } else {
                let undone = fixes::undo_and_verify(&self.view, id, &self.place, &self.paths, &mut |p| self.news(&p));
                if undone == Ended::Done {
                    continue;
                }
                status = status.max(ended(undone));
            }
            kept.extend(files);
        }
        status
    }

    fn plan(&self) -> u8 {
        let (order, output) = (self.order, self.output);
        let report = checks::run(&self.view, &self.paths, None, &mut |_| {});
        let mut plans: Vec<FixPlan> =
            fixes::plan(&self.view, &report).into_iter().map(|plan| self.shown(plan)).collect();
        let no_help = fixes::no_help(&report, &plans);
        if order.ids.is_empty() {
            plans.retain(|plan| fixes::is_offered(&report, plan));
        }
        let open = fixes::take_up(&report, &self.place);
        if order.names_guide() {
            return guided::run(self, report, open);
        }
        if order.mode == Mode::List {
            let (plans, applied, open) = match self.listed(plans, open, no_help.as_deref()) {
                Ok(listed) => listed,
                Err(sentence) => return fail(BAD_CALL, &sentence),
            };
            if output.json {
                let ids: Vec<_> = applied.iter().map(|e| &e.id).collect();
                return print_json(&serde_json::json!({"plans": plans, "applied": ids, "open": open}));
            }
            let colour = headless_options(output, None).colour;
            let no_help = no_help.as_deref().filter(|_| order.ids.is_empty());
            let list = fixes::text::list(&plans, no_help, &applied, &open, colour, columns().into());
            return print_coloured(&list, colour);
        }
        if !output.json && !order.stream {
            note_open(&open);
        }
        let chosen = match self.choose(plans, &report, no_help.as_deref()) {
            Ok(chosen) => chosen,
            Err(sentence) => return fail(BAD_CALL, &sentence),
        };
        if output.json && order.mode == Mode::DryRun {
            return print_json(&serde_json::json!({"plans": chosen}));
        }
        if chosen.is_empty() {
            if order.ids.is_empty() {
                note(no_help.as_deref().unwrap_or("nothing to fix: no check that can be fixed here warns or fails"));
            }
            return FINE;
        }
        let mut status = FINE;
        for plan in &chosen {
            if fixes::is_stopped() {
                break;
            }
            match self.one(plan) {
                Ok(end) => status = status.max(ended(end)),
                Err(stop) => return stop,
            }
        }
        status
    }

    /// The planned, applied and open fixes with these ids, or for these checks. Without names, all are returned.
    fn listed(
        &self,
        mut plans: Vec<FixPlan>,
        mut open: Vec<OpenPlan>,
        no_help: Option<&str>,
    ) -> Result<Listed, String> {
        let ids = self.order.ids;
        let (mut applied, _) = self.applied();
        if ids.is_empty() {
            return Ok((plans, applied, open));
        }
        let is = |plan: &FixPlan, id: &String| plan.id == id.as_str() || plan.check == id.as_str();
        if let Some(unknown_id) = ids.iter().find(|id| id.parse::<FixId>().is_err() && !plans.iter().any(|p| is(p, id)))
        {
            return Err(unknown(unknown_id, &plans, no_help));
        }
        plans.retain(|plan| ids.iter().any(|id| is(plan, id)));
        let named = |fix: FixId| ids.iter().any(|id| fix == id.as_str()) || plans.iter().any(|plan| plan.id == fix);
        applied.retain(|entry| named(entry.id));
        open.retain(|plan| named(plan.id));
        Ok((plans, applied, open))
    }

    /// The plans with these ids, or for these checks. Without names, all plans are returned. A fix can be named even
    /// if no check needs it.
    fn choose(&self, plans: Vec<FixPlan>, report: &Report, no_help: Option<&str>) -> Result<Vec<FixPlan>, String> {
        let ids = self.order.ids;
        if ids.is_empty() {
            return Ok(plans);
        }
        let mut chosen: Vec<FixPlan> = Vec::new();
        for id in ids {
            let mut found: Vec<FixPlan> =
                plans.iter().filter(|plan| plan.id == id.as_str() || plan.check == id.as_str()).cloned().collect();
            if found.is_empty()
                && let Ok(known) = id.parse()
                && let Some(plan) = fixes::plan_by_id(&self.view, report, known)
            {
                note(&format!("no check needs {id} here; it is shown because it was named"));
                found.push(self.shown(plan));
            }
            if found.is_empty()
                && let Some(check) = id.parse().ok().and_then(|known: FixId| passed(known, report))
            {
                note(&format!("{id}: nothing to fix, the check {check} passes"));
                continue;
            }
            if found.is_empty() {
                return Err(unknown(id, &plans, no_help));
            }
            found.retain(|plan| chosen.iter().all(|known| known.id != plan.id));
            chosen.extend(found);
        }
        Ok(chosen)
    }

    /// The plan with the obstacle of its files. Without a preview, the error of the fix names it.
    fn shown(&self, plan: FixPlan) -> FixPlan {
        if self.order.mode == Mode::Yes { plan } else { fixes::with_file_obstacle(&self.place, plan) }
    }

    /// Shows a plan and applies it if the user agrees. `Err` ends the command with this status.
    fn one(&self, plan: &FixPlan) -> Result<Ended, u8> {
        let order = self.order;
        if !order.stream {
            let printed = print(fixes::preview(plan, columns().into()).as_bytes());
            if printed != FINE {
                return Err(printed);
            }
            if !self.place.is_live() {
                let root = self.place.root.display();
                note(&match order.mode {
                    Mode::DryRun => format!("this plan is for the machine in {root}; nothing is written (--dry-run)"),
                    _ => format!("files are written below {root}; commands are shown and not run"),
                });
            }
        }
        if order.mode == Mode::DryRun {
            return Ok(Ended::Done);
        }
        if !plan.applies() {
            note(&format!("{} is shown only: follow its steps by hand", plan.id));
            // Only '--yes' requests that fixes are applied.
            return Ok(if order.mode == Mode::Yes { Ended::NotStarted } else { Ended::Done });
        }
        if self.place.lacks_root(plan) {
            let command = self.place.command(plan.id.as_str(), order.path, plan.needs);
            return Ok(self.failed(plan.id, &FixError::NeedsRoot { id: plan.id, command }));
        }
        if order.mode == Mode::Ask {
            if let Some(why) = &plan.obstacle {
                return Ok(self.failed(plan.id, &FixError::Obstacle { id: plan.id, why: why.clone() }));
            }
            match ask(plan.id) {
                Ok(true) => return Ok(self.apply_as_previewed(plan)),
                Ok(false) => {
                    note(&format!("{} was not applied", plan.id));
                    return Ok(Ended::Done);
                }
                Err(sentence) => return Err(fail(BAD_CALL, &sentence)),
            }
        }
        let consent = order.consent.clone().unwrap_or_else(|| plan.digest());
        Ok(self.apply(&self.view, plan, &consent))
    }

    fn apply(&self, view: &Root, plan: &FixPlan, consent: &str) -> Ended {
        fixes::apply_and_verify(view, plan, consent, &self.place, &self.paths, &mut |p| self.news(&p))
    }

    /// Reports that the fix was not applied.
    fn failed(&self, id: FixId, error: &FixError) -> Ended {
        self.news(&FixProgress { id, stage: FixStage::Failed, text: error.to_string(), finding: None });
        Ended::from(error)
    }

    /// Applies a previewed plan after consent. The user can take long to answer, so the plan is made again and
    /// rejected if it has changed.
    fn apply_as_previewed(&self, plan: &FixPlan) -> Ended {
        let refused = || self.failed(plan.id, &FixError::NotConsented { id: plan.id });
        let Ok((_, view)) = open(self.order.root) else { return refused() };
        let report = checks::run(&view, &self.paths, None, &mut |_| {});
        match fixes::plan_by_id(&view, &report, plan.id) {
            Some(now) => self.apply(&view, &FixPlan { check: plan.check, ..now }, &plan.digest()),
            None => refused(),
        }
    }
}

/// Planned, applied and open fixes.
type Listed = (Vec<FixPlan>, Vec<Entry>, Vec<OpenPlan>);

/// A sentence if this is not the id of a fix.
fn cannot_undo(id: &str) -> Option<String> {
    if id == guide::ID {
        return Some(format!(
            "{id} is a set-up of several fixes; undo each by its id, or all with 'gds-top fix --undo'"
        ));
    }
    id.parse::<FixId>().is_err().then(|| match nearest(id, FixId::ALL.iter().map(|id| id.as_str())) {
        Some(near) => format!("'{id}' is not a fix; did you mean '{near}'?"),
        None => format!("'{id}' is not a fix; 'gds-top fix --list' shows those that are applied"),
    })
}

/// The named fixes, the newest first. In `applied`, the oldest is first.
fn newest_first(ids: &[FixId], applied: &[Entry]) -> Vec<FixId> {
    let age = |id: FixId| applied.iter().rev().position(|entry| entry.id == id).unwrap_or(usize::MAX);
    let mut ids = ids.to_vec();
    ids.sort_by_key(|id| age(*id));
    ids.dedup();
    ids
}

/// The check of a fix, if it passes.
fn passed(id: FixId, report: &Report) -> Option<CheckId> {
    let check = fixes::check_of(id);
    report
        .finding(check)
        .filter(|finding| matches!(finding.status, Status::Pass | Status::Info))
        .map(|finding| finding.id)
}

/// Why an id names no plan. `no_help` is the reason if no plan helps on this machine.
fn unknown(id: &str, plans: &[FixPlan], no_help: Option<&str>) -> String {
    if id.parse::<FixId>().is_ok() {
        return format!("'{id}' cannot be planned here: a fact that it needs is unknown for this machine or path");
    }
    if let Some(near) = nearest(id, FixId::ALL.iter().map(|id| id.as_str()).chain([guide::ID])) {
        return format!("'{id}' is not a fix; did you mean '{near}'?");
    }
    if let Some(reason) = no_help {
        return format!("'{id}' is not a fix; {reason}");
    }
    let known: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    let known = if known.is_empty() {
        "nothing needs a fix now".to_owned()
    } else {
        format!("now there are {}", known.join(", "))
    };
    format!("'{id}' is not a fix that this machine needs; {known}; 'gds-top fix --list' shows more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGINT, SIGTERM};

    #[test]
    fn a_second_signal_is_final_unless_the_terminal_was_closed() {
        for (earlier, signal, expected) in
            [(0, SIGINT, false), (0, SIGHUP, false), (1, SIGHUP, false), (1, SIGINT, true), (2, SIGTERM, true)]
        {
            assert_eq!(is_final(earlier, signal), expected, "{earlier} {signal}");
        }
    }
}
