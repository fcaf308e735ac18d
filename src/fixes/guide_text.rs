//! The checklist as text.

use super::order::later_reboot;
use super::preview::changes_text;
use crate::core::Guide;
use crate::core::guide::REBUILT_LATER;
use crate::text::paragraph;
use std::fmt::Write as _;

/// The checklist as text for the terminal, wrapped at `width` columns. Diffs and commands are not wrapped.
#[must_use]
pub fn text(guide: &Guide, width: usize) -> String {
    let mut out = String::new();
    let row = |out: &mut String, head: &str, text: &str| paragraph(out, head, head.chars().count(), text, width);
    for line in guide.head() {
        row(&mut out, "", &line);
    }
    out.push('\n');
    for open in &guide.open {
        for line in open.lines() {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
    }
    for (number, step) in guide.steps.iter().enumerate() {
        let head = format!("{} {:>2}. ", step.state.mark(), number + 1);
        row(&mut out, &head, &format!("{} ({})", step.title, step.state.word()));
        for found in &step.found {
            row(&mut out, "       ", found);
        }
        for plan in &step.plans {
            row(&mut out, "     → ", &format!("{} ({}; {})", plan.title, plan.who(), plan.how()));
            if plan.needs_download() {
                row(&mut out, "         ", &plan.why);
            }
            let shown = guide.shown_plan(plan);
            for line in changes_text(&shown).lines() {
                let _ = writeln!(out, "         {line}");
            }
            if shown.changes.len() < plan.changes.len() {
                row(&mut out, "         ", REBUILT_LATER);
            }
            if let Some(obstacle) = &plan.obstacle {
                row(&mut out, "         ", &format!("but {obstacle}"));
            }
            if let Some(place) = later_reboot(&guide.steps, number, plan) {
                row(&mut out, "         ", &format!("the reboot of step {} is enough", place + 1));
            }
            row(&mut out, "         ", &format!("verify: {}", plan.verify));
        }
        for advice in &step.advice {
            row(&mut out, "     → ", advice);
        }
    }
    out
}
