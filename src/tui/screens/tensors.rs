//! Screen 3: what does each tensor cost?
//!
//! ```text
//!  headline: the fitted line, the slowest tensor
//! ╭ Map ───────────────────────────────────────────╮
//! ╭ table ──────────────────────╮╭ size and time ──╮
//! ```

use crate::analysis::TensorRow;
use crate::domain::units::{bytes, duration, rate, three_digits};
use crate::domain::{ModelInfo, Phase, Status};
use crate::session::{Lane, State};
use crate::tui::app::UiState;
use crate::tui::mouse::Spot;
use crate::tui::pen::{Pen, Run, cut, width};
use crate::tui::tensor_view::{Tensors, rate_of};
use crate::tui::theme::{Theme, marker};
use crate::tui::widgets::scatter::{self, Cloud};
use crate::tui::widgets::{bars, sheet};
use crate::tui::words::{Headline, cache_word};

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let lane = ui.tensors.lane.and_then(|id| state.lanes.iter().find(|l| l.id == id));
    let run = lane.and_then(|l| ui.tensors.run(l.id));
    let mut y = u16::from(airy);
    y += super::environment::headline(&mut pen.part(0, y, w, 3), &headline(state, lane, run), theme);
    y += u16::from(airy);
    let (Some(lane), Some(run)) = (lane, run) else { return };
    let Some(model) = state.model_of(lane) else { return };
    if h >= 16 {
        map(&mut pen.part(0, y, w, 4), run, ui, theme);
        y += 4;
    }
    let rest = h.saturating_sub(y);
    let mut title = vec![
        (format!("{} ", marker(&lane.engine)), theme.lane(&lane.engine)),
        (format!("{} ─ {}", lane.engine, cache_word(lane.cache)), theme.strong),
        (format!(" ─ by {}{}", ui.tensors.sort.word(), if ui.tensors.reversed { ", reversed" } else { "" }), theme.dim),
    ];
    if !ui.tensors.filter.is_empty() {
        title.push((format!(" ─ /{} ({})", ui.tensors.filter, ui.tensors.order.len()), theme.accent));
    }
    if ui.narrow {
        let mut pane = pen.part(0, y, w, rest);
        if ui.tensors.scatter {
            cost(&mut pane, state, lane, run, ui, theme);
        } else {
            table(&mut pane, &title, model, run, ui, theme);
        }
        return;
    }
    let left = w * 5 / 8;
    table(&mut pen.part(0, y, left, rest), &title, model, run, ui, theme);
    cost(&mut pen.part(left, y, w - left, rest), state, lane, run, ui, theme);
}

fn headline(state: &State, lane: Option<&Lane>, run: Option<&Tensors>) -> Headline {
    let (Some(lane), Some(run)) = (lane, run) else {
        let text = if state.running_lane().is_some() {
            "The first load is under way; its tensors are told when it has finished."
        } else if state.lanes.is_empty() {
            "No load yet, so no tensor has cost anything."
        } else {
            "No load has finished with its timeline, so nothing is known of single tensors."
        };
        return Headline { status: Status::Info, text: text.to_owned() };
    };
    let name =
        |row: &TensorRow| state.model_of(lane).and_then(|m| m.tensors.get(row.tensor as usize)).map(|t| t.name.clone());
    let slowest = run.slowest.and_then(|at| run.rows.get(at));
    let slowest = slowest.map_or_else(String::new, |row| {
        let name = name(row).unwrap_or_default();
        format!(" The slowest is {name}: {} for {}.", duration(row.busy_ns()), bytes(row.bytes))
    });
    let text = match &run.cost {
        Some(cost) if cost.fit.overhead_ns < (2.0 * cost.fit.errors().0).max(1e3) => format!(
            "With {}, no cost per tensor stands out of the noise: {} a slot (fit over {} tensors, R² {:.2}).{slowest}",
            lane.engine,
            rate(cost.fit.bytes_per_s),
            cost.fit.used,
            cost.fit.r2
        ),
        Some(cost) => format!(
            "With {}, a tensor costs {} and then {} a slot (fit over {} tensors, R² {:.2}).{slowest}",
            lane.engine,
            duration(cost.fit.overhead_ns.max(0.0) as u64),
            rate(cost.fit.bytes_per_s),
            cost.fit.used,
            cost.fit.r2
        ),
        None => format!("With {}, the times of tensors follow no line that could be fitted.{slowest}", lane.engine),
    };
    Headline { status: Status::Info, text }
}

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The style of a share of overhead, in the colours of the phases that stand for it.
fn share_style(share: f64, theme: &Theme) -> ratatui::style::Style {
    let phase = match share {
        s if s < 0.05 => Phase::Transfer,
        s if s < 0.2 => Phase::Copy,
        s if s < 0.4 => Phase::Submit,
        s if s < 0.6 => Phase::RegisterHandle,
        _ => Phase::RegisterBuffer,
    };
    theme.phase(phase).0
}

/// All tensors in file order: height and colour are the share of overhead.
fn map(pen: &mut Pen<'_>, run: &Tensors, ui: &UiState, theme: &Theme) {
    let title = [
        ("The model in file order".to_owned(), theme.strong),
        ("  share of time that moved no bytes, ▁ none █ all".to_owned(), theme.dim),
    ];
    let mut inside = pen.frame(&title, theme.faint);
    let (columns, count) = (usize::from(inside.width().saturating_sub(2)), run.rows.len());
    if columns == 0 || count == 0 {
        return;
    }
    let selected = ui.tensors.order.get(ui.tensors.at).map(|t| *t as usize);
    for column in 0..columns {
        let first = column * count / columns;
        let last = ((column + 1) * count / columns).max(first + 1).min(count);
        let overhead: u64 = run.overheads.get(first..last).unwrap_or_default().iter().sum();
        let busy: u64 = run.points.get(first..last).unwrap_or_default().iter().map(|(_, ns)| ns).sum();
        let (overhead, busy) = (overhead as f64, busy as f64);
        let x = column as u16 + 1;
        if busy > 0.0 {
            let share = overhead / busy;
            inside.cell(x, 0, HEIGHTS[((share * 8.0) as usize).min(7)], share_style(share, theme));
        } else {
            inside.cell(x, 0, '·', theme.faint);
        }
        if selected.is_some_and(|at| (first..last).contains(&at)) {
            inside.cell(x, 1, '▴', theme.accent);
        }
    }
}

fn table(pen: &mut Pen<'_>, title: &[Run], model: &ModelInfo, run: &Tensors, ui: &UiState, theme: &Theme) {
    let mut inside = pen.frame(title, theme.faint);
    let (w, h) = (inside.width(), usize::from(inside.height()));
    if ui.tensors.order.is_empty() {
        inside.text(2, 1, "No tensor's name contains this text.", theme.dim);
        return;
    }
    // shard, size, overhead, transfer, share, rate; then the bar
    let shard = if model.shards.len() > 1 && w >= 90 { 6 } else { 0 };
    let figures = [shard, 10, 11, 11, 6, 11];
    let bar = if w >= 96 { w / 6 } else { 0 };
    let name_room = w.saturating_sub(figures.iter().sum::<u16>() + bar + 3);
    let mut x = name_room + 1;
    inside.text(1, 0, "tensor", theme.faint_text());
    for (room, word) in figures.iter().zip(["shard", "size", "overhead", "moving", "ovh", "rate"]) {
        x += room;
        if *room > 0 {
            inside.right(x, 0, word, theme.faint_text());
        }
    }
    let visible = h.saturating_sub(1);
    let at = ui.tensors.at.min(ui.tensors.order.len() - 1);
    let first = at.saturating_sub(visible.saturating_sub(3)).min(ui.tensors.order.len().saturating_sub(visible));
    let longest = run.slowest.and_then(|at| run.points.get(at)).map_or(1, |(_, ns)| *ns);
    for (i, tensor) in ui.tensors.order.iter().skip(first).take(visible).enumerate() {
        let (Some(row), Some(info)) = (run.rows.get(*tensor as usize), model.tensors.get(*tensor as usize)) else {
            continue;
        };
        let y = i as u16 + 1;
        inside.hit(ui, y, 0, w, Spot::Tensor(first + i));
        inside.text(1, y, &shorten(&info.name, name_room.saturating_sub(1)), theme.text);
        let timed = row.busy_ns() > 0;
        let or_gap = |text: String| if timed { text } else { "–".to_owned() };
        let moving = row.busy_ns().saturating_sub(row.phases.overhead_ns());
        let cells = [
            (info.shard + 1).to_string(),
            bytes(row.bytes),
            or_gap(milliseconds(row.phases.overhead_ns())),
            or_gap(milliseconds(moving)),
            row.overhead_fraction().map_or_else(|| "–".to_owned(), |s| format!("{:.0} %", s * 100.0)),
            rate_of(row).map_or_else(|| "–".to_owned(), rate),
        ];
        let mut x = name_room + 1;
        for (column, (room, text)) in figures.iter().zip(&cells).enumerate() {
            x += room;
            if *room > 0 {
                let share = row.overhead_fraction().filter(|_| column == 4);
                inside.right(x, y, text, share.map_or(theme.text, |s| share_style(s, theme)));
            }
        }
        if bar > 3 {
            bars::phases(&mut inside.part(x + 2, y, bar - 2, 1), 0, 0, bar - 2, &row.phases, longest, theme);
        }
        if first + i == at {
            inside.restyle(0, y, name_room + 1, 1, theme.selected);
            inside.cell(0, y, '▸', theme.accent);
        }
    }
    let mut below = inside.part(0, 1, w, h.saturating_sub(1) as u16);
    sheet::scrollbar(&mut below, ui.tensors.order.len(), first, theme);
}

fn milliseconds(ns: u64) -> String {
    format!("{} ms", three_digits(ns as f64 / 1e6))
}

/// A name that fits: parts are left out from the front, then the `.weight` that nearly all share, because the rest tells tensors apart.
fn shorten(name: &str, room: u16) -> String {
    let fits = |text: &str| width(text) <= usize::from(room);
    if fits(name) {
        return name.to_owned();
    }
    for stem in [name, name.strip_suffix(".weight").unwrap_or(name)] {
        // The layer's number and what follows it must stay for the name to mean anything.
        let number = stem.split('.').position(|part| part.parse::<u32>().is_ok()).unwrap_or(usize::MAX);
        for skip in 1..=number.min(stem.split('.').count().saturating_sub(1)) {
            let rest = format!("…{}", stem.split('.').skip(skip).collect::<Vec<_>>().join("."));
            if fits(&rest) {
                return rest;
            }
        }
    }
    let count = name.chars().count();
    let tail: String = name.chars().skip(count.saturating_sub(usize::from(room).saturating_sub(1))).collect();
    cut(&format!("…{tail}"), room)
}

/// The scatter of size and time, with the fitted lines and where they cross.
fn cost(pen: &mut Pen<'_>, state: &State, lane: &Lane, run: &Tensors, ui: &UiState, theme: &Theme) {
    let rival = ui.tensors.rival.as_ref();
    let other = rival.and_then(|(id, _)| Some((state.lanes.iter().find(|l| l.id == *id)?, ui.tensors.run(*id)?)));
    let mut title = vec![
        ("Size and time  ".to_owned(), theme.strong),
        (format!("{} ", marker(&lane.engine)), theme.lane(&lane.engine)),
        (lane.engine.to_string(), theme.text),
    ];
    if let Some((other, _)) = other {
        title.push((format!("  {} ", marker(&other.engine)), theme.lane(&other.engine)));
        title.push((other.engine.to_string(), theme.text));
    }
    let mut inside = pen.frame(&title, theme.faint);
    let own_line = run.cost.as_ref().map(|cost| |size: u64| cost.fit.tensor_ns(size));
    let other_line = other.and_then(|(_, run)| run.cost.as_ref()).map(|cost| |size: u64| cost.fit.tensor_ns(size));
    let mut clouds = Vec::new();
    if let Some((other, run)) = other {
        let line = other_line.as_ref().map(|line| line as &dyn Fn(u64) -> f64);
        clouds.push(Cloud { points: &run.points, line, style: theme.lane(&other.engine) });
    }
    let line = own_line.as_ref().map(|line| line as &dyn Fn(u64) -> f64);
    clouds.push(Cloud { points: &run.points, line, style: theme.lane(&lane.engine) });
    let mark = rival.and_then(|(_, crossing)| *crossing).zip(other).map(|(crossing, (other, _))| {
        let guess = if crossing.extrapolated { ", outside what was measured" } else { "" };
        (crossing.bytes, format!("even with {} at {}{guess}", other.engine, bytes(crossing.bytes)))
    });
    scatter::draw(&mut inside, &clouds, mark, theme);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_still_tells_layer_and_part() {
        let name = "model.layers.24.mlp.down_proj.weight";
        assert_eq!(shorten(name, 40), name);
        assert_eq!(shorten(name, 30), "…24.mlp.down_proj.weight");
        assert_eq!(shorten(name, 18), "…24.mlp.down_proj");
        assert_eq!(width(&shorten(name, 9)), 9);
        assert_eq!(shorten(name, 0), "");
    }
}
