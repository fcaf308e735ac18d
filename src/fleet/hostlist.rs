//! Host lists in the notation of Slurm: `node[001-003,007],login1`.

use std::collections::BTreeMap;

/// The names as one list that `srun --nodelist` and `scontrol show hostnames` accept. Names that differ only in one
/// number share a bracket if their numbers have the same width or no leading zeros.
#[must_use]
pub fn hostlist<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    // The key is the prefix, the suffix, and the width of a zero-padded number (0 without padding).
    let mut numbered: BTreeMap<(&str, &str, usize), Vec<u64>> = BTreeMap::new();
    let mut others: Vec<&str> = Vec::new();
    for name in names {
        match split(name) {
            Some((prefix, number, width, suffix)) => numbered.entry((prefix, suffix, width)).or_default().push(number),
            None => others.push(name),
        }
    }
    let mut parts = Vec::new();
    for ((prefix, suffix, width), mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        let ranges = ranges(&numbers, width);
        if numbers.len() == 1 {
            parts.push(format!("{prefix}{ranges}{suffix}"));
        } else {
            parts.push(format!("{prefix}[{ranges}]{suffix}"));
        }
    }
    others.sort_unstable();
    others.dedup();
    parts.extend(others.into_iter().map(str::to_owned));
    parts.join(",")
}

/// Splits a name at its last number: the text before it, its value, its width if it is zero-padded, and the text
/// after it.
fn split(name: &str) -> Option<(&str, u64, usize, &str)> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    let digits = &name[start..end];
    // Slurm permits fewer digits than this in a range.
    let number = digits.parse().ok().filter(|_| digits.len() <= 18)?;
    let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 };
    Some((&name[..start], number, width, &name[end..]))
}

fn ranges(numbers: &[u64], width: usize) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let length = rest.iter().zip(first..).take_while(|(number, expected)| **number == *expected).count();
        let last = first + length as u64 - 1;
        parts.push(if length == 1 { format!("{first:0width$}") } else { format!("{first:0width$}-{last:0width$}") });
        rest = rest.get(length..).unwrap_or_default();
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::hostlist;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn consecutive_numbers_become_ranges() {
        for (names, list) in [
            (&["node1", "node2", "node3", "node7"][..], "node[1-3,7]"),
            (&["node003", "node001", "node002"], "node[001-003]"),
            (&["n8", "n9", "n10", "n11"], "n[8-11]"),
            (&["n09", "n10"], "n10,n09"),
            (&["gpu-a-1", "gpu-b-1"], "gpu-a-1,gpu-b-1"),
            (&["n1-ib", "n2-ib"], "n[1-2]-ib"),
            (&["login", "node5", "node5"], "node5,login"),
            (&["7", "8"], "[7-8]"),
            (&["größe3"], "größe3"),
            (&["a99999999999999999999999"], "a99999999999999999999999"),
            (&[], ""),
        ] {
            assert_eq!(hostlist(names.iter().copied()), list);
        }
    }

    /// The names of a list, as Slurm expands it.
    fn expand(list: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut depth = 0;
        for part in list.split(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ',' && depth == 0
        }) {
            let Some((prefix, rest)) = part.split_once('[') else {
                names.insert(part.to_owned());
                continue;
            };
            let (ranges, suffix) = rest.split_once(']').unwrap();
            for range in ranges.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                for number in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                    names.insert(format!("{prefix}{number:0width$}{suffix}", width = first.len()));
                }
            }
        }
        names.remove("");
        names
    }

    proptest! {
        #[test]
        fn a_list_expands_to_its_names(names in prop::collection::btree_set("[a-c]{0,2}-?0{0,2}[0-9]{1,3}(x|-ib)?|[a-z]{1,3}", 0..60)) {
            prop_assert_eq!(expand(&hostlist(names.iter().map(String::as_str))), names);
        }
    }
}
