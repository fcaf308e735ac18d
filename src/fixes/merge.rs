//! Taking a fix back out of a file that somebody else changed since: only its own lines go, what others wrote stays.

/// The text `now` without the change from `before` to `after`, where the changed lines stand in it once and whole. `None` where that is not plain: then a
/// person must look.
pub(super) fn without(now: &str, before: Option<&str>, after: &str) -> Option<String> {
    let (old, new, now): (Vec<&str>, Vec<&str>, Vec<&str>) = (lines(before.unwrap_or("")), lines(after), lines(now));
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if come.is_empty() {
        // Lines that were taken away can be put back behind a neighbour only, and which one is not known any more.
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
        // None of its lines is there any more: somebody took the fix back by hand, or wrote the file anew.
        (None, _) => {
            let is_in = |lines: &[&str], line: &str| lines.iter().any(|other| other.trim() == line.trim());
            let own: Vec<&&str> = come.iter().filter(|line| !line.trim().is_empty() && !is_in(&old, line)).collect();
            (!own.is_empty() && !own.iter().any(|line| is_in(&now, line))).then(|| now.concat())
        }
        _ => None,
    }
}

/// Lines with their ends.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_of_the_fix_go_and_what_others_wrote_stays() {
        for (before, after, now, wanted) in [
            // Lines above and below came.
            (Some("a\nb\nc\n"), "a\nB\nc\n", "x\na\nB\nc\ny\n", Some("x\na\nb\nc\ny\n")),
            // The fix's own file got a line.
            (None, "softdep\n", "# mine\nsoftdep\n", Some("# mine\n")),
            // A line was added by the fix, and another one changed by somebody.
            (Some("a\nc\n"), "a\nb\nc\n", "a\nb\nC\n", Some("a\nC\n")),
            // Its lines are gone, and others came.
            (Some("a\nc\n"), "a\nb\nc\n", "a\nz\nc\n", Some("a\nz\nc\n")),
            // Its line stands there twice, or was itself changed in part.
            (Some("a\n"), "a\nb\n", "a\nb\nb\nc\n", None),
            (Some("a\n"), "a\nb\nc\n", "a\nb\nd\n", None),
            // It only took a line away.
            (Some("a\nb\n"), "a\n", "a\nz\n", None),
            // Windows' line ends are part of a line.
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
