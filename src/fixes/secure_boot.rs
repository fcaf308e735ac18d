//! The steps for Secure Boot. The kernel loads only signed modules, so a key is created and enrolled before the
//! reboot.

use super::distribution;
use super::packages::{dkms, dkms_version, install};
use super::parts::{Family, empty, initramfs, run};
use crate::checks::Report;
use crate::core::{Change, CheckId, FixId, FixPlan, FixPolicy, FixRisk, Needs, Status};
use crate::machine::{
    AKMODS_CERTIFICATE, Root, Signature, dkms_certificate, is_of_akmods, kernel_release, nvidia_fs_of_ubuntu,
    os_release, secure_boot, signature, signs_as_ubuntu,
};

/// The instructions for each enrolment.
const CONSOLE: &str = "mokutil asks for a new password. At the next boot the MOK manager (a blue screen) waits a few seconds: choose 'Enroll MOK', 'Continue', 'Yes', and type that password. This needs the console (BMC, IPMI, hypervisor, or the interactive serial console of a cloud), not SSH.";

/// Whether the kernel rejects modules without a known signature.
pub(super) fn is_on(root: &Root, report: &Report) -> bool {
    secure_boot(root).map_or_else(
        || report.finding(CheckId::NvfsSecureboot).is_some_and(|finding| finding.status == Status::Fail),
        |state| state.is_on,
    )
}

/// Whether the key of DKMS is enrolled. If a driver that DKMS built is loaded, it is.
fn is_enrolled(root: &Root) -> bool {
    root.exists("/proc/driver/nvidia/version") && signature(root, "nvidia") == Some(Signature::Dkms)
}

/// The modules that a plan installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    OpenDriver,
    ProprietaryDriver,
    NvidiaFs,
    Nvme,
}

impl Module {
    const fn name(self) -> &'static str {
        match self {
            Self::OpenDriver | Self::ProprietaryDriver => "nvidia",
            Self::NvidiaFs => "nvidia_fs",
            Self::Nvme => "nvme",
        }
    }

    /// The features that do not work without the module.
    const fn loss(self) -> &'static str {
        match self {
            Self::OpenDriver | Self::ProprietaryDriver => "without its driver the GPU does not work after the reboot",
            Self::NvidiaFs => "without it the route nvfs does not work",
            Self::Nvme => "without it NVMe disks have no driver after the reboot",
        }
    }
}

/// The additional steps of a plan that installs kernel modules on a machine with Secure Boot.
pub(super) struct Signing {
    /// The steps before the modules are built: create the key and request its enrolment.
    pub(super) before: Vec<Change>,
    /// The steps between the build and the reboot: show the signature.
    pub(super) after: Vec<Change>,
    /// Sentences for the plan. They start with a space.
    pub(super) why: String,
}

/// The steps for modules that DKMS builds. `None` if the kernel loads unsigned modules, or if the key is enrolled.
pub(super) fn signing(root: &Root, report: &Report, family: Family, module: Module) -> Option<Signing> {
    if !is_on(root, report) || is_enrolled(root) {
        return None;
    }
    let file = dkms_certificate(root);
    let name = module.name();
    let mut before = vec![run(&install(root, family, tools(root)))];
    if !root.exists(file) {
        before.push(new_key(root));
    }
    before.push(run(&format!("sudo mokutil --import {file}")));
    Some(Signing {
        before,
        after: vec![run(&format!("modinfo -F signer {name}"))],
        why: format!(
            " Secure Boot is on: the kernel rejects modules with a key that is not enrolled, and {}. {CONSOLE} 'modinfo -F signer {name}' must print a name before the reboot.{}",
            module.loss(),
            without_console(root, family, module)
        ),
    })
}

/// The command of DKMS (prepare_mok). `dkms generate_mok` exists since DKMS 3.1, and Debian 12 has 3.0.10.
const KEY_OF_DKMS: &str = "test -s /var/lib/dkms/mok.key && test -s /var/lib/dkms/mok.pub || openssl req -new -x509 -nodes -days 36500 -newkey rsa:2048 -keyout /var/lib/dkms/mok.key -outform DER -out /var/lib/dkms/mok.pub -subj '/CN=DKMS module signing key/'";
const KEY_OF_UBUNTU: &str = "test -s /var/lib/shim-signed/mok/MOK.priv && test -s /var/lib/shim-signed/mok/MOK.der || update-secureboot-policy --new-key";

/// Creates the key pair that DKMS would create at its first build. An existing pair is kept, because a new one would
/// sign modules after the enrolment of the first.
fn new_key(root: &Root) -> Change {
    let script = if signs_as_ubuntu(root) { KEY_OF_UBUNTU } else { KEY_OF_DKMS };
    Change::Run { argv: ["sudo", "sh", "-c", script].map(str::to_owned).to_vec() }
}

/// Whether a change creates or enrols the key, which is done once for all modules.
pub(super) fn is_of_key(change: &Change) -> bool {
    let is_it = |word: &String| ["mokutil", KEY_OF_DKMS, KEY_OF_UBUNTU].contains(&word.as_str());
    matches!(change, Change::Run { argv } if argv.iter().any(is_it))
}

/// The packages with the programs that create, use and enrol a key.
fn tools(root: &Root) -> &'static str {
    if signs_as_ubuntu(root) { "dkms mokutil shim-signed" } else { "dkms mokutil openssl" }
}

/// The directory of an installed module. `None` if it is not known.
fn module_folder(root: &Root, module: &str) -> Option<String> {
    let output = root.command(&["modinfo", module]).filter(|output| output.exit_code == Some(0))?;
    let file = output.stdout.lines().find_map(|line| line.strip_prefix("filename:"))?.trim().to_owned();
    let (folder, name) = file.rsplit_once('/')?;
    let is_module = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"].iter().any(|end| name.ends_with(end));
    (is_module && !folder.contains(['\'', '"', '$', ' '])).then(|| folder.to_owned())
}

/// Signs the module and those of its package next to it: nvidia-uvm, nvidia-modeset. `sign-file` is in the headers.
fn sign(root: &Root, kernel: &str, start: &str) -> Change {
    let key = if signs_as_ubuntu(root) { "/var/lib/shim-signed/mok/MOK.priv" } else { "/var/lib/dkms/mok.key" };
    let file = dkms_certificate(root);
    // The signature is part of the uncompressed file. The kernel reads xz files only with the check crc32.
    let script = format!(
        "for file in {start}*.ko {start}*.ko.xz {start}*.ko.zst {start}*.ko.gz; do [ -e \"$file\" ] || continue; plain=${{file%.ko*}}.ko; case $file in *.xz) xz -d \"$file\" ;; *.zst) zstd -qd --rm \"$file\" ;; *.gz) gzip -d \"$file\" ;; esac || exit; /lib/modules/{kernel}/build/scripts/sign-file sha256 {key} {file} \"$plain\" || exit; case $file in *.xz) xz --check=crc32 \"$plain\" ;; *.zst) zstd -q --rm \"$plain\" ;; *.gz) gzip \"$plain\" ;; esac || exit; done"
    );
    Change::Run { argv: ["sudo", "sh", "-c", &script].map(str::to_owned).to_vec() }
}

/// The alternative for machines without a reachable console: modules that the distribution has signed.
fn without_console(root: &Root, family: Family, module: Module) -> String {
    let kernel = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
    let is_ubuntu = os_release(root, "ID").as_deref() == Some("ubuntu");
    let canonical = |flavour: &str| {
        format!(
            "Canonical's signed modules need no enrolment (linux-modules-nvidia-580-server{flavour}-{kernel} with nvidia-driver-580-server{flavour}, from \
             Ubuntu's archive)"
        )
    };
    let signed = match (family, module) {
        (Family::Debian, Module::OpenDriver) if is_ubuntu => canonical("-open"),
        (Family::Debian, Module::ProprietaryDriver) if is_ubuntu => canonical(""),
        // This module is built for Canonical's driver, and one of DKMS has priority.
        (Family::Debian, Module::NvidiaFs) if nvidia_fs_of_ubuntu(root).is_some() => {
            format!(
                "Canonical's signed module needs no enrolment (linux-modules-nvidia-fs-{kernel}, after 'sudo dkms remove' of nvidia-fs)"
            )
        }
        // Source: SUSE's guide (sndirsch.github.io/nvidia, 2026-02-22).
        (Family::Suse, Module::OpenDriver) => {
            "SUSE's signed modules need no enrolment (nvidia-open-driver-G06-signed-cuda-kmp-default or G07, with nvidia-compute-utils of the same version)".to_owned()
        }
        _ => "disable Secure Boot in the firmware, or in the settings of the virtual machine".to_owned(),
    };
    format!(" Without a console: {signed}.")
}

/// A module that Secure Boot rejects: its check, its name in sentences, its name, and its name in DKMS.
type Rejected = (CheckId, &'static str, &'static str, &'static str);

const NVFS: Rejected = (CheckId::NvfsSecureboot, "nvidia-fs", "nvidia_fs", "nvidia-fs");
const REJECTED: [Rejected; 3] = [
    (CheckId::GpuPresent, "the NVIDIA driver", "nvidia", "nvidia"),
    NVFS,
    (CheckId::NvfsNvmeSymbol, "DOCA's NVMe driver", "nvme", "mlnx-nvme"),
];

/// The plan of `secure-boot-key`: it rebuilds unsigned modules, which signs them, and enrols the key.
pub(super) fn plan(root: &Root, report: &Report, family: Family) -> FixPlan {
    let file = dkms_certificate(root);
    let is_rejected = |(check, ..): &&Rejected| {
        report.finding(*check).is_some_and(|finding| {
            finding.fix == Some(FixId::SecureBootKey) && matches!(finding.status, Status::Fail | Status::Warn)
        })
    };
    let mut modules: Vec<Rejected> = REJECTED.iter().filter(is_rejected).copied().collect();
    if modules.is_empty() {
        modules.push(NVFS);
    }
    let mut changes = Vec::new();
    let mut obstacle = None;
    let mut unsigned = Vec::new();
    let mut certificates: Vec<&str> = Vec::new();
    let mut has_other_signer = false;
    for (_, name, module, package) in &modules {
        let signature = signature(root, module);
        let is_akmods =
            signature == Some(Signature::Akmods) || (signature == Some(Signature::None) && is_of_akmods(root, module));
        match &signature {
            Some(Signature::Other(_)) => has_other_signer = true,
            _ => certificates.push(if is_akmods { AKMODS_CERTIFICATE } else { file }),
        }
        match (signature, dkms_version(root, package), kernel_release(root)) {
            // The steps of RPM Fusion (Howto/Secure Boot). akmods signs with the key that kmodgenca creates.
            (Some(Signature::None), ..) if is_akmods => {
                changes.push(run(&install(root, family, "akmods kmodtool mokutil openssl")));
                changes.extend(["sudo kmodgenca -a", "sudo akmods --force --rebuild"].map(run));
            }
            (Some(Signature::None), Some(version), Some(kernel)) => {
                unsigned.push(*name);
                changes.extend(
                    ["build", "install"]
                        .map(|verb| dkms(&kernel, &format!("dkms {verb} --force {package}/{version} -k {kernel}"))),
                );
            }
            (Some(Signature::None), _, Some(kernel)) if module_folder(root, module).is_some() => {
                unsigned.push(*name);
                let folder = module_folder(root, module).unwrap_or_default();
                changes.push(run(&install(root, family, &distribution::headers(root, family, &kernel))));
                changes.push(sign(root, &kernel, &format!("{folder}/{module}")));
            }
            (Some(Signature::None), ..) => {
                obstacle = Some(format!("{name} is not signed, and DKMS does not list it: install its package first"));
            }
            (Some(Signature::Other(signer)), ..) => {
                obstacle = Some(format!(
                    "\"{signer}\" signed {name}: import the certificate of that signer with 'sudo mokutil --import FILE'"
                ));
            }
            _ => {}
        }
    }
    if !unsigned.is_empty() && !root.exists(file) {
        changes.insert(0, new_key(root));
    }
    if !unsigned.is_empty() {
        changes.insert(0, run(&install(root, family, tools(root))));
    }
    // The initramfs contains the NVMe driver.
    if unsigned.contains(&"DOCA's NVMe driver") {
        changes.push(run(initramfs(root, family)));
    }
    if has_other_signer {
        certificates.push("FILE");
    }
    certificates.sort_unstable();
    certificates.dedup();
    changes.extend(certificates.iter().map(|certificate| run(&format!("sudo mokutil --import {certificate}"))));
    changes.push(run("sudo reboot"));
    let names: Vec<&str> = modules.iter().map(|(_, name, ..)| *name).collect();
    let files: Vec<&str> = modules.iter().map(|(_, _, module, _)| *module).collect();
    FixPlan {
        title: format!("Enrol the key that signs {}", names.join(" and ")),
        why: format!(
            "Secure Boot loads only modules whose key is enrolled.{} {CONSOLE}",
            if unsigned.is_empty() {
                String::new()
            } else {
                format!(
                    " What is not signed is signed first: {}. DKMS signs modules while it builds them; a module that DKMS did not build must be signed again after each update.",
                    unsigned.join(", ")
                )
            }
        ),
        changes,
        verify: format!(
            "after the reboot mokutil --list-enrolled shows the key that 'modinfo -F signer {}' names, and gds-top check: {}",
            files.join(" "),
            modules.iter().map(|(check, ..)| check.as_str()).collect::<Vec<_>>().join(", ")
        ),
        undo: "sudo mokutil --delete with the same file, reboot".to_owned(),
        obstacle,
        ..empty(FixId::SecureBootKey, Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
    }
}
