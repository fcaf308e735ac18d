//! NVMe controllers without a namespace: the disk works, and has no block device. The kernel can have rejected it.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::checks::kernel::p2pdma;
use crate::core::CheckId;
use crate::machine::{self, Source};

/// The first kernel that accepts equal identifiers of disks with a single port (commit ac522fc6c316).
const ACCEPTS_DUPLICATES: (u32, u32) = (6, 5);

/// A controller without a namespace, and the line of the kernel log about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) controller: String,
    pub(crate) line: String,
}

impl Rejected {
    fn is_duplicate(&self) -> bool {
        self.line.contains("duplicate IDs")
    }
}

/// Whether a text of a controller reports that a namespace was rejected (drivers/nvme/host/core.c).
fn is_rejection(text: &str) -> bool {
    const STARTS: [&str; 4] = [
        "globally duplicate IDs for nsid",
        "duplicate IDs for nsid",
        "duplicate IDs in subsystem for nsid",
        "identifiers changed for nsid",
    ];
    STARTS.iter().any(|start| text.starts_with(start))
}

/// The controllers that are live and have no namespace, because the kernel rejected it.
pub(crate) fn rejected(ctx: &Context<'_>) -> Vec<Rejected> {
    let log = machine::kernel_log(ctx.root).unwrap_or_default();
    let mut found: Vec<Rejected> = Vec::new();
    for message in log.of(Source::Nvme) {
        let Some((controller, text)) = message.nvme_controller() else { continue };
        let is_known = found.iter().any(|known| known.controller == controller);
        if is_rejection(text) && !is_known && lacks_namespace(ctx, controller) {
            found.push(Rejected { controller: controller.to_owned(), line: message.line.clone() });
        }
    }
    found
}

/// Whether a live controller has no block device. The name of a hidden path has the number of the controller in its
/// middle: `nvme0c1n1`.
fn lacks_namespace(ctx: &Context<'_>, controller: &str) -> bool {
    let is_live =
        ctx.root.read_text(format!("/sys/class/nvme/{controller}/state")).is_ok_and(|state| state.trim() == "live");
    let path = format!("c{}n", controller.trim_start_matches("nvme"));
    let is_of = |name: &String| {
        name.starts_with(&format!("{controller}n")) || (name.starts_with("nvme") && name.contains(&path))
    };
    is_live && ctx.root.entries("/sys/block").is_ok_and(|names| !names.iter().any(is_of))
}

/// The live controllers on PCIe without a namespace about which the kernel log has no line. A controller for discovery or
/// administration never has one, and a namespace without a block device has a character device `ng0n1`.
pub(crate) fn empty(ctx: &Context<'_>, rejected: &[Rejected]) -> Vec<String> {
    const FOLDER: &str = "/sys/class/nvme";
    let has = |name: &str, file: &str, wanted: &str| match ctx.root.read_text(format!("{FOLDER}/{name}/{file}")) {
        Ok(text) => Some(text.trim() == wanted),
        Err(_) => None,
    };
    let has_character_device = |name: &str| {
        let files = ctx.root.entries(format!("{FOLDER}/{name}")).unwrap_or_default();
        files.iter().any(|file| file.starts_with("ng"))
    };
    let is_empty = |name: &String| {
        has(name, "transport", "pcie") == Some(true)
            && has(name, "cntrltype", "io") != Some(false)
            && rejected.iter().all(|one| one.controller != *name)
            && lacks_namespace(ctx, name)
            && !has_character_device(name)
    };
    ctx.root.entries(FOLDER).unwrap_or_default().into_iter().filter(is_empty).collect()
}

/// How the disk gets its block device.
pub(crate) fn advice(ctx: &Context<'_>, rejected: &Rejected) -> Advice {
    let controller = &rejected.controller;
    if !rejected.is_duplicate() || ctx.kernel().is_some_and(|kernel| kernel >= ACCEPTS_DUPLICATES) {
        return Advice::from(format!(
            "The kernel rejected the namespace of {controller}: update the firmware of this disk, then reboot. Do not format it, because its data is intact."
        ));
    }
    let start = Advice::from(format!(
        "The kernel rejected the namespace of {controller}, which has the identifiers of another disk. Its data is intact. "
    ));
    match p2pdma::newer_kernel(ctx) {
        Some(package) => {
            let is_held = machine::deb_packages(ctx.root).iter().any(|one| one.is_held && one.name == package);
            let unhold = if is_held { format!("sudo apt-mark unhold {package} && ") } else { String::new() };
            start
                .text("Linux 6.5 and later accepts it: ")
                .command(format!("{unhold}sudo apt-get update && sudo apt-get install --install-recommends {package}"))
                .text(". If `dkms status` lists the NVIDIA driver for the new kernel, reboot.")
        }
        None => start.text(
            "Linux 6.5 and later accepts it: install such a kernel with its headers. If `dkms status` lists the NVIDIA driver for it, reboot.",
        ),
    }
}

/// Reports the disks without a block device. They can be those of a mount point that is empty.
pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let judged = |one: Rejected| {
        let advice = advice(ctx, &one);
        Judged::warn(
            CheckId::NvmeState,
            format!("{} is live and has no namespace: the kernel rejected it", one.controller),
        )
        .found(format!("/sys/class/nvme/{}/state", one.controller), "live")
        .found(machine::KERNEL_LOG, one.line)
        .advice(advice)
    };
    let rejected = rejected(ctx);
    // It can be the disk of a file system that is not mounted. Otherwise it is not used.
    let is_missed = ctx.subjects.iter().any(|subject| subject.unmounted.is_some());
    let empty = empty(ctx, &rejected).into_iter().map(|name| {
        let summary = format!("{name} is live and has no namespace, so it has no block device");
        let judged = if is_missed {
            Judged::warn(CheckId::NvmeState, summary)
        } else {
            Judged::info(CheckId::NvmeState, summary)
        };
        judged
            .found(format!("/sys/class/nvme/{name}/state"), "live")
            .found("/sys/block", format!("no namespace of {name}"))
            .advice(attach(&name))
    });
    let empty: Vec<Judged> = empty.collect();
    rejected.into_iter().map(judged).chain(empty).collect()
}

/// The command that lists the namespaces of a controller, also those that are not attached.
pub(crate) fn list(controller: &str) -> String {
    format!("sudo nvme list-ns /dev/{controller} --all")
}

/// How a controller gets a namespace (nvme-list-ns(1), nvme-attach-ns(1)).
fn attach(controller: &str) -> Advice {
    Advice::run(list(controller))
        .text(". If that lists a namespace, attach it with its number: ")
        .command(format!(
            "sudo nvme attach-ns /dev/{controller} --namespace-id=NUMBER --controllers=$(cat /sys/class/nvme/{controller}/cntlid) && sudo nvme ns-rescan /dev/{controller}"
        ))
        .text(". If it lists none, the disk has no data, and nvme-create-ns(1) shows how to create one.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_a_rejected_namespace_are_known() {
        for line in [
            "globally duplicate IDs for nsid 1",
            "duplicate IDs in subsystem for nsid 1",
            "identifiers changed for nsid 1",
        ] {
            assert!(is_rejection(line), "{line}");
        }
        for line in ["Ignoring bogus Namespace Identifiers", "44/0/0 default/read/poll queues"] {
            assert!(!is_rejection(line), "{line}");
        }
    }
}
