//! The table of contents of a page: titles with their anchors.

use super::section::Section;
use std::collections::BTreeMap;

/// The sections before the table of contents, and the others.
pub(super) fn split(sections: &[Section]) -> (&[Section], &[Section]) {
    let first = sections.iter().take_while(|section| section.leads).count();
    sections.split_at(first)
}

/// Each title with a unique anchor. Anchors are formed like those of headings on GitHub and GitLab: lower-case
/// letters, digits, `-` and `_`, with a number if the title occurred before.
pub(super) fn anchors<'a>(titles: impl Iterator<Item = &'a str>) -> Vec<(&'a str, String)> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let one = |title: &'a str| {
        let kept = title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        let anchor = kept.replace(' ', "-");
        let count = seen.entry(anchor.clone()).and_modify(|count| *count += 1).or_insert(0);
        (title, if *count == 0 { anchor } else { format!("{anchor}-{count}") })
    };
    titles.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_rendered_headings_and_differ() {
        let titles = ["q06, cold cache, NVIDIA H200", "Advice", "Advice", "a <b> \"c\""];
        let anchors: Vec<String> = anchors(titles.into_iter()).into_iter().map(|(_, anchor)| anchor).collect();
        assert_eq!(anchors, ["q06-cold-cache-nvidia-h200", "advice", "advice-1", "a-b-c"]);
    }
}
