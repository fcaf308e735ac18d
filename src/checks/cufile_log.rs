//! cufile.log read into causes: the messages of libcufile that say why a read fell back (reference 1.11).

use super::context::Context;
use super::judged::Judged;
use crate::domain::Group::Cufile;

/// Lines from the end that are looked at: a log of months says nothing of today.
const LAST_LINES: usize = 2000;

/// A part of a message, what it means, and the check that tells more.
const MESSAGES: &[(&str, &str, &str)] = &[
    ("udev property not found: ID_FS_USAGE", "udev has no record of the disk", "udev-database"),
    (
        "error creating udev_device for block device dev_no: 0:",
        "the file lies on a device without a number of its own, such as overlay",
        "fs-type",
    ),
    ("NVMe Driver not registered with nvidia-fs", "the NVMe driver is not built for GDS", "nvfs-nvme-symbol"),
    ("nvidia-fs.ko driver access denied", "the device of nvidia-fs may not be opened", "nvfs-devnodes"),
    ("nvidia_fs driver version mismatch", "nvidia-fs and libcufile do not go together", "nvfs-version"),
    ("PCIP2PDMA is not enabled in the configuration", "P2PDMA is switched off", "cfg-p2p-both"),
    ("Kernel does not support PCIP2PDMA", "the kernel has no P2PDMA", "kernel-p2pdma"),
    (
        "gpu attribute pci_p2pdma not supported",
        "a GPU has no P2PDMA: its BAR1 is not mapped statically, or its model has none",
        "gpu-static-bar1",
    ),
    ("ext4 journal mode for device not supported", "ext4 is not mounted with data=ordered", "ext4-ordered"),
    ("EXT4 journal options not found in mount table", "data=ordered is not shown in the mount options", "ext4-ordered"),
    ("mount option not found in mount table data", "data=ordered is not shown in the mount options", "ext4-ordered"),
    ("detected unsupported inode flags", "the file is encrypted, compressed, immutable or append-only", "inode-flags"),
    ("RAID level not supported by cuFile", "a RAID of another level than 0", "md-raid"),
    ("cuFile does not support file-system type", "the file system has no direct route", "fs-type"),
    ("detected compat-only file system", "the file system has no direct route", "fs-type"),
    ("cuFile support has been disabled for", "a denylist shuts the path out", "cfg-effective"),
    ("exceeds permitted bar size", "BAR1 is used up", "gpu-bar1-free"),
    ("Inc-bar-usage failed", "BAR1 is used up", "gpu-bar1-free"),
    ("GPUDirect Storage not supported on gpu index", "a GPU has no GPUDirect", "gpu-gdr-attr"),
    ("support for stream memops v1 is disabled", "reads on streams do not work", "gpu-stream-memops"),
    ("nvidia-fs.ko driver not loaded", "nvidia-fs is not loaded", "nvfs-loaded"),
    ("running in compatible mode", "nothing direct was available when the driver was opened", "cfg-p2p-both"),
];

/// What the end of the log says, the last message that is known counting. Only a log at a place that the configuration names is looked for.
pub(super) fn scan(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "log-scan";
    let path = place(ctx)?;
    let text = ctx.root.read_text(&path).ok()?;
    let lines: Vec<&str> = text.lines().rev().take(LAST_LINES).collect();
    let known =
        |line: &&str| MESSAGES.iter().find(|(part, ..)| line.contains(part)).map(|found| ((*line).to_owned(), found));
    let judged = match lines.iter().find_map(known) {
        Some((line, (_, meaning, check))) => {
            Judged::info(ID, Cufile, format!("the last known message: {meaning}; see {check}"))
                .found(&path, line.trim())
        }
        None => Judged::pass(ID, Cufile, "no message that explains a fallback")
            .found(&path, format!("{} lines read", lines.len())),
    };
    Some(judged.why("libcufile writes down why it fell back; the file may be of another program or another day."))
}

fn place(ctx: &Context<'_>) -> Option<String> {
    let named = ctx.root.variable("CUFILE_LOGFILE_PATH").filter(|path| path.starts_with('/'));
    named.or_else(|| Some(format!("{}/cufile.log", super::cufile_details::log_folder(ctx)?.trim_end_matches('/'))))
}
