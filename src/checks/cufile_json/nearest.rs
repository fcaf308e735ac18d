//! The key that was probably meant by an unknown key of cufile.json.

use super::known::KEYS;

/// Letters of a key that are compared: more than any known one has, so that a file of thousands of long keys is read at once.
const COMPARED: usize = 80;

/// The known key that is nearest to a name: the same last part in another section, else the fewest changed letters.
pub(super) fn nearest(dotted: &str) -> Option<&'static str> {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let mine = dotted.rsplit('.').next().unwrap_or(dotted);
    // Capitals are a separate mistake: libcufile's keys have none.
    let far = |a: &str, b: &str| distance(&a.to_ascii_lowercase(), b);
    let best = KEYS
        .iter()
        .map(|known| {
            let of_last = far(mine, last(known.key));
            // Another section costs a little, so that the same section wins between equals.
            (of_last * 4 + far(dotted, known.key).min(3), known.key)
        })
        .min()?;
    let of_last = far(mine, last(best.1));
    if of_last * 3 <= mine.len().max(last(best.1).len()) {
        return Some(best.1);
    }
    // A misspelt section.
    KEYS.iter()
        .filter_map(|known| known.key.split_once('.'))
        .map(|(section, _)| (far(dotted, section), section))
        .min()
        .filter(|(changed, _)| changed * 3 <= dotted.len())
        .map(|(_, section)| section)
}

/// Levenshtein's distance in characters, bounded by the lengths of keys.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let bounded = |text: &str| text.chars().take(COMPARED).collect::<String>();
    strsim::levenshtein(&bounded(a), &bounded(b))
}
