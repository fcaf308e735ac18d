//! Turns parts of sentences into sentences.

/// Names that keep their case at the start of a sentence, in addition to words with a character that is not a letter.
const NAMES: &[&str] =
    &["libcufile", "udev", "nvfs", "modprobe", "dkms", "mokutil", "nouveau", "virtiofs", "btrfs", "ext", "xfs"];

/// The text with a capital letter. A name keeps its case: `nvidia-fs is not loaded`.
#[must_use]
pub fn capitalised(text: &str) -> String {
    let first = text.split([' ', ':', ',', ';']).next().unwrap_or_default();
    let is_name = !first.chars().all(char::is_alphabetic) || NAMES.contains(&first);
    let mut letters = text.chars();
    match letters.next() {
        Some(letter) if !is_name => letter.to_uppercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::capitalised;

    #[test]
    fn names_keep_their_case() {
        for (text, wanted) in [
            ("nvidia-fs is not loaded", "nvidia-fs is not loaded"),
            ("libcufile aborts", "libcufile aborts"),
            ("udev has no record", "udev has no record"),
            ("cufile.json: a key", "cufile.json: a key"),
            ("no route is open", "No route is open"),
            ("", ""),
        ] {
            assert_eq!(capitalised(text), wanted);
        }
    }
}
