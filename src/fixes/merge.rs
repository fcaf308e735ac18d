//! Removes a fix from a file that was changed later. Only the lines of the fix are removed.

/// Removes the change from `before` to `after` from the text `now`. `None` if `now` does not contain the changed
/// lines exactly once. The user must then decide.
pub(super) fn without(now: &str, before: Option<&str>, after: &str) -> Option<String> {
    let (old, new, now): (Vec<&str>, Vec<&str>, Vec<&str>) = (lines(before.unwrap_or("")), lines(after), lines(now));
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if come.is_empty() {
        // Removed lines cannot be restored, because their position in the new text is unknown.
        return None;
    }
    let mut found = now.windows(come.len()).enumerate().filter(|(_, lines)| *lines == come).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) => {
            let mut out: Vec<&str> = now[..at].to_vec();
            out.extend(gone);
            out.extend(&now[at + come.len()..]);
            Some(out.concat())
        }
        (None, _) => {
            // The fix added words to a line that was changed later. The words are removed from the new line, and its
            // other words are kept.
            let has = |lines: &[&str], words: &Words<'_>| lines.iter().any(|line| words.place(line).is_some());
            if let Some(words) = words(gone, come).filter(|words| has(&now, words) && !has(&old, words)) {
                return words.taken_out(&now);
            }
            // None of the lines exists any more. The fix was undone manually, or the file was replaced.
            let is_in = |lines: &[&str], line: &str| lines.iter().any(|other| other.trim() == line.trim());
            let own: Vec<&&str> = come.iter().filter(|line| !line.trim().is_empty() && !is_in(&old, line)).collect();
            (!own.is_empty() && !own.iter().any(|line| is_in(&now, line))).then(|| now.concat())
        }
        _ => None,
    }
}

/// The words that a fix changed in a line.
struct Words<'a> {
    /// Up to two words in front of them: `options nvme_core`.
    start: Vec<&'a str>,
    /// The words that the fix added.
    come: String,
    /// The words that the fix replaced. It can be empty.
    gone: String,
}

/// The words that differ in the changed line. `None` if several lines changed, if the first word changed, or if words
/// were only removed.
fn words<'a>(gone: &[&'a str], come: &[&'a str]) -> Option<Words<'a>> {
    let ([gone], [come]) = (gone, come) else { return None };
    let (old, new): (Vec<&str>, Vec<&str>) = (gone.split_whitespace().collect(), come.split_whitespace().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    (head > 0 && !come.is_empty()).then(|| Words {
        start: new[..head.min(2)].to_vec(),
        come: come.join(" "),
        gone: gone.join(" "),
    })
}

impl Words<'_> {
    /// The position of the words in a line with the same start. `None` if the line does not contain them exactly
    /// once.
    fn place(&self, line: &str) -> Option<std::ops::Range<usize>> {
        if !line.split_whitespace().take(self.start.len()).eq(self.start.iter().copied()) {
            return None;
        }
        let is_end = |rest: Option<char>| rest.is_none_or(char::is_whitespace);
        let mut found = line.match_indices(&self.come).map(|(at, text)| at..at + text.len()).filter(|place| {
            is_end(line[..place.start].chars().next_back()) && is_end(line[place.end..].chars().next())
        });
        match (found.next(), found.next()) {
            (Some(place), None) => Some(place),
            _ => None,
        }
    }

    /// The lines without the words, if one line contains them.
    fn taken_out(&self, now: &[&str]) -> Option<String> {
        let mut found = now.iter().enumerate().filter_map(|(at, line)| Some((at, self.place(line)?)));
        let (Some((at, place)), None) = (found.next(), found.next()) else { return None };
        let line = now[at];
        let before = if self.gone.is_empty() { line[..place.start].trim_end() } else { &line[..place.start] };
        let changed = format!("{before}{}{}", self.gone, &line[place.end..]);
        Some([&now[..at], &[changed.as_str()], &now[at + 1..]].concat().concat())
    }
}

/// The lines with their line breaks.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_of_the_fix_go_and_what_others_wrote_stays() {
        for (before, after, now, wanted) in [
            // Lines were added above and below.
            (Some("a\nb\nc\n"), "a\nB\nc\n", "x\na\nB\nc\ny\n", Some("x\na\nb\nc\ny\n")),
            // A line was added to the file of the fix.
            (None, "softdep\n", "# mine\nsoftdep\n", Some("# mine\n")),
            // The fix added a line, and another program changed another line.
            (Some("a\nc\n"), "a\nb\nc\n", "a\nb\nC\n", Some("a\nC\n")),
            // The lines of the fix were replaced by others.
            (Some("a\nc\n"), "a\nb\nc\n", "a\nz\nc\n", Some("a\nz\nc\n")),
            // The line of the fix exists twice, or was partly changed.
            (Some("a\n"), "a\nb\n", "a\nb\nb\nc\n", None),
            (Some("a\n"), "a\nb\nc\n", "a\nb\nd\n", None),
            // The fix only removed a line.
            (Some("a\nb\n"), "a\n", "a\nz\n", None),
            // The fix added a word to a line that was changed later.
            (Some("o m a=1\n"), "o m a=1 p=N\n", "o m a=2 p=N b=3\nx\n", Some("o m a=2 b=3\nx\n")),
            (Some("o m p=Y a=1\n"), "o m p=N a=1\n", "# c\no m p=N a=2\n", Some("# c\no m p=Y a=2\n")),
            (Some("o m a=1\n"), "o m a=1 p=N\n", "o m a=2 p=N\no m p=N b=3\n", None),
            (Some("k 0\nx\nk 1\n"), "k 1\nx\nk 1\n", "k 0\nx\nk 1 # y\n", None),
            (Some("o m a=1\n"), "o m a=1 p=N\n", "o m a=2\no n p=N\n", Some("o m a=2\no n p=N\n")),
            // Windows line breaks are part of a line.
            (Some("a\r\n"), "b\r\n", "b\r\nz\r\n", Some("a\r\nz\r\n")),
        ] {
            assert_eq!(without(now, before, after).as_deref(), wanted, "{before:?} {after:?} {now:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn with_nothing_added_it_is_the_text_from_before_or_no_answer(
            before in "([abc]{0,2}\n){0,6}", after in "([abc]{0,2}\n){0,6}", above in "(x\n){0,2}", below in "(y\n){0,2}",
        ) {
            let now = format!("{above}{after}{below}");
            if let Some(out) = without(&now, Some(&before), &after) {
                proptest::prop_assert!(out.starts_with(&above) && out.ends_with(&below));
                if before != after && !now.is_empty() && above.is_empty() && below.is_empty() {
                    proptest::prop_assert_eq!(out, before);
                }
            }
        }
    }
}
