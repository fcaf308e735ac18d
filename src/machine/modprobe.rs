//! Parses modprobe.d: the files in modprobe's order, their statements, and the value of a module's parameter that is in
//! force at the next boot.

use super::root::Root;
use std::ops::Range;

/// The directory for files of the administrator.
pub const LOCAL: &str = "/etc/modprobe.d";
/// The directories of modprobe. If several have a file with the same name, only the first is read (modprobe.d(5)).
pub const FOLDERS: [&str; 5] =
    [LOCAL, "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"];

/// The word in modprobe.d with which SLES allows modules that SUSE does not support.
pub const UNSUPPORTED: &str = "allow_unsupported_modules";

/// A file that modprobe reads.
#[derive(Clone, Debug)]
pub struct File {
    /// The path.
    pub path: String,
    /// The content.
    pub text: String,
}

impl File {
    /// The name without its directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the administrator owns the file.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.path.starts_with(LOCAL)
    }
}

/// Whether modprobe of SUSE loads modules without support. The last statement counts. `None` without a statement.
#[must_use]
pub fn unsupported_modules(root: &Root) -> Option<bool> {
    let files = files(root);
    let mut values = files.iter().flat_map(|file| file.text.lines()).filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(UNSUPPORTED)).then(|| words.next() == Some("1"))
    });
    values.next_back()
}

/// The files that modprobe reads, in its order: sorted by name, independent of their directory.
#[must_use]
pub fn files(root: &Root) -> Vec<File> {
    let mut names: Vec<(String, String)> = Vec::new();
    for folder in FOLDERS {
        for name in root.entries(folder).unwrap_or_default().into_iter().filter(|name| name.ends_with(".conf")) {
            if names.iter().all(|(known, _)| *known != name) {
                names.push((name.clone(), format!("{folder}/{name}")));
            }
        }
    }
    names.sort();
    names.into_iter().filter_map(|(_, path)| Some(File { text: root.read_text(&path).ok()?, path })).collect()
}

/// The files that modprobe ignores because their names do not end in `.conf` (modprobe.d(5)), although nothing shows that
/// they are copies or disabled.
#[must_use]
pub fn ignored_files(root: &Root) -> Vec<File> {
    let is_ignored = |name: &String| !name.contains('.') && !name.ends_with('~') && name != "README";
    let paths = FOLDERS.iter().flat_map(|folder| {
        root.entries(folder)
            .unwrap_or_default()
            .into_iter()
            .filter(is_ignored)
            .map(move |name| format!("{folder}/{name}"))
    });
    paths.filter_map(|path| Some(File { text: root.read_text(&path).ok()?, path })).collect()
}

/// The ignored file that sets a parameter of a module to a value that contains these words.
#[must_use]
pub fn ignored(root: &Root, module: &str, parameter: &str, words: &[&str]) -> Option<String> {
    let files = ignored_files(root);
    let found = settings(&files, module, parameter);
    let set = found.iter().find(|setting| words.iter().all(|word| setting.value.contains(word)))?;
    Some(files[set.file].path.clone())
}

/// A word of a statement: its position in the text, and its content without quotes and line continuations.
#[derive(Clone, Debug)]
pub struct Word {
    /// The position in the text.
    pub place: Range<usize>,
    /// The content without quotes and line continuations.
    pub text: String,
}

/// The statements `KEYWORD MODULE …` in a text, as words. A backslash at the end of a line continues the statement.
#[must_use]
pub fn statements(text: &str, keyword: &str, module: &str) -> Vec<Vec<Word>> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices('\n').chain([(text.len(), "")]) {
        if text[start..at].ends_with('\\') && at < text.len() {
            continue;
        }
        let words = words(text, start..at);
        if let [first, second, ..] = words.as_slice()
            && first.text == keyword
            && is_same(&second.text, module)
        {
            out.push(words);
        }
        start = at + 1;
    }
    out
}

fn words(text: &str, line: Range<usize>) -> Vec<Word> {
    let mut out = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    let mut letters = text[line.clone()].char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let at = line.start + at;
        if letter == '\\' && letters.peek().is_some_and(|(_, next)| *next == '\n') {
            letters.next();
            continue;
        }
        if quote.is_none() && letter.is_whitespace() {
            out.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_with(|| Word { place: at..at, text: String::new() });
        word.place.end = at + letter.len_utf8();
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => word.text.push(letter),
        }
    }
    out.extend(word);
    out
}

/// A parameter in a statement `options MODULE …`.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The index of the file.
    pub file: usize,
    /// The position of `PARAMETER=VALUE` in the text of the file.
    pub place: Range<usize>,
    /// The value without quotes.
    pub value: String,
}

/// The positions that set a parameter of a module, in the order in which the kernel gets the values. The last value
/// is in effect.
#[must_use]
pub fn settings(files: &[File], module: &str, parameter: &str) -> Vec<Setting> {
    let of_file = |(file, content): (usize, &File)| {
        let words = statements(&content.text, "options", module).into_iter().flatten();
        let found = words.filter_map(move |word| {
            let value = word.text.strip_prefix(parameter)?.strip_prefix('=')?.to_owned();
            Some(Setting { file, place: word.place, value })
        });
        found.collect::<Vec<_>>()
    };
    files.iter().enumerate().flat_map(of_file).collect()
}

/// The value of a parameter that modprobe passes last, so that the module uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The value without quotes.
    pub value: String,
    /// The path of the modprobe.d file, or of the kernel command line.
    pub source: String,
}

/// The kernel command line of this boot.
pub const COMMAND_LINE: &str = "/proc/cmdline";

/// The value of a module's parameter in force. modprobe passes arguments of the kernel command line
/// (`MODULE.PARAMETER=VALUE`) after those of modprobe.d (kmod, `kmod_config_parse_kcmdline`).
#[must_use]
pub fn in_force(root: &Root, module: &str, parameter: &str) -> Option<InForce> {
    let line = root.read_text(COMMAND_LINE).unwrap_or_default();
    let argument = words(&line, 0..line.len()).into_iter().rev().find_map(|word| {
        let (name, rest) = word.text.split_once('.')?;
        let value = rest.strip_prefix(parameter)?.strip_prefix('=')?.to_owned();
        is_same(name, module).then_some(value)
    });
    if let Some(value) = argument {
        return Some(InForce { value, source: COMMAND_LINE.to_owned() });
    }
    let files = files(root);
    let last = settings(&files, module, parameter).pop()?;
    Some(InForce { value: last.value, source: files[last.file].path.clone() })
}

/// Whether two names are the same module. Hyphens and underscores are equal.
fn is_same(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;

    fn value(files: &[(&str, &str)], cmdline: &str) -> Option<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/cmdline", cmdline)].iter().chain(files) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = in_force(&Root::tree(folder.path()).unwrap(), "nvidia", "NVreg_RegistryDwords")?;
        Some((found.value, found.source))
    }

    #[test]
    fn the_last_file_and_then_the_kernel_command_line_are_in_force() {
        let keys = ("etc/modprobe.d/a.conf", "options nvidia NVreg_RegistryDwords=\"A=1;\"\n");
        let later = ("usr/lib/modprobe.d/b.conf", "options nvidia NVreg_RegistryDwords=B=1\n");
        assert_eq!(value(&[], "quiet"), None);
        assert_eq!(value(&[keys], "quiet").unwrap(), ("A=1;".to_owned(), "/etc/modprobe.d/a.conf".to_owned()));
        assert_eq!(value(&[later, keys], "quiet").unwrap().1, "/usr/lib/modprobe.d/b.conf");
        assert_eq!(
            value(&[keys, later], "ro nvidia.NVreg_RegistryDwords=\"C=1;D=2\" quiet").unwrap(),
            ("C=1;D=2".to_owned(), "/proc/cmdline".to_owned())
        );
    }
}
