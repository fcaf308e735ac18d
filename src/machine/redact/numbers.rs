//! Redacts addresses and UUIDs. They are found by their form and distinguished from versions, times and device ids,
//! which look similar.

use super::Redactor;
use std::net::{Ipv4Addr, Ipv6Addr};

const UUID: &str = "UUIDs of disks";
const ADDRESS: &str = "IP addresses";
const MAC: &str = "hardware addresses";

impl Redactor {
    /// Replaces addresses and UUIDs in a text.
    pub(super) fn numbers(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-');
        let mut rest = text;
        while let Some(start) = rest.find(part) {
            out.push_str(&rest[..start]);
            let from = &rest[start..];
            let end = from.find(|c: char| !part(c)).unwrap_or(from.len());
            // Digits with an adjacent letter are not an address or UUID: `GPU-…`, `libcufile.so.1.2.3.4`.
            let is_letter = |c: char| c.is_alphanumeric() || c == '_';
            let before = out.chars().next_back().is_some_and(is_letter);
            let after = from[end..].chars().next().is_some_and(is_letter);
            let mut token = &from[..end];
            if before && token.contains(':') && !token.starts_with(':') {
                // In `eth0:b8:3f:…`, the first part belongs to the preceding word.
                let (head, tail) = token.split_at(token.find(':').unwrap_or(0));
                out.push_str(head);
                token = tail;
            }
            let mut tail = "";
            if after && token.contains(':') && !token.ends_with(':') {
                (token, tail) = token.split_at(token.rfind(':').unwrap_or(token.len()));
            }
            // A colon or dash separates a number from the preceding word, except for UUIDs of GPUs and for versions.
            let is_gpu = ["GPU", "MIG"].iter().any(|kind| out.ends_with(kind));
            let parted = token.starts_with(':') || (token.starts_with('-') && !is_gpu);
            let glued = (before && !parted) || (after && tail.is_empty() && !token.ends_with(':'));
            match self.number(token, &out, glued) {
                Some(with) => out.push_str(&with),
                // Several addresses in one argument: `ip=10.0.0.2::10.0.0.1:255.255.255.0:`.
                None if !glued && token.contains(':') && token.contains('.') => {
                    for (at, part) in token.split(':').enumerate() {
                        if at > 0 {
                            out.push(':');
                        }
                        match self.number(part, &out, false) {
                            Some(with) => out.push_str(&with),
                            None => out.push_str(part),
                        }
                    }
                }
                None => out.push_str(token),
            }
            out.push_str(tail);
            rest = &from[end..];
        }
        out + rest
    }

    fn number(&mut self, token: &str, before: &str, glued: bool) -> Option<String> {
        if token.len() < 6 || glued {
            return None;
        }
        // Punctuation around the number is removed: `10.0.0.1:`, `10.0.0.1.`, `10.0.0.1:/export`.
        let core = if token.starts_with("::") { token } else { token.trim_start_matches(['-', '.', ':']) };
        let head = token.len() - core.len();
        let core = if core.ends_with("::") { core } else { core.trim_end_matches(['-', '.', ':']) };
        let tail = &token[head + core.len()..];
        let with = if is_uuid(core) {
            let next = self.replacement(UUID, core, "");
            format!("00000000-0000-4000-8000-{next:0>12}")
        } else if is_hex_groups(core, 6, 2) || is_hex_groups(&core.replace('-', ":"), 6, 2) {
            let next: u32 = self.replacement(MAC, core, "").parse().unwrap_or(0);
            format!("02:00:00:00:{:02x}:{:02x}", (next >> 8) & 255, next & 255)
        } else if is_hex_groups(core, 4, 4) {
            let next: u32 = self.replacement(MAC, core, "").parse().unwrap_or(0);
            format!("0200:0000:0000:{next:04x}")
        } else if let Some((address, port)) = ipv4(core) {
            if address.is_loopback() || address.is_unspecified() || address.octets()[0] == 255 || is_version(before) {
                return None;
            }
            let next: u32 = self.replacement(ADDRESS, &address.to_string(), "").parse().unwrap_or(0);
            // Addresses for documentation (RFC 5737) are used first, then a private range.
            let octets = if next < 255 {
                format!("192.0.2.{next}")
            } else {
                format!("10.255.{}.{}", (next >> 8) & 255, next & 255)
            };
            format!("{octets}{port}")
        } else if core.matches(':').count() >= 2
            && core.parse::<Ipv6Addr>().is_ok_and(|a| !a.is_loopback() && !a.is_unspecified())
        {
            let next: u32 = self.replacement(ADDRESS, core, "").parse().unwrap_or(0);
            format!("2001:db8::{next:x}")
        } else {
            return None;
        };
        Some(format!("{}{with}{tail}", &token[..head]))
    }
}

fn ipv4(core: &str) -> Option<(Ipv4Addr, &str)> {
    let (address, port) = core.split_at(core.find(':').unwrap_or(core.len()));
    Some((address.parse().ok()?, port))
}

/// Versions of cuFile also have four parts. A number after a word for a version, or in a directory name, is kept.
fn is_version(before: &str) -> bool {
    let tail: String = before.chars().rev().take(24).collect::<Vec<_>>().into_iter().rev().collect();
    let line = tail.rsplit('\n').next().unwrap_or("").to_ascii_lowercase();
    (line.ends_with('/') && !line.ends_with("//"))
        || ["version", "release", "libcufile", "cufile", "gds ", "driver"].iter().any(|word| line.contains(word))
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.len() == 5
        && groups
            .iter()
            .zip([8, 4, 4, 4, 12])
            .all(|(group, n)| group.len() == n && group.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_hex_groups(text: &str, count: usize, width: usize) -> bool {
    let groups: Vec<&str> = text.split(':').collect();
    groups.len() == count && groups.iter().all(|g| g.len() == width && g.bytes().all(|b| b.is_ascii_hexdigit()))
}
