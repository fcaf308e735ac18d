//! Draws the tensors that a watched program read.

use super::state::Ui;
use crate::core::{Status, WatchReport};
use crate::present::watch;
use crate::text::truncate_name;
use crate::tui::clicks::Spot;
use crate::tui::pen::Pen;
use crate::tui::theme::Theme;
use crate::tui::widgets::{headline, sheet};
use crate::tui::words::Headline;

/// Width of each column of numbers.
const NUMBER: u16 = 12;

pub(super) fn draw(pen: &mut Pen<'_>, report: &WatchReport, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = u16::from(h >= 26);
    let said = Headline { status: Status::Info, text: watch::tensor_summary(report) };
    let y = airy + headline::draw(&mut pen.part(0, airy, w, 3), &said, theme) + airy;
    let all = watch::tensor_count(report);
    if all == 0 {
        return;
    }
    let mut below = pen.part(0, y, w, h.saturating_sub(y));
    let mut inside = below.frame(&[("Tensors by offset".to_owned(), theme.strong)], theme.faint);
    let (w, visible) = (inside.width(), usize::from(inside.height().saturating_sub(1)));
    let [name, others @ ..] = watch::TENSOR_HEADS;
    let numbers = w.saturating_sub(NUMBER * others.len() as u16 + 1);
    let end = |column: usize| numbers + NUMBER * (column as u16 + 1);
    inside.fit(1, 0, numbers, name, theme.faint_text());
    others.iter().enumerate().for_each(|(column, head)| inside.right(end(column), 0, head, theme.faint_text()));
    let at = ui.screen.at.min(all - 1);
    let first = at.saturating_sub(visible.saturating_sub(3)).min(all.saturating_sub(visible));
    for (line, [name, others @ ..]) in watch::tensor_rows(report, first, visible).enumerate() {
        let y = line as u16 + 1;
        inside.hit(y, 0, w, Spot::Row(first + line));
        let room = numbers.saturating_sub(1);
        inside.fit(1, y, room, &truncate_name(&name, room.into()), theme.text);
        others.iter().enumerate().for_each(|(column, text)| inside.right(end(column), y, text, theme.text));
        if first + line == at {
            inside.restyle(0, y, w, 1, theme.selected);
            inside.cell(0, y, '▸', theme.accent);
        }
    }
    sheet::scrollbar(&mut inside.part(0, 1, w, visible as u16), all, first, theme);
}
