//! Text in terminal columns: its width, wrapped lines, and truncated text.

use super::sanitise::{is_unsafe, sanitise};
use std::borrow::Cow;
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::UnicodeWidthChar;

/// A no-break space, which keeps words on one line. [`wrap`] and [`indented`] print it as a space.
pub const TIE: char = '\u{a0}';

/// Number of columns of a character. An unsafe character has the width of its replacement.
#[must_use]
pub fn glyph_width(glyph: char) -> usize {
    if is_unsafe(glyph) { 1 } else { glyph.width().unwrap_or(1) }
}

/// Number of columns of a text.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(glyph_width).sum()
}

/// Wraps text between words and [sanitises](sanitise) it. A word that is longer than a line is broken too.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    lines(&sanitise(text), &options(columns).break_words(true))
}

/// A wrapped paragraph after `head`, with `indent` spaces before each further line. A word that is longer than a line
/// is not broken, so that a path can be copied. Colour codes have no width.
#[must_use]
pub fn indented(head: &str, indent: usize, text: &str, columns: usize) -> Vec<String> {
    let spaces = " ".repeat(indent);
    let lines = lines(text, &options(columns).break_words(false).initial_indent(head).subsequent_indent(&spaces));
    if text.trim().is_empty() { vec![head.trim_end().to_owned()] } else { lines }
}

/// Wraps the lines of a text that are wider than `columns`, between words. Further lines are indented by two columns
/// more. A word that is longer than a line is not broken, so that a path can be copied. Colour codes have no width.
#[must_use]
pub fn fitted(text: &str, columns: usize) -> Cow<'_, str> {
    if text.lines().all(|line| display_width(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    for part in text.split_inclusive('\n') {
        let line = part.trim_end_matches(['\n', '\r']);
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        if display_width(line) <= columns {
            out.push_str(line);
        } else {
            let further = format!("{indent}  ");
            let options = options(columns).break_words(false).initial_indent(indent).subsequent_indent(&further);
            out.push_str(&textwrap::wrap(&tied(words), options).join("\n").replace(TIE, " "));
        }
        out.push_str(&part[line.len()..]);
    }
    Cow::Owned(out)
}

/// Cuts text to at most `columns` columns. A cut text ends with an ellipsis.
#[must_use]
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let mut used = 0;
    let kept = text.chars().take_while(|glyph| {
        used += glyph_width(*glyph);
        used <= room
    });
    Cow::Owned(kept.chain(['…']).collect())
}

/// Like [`truncate`], but cuts text in the middle. Two thirds of the columns show the end of the text.
#[must_use]
pub fn truncate_middle(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let head = truncate(text, room / 3 + 1);
    let mut left = room - room / 3;
    let tail = text.char_indices().rev().take_while(|(_, glyph)| {
        let fits = glyph_width(*glyph) <= left;
        left = left.saturating_sub(glyph_width(*glyph));
        fits
    });
    let from = tail.last().map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{head}{}", &text[from..]))
}

/// Like [`truncate_middle`], for a name with parts between dots. The numbers in it and its last two parts are kept as
/// long as possible, because the names of layers differ only in their number. The ending `.weight` is removed before
/// the part in front of it, because nearly all names have it.
#[must_use]
pub fn truncate_name(name: &str, columns: usize) -> Cow<'_, str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if width(name) <= columns || !name.split('.').any(is_number) {
        return truncate_middle(name, columns);
    }
    let without = name.strip_suffix(".weight").filter(|rest| rest.contains('.')).unwrap_or(name);
    let mut parts: Vec<&str> = Vec::new();
    for (stem, last) in [(name, 2), (without, 1)] {
        parts = stem.split('.').collect();
        for at in 0..parts.len().saturating_sub(last) {
            if is_number(parts[at]) {
                continue;
            }
            parts[at] = "…";
            let mut kept = parts.clone();
            kept.dedup_by(|a, b| *a == "…" && *b == "…");
            let cut = kept.join(".");
            if width(&cut) <= columns {
                return Cow::Owned(cut);
            }
        }
    }
    parts.dedup_by(|a, b| *a == "…" && *b == "…");
    let tail = parts.pop().unwrap_or_default();
    let numbers = parts.join(".");
    let room = columns.saturating_sub(width(&numbers) + 1);
    if room < 2 || parts.is_empty() {
        return truncate_middle(name, columns);
    }
    Cow::Owned(format!("{numbers}.{}", truncate_middle(tail, room)))
}

fn options(columns: usize) -> Options<'static> {
    Options::new(columns.max(1))
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
}

fn lines(text: &str, options: &Options<'_>) -> Vec<String> {
    let paragraphs = text.lines().map(|paragraph| paragraph.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
    // An equation such as `n = 3` stays on one line.
    let tied: Vec<String> = paragraphs.map(|paragraph| tied(&paragraph).replace(" = ", "\u{a0}=\u{a0}")).collect();
    let wrapped = tied.iter().flat_map(|paragraph| textwrap::wrap(paragraph, options));
    wrapped.map(|line| line.replace(TIE, " ")).collect()
}

/// The units that follow a number after a space.
const UNITS: [&str; 20] = [
    "%", "ns", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB", "B/s", "kB/s",
    "MB/s", "GB/s",
];

/// The text with ties between a number and its unit, which stay on one line.
fn tied(text: &str) -> String {
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
    let mut out = String::with_capacity(text.len());
    let mut before = "";
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            let is_value = before.ends_with(|glyph: char| glyph.is_ascii_digit()) && is_unit(word);
            out.push(if is_value { TIE } else { ' ' });
        }
        out.push_str(word);
        before = word;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_wrap_at_the_width_and_long_ones_are_broken() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("/very/long/path x", 6), ["/very/", "long/p", "ath x"]);
        assert_eq!(wrap("one\n\ntwo", 10), ["one", "", "two"]);
        assert_eq!(wrap("gds-top gds-slab", 12), ["gds-top", "gds-slab"]);
        assert_eq!(wrap("漢字", 1), ["漢", "字"]);
        assert!(wrap("", 10).is_empty());
    }

    #[test]
    fn equations_numbers_and_tied_words_stay_on_one_line() {
        assert_eq!(wrap("cold, n = 3, verified", 10), ["cold,", "n = 3,", "verified"]);
        assert_eq!(wrap("in 18\u{202f}867 reads", 6), ["in", "18\u{202f}867", "reads"]);
        assert_eq!(wrap("idle\u{a0}3\u{a0}% copy", 8), ["idle 3 %", "copy"]);
        assert_eq!(wrap("for a CPU in 97 % of the time", 16), ["for a CPU in", "97 % of the time"]);
        assert_eq!(wrap("it took (625 ms), and 3 runs", 12), ["it took", "(625 ms),", "and 3 runs"]);
        assert_eq!(indented("- ", 2, "a rate of 4.2 GB/s.", 15), ["- a rate of", "  4.2 GB/s."]);
        assert_eq!(fitted("reads of 4 KiB take 9 µs", 10), "reads of\n  4 KiB\n  take\n  9 µs");
        // A word after a number is not its unit.
        assert_eq!(wrap("of 12 shards", 5), ["of 12", "shard", "s"]);
    }

    #[test]
    fn further_lines_are_indented_and_long_words_stay_complete() {
        let lines = indented("  Why     ", 10, "one two three four five six seven eight nine ten", 40);
        assert_eq!(lines, ["  Why     one two three four five six", "          seven eight nine ten"]);
        assert_eq!(indented("- ", 2, "/a/path/of/many/parts x", 10), ["- /a/path/of/many/parts", "  x"]);
        assert_eq!(indented("\u{1b}[31m✖\u{1b}[0m ", 2, "abc def", 5), ["\u{1b}[31m✖\u{1b}[0m abc", "  def"]);
        assert_eq!(indented("- ", 2, "", 10), ["-"]);
    }

    #[test]
    fn a_line_that_is_too_wide_is_wrapped_between_words_and_the_others_are_kept() {
        let text = "– nixl cannot run here: NIXL was not found: install it with 'pip install nixl'";
        for columns in 20..90 {
            let wrapped = fitted(text, columns);
            assert!(wrapped.lines().all(|line| width(line) <= columns), "{columns}: {wrapped:?}");
            assert!(wrapped.split_whitespace().eq(text.split_whitespace()), "{columns}: {wrapped:?}");
            assert!(wrapped.lines().skip(1).all(|line| line.starts_with("  ")), "{columns}: {wrapped:?}");
        }
        assert_eq!(fitted("    one two\r\na  b\n\nx\n", 9), "    one\n      two\r\na  b\n\nx\n");
        assert_eq!(fitted("key      value  origin\n", 16), "key      value\n  origin\n");
        assert_eq!(fitted("\u{1b}[31mred\u{1b}[0m word", 8), "\u{1b}[31mred\u{1b}[0m word");
        assert_eq!(fitted("see /a/long/path/to/a/file now", 10), "see\n  /a/long/path/to/a/file\n  now");
    }

    #[test]
    fn cut_text_shows_it_and_fits() {
        assert_eq!(truncate("mmap", 4), "mmap");
        assert_eq!(truncate("gds-slab", 5), "gds-…");
        assert_eq!(truncate("x", 0), "");
        assert_eq!(truncate("漢字漢", 4), "漢…");
        assert_eq!(truncate_middle("gds:enable_layerwise=1", 12), "gds…erwise=1");
        assert_eq!(truncate_middle("abc", 0), "");
        assert_eq!(truncate_middle("abc", 1), "…");
    }

    #[test]
    fn the_numbers_in_a_cut_name_are_kept() {
        let name = "model.layers.10.self_attn.q_proj.weight";
        assert_eq!(truncate_name(name, 39), name);
        assert_eq!(truncate_name(name, 30), "….10.self_attn.q_proj.weight");
        assert_eq!(truncate_name(name, 20), "….10.….q_proj.weight");
        assert_eq!(truncate_name(name, 13), "….10.….q_proj");
        assert_eq!(truncate_name(name, 11), "….10.….q…oj");
        assert_eq!(truncate_name("layers.3.experts.12.w1.weight", 20), "….3.….12.w1.weight");
        assert_eq!(truncate_name("model.layers.0.mlp.down_proj.weight", 19), "….0.mlp.down_proj");
        assert_eq!(truncate_name("model.layers.0.self_attn.q_proj.bias", 14), "….0.….bias");
        assert_eq!(truncate_name("3.weight", 6), "3.w…ht");
        for name in ["lm_head.weight", "12345"] {
            assert_eq!(truncate_name(name, 4), truncate_middle(name, 4));
        }
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_it_may_be(text in "(?s).{0,80}", columns in 2_usize..40) {
            let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
            for line in wrap(&text, columns) {
                prop_assert!(width(&line) <= columns, "{line:?}");
            }
            prop_assert!(width(&truncate(&text, columns)) <= columns);
            prop_assert!(width(&truncate_middle(&text, columns)) <= columns);
            prop_assert!(width(&truncate_name(&text, columns)) <= columns);
        }
    }
}
