//! The meaning of each key of cufile.json and each environment variable of libcufile, and when to change it.

/// The name, the meaning, and the advice (can be empty).
pub(super) type Row = (&'static str, &'static str, &'static str);

/// The row of a key or variable.
pub(super) fn of(name: &str) -> Option<&'static Row> {
    KEYS.iter().chain(VARIABLES).chain(OTHER_VARIABLES).find(|row| row.0 == name)
}

const P2PDMA: &str = "enables P2PDMA for this transport; properties.use_pci_p2pdma must be true as well";
const P2PDMA_LEGACY: &str = "is accepted, but P2PDMA does not work for this file system";
const MOUNTS: &str = "lists the network cards for each mount point";
const CARDS: &str = "lists the addresses of the network cards for this file system";
const SMALL: &str = "sends smaller requests through host memory";
const MOUNTS_EXIST: &str =
    "Each mount point must exist, or libcufile rejects the file. Use it or rdma_dev_addr_list, not both.";
const CARDS_ADVICE: &str = "Leave it empty for local disks.";
const DENIED: &str = "Files that it excludes fail, or are read through host memory.";
const RDMA_ONLY: &str = "It has no effect on local disks.";

/// The keys of cufile.json and their meanings.
#[rustfmt::skip]
pub(super) const KEYS: &[Row] = &[
    ("block.nvme.use_pci_p2pdma", P2PDMA, "gds-top fix cufile-p2pdma-keys sets both keys."),
    ("block.nvmeof.use_pci_p2pdma", P2PDMA, "Linux and NVIDIA support P2PDMA for local NVMe disks only, so it has no use today."),
    ("block.raid.use_pci_p2pdma", P2PDMA, "RAID 0 needs Grace or Linux 7.1."),
    ("block.raid1.use_pci_p2pdma", P2PDMA, ""),
    ("block.raid10.use_pci_p2pdma", P2PDMA, ""),
    ("denylist.devices", "excludes block devices from cuFile", DENIED),
    ("denylist.drivers", "excludes storage drivers from cuFile", DENIED),
    ("denylist.filesystems", "excludes file systems from cuFile", DENIED),
    ("denylist.fsids", "excludes file systems by their id from cuFile", DENIED),
    ("denylist.mounts", "excludes mount points from cuFile", "Each mount point must exist, or libcufile rejects the file."),
    ("execution.max_io_queue_depth", "sets the number of requests that can wait in the library's thread pool", ""),
    ("execution.max_io_threads", "sets the threads of the library's pool for each GPU; 0 disables the pool", "Use 8 to 16 for a single stream of large reads."),
    ("execution.max_request_parallelism", "sets the number of parts into which a large request is split", ""),
    ("execution.min_io_threshold_size_kb", "sets the size from which a request is split over threads", "Use 1024 or 2048 if a program issues few large reads."),
    ("execution.parallel_io", "splits one large request over the library's threads", "Enable it for programs with one reading thread. Programs with many threads do not need it."),
    ("fs.beegfs.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.beegfs.posix_gds_min_kb", SMALL, ""),
    ("fs.beegfs.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.beegfs.use_pci_p2pdma", P2PDMA_LEGACY, "Remove it."),
    ("fs.generic.posix_unaligned_writes", "writes unaligned data through host memory, without read-modify-write", ""),
    ("fs.gpfs.gds_async_support", "allows asynchronous transfers on Spectrum Scale", ""),
    ("fs.gpfs.gds_write_support", "allows direct writes on Spectrum Scale", ""),
    ("fs.gpfs.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.gpfs.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.gpfs.use_pci_p2pdma", P2PDMA_LEGACY, "Remove it."),
    ("fs.lustre.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.lustre.posix_gds_min_kb", SMALL, ""),
    ("fs.lustre.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.lustre.use_pci_p2pdma", P2PDMA_LEGACY, "Remove it."),
    ("fs.nfs.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.nfs.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.nfs.use_pci_p2pdma", P2PDMA_LEGACY, "Remove it."),
    ("fs.panfs.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.panfs.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.panfs.use_pci_p2pdma", P2PDMA_LEGACY, "Remove it."),
    ("fs.scatefs.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.scatefs.posix_gds_min_kb", SMALL, ""),
    ("fs.scatefs.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.scatefs.use_pci_p2pdma", P2PDMA_LEGACY, "Remove it."),
    ("fs.virtiofs.use_pci_p2pdma", P2PDMA, ""),
    ("fs.weka.mount_table", MOUNTS, MOUNTS_EXIST),
    ("fs.weka.rdma_dev_addr_list", CARDS, CARDS_ADVICE),
    ("fs.weka.rdma_write_support", "allows direct writes on WekaFS", ""),
    ("logging.dir", "sets the directory of cufile.log; without it the log is written to the working directory", "The directory must exist, or libcufile rejects the file."),
    ("logging.level", "sets the log level, in upper case", "Use ERROR. DEBUG and TRACE slow down every read."),
    ("logging.max_file_size_mb", "limits the size of cufile.log; -1 means unlimited", ""),
    ("miscellaneous.api_check_aggressive", "enables additional checks of arguments", ""),
    ("miscellaneous.enable_static_config", "reads facts about the GPUs from a file instead of the driver", "Write the file again after each hardware change."),
    ("miscellaneous.enable_static_routing", "reads the topology from a file instead of detecting it", "Write the file again after each hardware change."),
    ("miscellaneous.rcu_library_used", "chooses the RCU library", ""),
    ("miscellaneous.rdma_token_reset_timeout_secs", "limits the wait for a reset of an RDMA connection", RDMA_ONLY),
    ("miscellaneous.skip_topology_detection", "opens the driver without detecting the topology", "It saves time at the open if only compat mode is used."),
    ("miscellaneous.static_config_filepath", "names the file for enable_static_config", ""),
    ("miscellaneous.static_routing_filepath", "names the file for enable_static_routing", ""),
    ("miscellaneous.stream_memops_bypass", "allows transfers on streams without stream memory operations", "Set it if cuFileReadAsync fails with 5038."),
    ("profile.cufile_stats", "sets the level of statistics: 1 counters, 2 sizes, 3 routes for each GPU", "Use 0 for measurements. gds-top enables level 3 in its own processes."),
    ("profile.nvtx", "enabled NVTX ranges up to libcufile 1.15", "Remove it."),
    ("properties.allow_compat_mode", "allows reads through host memory if there is no direct route", "Set it to false to get an error instead of a silent fallback."),
    ("properties.allow_rdma_token_reset", "allows the reset of an RDMA connection", RDMA_ONLY),
    ("properties.allow_system_memory", "allows cuFile calls with host memory", ""),
    ("properties.compat_odirect_unaligned_read_split", "in compat mode reads the aligned middle of an unaligned request with O_DIRECT", "It helps with safetensors files, because their data starts at unaligned offsets."),
    ("properties.compat_odirect_unaligned_read_split_min_size_kb", "sets the size from which an unaligned request is split", ""),
    ("properties.force_compat_mode", "sends every read through host memory", "Use it for the baseline of a comparison only."),
    ("properties.force_odirect_mode", "uses O_DIRECT even if the program opened the file without it", ""),
    ("properties.gds_fallback_io", "repeats a failed direct read through host memory", "It hides errors; leave it off while you look for a cause."),
    ("properties.gds_rdma_write_support", "allows direct writes over RDMA and NVMe-oF", ""),
    ("properties.gpu_bounce_buffer_slab_config.slab_count", "sets the number of bounce buffers of each size", "It needs as many entries as slab_size_kb."),
    ("properties.gpu_bounce_buffer_slab_config.slab_size_kb", "sets the sizes of the bounce buffers on the GPU, in ascending order", "One of them must be 16384, or nvidia-fs rejects reads."),
    ("properties.io_batchsize", "sets the maximum number of entries in a batch", "The dump of the library calls it max_batch_io_size."),
    ("properties.io_priority", "sets the priority of the library's CUDA streams", "libcufile ignores other words."),
    ("properties.max_batch_io_timeout_msecs", "sets how long a batch is polled", ""),
    ("properties.max_device_cache_size_kb", "sets the memory of the bounce buffers on each GPU, for unaligned or unregistered reads", "It must fit into BAR1. Divided by per_buffer_cache_size_kb it should be at least io_batchsize."),
    ("properties.max_device_pinned_mem_size_kb", "limits the registered memory of each GPU", "The file that NVIDIA ships has 32 GiB: registering a larger model fails with 5016. Remove the key, or raise it."),
    ("properties.max_direct_io_size_kb", "sets the largest request to the kernel; larger reads are split", "In compat mode use 1024 to 4096, because each registration pins this size. On a direct route keep 16384."),
    ("properties.per_buffer_cache_size_kb", "sets the size of one bounce buffer on the GPU", "It must not exceed max_direct_io_size_kb. On a direct route use 16384 for large reads into unregistered memory."),
    ("properties.poll_mode_max_size_kb", "sets the maximum size of reads that are polled", ""),
    ("properties.posix_io_mode", "uses POSIX reads without platform checks", "Its name is vanilla_posix_io_mode from libcufile 1.20 on."),
    ("properties.posix_pool_slab_count", "sets the number of host buffers of each size for compat mode", "A batch with more entries than buffers waits forever: raise the count of the 1 MiB size."),
    ("properties.posix_pool_slab_size_kb", "sets the sizes of the host buffers for compat mode", "Each is a multiple of 4; the list is as long as posix_pool_slab_count."),
    ("properties.prefer_iouring", "uses io_uring for POSIX reads", ""),
    ("properties.rdma_access_mask", "sets the access flags of RDMA registrations", RDMA_ONLY),
    ("properties.rdma_async_event_monitoring", "watches the network card for asynchronous events", RDMA_ONLY),
    ("properties.rdma_dc_key", "sets the DC key", "It must be the value of the file system."),
    ("properties.rdma_dev_addr_list", "lists the addresses of the network cards for RDMA", CARDS_ADVICE),
    ("properties.rdma_dynamic_routing", "copies through another GPU or host memory if disk and GPU are below different root ports", "With SYS_MEM in the order, bytes pass through host memory."),
    ("properties.rdma_dynamic_routing_order", "sets the order of the detours for rdma_dynamic_routing", "Remove SYS_MEM to keep bytes out of host memory."),
    ("properties.rdma_failback_delay_ms", "sets the wait before a recovered network path is used again", RDMA_ONLY),
    ("properties.rdma_failback_enabled", "uses a recovered network path again", RDMA_ONLY),
    ("properties.rdma_health_check_interval_ms", "sets how often network paths are checked", RDMA_ONLY),
    ("properties.rdma_io_retry_count", "sets how often a failed RDMA transfer is repeated", RDMA_ONLY),
    ("properties.rdma_io_retry_delay_ms", "sets the wait before a failed RDMA transfer is repeated", RDMA_ONLY),
    ("properties.rdma_load_balancing_policy", "sets how requests are distributed over network cards", "libcufile ignores other words."),
    ("properties.rdma_max_backup_devices", "sets the number of backup network cards", RDMA_ONLY),
    ("properties.rdma_multipath_enabled", "uses several network paths", RDMA_ONLY),
    ("properties.rdma_peer_type", "chooses nvidia_peermem or dma-buf for RDMA registrations", RDMA_ONLY),
    ("properties.rdma_service_level", "sets the service level of RDMA connections", "It must be the value of the file system."),
    ("properties.rdma_topN_ranks", "sets the number of nearest network cards that are used", RDMA_ONLY),
    ("properties.rdma_transport_type", "chooses the RDMA transport", RDMA_ONLY),
    ("properties.rdma_unhealthy_threshold", "sets the number of failures after which a network path counts as unhealthy", RDMA_ONLY),
    ("properties.use_pci_p2pdma", "enables P2PDMA, and C2C on Grace", "From libcufile 1.16 on, the key of the transport (block.nvme.use_pci_p2pdma) is needed as well."),
    ("properties.use_poll_mode", "polls for the completion of small reads", "It lowers the latency of reads up to poll_mode_max_size_kb and uses a CPU."),
    ("properties.vanilla_posix_io_mode", "uses POSIX reads without platform checks", ""),
    ("sparse.min_p2pdma_threshold_kb", "sets the maximum size of holes in sparse files that are read through host memory", ""),
    ("sparse.p2p_compat_enable", "reads holes of sparse files through host memory on the P2PDMA route", ""),
];

const ONLY_TRUE: &str = "Only the word true (in upper or lower case) counts as true. 1, yes and on count as false.";

/// The environment variables that libcufile reads, and their meanings.
#[rustfmt::skip]
pub(super) const VARIABLES: &[Row] = &[
    ("CUFILE_ENV_PATH_JSON", "names another cufile.json; its keys override those of /etc/cufile.json", "libcufile ignores a missing file without a message. /etc/cufile.json must still be valid."),
    ("CUFILE_LOGFILE_PATH", "names the log file, including its file name", "It must be a file, not a directory."),
    ("CUFILE_LOGFILE_MAX_SIZE_MB", "limits the size of the log", ""),
    ("CUFILE_LOGGING_LEVEL", "sets the log level, in upper case", "Use DEBUG for one run to see why a file is read through host memory."),
    ("CUFILE_STATS_LEVEL", "sets the level of statistics, 0 to 3", ""),
    ("CUFILE_FORCE_COMPAT_MODE", "sends every read through host memory", ONLY_TRUE),
    ("CUFILE_ALLOW_COMPAT_MODE", "allowed compat mode up to libcufile 1.16", ONLY_TRUE),
    ("CUFILE_NVTX", "enabled NVTX ranges up to libcufile 1.15", ""),
    ("CUFILE_USE_PCIP2PDMA", "enables P2PDMA", ONLY_TRUE),
    ("CUFILE_DMABUF_ENABLE", "uses dma-buf for RDMA registrations", ""),
    ("CUFILE_IO_PRIORITY", "sets the priority of the library's CUDA streams", ""),
    ("CUFILE_MAX_DEVICE_CACHE_SIZE", "sets max_device_cache_size_kb", ""),
    ("CUFILE_PER_BUFFER_CACHE_SIZE", "sets per_buffer_cache_size_kb", ""),
    ("CUFILE_SKIP_TOPOLOGY_DETECTION", "opens the driver without detecting the topology", ""),
    ("CUFILE_STREAM_MEMOPS_BYPASS", "allows transfers on streams without stream memory operations", ""),
    ("CUFILE_VISIBLE_DEVICES", "limits the GPUs that cuFile uses", "The GPUs must be in CUDA_VISIBLE_DEVICES too. It helps if one GPU without static BAR1 disables P2PDMA for all."),
    ("CUFILE_RDMA_DC_KEY", "sets the DC key of RDMA connections", ""),
    ("CUFILE_IB_SL", "sets the service level on InfiniBand", ""),
    ("CUFILE_ETH_SL", "sets the service level on Ethernet", ""),
    ("CUFILE_RDMA_ALLOW_RDMA_TOKEN_RESET", "allows the reset of an RDMA connection", ""),
    ("CUFILE_RDMA_TOKEN_RESET_TIMEOUT_SECS", "limits the wait for a reset of an RDMA connection", ""),
    ("CUFILE_EXPERIMENTAL_FS", "allows further kinds of file systems", ""),
    ("CUFILE_SKIP_BUFFER_VALIDITY_CHECK", "skips the check of memory pointers", ""),
];

/// Variables of serving systems and guides, which libcufile does not read.
#[rustfmt::skip]
pub(super) const OTHER_VARIABLES: &[Row] = &[
    ("CUFILE_DEBUG", "has no effect: libcufile does not read it, although guides name it", "Use CUFILE_LOGGING_LEVEL=DEBUG."),
    ("CUDA_LAUNCH_BLOCKING", "makes each kernel launch of a CUDA program wait until the kernel has ended, if it is 1; 0 is the default", "Unset it. Guides set it to 0 for asynchronous transfers, which changes nothing."),
    ("CUDA_VISIBLE_DEVICES", "limits the GPUs that a CUDA program sees, and their order", "gds-top and cuFile number the GPUs in this order."),
    ("ENABLE_GDS", "has no effect: LMCache and llm-d do not read it, although guides name it", "LMCache: set gds_path. llm-d: set gds_mode."),
    ("KVIKIO_COMPAT_MODE", "chooses how KvikIO (cuDF, RAPIDS) reads: ON uses POSIX reads without cuFile, OFF only cuFile, AUTO (default) tries cuFile first", "Unset it or set it to AUTO. ON, TRUE, YES and 1 mean that no read reaches a direct route."),
    ("KVIKIO_GDS_THRESHOLD", "sets the size in bytes below which KvikIO reads with POSIX, without cuFile", "Lower it if small reads must use a direct route."),
    ("KVIKIO_NTHREADS", "sets the number of threads of KvikIO's pool (default 1)", "Raise it for large reads."),
    ("KVIKIO_TASK_SIZE", "sets the size in bytes of the parts into which KvikIO splits a read (default 4 MiB)", "Compare larger sizes with your program."),
    ("LD_LIBRARY_PATH", "adds directories in which the loader looks for libraries such as libcufile.so", "gds-top check shows which libcufile is loaded."),
    ("LMCACHE_CONFIG_FILE", "names the configuration file of LMCache; its options can be overridden by LMCACHE_NAME variables", "gds-top check --for lmcache FILE shows its effects."),
    ("LMCACHE_LOG_LEVEL", "sets the log level of LMCache (default INFO)", "DEBUG shows the time of each transfer."),
    ("STORAGE_CONNECTOR_DEBUG", "is the old switch of llm-d's connector for its debug messages; 1 equals STORAGE_LOG_LEVEL=debug", "Use STORAGE_LOG_LEVEL."),
    ("STORAGE_LOG_LEVEL", "sets the log level of llm-d's connector: trace, debug, info (default), warn or error", "debug shows the time of each transfer."),
];
