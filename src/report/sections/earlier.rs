//! Earlier plans of the same session: one line per plan, with the directory of its report.

use crate::present::headline::earlier_plan;
use crate::report::section::Section;
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let line = |(number, page): (usize, &std::sync::Arc<State>)| {
        format!("{} An export has its report in {}/.", earlier_plan(page), folder_name(number, &page.race_title()))
    };
    Section::list("Earlier plans of the same session", state.earlier.iter().enumerate().map(line).collect())
}

/// The directory name of a plan: `1-kv-lmcache`. Only characters that are harmless in a path are kept, because the
/// title may be from an untrusted recording.
pub(in crate::report) fn folder_name(number: usize, title: &str) -> String {
    let plain: String = title.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    format!("{}-{}", number + 1, words.join("-").chars().take(60).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_plan_has_its_number_and_title() {
        assert_eq!(folder_name(0, "load Qwen3-0.6B, cold and hot"), "1-load-Qwen3-0.6B-cold-and-hot");
        assert_eq!(folder_name(1, "load ../../etc"), "2-load-..-..-etc");
        assert_eq!(folder_name(2, &"x".repeat(300)).len(), 62);
    }
}
