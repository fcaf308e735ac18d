//! Sets keys in the text of a cufile.json. Comments, order and spaces stay unchanged.

use super::known::{is_section, known};
use super::nearest::correct_name;
use super::syntax::{self, Kind, Node, place};
use std::fmt;

/// Why a key could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditError {
    /// The reason with line and column, in a sentence.
    pub sentence: String,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for EditError {}

/// Sets keys one after another. Keys are dotted, values are JSON text.
///
/// # Errors
/// If the text cannot be parsed, or a section is not an object.
pub fn set_keys(text: &str, keys: &[(&str, &str)]) -> Result<String, EditError> {
    let mut out = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
    for (key, value) in keys {
        out = set(&out, key, value)?;
    }
    Ok(out)
}

/// Renames misspelt keys to these keys, if the text does not have them yet. A text that cannot be parsed is unchanged.
#[must_use]
pub fn rename_misspelt(text: &str, keys: &[&str]) -> String {
    keys.iter().fold(text.to_owned(), |text, key| rename(&text, key).unwrap_or(text))
}

fn rename(text: &str, key: &str) -> Option<String> {
    let top = syntax::parse(text).ok()?.top;
    let (section, name) = key.rsplit_once('.')?;
    let is_wrong = |member: &&syntax::Member| {
        let dotted = format!("{section}.{}", member.key);
        known(&dotted).is_none() && !is_section(&dotted) && correct_name(&dotted) == Some(key)
    };
    let members = top.at(section).filter(|node| node.member(name).is_none())?.members();
    let wrong = members.iter().find(is_wrong)?;
    let end = wrong.key_start + wrong.key.len() + 2;
    // A key with escapes is longer in the text.
    (text.get(wrong.key_start..end)? == format!("\"{}\"", wrong.key))
        .then(|| splice(text, wrong.key_start, end, &format!("\"{name}\"")))
}

fn set(text: &str, key: &str, value: &str) -> Result<String, EditError> {
    let wrong = |at: usize, what: &str| {
        let (line, column) = place(text, at);
        EditError { sentence: format!("line {line}, column {column}: {what}; correct that first") }
    };
    let document = syntax::parse(text).map_err(|mistake| wrong(mistake.at, &mistake.what))?;
    let parts: Vec<&str> = key.split('.').collect();
    let mut node = &document.top;
    for (depth, part) in parts.iter().enumerate() {
        match node.kind {
            Kind::Object(_) => {}
            // The library treats this value as "not set". A section replaces it.
            Kind::Null => return Ok(splice(text, node.start, node.end, &nested(&parts[depth..], value))),
            _ => return Err(wrong(node.start, "an object in braces is expected")),
        }
        match node.member(part) {
            Some(member) => node = &member.value,
            None => return Ok(insert(text, node, part, &nested(&parts[depth + 1..], value))),
        }
    }
    Ok(splice(text, node.start, node.end, value))
}

/// `a.b` and `1` become `{ "a": { "b": 1 } }`. Without keys it is the value itself.
fn nested(parts: &[&str], value: &str) -> String {
    parts.iter().rev().fold(value.to_owned(), |inner, part| format!("{{ \"{part}\": {inner} }}"))
}

fn splice(text: &str, start: usize, end: usize, with: &str) -> String {
    format!("{}{with}{}", &text[..start], &text[end..])
}

/// Adds a member after the last one, with the same indentation as its neighbours.
fn insert(text: &str, object: &Node, key: &str, value: &str) -> String {
    let member = format!("\"{key}\": {value}");
    let members = object.members();
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return empty(text, object, &member);
    };
    let line_start = text[..first.key_start].rfind('\n').map_or(0, |at| at + 1);
    let indent = &text[line_start..first.key_start];
    let on_its_own_line = line_start > object.start && indent.trim().is_empty();
    if !on_its_own_line {
        return splice(text, last.value.end, last.value.end, &format!(", {member}"));
    }
    let newline = if text[..first.key_start].ends_with(&format!("\r\n{indent}")) { "\r\n" } else { "\n" };
    // A comment on the line of the last member stays on this line.
    let comma_at = last.value.end;
    let member_at = comma_at + same_line_comment(&text[comma_at..object.end]);
    format!("{},{}{newline}{indent}{member}{}", &text[..comma_at], &text[comma_at..member_at], &text[member_at..])
}

/// Adds a member to an empty object. Spaces and comments between its braces are kept.
fn empty(text: &str, object: &Node, member: &str) -> String {
    let inside = &text[object.start + 1..object.end - 1];
    if inside.trim().is_empty() && inside.contains('\n') {
        // The braces are on two lines.
        let line_start = text[..object.start].rfind('\n').map_or(0, |at| at + 1);
        let outer: String = text[line_start..].chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        let newline = if inside.contains("\r\n") { "\r\n" } else { "\n" };
        return splice(text, object.start + 1, object.start + 1, &format!("{newline}{outer}  {member}"));
    }
    splice(text, object.start + 1, object.start + 1, &format!(" {member} "))
}

/// The length of spaces and one comment at the end of the line. It is 0 if the line has more text.
fn same_line_comment(rest: &str) -> usize {
    let line = rest.find('\n').unwrap_or(rest.len());
    let line = if rest[..line].ends_with('\r') { line - 1 } else { line };
    let text = rest[..line].trim();
    let block = text.starts_with("/*") && text.len() >= 4 && text.find("*/") == Some(text.len() - 2);
    if text.starts_with("//") || block { line } else { 0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [(&str, &str); 2] = [("properties.use_pci_p2pdma", "true"), ("block.nvme.use_pci_p2pdma", "true")];

    #[test]
    fn comments_order_and_manner_are_kept() {
        let before = "// mine\n{\n    \"logging\": { \"level\": \"ERROR\" }, // loud\n    \"properties\": {\n\t\"b\": 1, /* why */\n\t\"a\": 2 // last\n    } // end\n}\n";
        let after = set_keys(before, &KEYS).unwrap();
        assert_eq!(
            after,
            "// mine\n{\n    \"logging\": { \"level\": \"ERROR\" }, // loud\n    \"properties\": {\n\t\"b\": 1, /* why */\n\t\"a\": 2, // last\n\t\"use_pci_p2pdma\": true\n    }, // end\n    \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } }\n}\n"
        );
        assert_eq!(set_keys(&after, &KEYS).unwrap(), after, "setting what is set changes nothing");
    }

    #[test]
    fn a_value_that_is_there_is_replaced_and_nothing_else() {
        let before = "{\"properties\":{ \"use_pci_p2pdma\" : false /* off */ }}";
        let after = set_keys(before, &KEYS[..1]).unwrap();
        assert_eq!(after, "{\"properties\":{ \"use_pci_p2pdma\" : true /* off */ }}");
    }

    #[test]
    fn misspelt_keys_are_renamed_in_place() {
        let keys = KEYS.map(|(key, _)| key);
        let before = "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { /* on */ \"use_p2pdma\" : true } } }";
        let after = rename_misspelt(before, &keys);
        assert_eq!(after, before.replace("\"use_p2pdma\"", "\"use_pci_p2pdma\""));
        assert_eq!(rename_misspelt(&after, &keys), after);
        // A key that is there is not written twice, and another key is not touched.
        for other in [
            "{\"block\":{\"nvme\":{\"use_pci_p2pdma\":false,\"use_p2pdma\":true}}}",
            "{\"block\":{\"nvme\":{\"x\":1}}}",
            "{,}",
        ] {
            assert_eq!(rename_misspelt(other, &keys), other);
        }
    }

    #[test]
    fn empty_files_and_sections_are_filled() {
        assert_eq!(
            set_keys("", &KEYS).unwrap(),
            "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }\n"
        );
        assert_eq!(
            set_keys("{\r\n}\r\n", &KEYS[..1]).unwrap(),
            "{\r\n  \"properties\": { \"use_pci_p2pdma\": true }\r\n}\r\n"
        );
        assert_eq!(
            set_keys("{\"properties\":null}", &KEYS[..1]).unwrap(),
            "{\"properties\":{ \"use_pci_p2pdma\": true }}"
        );
    }

    #[test]
    fn an_error_has_the_place_that_cannot_be_edited() {
        let said = set_keys("{\n \"properties\": 5\n}", &KEYS).unwrap_err().sentence;
        assert!(said.starts_with("line 2, column 16: "), "{said}");
        assert!(set_keys("{,}", &KEYS).is_err());
    }

    fn blank() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["", " ", "\n", "\n  ", " /* c */ ", " // e\n", "\t", "\r\n "])
    }

    /// Objects in many layouts, with comments at all possible places.
    fn object() -> impl Strategy<Value = String> {
        let leaf =
            prop::sample::select(vec!["true", "1", "\"x//y\"", "[1, 2]", "null", "{}", "{ }"]).prop_map(str::to_owned);
        leaf.prop_recursive(3, 24, 4, |inner| {
            let key = prop::sample::select(vec!["properties", "block", "nvme", "use_pci_p2pdma", "é"]);
            prop::collection::vec((blank(), key, blank(), blank(), inner, blank()), 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(a, key, b, c, value, d)| format!("{a}\"{key}\"{b}:{c}{value}{d}")).collect();
                format!("{{{}}}", members.join(","))
            })
        })
        .prop_filter("an object", |text| text.starts_with('{'))
    }

    proptest! {
        #[test]
        fn after_an_edit_the_key_has_its_value_and_all_other_text_is_there(text in object(), number in 0_u32..9) {
            let value = number.to_string();
            let Ok(after) = set_keys(&text, &[("block.nvme.use_pci_p2pdma", &value)]) else { return Ok(()) };
            let parsed = syntax::parse(&after).unwrap().top;
            prop_assert_eq!(parsed.at("block.nvme.use_pci_p2pdma").unwrap().value(), serde_json::json!(number));
            // The texts differ in one value, or in a comma and one member.
            let head = text.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
            let before = syntax::parse(&text).unwrap().top;
            let section = || before.at("block.nvme").or_else(|| before.at("block")).filter(|node| !matches!(node.kind, Kind::Object(_)));
            let replaced = before.at("block.nvme.use_pci_p2pdma").or_else(section);
            if let Some(node) = replaced {
                prop_assert!(head >= node.start);
                prop_assert!(after.ends_with(&text[node.end..]));
            } else {
                let mut rest = after.bytes();
                prop_assert!(text.bytes().all(|b| rest.any(|c| c == b)), "text was lost: {after}");
                prop_assert_eq!(after.matches("c */").count(), text.matches("c */").count());
            }
            // Every other key keeps its value.
            let section = |top: &Node, key: &str| top.member(key).map(|m| m.value.value());
            for key in ["properties", "nvme", "use_pci_p2pdma", "é"] {
                prop_assert_eq!(section(&parsed, key), section(&before, key));
            }
        }

        #[test]
        fn any_text_is_an_answer_and_never_a_crash(text in "\\PC{0,60}") {
            let _ = set_keys(&text, &KEYS);
        }
    }
}
