//! Copying: the answer of a screen and the selected line as text, put on the clipboard by the terminal itself (OSC 52), which works over SSH too.

use super::app::{Screen, Sheet, UiState};
use super::screens::environment::{checks, fix, guide};
use super::screens::race::grid;
use super::screens::system::view as system;
use super::words::{self, headline_in};
use crate::domain::units::{bytes, duration};
use crate::domain::{Change, FixPlan, Needs};
use crate::present::headline;
use crate::session::State;
use std::io::{self, Write};

/// What `y` copies.
pub(crate) fn text(state: &State, ui: &UiState) -> String {
    let mut lines = Vec::new();
    if matches!(ui.sheet, Some(Sheet::Fix(_) | Sheet::Guide)) {
        return match ui.sheet_plan(state) {
            Some(plan) => commands(plan),
            None => guide::rows(state).get(ui.guide_at).map_or_else(String::new, |row| row.step.advice.join("\n")),
        };
    }
    match ui.screen {
        Screen::Environment => {
            lines.push(words::environment(state, state.verdicts.get(ui.environment.verdict), ui).text);
            if let Some(finding) = checks::selected_finding(state, ui) {
                lines.push(format!("{}: {}: {}", finding.id, finding.status.word(), finding.summary));
            }
        }
        Screen::Race if state.grid.is_some() && state.lanes.is_empty() => {
            lines.extend(state.grid.iter().flat_map(|measured| grid::copied(measured, ui)));
        }
        Screen::Race | Screen::Report | Screen::Learn => {
            lines.push(headline_in(&headline::race(state, ui.clock_ns), u16::MAX, 1).text);
        }
        Screen::Tensors => {
            let tensor = ui.tensors.order.get(ui.tensors.at).map(|t| *t as usize);
            let run = ui.tensors.lane.and_then(|lane| ui.tensors.run(lane));
            let row = tensor.and_then(|t| run?.rows.get(t));
            let lane = ui.tensors.lane.and_then(|id| state.lanes.iter().find(|l| l.id == id));
            let model = lane.and_then(|lane| state.model_of(lane));
            if let Some((row, model)) = row.zip(model)
                && let Some(info) = model.tensors.get(row.tensor as usize)
            {
                lines.push(format!("{}\t{}\t{}", info.name, bytes(row.bytes), duration(row.busy_ns())));
            }
        }
        Screen::System => {
            if let Some(process) = system::selected(state, ui) {
                lines.push(format!("{}\t{}\t{}", process.pid, process.command, process.evidence));
            }
        }
    }
    lines.join("\n")
}

/// What somebody would type: the fix by its name where gds-top applies it, else its own commands.
fn commands(plan: &FixPlan) -> String {
    if plan.applies() {
        let sudo = if plan.needs == Needs::User { "" } else { "sudo " };
        return format!("{sudo}gds-top fix {}", plan.id);
    }
    let lines = plan.changes.iter().map(|change| match change {
        Change::Run { argv } => argv.iter().map(|word| fix::quoted(word)).collect::<Vec<_>>().join(" "),
        Change::WriteFile { path, after, .. } => {
            format!("printf %s {} | sudo tee {}", fix::quoted(after), fix::quoted(&path.display().to_string()))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Asks the terminal to take the text; one that does not know the request ignores it.
pub(crate) fn to_clipboard(text: &str) {
    let mut out = io::stdout();
    // A terminal that is gone takes nothing, and the loop notices by itself.
    let _ = write!(out, "\x1b]52;c;{}\x07", base64(text.as_bytes())).and_then(|()| out.flush());
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let part = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }
}
