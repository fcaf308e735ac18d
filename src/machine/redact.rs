//! Removes names from a capture. Equal names get equal replacements, so that relations stay visible.

use super::secrets;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

mod hosts;
mod numbers;

/// Minimum length of a word that is replaced. Shorter words also occur inside ordinary words.
const MIN_WORD: usize = 4;

/// Replaces names of the machine, its owner and its parts.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    /// Words that are replaced if no letter or digit is adjacent: kind, word, and prefix of the replacement. The
    /// longest word is first.
    words: Vec<(&'static str, String, &'static str)>,
    /// Names of users.
    users: Vec<String>,
    /// Domains of host names, for example `corp.example`.
    domains: Vec<String>,
    /// Home directories outside `/home`.
    homes: Vec<String>,
    /// The replaced words by kind. A name gets its number when it is first replaced. So numbers and counts do not
    /// depend on names that the capture does not contain.
    seen: BTreeMap<&'static str, BTreeMap<String, String>>,
}

const HOST: &str = "host names";
const USER: &str = "user names in paths";
const SERIAL: &str = "serial numbers";
const SECRET: &str = "passwords, tokens and the like";
const SERVER: &str = "servers of URLs and mail addresses";

/// Host and user names that many machines share and that are also words in the examined files. They do not identify a
/// machine, and replacing them would change findings.
const ORDINARY: &[&str] = &[
    "almalinux",
    "amazon",
    "arch",
    "centos",
    "cuda",
    "cufile",
    "data",
    "debian",
    "default",
    "docker",
    "ext4",
    "fedora",
    "gpu",
    "host",
    "linux",
    "local",
    "localhost",
    "localdomain",
    "machine",
    "mnt",
    "model",
    "models",
    "node",
    "nvidia",
    "nvme",
    "opensuse",
    "rhel",
    "rocky",
    "root",
    "server",
    "sles",
    "suse",
    "test",
    "ubuntu",
    "user",
    "work",
    "worker",
    "workstation",
];

impl Redactor {
    pub(super) fn host(&mut self, name: &str) {
        let name = name.trim().trim_end_matches('.');
        if let Some((_, domain)) = name.split_once('.') {
            self.domain(domain);
        }
        for part in [name, name.split('.').next().unwrap_or("")] {
            if ORDINARY.contains(&part.to_ascii_lowercase().as_str()) {
                continue;
            }
            self.word(HOST, part, "host");
            // Device mapper doubles each dash, and installers often name the volume group after the host.
            if part.contains('-') {
                self.word(HOST, &part.replace('-', "--"), "host");
            }
        }
    }

    /// Registers the names in the settings of Storage Scale: `clusterName NAME` and the nodes in lines `[NODE,NODE]`. Names
    /// without a digit or a dot can be ordinary words, as those of classes of nodes.
    pub(super) fn cluster(&mut self, settings: &str) {
        for line in settings.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("clusterName ").filter(|name| name.contains('.')) {
                self.word(HOST, name.trim(), "host");
            }
            let nodes = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).unwrap_or_default();
            for name in nodes.split(',').filter(|name| name.contains(|letter: char| letter.is_ascii_digit())) {
                // The checks compare the first part with the name of the machine.
                let (host, domain) = name.trim().split_once('.').unwrap_or((name, ""));
                self.host(host);
                self.domain(domain);
            }
        }
    }

    /// The redacted value of an environment variable.
    pub(super) fn variable(&mut self, name: &str, value: &str) -> String {
        if secrets::is_secret_name(name) {
            return self.secret(value);
        }
        self.text(value)
    }

    fn secret(&mut self, value: &str) -> String {
        self.replacement(SECRET, value, "secret");
        secrets::GONE.to_owned()
    }

    /// The redacted kernel command line.
    pub(super) fn command_line(&mut self, text: &str) -> String {
        let mut count = 0;
        let text = secrets::command_line(text, &mut count);
        self.count_secrets(count);
        self.text(&text)
    }

    fn count_secrets(&mut self, count: usize) {
        let known = self.seen.get(SECRET).map_or(0, BTreeMap::len);
        for more in 0..count {
            self.replacement(SECRET, &format!("#{}", known + more), "secret");
        }
    }

    pub(super) fn serial(&mut self, text: &str) {
        self.word(SERIAL, text.trim(), "serial");
    }

    /// Registers a home directory outside `/home`.
    pub(super) fn home(&mut self, home: &str) {
        let ordinary = home.starts_with("/home/") || home == "/root" || home.len() < 3;
        if !ordinary && !self.homes.iter().any(|known| known == home) {
            self.homes.push(home.to_owned());
        }
    }

    /// Registers a user of this machine.
    pub(super) fn user(&mut self, name: &str) {
        let is_person = name.len() > 1 && name != "root" && name != "nobody" && name.chars().all(is_of_name);
        if is_person && !self.users.iter().any(|known| known == name) {
            self.users.push(name.to_owned());
        }
    }

    /// Registers the names and home directories of the users in a text with the format of `/etc/passwd`.
    pub(super) fn people(&mut self, passwd: &str) {
        for line in passwd.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            let is_person =
                fields.get(2).and_then(|id| id.parse::<u32>().ok()).is_some_and(|id| (1000..65000).contains(&id));
            let (Some(name), Some(home)) = (fields.first().filter(|_| is_person), fields.get(5)) else { continue };
            self.home(home);
            self.user(name);
        }
    }

    /// Registers the server of a network file system from its source: `filer:/export`, `mgs01@o2ib:/scratch`.
    pub(super) fn server(&mut self, filesystem: &str, source: &str) {
        if !filesystem.starts_with("nfs")
            && !matches!(filesystem, "lustre" | "beegfs" | "ceph" | "cifs" | "smb3" | "wekafs")
        {
            return;
        }
        let from = source.trim_start_matches('/');
        for part in from.split(":/").next().unwrap_or_default().split(':') {
            let server = part.split(['@', '/']).next().unwrap_or_default();
            if server.parse::<Ipv4Addr>().is_err()
                && !server.contains('[')
                && source.contains(":/") | source.starts_with("//")
            {
                self.host(server);
            }
        }
    }

    fn word(&mut self, kind: &'static str, word: &str, base: &'static str) {
        if word.len() < MIN_WORD || self.words.iter().any(|(_, known, _)| known == word) {
            return;
        }
        self.words.push((kind, word.to_owned(), base));
        self.words.sort_by_key(|(_, word, _)| std::cmp::Reverse(word.len()));
    }

    fn replacement(&mut self, kind: &'static str, what: &str, base: &str) -> String {
        let known = self.seen.entry(kind).or_default();
        let next = known.len() + 1;
        known.entry(what.to_owned()).or_insert_with(|| format!("{base}{next}")).clone()
    }

    /// Registers the owners of the home directories in a text.
    pub(super) fn home_owners(&mut self, text: &str) {
        for from in text.split("/home/").skip(1) {
            let end = from.find(|c: char| !is_of_name(c)).unwrap_or(from.len());
            let name = &from[..end];
            if name.len() > 1 && !self.users.iter().any(|known| known == name) {
                self.users.push(name.to_owned());
            }
        }
    }

    /// Redacts all strings of a JSON value.
    pub(super) fn json(&mut self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = self.text(text),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            serde_json::Value::Object(map) => {
                for (key, mut inner) in std::mem::take(map) {
                    self.json(&mut inner);
                    map.insert(self.text(&key), inner);
                }
            }
            _ => {}
        }
    }

    /// Registers serial numbers and servers from the content of a file.
    pub(super) fn learn(&mut self, path: &Path, text: &str) {
        self.home_owners(text);
        self.learn_domains(text);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if matches!(name.as_str(), "serial" | "wwid" | "product_serial" | "board_serial" | "chassis_serial") {
            self.serial(text);
        }
        for line in text.lines() {
            let line = line.trim();
            if let Some((key, value)) = line.strip_prefix("E:").and_then(|line| line.split_once('=')) {
                let names_a_disk = [
                    "ID_SERIAL",
                    "ID_WWN",
                    "ID_SCSI_SERIAL",
                    "DM_UUID",
                    "MD_UUID",
                    "ID_FS_UUID",
                    "ID_PART_ENTRY_UUID",
                    "ID_PART_TABLE_UUID",
                ];
                if names_a_disk.iter().any(|known| key.starts_with(known)) {
                    self.serial(value);
                }
            }
            // World Wide Names of disks.
            for word in line.split(|c: char| !(c.is_alphanumeric() || "._:-".contains(c))) {
                let prefix = ["eui.", "naa.", "nqn.", "wwn-0x", "nvme-eui.", "nvme-uuid."]
                    .iter()
                    .find(|p| word.starts_with(**p));
                if prefix.is_some_and(|prefix| word.len() > prefix.len() + 7) {
                    self.serial(word);
                }
            }
            if let Some((_, serial)) = line.split_once("SerialNumber: ") {
                self.serial(serial);
            }
            if let Some((_, from)) = line.split_once("serial ").or_else(|| line.split_once("Serial ")) {
                let number = from.trim_start_matches("number").trim_start_matches([' ', ':', '#', '=']);
                let end = number.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(number.len());
                if end > 6 && number[..end].contains(|c: char| c.is_ascii_digit()) {
                    self.serial(&number[..end]);
                }
            }
            // Lines of mountinfo, fstab and mtab.
            let fields: Vec<&str> = line.split_whitespace().collect();
            match (fields.iter().position(|field| *field == "-"), fields.as_slice()) {
                (Some(at), _) if fields.len() > at + 2 => self.server(fields[at + 1], fields[at + 2]),
                (_, [source, _, filesystem, ..]) => self.server(filesystem, source),
                _ => {}
            }
            // Two forms are found: `… - nfs4 server:/export rw` and `server:/export /mnt nfs4 …`.
            if line.contains(" nfs") {
                for server in line.split_whitespace().filter_map(|word| word.split_once(":/")).map(|(server, _)| server)
                {
                    let is_name = server.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
                    if server.parse::<Ipv4Addr>().is_err() && is_name && !server.is_empty() {
                        self.host(server);
                    }
                }
            }
        }
    }

    /// The text with all registered names replaced.
    pub(super) fn text(&mut self, text: &str) -> String {
        let (mut out, removed) = secrets::without(text);
        self.count_secrets(removed.secrets);
        for server in &removed.servers {
            self.replacement(SERVER, server, "server");
        }
        for home in self.homes.clone() {
            out = replace_words(&out, &home, || format!("/home/{}", self.replacement(USER, &home, "user")));
        }
        out = self.home_folders(&out);
        // A user name may also be an ordinary word (ubuntu, data). So it is replaced only in places where it must be
        // a name.
        for name in self.users.clone() {
            let places = ["user=", "USER=", "LOGNAME=", "username=", "user ", "sudo: "]
                .map(|lead| (lead, ""))
                .into_iter()
                .chain([("(", ")"), ("", "@")]);
            if out.contains(&name) {
                out = self.folders_of(&out, &name);
            }
            for (before, after) in places {
                let joined = format!("{before}{name}{after}");
                if out.contains(&joined) {
                    let with = || format!("{before}{}{after}", self.replacement(USER, &name, "user"));
                    out = replace_words(&out, &joined, with);
                }
            }
        }
        let lower = out.to_ascii_lowercase();
        for (kind, word, base) in self.words.clone() {
            if lower.contains(&word.to_ascii_lowercase()) {
                out = replace_words(&out, &word, || self.replacement(kind, &word, base));
            }
        }
        out = self.hosts_of_domains(&out);
        self.numbers(&out)
    }

    /// Replaces a user name that is the name of a directory: `/vol/alice/models`. Names of system directories are kept.
    fn folders_of(&mut self, text: &str, name: &str) -> String {
        const SYSTEM: &[&str] = &[
            "/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/etc", "/run", "/boot", "/opt", "/var/lib", "/var/log",
        ];
        /// System directories in which users create directories.
        const OF_USERS: &[&str] = &["/dev/shm", "/run/media"];
        let is_below = |path: &str, top: &&str| {
            path.strip_prefix(*top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let joined = format!("/{name}");
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&joined) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let after = &from[joined.len()..];
            let begin = out.rfind(|c: char| !(is_of_name(c) || c == '/')).map_or(0, |at| at + 1);
            let so_far = &out[begin..];
            let is_system =
                SYSTEM.iter().any(|top| is_below(so_far, top)) && !OF_USERS.iter().any(|top| is_below(so_far, top));
            // `/home/alice` is handled by another rule. `/alice` at the top level may be any directory.
            let is_component = !after.starts_with(is_of_name) && so_far.starts_with('/') && so_far != "/home";
            if is_component && !is_system {
                out.push('/');
                out.push_str(&self.replacement(USER, name, "user"));
            } else {
                out.push_str(&joined);
            }
            rest = after;
        }
        out + rest
    }

    pub(super) fn path(&mut self, path: &Path) -> PathBuf {
        // The UUIDs in the names of firmware variables belong to vendors and are the same on every machine.
        if path.starts_with("/sys/firmware/efi/efivars") {
            return path.to_owned();
        }
        path.to_str().map_or_else(|| path.to_owned(), |text| PathBuf::from(self.text(text)))
    }

    /// One line for each kind of replaced value, with the number of values.
    pub(super) fn said(&self) -> Vec<String> {
        self.seen.iter().map(|(kind, known)| format!("{kind} ({})", known.len())).collect()
    }

    /// Replaces `/home/alice/…` by `/home/user1/…`.
    fn home_folders(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("/home/") {
            let (before, from) = rest.split_at(at + "/home/".len());
            out.push_str(before);
            let end = from.find(|c: char| !is_of_name(c)).unwrap_or(from.len());
            let name = &from[..end];
            let is_ours =
                name.strip_prefix("user").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            if name.is_empty() || is_ours {
                out.push_str(name);
            } else {
                let with = self.replacement(USER, name, "user");
                out.push_str(&with);
            }
            rest = &from[end..];
        }
        out + rest
    }
}

/// Whether a character is allowed in a user name.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "._-@+".contains(c)
}

/// Replaces a word, regardless of case, if no letter or digit is adjacent. `with` is called for each replacement.
fn replace_words(text: &str, word: &str, mut with: impl FnMut() -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let (lower, wanted) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let mut rest = text;
    while let Some(at) = lower[text.len() - rest.len()..].find(&wanted) {
        let before = rest[..at].chars().next_back().or_else(|| out.chars().next_back());
        let after = rest[at + word.len()..].chars().next();
        let ends_itself = word.ends_with(|c: char| !c.is_alphanumeric());
        let alone =
            !before.is_some_and(char::is_alphanumeric) && (ends_itself || !after.is_some_and(char::is_alphanumeric));
        out.push_str(&rest[..at]);
        if alone {
            out.push_str(&with());
        } else {
            out.push_str(&rest[at..at + word.len()]);
        }
        rest = &rest[at + word.len()..];
    }
    out + rest
}

#[cfg(test)]
mod tests;
