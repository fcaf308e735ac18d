//! The lines below the verdict on screen 1: the reason, and the key that opens the fix.

use super::fix::needs_words;
use super::state::Ui;
use crate::core::{Finding, Status, Verdict};
use crate::present::verdict::{after_fixes, next_step, no_gpu, obstacles, steps};
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::keys::action::Action;
use crate::tui::pen::{Pen, Run, width, wrap};
use crate::tui::remedy::{first_plan, plan_for};
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;

/// Width in columns of the labels before the explanations.
pub(super) const LABEL: u16 = 6;

/// The findings that block the goal, in the order of their fixes.
fn blockers<'s>(state: &'s State, verdict: &Verdict) -> Vec<&'s Finding> {
    verdict.blockers.iter().filter_map(|id| state.checks.iter().find(|finding| finding.id == *id)).collect()
}

/// Draws the reason and the next action from column `indent`. Returns the number of rows.
pub(super) fn draw(
    pen: &mut Pen<'_>,
    indent: u16,
    state: &State,
    ui: &Ui<'_>,
    verdict: &Verdict,
    theme: &Theme,
) -> u16 {
    let (w, h) = (pen.width(), pen.height());
    let room = w.saturating_sub(indent + LABEL + 2);
    let found = blockers(state, verdict);
    let to_do = steps(state, verdict);
    let mut y = 0;
    let mut put = |label: &str, key: Option<(String, Action)>, text: &str, aside: &str, most: u16| {
        if y >= h {
            return;
        }
        pen.text(indent, y, label, theme.dim);
        let mut x = indent + LABEL;
        if let Some((key, action)) = key {
            let end = pen.text(x, y, &key, theme.accent);
            pen.hit(y, indent, w.saturating_sub(indent), Spot::Key(action));
            x = end + 2;
        }
        let room = (indent + LABEL + room).saturating_sub(x);
        let lines = wrap(text, room);
        let shown = lines.len().min(usize::from(most.min(h - y)));
        for (n, line) in lines.iter().take(shown).enumerate() {
            let cut = n + 1 == shown && lines.len() > shown;
            let end = pen.fit(x, y, room, &if cut { format!("{line} …") } else { line.clone() }, theme.text);
            if n + 1 == lines.len() && usize::from(room) > usize::from(end - x) + width(aside) + 2 {
                pen.text(end + 2, y, aside, theme.dim);
            }
            y += 1;
        }
    };
    // If there is little space for the list, the fix is shown and the reason is left out.
    let plan = first_plan(state, verdict);
    let fixed =
        plan.and_then(|plan| to_do.iter().position(|step| plan_for(state, step).is_some_and(|own| own.id == plan.id)));
    // The reason is that of the fix below.
    let reason = fixed.and_then(|at| to_do.get(at)).or_else(|| found.first());
    if let Some(first) = reason.filter(|_| h > 2) {
        let more = match found.len().saturating_sub(1) {
            0 => String::new(),
            n => format!("(and {n} more)"),
        };
        put("why", None, &first.summary, &more, if w >= 100 { 1 } else { 2 });
    }
    if let Some(plan) = plan {
        let at = fixed.unwrap_or(0);
        let number = if to_do.len() > 1 { format!("{} of {}: ", at + 1, to_do.len()) } else { String::new() };
        let key = (ui.ctx.keys.key_of(Action::Fix), Action::Fix);
        put("fix", Some(key), &format!("{number}{}", plan.title), &needs_words(plan), 2);
    } else if let Some(advice) =
        obstacles(state, verdict).iter().filter(|_| !no_gpu(verdict)).find_map(|finding| finding.advice.as_deref())
    {
        put("fix", None, advice, "", 2);
    } else if let Some(words) = next_step(verdict).filter(|_| !(ui.ctx.captured || ui.ctx.replay || ui.ctx.over)) {
        let race = Action::Screen(ScreenId::Race);
        put("next", Some((ui.ctx.keys.key_of(race), race)), words, "", 2);
    }
    y
}

/// The text next to the drawing of the goal.
pub(super) fn goal(state: &State, verdict: &Verdict, room: u16, theme: &Theme) -> Vec<Run> {
    let mut runs: Vec<Run> = vec![(format!("{:<9} ", verdict.possible), theme.status(Status::Pass))];
    let steps = steps(state, verdict);
    let price = after_fixes(steps.len());
    // Names that do not fit are left out, because the list below contains them with all details.
    let names: Vec<&str> = steps.iter().map(|finding| finding.id.as_str()).collect();
    let named = format!("{price}: {}", names.join(", "));
    let fits = width(&named) + 10 <= usize::from(room);
    runs.push((if fits && !price.is_empty() { named } else { price }, theme.dim));
    runs
}
