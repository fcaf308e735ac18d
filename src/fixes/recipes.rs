//! Which fix mends what, and its plan for this machine.

pub(super) use super::parts::{Family, empty, family, initramfs, known_family, line_in, run, words};
use super::{advised, applied, boot, fitting, install, udev};
use crate::checks::Report;
use crate::domain::{Finding, FixPlan, Status};
use crate::host::Root;

/// A fix that gds-top knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Its id: `udev-record`.
    pub id: &'static str,
    /// The check that it mends.
    pub check: &'static str,
    /// The files that it may edit, as patterns (see `editable`).
    pub edits: &'static [&'static str],
}

impl Recipe {
    const fn edits(self, edits: &'static [&'static str]) -> Self {
        Self { edits, ..self }
    }
}

const fn recipe(id: &'static str, check: &'static str) -> Recipe {
    Recipe { id, check, edits: &[] }
}

/// Where words of the kernel's command line are written.
const GRUB: &str = "/etc/default/grub";
const GRUB_MORE: &str = "/etc/default/grub.d/*.cfg";
const CMDLINE: &str = "/etc/kernel/cmdline";
/// Options of kernel modules.
const MODPROBE: &str = "/etc/modprobe.d/*.conf";
/// The system's file and one that the user names.
const CUFILE_JSON: &[&str] = &["/etc/cufile.json", "*.json", "$CUFILE_ENV_PATH_JSON"];

/// All fixes that gds-top knows.
pub const RECIPES: &[Recipe] = &[
    recipe("udev-record", "udev-database").edits(&["/run/udev/data/b*"]),
    recipe("nvidia-repository", "driver-flavour"),
    recipe("nvidia-driver-open", "driver-flavour"),
    recipe("nvidia-driver-proprietary", "gpu-present"),
    recipe("nvidia-fabricmanager", "gpu-fabric"),
    recipe("nvfs-install", "nvfs-loaded"),
    recipe("nvfs-load", "nvfs-autoload").edits(&["/etc/modules-load.d/nvidia_fs.conf", MODPROBE]),
    recipe("nvfs-dkms", "nvfs-dkms"),
    recipe("secure-boot-key", "nvfs-secureboot"),
    recipe("nvme-patch", "nvfs-nvme-symbol")
        .edits(&["/etc/apt/sources.list.d/doca.list", "/etc/yum.repos.d/doca.repo"]),
    recipe("iommu-off", "iommu-state").edits(&[GRUB, GRUB_MORE, CMDLINE]),
    recipe("acs-redirect", "pcie-acs").edits(&[GRUB, GRUB_MORE, CMDLINE]),
    recipe("ext4-ordered", "ext4-ordered").edits(&["/etc/fstab", GRUB, GRUB_MORE, CMDLINE]),
    recipe("nvme-multipath-off", "nvme-multipath").edits(&[MODPROBE, GRUB, GRUB_MORE, CMDLINE]),
    recipe("p2pdma-registry-keys", "gpu-static-bar1").edits(&[MODPROBE]),
    recipe("initramfs", "reboot-pending"),
    recipe("cufile-p2pdma-keys", "cfg-p2p-both").edits(CUFILE_JSON),
    recipe("libcufile-install", "lib-found"),
    recipe("container-devices", "ctr-devices"),
    recipe("md-udev", "md-raid").edits(&["/etc/udev/rules.d/64-md-level-gds.rules"]),
    recipe("nvfs-stats", "nvfs-stats-on"),
    recipe("bar1-large", "gpu-bar1-size"),
    recipe("memlock", "lim-memlock").edits(&["/etc/security/limits.d/*.conf"]),
    recipe("cufile-config", "cfg-parse").edits(CUFILE_JSON),
    recipe("cufile-log", "log-location"),
    recipe("kernel-p2pdma", "kernel-p2pdma"),
    recipe("gpu-near-disk", "pcie-topology"),
    recipe("move-model", "fs-type"),
];

/// Plans for everything in `report` that a fix can mend, in the order of the findings.
#[must_use]
pub fn plan(root: &Root, report: &Report) -> Vec<FixPlan> {
    let mut out: Vec<FixPlan> = Vec::new();
    for finding in &report.findings {
        let Some(id) = fix_of(finding) else { continue };
        if !matches!(finding.status, Status::Fail | Status::Warn) || out.iter().any(|plan| plan.id == id) {
            continue;
        }
        out.extend(for_id(root, report, id, &finding.id));
    }
    out
}

/// The plan of a fix by its id, whether or not a check asks for it; none for an unknown id, or where the machine has nothing that it could change.
#[must_use]
pub fn plan_by_id(root: &Root, report: &Report, id: &str) -> Option<FixPlan> {
    let known = RECIPES.iter().find(|recipe| recipe.id == id)?;
    for_id(root, report, id, known.check)
}

/// Fixes of checks that name none themselves.
const BY_CHECK: &[(&str, &str)] = &[
    ("nvfs-dkms", "nvfs-dkms"),
    ("nvfs-build-inputs", "nvfs-dkms"),
    ("nvfs-secureboot", "secure-boot-key"),
    ("nvfs-nvme-symbol", "nvme-patch"),
    ("gpu-bar1-size", "bar1-large"),
    ("kernel-p2pdma", "kernel-p2pdma"),
    ("ctr-udev", "container-devices"),
    ("ctr-devices", "container-devices"),
    ("nvfs-devnodes", "container-devices"),
    ("nvfs-autoload", "nvfs-load"),
    ("nvfs-stats-on", "nvfs-stats"),
    ("nvfs-bridges-acs", "acs-redirect"),
    ("pcie-acs", "acs-redirect"),
    ("cfg-parse", "cufile-config"),
    ("log-location", "cufile-log"),
    ("fs-type", "move-model"),
];

/// The fix of a finding: its own, that of its check, or that of the words which the kernel logged.
pub(super) fn fix_of(finding: &Finding) -> Option<&str> {
    if let Some(id) = finding.fix.as_deref() {
        return Some(id);
    }
    // A consequence is mended with its cause.
    if finding.cause.is_some() {
        return None;
    }
    match finding.id.as_str() {
        "nvfs-load-errors" => by_log(finding),
        // Another RAID level is no matter of udev.
        "md-raid" => finding.evidence.iter().any(|e| e.text.contains("no line E:MD_LEVEL")).then_some("md-udev"),
        id => BY_CHECK.iter().find(|(check, _)| *check == id).map(|(_, fix)| *fix),
    }
}

/// Why the kernel refused nvidia-fs, by the words of its log: each cause has its own remedy.
fn by_log(finding: &Finding) -> Option<&'static str> {
    const WORDS: &[(&str, &str)] = &[
        ("from proprietary module", "nvidia-driver-open"),
        ("no symbol version for", "nvfs-dkms"),
        ("disagrees about version of symbol", "nvfs-dkms"),
        ("unavailable key", "secure-boot-key"),
        ("key was rejected", "secure-boot-key"),
        ("version magic", "nvfs-dkms"),
        ("exec format error", "nvfs-dkms"),
        ("unknown symbol", "nvfs-load"),
    ];
    let said = |part: &str| finding.evidence.iter().any(|e| e.text.to_lowercase().contains(part));
    WORDS.iter().find(|(part, _)| said(part)).map(|(_, fix)| *fix)
}

/// The plan of a fix that mends `check`.
pub(super) fn for_id(root: &Root, report: &Report, id: &str, check: &str) -> Option<FixPlan> {
    let plan = match id {
        "udev-record" => return udev::record_plan(root, report),
        "md-udev" => udev::md_rule(root),
        "p2pdma-registry-keys" | "cufile-p2pdma-keys" | "memlock" | "nvfs-load" | "nvfs-stats" => {
            applied::plan(root, id)?
        }
        "nvidia-repository"
        | "nvidia-driver-open"
        | "nvidia-driver-proprietary"
        | "nvidia-fabricmanager"
        | "nvfs-install"
        | "libcufile-install"
        | "nvfs-dkms"
        | "secure-boot-key"
        | "nvme-patch"
        | "kernel-p2pdma" => install::plan(root, report, id)?,
        "nvme-multipath-off" | "iommu-off" | "acs-redirect" | "ext4-ordered" | "initramfs" | "bar1-large" => {
            boot::plan(root, report, id)?
        }
        _ => advised::plan(root, report, id)?,
    };
    let undo =
        if plan.undo.is_empty() { format!("gds-top fix --undo {id} restores what was there") } else { plan.undo };
    Some(fitting::fitted(root, report, FixPlan { id: id.to_owned(), check: check.to_owned(), undo, ..plan }))
}
