//! A path whose file system is not mounted, and the step that has to come before the mount.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::filesystem::network;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::kernel::build_log;
use crate::checks::storage::namespaces;
use crate::core::CheckId;
use crate::machine::{self, BootLoader, Message, PathFacts, PlannedMount, Source};
use crate::text::quoted;
use std::path::Path;

const MOUNTS: &str = "/proc/self/mountinfo";
const ARRAYS: &str = "/proc/mdstat";

/// A path on the file system below its mount point, because the file system that is meant is not mounted.
pub(super) fn unmounted(ctx: &Context<'_>, path: &Path, planned: &PlannedMount, present: &PathFacts) -> Judged {
    let point = planned.point.to_string_lossy();
    let name = path.display();
    let (summary, advice) = match present.source.as_deref().filter(|_| present.error.is_none()) {
        Some(now) => (
            format!("{point} is not mounted, so {name} is on {now}"),
            Advice::default().text(format!(". The files that {point} has now stay on {now}, hidden below the mount.")),
        ),
        None => (format!("{point} is not mounted, so {name} cannot be examined"), Advice::from(".")),
    };
    let mount = format!("sudo mount {}", quoted(&point));
    let judged = |summary: String, cost: Cost| {
        Judged::lack(CheckId::FsResolve, summary)
            .found(planned.file.clone(), planned.line.clone())
            .found(MOUNTS, format!("no mount on {point}"))
            .missing(cost, EVERY)
    };
    if let Some(lack) = lacking_module(ctx, planned) {
        let summary = format!("{point} is not mounted: kernel {} has no module {}", lack.running, lack.module);
        let (source, text) = lack.evidence.clone();
        return judged(summary, Cost::Install).found(source, text).advice(lack.advice(ctx, &mount));
    }
    if let Some((array, line)) = inactive_array(ctx, planned) {
        let summary = format!("{point} is not mounted: its array {array} is inactive, because a member is missing");
        let judged = judged(summary, Cost::Reboot).found(ARRAYS, line).advice(
            Advice::from("Power the machine off and on, so that the missing disk comes back. Then run ")
                .command(format!("sudo mdadm --stop /dev/{array} && sudo mdadm --assemble --scan && {mount}"))
                .text(". Run neither mkfs nor mdadm --create before: they destroy the data. If the disk stays dead, the data of a RAID 0 is lost."),
        );
        return match line_about(ctx, &array) {
            Some(line) => judged.found(machine::KERNEL_LOG, line),
            None => judged,
        };
    }
    let reason = format!("systemctl status {}", quoted(&point));
    let rejected = namespaces::rejected(ctx);
    let port = network::wrong_rdma_port(planned);
    let advice = match (rejected.first(), port) {
        (None, Some(port)) => with_rdma_port(planned, port, &mount).and(advice),
        (Some(one), _) => namespaces::advice(ctx, one).text(" Then run ").command(mount).and(advice),
        (None, None) => {
            let advice = Advice::run(mount).and(advice).text(" If it fails, the reason is in ").command(reason);
            match namespaces::empty(ctx, &rejected).first() {
                Some(name) => advice
                    .text(format!(". If {point} was on {name}, which has no namespace, first attach one that "))
                    .command(namespaces::list(name))
                    .text(" lists."),
                None => advice,
            }
        }
    };
    let judged = judged(summary, Cost::Root).advice(advice);
    rejected.into_iter().fold(judged, |judged, one| judged.found(machine::KERNEL_LOG, one.line))
}

/// How to mount NFS over RDMA whose planned port is that of TCP. `mount` is the command that mounts it.
fn with_rdma_port(planned: &PlannedMount, port: &str, mount: &str) -> Advice {
    let right = network::RDMA_PORT;
    let text = format!("NFS over RDMA has the port {right}, and {} says {port}. Run ", planned.file);
    let advice = if planned.file == machine::FSTAB {
        // The line has the mount point, and others keep their port.
        let point = planned.point.to_string_lossy().replace(' ', "\\\\040").replace('/', "\\/");
        let edit = format!("/[[:space:]]{point}[[:space:]]/s/\\bport={port}\\b/port={right}/");
        let edit = if edit.contains('\'') { quoted(&edit).into_owned() } else { format!("'{edit}'") };
        Advice::from(text).command(format!("sudo sed -i {edit} {} && {mount}", machine::FSTAB))
    } else {
        Advice::from(text).command(format!(
            "sudo sed -i 's/\\bport={port}\\b/port={right}/' {} && sudo systemctl daemon-reload && {mount}",
            quoted(&planned.file)
        ))
    };
    advice.text(format!(". If the server refuses it, it needs `rdma {right}` in /proc/fs/nfsd/portlist"))
}

/// A finding about the planned file system: its facts are from the table of mounts.
pub(super) fn of_plan(mut judged: Judged, planned: &PlannedMount) -> Judged {
    for evidence in judged.finding.evidence.iter_mut().filter(|evidence| evidence.source == MOUNTS) {
        evidence.source.clone_from(&planned.file);
    }
    judged
}

/// The client of a network file system that the running kernel lacks.
struct Lacking {
    module: &'static str,
    running: String,
    /// The installed kernels that have it.
    others: Vec<String>,
    evidence: (String, String),
    /// DKMS has its source, and has not built it for this kernel.
    source: Option<machine::DkmsRow>,
}

/// The module with which the kernel mounts this file system, if it is not there for the running kernel.
fn lacking_module(ctx: &Context<'_>, planned: &PlannedMount) -> Option<Lacking> {
    let module = match planned.filesystem.as_str() {
        "lustre" => "lustre",
        "nfs" | "nfs4" => "nfs",
        "cifs" | "smb3" => "cifs",
        _ => return None,
    };
    if ctx.root.exists(format!("/sys/module/{module}")) {
        return None;
    }
    let running = machine::kernel_release(ctx.root)?;
    let packages = if module == "lustre" { client_packages(ctx) } else { Vec::new() };
    let others: Vec<String> =
        packages.iter().map(|(kernel, _)| kernel.clone()).filter(|kernel| *kernel != running).collect();
    let is_packaged = packages.len() > others.len();
    // DKMS names it lustre-client-modules.
    let rows: Vec<machine::DkmsRow> = machine::dkms_rows(ctx.root)
        .into_iter()
        .filter(|row| module == "lustre" && row.name.starts_with(module))
        .collect();
    let is_built = rows.iter().any(|row| row.is_installed_for(&running));
    let source = rows.into_iter().next().filter(|_| !is_built);
    let evidence = match (machine::has_module(ctx.root, module), &source) {
        (Some(false) | None, Some(row)) if !is_packaged => {
            ("dkms status".to_owned(), format!("{}/{} is not installed for {running}", row.name, row.version))
        }
        (Some(false), None) => (format!("/lib/modules/{running}/modules.dep"), format!("no {module}")),
        (None, None) if !others.is_empty() && !is_packaged => {
            let names: Vec<&str> = packages.iter().map(|(_, name)| name.as_str()).collect();
            ("/var/lib/dpkg/status".to_owned(), names.join(" "))
        }
        _ => return None,
    };
    Some(Lacking { module, running, others, evidence, source })
}

/// The kernels for which a package has the Lustre client, and the package. Its name contains that of the kernel.
fn client_packages(ctx: &Context<'_>) -> Vec<(String, String)> {
    let kernels = machine::installed_kernels(ctx.root);
    let of = |name: String| {
        let rest =
            ["kmod-lustre-client-", "lustre-client-modules-"].iter().find_map(|start| name.strip_prefix(start))?;
        let is_for = |kernel: &&String| rest == *kernel || rest.starts_with(&format!("{kernel}-"));
        Some((kernels.iter().find(is_for)?.clone(), name.clone()))
    };
    machine::deb_packages(ctx.root).into_iter().filter_map(|package| of(package.name)).collect()
}

impl Lacking {
    /// How to get the module, and the mount at the end.
    fn advice(&self, ctx: &Context<'_>, mount: &str) -> Advice {
        let (module, running) = (self.module, &self.running);
        if let Some(row) = &self.source {
            let (name, version) = (&row.name, &row.version);
            return match build_log::failed(ctx, name, version) {
                // Another build of the same version fails again.
                Some(failed) => Advice::from(format!("DKMS cannot build {name}: {}. ", failed.why))
                    .and(failed.advice)
                    .text(if failed.needs_update { " Then run " } else { ". Then run " })
                    .command(mount.to_owned()),
                None => Advice::run(format!("sudo dkms install {name}/{version} -k {running} && {mount}")),
            };
        }
        // The version of this package is that of the kernel (packages.microsoft.com, amlfs).
        let amlfs = machine::deb_packages(ctx.root)
            .into_iter()
            .find(|package| module == "lustre" && package.name.starts_with("amlfs-lustre-client-"));
        let install = match amlfs {
            Some(package) => Advice::run(format!(
                "sudo apt-get update && sudo apt-get install {}={running} && {mount}",
                package.name
            )),
            None => {
                Advice::from(format!("Install the package of kernel {running} that has the module {module}. Then run "))
                    .command(mount.to_owned())
            }
        };
        match self.others.first() {
            None => install.text("."),
            Some(other) if machine::packages::id(ctx.root) == "ubuntu" && !is_extlinux(ctx) => install.text(format!(
                ". If there is no such package, boot kernel {other}, which has the module. For that, set GRUB_DEFAULT=\"Advanced options for Ubuntu>Ubuntu, with Linux {other}\" in /etc/default/grub. Then run `sudo update-grub && sudo reboot`."
            )),
            Some(other) => install.text(format!(". If there is no such package, boot kernel {other}, which has the module.")),
        }
    }
}

/// Whether the machine has no GRUB: extlinux starts its kernel.
fn is_extlinux(ctx: &Context<'_>) -> bool {
    machine::boot_loader(ctx.root).is_some_and(|boot| boot.loader == BootLoader::Extlinux)
}

/// The inactive array of a planned file system, and its line in /proc/mdstat.
fn inactive_array(ctx: &Context<'_>, planned: &PlannedMount) -> Option<(String, String)> {
    let text = ctx.root.read_text(ARRAYS).ok()?;
    let row = |line: &str| {
        let (name, state) = line.split_once(" : ")?;
        state.starts_with("inactive").then(|| (name.trim().to_owned(), line.trim().to_owned()))
    };
    let mut inactive: Vec<(String, String)> = text.lines().filter_map(row).collect();
    let device = planned.device.strip_prefix("/dev/").unwrap_or(&planned.device);
    if let Some(at) = inactive.iter().position(|(name, _)| name == device) {
        return Some(inactive.swap_remove(at));
    }
    // These names show the array only while it is active.
    let is_other_name =
        ["UUID=", "LABEL=", "/dev/disk/", "/dev/md/"].iter().any(|start| planned.device.starts_with(start));
    if is_other_name && inactive.len() == 1 { inactive.pop() } else { None }
}

/// The last line of the kernel log about an array.
fn line_about(ctx: &Context<'_>, array: &str) -> Option<String> {
    let log = machine::kernel_log(ctx.root)?;
    let is_about = |message: &&Message| {
        [format!(":{array}:"), format!("md: {array}")].iter().any(|part| message.has(&[part.as_str()]))
    };
    log.of(Source::Array).rev().find(is_about).map(|message| message.line.clone())
}
