//! Kernel arguments in GRUB's settings, and the part of them that GRUB passes to the kernel.

use super::root::Root;
use std::ops::Range;

/// The file with GRUB's settings.
pub const GRUB: &str = "/etc/default/grub";
/// The directory whose files are read after [`GRUB`].
pub const GRUB_FOLDER: &str = "/etc/default/grub.d";

/// A kernel argument in GRUB's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrubArgument {
    /// The argument without quotes.
    pub text: String,
    /// Its position in the file, with its quotes.
    pub place: Range<usize>,
    /// Whether GRUB passes it completely. A script of GRUB ends a command at a semicolon without quotes (GRUB manual,
    /// "Shell-like scripting").
    pub arrives: bool,
}

/// A variable in GRUB's settings that contains kernel arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrubLine {
    /// The variable, such as `GRUB_CMDLINE_LINUX_DEFAULT`.
    pub name: String,
    /// Whether it adds to its earlier value.
    pub adds: bool,
    /// Its arguments.
    pub arguments: Vec<GrubArgument>,
}

/// The files with GRUB's settings and their text, in the order in which they are read.
#[must_use]
pub fn grub_files(root: &Root) -> Vec<(String, String)> {
    let mut names: Vec<String> =
        root.entries(GRUB_FOLDER).unwrap_or_default().into_iter().filter(|name| name.ends_with(".cfg")).collect();
    names.sort();
    let paths = [GRUB.to_owned()].into_iter().chain(names.into_iter().map(|name| format!("{GRUB_FOLDER}/{name}")));
    paths.filter_map(|path| Some((root.read_text(&path).ok()?, path))).map(|(text, path)| (path, text)).collect()
}

/// The value of a variable in these files, and the file that sets it last.
#[must_use]
pub fn grub_value(files: &[(String, String)], name: &str) -> Option<(String, String)> {
    files.iter().rev().find_map(|(path, text)| Some((path.clone(), shell_value(text, name)?)))
}

/// The value of a variable in a file that a shell reads: its last assignment without quotes and comments.
pub(super) fn shell_value(text: &str, name: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("export ").unwrap_or(line).trim_start().strip_prefix(name)?.strip_prefix('=')
    });
    values.next_back().map(first_word)
}

/// The first word of a text, without the quotes of the shell.
fn first_word(text: &str) -> String {
    let (mut word, mut quote) = (String::new(), None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None | Some('"'), '\\') => word.extend(letters.next()),
            (None, letter) if letter.is_whitespace() || letter == ';' => break,
            _ => word.push(letter),
        }
    }
    word
}

/// The variables with kernel arguments in the text of such a file.
#[must_use]
pub fn grub_lines(text: &str) -> Vec<GrubLine> {
    let mut out = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let place = start..start + line.trim_end().len();
        start += line.len();
        let indent = line.len() - line.trim_start().len();
        let Some((name, value)) = text.get(place.start + indent..place.end).and_then(|line| line.split_once('='))
        else {
            continue;
        };
        if !name.starts_with("GRUB_CMDLINE_LINUX") {
            continue;
        }
        out.push(GrubLine {
            name: name.to_owned(),
            adds: value.contains(&format!("${name}")),
            arguments: arguments(value, place.end - value.len()),
        });
    }
    out
}

/// The arguments of a value, which starts at this position of its file. Within the double quotes of the shell, the quotes
/// for GRUB have a backslash.
fn arguments(value: &str, start: usize) -> Vec<GrubArgument> {
    let outer = value.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let mut out = Vec::new();
    let mut word: Option<GrubArgument> = None;
    let (mut inner, mut is_escaped, mut is_cut) = (None, false, false);
    for (at, letter) in value.char_indices() {
        if letter == '\\' && !is_escaped {
            is_escaped = true;
            continue;
        }
        // The quotes that reach GRUB.
        let is_quote = match outer {
            Some('"') => (letter == '"' && is_escaped) || letter == '\'',
            Some(_) => letter == '"' && !is_escaped,
            None => false,
        };
        let began = at - usize::from(is_escaped);
        is_escaped = false;
        if is_quote && (inner.is_none() || inner == Some(letter)) {
            inner = if inner.is_none() { Some(letter) } else { None };
        }
        if matches!(letter, '"' | '\'') {
            if is_quote {
                word.get_or_insert_with(|| empty(start + began)).place.end = start + at + 1;
            }
            continue;
        }
        if letter.is_whitespace() && inner.is_none() {
            out.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_with(|| empty(start + began));
        word.text.push(letter);
        word.place.end = start + at + letter.len_utf8();
        is_cut |= letter == ';' && inner.is_none();
        word.arrives &= !is_cut;
    }
    out.extend(word);
    out
}

fn empty(start: usize) -> GrubArgument {
    GrubArgument { text: String::new(), place: start..start, arrives: true }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_no_quotes_blanks_and_comments() {
        for (text, expected) in [
            ("A=0", Some("0")),
            ("A='0'", Some("0")),
            ("A=\"0\"", Some("0")),
            ("  A=0\t# the first one", Some("0")),
            ("export A=0", Some("0")),
            ("A=\"saved\" # A=0", Some("saved")),
            ("A='a b>c \\d'", Some("a b>c \\d")),
            ("A=\"a \\\"b\\\"\"", Some("a \"b\"")),
            ("A=1\nA=2\n#A=3\n", Some("2")),
            ("A=", Some("")),
            ("#A=0", None),
            ("AB=0\nB=A=0", None),
            ("", None),
        ] {
            assert_eq!(shell_value(text, "A").as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_later_file_replaces_a_value() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [file("a", "GRUB_DEFAULT=saved"), file("b", "GRUB_DEFAULT='0'"), file("c", "GRUB_TIMEOUT=1")];
        assert_eq!(grub_value(&files, "GRUB_DEFAULT"), Some(file("b", "0")));
        assert_eq!(grub_value(&files, "GRUB_THEME"), None);
    }

    #[test]
    fn a_semicolon_needs_quotes_that_reach_grub() {
        for (line, expected) in [
            ("\"quiet a.b=c=1;d=1 iommu=pt\"", vec![("quiet", true), ("a.b=c=1;d=1", false), ("iommu=pt", false)]),
            ("\"quiet a.b=\\\"c=1;d=1\\\" x\"", vec![("quiet", true), ("a.b=c=1;d=1", true), ("x", true)]),
            ("\"a.b='c=1;d=1'\"", vec![("a.b=c=1;d=1", true)]),
            ("'a.b=\"c=1;d=1\" x'", vec![("a.b=c=1;d=1", true), ("x", true)]),
            ("'a.b=c=1;d=1'", vec![("a.b=c=1;d=1", false)]),
            // The shell removes these quotes.
            ("\"a.b=\"c=1;d=1\"\"", vec![("a.b=c=1;d=1", false)]),
            ("a.b=c", vec![("a.b=c", true)]),
            ("\"\"", vec![]),
        ] {
            let text = format!("# x\nGRUB_CMDLINE_LINUX_DEFAULT={line}\n");
            let found = grub_lines(&text).pop().unwrap().arguments;
            let named: Vec<(&str, bool)> = found.iter().map(|found| (found.text.as_str(), found.arrives)).collect();
            assert_eq!(named, expected, "{line}");
        }
        let text = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet a.b=\\\"c=1;d=1\\\" x\"\n";
        let found = &grub_lines(text)[0].arguments[1];
        assert_eq!(&text[found.place.clone()], "a.b=\\\"c=1;d=1\\\"");
    }
}
