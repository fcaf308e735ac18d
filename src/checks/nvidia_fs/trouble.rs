//! Finds failures of nvidia-fs during reads in the kernel log.

use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::checks::kernel::iommu_fault::is_of_route;
use crate::checks::nvidia_fs::{loaded, other_driver};
use crate::core::CheckId;
use crate::machine::{self, Message, Source};

/// Reports the first known failure in the log.
pub(crate) fn trouble(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsErrors;
    const SIGNS: &[(&[&str], &str, &str)] = &[
        (
            &["unable to pin shadow buffer pages", "-14"],
            "nvidia-fs could not pin its buffers (-14), so reads went through host memory",
            "Update nvidia-fs to 2.26.6 or later, which works with current kernels.",
        ),
        (
            &["rw_verify_area failed with -14"],
            "reads fail with 'rw_verify_area failed with -14', an error of nvidia-fs 2.25.6",
            "Update nvidia-fs to 2.25.7 or later, or go back to 2.24.3.",
        ),
        (
            &["invoking nvidia_p2p_get_pages", "-22"],
            "the driver mapped no GPU memory (-22): unsupported GPU, or BAR1 full",
            "See the checks gpu-class, gpu-gdr-attr and gpu-bar1-free.",
        ),
        (
            &["unable to obtain dma_mapping"],
            "a transfer could not be mapped",
            "See the checks iommu-state and pcie-acs.",
        ),
        (
            &["io_page_fault"],
            "the IOMMU stopped a transfer",
            "If iommu-state reports that the IOMMU translates, follow its advice.",
        ),
        (
            &["dmar:", "fault addr"],
            "the IOMMU stopped a transfer",
            "If iommu-state reports that the IOMMU translates, follow its advice.",
        ),
        (
            &["cannot handle gpu request with integrity metadata"],
            "a disk with integrity metadata was read",
            "See nvme-integrity.",
        ),
        (
            &["cannot handle mixed segments"],
            "the block layer merged requests of CPU and GPU memory",
            "Update nvidia-fs and the kernel.",
        ),
        (&["not sector aligned"], "an unaligned read reached the driver", "Align reads to 4096 bytes."),
        (
            &["unable to flush dirty pages"],
            "modified pages of a file could not be written",
            "Run `sync`, then open the file again.",
        ),
    ];
    if let Some(crash) = other_driver::crash(ctx) {
        return Some(crash);
    }
    let log = machine::kernel_log(ctx.root)?;
    // Faults of other devices are ignored.
    let is_relevant = |message: &&Message| match message.source {
        Source::NvidiaFs => true,
        Source::Iommu => is_of_route(ctx, &message.text),
        _ => false,
    };
    let messages: Vec<&Message> = log.messages().rev().filter(is_relevant).collect();
    let last = |parts: &[&str]| messages.iter().find(|message| message.has(parts));
    let (message, summary, advice) =
        SIGNS.iter().find_map(|(parts, summary, advice)| Some((last(parts)?, *summary, *advice)))?;
    let judged = Judged::warn(ID, format!("the kernel log: {summary}")).found(machine::KERNEL_LOG, &message.line);
    let is_of_version = message.text.contains("rw_verify_area") && loaded::version(ctx).fails_reads;
    Some(if is_of_version { judged.cause(CheckId::NvfsVersion) } else { judged.advice(advice) })
}
