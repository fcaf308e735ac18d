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

/// The commands in a text for a root user on a machine without sudo.
#[must_use]
pub fn without_sudo(text: &str) -> String {
    const OPTIONS: [&str; 3] = ["--preserve-env=CUFILE_ENV_PATH_JSON ", "-E ", "-n "];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, found)) = rest.split_once("sudo") {
        out.push_str(before);
        let is_word = !out.ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c));
        if let Some(file) = found.strip_prefix("edit ").filter(|_| is_word) {
            out.push_str("${EDITOR:-vi} ");
            rest = file;
        } else if let Some(command) = found.strip_prefix(' ').filter(|_| is_word) {
            rest = OPTIONS.iter().find_map(|option| command.strip_prefix(*option)).unwrap_or(command);
        } else {
            out.push_str("sudo");
            rest = found;
        }
    }
    out.push_str(rest);
    out
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

    #[test]
    fn commands_for_root_lose_sudo_and_other_words_stay() {
        for (text, expected) in [
            ("Run `sudo dkms status && sudo reboot`.", "Run `dkms status && reboot`."),
            ("echo x | sudo tee -a /etc/f", "echo x | tee -a /etc/f"),
            ("sudoedit /etc/cufile.json", "${EDITOR:-vi} /etc/cufile.json"),
            ("sudo --preserve-env=CUFILE_ENV_PATH_JSON gds-top fix a", "gds-top fix a"),
            ("root=$(sudo grub-probe /)", "root=$(grub-probe /)"),
            ("/usr/bin/sudo -v, pseudo code and fixes need sudo", "/usr/bin/sudo -v, pseudo code and fixes need sudo"),
        ] {
            assert_eq!(without_sudo(text), expected);
        }
    }

    proptest! {
        #[test]
        fn a_shell_gets_the_words_back(words in prop::collection::vec("[^\0]*", 0..5)) {
            prop_assert_eq!(shlex::split(&quoted_line(&words)), Some(words));
        }
    }
}
