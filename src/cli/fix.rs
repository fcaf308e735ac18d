//! Fixes: listed, previewed, applied after consent, undone, taken up after a reboot.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, BAD_CALL, FINE, fail, note, print, print_coloured, print_json};
use super::race::headless_options;
use super::view::{examined, open_view};
use crate::checks::{self, Report};
use crate::domain::{FixPlan, FixProgress, FixStage, OpenPlan};
use crate::fixes::{self, Entry, Journal, Place, RECIPES, Stage, guide};
use crate::host::Root;
use crate::text::write_json;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// What is to be done with the fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Ask before each.
    Ask,
    /// Apply all that are named, or all.
    Yes,
    /// Show only.
    DryRun,
    /// Take back.
    Undo,
    /// List.
    List,
}

/// What the command line asks for.
#[derive(Clone, Debug)]
pub(super) struct Order<'a> {
    /// Fixes, or checks that they mend.
    pub(super) ids: &'a [String],
    /// What to do with them.
    pub(super) mode: Mode,
    /// The path whose reads are to work.
    pub(super) path: Option<&'a Path>,
    /// A folder that stands for a machine.
    pub(super) root: Option<&'a Path>,
    /// The changes that were consented to elsewhere.
    pub(super) consent: Option<String>,
    /// Progress as lines of JSON.
    pub(super) stream: bool,
}

impl Order<'_> {
    /// Whether it shows something and changes nothing.
    fn only_looks(&self) -> bool {
        matches!(self.mode, Mode::DryRun | Mode::List) || self.names_guide() && self.mode != Mode::Undo
    }

    fn names_guide(&self) -> bool {
        self.ids.iter().any(|id| id == guide::ID)
    }
}

/// Runs the command. Exit status 1 when something asked for was not mended or not undone.
pub(super) fn run(order: &Order<'_>, output: &OutputArgs) -> u8 {
    let (place, view) = match open(order.root) {
        Ok(both) => both,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let mut taken_back = Vec::new();
    if order.only_looks() {
        fixes::interrupted(&place).iter().for_each(|sentence| note(sentence));
    } else {
        match fixes::recover(&place, &mut |sentence| note(&sentence)) {
            Ok(ids) => taken_back = ids,
            Err(error) => return fail(BAD_CALL, &error.to_string()),
        }
    }
    let named: Vec<PathBuf> = order.path.map(Path::to_path_buf).into_iter().collect();
    let paths = match examined(&view, &named) {
        Ok(paths) => paths,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let work = Work { order, output, place, view, paths };
    if order.mode == Mode::Undo { work.undo(&taken_back) } else { work.plan() }
}

/// Where the work is done, and the view of it.
fn open(root: Option<&Path>) -> Result<(Place, Root), String> {
    let Some(folder) = root else { return Ok((Place::live(), open_view(None)?)) };
    Ok((Place::folder(folder)?, Root::stand_in(folder)?))
}

/// Interrupted fixes, and those that wait for a reboot: notes of commands that are about something else. Nothing is written.
pub(super) fn tell_open(report: &Report, root: Option<&Path>) {
    let place = match root {
        None => Place::live(),
        // A captured machine has a journal only where fixes were tried on it.
        Some(folder) if folder.join(".gds-top").is_dir() => match Place::folder(folder) {
            Ok(place) => place,
            Err(sentence) => return note(&sentence),
        },
        Some(_) => return,
    };
    fixes::interrupted(&place).iter().for_each(|sentence| note(sentence));
    tell(&fixes::take_up(report, &place));
}

fn tell(open: &[OpenPlan]) {
    open.iter().filter(|plan| !plan.verified).flat_map(OpenPlan::lines).for_each(|line| note(&line));
}

struct Work<'a> {
    order: &'a Order<'a>,
    output: &'a OutputArgs,
    place: Place,
    view: Root,
    paths: Vec<PathBuf>,
}

impl Work<'_> {
    /// What is applied here, by this user and by root, and what of it is this user's to undo.
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

    /// Undoes what is named, or all that is applied. `taken_back`: fixes whose interrupted work was rolled back by this command.
    fn undo(&self, taken_back: &[String]) -> u8 {
        let (applied, own) = self.applied();
        let ids: Vec<String> = if self.order.ids.is_empty() {
            applied.iter().take(own).map(|entry| entry.id.clone()).collect()
        } else {
            let is_done = |id: &&String| taken_back.contains(id) && applied.iter().all(|entry| entry.id != **id);
            self.order.ids.iter().filter(|id| !is_done(id)).cloned().collect()
        };
        if ids.is_empty() && !taken_back.is_empty() {
            return FINE;
        }
        if ids.is_empty() && !applied.is_empty() {
            let ids: Vec<&str> = applied.iter().map(|entry| entry.id.as_str()).collect();
            return fail(
                BAD_CALL,
                &format!("what is applied here was applied by root ({}); run: sudo gds-top fix --undo", ids.join(", ")),
            );
        }
        if ids.is_empty() {
            note(if Journal::all(&self.place).iter().any(Journal::is_denied) {
                "no fix is applied by this user; for those of root run: sudo gds-top fix --undo"
            } else {
                "no fix of gds-top is applied on this machine, so there is nothing to undo"
            });
            return FINE;
        }
        let mut status = FINE;
        // Files of fixes that are still applied: the text that an older fix of the same file would restore was never below the newer one.
        let mut kept: Vec<&PathBuf> = Vec::new();
        for id in newest_first(&ids, &applied[..own]) {
            let entry = applied[..own].iter().find(|entry| entry.id == id);
            let files: Vec<&PathBuf> = entry.iter().flat_map(|entry| &entry.files).map(|file| &file.path).collect();
            if let Some(path) = files.iter().find(|path| kept.contains(path)) {
                let path = path.display();
                note(&format!("{id} was not undone, because a newer fix of {path} could not be undone"));
            } else if fixes::undo_and_verify(&self.view, id, &self.place, &self.paths, &mut |p| self.news(&p)) {
                continue;
            }
            status = BAD_ANSWER;
            kept.extend(files);
        }
        status
    }

    fn plan(&self) -> u8 {
        let (order, output) = (self.order, self.output);
        let report = checks::run(&self.view, &self.paths, None, &mut |_| {});
        let plans = fixes::plan(&self.view, &report);
        let open = fixes::take_up(&report, &self.place);
        if order.names_guide() {
            return self.guide(&report, open);
        }
        if order.mode == Mode::List {
            let (applied, _) = self.applied();
            if output.json {
                let ids: Vec<_> = applied.iter().map(|e| &e.id).collect();
                return print_json(&serde_json::json!({"plans": plans, "applied": ids, "open": open}));
            }
            let colour = headless_options(output, None).colour;
            return print_coloured(&fixes::text::list(&plans, &applied, &open, colour), colour);
        }
        if !output.json && !order.stream {
            tell(&open);
        }
        let chosen = match self.choose(plans, &report) {
            Ok(chosen) => chosen,
            Err(sentence) => return fail(BAD_CALL, &sentence),
        };
        if output.json && order.mode == Mode::DryRun {
            return print_json(&serde_json::json!({"plans": chosen}));
        }
        if chosen.is_empty() {
            note("nothing to fix: no check that can be mended here warns or fails");
            return FINE;
        }
        let mut status = FINE;
        for plan in &chosen {
            match self.one(plan) {
                Ok(true) => {}
                Ok(false) => status = BAD_ANSWER,
                Err(stop) => return stop,
            }
        }
        status
    }

    fn guide(&self, report: &Report, open: Vec<OpenPlan>) -> u8 {
        if self.order.ids.len() > 1 {
            return fail(BAD_CALL, "nvidia-gds is the whole checklist; name it alone, or the fixes without it");
        }
        let mut guided = guide::guide(&self.view, report);
        guided.open = open.into_iter().filter(|plan| !plan.verified).collect();
        if self.output.json {
            return print_json(&serde_json::json!({ "guide": guided }));
        }
        let status = print(guide::text(&guided).as_bytes());
        if self.order.mode != Mode::DryRun {
            note("nothing was changed: the steps are applied one by one, by the commands that stand at them");
        }
        status
    }

    /// The plans that are named, by their ids or by the checks that they mend; all where none is named. A fix that no check asks for can be named, too.
    fn choose(&self, plans: Vec<FixPlan>, report: &Report) -> Result<Vec<FixPlan>, String> {
        let ids = self.order.ids;
        if ids.is_empty() {
            return Ok(plans);
        }
        let mut chosen: Vec<FixPlan> = Vec::new();
        for id in ids {
            let mut found: Vec<FixPlan> =
                plans.iter().filter(|plan| plan.id == *id || plan.check == *id).cloned().collect();
            if found.is_empty()
                && let Some(plan) = fixes::plan_by_id(&self.view, report, id)
            {
                note(&format!("no check asks for {id} here; it is shown because it was named"));
                found.push(plan);
            }
            if found.is_empty() {
                return Err(unknown(id, &plans));
            }
            found.retain(|plan| chosen.iter().all(|known| known.id != plan.id));
            chosen.extend(found);
        }
        Ok(chosen)
    }

    /// Shows a plan, and applies it where that is asked for. `Err` ends the command with a status.
    fn one(&self, plan: &FixPlan) -> Result<bool, u8> {
        let order = self.order;
        if !order.stream {
            let printed = print(fixes::preview(plan).as_bytes());
            if printed != FINE {
                return Err(printed);
            }
            if !self.place.is_live() {
                let root = self.place.root.display();
                note(&format!("files are written below {root}; commands are shown and never run there"));
            }
        }
        if order.mode == Mode::DryRun {
            return Ok(true);
        }
        if !plan.applies() {
            note(&format!("{} is shown only: follow its steps by hand", plan.id));
            return Ok(true);
        }
        if order.consent.as_ref().is_some_and(|consent| *consent != fixes::consent(plan)) {
            let text = "it would change something else now than what was previewed; nothing was written, look at the fix again";
            self.news(&FixProgress {
                id: plan.id.clone(),
                stage: FixStage::Failed,
                text: text.to_owned(),
                finding: None,
            });
            return Ok(false);
        }
        if order.mode == Mode::Ask {
            match ask(&plan.id) {
                Ok(true) => {}
                Ok(false) => {
                    note(&format!("{} was not applied", plan.id));
                    return Ok(true);
                }
                Err(sentence) => return Err(fail(BAD_CALL, &sentence)),
            }
        }
        Ok(fixes::apply_and_verify(&self.view, plan, &self.place, &self.paths, &mut |p| self.news(&p)))
    }

    fn news(&self, progress: &FixProgress) {
        if self.order.stream {
            let mut line = Vec::new();
            // If the reader of the stream is gone, the work goes on to its end.
            let _ = write_json(&mut line, progress);
            line.push(b'\n');
            let _ = print(&line);
        } else {
            note(&fixes::text::progress(progress));
        }
    }
}

/// The named fixes, the one that was applied last first; `applied` has the oldest first.
fn newest_first<'a>(ids: &'a [String], applied: &[Entry]) -> Vec<&'a str> {
    let age = |id: &str| applied.iter().rev().position(|entry| entry.id == id).unwrap_or(usize::MAX);
    let mut ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    ids.sort_by_key(|id| age(id));
    ids.dedup();
    ids
}

fn unknown(id: &str, plans: &[FixPlan]) -> String {
    if RECIPES.iter().any(|recipe| recipe.id == id) {
        return format!(
            "'{id}' has nothing to change here: what it would need to know is not known of this machine or path"
        );
    }
    let known: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    let known = if known.is_empty() {
        "nothing needs a fix now".to_owned()
    } else {
        format!("now there are {}", known.join(", "))
    };
    format!("'{id}' is no fix that this machine needs; {known}; 'gds-top fix --list' tells more")
}

/// Asks on the terminal. Consent is the word, not the absence of a no.
fn ask(id: &str) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        return Err(format!(
            "{id} needs your consent, and there is no terminal to ask on: say --yes to apply it, or --dry-run to see it only"
        ));
    }
    let mut err = io::stderr();
    let asked = write!(err, "Apply {id}? [y/N] ").and_then(|()| err.flush());
    let mut answer = String::new();
    match asked.and_then(|()| io::stdin().lock().read_line(&mut answer)) {
        Ok(_) => Ok(matches!(answer.trim(), "y" | "Y" | "yes")),
        Err(error) => Err(format!("the answer could not be read: {error}")),
    }
}
