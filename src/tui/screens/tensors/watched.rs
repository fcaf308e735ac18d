//! Draws the tensors that a watched program read.

use super::state::Ui;
use crate::core::{Status, WatchReport, WatchedTensor};
use crate::present::watch;
use crate::text::{truncate_middle, truncate_name};
use crate::tui::clicks::Spot;
use crate::tui::pen::{Pen, Run};
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, headline, sheet};
use crate::tui::words::Headline;

/// Widths of the columns: complete, size, reads, read, time, rate.
const WIDTHS: [(usize, u16); 6] = [(1, 13), (3, 10), (4, 9), (5, 12), (6, 12), (7, 11)];
/// The index of the column with the number of reads, which a narrow table does not have.
const READS: usize = 4;
/// The indices of the columns with the time and the rate, which only a wide table has.
const TIMES: [usize; 2] = [6, 7];
/// Widths of the columns of a narrow table: the longest value, and a space. The names get the other columns.
const NARROW: [(usize, u16); 3] = [(1, 12), (3, 9), (5, 11)];
/// Minimum number of columns for the number of reads.
const MEDIUM: u16 = 70;
/// Minimum number of columns for the file of each tensor.
const WIDE: u16 = 96;
/// Minimum number of columns for the time and the rate.
const TIMED: u16 = 100;
/// Width that names keep next to a column with the file.
const NAME: u16 = 32;
/// Minimum and maximum width of the bar in columns.
const BAR: (u16, u16) = (14, 40);

/// The widths of the columns for the name, the file and the bar, and the columns with figures.
struct Layout {
    name: u16,
    file: u16,
    bar: u16,
    figures: Vec<(usize, u16)>,
}

impl Layout {
    fn new(w: u16, longest_name: u16, longest_file: Option<u16>) -> Self {
        let is_shown = |column: usize| match column {
            READS => w >= MEDIUM,
            column => w >= TIMED || !TIMES.contains(&column),
        };
        let widths: &[(usize, u16)] = if w >= MEDIUM { &WIDTHS } else { &NARROW };
        let figures: Vec<(usize, u16)> = widths.iter().copied().filter(|(column, _)| is_shown(*column)).collect();
        let rest = w.saturating_sub(figures.iter().map(|(_, width)| width).sum::<u16>() + 2);
        let file = longest_file.filter(|_| w >= WIDE).map_or(0, |longest| (longest + 2).min(rest / 2));
        let file = if rest - file >= (longest_name + 2).min(NAME) { file } else { 0 };
        let name = rest - file;
        let bar = name.saturating_sub(longest_name + 2).min(BAR.1);
        let bar = if bar >= BAR.0 { bar } else { 0 };
        Self { name: name - bar, file, bar, figures }
    }
}

pub(super) fn draw(pen: &mut Pen<'_>, report: &WatchReport, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = u16::from(h >= 26);
    let said = Headline { status: Status::Info, text: watch::tensor_summary(report) };
    let y = airy + headline::draw(&mut pen.part(0, airy, w, 3), &said, theme) + airy;
    if watch::tensor_count(report) == 0 {
        return;
    }
    let mut below = pen.part(0, y, w, h.saturating_sub(y));
    let mut inside = below.frame(&title(report, ui, theme), theme.faint);
    let shown = &ui.screen.watched;
    if shown.order.is_empty() {
        inside.text(2, 1, "No name of a tensor or a file contains this text.", theme.dim);
        return;
    }
    let w = inside.width();
    let files = report.files.iter().filter(|file| !file.tensors.is_empty());
    let longest = files.map(|file| crate::text::width(&file.path).min(500) as u16).max().unwrap_or(0);
    let layout = Layout::new(w, shown.longest_name, (shown.files > 1).then_some(longest));
    heads(&mut inside, &layout, ui, theme);
    // Without a column for the file, the last line has the file of the selected tensor.
    let has_file_line = shown.files > 1 && layout.file == 0;
    let visible = usize::from(inside.height().saturating_sub(1 + u16::from(has_file_line)));
    let at = ui.screen.at.min(shown.order.len() - 1);
    let first = at.saturating_sub(visible.saturating_sub(3)).min(shown.order.len().saturating_sub(visible));
    for (line, number) in (first..shown.order.len()).take(visible).enumerate() {
        let Some((file, tensor)) = shown.tensor(report, number) else { continue };
        let y = line as u16 + 1;
        inside.hit(y, 0, w, Spot::Row(number));
        row(&mut inside.part(0, y, w, 1), &watch::tensor_cells(file, tensor), tensor, &layout, theme);
        if number == at {
            inside.restyle(0, y, w, 1, theme.selected);
            inside.cell(0, y, '▸', theme.accent);
        }
    }
    if let Some((file, _)) = shown.tensor(report, at).filter(|_| has_file_line) {
        let (y, room) = (inside.height().saturating_sub(1), w.saturating_sub(2));
        inside.fit(1, y, room, &truncate_middle(&file.path, room.into()), theme.dim);
    }
    sheet::scrollbar(&mut inside.part(0, 1, w, visible as u16), shown.order.len(), first, theme);
}

fn title(report: &WatchReport, ui: &Ui<'_>, theme: &Theme) -> Vec<Run> {
    let shown = &ui.screen.watched;
    let reversed = if ui.screen.reversed { ", reversed" } else { "" };
    let mut title =
        vec![("Tensors".to_owned(), theme.strong), (format!(" ─ by {}{reversed}", shown.word()), theme.dim)];
    if ui.ctx.filtering || !ui.screen.filter.is_empty() {
        let (found, all) = (shown.order.len(), watch::tensor_count(report));
        title.push((format!(" ─ /{} ({found} of {all})", ui.screen.filter), theme.accent));
    }
    if let Some(file) = report.files.iter().find(|file| !file.tensors.is_empty()).filter(|_| shown.files == 1) {
        title.push((format!(" ─ {}", file.path), theme.dim));
    }
    title
}

fn heads(inside: &mut Pen<'_>, layout: &Layout, ui: &Ui<'_>, theme: &Theme) {
    let chosen = ui.screen.watched.sort;
    let head = |column: usize| {
        let mark = match (column == chosen, ui.screen.reversed) {
            (false, _) => "",
            (true, false) => "▾",
            (true, true) => "▴",
        };
        let style = if column == chosen { theme.strong } else { theme.faint_text() };
        (format!("{}{mark}", watch::TENSOR_HEADS[column]), style)
    };
    let (text, style) = head(0);
    inside.hit(0, 0, layout.name, Spot::Column(0));
    inside.fit(1, 0, layout.name, &text, style);
    let mut x = layout.name;
    if layout.file > 0 {
        let (text, style) = head(watch::TENSOR_FILE);
        inside.hit(0, x + 1, layout.file, Spot::Column(watch::TENSOR_FILE));
        inside.fit(x + 1, 0, layout.file, &text, style);
        x += layout.file;
    }
    for (column, room) in &layout.figures {
        let (text, style) = head(*column);
        inside.hit(0, x, *room, Spot::Column(*column));
        x += room;
        inside.right(x, 0, &text, style);
    }
    if layout.bar > 0 {
        inside.fit(x + 2, 0, layout.bar - 2, "part that was read", theme.faint_text());
    }
}

fn row(
    pen: &mut Pen<'_>,
    cells: &[String; watch::TENSOR_HEADS.len()],
    tensor: &WatchedTensor,
    layout: &Layout,
    theme: &Theme,
) {
    let room = layout.name.saturating_sub(2);
    pen.fit(1, 0, room, &truncate_name(&cells[0], room.into()), theme.text);
    let mut x = layout.name;
    if layout.file > 0 {
        let room = layout.file - 1;
        pen.fit(x + 1, 0, room, &truncate_middle(&cells[watch::TENSOR_FILE], room.into()), theme.text);
        x += layout.file;
    }
    for (column, room) in &layout.figures {
        x += room;
        let (text, style) = match column {
            1 => {
                let status = match watch::is_complete_tensor(tensor) {
                    Some(true) => Status::Pass,
                    Some(false) => Status::Warn,
                    None => Status::Na,
                };
                (format!("{} {}", status.mark(), cells[1]), theme.status(status))
            }
            column => (cells[*column].clone(), theme.text),
        };
        pen.right(x, 0, &text, style);
    }
    if layout.bar > 2 {
        let (share, is_bound) = watch::read_share(tensor);
        let fill = if is_bound { '▒' } else { '█' };
        bars::bar(pen, x + 2, 0, layout.bar - 2, share, (fill, theme.series(0)), ('░', theme.faint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_fit_and_a_wide_table_has_file_and_bar() {
        for w in 38..240 {
            for longest_file in [None, Some(30), Some(400)] {
                let layout = Layout::new(w, 38, longest_file);
                let figures: u16 = layout.figures.iter().map(|(_, width)| width).sum();
                assert!(layout.name + layout.file + layout.bar + figures < w, "{w}");
                assert!(w < 58 || layout.name >= 20, "{w}: {}", layout.name);
            }
        }
        // A name with a number and three further parts fits into a small terminal.
        let room = Layout::new(58, 38, Some(60)).name - 2;
        assert_eq!(truncate_name("model.layers.10.self_attn.q_proj.weight", room.into()), "….10.….q_proj.weight");
        let wide = Layout::new(198, 38, Some(60));
        assert_eq!((wide.file, wide.bar), (62, 27));
        let columns = |w, longest_file| {
            let layout = Layout::new(w, 38, longest_file);
            (layout.figures.len(), layout.file > 0)
        };
        let shown = [58, 78, 98, 118, 198].map(|w| columns(w, Some(60)));
        assert_eq!(shown, [(3, false), (4, false), (4, false), (6, false), (6, true)]);
    }
}
