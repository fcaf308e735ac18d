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
            self.say(
                "L20",
                Severity::Warning,
                node.start,
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
                self.say("L20", Severity::Warning, node.start, known.key, what, why, "Remove it.");
            } else if known.key != "properties.use_pci_p2pdma" && master != Some(true) {
                self.say(
                    "L12",
                    Severity::Warning,
                    node.start,
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
                    self.say("L20", Severity::Warning, node.start, key, what, why, "Remove one of the two.");
                }
            }
        }
        let threads = set("execution.max_io_threads").and_then(number);
        if is_on("execution.parallel_io")
            && threads == Some(0)
            && let Some(node) = set("execution.parallel_io")
        {
            self.say(
                "L20",
                Severity::Warning,
                node.start,
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

    /// Checks the order of the fallback policies.
    fn routing(&mut self, top: &Node) {
        const KEY: &str = "properties.rdma_dynamic_routing_order";
        let Some(Node { kind: Kind::List(items), start, .. }) = top.at(KEY) else { return };
        let repeated = items.iter().enumerate().any(|(at, item)| items[..at].iter().any(|b| b.kind == item.kind));
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
            self.say("L20", Severity::Warning, node.start, switch, what, why, format!("gdscheck -e {option} -o FILE"));
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
                self.say("L20", Severity::Warning, node.start, known.key, what, why, "Remove one of them.");
            }
        }
    }
}
