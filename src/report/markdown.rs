//! Renders sections as Markdown that is also readable as plain text.

use super::common::code_parts;
use super::contents;
use super::section::{Block, Cells, Detail, HeatTable, Item, Section};
use super::sections::{Extent, answers, sections};
use crate::present::{SessionAnalysis, machine};
use crate::session::State;
use crate::text::{sanitise_line, width as columns};
use std::fmt::Write;

/// Renders the page. All text from files or from the machine is escaped.
#[must_use]
pub fn markdown(state: &State) -> String {
    let analysis = SessionAnalysis::new(state);
    let mut page = Page(String::with_capacity(8 << 10));
    page.line("# gds-top report");
    page.blank();
    let subtitle = machine::headline(state);
    if !subtitle.is_empty() {
        page.line(&escape(&subtitle));
        page.blank();
    }
    for answer in answers(state) {
        let conditions = match answer.conditions.as_str() {
            "" => String::new(),
            conditions => format!(" {}", prose(conditions)),
        };
        page.line(&format!("- {} **{}**{conditions}", answer.status.mark(), escape(&answer.headline)));
    }
    page.blank();
    let sections = sections(&analysis, Extent::Full);
    let (first, rest) = contents::split(&sections);
    first.iter().for_each(|section| page.section(section));
    let rest: Vec<&Section> = rest.iter().filter(|section| !is_drawn(section)).collect();
    page.contents(&rest);
    rest.iter().for_each(|section| page.section(section));
    page.line("---");
    page.line(&escape(&super::common::footer(state)));
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn blank(&mut self) {
        self.0.push('\n');
    }

    /// Writes the titles as links to the anchors that renderers give to headings.
    fn contents(&mut self, sections: &[&Section]) {
        let titles = sections.iter().map(|section| section.title.as_str());
        for (title, anchor) in contents::anchors(titles) {
            self.line(&format!("- [{}](#{anchor})", escape(title)));
        }
        self.blank();
    }

    fn section(&mut self, section: &Section) {
        self.line(&format!("## {}", escape(&section.title)));
        self.blank();
        for text in &section.text {
            self.line(&prose(text));
            self.blank();
        }
        for block in &section.blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Table(cells) => self.table(cells),
            Block::Folded(line, cells) => {
                self.line(&format!("<details><summary>{}</summary>", escape(line)));
                self.blank();
                self.table(cells);
                self.line("</details>");
                self.blank();
            }
            Block::Facts(facts) => {
                let rows = facts.iter().map(|(label, value)| vec![(*label).to_owned(), escape(value)]).collect();
                self.aligned(&[String::new(), String::new()], &[false, false], rows);
            }
            Block::List(items) if items.is_empty() => {}
            Block::List(items) => {
                items.iter().for_each(|item| self.line(&format!("- {}", prose(item))));
                self.blank();
            }
            Block::Items(items) => {
                items.iter().filter(|item| !item.minor).for_each(|item| self.item(item));
                self.blank();
            }
            Block::HeatMap(tables) => tables.iter().for_each(|table| self.heat(table)),
            Block::Commands(lines) => {
                // No text in a line can end an indented block. Other blocks depend on the renderer.
                for line in lines {
                    let plain = !line.contains(['<', '>', '&']);
                    let text =
                        if plain { format!("    {}", sanitise_line(line)) } else { format!("- {}", escape(line)) };
                    self.line(&text);
                }
                self.blank();
            }
            Block::Bars(_) | Block::Chart(_) | Block::Layers(..) => {}
        }
    }

    fn item(&mut self, item: &Item) {
        let name = if item.name.is_empty() { String::new() } else { format!("**{}**: ", escape(&item.name)) };
        self.line(&format!("- {} {name}{}", item.status.mark(), prose(&item.text)));
        for detail in &item.details {
            self.line(&format!("  - {}: {}", detail.label, text_of(detail)));
        }
    }

    fn heat(&mut self, table: &HeatTable) {
        self.line(&format!("### {}", escape(&table.title)));
        self.blank();
        let columns = table.groups.iter().flat_map(|group| table.columns.iter().map(move |n| format!("{group} × {n}")));
        let heads: Vec<String> = std::iter::once(table.rows_title.to_owned()).chain(columns).collect();
        let row = |(title, cells): &(String, Vec<_>)| {
            let cells = cells.iter().map(|cell: &super::section::HeatCell| escape(&cell.text));
            std::iter::once(escape(title)).chain(cells).collect()
        };
        self.aligned(&heads, &vec![true; heads.len()], table.rows.iter().map(row).collect());
    }

    fn table(&mut self, cells: &Cells) {
        let heads: Vec<String> = cells.heads.iter().map(|head| head.title.to_string()).collect();
        let right: Vec<bool> = cells.heads.iter().map(|head| head.right).collect();
        let rows = cells.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
        self.aligned(&heads, &right, rows);
    }

    /// Writes a table in which each column is as wide as its widest cell. `right` marks columns of numbers.
    fn aligned(&mut self, heads: &[String], right: &[bool], rows: Vec<Vec<String>>) {
        let width = |i: usize| {
            let cells = rows.iter().filter_map(|row| row.get(i)).map(|cell| columns(cell));
            cells.chain(heads.get(i).map(|head| columns(head))).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let row = |cells: &[String]| {
            let mut line = String::from("|");
            for (i, width) in widths.iter().enumerate() {
                let cell = cells.get(i).map_or("", String::as_str);
                let space = " ".repeat(width.saturating_sub(columns(cell)));
                let (left, after) =
                    if right.get(i) == Some(&true) { (space.as_str(), "") } else { ("", space.as_str()) };
                let _ = write!(line, " {left}{cell}{after} |");
            }
            line
        };
        self.line(&row(heads));
        let rule = |(i, w): (usize, &usize)| {
            if right.get(i) == Some(&true) { format!("{}:", "-".repeat(w - 1)) } else { "-".repeat(*w) }
        };
        self.line(&row(&widths.iter().enumerate().map(rule).collect::<Vec<_>>()));
        for cells in &rows {
            self.line(&row(cells));
        }
        self.blank();
    }
}

/// Charts are left out, because their figures are in the tables.
fn is_drawn(section: &Section) -> bool {
    let drawn = |block: &Block| matches!(block, Block::Bars(_) | Block::Chart(_) | Block::Layers(..));
    !section.blocks.is_empty() && section.blocks.iter().all(drawn)
}

/// The text of a detail. Commands are formatted as code.
fn text_of(detail: &Detail) -> String {
    if detail.command && is_plain(&detail.text) { format!("`{}`", detail.text) } else { prose(&detail.text) }
}

/// A sentence. The commands in it are between backticks and formatted as code.
fn prose(text: &str) -> String {
    let part = |(is_code, part): (bool, &str)| match is_code {
        true if is_plain(part) => format!("`{part}`"),
        true => format!("\\`{}\\`", escape(part)),
        false => escape(part),
    };
    code_parts(text).into_iter().map(part).collect()
}

/// Whether a command has only characters that no renderer of Markdown changes inside code.
fn is_plain(command: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '=' | ',' | ' ');
    !command.trim().is_empty() && command.chars().all(usual)
}

/// Escapes all characters that have a special meaning.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in sanitise_line(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_sentences_are_code_unless_a_renderer_could_change_them() {
        assert_eq!(prose("Run `gds-top check /a_b`."), "Run `gds-top check /a_b`.");
        assert_eq!(prose("Run `a <b>` *now*."), "Run \\`a &lt;b&gt;\\` \\*now\\*.");
        assert_eq!(prose("one ` only"), "one \\` only");
    }
}
