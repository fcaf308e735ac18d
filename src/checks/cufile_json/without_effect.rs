//! Rules L12 and L20: values that another value makes ineffective.

use super::known::{KEYS, known};
use super::lint::Linter;
use super::syntax::{Kind, Node};
use super::together::{number, on};
use super::types::Severity;

/// File systems that do not support P2PDMA. libcufile accepts their P2PDMA key without an error.
const WITHOUT_P2PDMA: &[&str] = &["beegfs", "gpfs", "lustre", "nfs", "panfs", "scatefs"];

impl Linter<'_> {
    pub(super) fn without_effect(&mut self, top: &Node) {
        let set = |key: &str| top.at(key).filter(|node| node.kind != Kind::Null);
        let is_on = |key: &str| set(key).and_then(on) == Some(true);
        let master = set("properties.use_pci_p2pdma").and_then(on);
        if master == Some(true)
            && is_on("properties.force_compat_mode")
            && let Some(node) = set("properties.use_pci_p2pdma")
        {
            self.warn(
                "L20",
                node,
                "properties.use_pci_p2pdma",
                "use_pci_p2pdma has no effect next to force_compat_mode",
                "force_compat_mode has precedence: every read goes through host memory.",
                "Remove one of the two.",
            );
        }
        for known in KEYS.iter().filter(|known| known.key.ends_with(".use_pci_p2pdma")) {
            let Some(node) = set(known.key).filter(|node| on(node) == Some(true)) else { continue };
            let file_system = known.key.strip_prefix("fs.").and_then(|rest| rest.strip_suffix(".use_pci_p2pdma"));
            if file_system.is_some_and(|name| WITHOUT_P2PDMA.contains(&name)) {
                let what = format!("{} has no effect", known.key);
                let why = "libcufile accepts the key, but P2PDMA does not work for this file system.";
                self.warn("L20", node, known.key, what, why, "Remove it.");
            } else if known.key == "block.nvmeof.use_pci_p2pdma" {
                let what = format!("{} has no effect", known.key);
                let why = "Linux and NVIDIA support P2PDMA for local NVMe disks, but not for NVMe over fabrics.";
                self.warn("L20", node, known.key, what, why, "Remove it.");
            } else if known.key != "properties.use_pci_p2pdma" && master != Some(true) {
                self.warn(
                    "L12",
                    node,
                    known.key,
                    format!("{} is true, but properties.use_pci_p2pdma is not", known.key),
                    "libcufile needs both keys; with only one, P2PDMA stays off without a message.",
                    "Set properties.use_pci_p2pdma to true in the same or the system's file.",
                );
            }
        }
        if set("properties.gpu_bounce_buffer_slab_config").is_some()
            && known("properties.gpu_bounce_buffer_slab_config.slab_size_kb")
                .is_some_and(|known| known.is_in(self.around.version))
        {
            for key in ["properties.max_device_cache_size_kb", "properties.per_buffer_cache_size_kb"] {
                if let Some(node) = set(key) {
                    let what = format!("{key} has no effect next to gpu_bounce_buffer_slab_config");
                    let why = "The slabs replace the cache of equal buffers.";
                    self.warn("L20", node, key, what, why, "Remove one of the two.");
                }
            }
        }
        self.under_force(top);
        self.needs_switch(top);
        let threads = set("execution.max_io_threads").and_then(number);
        if is_on("execution.parallel_io")
            && threads == Some(0)
            && let Some(node) = set("execution.parallel_io")
        {
            self.warn(
                "L20",
                node,
                "execution.parallel_io",
                "parallel_io has no effect without threads",
                "max_io_threads is 0, which disables the library's thread pool.",
                "Set max_io_threads to 4 or more, or remove parallel_io.",
            );
        }
        self.routing(top);
        self.files(top);
        self.two_lists(top);
    }

    /// Checks keys that have no effect because every read goes through host memory, and contradictions about it.
    fn under_force(&mut self, top: &Node) {
        let set = |key: &str| top.at(key).filter(|node| node.kind != Kind::Null);
        let is_on = |key: &str| set(key).and_then(on) == Some(true);
        const POSIX: &str = "properties.vanilla_posix_io_mode";
        const FORCE: &str = "properties.force_compat_mode";
        let master = if is_on(FORCE) {
            FORCE
        } else if is_on(POSIX) {
            POSIX
        } else {
            if set("properties.allow_compat_mode").and_then(on) == Some(false)
                && let Some(node) = set("properties.gds_fallback_io").filter(|node| on(node) == Some(true))
            {
                let what = "gds_fallback_io is true, but allow_compat_mode is false";
                let why = "One allows reads through host memory, the other does not.";
                self.warn("L14", node, "properties.gds_fallback_io", what, why, "Remove one of the two.");
            }
            return;
        };
        let why = format!("{master} has precedence: every read goes through host memory.");
        for known in KEYS {
            let name = known.key;
            let is_direct_only = matches!(
                name,
                "properties.use_poll_mode"
                    | "properties.gds_fallback_io"
                    | "properties.rdma_dynamic_routing"
                    | "properties.rdma_multipath_enabled"
            ) || name.starts_with("denylist.")
                || name.ends_with("rdma_dev_addr_list")
                || name.ends_with(".mount_table")
                || (master == POSIX && name.ends_with("use_pci_p2pdma"));
            let Some(node) = set(name).filter(|_| is_direct_only) else { continue };
            let is_used = match &node.kind {
                Kind::Bool(on) => *on,
                Kind::List(items) => !items.is_empty(),
                Kind::Object(members) => !members.is_empty(),
                _ => false,
            };
            if is_used {
                let what = format!("{name} has no effect next to {master}");
                self.warn("L20", node, name, what, &why, "Remove one of the two.");
            }
        }
        if set("properties.allow_compat_mode").and_then(on) == Some(false)
            && master == POSIX
            && let Some(node) = set(POSIX)
        {
            let what = "allow_compat_mode is false and vanilla_posix_io_mode is true";
            self.warn("L14", node, POSIX, what, &why, "Remove one of the two.");
        }
    }

    /// Checks values that need a switch which is off.
    fn needs_switch(&mut self, top: &Node) {
        for (key, switch) in [
            ("properties.poll_mode_max_size_kb", "properties.use_poll_mode"),
            (
                "properties.compat_odirect_unaligned_read_split_min_size_kb",
                "properties.compat_odirect_unaligned_read_split",
            ),
            ("miscellaneous.static_routing_filepath", "miscellaneous.enable_static_routing"),
            ("miscellaneous.static_config_filepath", "miscellaneous.enable_static_config"),
            ("execution.max_request_parallelism", "execution.parallel_io"),
        ] {
            let Some(node) = top.at(key).filter(|node| node.kind != Kind::Null) else { continue };
            let Some(known) = known(key).filter(|known| known.is_in(self.around.version)) else { continue };
            let state = top.at(switch).and_then(on);
            // NVIDIA's file has the defaults of such keys.
            let is_default = known.default(None) == node.value();
            // The thread pool is on by default.
            let is_off = if switch == "execution.parallel_io" { false } else { state != Some(true) };
            if is_off && !is_default {
                let what = format!("{key} has no effect, because {switch} is not true");
                self.warn(
                    "L20",
                    node,
                    key,
                    what,
                    "libcufile does not use the value.",
                    format!("Set {switch} to true, or remove the key."),
                );
            }
        }
        if top.at("execution.parallel_io").and_then(on) == Some(true)
            && let Some(node) = top.at("execution.max_request_parallelism").filter(|node| number(node) == Some(0))
        {
            let key = "execution.max_request_parallelism";
            let what = "parallel_io is true, but max_request_parallelism is 0";
            self.warn("L20", node, key, what, "No request is then split.", "Write 2 or more, or remove parallel_io.");
        }
    }

    /// Checks the order of the fallback policies.
    fn routing(&mut self, top: &Node) {
        const KEY: &str = "properties.rdma_dynamic_routing_order";
        let Some(Node { kind: Kind::List(items), start, .. }) = top.at(KEY) else { return };
        // There are fewer policies than this, so a longer list repeats one of them.
        let first = &items[..items.len().min(100)];
        let repeated = first.iter().enumerate().any(|(at, item)| first[..at].iter().any(|b| b.kind == item.kind));
        // With SYS_MEM before a method that uses GPU memory, that method is never reached.
        let place = |name: &str| items.iter().position(|item| item.kind == Kind::Text(name.to_owned()));
        let later = ["GPU_MEM", "GPU_MEM_NVLINKS"].into_iter().filter_map(place).max();
        let host = place("SYS_MEM").filter(|at| *at == 0 || later.is_some_and(|later| later > *at));
        let is_on = top.at("properties.rdma_dynamic_routing").and_then(on) == Some(true);
        if is_on && host.is_some() {
            let what = "SYS_MEM is first in the order, or before a method that uses GPU memory";
            let why = "Reads of network file systems then go through host memory.";
            self.say("L20", Severity::Warning, *start, KEY, what, why, "Put SYS_MEM behind GPU_MEM, or remove it.");
        }
        if items.is_empty() || repeated {
            let what = if items.is_empty() { "the order is empty" } else { "the order contains a policy twice" };
            let why = "libcufile accepts it; only the first of each policy counts.";
            self.say("L20", Severity::Warning, *start, KEY, what, why, "Name each policy once.");
        }
    }

    /// Checks the files that libcufile reads in place of the hardware.
    fn files(&mut self, top: &Node) {
        for (switch, path, default) in [
            (
                "miscellaneous.enable_static_routing",
                "miscellaneous.static_routing_filepath",
                Some("/etc/topology.json"),
            ),
            ("miscellaneous.enable_static_config", "miscellaneous.static_config_filepath", None),
        ] {
            let Some(node) = top.at(switch).filter(|node| on(node) == Some(true)) else { continue };
            let named = top.at(path).and_then(|node| match &node.kind {
                Kind::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let what = match named.or(default) {
                Some(file) if (self.around.exists)(file) => continue,
                Some(file) => format!("{switch} is true, but {file} does not exist"),
                None => format!("{switch} is true, but {path} names no file"),
            };
            let why = "libcufile detects the hardware as usual, without a message.";
            let option = if default.is_some() { "sysfs" } else { "config" };
            self.warn("L20", node, switch, what, why, format!("gdscheck -e {option} -o FILE"));
        }
    }

    /// Checks a file system that has addresses both as a list and by mount point.
    fn two_lists(&mut self, top: &Node) {
        let filled = |key: &str| match top.at(key).map(|node| &node.kind) {
            Some(Kind::List(items)) => !items.is_empty(),
            Some(Kind::Object(members)) => !members.is_empty(),
            _ => false,
        };
        for known in KEYS.iter().filter(|known| known.key.ends_with(".mount_table")) {
            let list = known.key.replace(".mount_table", ".rdma_dev_addr_list");
            if let Some(node) = top.at(known.key)
                && filled(known.key)
                && filled(&list)
            {
                let what = format!("{} and {list} are both set", known.key);
                let why = "NVIDIA's guide allows only one of the two.";
                self.warn("L20", node, known.key, what, why, "Remove one of them.");
            }
        }
    }
}
