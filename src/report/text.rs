//! Renders sections as text for a terminal or a pipe: first the answers, then the figures, then the advice.

use super::section::{Block, Cells, HeatTable, Item, Section};
use super::sections::{Extent, answers, sections};
use crate::core::Status;
use crate::present::{Answer, SessionAnalysis};
use crate::session::State;
use crate::text::{indented, sanitise_line, table_lines, width};

/// The result as text with up to `width` columns, unless a word is longer. With `colour`, status marks have ANSI
/// colours.
#[must_use]
pub fn text(state: &State, width: u16, colour: bool) -> String {
    written(state, Extent::Terminal, width, colour)
}

/// Like [`text`], but with the machine and the commands that repeat the session.
#[must_use]
pub fn full_text(state: &State, width: u16, colour: bool) -> String {
    written(state, Extent::Text, width, colour)
}

/// Only the answers, the tables and the advice.
#[must_use]
pub fn brief(state: &State, width: u16, colour: bool) -> String {
    written(state, Extent::Brief, width, colour)
}

fn written(state: &State, extent: Extent, width: u16, colour: bool) -> String {
    let analysis = SessionAnalysis::new(state);
    lines(&answers(state), &sections(&analysis, extent), width, colour)
}

/// Answers and sections as text.
#[must_use]
pub(crate) fn lines(answers: &[Answer], sections: &[Section], width: u16, colour: bool) -> String {
    let mut text = Text { out: String::new(), width: usize::from(width).clamp(40, 240), colour };
    for answer in answers {
        text.marked(answer.status, &answer.text());
    }
    for section in sections {
        text.section(section);
    }
    text.out
}

/// Text in the colour of a status.
#[must_use]
pub fn paint(colour: bool, status: Status, text: &str) -> String {
    let code = match status {
        Status::Pass => "32",
        Status::Info => "34",
        Status::Warn => "33",
        Status::Fail => "31",
        Status::Na => "2",
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

struct Text {
    out: String,
    width: usize,
    colour: bool,
}

impl Text {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn section(&mut self, section: &Section) {
        if !self.out.is_empty() {
            self.line("");
        }
        self.line(&sanitise_line(&section.title));
        for text in &section.text {
            self.wrapped("", text);
        }
        for block in &section.blocks {
            match block {
                Block::Table(cells) => self.table(cells),
                Block::Facts(facts) => {
                    let room = facts.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
                    facts.iter().for_each(|(label, value)| self.wrapped(&format!("{label:<room$}  "), value));
                }
                Block::List(items) => items.iter().for_each(|item| self.wrapped("- ", item)),
                Block::Items(items) => items.iter().filter(|item| !item.minor).for_each(|item| self.item(item)),
                Block::HeatMap(tables) => tables.iter().for_each(|table| self.heat(table)),
                Block::Commands(lines) => {
                    lines.iter().for_each(|line| self.line(&format!("  {}", sanitise_line(line))))
                }
                Block::Folded(..) | Block::Bars(_) | Block::Chart(_) | Block::Layers(..) => {}
            }
        }
    }

    /// Writes a line that begins with the mark of a status.
    fn marked(&mut self, status: Status, text: &str) {
        let mark = status.mark().to_string();
        self.wrapped_as(&format!("{} ", paint(self.colour, status, &mark)), 2, text);
    }

    /// Writes a paragraph after a mark. Its further lines are indented by the width of the mark.
    fn wrapped(&mut self, mark: &str, text: &str) {
        self.wrapped_as(mark, width(mark), text);
    }

    /// Like `wrapped`, but for a mark with colour codes, which have no width.
    fn wrapped_as(&mut self, mark: &str, columns: usize, text: &str) {
        indented(mark, columns, &sanitise_line(text), self.width).iter().for_each(|line| self.line(line));
    }

    fn item(&mut self, item: &Item) {
        let name = if item.name.is_empty() { String::new() } else { format!("{}: ", item.name) };
        self.marked(item.status, &format!("{name}{}", item.text));
        // The last output of a failed process is shown, because it is short and the only evidence.
        for detail in item.details.iter().filter(|detail| !detail.long || item.name.is_empty()) {
            self.wrapped(&format!("    {}: ", detail.label), &detail.text);
        }
    }

    fn table(&mut self, cells: &Cells) {
        let heads = cells.heads.iter().map(|head| head.title.to_string()).collect();
        let rows = cells.rows.iter().map(|row| row.iter().map(|cell| sanitise_line(cell).into_owned()).collect());
        let right: Vec<bool> = cells.heads.iter().map(|head| head.right).collect();
        self.rows(&std::iter::once(heads).chain(rows).collect::<Vec<_>>(), &right);
    }

    fn rows(&mut self, rows: &[Vec<String>], right: &[bool]) {
        for line in table_lines(rows, right, self.width) {
            self.line(&line);
        }
    }

    /// Writes a table of rates. The columns of a group stay together below its title, and as many groups as fit are
    /// next to one another.
    fn heat(&mut self, table: &HeatTable) {
        self.line("");
        self.line(&format!("{}, by {}", table.title, table.columns_title));
        let mut from = 0;
        while from < table.groups.len() {
            let fits = |to: &usize| {
                let rows = heat_rows(table, from..*to);
                table_lines(&rows, &vec![true; rows[1].len()], self.width).len() == rows.len()
            };
            let to = (from + 1..=table.groups.len()).rev().find(fits).unwrap_or(from + 1);
            let rows = heat_rows(table, from..to);
            self.rows(&rows, &vec![true; rows[1].len()]);
            from = to;
            if from < table.groups.len() {
                self.line("");
            }
        }
    }
}

/// The rows of the given groups: group titles, column titles and cells.
fn heat_rows(table: &HeatTable, groups: std::ops::Range<usize>) -> Vec<Vec<String>> {
    let each = table.columns.len();
    let title = |group: &String| {
        (0..each).map(move |column| if column == 0 { group.clone() } else { String::new() }).collect::<Vec<_>>()
    };
    let titles = std::iter::once(String::new()).chain(table.groups[groups.clone()].iter().flat_map(title)).collect();
    let columns = groups.clone().flat_map(|_| table.columns.iter().cloned());
    let columns = std::iter::once(table.rows_title.to_owned()).chain(columns).collect();
    let row = |(title, cells): &(String, Vec<super::section::HeatCell>)| {
        let cells = cells[groups.start * each..groups.end * each].iter().map(|cell| cell.text.clone());
        std::iter::once(title.clone()).chain(cells).collect()
    };
    [titles, columns].into_iter().chain(table.rows.iter().map(row)).collect()
}
