//! Finds secrets in any text: passwords, tokens, URLs with a user name and password, and kernel parameters that no
//! check reads.

/// The replacement of a secret.
pub(super) const GONE: &str = "redacted";

/// Kernel parameters whose values are kept, because they concern devices, memory and booting. All others may contain
/// addresses, names or keys of the site.
const KEPT: &[&str] = &[
    "acpi",
    "amd_iommu",
    "apparmor",
    "arm-smmu",
    "audit",
    "boot_image",
    "cgroup",
    "clocksource",
    "console",
    "cpu",
    "crashkernel",
    "default_hugepagesz",
    "efi",
    "earlycon",
    "elevator",
    "fips",
    "hugepages",
    "initrd",
    "intel_idle",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "isolcpus",
    "kvm",
    "lockdown",
    "loglevel",
    "lsm",
    "mem",
    "mitigations",
    "modprobe",
    "module",
    "net.ifnames",
    "nohz",
    "numa",
    "nvidia",
    "nvme",
    "nvreg",
    "panic",
    "pci",
    "pcie",
    "preempt",
    "processor",
    "quiet",
    "rcu",
    "rd.driver",
    "resume",
    "root",
    "rootdelay",
    "rootflags",
    "rootfstype",
    "rootwait",
    "scsi_mod",
    "security",
    "selinux",
    "splash",
    "swiotlb",
    "systemd.unified_cgroup_hierarchy",
    "transparent_hugepage",
    "tsc",
    "vfio",
    "vga",
    "video",
];

/// Public servers that do not identify a site.
const PUBLIC: &[&str] = &[
    "nvidia.com",
    "ubuntu.com",
    "debian.org",
    "fedoraproject.org",
    "redhat.com",
    "rockylinux.org",
    "almalinux.org",
    "suse.com",
    "opensuse.org",
    "kernel.org",
    "github.com",
    "freedesktop.org",
];

/// Parts of names whose values are secret.
const SECRET: &[&str] =
    &["password", "passwd", "passphrase", "pwd", "token", "secret", "credential", "authorization", "bearer", "apikey"];

/// Prefixes of well-known token formats.
const SHAPES: &[&str] =
    &["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "hf_", "nvapi-", "sk-", "xoxb-", "xoxp-", "AKIA", "eyJ"];

/// The values that were removed from a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    /// The number of passwords, tokens, queries of URLs and kernel parameters.
    pub(super) secrets: usize,
    /// The servers of URLs and mail addresses.
    pub(super) servers: Vec<String>,
}

/// Removes secrets from a text. Returns the new text and the removed values.
pub(super) fn without(text: &str) -> (String, Removed) {
    let mut removed = Removed::default();
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let line = match line.find("ommand line: ").map(|at| at + "ommand line: ".len()) {
            Some(at) => format!("{}{}", &line[..at], command_line(&line[at..], &mut removed.secrets)),
            None => line.to_owned(),
        };
        let line = named(&addresses(&line, &mut removed), &mut removed.secrets);
        out.push_str(&mail(&shapes(&line, &mut removed.secrets), &mut removed.servers));
    }
    (out, removed)
}

/// Removes secrets from a text.
#[must_use]
pub fn hidden(text: &str) -> String {
    without(text).0
}

/// The kernel command line without the values of parameters that no check reads.
pub(super) fn command_line(text: &str, count: &mut usize) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        match bare.split_once('=') {
            Some((key, value)) if !value.is_empty() && value != GONE && !is_kept(key) => {
                *count += 1;
                out.push_str(key);
                out.push('=');
                out.push_str(GONE);
                out.push_str(&word[bare.len()..]);
            }
            _ => out.push_str(word),
        }
    }
    out
}

fn is_kept(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    KEPT.iter()
        .any(|kept| key.strip_prefix(kept).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic())))
}

/// Whether the name of a variable indicates a secret value.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|word| name.contains(word))
        || ["_key", "-key", "_auth", "_pass"].iter().any(|end| name.ends_with(end))
}

/// Removes user name, password, server and query string from `https://name:password@server/path?token`.
fn addresses(text: &str, removed: &mut Removed) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, from) = rest.split_at(at + 3);
        out.push_str(before);
        let end = from.find(|c: char| c.is_whitespace() || "\"'<>)]},;".contains(c)).unwrap_or(from.len());
        let address = &from[..end];
        let (server, path) = address.split_at(address.find(['/', '?', '#']).unwrap_or(address.len()));
        if server.is_empty() || is_public(server.split(':').next().unwrap_or_default()) || server == GONE {
            out.push_str(server);
        } else {
            // The user name and the password before the server are a secret.
            removed.secrets += usize::from(server.contains('@'));
            removed.servers.push(server.rsplit('@').next().unwrap_or(server).to_ascii_lowercase());
            out.push_str(GONE);
        }
        match path.find('?') {
            Some(query) if &path[query + 1..] != GONE => {
                removed.secrets += 1;
                out.push_str(&path[..=query]);
                out.push_str(GONE);
            }
            _ => out.push_str(path),
        }
        rest = &from[end..];
    }
    out + rest
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// Removes values after a secret name: `join_token=…`, `"secret": "…"`, `password hunter2`.
fn named(text: &str, count: &mut usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_key) {
        let end = rest[start..].find(|c| !is_of_key(c)).map_or(rest.len(), |length| start + length);
        let key = &rest[start..end];
        out.push_str(&rest[..end]);
        rest = &rest[end..];
        if !is_secret_name(key) {
            continue;
        }
        let quoted = rest.starts_with('"');
        let after = if quoted { &rest[1..] } else { rest };
        let gap = after.len() - after.trim_start_matches([' ', '\t', '=', ':']).len();
        let (lead, value) = after.split_at(gap);
        let is_assigned = lead.contains(['=', ':']);
        if gap == 0 || (quoted && !(is_assigned && value.starts_with('"'))) {
            continue;
        }
        let opening = value.len() - value.trim_start_matches(['"', '\'']).len();
        let (quote, value) = value.split_at(opening);
        let stop = |c: char| {
            if quote.is_empty() { c.is_whitespace() || ",;)\"'".contains(c) } else { quote.contains(c) || c == '\n' }
        };
        let length = value.find(stop).unwrap_or(value.len());
        let secret = &value[..length];
        // If only a space separates name and value, an ordinary word is not a secret: 'token bucket'.
        let is_secret =
            if is_assigned { length >= 3 } else { length >= 6 && secret.contains(|c: char| c.is_ascii_digit()) };
        if !is_secret || secret == GONE || secret.starts_with('/') {
            continue;
        }
        *count += 1;
        let skipped = rest.len() - value.len();
        out.push_str(&rest[..skipped]);
        out.push_str(GONE);
        rest = &value[length..];
    }
    out + rest
}

/// Replaces the server of a mail address: `alice@corp.internal` becomes `alice@redacted`.
fn mail(text: &str, servers: &mut Vec<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let (before, from) = rest.split_at(at + 1);
        out.push_str(before);
        let end = from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.')).unwrap_or(from.len());
        let server = from[..end].trim_end_matches(['.', '-']);
        let last = server.rsplit('.').next().unwrap_or_default();
        // `getty@tty1.service` is a unit of systemd. `mgs@10.0.0.1` is handled by another rule.
        let is_server = server.contains('.')
            && last.len() > 1
            && last.bytes().all(|b| b.is_ascii_alphabetic())
            && !["service", "socket", "target", "mount", "timer", "path", "slice", "scope", "device"].contains(&last)
            && before[..at].ends_with(is_of_key)
            && !is_public(server);
        if is_server {
            servers.push(server.to_ascii_lowercase());
            out.push_str(GONE);
            rest = &from[server.len()..];
        } else {
            rest = from;
        }
    }
    out + rest
}

fn is_public(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    PUBLIC.iter().any(|known| host == *known || host.ends_with(&format!(".{known}")))
}

/// Removes tokens that have a well-known prefix.
fn shapes(text: &str, count: &mut usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_key) {
        let end = rest[start..].find(|c| !is_of_key(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        out.push_str(&rest[..start]);
        if word.len() >= 20 && SHAPES.iter().any(|shape| word.starts_with(shape)) {
            *count += 1;
            out.push_str(GONE);
        } else {
            out.push_str(word);
        }
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_passwords_tokens_and_addresses_go() {
        for (before, after) in [
            ("join_token=tok_9Q x", "join_token=redacted x"),
            ("ask alice@corp.internal, getty@tty1.service", "ask alice@redacted, getty@tty1.service"),
            ("// ask her, password hunter2, token: abc", "// ask her, password redacted, token: redacted"),
            (r#"{"secret_thing": "hunter 2", "n": 1}"#, r#"{"secret_thing": "redacted", "n": 1}"#),
            ("crypto_key='0x DEAD' y", "crypto_key='redacted' y"),
            ("see http://svc:pw@meta.corp/x?sig=1 now", "see http://redacted/x?redacted now"),
            (
                "deb https://developer.download.nvidia.com/compute /",
                "deb https://developer.download.nvidia.com/compute /",
            ),
            ("deb file:///var/nvidia-driver-local /", "deb file:///var/nvidia-driver-local /"),
            ("x ghp_16C7e42F292c6912E7710c838347Ae178B4a.", "x redacted"),
            (
                "Kernel command line: root=/dev/sda1 ip=10.1.2.3::gw ro intel_iommu=off iommu=pt pci=realloc join=abc\n",
                "Kernel command line: root=/dev/sda1 ip=redacted ro intel_iommu=off iommu=pt pci=realloc join=redacted\n",
            ),
        ] {
            assert_eq!(without(before).0, after);
            assert_eq!(without(after), (after.to_owned(), Removed::default()), "a second time nothing is left to take");
        }
    }

    #[test]
    fn words_that_only_sound_secret_stay() {
        for text in [
            "Loading of module with unavailable key is rejected",
            "Key was rejected by service",
            r#"{"token": true, "tokens": 5, "password": null}"#,
            "token bucket filter; the secret of good tea",
            "sk-buff sk-filter hf_transfer",
        ] {
            assert_eq!(without(text), (text.to_owned(), Removed::default()));
        }
    }

    #[test]
    fn the_servers_of_addresses_are_not_counted_as_secrets() {
        let text = "Homepage: https://site.example/a\nMaintainer: A <a@Lists.example>\nsee http://svc:pw@meta.corp/x\n";
        let (_, removed) = without(text);
        assert_eq!((removed.secrets, removed.servers.join(" ").as_str()), (1, "site.example lists.example meta.corp"));
    }
}
