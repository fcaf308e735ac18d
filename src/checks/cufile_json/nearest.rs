//! Unknown keys of cufile.json, and the known key that is most similar to each.

use super::known::{KEYS, MISNAMED, is_section, known};
use super::types::{Problem, Severity};

/// The number of compared characters. It is longer than every known key, and it limits the time for files with
/// thousands of long keys.
const COMPARED: usize = 80;

/// Keys of guides and of earlier drafts, and the keys that set the same thing. Their names are not similar.
const RENAMED: [(&str, &str); 3] = [
    ("poll_mode_threshold_size_kb", "properties.poll_mode_max_size_kb"),
    ("poll_thresh_size_kb", "properties.poll_mode_max_size_kb"),
    ("max_batch_io_size", "properties.io_batchsize"),
];

/// The known key that is nearest to a name: the same last part in another section, otherwise the one with the fewest
/// changed characters.
pub(super) fn nearest(dotted: &str) -> Option<&'static str> {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let mine = dotted.rsplit('.').next().unwrap_or(dotted);
    if let Some((_, known)) = RENAMED.iter().find(|(old, _)| old.eq_ignore_ascii_case(mine)) {
        return Some(known);
    }
    // A section without its parent: `nfs` instead of `fs.nfs`.
    let inner = |key: &'static str| {
        let (outer, rest) = key.split_once('.')?;
        let (section, _) = rest.split_once('.')?;
        (section == dotted).then(|| &key[..outer.len() + 1 + section.len()])
    };
    if let Some(section) = KEYS.iter().find_map(|known| inner(known.key)) {
        return Some(section);
    }
    let own = of_file_system(dotted).map(|(section, _)| section);
    // A key of another file system has no effect on this one.
    let is_foreign = |key: &str| own.is_some() && of_file_system(key).is_some_and(|(section, _)| Some(section) != own);
    // libcufile's keys have no capital letters, so the case is ignored.
    let far = |a: &str, b: &str| distance(&a.to_ascii_lowercase(), b);
    let best = KEYS
        .iter()
        .filter(|known| !is_foreign(known.key))
        .map(|known| {
            let of_last = far(mine, last(known.key));
            let whole = far(dotted, known.key);
            // A name without a section probably belongs to the properties.
            let is_elsewhere = !dotted.contains('.') && !known.key.starts_with("properties.");
            // A different section adds a small distance, so that the same section is preferred.
            (of_last * 4 + whole.min(3), is_elsewhere, whole, known.key)
        })
        .min()?
        .3;
    let of_last = far(mine, last(best));
    if of_last * 3 <= mine.len().max(last(best).len()) {
        return Some(best);
    }
    // The section may be misspelt.
    KEYS.iter()
        .filter_map(|known| known.key.split_once('.'))
        .map(|(section, _)| (far(dotted, section), section))
        .min()
        .filter(|(changed, _)| changed * 3 <= dotted.len())
        .map(|(_, section)| section)
}

/// The section and the name of a key in the section of a file system: `fs.nfs.x` becomes `fs.nfs` and `x`.
fn of_file_system(dotted: &str) -> Option<(&str, &str)> {
    let (name, key) = dotted.strip_prefix("fs.")?.split_once('.')?;
    Some((&dotted[.."fs.".len() + name.len()], key))
}

/// The remedy for a path that is used as a key: paths belong into the mount table of their file system.
pub(super) fn of_path(dotted: &str) -> Option<String> {
    let at = if dotted.starts_with('/') { 0 } else { dotted.find("./")? + 1 };
    let (section, path) = dotted.split_at(at);
    let table = format!("{section}mount_table");
    Some(if known(&table).is_some() {
        let entry = format!("\"mount_table\": {{ \"{path}\": {{ \"rdma_dev_addr_list\": [\"10.0.0.1\"] }} }}");
        format!("Move it into {table}: {entry}.")
    } else {
        "Move it into the mount_table of its file system, as fs.lustre.mount_table.".to_owned()
    })
}

/// The remedy for an unknown key that is not similar to a known one.
pub(super) fn without_similar(dotted: &str) -> String {
    let keys: Vec<&str> = match of_file_system(dotted) {
        Some((section, _)) => KEYS
            .iter()
            .filter_map(|known| of_file_system(known.key).filter(|(of, _)| *of == section))
            .map(|(_, key)| key)
            .collect(),
        None => Vec::new(),
    };
    match (of_file_system(dotted), keys.as_slice()) {
        (None, _) | (_, []) => "Remove it, or look up its name in the release notes of a newer libcufile.".to_owned(),
        (Some((section, _)), keys) => format!("Remove it; the keys of {section} are {}.", keys.join(", ")),
    }
}

/// The correct name of a key that libcufile does not know: the known one for a name that many files use, otherwise the
/// most similar one. `None` if there is none.
pub(crate) fn correct_name(key: &str) -> Option<&'static str> {
    match MISNAMED.iter().find(|(wrong, _)| *wrong == key) {
        Some((_, meant)) => (!meant.is_empty()).then_some(*meant),
        None => nearest(key),
    }
}

/// The known key for a name that libcufile ignores: a name of guides, or an unknown name in a known section.
#[must_use]
pub fn key_instead_of(name: &str) -> Option<&'static str> {
    let of_guides = || RENAMED.iter().any(|(old, _)| *old == name);
    let in_section = || name.rsplit_once('.').is_some_and(|(section, _)| is_section(section));
    let is_ignored = known(name).is_none() && !is_section(name) && (of_guides() || in_section());
    correct_name(name).filter(|meant| is_ignored && known(meant).is_some())
}

/// A key that libcufile ignores without a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Its dotted name.
    pub(crate) key: String,
    /// The name that was probably meant.
    pub(crate) meant: Option<&'static str>,
    /// Line, problem and remedy, as the linter reports them.
    pub(crate) text: String,
}

/// The unknown keys among the problems of a file (rules L9 and L10).
pub(crate) fn ignored(problems: &[Problem]) -> Vec<Ignored> {
    let is_unknown = |key: &str| known(key).is_none() && !is_section(key);
    problems
        .iter()
        .filter(|problem| problem.severity == Severity::Warning && matches!(problem.rule.as_str(), "L9" | "L10"))
        .filter_map(|problem| {
            let key = problem.key.clone().filter(|key| is_unknown(key))?;
            let text = format!("line {}: {}. {}", problem.line, problem.what, problem.todo);
            Some(Ignored { meant: correct_name(&key), key, text: text.trim_end_matches('.').to_owned() })
        })
        .collect()
}

/// The Levenshtein distance of the first [`COMPARED`] characters.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let bounded = |text: &str| text.chars().take(COMPARED).collect::<String>();
    strsim::levenshtein(&bounded(a), &bounded(b))
}
