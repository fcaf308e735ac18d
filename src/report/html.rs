//! Renders sections as one HTML file without external scripts, fonts or pictures. It is light or dark, depending on
//! the settings of the browser.

use super::bars::bars;
use super::common::code_parts;
use super::contents;
use super::section::{Block, Cells, HeatCell, HeatTable, Item, Section};
use super::sections::{Extent, answers, sections};
use super::svg::{chart, layers, legend};
use crate::core::{Status, heat_colour};
use crate::present::{Answer, GAP, SessionAnalysis, machine};
use crate::session::State;
use crate::text::markup;
use std::fmt::Write;

/// Renders the page. All text from files or from the machine is escaped.
#[must_use]
pub fn html(state: &State) -> String {
    let analysis = SessionAnalysis::new(state);
    page(&machine::headline(state), &answers(state), &sections(&analysis, Extent::Full), &super::common::footer(state))
}

/// Renders a page with answers and sections. `subtitle` is the line below the title.
#[must_use]
pub(crate) fn page(subtitle: &str, answers: &[Answer], sections: &[Section], footer: &str) -> String {
    let mut page = String::with_capacity(64 << 10);
    page.push_str(include_str!("head.html"));
    page.push_str(include_str!("report.css"));
    page.push_str("</style></head><body>\n<h1>gds-top report</h1>\n");
    if !subtitle.is_empty() {
        let _ = writeln!(page, "<p class=\"dim\">{}</p>", markup(subtitle));
    }
    page.push_str("<section class=\"answers\">");
    for answer in answers {
        let (class, mark) = (class(answer.status), answer.status.mark());
        let _ = write!(page, "<p><span class=\"{class}\">{mark}</span> {}", markup(&answer.headline));
        if !answer.conditions.is_empty() {
            let _ = write!(page, " <small>{}</small>", prose(&answer.conditions));
        }
        page.push_str("</p>");
    }
    page.push_str("</section>\n");
    let (first, rest) = contents::split(sections);
    let anchors = contents::anchors(sections.iter().map(|section| section.title.as_str()));
    let mut anchored = sections.iter().zip(&anchors);
    anchored.by_ref().take(first.len()).for_each(|(section, (_, anchor))| write_section(&mut page, section, anchor));
    if rest.len() > 2 {
        page.push_str("<nav><ul>");
        for (title, anchor) in anchors.iter().skip(first.len()).filter(|(title, _)| !title.is_empty()) {
            let _ = write!(page, "<li><a href=\"#{}\">{}</a></li>", markup(anchor), markup(title));
        }
        page.push_str("</ul></nav>\n");
    }
    anchored.for_each(|(section, (_, anchor))| write_section(&mut page, section, anchor));
    let _ = writeln!(page, "<footer>{}</footer></body></html>", markup(footer));
    page
}

/// The CSS class of a status.
const fn class(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Info => "info",
        Status::Warn => "warn",
        Status::Fail => "fail",
        Status::Na => "na",
    }
}

fn write_section(page: &mut String, section: &Section, anchor: &str) {
    if !section.title.is_empty() {
        let _ = write!(page, "<h2 id=\"{}\">{}</h2>", markup(anchor), markup(&section.title));
    }
    for text in &section.text {
        let _ = write!(page, "<p class=\"dim\">{}</p>", prose(text));
    }
    for block in &section.blocks {
        write_block(page, &section.title, block);
    }
    page.push('\n');
}

fn write_block(page: &mut String, title: &str, block: &Block) {
    match block {
        Block::Table(cells) => table(page, cells),
        Block::Folded(line, cells) => {
            let _ = write!(page, "<details class=\"folded\"><summary>{}</summary>", markup(line));
            table(page, cells);
            page.push_str("</details>");
        }
        Block::Facts(facts) => {
            page.push_str("<div class=\"card\"><table class=\"facts\">");
            for (label, value) in facts {
                let _ = write!(page, "<tr><th>{label}</th><td>{}</td></tr>", unbroken(value));
            }
            page.push_str("</table></div>");
        }
        Block::List(items) if items.is_empty() => {}
        Block::List(items) => {
            page.push_str("<ul>");
            items.iter().for_each(|item| {
                let _ = write!(page, "<li>{}", prose(item));
            });
            page.push_str("</ul>");
        }
        Block::Commands(lines) => {
            page.push_str("<pre class=\"card\">");
            lines.iter().for_each(|line| {
                let _ = writeln!(page, "{}", unbroken(line));
            });
            page.push_str("</pre>");
        }
        Block::Items(items) => items.iter().for_each(|item| write_item(page, item)),
        Block::Bars(all) => {
            if let Some(bars) = bars(title, all) {
                let _ = write!(page, "<figure class=\"card\">{bars}</figure>");
            }
        }
        Block::Chart(of) => {
            if let Some(svg) = chart(&of.title, &of.series, &of.x, &of.y, of.height) {
                let (keys, caption) = (legend(&of.series), markup(&of.caption));
                let _ =
                    write!(page, "<figure class=\"card\">{svg}<figcaption>{keys}<br>{caption}</figcaption></figure>");
            }
        }
        Block::HeatMap(tables) => {
            page.push_str("<div class=\"heats\">");
            tables.iter().for_each(|table| heat(page, table));
            page.push_str("</div>");
        }
        Block::Layers(title, all) => {
            let _ = write!(page, "<div class=\"card\"><p>{}</p>{}</div>", markup(title), layers(title, all));
        }
    }
}

fn table(page: &mut String, cells: &Cells) {
    page.push_str("<div class=\"card\"><table><thead><tr>");
    let number = |right: bool| if right { " class=\"n\"" } else { "" };
    for head in &cells.heads {
        let _ = write!(page, "<th{}>{}", number(head.right), markup(&head.title));
    }
    // On paper, the head is repeated on each page.
    page.push_str("</tr></thead>");
    for (at, row) in cells.rows.iter().enumerate() {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let judged = cells.statuses.iter().find(|(row, of, _)| (*row, *of) == (at, column));
            match judged {
                Some((_, _, status)) => {
                    let _ = write!(page, "<td class=\"{}\">{}", class(*status), markup(cell));
                }
                None => {
                    let right = cells.heads.get(column).is_some_and(|head| head.right);
                    let class = if right || !is_short(cell) { number(right) } else { " class=\"short\"" };
                    let _ = write!(page, "<td{class}>{}", markup(cell));
                }
            }
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

fn write_item(page: &mut String, item: &Item) {
    let (mark, word) = (item.status.mark(), item.status.word());
    let name = if item.name.is_empty() { String::new() } else { format!(" <b>{}</b>:", markup(&item.name)) };
    let head = format!("<span class=\"{}\">{mark} {word}</span>{name} {}", class(item.status), prose(&item.text));
    if item.details.is_empty() {
        let _ = write!(page, "<p>{head}</p>");
        return;
    }
    let open = if item.folded { "" } else { " open" };
    let _ = write!(page, "<details{open}><summary>{head}</summary>");
    for detail in &item.details {
        let text = if detail.command { code(&detail.text) } else { prose(&detail.text) };
        let _ = write!(page, "<p class=\"dim\">{}: {text}</p>", detail.label);
    }
    page.push_str("</details>");
}

/// Whether a cell is shown on one line: a range of sizes, a route with its proof.
fn is_short(cell: &str) -> bool {
    const MOST: usize = 16;
    cell.contains(' ') && cell.chars().count() <= MOST
}

/// A sentence. The commands in it are between backticks.
fn prose(text: &str) -> String {
    let part = |(is_code, part): (bool, &str)| if is_code { code(part) } else { markup(part) };
    code_parts(text).into_iter().map(part).collect()
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", unbroken(text))
}

/// Text whose words are not broken at their hyphens: commands, UUIDs.
fn unbroken(text: &str) -> String {
    let word = |word: &str| match word.contains('-') {
        true => format!("<span>{}</span>", markup(word)),
        false => markup(word),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn heat(page: &mut String, table: &HeatTable) {
    let _ = write!(page, "<table class=\"heat\"><caption>{}</caption><tr><th></th>", markup(&table.title));
    for group in &table.groups {
        let _ = write!(page, "<th colspan=\"{}\">{}</th>", table.columns.len(), markup(group));
    }
    let _ = write!(page, "</tr><tr><th>{}</th>", table.columns_title);
    for column in table.groups.iter().flat_map(|_| &table.columns) {
        let _ = write!(page, "<th>{}</th>", markup(column));
    }
    page.push_str("</tr>");
    for (title, cells) in &table.rows {
        let _ = write!(page, "<tr><th>{}</th>", markup(title));
        for cell in cells {
            let _ = write!(page, "<td{}>{}</td>", style(cell), markup(&cell.text));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

/// The colour and tooltip of a cell.
fn style(cell: &HeatCell) -> String {
    let tooltip = match cell.tooltip.as_str() {
        "" => String::new(),
        text => format!(" title=\"{}\"", markup(text)),
    };
    let Some(warmth) = cell.warmth.filter(|_| cell.text != GAP) else { return tooltip };
    let (r, g, b) = heat_colour(warmth);
    // Light colours get dark text. The weights are the usual weights of the colour channels for brightness.
    let ink = if 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b) > 140.0 { "#000" } else { "#fff" };
    format!(" style=\"background:rgb({r},{g},{b});color:{ink}\"{tooltip}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_are_not_broken_at_hyphens_and_its_text_is_the_same() {
        let shown = unbroken("gds-top bench /m&a --drop-caches");
        assert_eq!(shown, "<span>gds-top</span> bench /m&amp;a <span>--drop-caches</span>");
        assert!(include_str!("report.css").contains("pre span,code span,.facts span{display:inline-block"));
    }

    #[test]
    fn commands_in_sentences_are_code() {
        assert_eq!(prose("Run `a <b>` & wait."), "Run <code>a &lt;b&gt;</code> &amp; wait.");
    }

    #[test]
    fn heat_maps_escape_text_and_colour_only_what_was_measured() {
        let cell = |text: &str, warmth, tooltip: &str| HeatCell { text: text.into(), warmth, tooltip: tooltip.into() };
        let table = HeatTable {
            title: "a<b".into(),
            rows_title: "block",
            columns_title: "threads",
            groups: vec!["cpu".into()],
            columns: vec!["1".into(), "4".into(), "16".into()],
            rows: vec![(
                "4 KiB".into(),
                vec![cell("3.00", Some(1.0), ""), cell("✖", None, "it broke, \"badly\""), cell("·", None, "")],
            )],
        };
        let mut page = String::new();
        heat(&mut page, &table);
        assert!(page.contains("a&lt;b") && page.contains("&quot;badly&quot;"), "{page}");
        assert_eq!(page.matches("background:").count(), 1);
        assert!(page.contains("<td>·</td>"));
    }
}
