//! One tensor: its type and location, its phases with one or two engines, and its reads.

use super::state::Ui;
use super::table::{Shown, shorten};
use crate::analysis::TensorRow;
use crate::core::units::{bytes, count, duration, rate};
use crate::core::{PHASES, Phase};
use crate::present::phases::title;
use crate::session::Lane;
use crate::tui::jobs::tensor_rows::rate_of;
use crate::tui::pen::{Pen, Run, width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::bars;
use crate::tui::words::short_engine;

/// Width in columns of the phase names.
const LABEL: u16 = 16;

/// Draws the selected tensor.
pub(super) fn draw(pen: &mut Pen<'_>, shown: &Shown<'_>, ui: &Ui<'_>, theme: &Theme) {
    let (Some(tensor), Some(detail)) = (ui.screen.tensor(), &ui.screen.detail) else { return };
    let index = tensor as usize;
    let (Some(row), Some(info)) = (shown.run.rows.get(index), shown.model.tensors.get(index)) else { return };
    let room = pen.width().saturating_sub(6);
    let title = [(shorten(&info.name, room, false).0, theme.strong)];
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), inside.height());
    let aligned = if row.aligned { "aligned for direct reads" } else { "not a multiple of 4 KiB" };
    let shape: Vec<String> = info.shape.iter().map(ToString::to_string).collect();
    let place = format!("shard {}, offset {}", info.shard + 1, count(info.file_offset));
    let complete = format!("{place} ({aligned})");
    // If one line is too short for both texts, there are two lines.
    let (place, aligned) =
        if width(&complete) + 2 <= usize::from(w) { (complete, None) } else { (place, Some(aligned)) };
    let mut about = vec![
        format!("{} [{}], {}", info.dtype, shape.join(", "), bytes(info.bytes)),
        place,
        format!("line {} of {} by {}", ui.screen.at + 1, ui.screen.order.len(), ui.screen.sort.word()),
    ];
    if let Some(aligned) = aligned.filter(|_| h >= 16) {
        about.insert(2, aligned.to_owned());
    }
    let mut y = 0;
    for line in about.iter().take(if h >= 14 { about.len() } else { 2 }) {
        inside.fit(1, y, w.saturating_sub(2), line, if y == 0 { theme.text } else { theme.dim });
        y += 1;
    }
    y += u16::from(h >= 18);
    let theirs = shown.other.and_then(|(lane, run)| Some((lane, run.rows.get(index)?)));
    y = phases(&mut inside, y, (shown.lane, row), theirs, theme);
    y += u16::from(h >= 18);
    reads(&mut inside.part(0, y, w, h.saturating_sub(y)), row, &detail.reads, theme);
}

/// Draws the phases as a table with one column per engine. Returns the row after it.
fn phases(
    pen: &mut Pen<'_>,
    top: u16,
    ours: (&Lane, &TensorRow),
    theirs: Option<(&Lane, &TensorRow)>,
    theme: &Theme,
) -> u16 {
    let runs: Vec<(&Lane, &TensorRow)> = std::iter::once(ours).chain(theirs).collect();
    let each = pen.width().saturating_sub(LABEL + 2) / runs.len() as u16;
    let scale = runs.iter().map(|(_, row)| row.busy_ns()).max().unwrap_or(0);
    let mut y = top;
    let mut line = |pen: &mut Pen<'_>, label: &str, cells: &[String], style| {
        pen.text(1, y, label, theme.dim);
        for (i, text) in cells.iter().enumerate() {
            pen.right(1 + LABEL + (i as u16 * each) + each.min(10), y, text, style);
        }
        y += 1;
        y - 1
    };
    let head = line(pen, "", &[], theme.dim);
    for (i, (lane, _)) in runs.iter().enumerate() {
        let x = 1 + LABEL + i as u16 * each;
        let name = short_engine(&lane.engine, each.saturating_sub(3));
        let mark: Run = (format!("{} ", theme.marker(&lane.engine)), theme.lane(&lane.engine));
        pen.runs(x, head, &[mark, (name, theme.strong)]);
    }
    let cells = |value: &dyn Fn(&TensorRow) -> Option<String>| -> Vec<String> {
        runs.iter().map(|(_, row)| value(row).unwrap_or_else(|| "–".to_owned())).collect()
    };
    let timed = |row: &TensorRow| (row.busy_ns() > 0).then(|| duration(row.busy_ns()));
    line(pen, "of the clock", &cells(&timed), theme.strong);
    line(pen, "rate", &cells(&|row| rate_of(row).map(rate)), theme.text);
    for phase in PHASES {
        let ns: Vec<u64> = runs.iter().map(|(_, row)| row.phases.get(phase)).collect();
        if phase == Phase::Idle || ns.iter().all(|ns| *ns == 0) {
            continue;
        }
        let texts: Vec<String> = ns.iter().map(|ns| if *ns > 0 { duration(*ns) } else { "–".to_owned() }).collect();
        let y = line(pen, title(phase), &texts, theme.text);
        let room = each.saturating_sub(13);
        let (style, fill) = theme.phase(phase);
        for (i, ns) in ns.iter().enumerate().filter(|_| room >= 4 && scale > 0) {
            let x = 1 + LABEL + i as u16 * each + 11;
            let share = *ns as f64 / scale as f64;
            bars::bar(pen, x, y, room, share, (fill, style), (' ', theme.faint));
        }
    }
    y
}

/// Draws the spans that moved the bytes, in the order of their start.
fn reads(pen: &mut Pen<'_>, row: &TensorRow, reads: &[crate::core::Span], theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    if h < 2 {
        return;
    }
    if reads.is_empty() {
        pen.fit(1, 0, w.saturating_sub(2), "No span of its reads was recorded.", theme.dim);
        return;
    }
    let pieces = if reads.len() == 1 { "one piece".to_owned() } else { format!("{} pieces", reads.len()) };
    let when = match (row.start_ns, row.end_ns) {
        (Some(start), Some(end)) => format!(", from {} to {} of the load", duration(start), duration(end)),
        _ => String::new(),
    };
    let moved = wrap(&format!("moved in {pieces}{when}"), w.saturating_sub(2));
    for (y, line) in moved.iter().take(2).enumerate() {
        pen.text(1, y as u16, line, theme.text);
    }
    let columns: [(&str, u16); 6] = [("", 9), ("slot", 5), ("took", 10), ("bytes", 10), ("rate", 11), ("start", 10)];
    let fitting = columns.iter().scan(2_u16, |sum, (_, room)| {
        *sum += room;
        Some(*sum)
    });
    let shown = fitting.take_while(|sum| *sum <= w).count();
    let top = moved.len().clamp(1, 2) as u16;
    if h < top + 2 || (reads.len() > 1 && h < top + 3) {
        return;
    }
    let mut y = top;
    let mut line = |pen: &mut Pen<'_>, cells: &[String], style| {
        let mut x = 1;
        for (i, ((_, room), text)) in columns.iter().zip(cells).take(shown).enumerate() {
            x += room;
            if i == 0 {
                pen.text(1, y, text, style);
            } else {
                pen.right(x, y, text, style);
            }
        }
        y += 1;
    };
    let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    line(pen, &heads, theme.faint_text());
    let room = usize::from(h.saturating_sub(top + 1));
    let complete = if reads.len() > room { room.saturating_sub(1) } else { reads.len() };
    for read in reads.iter().take(complete) {
        let speed = crate::core::units::bytes_per_s(read.bytes, read.duration_ns());
        let cells = [
            title(read.phase).to_owned(),
            read.slot.to_string(),
            duration(read.duration_ns()),
            bytes(read.bytes),
            speed.map_or_else(|| "–".to_owned(), rate),
            duration(read.start_ns),
        ];
        line(pen, &cells, theme.text);
    }
    if complete < reads.len() {
        pen.text(1, h - 1, &format!("and {} more", reads.len() - complete), theme.dim);
    }
}
