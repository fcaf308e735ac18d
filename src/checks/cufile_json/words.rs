//! Texts in a cufile.json: words of a list, log levels, hexadecimal numbers, paths.

use super::environment::LEVELS;
use super::known::{Known, Takes};
use super::lint::{FATAL, Linter, SILENT};
use super::nearest::distance;
use super::syntax::{Kind, Node};
use super::types::Severity;
use std::collections::HashSet;

/// The storage drivers that register with nvidia-fs, and the SCSI drivers that libcufile names (module names).
const DRIVERS: &[&str] = &[
    "nvme",
    "nvme_rdma",
    "nvme_tcp",
    "nvme_core",
    "lustre",
    "lnet",
    "rpcrdma",
    "beegfs",
    "wekafsio",
    "mmfs26",
    "mmfslinux",
    "gpfs",
    "scatefs",
    "panfs",
    "nvmesh",
    "sfxvdriver",
    "sfv_bdev",
    "scsi_mod",
    "sd_mod",
    "virtiofs",
    "nfs",
    "mpt3sas",
    "megaraid_sas",
];

/// The file systems that libcufile distinguishes, by the names of the kernel.
const FILE_SYSTEMS: &[&str] = &[
    "ext4", "xfs", "nfs", "nfs4", "lustre", "wekafs", "gpfs", "mmfs", "beegfs", "fhgfs", "scatefs", "panfs",
    "virtiofs", "overlay", "tmpfs", "ramfs", "squashfs", "zfs", "btrfs", "fuse", "cifs", "smb3", "9p", "ext2", "ext3",
    "f2fs", "vfat", "exfat",
];

impl Linter<'_> {
    pub(super) fn words(&mut self, known: &Known, node: &Node) {
        let key = known.key;
        let texts = |node: &Node| match &node.kind {
            Kind::Text(text) => vec![(node.start, text.clone())],
            Kind::List(items) => items
                .iter()
                .filter_map(|item| match &item.kind {
                    Kind::Text(text) => Some((item.start, text.clone())),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        for (at, word) in texts(node) {
            match known.takes {
                Takes::Level => self.level(key, at, &word),
                Takes::Ignored(words) if !words.contains(&word.as_str()) => self.say(
                    "L11",
                    Severity::Warning,
                    at,
                    key,
                    format!("\"{word}\" is none of {}", words.join(", ")),
                    SILENT,
                    "Write one of them.",
                ),
                Takes::One(words) | Takes::Each(words) if !words.contains(&word.as_str()) => self.say(
                    "L4",
                    Severity::Error,
                    at,
                    key,
                    format!("\"{word}\" is none of {}", words.join(", ")),
                    FATAL,
                    "Write one of them.",
                ),
                Takes::Hex if !is_hex(&word) => self.say(
                    "L4",
                    Severity::Error,
                    at,
                    key,
                    format!("\"{word}\" is not a hexadecimal number of 32 bits"),
                    FATAL,
                    "Write at most eight hexadecimal digits, as \"0x1f\".",
                ),
                Takes::Folder | Takes::Paths if word.is_empty() || !(self.around.exists)(&word) => self.say(
                    "L7",
                    Severity::Error,
                    at,
                    key,
                    format!("{key} names \"{word}\", which does not exist"),
                    FATAL,
                    if known.takes == Takes::Folder {
                        format!("mkdir -p {word}, or remove the key.")
                    } else {
                        "Remove it from the list.".to_owned()
                    },
                ),
                Takes::Folder if !(self.around.is_folder)(&word) => self.say(
                    "L7",
                    Severity::Error,
                    at,
                    key,
                    format!("{key} names \"{word}\", which is not a directory"),
                    FATAL,
                    "Name a directory, or remove the key.",
                ),
                _ => {}
            }
        }
        if let (Takes::Table, Kind::Object(members)) = (known.takes, &node.kind) {
            for member in members
                .iter()
                .filter(|member| !(self.around.exists)(&member.key) || !(self.around.is_folder)(&member.key))
            {
                self.say(
                    "L7",
                    Severity::Error,
                    member.key_start,
                    key,
                    format!("{key} names the mount point \"{}\", which is not a directory", member.key),
                    FATAL,
                    "Remove it, or mount it first.",
                );
            }
        }
        self.names(key, &texts(node));
        self.addresses(key, node);
        if known.takes == Takes::Table {
            self.mounts(key, node);
        }
        if let (Takes::Wholes, Kind::List(items), "properties.posix_pool_slab_size_kb") = (known.takes, &node.kind, key)
        {
            for item in items {
                if let Kind::Number(n) = &item.kind
                    && n.parse::<u64>().is_ok_and(|n| n % 4 != 0)
                {
                    self.say(
                        "L6",
                        Severity::Error,
                        item.start,
                        key,
                        format!("a slab of {n} KiB is not a multiple of 4 KiB"),
                        FATAL,
                        "Write a multiple of 4.",
                    );
                }
            }
        }
    }

    /// Checks the names in a list: names that occur twice, empty names, and names that no driver or file system has.
    fn names(&mut self, key: &str, texts: &[(usize, String)]) {
        let known = match key {
            "denylist.drivers" => DRIVERS,
            "denylist.filesystems" => FILE_SYSTEMS,
            _ => &[],
        };
        let mut seen = HashSet::new();
        for (at, name) in texts {
            if !seen.insert(name) && !key.ends_with("_order") {
                let what = format!("\"{name}\" is in {key} twice");
                self.say("L8", Severity::Warning, *at, key, what, "Only one of them counts.", "Remove one.");
            } else if name.is_empty()
                && key.starts_with("denylist.")
                && !matches!(key, "denylist.mounts" | "denylist.devices")
            {
                self.say("L11", Severity::Warning, *at, key, "an empty name denies nothing", SILENT, "Remove it.");
            } else if !known.is_empty() && !name.is_empty() && !known.contains(&name.as_str()) {
                let near = known.iter().min_by_key(|one| distance(&name.to_ascii_lowercase(), one)).copied();
                let near = near.filter(|one| distance(&name.to_ascii_lowercase(), one) * 2 <= one.len());
                let kind = if key == "denylist.drivers" { "driver" } else { "file system" };
                let what = format!("\"{name}\" is not a {kind} that libcufile can deny");
                let todo = match near {
                    Some(near) => format!("Write \"{near}\"."),
                    None => format!("Write one of {}, or remove it.", known.join(", ")),
                };
                self.say("L11", Severity::Warning, *at, key, what, SILENT, todo);
            }
        }
    }

    fn level(&mut self, key: &str, at: usize, word: &str) {
        if !LEVELS.contains(&word) {
            let upper = word.to_ascii_uppercase();
            let near = |level: &&&str| upper.starts_with(**level) || (upper.len() > 2 && level.starts_with(&upper));
            let todo = match LEVELS.iter().find(near) {
                Some(level) => format!("Write \"{level}\"."),
                None => format!("Write one of {}.", LEVELS.join(", ")),
            };
            self.say(
                "L11",
                Severity::Warning,
                at,
                key,
                format!("\"{word}\" is not a log level; levels are in upper case"),
                "The library ignores it and keeps its log level.",
                todo,
            );
        } else if matches!(word, "DEBUG" | "TRACE") {
            self.say(
                "L17",
                Severity::Note,
                at,
                key,
                format!("{key} is {word}"),
                "Writing the log slows down every read and distorts measurements.",
                "Write \"ERROR\", and set CUFILE_LOGGING_LEVEL for a single run if you need a log.",
            );
        }
    }
}

/// Whether the text is a hexadecimal number of at most 32 bits for libcufile.
fn is_hex(text: &str) -> bool {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u32::from_str_radix(digits, 16).is_ok()
}
