//! Checks Fabric Manager on machines with NVSwitches. CUDA waits for it.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::logs::xid;
use crate::core::{CheckId, FixId};
use crate::machine::{self, Message, Source, Unread, nvidia_driver};

const ID: CheckId = CheckId::GpuFabric;

/// `cuInit` returns this until Fabric Manager has configured the fabric.
const SYSTEM_NOT_READY: i32 = 802;

/// The program, on the host or in the driver container of NVIDIA's GPU Operator.
const PROGRAMS: [&str; 2] = ["/usr/bin/nv-fabricmanager", "/run/nvidia/driver/usr/bin/nv-fabricmanager"];

const UNITS: [&str; 2] =
    ["/usr/lib/systemd/system/nvidia-fabricmanager.service", "/lib/systemd/system/nvidia-fabricmanager.service"];
const PID_FILE: &str = "/run/nvidia-fabricmanager/nv-fabricmanager.pid";
/// The end of the line with the control group of the service, which can run as another user than root. The groups of
/// users are below user.slice.
const CGROUP: &str = ":/system.slice/nvidia-fabricmanager.service";

/// The program that Fabric Manager needs on boards with fourth-generation NVSwitches.
const SUBNET_MANAGER: &str = "/opt/nvidia/nvlsm/sbin/nvlsm";

/// The InfiniBand devices. On boards with fourth-generation NVSwitches, Fabric Manager reaches these through such
/// devices (gpu-operator#2781).
const INFINIBAND: &str = "/sys/class/infiniband";

/// The modules of these devices.
const MODULES: [&str; 2] = ["mlx5_ib", "ib_umad"];

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    check(ctx).into_iter().collect()
}

/// The CUDA error code from the probe of libcufile.
fn cuda_code(ctx: &Context<'_>) -> Option<i32> {
    ctx.root.libcufile().open.as_ref()?.cuda_code
}

/// Whether CUDA started in the probe. The fabric is then configured.
fn cuda_works(ctx: &Context<'_>) -> bool {
    let facts = ctx.root.libcufile();
    !facts.cuda.is_empty() || facts.open.as_ref().is_some_and(|open| open.code == Some(0))
}

/// The evidence that this machine has NVSwitches. A virtual machine with only some GPUs of a board shows no
/// NVSwitches, because its host runs Fabric Manager.
fn switches(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    if !ctx.has_fabric() {
        return None;
    }
    let text = match ctx.nvswitches() {
        [first, ..] => format!("{} NVSwitches, the first is {first}", ctx.nvswitches().len()),
        [] => {
            let gpu = ctx.hgx_blackwell()?;
            let id = gpu.device.as_deref().unwrap_or_default().trim_start_matches("0x");
            format!("{} is a GPU of an HGX board (10de:{id})", gpu.address)
        }
    };
    Some(("/sys/bus/pci/devices", text))
}

fn check(ctx: &Context<'_>) -> Option<Judged> {
    let (source, text) = switches(ctx)?;
    let driver = nvidia_driver(ctx.root)?;
    let not_ready = cuda_code(ctx) == Some(SYSTEM_NOT_READY);
    let broken = if not_ready { broken_switch(ctx) } else { None };
    let judged = if let Some(judged) = broken {
        judged
    } else if machine::container(ctx.root).is_some() {
        // Fabric Manager runs on the host, so its files are not in the container.
        if !not_ready {
            return None;
        }
        lacking("CUDA waits for the NVSwitch fabric (802)".to_owned(), Cost::Root).advice(
            Advice::run("sudo systemctl start nvidia-fabricmanager")
                .text(" on the host. It must have the driver's version."),
        )
    } else {
        on_host(ctx, &driver, not_ready)?
    };
    let judged =
        if not_ready { judged.found("cuFileDriverOpen", "CUDA 802, system not yet initialized") } else { judged };
    Some(judged.found(source, text))
}

fn lacking(summary: String, cost: Cost) -> Judged {
    Judged::lack(ID, summary).missing(cost, EVERY)
}

fn on_host(ctx: &Context<'_>, driver: &str, not_ready: bool) -> Option<Judged> {
    let root = ctx.root;
    let unit = UNITS.into_iter().find(|path| root.exists(path));
    // A capture can have the output of the command and lack the files.
    let is_installed = unit.is_some() || PROGRAMS.into_iter().any(|path| root.exists(path)) || version(ctx).is_some();
    if !not_ready && cuda_works(ctx) {
        return Some(Judged::pass(ID, "CUDA starts, so the NVSwitch fabric is configured"));
    }
    if !is_installed {
        // In a virtual machine with a complete board, the host can run Fabric Manager.
        if !not_ready && ctx.nvswitches().is_empty() && is_guest(ctx) {
            return None;
        }
        let summary = "Fabric Manager is not installed: CUDA fails with error 802 on machines with NVSwitches";
        return Some(
            lacking(summary.to_owned(), Cost::Install)
                .found(PROGRAMS[0], "does not exist")
                .fix(FixId::NvidiaFabricmanager)
                .advice(format!("Install Fabric Manager {driver}, the version of the driver, and start it.")),
        );
    }
    let packaged = || packaged_version(ctx).or_else(|| packaged_branch(ctx, driver));
    let found = version(ctx).or_else(|| logged_version(ctx)).or_else(packaged);
    let next = machine::module_info(root, "nvidia").and_then(|module| module.version);
    if let Some((source, version)) = found.filter(|(_, version)| version != driver) {
        if next.as_ref() == Some(&version) {
            // An update replaced both. The next boot loads the driver of this version.
            return Some(
                lacking(
                    format!("Fabric Manager {version} waits for driver {version}; {driver} is loaded"),
                    Cost::Reboot,
                )
                .found(source, version)
                .advice(Advice::run("sudo reboot").text(", so that the installed driver is loaded.")),
            );
        }
        let summary = format!("Fabric Manager {version} does not start with driver {driver}");
        return Some(lacking(summary, Cost::Install).found(source, version).fix(FixId::NvidiaFabricmanager).advice(
            format!("Install Fabric Manager {}, the version of the driver.", next.unwrap_or_else(|| driver.to_owned())),
        ));
    }
    let needs_subnet_manager = ctx.nvswitches().is_empty();
    if needs_subnet_manager && !root.exists(SUBNET_MANAGER) {
        return Some(
            lacking("nvlsm is not installed, but Fabric Manager needs it on this board".to_owned(), Cost::Install)
                .found(SUBNET_MANAGER, "does not exist")
                .fix(FixId::NvidiaFabricmanager)
                .advice(if machine::is_umad_loaded(root) {
                    "Install nvlsm and restart nvidia-fabricmanager."
                } else {
                    "Install nvlsm, load ib_umad, and restart nvidia-fabricmanager."
                }),
        );
    }
    if needs_subnet_manager && not_ready && root.entries(INFINIBAND).unwrap_or_default().is_empty() {
        return Some(without_infiniband(ctx));
    }
    let start = Advice::run("sudo systemctl enable --now nvidia-fabricmanager")
        .text(". If it fails, read /var/log/fabricmanager.log.");
    Some(match (is_running(ctx), not_ready) {
        (Some(true), true) => {
            lacking("CUDA error 802: Fabric Manager runs, but has not configured the fabric".to_owned(), Cost::Root)
                .advice(
                    Advice::from("Read /var/log/fabricmanager.log, then run ")
                        .command("sudo systemctl restart nvidia-fabricmanager"),
                )
        }
        (_, true) => {
            lacking("Fabric Manager is installed, but not running: CUDA fails with error 802".to_owned(), Cost::Root)
                .advice(start)
        }
        (Some(false), false) => Judged::warn(ID, "Fabric Manager is installed, but its process was not found")
            .found(PID_FILE, "the process does not run")
            .advice(start),
        (_, false) => Judged::pass(ID, format!("Fabric Manager is installed for driver {driver}")),
    })
}

/// A fatal error of an NVSwitch, after which Fabric Manager ends (Fabric Manager User Guide, NVSwitch SXid errors).
fn broken_switch(ctx: &Context<'_>) -> Option<Judged> {
    let log = machine::kernel_log(ctx.root)?;
    let is_fatal = |message: &&Message| {
        message.has(&["nvidia-nvswitch"]) && xid::switch_error(&message.text).is_some_and(|error| error.is_fatal)
    };
    let line = log.of(Source::Nvidia).find(is_fatal)?.line.as_str();
    let number = xid::switch_error(line)?.number;
    let address = line.split_once("(PCI:").and_then(|(_, rest)| rest.split(')').next()).unwrap_or_default();
    let reset =
        "sudo systemctl stop nvidia-fabricmanager && sudo nvidia-smi -r && sudo systemctl start nvidia-fabricmanager";
    Some(
        lacking(format!("NVSwitch {address} reported a fatal error (SXid {number})"), Cost::Reboot)
            .by_hand()
            .found(machine::KERNEL_LOG, line)
            .advice(
                Advice::from("Run `sudo nvidia-bug-report.sh` first. Stop all programs on GPUs, then run ")
                    .command(reset)
                    .text(". If that fails, reboot. If the error comes back, send the report to the vendor of the baseboard."),
            ),
    )
}

/// Whether the GPUs of this machine are passed through to it.
fn is_guest(ctx: &Context<'_>) -> bool {
    ctx.root.nvml().gpus.iter().any(|gpu| gpu.virtualization.as_deref() == Some("passthrough"))
}

/// No InfiniBand device is visible: the modules are not loaded, not installed, or do not fit the loaded ib_core.
fn without_infiniband(ctx: &Context<'_>) -> Judged {
    const RESTART: &str = "sudo systemctl restart nvidia-fabricmanager";
    let root = ctx.root;
    if let Some((module, line)) = rejected(ctx) {
        // Both the kernel and DOCA have these modules, and the kernel's ib_core was loaded first (CUDA 13.2 release notes,
        // known issue of SLES 16).
        return lacking(
            format!("{module} does not fit the loaded ib_core, so Fabric Manager finds no NVSwitch"),
            Cost::Reboot,
        )
        .found(machine::KERNEL_LOG, line)
        .found(INFINIBAND, "empty or absent")
        .advice(
            Advice::from("Run ")
                .command_and_initramfs(root, "sudo depmod -a")
                .text(" and reboot, so that all InfiniBand modules are of DOCA or MLNX_OFED. Then `modinfo -F filename ib_core mlx5_ib ib_umad` must show one directory. Fabric Manager starts at boot."),
        );
    }
    let absent: Vec<&str> = MODULES.into_iter().filter(|name| machine::has_module(root, name) == Some(false)).collect();
    let is = if absent.len() == 1 { "is" } else { "are" };
    let absent = absent.join(" and ");
    let load = format!("sudo modprobe -a {} && {RESTART}", MODULES.join(" "));
    if absent.is_empty() {
        return lacking(
            "the NVSwitches of this board are InfiniBand devices, and none is visible".to_owned(),
            Cost::Root,
        )
        .found(INFINIBAND, "empty or absent")
        .advice(Advice::run(load));
    }
    let release = machine::kernel_release(root).unwrap_or_default();
    let judged = lacking(format!("{absent} {is} not installed, so Fabric Manager finds no NVSwitch"), Cost::Install)
        .found(format!("/lib/modules/{release}/modules.dep"), format!("no {absent}"))
        .found(INFINIBAND, "empty or absent");
    if machine::packages::id(root) != "ubuntu" {
        return judged.advice(
            Advice::from(format!("Install the package of kernel {release} with {absent}. Then run ")).command(load),
        );
    }
    // The packages for clouds leave the additional modules out (NVIDIA/gpu-operator#2781).
    let advice =
        Advice::run(format!("sudo apt-get update && sudo apt-get install linux-modules-extra-{release} && {load}"));
    judged.advice(match release.rsplit('-').next() {
        Some(cloud @ ("aws" | "azure" | "gcp")) => {
            advice.text(format!(". The package linux-modules-extra-{cloud} has them for later kernels."))
        }
        _ => advice,
    })
}

/// The module that the kernel rejected because the loaded ib_core has other symbols, and the line of the kernel log.
fn rejected(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    let log = machine::kernel_log(ctx.root)?;
    let is_rejected = |line: &str, name: &str| {
        ["disagrees about version of symbol ib_", "Unknown symbol ib_"]
            .iter()
            .any(|words| line.starts_with(&format!("{name}: {words}")))
    };
    log.of(Source::Symbol).find_map(|message| {
        let name = MODULES.into_iter().find(|name| is_rejected(&message.text, name))?;
        Some((name, message.line.clone()))
    })
}

fn version(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    Some(("nv-fabricmanager --version", machine::fabric_manager_version(ctx.root)?))
}

/// The version of Fabric Manager in the line by which the driver of the NVSwitches rejects it: `nvidia-nvswitch: Version
/// mismatch, kernel version 580.95.05 user version 570.86.15`.
fn logged_version(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    let log = machine::kernel_log(ctx.root)?;
    let is_meant = |message: &&Message| message.has(&["nvidia-nvswitch", ": version mismatch, "]);
    let message = log.of(Source::Nvidia).rev().find(is_meant)?;
    let version = message.text.split_once("user version ")?.1.split_whitespace().next()?;
    // The program that the driver rejected reported it.
    let is_version = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_version.then(|| (machine::KERNEL_LOG, version.to_owned()))
}

/// The version of the package in dpkg.
fn packaged_version(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    Some(("/var/lib/dpkg/status", machine::fabric_manager_package(ctx.root)?))
}

/// The branch in the name of the package, if it is not that of the driver: `nvidia-fabricmanager-570`.
fn packaged_branch(ctx: &Context<'_>, driver: &str) -> Option<(&'static str, String)> {
    const PACKAGES: &str = "/var/lib/dpkg/info";
    let branch_of = |name: &String| {
        let rest = name.strip_suffix(".list")?.strip_prefix("nvidia-fabricmanager-")?;
        rest.bytes().all(|byte| byte.is_ascii_digit()).then(|| rest.to_owned())
    };
    let branches: Vec<String> = ctx.root.entries(PACKAGES).ok()?.iter().filter_map(branch_of).collect();
    let is_right = |branch: &String| driver.starts_with(&format!("{branch}."));
    branches.iter().find(|_| !branches.iter().any(is_right)).map(|branch| (PACKAGES, branch.clone()))
}

/// Whether its process exists. `None` if the PID file of its unit cannot be read.
fn is_running(ctx: &Context<'_>) -> Option<bool> {
    let pid = match ctx.root.read_text(PID_FILE) {
        Ok(text) => text.trim().parse::<u32>().ok(),
        Err(Unread::Missing) => None,
        Err(_) => return None,
    };
    let Some(pid) = pid else { return Some(false) };
    let read = |file: &str| ctx.root.read_text(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let status = read("status");
    let first = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next());
    // The kernel truncates process names to 15 characters. After a crash, another user's process can have the number in
    // the file, and any user can give a program this name. So the process must belong to root or to the service. The
    // real user counts: a set-uid program has the effective user root.
    let is_named = first("Name:").is_some_and(|name| name.starts_with("nv-fabricmanag"));
    let is_trusted = || first("Uid:") == Some("0") || read("cgroup").lines().any(|line| line.ends_with(CGROUP));
    Some(is_named && is_trusted())
}
