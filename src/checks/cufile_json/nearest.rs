//! The known key that is most similar to an unknown key of cufile.json.

use super::known::KEYS;

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
    // libcufile's keys have no capital letters, so the case is ignored.
    let far = |a: &str, b: &str| distance(&a.to_ascii_lowercase(), b);
    let best = KEYS
        .iter()
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

/// The Levenshtein distance of the first [`COMPARED`] characters.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let bounded = |text: &str| text.chars().take(COMPARED).collect::<String>();
    strsim::levenshtein(&bounded(a), &bounded(b))
}
