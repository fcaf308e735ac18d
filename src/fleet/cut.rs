//! Cuts long texts of reports, and releases unused memory.

/// The end of an advice that was cut.
const REST: &str = "Run `gds-top check` on the node for the rest.";

/// Releases the unused memory of a list. Returns the bytes of its entries without their texts.
pub(super) fn shrunk<T>(list: &mut Vec<T>) -> usize {
    list.shrink_to_fit();
    list.len() * size_of::<T>()
}

/// Cuts a text to `most` bytes. Returns the bytes of the rest.
pub(super) fn cut(text: &mut String, most: usize) -> usize {
    if text.len() > most {
        text.truncate(boundary(text, most));
        text.push('…');
    }
    text.shrink_to_fit();
    text.len()
}

/// Cuts an advice to about `most` bytes, after a sentence: a part of a command can do harm. Returns the bytes of the
/// rest.
pub(super) fn cut_advice(text: &mut String, most: usize) -> usize {
    if text.len() > most {
        text.truncate(boundary(text, most));
        let (mut begin, mut end) = (0, 0);
        for (number, part) in text.split('`').enumerate() {
            // The parts between two backticks are commands.
            let sentence = part.rfind(". ").filter(|_| number % 2 == 0);
            end = sentence.map_or(end, |at| begin + at + 2);
            begin += part.len() + 1;
        }
        text.truncate(end);
        text.push_str(REST);
    }
    text.shrink_to_fit();
    text.len()
}

/// The last boundary of characters in the first `most` bytes.
fn boundary(text: &str, most: usize) -> usize {
    (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advice_is_cut_between_sentences_and_never_in_a_command() {
        const ADVICE: &str = "Copy the data. Then run `nvme format /dev/nvme0n1 && echo a. b && mount /é`. Reboot.";
        for most in 0..ADVICE.len() {
            let mut text = ADVICE.to_owned();
            let bytes = cut_advice(&mut text, most);
            let kept = text.strip_suffix(REST).unwrap_or_default();
            assert!(bytes == text.len() && kept.len() <= most && text.ends_with(REST), "{most}: {text}");
            assert!(["", "Copy the data. ", ADVICE.trim_end_matches("Reboot.")].contains(&kept), "{most}: {text}");
        }
        let mut text = ADVICE.to_owned();
        assert_eq!(cut_advice(&mut text, ADVICE.len()), ADVICE.len());
        assert_eq!(text, ADVICE);
    }
}
