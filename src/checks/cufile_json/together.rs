//! Rules about contradictory values, within one file (L5, L6, L12, L14, L15, L17) and with the machine (L13, L16).

use super::known::{known, minor};
use super::lint::{FATAL, Linter};
use super::syntax::{Kind, Node};
use super::types::{Hardware, Problem, Severity};
use crate::core::check::names;
use std::collections::HashSet;

impl Linter<'_> {
    pub(super) fn together(&mut self, top: &Node) {
        self.sizes(top);
        self.slabs(top);
        self.without_effect(top);
        let switch = |key: &str| top.at(key).and_then(|node| on(node).map(|on| (on, node.start)));
        if let Some((true, at)) = switch("properties.use_pci_p2pdma") {
            let second = known("block.nvme.use_pci_p2pdma").is_some_and(|k| k.is_in(self.around.version));
            let transports = ["block.nvme", "block.nvmeof", "block.raid", "block.raid1", "block.raid10", "fs.virtiofs"];
            let any = transports.iter().any(|t| switch(&format!("{t}.use_pci_p2pdma")).is_some_and(|(on, _)| on));
            if second && !any {
                self.say(
                    "L12",
                    Severity::Warning,
                    at,
                    "properties.use_pci_p2pdma",
                    "use_pci_p2pdma is on for all, but for no transport",
                    "From 1.16 on the library also needs it for the transport; with one key P2PDMA stays off without a message.",
                    "Add \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } }.",
                );
            }
        }
        if let (Some((false, _)), Some((true, at))) =
            (switch("properties.allow_compat_mode"), switch("properties.force_compat_mode"))
        {
            self.say(
                "L14",
                Severity::Warning,
                at,
                "properties.force_compat_mode",
                "allow_compat_mode is false and force_compat_mode is true",
                "force_compat_mode has precedence: every read goes through host memory.",
                "For direct reads remove force_compat_mode; for reads through host memory remove allow_compat_mode.",
            );
        }
        if let Some(node) = top.at("profile.cufile_stats")
            && number(node).is_some_and(|level| level >= 3)
        {
            self.say(
                "L17",
                Severity::Note,
                node.start,
                "profile.cufile_stats",
                "statistics of level 3 are on for every program",
                "They slow down each read. gds-top enables them in its child processes if it needs them.",
                "Write 0, or 1 if you use gds_stats.",
            );
        }
    }

    fn sizes(&mut self, top: &Node) {
        let at = |key: &str| top.at(&format!("properties.{key}"));
        let value = |key: &str| {
            let known = known(&format!("properties.{key}"))?;
            at(key).and_then(number).or_else(|| known.default(self.around.version).as_u64())
        };
        let spoken = |keys: [&str; 2]| keys.iter().find_map(|key| at(key).map(|node| node.start));
        let (per, direct) = (value("per_buffer_cache_size_kb"), value("max_direct_io_size_kb"));
        if let (Some(per), Some(direct), Some(place)) =
            (per, direct, spoken(["per_buffer_cache_size_kb", "max_direct_io_size_kb"]))
            && per > direct
        {
            let taken = |key: &str| if at(key).is_some() { "" } else { " (the default)" };
            self.say(
                "L5",
                Severity::Error,
                place,
                "properties.per_buffer_cache_size_kb",
                format!(
                    "per_buffer_cache_size_kb is {per}{}, more than max_direct_io_size_kb, {direct}{}",
                    taken("per_buffer_cache_size_kb"),
                    taken("max_direct_io_size_kb")
                ),
                FATAL,
                format!("Set max_direct_io_size_kb to {per} or more, or per_buffer_cache_size_kb to {direct} or less."),
            );
        }
        let (cache, batch) = (value("max_device_cache_size_kb"), value("io_batchsize"));
        if let (Some(cache), Some(per), Some(place)) =
            (cache, per, spoken(["max_device_cache_size_kb", "per_buffer_cache_size_kb"]))
            && cache > 0
            && per > cache
            && top.at("properties.gpu_bounce_buffer_slab_config").is_none()
        {
            self.say(
                "L5",
                Severity::Warning,
                place,
                "properties.per_buffer_cache_size_kb",
                format!("per_buffer_cache_size_kb is {per}, more than max_device_cache_size_kb, {cache}"),
                "The cache cannot hold one buffer.",
                format!(
                    "Set max_device_cache_size_kb to {per} or more, or per_buffer_cache_size_kb to {cache} or less."
                ),
            );
            return;
        }
        let set = [at("max_device_cache_size_kb"), at("per_buffer_cache_size_kb"), at("io_batchsize")];
        // The file contradicts itself if it has the batch and the cache; otherwise one of them is a default.
        let is_written = at("io_batchsize").is_some() && set.iter().flatten().count() > 1;
        if let (Some(cache), Some(per), Some(batch), Some(place)) =
            (cache, per, batch, set.into_iter().flatten().map(|node| node.start).next())
            && per > 0
            && cache > 0
            && cache / per < batch
            && top.at("properties.gpu_bounce_buffer_slab_config").is_none()
        {
            self.say(
                "L15",
                if is_written { Severity::Warning } else { Severity::Note },
                place,
                "properties.max_device_cache_size_kb",
                format!("the cache holds {} buffers, but a batch needs {batch}", cache / per),
                "Batches of unaligned or unregistered buffers then wait for each other.",
                format!(
                    "Set max_device_cache_size_kb to {} or more, or io_batchsize to {}.",
                    batch * per,
                    (cache / per).max(1)
                ),
            );
        }
    }

    fn slabs(&mut self, top: &Node) {
        let list = |key: &str| match top.at(key).map(|node| (&node.kind, node.start)) {
            Some((Kind::List(items), start)) => Some((items.len(), start)),
            _ => None,
        };
        let pairs = [
            ("properties.posix_pool_slab_size_kb", "properties.posix_pool_slab_count", Severity::Error),
            (
                "properties.gpu_bounce_buffer_slab_config.slab_size_kb",
                "properties.gpu_bounce_buffer_slab_config.slab_count",
                Severity::Warning,
            ),
        ];
        for (sizes, counts, severity) in pairs {
            // A list that the file lacks has its default.
            let length = |key| known(key)?.default(self.around.version).as_array().map(Vec::len);
            let (n, m, at) = match (list(sizes), list(counts)) {
                (Some((n, _)), Some((m, at))) => (n, m, at),
                (None, Some((m, at))) => (length(sizes).unwrap_or(m), m, at),
                (Some((n, at)), None) => (n, length(counts).unwrap_or(n), at),
                (None, None) => continue,
            };
            // Measured: sizes without counts are accepted, and counts without sizes are not.
            let severity = if list(counts).is_none() { Severity::Warning } else { severity };
            if let Some(Node { kind: Kind::List(items), start, .. }) = top.at(counts)
                && items.iter().any(|item| number(item) == Some(0))
            {
                let start = *start;
                let why = "A size without buffers cannot be used.";
                self.say("L6", Severity::Warning, start, counts, "a slab has the count 0", why, "Write 1 or more.");
            }
            if n != m {
                let why = if severity == Severity::Error { FATAL } else { "The library ignores the slabs." };
                self.say(
                    "L6",
                    severity,
                    at,
                    counts,
                    format!("{n} slab sizes and {m} counts"),
                    why,
                    "Give both lists the same length.",
                );
            }
        }
        self.posix_slabs(top);
        let key = "properties.gpu_bounce_buffer_slab_config.slab_size_kb";
        if let Some(Node { kind: Kind::List(items), start, .. }) = top.at(key)
            && minor(self.around.version).is_none_or(|minor| minor >= 17)
        {
            let sizes: Vec<u64> = items.iter().filter_map(number).collect();
            let start = *start;
            if items.is_empty() || sizes.iter().any(|size| *size == 0 || size % 4 != 0) {
                self.say(
                    "L6",
                    Severity::Warning,
                    start,
                    key,
                    "a slab size is 0 or is not a multiple of 4 KiB",
                    "The library ignores the slabs and uses max_device_cache_size_kb and per_buffer_cache_size_kb.",
                    "Write multiples of 4.",
                );
            }
            if !sizes.windows(2).all(|pair| pair[0] < pair[1]) {
                self.say(
                    "L6",
                    Severity::Warning,
                    start,
                    key,
                    "slab sizes are not in ascending order, each of them once",
                    "The library ignores the slabs and uses max_device_cache_size_kb and per_buffer_cache_size_kb.",
                    "Sort them.",
                );
            }
            // The library compares each size with 16384 and warns: 'No slabs ≤16MB configured'.
            if !sizes.is_empty() && sizes.iter().all(|size| *size > 16384) {
                self.say(
                    "L6",
                    Severity::Warning,
                    start,
                    key,
                    "no slab of 16384 KiB or less",
                    "Without it nvidia-fs rejects reads ('16MB configured - nvidia-fs IOs will be rejected').",
                    "Put 16384 first in the sizes, and a count for it first in the counts.",
                );
            }
        }
    }
}

impl Linter<'_> {
    /// Checks the order of the slabs for reads through host memory. The documented sizes are in ascending order.
    fn posix_slabs(&mut self, top: &Node) {
        const KEY: &str = "properties.posix_pool_slab_size_kb";
        let Some(node @ Node { kind: Kind::List(items), .. }) = top.at(KEY) else { return };
        let sizes: Vec<u64> = items.iter().filter_map(number).collect();
        let mut seen = HashSet::new();
        let twice = sizes.iter().find(|size| !seen.insert(**size)).copied();
        let what = if sizes.contains(&0) {
            "a slab has the size 0".to_owned()
        } else if let Some(size) = twice {
            format!("the slab size {size} is in the list twice")
        } else if !sizes.is_sorted() {
            "slab sizes are not in ascending order".to_owned()
        } else {
            return;
        };
        const WHY: &str =
            "libcufile accepts the list, but its documented lists have ascending sizes, each of them once.";
        self.warn("L6", node, KEY, what, WHY, "Sort the sizes, and the counts in the same order.");
    }
}

/// Values that contradict the machine (L13, L16, and the sizes of GPU and host memory).
pub(crate) fn against(text: &str, top: &Node, hardware: &Hardware) -> Vec<Problem> {
    let nowhere = serde_json::Value::Null;
    let around = super::lint::Surroundings {
        version: hardware.version,
        ranges: &nowhere,
        exists: &|_| true,
        is_folder: &|_| true,
    };
    let mut linter = Linter::new(text, &around);
    let kib = |key: &str| top.at(key).and_then(|node| number(node).map(|n| (n, node.start)));
    let gib = crate::core::units::bytes;
    if let Some(node) = top.at("properties.use_pci_p2pdma")
        && on(node) == Some(true)
        && !hardware.p2pdma_blockers.is_empty()
    {
        linter.say(
            "L13",
            Severity::Note,
            node.start,
            "properties.use_pci_p2pdma",
            format!("P2PDMA is enabled, but this machine is not ready for it: {}", names(&hardware.p2pdma_blockers)),
            "Reads then go through host memory without a message.",
            "Run `gds-top check` for the details.",
        );
    }
    if let (Some((limit, at)), Some(memory)) =
        (kib("properties.max_device_pinned_mem_size_kb"), hardware.gpu_memory_bytes)
    {
        const KEY: &str = "properties.max_device_pinned_mem_size_kb";
        let limit_bytes = limit.saturating_mul(1024);
        if let Some(model) = hardware.model_bytes.filter(|model| limit > 0 && limit_bytes < *model) {
            linter.say(
                "L16",
                Severity::Warning,
                at,
                KEY,
                format!("the limit of registered GPU memory is {}, but the model has {}", gib(limit_bytes), gib(model)),
                "Registering a slab for the complete model fails with 5016.",
                format!(
                    "Write {} or more, or remove the key, which removes the limit.",
                    model.div_ceil(1024).next_multiple_of(4)
                ),
            );
        } else if hardware.model_bytes.is_none() && limit > 0 && limit_bytes < memory {
            linter.say(
                "L16",
                Severity::Note,
                at,
                KEY,
                format!("the limit of registered GPU memory is {}, but the GPU has {}", gib(limit_bytes), gib(memory)),
                "Registering a model that is larger than the limit fails with 5016.",
                "Remove the key for large models, which removes the limit.",
            );
        }
    }
    if let (Some((cache, at)), Some(bar)) = (kib("properties.max_device_cache_size_kb"), hardware.bar1_bytes) {
        let cache_bytes = cache.saturating_mul(1024);
        let key = "properties.max_device_cache_size_kb";
        if cache_bytes > bar {
            linter.say(
                "L16",
                Severity::Error,
                at,
                key,
                format!("the cache of {} is larger than BAR1, {}", gib(cache_bytes), gib(bar)),
                "The cache must fit into BAR1; the library rejects larger values.",
                format!("Write {} or less.", bar / 2048),
            );
        } else if cache_bytes > bar / 2 {
            linter.say(
                "L16",
                Severity::Warning,
                at,
                key,
                format!("the cache of {} is more than half of BAR1, {}", gib(cache_bytes), gib(bar)),
                "The library cuts it to half of BAR1.",
                format!("Write {} or less.", bar / 2048),
            );
        }
    }
    if let (
        Some(Node { kind: Kind::List(sizes), start, .. }),
        Some(Node { kind: Kind::List(counts), .. }),
        Some(memory),
    ) = (
        top.at("properties.posix_pool_slab_size_kb"),
        top.at("properties.posix_pool_slab_count"),
        hardware.host_memory_bytes,
    ) {
        let pool = sizes
            .iter()
            .zip(counts)
            .filter_map(|(size, count)| number(size)?.checked_mul(number(count)?))
            .fold(0_u64, u64::saturating_add)
            .saturating_mul(1024);
        if pool > memory / 4 {
            linter.say(
                "L16",
                if pool > memory { Severity::Warning } else { Severity::Note },
                *start,
                "properties.posix_pool_slab_size_kb",
                format!("the slabs of compat mode pin {}, and the host has {}", gib(pool), gib(memory)),
                "They are pinned in each process that reads in compat mode.",
                "Reduce the counts.",
            );
        }
    }
    mount_tables(&mut linter, top, hardware);
    if let Some(Node { kind: Kind::List(items), .. }) = top.at("properties.rdma_dev_addr_list") {
        for item in items {
            // Rule L21 reports items that are not addresses.
            if let Kind::Text(address) = &item.kind
                && address.parse::<std::net::Ipv4Addr>().is_ok()
                && hardware.own_addresses.as_ref().is_some_and(|own| !own.contains(address))
            {
                linter.say(
                    "L16",
                    Severity::Note,
                    item.start,
                    "properties.rdma_dev_addr_list",
                    format!("{address} is not an address of this machine"),
                    "No RDMA card has this address. Local disks do not need the list.",
                    "Correct it, or empty the list.",
                );
            }
        }
    }
    linter.problems
}

/// The kernel's names of the file systems that have a mount table.
const MOUNTED_AS: [(&str, &[&str]); 7] = [
    ("fs.beegfs.mount_table", &["beegfs", "fhgfs", "fuse.beegfs"]),
    ("fs.gpfs.mount_table", &["gpfs", "mmfs", "fuse.gpfs"]),
    ("fs.lustre.mount_table", &["lustre", "lustre2", "lustre_lite", "fuse.fsx_lustre"]),
    ("fs.nfs.mount_table", &["nfs", "nfs4", "nfsv4"]),
    ("fs.panfs.mount_table", &["panfs"]),
    ("fs.scatefs.mount_table", &["scatefs"]),
    ("fs.weka.mount_table", &["wekafs"]),
];

/// Entries of mount tables for directories on which this machine has not mounted that file system.
fn mount_tables(linter: &mut Linter<'_>, top: &Node, hardware: &Hardware) {
    let Some(mounts) = &hardware.mounts else { return };
    for (key, names) in MOUNTED_AS {
        for member in top.at(key).map(Node::members).unwrap_or_default() {
            let point = if member.key == "/" { "/" } else { member.key.trim_end_matches('/') };
            // The last mount on a directory covers the earlier ones.
            let what = match mounts.iter().rfind(|(mounted, _)| mounted == point) {
                Some((_, kind)) if names.contains(&kind.as_str()) => continue,
                Some((_, kind)) => format!("{key} names {}, but {kind} is mounted there", member.key),
                None => format!("{key} names {}, which is not a mount point on this machine", member.key),
            };
            linter.say(
                "L16",
                Severity::Warning,
                member.key_start,
                key,
                what,
                "The addresses of the entry apply to no file.",
                "Mount the file system, correct the path, or remove the entry.",
            );
        }
    }
}

pub(super) fn on(node: &Node) -> Option<bool> {
    match node.kind {
        Kind::Bool(on) => Some(on),
        _ => None,
    }
}

/// The integer that the library reads.
pub(super) fn number(node: &Node) -> Option<u64> {
    match &node.kind {
        Kind::Number(text) => text.parse::<u64>().ok().or_else(|| {
            let n = text.parse::<f64>().ok()?;
            (0.0..1.8e19).contains(&n).then_some(n as u64)
        }),
        Kind::Bool(on) => Some(u64::from(*on)),
        _ => None,
    }
}
