//! Host lists in the notation of Slurm: `node[001-003,007],login1`.

use std::collections::BTreeMap;

/// The names as one list that `srun --nodelist` and `scontrol show hostnames` accept. Names that differ only in the number
/// at their end share a bracket, if their numbers have the same width or no leading zero. Slurm rejects text after a
/// bracket, so names with a number elsewhere are listed one by one. Characters that a host name cannot have are
/// replaced by `?`, because the list is copied to command lines.
#[must_use]
pub fn hostlist<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(host_name).collect();
    // By prefix and width of a padded number (0 if it is not padded).
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut others: Vec<&str> = Vec::new();
    for name in &names {
        match split(name) {
            Some((prefix, number, width)) => numbered.entry((prefix, width)).or_default().push(number),
            None => others.push(name),
        }
    }
    let mut parts = Vec::new();
    for ((prefix, width), mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        let ranges = ranges(&numbers, width);
        parts.push(if numbers.len() == 1 { format!("{prefix}{ranges}") } else { format!("{prefix}[{ranges}]") });
    }
    others.sort_unstable();
    others.dedup();
    parts.extend(others.into_iter().map(str::to_owned));
    parts.join(",")
}

fn host_name(name: &str) -> String {
    let replaced = |(at, c): (usize, char)| {
        // A hyphen at the beginning would be an option.
        let is_allowed = c.is_alphanumeric() || c == '.' || c == '_' || (c == '-' && at > 0);
        if is_allowed { c } else { '?' }
    };
    name.char_indices().map(replaced).collect()
}

/// Splits a name before the number at its end: the text before it, its value, and its width if it is zero-padded.
fn split(name: &str) -> Option<(&str, u64, usize)> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = name.get(prefix.len()..)?;
    // Slurm's own limit on the digits of a range is lower than this.
    let number = digits.parse().ok().filter(|_| digits.len() <= 18)?;
    let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 };
    Some((prefix, number, width))
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
            (&["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
            (&["n1.example", "n2.example"], "n1.example,n2.example"),
            (&["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
            (&["login", "node5", "node5"], "node5,login"),
            (&["7", "8"], "[7-8]"),
            (&["größe3"], "größe3"),
            (&["a99999999999999999999999"], "a99999999999999999999999"),
            (&["gpu[1-3]", "gpu4"], "gpu4,gpu?1-3?"),
            (&["a b;c,d", "node1"], "node1,a?b?c?d"),
            (&["--version", "$(id)", "a\nb", "../x1"], "..?x1,?-version,??id?,a?b"),
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
            assert_eq!(suffix, "", "Slurm rejects text after a bracket");
            for range in ranges.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                for number in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                    names.insert(format!("{prefix}{number:0width$}", width = first.len()));
                }
            }
        }
        names.remove("");
        names
    }

    proptest! {
        #[test]
        fn a_list_expands_to_its_names(names in prop::collection::btree_set("([a-c]{1,2}-?)?0{0,2}[0-9]{1,3}(x|-ib)?|[a-z]{1,3}", 0..60)) {
            prop_assert_eq!(expand(&hostlist(names.iter().map(String::as_str))), names);
        }
    }
}
