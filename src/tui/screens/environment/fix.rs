//! The sheet of a fix: its changes, the required rights, how it is verified and undone, and its output.

use super::state::{FixSheet, Ui, plan_of};
use crate::core::units::NS_PER_S;
use crate::core::{Change, FixPlan, FixPolicy, FixProgress, FixRisk, FixStage, Needs, Status};
use crate::session::State;
use crate::text::quoted_line;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Binding;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::sheet::{self, labelled};

/// The rights that a fix needs. `None` if its risk or its policy is more important.
const fn needs(plan: &FixPlan) -> Option<&'static str> {
    match (plan.policy, plan.risk, plan.needs) {
        (FixPolicy::Show | FixPolicy::Never, ..) | (_, FixRisk::High, _) => None,
        (_, FixRisk::Low, Needs::User) => Some("no rights"),
        (_, FixRisk::Low, Needs::Root) => Some("root"),
        (_, FixRisk::Low, Needs::Reboot) => Some("root and a reboot"),
        (_, FixRisk::Medium, Needs::User) => Some("no rights; other programs may notice"),
        (_, FixRisk::Medium, Needs::Root) => Some("root; other programs may notice"),
        (_, FixRisk::Medium, Needs::Reboot) => Some("root and a reboot; other programs may notice"),
    }
}

/// The risk of a fix, if that is more important than its rights.
const fn risk(plan: &FixPlan) -> &'static str {
    match plan.policy {
        FixPolicy::Show => "only shown: do this yourself",
        FixPolicy::Never if matches!(plan.risk, FixRisk::Low) => "never applied by gds-top: do this yourself",
        FixPolicy::Never => {
            "never applied by gds-top: do it manually and carefully, because the machine may need manual repair"
        }
        _ => "the machine may need manual repair",
    }
}

/// The rights or the risk of a fix as text: `needs root and a reboot`.
pub(crate) fn needs_words(plan: &FixPlan) -> String {
    needs(plan).map_or_else(|| risk(plan).to_owned(), |rights| format!("needs {rights}"))
}

/// Draws the sheet with the available keys.
pub(super) fn draw(
    pen: &mut Pen<'_>,
    state: &State,
    ui: &Ui<'_>,
    sheet: &FixSheet,
    bindings: &[&Binding],
    theme: &Theme,
) {
    let id = sheet.id;
    let widest = 100;
    let room = widest.min(pen.width().saturating_sub(2)).saturating_sub(8);
    let mut log: Vec<&FixProgress> = state.fix_log.iter().filter(|line| line.id == id).collect();
    // A dry run reports that nothing was changed. This is wrong after the fix was applied or undone, so its lines are
    // removed.
    if let Some(last) = log.iter().rposition(|line| line.stage != FixStage::Previewed) {
        let newer = log.split_off(last);
        log.retain(|line| line.stage != FixStage::Previewed);
        log.extend(newer);
    }
    let plan = plan_of(state, id);
    let mut lines = match plan {
        Some(plan) => undoing(state, ui, plan, room, theme).into_iter().chain(preview(plan, room, theme)).collect(),
        None => vec![vec![("This fix is no longer offered.".to_owned(), theme.text)]],
    };
    if !log.is_empty() {
        lines.push(Vec::new());
        lines.extend(log_lines(&log, room, ui, theme));
    }
    let mut title = vec![
        ("Fix ".to_owned(), theme.dim),
        (plan.map_or_else(|| id.to_string(), |plan| plan.title.clone()), theme.strong),
    ];
    // The result is shown first.
    let ended = log.iter().rev().find(|line| line.stage != FixStage::Previewed).and_then(|line| ending(line.stage));
    if let Some((status, word)) = ended {
        title.push((format!("  {} {word}", status.mark()), theme.status(status)));
    }
    // While output arrives, the end of the text is shown.
    let scroll = if log.is_empty() || sheet.held { sheet.scroll.at() } else { usize::MAX };
    sheet.scroll.drawn(sheet::draw(pen, &title, &lines, &sheet::keys(bindings, theme), scroll, widest, theme));
    sheet::click(pen, lines.len(), widest, bindings);
}

/// For an applied fix: its time, the effect of undo, and the other fixes that can be undone.
fn undoing(state: &State, ui: &Ui<'_>, plan: &FixPlan, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let Some(fix) = state.applied.iter().find(|fix| fix.plan.id == plan.id) else { return Vec::new() };
    let key = ui.ctx.keys.key_of(Action::Undo);
    let has_files = fix.plan.changes.iter().any(|change| matches!(change, Change::WriteFile { .. }));
    let gone = if fix.in_effect || !has_files { "" } else { ", but its changes no longer exist" };
    let now_s = state.started_unix_ms / 1000 + state.now_ns / NS_PER_S;
    let is_past = ui.ctx.replay || ui.ctx.over;
    let how = if is_past { String::new() } else { format!("; {key} undoes it") };
    let said = format!("{}{gone}{how}", ago(now_s.saturating_sub(fix.at_unix_s)));
    let mut lines = labelled("Applied", &said, room, theme.dim, theme.strong);
    let others: Vec<&str> =
        state.applied.iter().filter(|other| other.plan.id != plan.id).map(|other| other.plan.check.as_str()).collect();
    if !others.is_empty() && !is_past {
        let text =
            format!("applied as well: the fixes of {}; select one of these checks and press {key}", others.join(", "));
        lines.extend(labelled("Others", &text, room, theme.dim, theme.dim));
    }
    lines.push(Vec::new());
    lines
}

/// The time since an event as text.
fn ago(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    match UNITS.into_iter().find(|(unit, _)| seconds >= 2 * unit) {
        Some((unit, word)) => format!("{} {word} ago", seconds / unit),
        None => "just now".to_owned(),
    }
}

/// The status and text of a fix's result; `None` while it runs.
const fn ending(stage: FixStage) -> Option<(Status, &'static str)> {
    match stage {
        FixStage::Fixed => Some((Status::Pass, "fixed")),
        FixStage::StillWrong => Some((Status::Warn, "still wrong")),
        FixStage::Failed => Some((Status::Fail, "failed")),
        FixStage::Waiting => Some((Status::Info, "waits for a reboot")),
        FixStage::Undone => Some((Status::Info, "undone")),
        FixStage::Previewed | FixStage::Applying | FixStage::Verifying => None,
    }
}

fn preview(plan: &FixPlan, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    // The changes are shown first, because the user consents to them.
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for change in &plan.changes {
        lines.extend(change_lines(change, room, theme));
        lines.push(Vec::new());
    }
    if let Some(obstacle) = &plan.obstacle {
        lines.extend(labelled("Not now", obstacle, room, theme.status(Status::Warn), theme.text));
        lines.push(Vec::new());
    }
    let (label, words) = match (needs(plan), plan.policy) {
        (Some(rights), _) => ("Needs", rights),
        (None, FixPolicy::Show | FixPolicy::Never) => ("Who", risk(plan)),
        (None, _) => ("Risk", risk(plan)),
    };
    lines.extend(labelled(label, words, room, theme.dim, theme.text));
    lines.extend(labelled("Proof", &plan.verify, room, theme.dim, theme.text));
    lines.extend(labelled("Undo", &plan.undo, room, theme.dim, theme.text));
    if !plan.remaining.is_empty() {
        lines.extend(labelled("Then", &plan.remaining.join("; "), room, theme.dim, theme.text));
    }
    if !plan.why.is_empty() {
        lines.push(Vec::new());
        lines.extend(labelled("Why", &plan.why, room, theme.dim, theme.text));
    }
    lines
}

fn change_lines(change: &Change, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    match change {
        Change::Run { argv } => {
            let line = quoted_line(argv);
            labelled("Runs", &line, room, theme.dim, theme.strong)
        }
        Change::WriteFile { path, before, after, mode } => {
            let verb = if before.is_some() { "Edits" } else { "Writes" };
            let mut lines =
                labelled(verb, &format!("{}  (mode {mode:o})", path.display()), room, theme.dim, theme.strong);
            lines.extend(diff(before.as_deref().unwrap_or(""), after, room, theme));
            lines
        }
    }
}

/// The removed and added lines, with up to two unchanged lines around them. A long line is wrapped, so that all of it
/// is visible.
fn diff(before: &str, after: &str, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    const CONTEXT: usize = 2;
    let mut lines = Vec::new();
    let width = usize::from(room.saturating_sub(10)).max(8);
    let mut put = |mark: &str, text: &str, style| {
        let letters: Vec<char> = text.replace('\t', "    ").chars().collect();
        for (n, part) in letters.chunks(width).enumerate() {
            let mark = if n == 0 { mark } else { " " };
            lines.push(vec![(format!("        {mark} {}", part.iter().collect::<String>()), style)]);
        }
        if letters.is_empty() {
            lines.push(vec![(format!("        {mark} "), style)]);
        }
    };
    for (at, line) in crate::text::diff(before, after, CONTEXT).iter().enumerate() {
        match line.mark {
            // The first group needs no position, because its context lines show it.
            '@' if at == 0 => {}
            '@' => put(" ", &line.text, theme.faint),
            '-' => put("-", &line.text, theme.removed),
            '+' => put("+", &line.text, theme.added),
            _ => put(" ", &line.text, theme.dim),
        }
    }
    lines
}

fn log_lines(log: &[&FixProgress], room: u16, ui: &Ui<'_>, theme: &Theme) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> = Vec::new();
    let last = log.len() - 1;
    for (i, progress) in log.iter().enumerate() {
        let (mark, style) = match progress.stage {
            FixStage::Fixed => (Status::Pass.mark(), theme.status(Status::Pass)),
            FixStage::StillWrong => (Status::Warn.mark(), theme.status(Status::Warn)),
            FixStage::Failed => (Status::Fail.mark(), theme.status(Status::Fail)),
            FixStage::Waiting => ('…', theme.status(Status::Info)),
            FixStage::Undone => ('↶', theme.text),
            FixStage::Applying | FixStage::Verifying if i == last && !ui.ctx.over => (ui.ctx.spinner(), theme.accent),
            FixStage::Previewed | FixStage::Applying | FixStage::Verifying => ('│', theme.faint),
        };
        let dry = progress.stage == FixStage::Previewed;
        if dry && (i == 0 || log[i - 1].stage != FixStage::Previewed) {
            lines.push(vec![("Dry run: nothing was changed".to_owned(), theme.strong)]);
        }
        let text_style = match progress.text.chars().next() {
            Some('+') if dry => theme.added,
            Some('-') if dry => theme.removed,
            _ if dry => theme.dim,
            _ if i == last => theme.strong,
            _ => theme.text,
        };
        for (n, line) in wrap(&progress.text, room.saturating_sub(2)).into_iter().enumerate() {
            let mark = if n == 0 || dry { format!("{mark} ") } else { "  ".to_owned() };
            lines.push(vec![(mark, style), (line, text_style)]);
        }
        if let Some(finding) = progress.finding.as_ref().filter(|_| progress.stage == FixStage::StillWrong) {
            lines.extend(
                wrap(&finding.summary, room.saturating_sub(2))
                    .into_iter()
                    .map(|line| vec![("  ".to_owned(), style), (line, theme.text)]),
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_goes_and_what_comes_with_a_little_around() {
        let theme = Theme::new(crate::config::Taste::default());
        let shown: Vec<String> = diff("a\nb\nc\nd\ne\nf", "a\nb\nc\nX\ne\nf", 80, &theme)
            .into_iter()
            .map(|line| line.into_iter().map(|run| run.0.trim().to_owned()).collect())
            .collect();
        assert_eq!(shown, ["b", "c", "- d", "+ X", "e", "f"]);
    }

    #[test]
    fn ages_use_the_largest_unit_with_a_value_of_two() {
        assert_eq!(
            [0, 119, 120, 7_199, 7_200, 172_800].map(ago),
            ["just now", "just now", "2 minutes ago", "119 minutes ago", "2 hours ago", "2 days ago"]
        );
    }
}
