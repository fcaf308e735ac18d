//! Formats tables as lines of text. A number is never cut, because a part of a number is a wrong number. Columns that
//! do not fit follow in a second table below. It repeats the first columns, which identify the rows.

use super::columns::{TIE, indented, width as columns_of};
use std::collections::HashSet;

/// Number of spaces before the first column and between two columns.
const GAP: usize = 2;
/// Minimum width of a text column that is wrapped at the edge.
const WORDS: usize = 24;

/// Formats the rows of a table as lines of at most `width` columns, if each single column fits. `right` marks columns
/// of numbers. If the last column is text, it is wrapped at the edge.
#[must_use]
pub fn table_lines(rows: &[Vec<String>], right: &[bool], width: usize) -> Vec<String> {
    let widths = widths(rows, right.len());
    let words = right.last() == Some(&false) && right.len() > 1;
    let needs = |from: usize| widths.iter().skip(from).map(|width| width + GAP).sum::<usize>();
    let named = widths.first().copied().unwrap_or(0);
    if needs(0) > width && named > width / 2 && right.len() > 2 {
        return under_names(rows, right, width);
    }
    let bands = bands(&widths, keys(rows, right, &widths, width), words, width);
    let mut lines = Vec::new();
    for (at, band) in bands.iter().enumerate() {
        if at > 0 {
            lines.push(String::new());
        }
        let edge = (words && at + 1 == bands.len()).then_some(width);
        rows.iter().for_each(|row| band_lines(row, band, &widths, right, edge, &mut lines));
    }
    lines.into_iter().map(|line| line.replace(TIE, " ")).collect()
}

fn widths(rows: &[Vec<String>], columns: usize) -> Vec<usize> {
    let of =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(cell)).max().unwrap_or(0);
    (0..columns).map(of).collect()
}

/// The number of leading text columns that identify the rows. It is 1 if no text columns identify the rows, or if
/// these columns leave no space for another column.
fn keys(rows: &[Vec<String>], right: &[bool], widths: &[usize], width: usize) -> usize {
    let words = right.iter().take_while(|is_number| !**is_number).count();
    let differ = |count: &usize| {
        let mut seen = HashSet::new();
        rows.iter().all(|row| seen.insert(row.get(..*count)))
    };
    let taken = |count: usize| widths.iter().take(count).map(|own| own + GAP).sum::<usize>();
    let other = |count: usize| widths.iter().skip(count).max().map_or(0, |own| GAP + own.min(&WORDS));
    (1..=words).find(differ).filter(|count| taken(*count) + other(*count) <= width).unwrap_or(1)
}

/// The columns of each band. A band contains the first `keys` columns and as many others as fit, but at least one.
fn bands(widths: &[usize], keys: usize, words: bool, width: usize) -> Vec<Vec<usize>> {
    let first: usize = widths.iter().take(keys).map(|own| own + GAP).sum();
    let begin: Vec<usize> = (0..keys).collect();
    let mut bands = vec![begin.clone()];
    let mut used = first;
    for (column, own) in widths.iter().enumerate().skip(keys) {
        let last_words = words && column + 1 == widths.len();
        let needs = GAP + if last_words { (*own).min(WORDS) } else { *own };
        if used + needs > width && bands.last().is_some_and(|band| band.len() > keys) {
            bands.push(begin.clone());
            used = first;
        }
        used += needs;
        if let Some(band) = bands.last_mut() {
            band.push(column);
        }
    }
    bands
}

/// Formats a table whose first column leaves no space for the others. The first cell is on a separate line, and the
/// other cells follow below it.
fn under_names(rows: &[Vec<String>], right: &[bool], width: usize) -> Vec<String> {
    let rest: Vec<Vec<String>> = rows.iter().map(|row| row.get(1..).unwrap_or_default().to_vec()).collect();
    let indent = " ".repeat(GAP);
    let mut under = Vec::new();
    let (right, width) = (&right[1..], width.saturating_sub(GAP));
    let (widths, edge) = (widths(&rest, right.len()), (right.last() == Some(&false)).then_some(width));
    let all: Vec<usize> = (0..right.len()).collect();
    for (name, row) in rows.iter().filter_map(|row| row.first()).zip(&rest) {
        under.push(indent.clone() + name);
        let mut lines = Vec::new();
        band_lines(row, &all, &widths, right, edge, &mut lines);
        under.extend(lines.into_iter().map(|line| indent.clone() + &line));
    }
    under.into_iter().map(|line| line.replace(TIE, " ")).collect()
}

/// The lines of one row. Columns are as wide as their cells. If `edge` is given, the last column is wrapped there.
fn band_lines(
    row: &[String],
    band: &[usize],
    widths: &[usize],
    right: &[bool],
    edge: Option<usize>,
    lines: &mut Vec<String>,
) {
    let mut line = String::new();
    for (at, column) in band.iter().enumerate() {
        let Some(cell) = row.get(*column) else { continue };
        line += &" ".repeat(GAP);
        if let Some(edge) = edge.filter(|_| at > 0 && at + 1 == band.len()) {
            let begin = columns_of(&line);
            let mut parts = indented("", 0, cell, edge.saturating_sub(begin).max(WORDS)).into_iter();
            line += &parts.next().unwrap_or_default();
            lines.push(line.trim_end().to_owned());
            lines.extend(parts.map(|part| " ".repeat(begin) + &part));
            return;
        }
        let space = " ".repeat(widths[*column].saturating_sub(columns_of(cell)));
        let (before, after) = if right[*column] { (space.as_str(), "") } else { ("", space.as_str()) };
        line += &format!("{before}{cell}{after}");
    }
    lines.push(line.trim_end().to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn what_fits_is_one_table() {
        let rows = [row(&["lane", "rate", "p50"]), row(&["a", "1", "22"])];
        assert_eq!(table_lines(&rows, &[false, true, true], 40), ["  lane  rate  p50", "  a        1   22"]);
        assert_eq!(table_lines(&[row(&["x"])], &[false], 40), ["  x"]);
    }

    #[test]
    fn numbers_that_do_not_fit_stand_below_and_whole() {
        let rows = [row(&["lane", "rate", "p50", "most"]), row(&["a-long-name", "123456", "22", "16"])];
        let lines = table_lines(&rows, &[false, true, true, true], 22);
        assert_eq!(
            lines,
            [
                "  lane           rate",
                "  a-long-name  123456",
                "",
                "  lane         p50",
                "  a-long-name   22",
                "",
                "  lane         most",
                "  a-long-name    16"
            ]
        );
    }

    #[test]
    fn what_stands_below_is_told_by_as_many_columns_as_tell_the_rows_apart() {
        let rows =
            [row(&["lane", "cache", "rate", "p50"]), row(&["a", "hot", "1", "22"]), row(&["a", "cold", "3", "44"])];
        let right = [false, false, true, true];
        let lines = table_lines(&rows, &right, 19);
        assert_eq!(lines[4..], ["  lane  cache  p50", "  a     hot     22", "  a     cold    44"]);
        // If two key columns leave too little space, only the first column is repeated.
        assert_eq!(
            table_lines(&rows, &right, 18)[4..],
            ["  lane  rate  p50", "  a        1   22", "  a        3   44"]
        );
    }

    #[test]
    fn a_name_that_leaves_no_room_is_a_line_above_its_row() {
        let rows = [row(&["lane", "rate", "where"]), row(&["a-very-very-long-name", "1", "in one place and another"])];
        assert_eq!(
            table_lines(&rows, &[false, true, false], 36),
            ["  lane", "    rate  where", "  a-very-very-long-name", "       1  in one place and another"]
        );
    }

    #[test]
    fn words_in_the_last_column_are_broken_and_none_is_lost() {
        let said = "libcufile could not be loaded; no such file or directory";
        let rows = [row(&["lane", "n", "the first"]), row(&["gds", "8", said])];
        let lines = table_lines(&rows, &[false, true, false], 40);
        assert_eq!(lines[0], "  lane  n  the first");
        assert_eq!(lines[1], "  gds   8  libcufile could not be");
        assert_eq!(lines[2], "           loaded; no such file or");
        let tied = table_lines(
            &[row(&["n", "transfer\u{a0}89\u{a0}%, copy\u{a0}8\u{a0}%, idle\u{a0}3\u{a0}%"])],
            &[false, false],
            30,
        );
        assert_eq!(tied, ["  n  transfer 89 %, copy 8 %,", "     idle 3 %"]);
        let words: Vec<&str> = lines[1..].iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(words[2..].join(" "), said);
        assert!(lines.iter().all(|line| columns_of(line) <= 40));
    }
}
