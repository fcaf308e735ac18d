//! Finds the known name that is most similar to a mistyped name.

/// The most similar known name. `None` if none is similar enough for a suggestion.
#[must_use]
pub fn nearest<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let typed = typed.to_lowercase().replace(['-', ' '], "_");
    known
        .into_iter()
        .filter_map(|name| {
            let plain = name.replace('-', "_");
            // A name is similar if few letters differ, or if it has the same first letters. A name that begins with the
            // typed word is the best.
            let slips = strsim::damerau_levenshtein(&typed, &plain);
            let likeness = strsim::jaro_winkler(&typed, &plain);
            let is_begin = typed.len() > 2 && plain.starts_with(&format!("{typed}_"));
            let is_similar = is_begin || slips <= plain.len().div_ceil(3) || likeness > 0.8;
            is_similar.then_some((!is_begin, slips, likeness, name))
        })
        .min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)))
        .map(|(.., name)| name)
}

/// The text `; did you mean 'theme'?`, or the list of known names if none is similar.
#[must_use]
pub fn hint(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known.iter().copied()) {
        Some(name) => format!("; did you mean '{name}'?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_name_finds_it() {
        assert_eq!(nearest("udev", ["md-udev", "udev-record"]), Some("udev-record"));
    }

    #[test]
    fn a_slip_is_mended_and_a_stranger_gets_the_list() {
        let known = ["theme", "ascii", "markers", "frames_per_second"];
        for (typed, meant) in
            [("thme", "theme"), ("themes", "theme"), ("Marker", "markers"), ("frames-per-second", "frames_per_second")]
        {
            assert_eq!(nearest(typed, known), Some(meant), "{typed}");
        }
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(hint("zzz", &["a", "b"]), "; known are a, b");
    }
}
