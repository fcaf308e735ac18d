//! Structured values of cufile.json: addresses, mount tables, names with a dot.

use super::lint::{FATAL, Linter, SILENT};
use super::syntax::{Kind, Node};
use super::types::Severity;
use std::net::{Ipv4Addr, Ipv6Addr};

const LIST: &str = "rdma_dev_addr_list";

/// The form of an entry that this version of libcufile takes besides IPv4 addresses, by its messages: the name of an
/// interface from 1.16 on, and an IPv6 address from 1.18 on.
fn newer_form(text: &str, version: Option<(u32, u32)>) -> Option<&'static str> {
    let version = version?;
    let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    match () {
        () if is_name && version >= (1, 16) => Some("the name of an interface"),
        () if text.parse::<Ipv6Addr>().is_ok() && version >= (1, 18) => Some("an IPv6 address"),
        () => None,
    }
}

impl Linter<'_> {
    /// Reports a section and its key that are written as one dotted name.
    pub(super) fn flat(&mut self, dotted: &str, at: usize) {
        let todo = format!("Write the parts as sections: {}.", nested(dotted));
        self.say("L9", Severity::Warning, at, dotted, "libcufile does not split names at the dot", SILENT, todo);
    }

    /// Checks the addresses of network cards. libcufile accepts every text, but older versions find cards only by their
    /// IPv4 address.
    pub(super) fn addresses(&mut self, key: &str, node: &Node) {
        let Kind::List(items) = &node.kind else { return };
        if !key.ends_with(LIST) {
            return;
        }
        for item in items {
            if let Kind::Text(text) = &item.kind
                && text.parse::<Ipv4Addr>().is_err()
            {
                if let Some(form) = newer_form(text, self.around.version) {
                    let what = format!("\"{text}\" is {form}, and NVIDIA documents only IPv4 addresses");
                    let why = "libcufile accepts it; whether it then finds the network card is not known.";
                    let todo = "Write the IPv4 address of the network card if the log names no RDMA device.";
                    self.say("L21", Severity::Note, item.start, key, what, why, todo);
                    continue;
                }
                self.warn(
                    "L21",
                    item,
                    key,
                    format!("\"{text}\" is not an IPv4 address"),
                    "libcufile accepts it, but finds no network card with it.",
                    // The address is often copied with the length of its network.
                    match text.split_once('/').filter(|(address, _)| address.parse::<Ipv4Addr>().is_ok()) {
                        Some((address, _)) => format!("Write \"{address}\"."),
                        None => "Write the address of an RDMA network card: ip -br addr.".to_owned(),
                    },
                );
            }
        }
    }

    /// Checks the entries of a mount table. Each entry is an object with a list of addresses.
    pub(super) fn mounts(&mut self, key: &str, node: &Node) {
        for member in node.members() {
            if !matches!(member.value.kind, Kind::Object(_) | Kind::Null) {
                self.say(
                    "L3",
                    Severity::Error,
                    member.value.start,
                    key,
                    format!("the entry of {} must be an object in braces, it is {}", member.key, member.value.words()),
                    FATAL,
                    format!("Write \"{}\": {{ \"{LIST}\": [\"10.0.0.1\"] }}.", member.key),
                );
                continue;
            }
            if member.value.members().is_empty() {
                let what = format!("the entry of {} has no addresses", member.key);
                self.say("L9", Severity::Warning, member.value.start, key, what, SILENT, format!("Add {LIST}."));
            }
            for inner in member.value.members() {
                let is_list = match &inner.value.kind {
                    Kind::List(items) => items.iter().all(|item| matches!(item.kind, Kind::Text(_))),
                    kind => *kind == Kind::Null,
                };
                if inner.key == LIST && !is_list {
                    let what =
                        format!("{LIST} of {} must be a list of text, but is {}", member.key, inner.value.words());
                    let todo = format!("Write \"{LIST}\": [\"10.0.0.1\"].");
                    self.say("L3", Severity::Error, inner.value.start, key, what, FATAL, todo);
                } else if inner.key == LIST {
                    self.addresses(LIST, &inner.value);
                } else {
                    let what = format!("{} is not a key of a mount table", inner.key);
                    self.say("L9", Severity::Warning, inner.key_start, key, what, SILENT, format!("Write {LIST}."));
                }
            }
        }
    }
}

/// `"fs": { "nfs": { "mount_table": … } }` of `fs.nfs.mount_table`.
fn nested(dotted: &str) -> String {
    dotted.rsplit('.').fold("…".to_owned(), |inner, part| match inner.as_str() {
        "…" => format!("\"{part}\": …"),
        _ => format!("\"{part}\": {{ {inner} }}"),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_flat_name_is_shown_as_sections() {
        assert_eq!(super::nested("fs.nfs.x"), "\"fs\": { \"nfs\": { \"x\": … } }");
    }
}
