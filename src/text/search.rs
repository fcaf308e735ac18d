//! Searches text for several parts.

/// Whether a line contains all parts in this order, without overlaps.
#[must_use]
pub fn contains_in_order(line: &str, parts: &[&str]) -> bool {
    let mut rest = line;
    parts.iter().all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

#[cfg(test)]
mod tests {
    use super::contains_in_order;

    #[test]
    fn parts_are_found_only_in_their_order() {
        assert!(contains_in_order("open failed with 5027", &["open", "5027"]));
        assert!(!contains_in_order("open failed with 5027", &["5027", "open"]));
        assert!(!contains_in_order("open", &["open", "open"]));
        assert!(contains_in_order("", &[]));
    }
}
