//! Fixes: listed, previewed, applied after consent, undone.

use super::args::OutputArgs;
use super::check::{examined, open_view};
use super::outcome::{BAD_ANSWER, BAD_CALL, FINE, fail, note, print, print_json};
use super::race::headless_options;
use crate::checks;
use crate::domain::{FixPlan, FixProgress, FixRisk};
use crate::fixes::{self, Journal, Place, Stage, guide};
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

/// Runs the command. Exit status 1 when something asked for was not mended or not undone.
pub(super) fn run(ids: &[String], mode: Mode, path: Option<&Path>, output: &OutputArgs) -> u8 {
    let place = Place::live();
    match fixes::recover(&place) {
        Ok(said) => said.iter().for_each(|sentence| note(sentence)),
        Err(error) => return fail(BAD_CALL, &error.to_string()),
    }
    let named: Vec<PathBuf> = path.map(Path::to_path_buf).into_iter().collect();
    let view = match open_view(None) {
        Ok(view) => view,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let paths = match examined(&view, &named) {
        Ok(paths) => paths,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let applied: Vec<_> =
        Journal::at(&place.state).entries().into_iter().filter(|e| e.stage == Stage::Applied).collect();
    if mode == Mode::Undo {
        let ids = if ids.is_empty() { applied.iter().map(|entry| entry.id.clone()).collect() } else { ids.to_vec() };
        if ids.is_empty() {
            note("no fix of gds-top is applied on this machine, so there is nothing to undo");
            return FINE;
        }
        let undone = ids.iter().all(|id| fixes::undo_and_verify(&view, id, &place, &paths, &mut |p| tell(&p)));
        return if undone { FINE } else { BAD_ANSWER };
    }
    let report = checks::run(&view, &paths, None, &mut |_| {});
    let plans = fixes::plan(&view, &report);
    if ids.iter().any(|id| id == guide::ID) {
        if ids.len() > 1 {
            return fail(BAD_CALL, "nvidia-gds is the whole checklist; name it alone, or the fixes without it");
        }
        let guided = guide::guide(&view, &report);
        if output.json {
            return print_json(&serde_json::json!({ "guide": guided }));
        }
        let status = print(guide::text(&guided).as_bytes());
        if mode != Mode::DryRun {
            note("nothing was changed: the steps are applied one by one, by the commands that stand at them");
        }
        return status;
    }
    if mode == Mode::List {
        if output.json {
            let applied: Vec<_> = applied.iter().map(|e| &e.id).collect();
            return print_json(&serde_json::json!({"plans": plans, "applied": applied}));
        }
        return print(fixes::text::list(&plans, &applied, headless_options(output, None).colour).as_bytes());
    }
    let (chosen, unknown) = choose(&plans, ids);
    if let Some(id) = unknown {
        let known: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
        let known = if known.is_empty() {
            "nothing needs a fix now".to_owned()
        } else {
            format!("now there are {}", known.join(", "))
        };
        return fail(
            BAD_CALL,
            &format!("'{id}' is no fix that this machine needs; {known}; 'gds-top fix --list' tells more"),
        );
    }
    if output.json && mode == Mode::DryRun {
        return print_json(&serde_json::json!({"plans": chosen}));
    }
    if chosen.is_empty() {
        note("nothing to fix: no check that can be mended here warns or fails");
        return FINE;
    }
    let mut status = FINE;
    for plan in chosen {
        let printed = print(fixes::preview(plan).as_bytes());
        if printed != FINE {
            return printed;
        }
        if mode == Mode::DryRun {
            continue;
        }
        if plan.risk == FixRisk::ShownOnly {
            note(&format!("{} is shown only: follow its steps by hand", plan.id));
            continue;
        }
        if mode == Mode::Ask {
            match ask(&plan.id) {
                Ok(true) => {}
                Ok(false) => {
                    note(&format!("{} was not applied", plan.id));
                    continue;
                }
                Err(sentence) => return fail(BAD_CALL, &sentence),
            }
        }
        if !fixes::apply_and_verify(&view, plan, &place, &paths, &mut |p| tell(&p)) {
            status = BAD_ANSWER;
        }
    }
    status
}

/// The plans with these ids, or that mend the checks with these ids; all where none is named. And the first id that is neither.
fn choose<'a>(plans: &'a [FixPlan], ids: &'a [String]) -> (Vec<&'a FixPlan>, Option<&'a str>) {
    let named = |plan: &FixPlan, id: &str| plan.id == id || plan.check == id;
    let unknown = ids.iter().find(|id| !plans.iter().any(|plan| named(plan, id)));
    let chosen = plans.iter().filter(|plan| ids.is_empty() || ids.iter().any(|id| named(plan, id))).collect();
    (chosen, unknown.map(String::as_str))
}

fn tell(progress: &FixProgress) {
    note(&fixes::text::progress(progress));
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
