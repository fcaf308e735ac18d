//! Quotes words and command lines for a POSIX shell.

use std::borrow::Cow;

/// A word, quoted if a shell would interpret it.
#[must_use]
pub fn quoted(word: &str) -> Cow<'_, str> {
    // Options and assignments (`--set=a,b`, `NVreg_X=1`) are more readable without quotes. The shell interprets these
    // characters only at the beginning of a word or within braces.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+@=,%".contains(c);
    if word.chars().all(is_plain) && !word.starts_with(['=', '%']) && !word.is_empty() {
        return Cow::Borrowed(word);
    }
    // Quoting only fails for a NUL byte, which an argument of a process cannot contain.
    shlex::Quoter::new().allow_nul(true).quote(word).unwrap_or(Cow::Borrowed(word))
}

/// A command line in which each word is quoted if needed.
#[must_use]
pub fn quoted_line(argv: &[String]) -> String {
    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_words_stay_and_others_are_quoted() {
        for (word, expected) in [
            ("/run/udev/data/b254:0", "/run/udev/data/b254:0"),
            ("--x=/y,z", "--x=/y,z"),
            ("a b", "'a b'"),
            ("$HOME", "'$HOME'"),
            ("it's", "\"it's\""),
            ("=ls", "'=ls'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    proptest! {
        #[test]
        fn a_shell_gets_the_words_back(words in prop::collection::vec("[^\0]*", 0..5)) {
            prop_assert_eq!(shlex::split(&quoted_line(&words)), Some(words));
        }
    }
}
