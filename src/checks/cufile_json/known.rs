//! The keys that each release of libcufile knows.
//!
//! The names are from the strings of libcufile 1.11, 1.14, 1.15, 1.16, 1.17, 1.18 and 1.20. The types and ranges were found
//! by opening 1.14, 1.16 and 1.20 with test files. The defaults are from the dumps of the libraries. If a key is new
//! in one of these releases, it may have been added in an earlier release that was not examined.

use super::syntax::{Kind as Json, Node};
use serde_json::Value;

/// The values that a key accepts. For integers, the library also accepts `true` and fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Takes {
    /// true or false.
    Switch,
    /// An integer: lowest value, highest value, and step.
    Whole(u64, u64, u64),
    /// A number that can be negative: lowest and highest value. The library rejects 0, `true` and fractions.
    Signed(i64, i64),
    /// An integer: lowest and highest value. The library rejects `true` and fractions.
    Int(i64, i64),
    /// A hexadecimal number as text: `0xffeeddcc`.
    Hex,
    /// Text.
    Text,
    /// A directory that must exist.
    Folder,
    /// A log level.
    Level,
    /// One of these words. The library ignores other words.
    Ignored(&'static [&'static str]),
    /// One of these words. The library rejects other words.
    One(&'static [&'static str]),
    /// A list of these words. The library rejects other words.
    Each(&'static [&'static str]),
    /// A list of text.
    Texts,
    /// A list of paths that must exist.
    Paths,
    /// A list of integers.
    Wholes,
    /// An object with arbitrary keys.
    Table,
}

use Takes::{Each, Folder, Hex, Ignored, Int, Level, One, Paths, Signed, Switch, Table, Text, Texts, Whole, Wholes};

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Dotted name.
    pub(crate) key: &'static str,
    pub(crate) takes: Takes,
    /// The first release 1.x that has it. 0 if 1.11 has it.
    since: u32,
    /// The last release 1.x that has it. 0 if 1.20 has it.
    until: u32,
    default: &'static str,
    default_old: &'static str,
    /// Its name in the parameters and ranges that the library reports.
    pub(crate) parameter: &'static str,
    /// The environment variable that overrides it.
    pub(crate) variable: &'static str,
}

#[allow(clippy::too_many_arguments, reason = "one row of a table")]
const fn row(
    key: &'static str,
    takes: Takes,
    since: u32,
    until: u32,
    default: &'static str,
    default_old: &'static str,
    parameter: &'static str,
    variable: &'static str,
) -> Known {
    Known { key, takes, since, until, default, default_old, parameter, variable }
}

/// The minor release. Releases newer than 1.x count as the newest known one.
pub(crate) fn minor(version: Option<(u32, u32)>) -> Option<u32> {
    version.map(|(major, minor)| if major > 1 { u32::MAX } else { minor })
}

impl Known {
    /// Whether a release knows the key. An unknown release is assumed to know every key.
    pub(crate) fn is_in(&self, version: Option<(u32, u32)>) -> bool {
        minor(version).is_none_or(|minor| minor >= self.since && (self.until == 0 || minor <= self.until))
    }

    /// The releases that know it, in words. `None` if all releases know it.
    pub(crate) fn releases(&self) -> Option<String> {
        match (self.since, self.until) {
            (0, 0) => None,
            (0, until) => Some(format!("up to libcufile 1.{until}")),
            (since, 0) => Some(format!("from libcufile 1.{since} on")),
            (since, until) => Some(format!("from libcufile 1.{since} to 1.{until}")),
        }
    }

    /// The default of a release, or of 1.20 if the release is unknown. It is null if there is no fixed default.
    pub(crate) fn default(&self, version: Option<(u32, u32)>) -> Value {
        // Measured: 1.18 splits requests at 1 MiB by default. 1.16 is the first release whose thread pool is on by
        // default.
        let changed = if self.key == "properties.max_direct_io_size_kb" { 20 } else { 16 };
        let old = !self.default_old.is_empty() && minor(version).is_some_and(|minor| minor < changed);
        serde_json::from_str(if old { self.default_old } else { self.default }).unwrap_or(Value::Null)
    }

    /// Whether a node has the type that the library requires.
    pub(crate) fn fits(&self, node: &Node) -> bool {
        let integer = |node: &Node| match &node.kind {
            Json::Number(text) => text.parse::<f64>().is_ok_and(|n| n >= 0.0),
            Json::Bool(_) => true,
            _ => false,
        };
        let text = |node: &Node| matches!(node.kind, Json::Text(_));
        let all = |of: &dyn Fn(&Node) -> bool| match &node.kind {
            Json::List(items) => items.iter().all(of),
            _ => false,
        };
        // The library treats null as "not set".
        node.kind == Json::Null
            || match self.takes {
                Switch => matches!(node.kind, Json::Bool(_)),
                Whole(..) => integer(node),
                Signed(..) | Int(..) => matches!(&node.kind, Json::Number(text) if text.parse::<i64>().is_ok()),
                Text | Folder | Level | Ignored(_) | One(_) | Hex => text(node),
                Each(_) | Texts | Paths => all(&text),
                Wholes => all(&integer),
                Table => matches!(node.kind, Json::Object(_)),
            }
    }

    /// The accepted values, in words.
    pub(crate) fn wants(&self) -> &'static str {
        match self.takes {
            Switch => "true or false without quotes",
            Whole(..) => "an integer without quotes",
            Signed(..) | Int(..) => "an integer without quotes",
            Text | Folder | Level | Ignored(_) | One(_) => "text in double quotes",
            Hex => "a hexadecimal number as text",
            Each(_) | Texts | Paths => "a list of text: [\"…\"]",
            Wholes => "a list of integers: [1, 2]",
            Table => "an object in braces",
        }
    }
}

/// The key of that name.
pub(crate) fn known(key: &str) -> Option<&'static Known> {
    KEYS.iter().find(|known| known.key == key)
}

/// Whether a dotted name is a prefix of known keys.
pub(crate) fn is_section(name: &str) -> bool {
    KEYS.iter().any(|known| known.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// Names that many files use and libcufile ignores, with the correct name. It can be empty (rule L10).
pub(crate) const MISNAMED: &[(&str, &str)] = &[
    ("properties.use_compat_mode", "properties.allow_compat_mode"),
    ("blacklist", "denylist"),
    ("profile.io_batchsize", "properties.io_batchsize"),
    ("profile.nvtx", ""),
    // The names that the kernel has for these file systems.
    ("fs.wekafs", "fs.weka"),
    ("fs.nfs4", "fs.nfs"),
    ("fs.mmfs", "fs.gpfs"),
    ("fs.fhgfs", "fs.beegfs"),
    ("wekafs", "fs.weka"),
    ("nfs4", "fs.nfs"),
    ("mmfs", "fs.gpfs"),
    ("fhgfs", "fs.beegfs"),
];

/// All keys, sorted.
#[rustfmt::skip]
pub(crate) const KEYS: &[Known] = &[
    row("block.nvme.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("block.nvmeof.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("block.raid.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("block.raid1.use_pci_p2pdma", Switch, 20, 0, "false", "", "", ""),
    row("block.raid10.use_pci_p2pdma", Switch, 20, 0, "false", "", "", ""),
    row("denylist.devices", Paths, 0, 0, "[]", "", "", ""),
    row("denylist.drivers", Texts, 0, 0, "[]", "", "", ""),
    row("denylist.filesystems", Texts, 0, 0, "[]", "", "", ""),
    row("denylist.fsids", Texts, 0, 0, "[]", "", "", ""),
    row("denylist.mounts", Paths, 0, 0, "[]", "", "", ""),
    row("execution.max_io_queue_depth", Whole(1, 256, 1), 0, 0, "128", "", "max_io_queue_depth", ""),
    row("execution.max_io_threads", Whole(0, 128, 1), 0, 0, "8", "0", "max_io_threads", ""),
    row("execution.max_request_parallelism", Whole(0, 8, 1), 0, 0, "4", "0", "max_request_parallelism", ""),
    row("execution.min_io_threshold_size_kb", Whole(4, 4294967295, 1), 0, 0, "1024", "", "min_io_threshold_size_kb", ""),
    row("execution.parallel_io", Switch, 0, 0, "true", "false", "parallel_io", ""),
    row("fs.beegfs.mount_table", Table, 0, 0, "null", "", "", ""),
    row("fs.beegfs.posix_gds_min_kb", Whole(0, 4294967295, 1), 0, 0, "0", "", "", ""),
    row("fs.beegfs.rdma_dev_addr_list", Texts, 0, 0, "[]", "", "", ""),
    row("fs.beegfs.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("fs.generic.posix_unaligned_writes", Switch, 0, 0, "false", "", "", ""),
    row("fs.gpfs.gds_async_support", Switch, 14, 0, "true", "", "", ""),
    row("fs.gpfs.gds_write_support", Switch, 0, 0, "false", "", "", ""),
    row("fs.gpfs.mount_table", Table, 0, 0, "null", "", "", ""),
    row("fs.gpfs.rdma_dev_addr_list", Texts, 0, 0, "[]", "", "", ""),
    row("fs.gpfs.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("fs.lustre.mount_table", Table, 0, 0, "null", "", "", ""),
    row("fs.lustre.posix_gds_min_kb", Whole(0, 4294967295, 1), 0, 0, "0", "", "", ""),
    row("fs.lustre.rdma_dev_addr_list", Texts, 0, 0, "[]", "", "", ""),
    row("fs.lustre.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("fs.nfs.mount_table", Table, 0, 0, "null", "", "", ""),
    row("fs.nfs.rdma_dev_addr_list", Texts, 0, 0, "[]", "", "", ""),
    row("fs.nfs.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("fs.panfs.mount_table", Table, 20, 0, "null", "", "", ""),
    row("fs.panfs.rdma_dev_addr_list", Texts, 20, 0, "[]", "", "", ""),
    row("fs.panfs.use_pci_p2pdma", Switch, 20, 0, "false", "", "", ""),
    row("fs.scatefs.mount_table", Table, 14, 0, "null", "", "", ""),
    row("fs.scatefs.posix_gds_min_kb", Whole(0, 4294967295, 1), 14, 0, "0", "", "", ""),
    row("fs.scatefs.rdma_dev_addr_list", Texts, 14, 0, "[]", "", "", ""),
    row("fs.scatefs.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("fs.virtiofs.use_pci_p2pdma", Switch, 16, 0, "false", "", "", ""),
    row("fs.weka.mount_table", Table, 0, 0, "null", "", "", ""),
    row("fs.weka.rdma_dev_addr_list", Texts, 0, 0, "[]", "", "", ""),
    row("fs.weka.rdma_write_support", Switch, 0, 0, "false", "", "", ""),
    row("logging.dir", Folder, 0, 0, "null", "", "", ""),
    row("logging.level", Level, 0, 0, r#""ERROR""#, "", "", "CUFILE_LOGGING_LEVEL"),
    row("logging.max_file_size_mb", Signed(-1, 4096), 18, 0, "32", "", "", "CUFILE_LOGFILE_MAX_SIZE_MB"),
    row("miscellaneous.api_check_aggressive", Switch, 0, 0, "false", "", "fs_misc_api_check_aggressive", ""),
    row("miscellaneous.enable_static_config", Switch, 20, 0, "false", "", "", ""),
    row("miscellaneous.enable_static_routing", Switch, 17, 0, "false", "", "", ""),
    row("miscellaneous.rcu_library_used", Text, 0, 0, "null", "", "", ""),
    row("miscellaneous.rdma_token_reset_timeout_secs", Int(1, 2147483647), 20, 0, "30", "", "", "CUFILE_RDMA_TOKEN_RESET_TIMEOUT_SECS"),
    row("miscellaneous.skip_topology_detection", Switch, 0, 0, "false", "", "skip_topology_detection", "CUFILE_SKIP_TOPOLOGY_DETECTION"),
    row("miscellaneous.static_config_filepath", Text, 20, 0, "null", "", "", ""),
    row("miscellaneous.static_routing_filepath", Text, 17, 0, r#""/etc/topology.json""#, "", "", ""),
    row("miscellaneous.stream_memops_bypass", Switch, 0, 0, "false", "", "stream_memops_bypass", "CUFILE_STREAM_MEMOPS_BYPASS"),
    row("profile.cufile_stats", Whole(0, 4294967295, 1), 0, 0, "0", "", "profile_stats", "CUFILE_STATS_LEVEL"),
    row("profile.nvtx", Switch, 0, 15, "false", "", "", ""),
    row("properties.allow_compat_mode", Switch, 0, 0, "true", "", "allow_compat_mode", "CUFILE_ALLOW_COMPAT_MODE"),
    row("properties.allow_rdma_token_reset", Switch, 20, 0, "null", "", "", "CUFILE_RDMA_ALLOW_RDMA_TOKEN_RESET"),
    row("properties.allow_system_memory", Switch, 0, 0, "true", "", "allow_system_memory", ""),
    row("properties.compat_odirect_unaligned_read_split", Switch, 20, 0, "false", "", "", ""),
    row("properties.compat_odirect_unaligned_read_split_min_size_kb", Whole(0, u64::MAX, 4), 20, 0, "128", "", "", ""),
    row("properties.force_compat_mode", Switch, 0, 0, "false", "", "force_compat_mode", "CUFILE_FORCE_COMPAT_MODE"),
    row("properties.force_odirect_mode", Switch, 0, 0, "false", "", "force_odirect_mode", ""),
    row("properties.gds_fallback_io", Switch, 17, 0, "false", "", "gds_fallback_io", ""),
    row("properties.gds_rdma_write_support", Switch, 0, 0, "true", "", "", ""),
    row("properties.gpu_bounce_buffer_slab_config.slab_count", Wholes, 17, 0, "null", "", "", ""),
    row("properties.gpu_bounce_buffer_slab_config.slab_size_kb", Wholes, 17, 0, "null", "", "", ""),
    row("properties.io_batchsize", Whole(1, 256, 1), 0, 0, "128", "", "io_batchsize", ""),
    row("properties.io_priority", Ignored(&["default", "low", "med", "high"]), 0, 0, r#""default""#, "", "", "CUFILE_IO_PRIORITY"),
    row("properties.max_batch_io_timeout_msecs", Whole(1, 1000, 1), 0, 0, "5", "", "batch_io_timeout_ms", ""),
    row("properties.max_device_cache_size_kb", Whole(0, u64::MAX, 4), 0, 0, "131072", "", "max_device_cache_size_kb", "CUFILE_MAX_DEVICE_CACHE_SIZE"),
    row("properties.max_device_pinned_mem_size_kb", Whole(64, 18014398509481980, 4), 0, 0, "18014398509481980", "", "max_device_pinned_mem_size_kb", ""),
    row("properties.max_direct_io_size_kb", Whole(64, 16384, 64), 0, 0, "16384", "1024", "max_direct_io_size_kb", ""),
    row("properties.per_buffer_cache_size_kb", Whole(64, 16384, 64), 0, 0, "1024", "", "per_buffer_cache_size_kb", "CUFILE_PER_BUFFER_CACHE_SIZE"),
    row("properties.poll_mode_max_size_kb", Whole(4, 18014398509481980, 4), 0, 0, "4", "", "poll_thresh_size_kb", ""),
    row("properties.posix_io_mode", Switch, 17, 18, "false", "", "posix_io_mode", ""),
    row("properties.posix_pool_slab_count", Wholes, 0, 0, "[128, 64, 64]", "", "", ""),
    row("properties.posix_pool_slab_size_kb", Wholes, 0, 0, "[4, 1024, 16384]", "", "", ""),
    row("properties.prefer_iouring", Switch, 0, 0, "false", "", "prefer_iouring", ""),
    row("properties.rdma_access_mask", Hex, 0, 0, "null", "", "", ""),
    row("properties.rdma_async_event_monitoring", Switch, 18, 0, "true", "", "", ""),
    row("properties.rdma_dc_key", Hex, 0, 0, "null", "", "", "CUFILE_RDMA_DC_KEY"),
    row("properties.rdma_dev_addr_list", Texts, 0, 0, "[]", "", "", ""),
    row("properties.rdma_dynamic_routing", Switch, 0, 0, "false", "", "", ""),
    row("properties.rdma_dynamic_routing_order", Each(&["GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P"]), 0, 0, r#"["GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P"]"#, "", "", ""),
    row("properties.rdma_failback_delay_ms", Whole(0, 4294967295, 1), 18, 0, "100", "", "", ""),
    row("properties.rdma_failback_enabled", Switch, 18, 0, "true", "", "", ""),
    row("properties.rdma_health_check_interval_ms", Whole(0, 4294967295, 1), 18, 0, "100", "", "", ""),
    row("properties.rdma_io_retry_count", Whole(0, 4294967295, 1), 18, 0, "3", "", "", ""),
    row("properties.rdma_io_retry_delay_ms", Whole(0, 4294967295, 1), 18, 0, "100", "", "", ""),
    row("properties.rdma_load_balancing_policy", Ignored(&["FirstFit", "MaxMinFit", "RoundRobin", "RoundRobinMaxMin", "Randomized"]), 0, 0, r#""RoundRobin""#, "", "", ""),
    row("properties.rdma_max_backup_devices", Whole(0, 4294967295, 1), 18, 0, "2", "", "", ""),
    row("properties.rdma_multipath_enabled", Switch, 18, 0, "false", "", "", ""),
    row("properties.rdma_peer_type", One(&["peer_mem", "dmabuf"]), 0, 0, r#""peer_mem""#, "", "", ""),
    row("properties.rdma_service_level", Int(0, 15), 0, 0, "null", "", "", ""),
    row("properties.rdma_topN_ranks", Int(-2147483648, 2147483647), 0, 0, "1", "", "", ""),
    row("properties.rdma_transport_type", One(&["DC_V1", "EXT_RC_V1", "dc_v1", "ext_rc_v1"]), 20, 0, r#""DC_V1""#, "", "", ""),
    row("properties.rdma_unhealthy_threshold", Whole(0, 4294967295, 1), 18, 0, "3", "", "", ""),
    row("properties.use_pci_p2pdma", Switch, 14, 0, "false", "", "use_pci_p2pdma", "CUFILE_USE_PCIP2PDMA"),
    row("properties.use_poll_mode", Switch, 0, 0, "false", "", "use_poll_mode", ""),
    row("properties.vanilla_posix_io_mode", Switch, 20, 0, "false", "", "posix_io_mode", ""),
    row("sparse.min_p2pdma_threshold_kb", Whole(0, 4294967295, 1), 20, 0, "16", "", "", ""),
    row("sparse.p2p_compat_enable", Switch, 20, 0, "true", "", "", ""),];
