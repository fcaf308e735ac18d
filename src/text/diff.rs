//! The lines that differ between two texts.

use similar::{ChangeTag, TextDiff};

/// One line of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// `@` for the position of the following lines, `-` for a line of the old text, `+` for a line of the new text, a
    /// space for a line of both.
    pub mark: char,
    /// The line without its line end.
    pub text: String,
}

/// The different lines in groups. Each group begins with its position (`@@ -1,2 +1,3 @@`) and contains up to
/// `context` equal lines around the differences. Empty if the texts are equal.
#[must_use]
pub fn diff(before: &str, after: &str, context: usize) -> Vec<DiffLine> {
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(context).iter_hunks() {
        lines.push(DiffLine { mark: '@', text: hunk.header().to_string() });
        for change in hunk.iter_changes() {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let text = change.value().trim_end_matches('\n').trim_end_matches('\r').to_owned();
            lines.push(DiffLine { mark, text });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let line = |line: DiffLine| if line.mark == '@' { line.text } else { format!("{}{}", line.mark, line.text) };
        diff(before, after, 3).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_diff_reads_as_that_of_diff_u() {
        assert_eq!(shown("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b");
        assert_eq!(shown("1\n2\n3\n4\n5\n", "1\n2\n3\n4\nx\n5\n"), "@@ -2,4 +2,5 @@\n 2\n 3\n 4\n+x\n 5");
        assert_eq!(shown("a\n", "a\n"), "");
        assert_eq!(shown("a\r\n", "a\n"), "@@ -1 +1 @@\n-a\n+a");
    }

    #[test]
    fn changes_that_are_far_apart_are_two_groups() {
        let before: String = (0..40).map(|n| format!("{n}\n")).collect();
        let after = before.replace("\n3\n", "\nx\n").replace("\n33\n", "\ny\n");
        let lines = diff(&before, &after, 2);
        assert_eq!(lines.iter().filter(|line| line.mark == '@').count(), 2);
        assert_eq!(lines.len(), 2 + 2 * (2 + 2 + 2));
    }
}
