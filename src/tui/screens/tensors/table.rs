//! The table of tensors with the columns that fit. Each row has a bar with the phases of one or two engines.

use super::state::Ui;
use crate::analysis::TensorRow;
use crate::core::units::{bytes, duration, percent, rate};
use crate::core::{ModelInfo, Phase, PhaseTimes, Status};
use crate::session::Lane;
use crate::tui::clicks::Spot;
use crate::tui::jobs::tensor_rows::TensorRows;
use crate::tui::jobs::tensor_rows::{Sort, difference, rate_of};
use crate::tui::pen::{Pen, Run, cut, width};
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, sheet};
use crate::tui::words::short_engine;
use ratatui::style::Style;

/// The run that is drawn, and the run for comparison.
pub(super) struct Shown<'a> {
    pub(super) model: &'a ModelInfo,
    pub(super) lane: &'a Lane,
    pub(super) run: &'a TensorRows,
    pub(super) other: Option<(&'a Lane, &'a TensorRows)>,
}

/// A column with figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Shard,
    Size,
    Time,
    Overhead,
    Share,
    Moving,
    Rate,
    Rival,
    Difference,
}

impl Column {
    /// The heading, the width, the sort key, and the rank by which columns are dropped.
    const fn about(self) -> (&'static str, u16, Option<Sort>, u8) {
        match self {
            Self::Shard => ("shard", 6, Some(Sort::File), 7),
            Self::Size => ("size", 9, Some(Sort::Size), 0),
            Self::Time => ("time", 8, Some(Sort::Time), 1),
            Self::Overhead => ("overhead", 9, Some(Sort::Overhead), 4),
            Self::Moving => ("moving", 9, Some(Sort::Moving), 6),
            Self::Share => ("overhead", 10, Some(Sort::Share), 3),
            Self::Rate => ("rate", 10, Some(Sort::Rate), 5),
            Self::Rival => ("", 9, None, 8),
            Self::Difference => ("diff", 10, Some(Sort::Difference), 2),
        }
    }
}

const COLUMNS: [Column; 9] = [
    Column::Shard,
    Column::Size,
    Column::Time,
    Column::Overhead,
    Column::Share,
    Column::Moving,
    Column::Rate,
    Column::Rival,
    Column::Difference,
];

/// Minimum width of a useful name in columns.
const LEAST_NAME: u16 = 18;
/// Minimum and maximum width of a bar in columns. A narrower bar does not distinguish phases, and a wider bar shows
/// nothing more.
const BAR: (u16, u16) = (12, 34);

/// The columns that fit, by rank, and the widths of the name and of the bar.
fn layout(w: u16, shards: bool, comparing: bool, longest: u16) -> (Vec<Column>, u16, u16) {
    let mut by_rank: Vec<Column> = COLUMNS.into_iter().filter(|c| *c != Column::Shard || shards).collect();
    by_rank.retain(|c| comparing || !matches!(c, Column::Rival | Column::Difference));
    by_rank.sort_by_key(|c| c.about().3);
    let mut left = w.saturating_sub(LEAST_NAME + 3);
    let mut chosen = Vec::new();
    for column in by_rank {
        let room = column.about().1;
        // The bar shows overhead and transfer. So it has priority over their columns, which are only in wide tables.
        let bar = if column.about().3 >= 4 { BAR.0 } else { 0 };
        if room + bar <= left {
            left -= room;
            chosen.push(column);
        }
    }
    let mut bar = if left >= BAR.0 { BAR.0 } else { 0 };
    left -= bar;
    let name = LEAST_NAME + left.min(longest.saturating_add(2).saturating_sub(LEAST_NAME));
    if bar > 0 {
        bar = (bar + LEAST_NAME + left - name).min(BAR.1);
    }
    let name = w.saturating_sub(3 + bar + chosen.iter().map(|c| c.about().1).sum::<u16>());
    (COLUMNS.into_iter().filter(|c| chosen.contains(c)).collect(), name, bar)
}

fn title(shown: &Shown<'_>, ui: &Ui<'_>, w: u16, theme: &Theme) -> Vec<Run> {
    let lane = shown.lane;
    let room = if w < 80 { 18 } else { 24 };
    let mut title = vec![
        (format!("{} ", theme.marker(&lane.engine)), theme.lane(&lane.engine)),
        (format!("{} ─ {}", short_engine(&lane.engine, room), lane.cache), theme.strong),
    ];
    if let Some(run) = lane.result.as_deref() {
        title.push((format!(" ─ {}", duration(run.wall_ns)), theme.dim));
    }
    if let Some((other, _)) = shown.other {
        title.push((" against ".to_owned(), theme.dim));
        title.push((format!("{} ", theme.marker(&other.engine)), theme.lane(&other.engine)));
        title.push((short_engine(&other.engine, room), theme.text));
    }
    let order = if ui.screen.reversed { ", reversed" } else { "" };
    title.push((format!(" ─ by {}{order}", ui.screen.sort.word()), theme.dim));
    if ui.ctx.filtering || !ui.screen.filter.is_empty() {
        let (shown, all) = (ui.screen.order.len(), shown.run.rows.len());
        title.push((format!(" ─ /{} ({shown} of {all})", ui.screen.filter), theme.accent));
    }
    title
}

/// Draws the table.
pub(super) fn draw(pen: &mut Pen<'_>, shown: &Shown<'_>, ui: &Ui<'_>, theme: &Theme) {
    let title = title(shown, ui, pen.width(), theme);
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), usize::from(inside.height()));
    if ui.screen.order.is_empty() {
        let nothing = ui.screen.filter.is_empty();
        let said = if nothing { "Nothing was loaded by it." } else { "No tensor's name contains this text." };
        inside.text(2, 1, said, theme.dim);
        return;
    }
    let comparing = shown.other.is_some();
    let (columns, name, bar) = layout(w, shown.model.shards.len() > 1, comparing, ui.screen.longest_name());
    heads(&mut inside, shown, ui, (&columns, name, bar), theme);
    let mut taken = 1;
    if bar > 0 && h >= 16 {
        let runs = std::iter::once(shown.run).chain(shown.other.map(|(_, run)| run));
        let times: Vec<PhaseTimes> = runs.map(|run| run.phases).collect();
        let legend = bars::phase_legend(&times, w.saturating_sub(2), theme);
        taken = 2 + legend.len();
        for (y, line) in (h - legend.len()..).zip(&legend) {
            inside.runs(1, y as u16, line);
        }
    }
    let visible = h.saturating_sub(taken);
    let at = ui.screen.at.min(ui.screen.order.len() - 1);
    let first = at.saturating_sub(visible.saturating_sub(3)).min(ui.screen.order.len().saturating_sub(visible));
    let room = name.saturating_sub(1);
    let seen = || ui.screen.order.iter().skip(first).take(visible);
    // If one name fits only without its ending, the ending is removed from all shortened names, so that they look
    // alike.
    let names = seen().filter_map(|tensor| shown.model.tensors.get(*tensor as usize));
    let bare = names.map(|info| info.name.as_str()).any(|name| !shorten(name, room, false).1);
    for (i, tensor) in seen().enumerate() {
        let index = *tensor as usize;
        let (Some(row), Some(info)) = (shown.run.rows.get(index), shown.model.tensors.get(index)) else {
            continue;
        };
        let y = i as u16 + 1;
        inside.hit(y, 0, w, Spot::Row(first + i));
        inside.text(1, y, &shorten(&info.name, room, bare).0, theme.text);
        let theirs = shown.other.and_then(|(_, run)| run.rows.get(index));
        let mut x = name + 1;
        for column in &columns {
            x += column.about().1;
            let (text, style) = cell(*column, row, theirs, info.shard, theme);
            inside.right(x, y, &text, style);
        }
        if bar > 0 {
            row_bar(&mut inside.part(x + 2, y, bar - 2, 1), row, theirs, theme);
        }
        if first + i == at {
            inside.restyle(0, y, x, 1, theme.selected);
            inside.cell(0, y, '▸', theme.accent);
        }
    }
    let mut below = inside.part(0, 1, w, visible as u16);
    sheet::scrollbar(&mut below, ui.screen.order.len(), first, theme);
}

fn heads(
    inside: &mut Pen<'_>,
    shown: &Shown<'_>,
    ui: &Ui<'_>,
    (columns, name, bar): (&[Column], u16, u16),
    theme: &Theme,
) {
    let chosen = ui.screen.sort;
    let mark = |sort: Option<Sort>| match sort {
        Some(sort) if sort == chosen => {
            if ui.screen.reversed {
                "▴"
            } else {
                "▾"
            }
        }
        _ => "",
    };
    let style = |sort: Option<Sort>| if sort == Some(chosen) { theme.strong } else { theme.faint_text() };
    inside.hit(0, 0, name, Spot::Column(Sort::Name as usize));
    let thing = crate::present::tensors::thing(&shown.lane.engine);
    inside.text(1, 0, &format!("{thing}{}", mark(Some(Sort::Name))), style(Some(Sort::Name)));
    let mut x = name + 1;
    for column in columns {
        let (head, room, sort, _) = column.about();
        x += room;
        if let Some(sort) = sort {
            inside.hit(0, x - room, room, Spot::Column(sort as usize));
        }
        let head = match (column, shown.other) {
            (Column::Rival, Some((other, _))) => short_engine(&other.engine, room - 1),
            (Column::Difference, Some((other, _))) => {
                let mark = mark(sort);
                format!("vs {}{mark}", short_engine(&other.engine, room - 4 - width(mark) as u16))
            }
            (Column::Share, _) if columns.contains(&Column::Overhead) => format!("in %{}", mark(sort)),
            _ => format!("{head}{}", mark(sort)),
        };
        inside.right(x, 0, &head, style(sort));
    }
    if bar > 0 {
        let x = x + 2;
        match shown.other {
            Some((other, _)) => {
                let (upper, lower) = if split(theme) { ("left ", "  right ") } else { ("▀ ", "  ▄ ") };
                let ours = (theme.marker(&shown.lane.engine).to_string(), theme.lane(&shown.lane.engine));
                let theirs = (theme.marker(&other.engine).to_string(), theme.lane(&other.engine));
                let dim = theme.dim;
                let words = [(upper.to_owned(), dim), ours, (lower.to_owned(), dim), theirs];
                let end = inside.runs(x, 0, &words);
                if end + 10 <= x + bar - 2 {
                    inside.text(end, 0, "  by phase", theme.faint_text());
                }
            }
            None => {
                let words = ["where its time went", "time by phase", "phases"];
                let fits = words.into_iter().find(|words| words.len() <= usize::from(bar - 2));
                inside.fit(x, 0, bar - 2, fits.unwrap_or("phases"), theme.faint_text());
            }
        }
    }
}

/// Whether the bars of two engines are side by side. Without colour they cannot share a cell.
fn split(theme: &Theme) -> bool {
    theme.mono || theme.ascii
}

/// Draws the phases of a tensor. With one engine, the bar fills the column. With two engines, the slower one fills it
/// and the other has the same scale.
fn row_bar(pen: &mut Pen<'_>, row: &TensorRow, theirs: Option<&TensorRow>, theme: &Theme) {
    let columns = pen.width();
    let Some(theirs) = theirs else {
        bars::phases(pen, 0, 0, columns, &row.phases, row.phases.total_ns(), theme);
        return;
    };
    let scale = row.phases.total_ns().max(theirs.phases.total_ns());
    if split(theme) {
        let half = columns / 2;
        bars::fills(&mut pen.part(0, 0, half, 1), &row.phases, scale, theme);
        bars::fills(&mut pen.part(columns - half, 0, half, 1), &theirs.phases, scale, theme);
    } else {
        bars::pair(pen, &row.phases, &theirs.phases, scale, theme);
    }
}

fn cell(column: Column, row: &TensorRow, theirs: Option<&TensorRow>, shard: u32, theme: &Theme) -> (String, Style) {
    let busy = row.busy_ns();
    let or_gap = |ns: u64| {
        if busy > 0 && ns == 0 {
            "0".to_owned()
        } else if busy > 0 {
            duration(ns)
        } else {
            "–".to_owned()
        }
    };
    let theirs_ns = theirs.map_or(0, TensorRow::busy_ns);
    let text = match column {
        Column::Shard => (shard + 1).to_string(),
        Column::Size => bytes(row.bytes),
        Column::Time => or_gap(busy),
        Column::Overhead => or_gap(row.phases.overhead_ns()),
        Column::Moving => or_gap(busy.saturating_sub(row.phases.overhead_ns())),
        Column::Share => {
            let share = row.overhead_fraction();
            let text = share.map_or_else(|| "–".to_owned(), percent);
            return (text, share.map_or(theme.dim, |s| share_style(s, theme)));
        }
        Column::Rate => rate_of(row).map_or_else(|| "–".to_owned(), rate),
        Column::Rival => {
            if theirs_ns > 0 {
                duration(theirs_ns)
            } else {
                "–".to_owned()
            }
        }
        Column::Difference => {
            return match difference(busy, theirs_ns) {
                None => ("–".to_owned(), theme.dim),
                Some(ns) => {
                    let (sign, status) = if ns > 0 { ("+", Status::Warn) } else { ("−", Status::Pass) };
                    (format!("{sign}{}", duration(ns.unsigned_abs())), theme.status(status))
                }
            };
        }
    };
    (text, if column == Column::Time { theme.strong } else { theme.text })
}

/// Shortens a name to `room` columns. Parts are removed from the start, then the ending `.weight`, because nearly all
/// names have it. With `bare` the ending is removed first. The second value is whether the ending was kept.
pub(super) fn shorten(name: &str, room: u16, bare: bool) -> (String, bool) {
    let fits = |text: &str| width(text) <= usize::from(room);
    if fits(name) {
        return (name.to_owned(), true);
    }
    let without = name.strip_suffix(".weight").unwrap_or(name);
    for (stem, complete) in [(name, true), (without, without.len() == name.len())].into_iter().skip(usize::from(bare)) {
        // The number of the layer and everything after it must be kept, because they identify the tensor.
        let number = stem.split('.').position(|part| part.parse::<u32>().is_ok()).unwrap_or(usize::MAX);
        // More than the ending must be kept.
        let kept = if stem.ends_with(".weight") { 2 } else { 1 };
        let last = number.min(stem.split('.').count().saturating_sub(kept));
        // If a name has a layer number, the shortened name begins with it, so that the names look alike.
        for skip in if number == last { last..=last } else { 1..=last } {
            let rest = format!("…{}", stem.split('.').skip(skip).collect::<Vec<_>>().join("."));
            if fits(&rest) {
                return (rest, complete);
            }
        }
    }
    let count = name.chars().count();
    let tail: String = name.chars().skip(count.saturating_sub(usize::from(room).saturating_sub(1))).collect();
    (cut(&format!("…{tail}"), room), true)
}

/// The style of a share of overhead, in the colours of the phases.
pub(super) fn share_style(share: f64, theme: &Theme) -> ratatui::style::Style {
    let phase = match share {
        s if s < 0.05 => Phase::Transfer,
        s if s < 0.2 => Phase::Copy,
        s if s < 0.4 => Phase::Submit,
        s if s < 0.6 => Phase::RegisterHandle,
        _ => Phase::RegisterBuffer,
    };
    theme.phase(phase).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_still_has_layer_and_part() {
        let name = "model.layers.24.mlp.down_proj.weight";
        let short = |name: &str, room| shorten(name, room, false);
        assert_eq!(short(name, 40), (name.to_owned(), true));
        assert_eq!(short(name, 30), ("…24.mlp.down_proj.weight".to_owned(), true));
        assert_eq!(short(name, 18), ("…24.mlp.down_proj".to_owned(), false));
        assert_eq!(shorten(name, 30, true), ("…24.mlp.down_proj".to_owned(), false));
        assert_eq!(width(&short(name, 9).0), 9);
        assert_eq!(short("model.embed_tokens.weight", 16).0, "…embed_tokens");
        assert_eq!(short(name, 0).0, "");
    }

    #[test]
    fn the_columns_fill_the_width_and_no_more() {
        for w in 20..240 {
            for (shards, comparing) in [(false, false), (false, true), (true, false), (true, true)] {
                let (columns, name, bar) = layout(w, shards, comparing, 38);
                let figures: u16 = columns.iter().map(|c| c.about().1).sum();
                assert!(name + bar + figures + 3 <= w.max(3), "{w}: {columns:?} {name} {bar}");
                assert!(w < 60 || (name >= LEAST_NAME && columns.contains(&Column::Size)), "{w}: {columns:?} {name}");
                assert!(w < 60 || !comparing || columns.contains(&Column::Difference), "{w}: {columns:?}");
            }
        }
        let (columns, name, bar) = layout(132, true, true, 38);
        assert_eq!(columns.len(), COLUMNS.len());
        assert!(name >= 24 && bar >= BAR.0, "{name} {bar}");
    }
}
