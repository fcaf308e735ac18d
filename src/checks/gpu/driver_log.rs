//! Finds in the kernel log why the NVIDIA driver does not use a GPU.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::{Context, LAST_PROPRIETARY};
use crate::checks::gpu::{flavours, guest_driver};
use crate::checks::guest;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::kernel::{excluded, signing};
use crate::checks::logs::driver_lines::{COLD_BOOT, LINES, POWER_STATE, Reason, WINDOW};
use crate::core::{CheckId, FindingFact, FixId};
use crate::machine::{self, Architecture, DriverOrigin, Message, Root, Source};
use crate::text::{capitalised, contains_in_order, quoted};

const ID: CheckId = CheckId::GpuPresent;

/// Whether nouveau uses a GPU.
pub(super) fn on_nouveau(ctx: &Context<'_>) -> bool {
    ctx.pci().into_iter().flatten().any(|gpu| gpu.driver.as_deref() == Some("nouveau"))
}

/// The reason in the kernel log, and its line. Reasons for a module that is not loaded are used only then.
fn reason(ctx: &Context<'_>) -> Option<(Reason, String)> {
    let log = machine::kernel_log(ctx.root)?;
    let is_of_driver = |message: &&Message| matches!(message.source, Source::Nvidia | Source::Xid);
    let messages: Vec<(&Message, String)> =
        log.messages().filter(is_of_driver).map(|message| (message, message.text.to_ascii_lowercase())).collect();
    let is_loaded = machine::Driver::of(ctx.root).is_loaded();
    let is_of_loading = |reason: Reason| matches!(reason, Reason::Key | Reason::OtherKernel | Reason::Excluded);
    let find = |pieces: &[&str]| {
        let (message, _) = messages.iter().find(|(_, text)| contains_in_order(text, pieces))?;
        Some(message.line.clone())
    };
    let known = LINES
        .iter()
        .filter(|known| !(is_loaded && is_of_loading(known.reason)))
        .find_map(|known| Some((known.reason, find(known.pieces)?)));
    // A line about a signature does not contain the name of a module.
    known.or_else(|| {
        let message = log.of(Source::Signature).next().filter(|_| !is_loaded && is_installed(ctx))?;
        Some((Reason::Key, message.line.clone()))
    })
}

/// Whether a driver is installed for the running kernel.
pub(crate) fn is_installed(ctx: &Context<'_>) -> bool {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    machine::module_info(ctx.root, "nvidia").is_some()
        || machine::dkms_rows(ctx.root).iter().any(|row| row.is_driver() && row.is_installed_for(&release))
}

/// The finding for GPUs on the PCI bus that the driver does not use, if the kernel log contains the reason.
pub(crate) fn refused(ctx: &Context<'_>) -> Option<Judged> {
    let (reason, line) = reason(ctx)?;
    let version = machine::nvidia_driver(ctx.root).map_or_else(String::new, |version| format!(" {version}"));
    let is_old = ctx.before_turing().next().is_some();
    // The line is about a GPU that the loaded modules do not serve, and not about the newer one.
    let serves_newer = ctx.is_divided() && machine::Driver::of(ctx.root).is_open() == Some(true);
    if reason == Reason::NoGsp && serves_newer && ctx.root.nvml().gpus.is_empty() {
        return None;
    }
    let confidential = machine::confidential_guest(ctx.root);
    let judged = match reason {
        // In a confidential virtual machine, the driver cannot identify a GPU without CC mode and reports it as
        // unsupported.
        Reason::NoGsp | Reason::Unsupported if confidential.is_some() && !is_old => {
            Judged::lack(ID, "the driver cannot use the GPU in this confidential virtual machine")
                .missing(Cost::System, EVERY)
                .advice("Switch the GPU to confidential computing mode on the host, or use a virtual machine without SEV-SNP or TDX.")
        }
        Reason::NoGsp if is_old => {
            let judged =
                Judged::lack(ID, "the open kernel modules do not support this GPU, which is older than Turing");
            with_driver(ctx, judged.missing(Cost::Install, EVERY))
        }
        Reason::NoGsp => Judged::lack(ID, "the open kernel modules do not recognise this GPU")
            .missing(Cost::System, EVERY)
            .advice("Power the machine off and on. In a virtual machine, check how the host passes the GPU through."),
        Reason::NeedsOpen => {
            let judged =
                Judged::lack(ID, "this GPU needs the open kernel modules, but the proprietary ones are installed")
                    .missing(Cost::Install, EVERY);
            match flavours::choice(ctx) {
                Some(choice) => judged.by_hand().advice(choice),
                None => judged
                    .fix(FixId::NvidiaDriverOpen)
                    .advice("Install the open kernel modules of the same driver version, then reboot."),
            }
        }
        Reason::Legacy | Reason::Unsupported if is_old => {
            let judged = Judged::lack(ID, format!("driver{version} no longer supports this GPU"));
            with_driver(ctx, judged.missing(Cost::Install, EVERY))
        }
        Reason::Legacy => Judged::lack(ID, "this GPU needs a legacy driver without GPUDirect Storage").never(EVERY),
        Reason::Unsupported => unsupported(ctx, &version),
        Reason::Taken => taken(ctx),
        Reason::Excluded => {
            let judged = Judged::lack(ID, "the kernel command line excludes the installed NVIDIA driver")
                .missing(Cost::Reboot, EVERY);
            match machine::excluded(ctx.root, "nvidia") {
                Some(found) => judged.advice(excluded::allow(ctx, &found, "nvidia")),
                None => judged.advice("Remove nvidia from module_blacklist in the boot loader's configuration, then reboot."),
            }
        }
        Reason::PowerState => Judged::lack(ID, "the GPU does not leave the power state D3cold")
            .missing(Cost::Reboot, EVERY)
            .advice(power_state(ctx)),
        Reason::NoInterrupt => Judged::lack(ID, "no interrupt can be assigned to the GPU")
            .missing(Cost::System, EVERY)
            .advice(with_interrupts(ctx)),
        Reason::NoBar => match guest::window(ctx) {
            Some(advice) => Judged::lack(ID, "the virtual machine has no address space for the memory of the GPU")
                .missing(Cost::System, EVERY)
                .advice(advice),
            None => Judged::lack(ID, "the machine's firmware assigned no address space to the GPU")
                .missing(Cost::System, EVERY)
                .advice(WINDOW),
        },
        Reason::NoFirmware => Judged::lack(ID, "the GPU does not start because the driver's GSP firmware is missing")
            .missing(Cost::Install, EVERY)
            .advice(firmware(ctx, &version)),
        Reason::OffBus => Judged::lack(ID, "the GPU fell off the bus and no longer answers")
            .missing(Cost::Reboot, EVERY)
            .advice(COLD_BOOT),
        Reason::Gsp => Judged::lack(ID, "the system processor of the GPU (GSP) did not start")
            .missing(Cost::Reboot, EVERY)
            .advice("Power the machine off and on. If it fails again, install driver and firmware of one version."),
        Reason::NoStart => Judged::lack(ID, "the driver is loaded, but the GPU does not start")
            .missing(Cost::Reboot, EVERY)
            .advice("Power the machine off and on. If it fails again, send the output of nvidia-bug-report.sh to NVIDIA."),
        Reason::OtherKernel => other_kernel(ctx),
        Reason::Key => signing::rejected(ctx, ID, signing::Module::Driver, Some(&line), EVERY),
    };
    let judged = if reason == Reason::Key { judged } else { judged.found(machine::KERNEL_LOG, line) };
    Some(match confidential {
        Some((source, text)) => judged.found(source, text),
        None => judged,
    })
}

/// The driver rejects a GPU that it does not list. Reasons: the GPU is newer than the driver, is a vGPU
/// (flatcar/Flatcar#1283), or is in another state (NVIDIA/nvtrust#55).
fn unsupported(ctx: &Context<'_>, version: &str) -> Judged {
    let branch = machine::version_numbers(version.trim()).first().copied().unwrap_or(0);
    let mut used = ctx.pci().into_iter().flatten().filter(|gpu| !gpu.is_lent());
    if !used.all(|gpu| gpu.is_before_branch(branch)) {
        let judged =
            Judged::lack(ID, format!("driver{version} does not support this GPU")).missing(Cost::Install, EVERY);
        // The fix does not replace a driver of a recent branch.
        return if branch < machine::BRANCH_OF_BLACKWELL {
            judged
                .fact(FindingFact::DriverOlderThanGpu)
                .fixes(ctx.driver_fix())
                .advice("Install driver 580 or later, then reboot.")
        } else {
            judged.by_hand().advice("Install a later driver branch than the present one, with the open kernel modules. The README of its release lists this GPU.")
        };
    }
    if guest::is_virtual(ctx) {
        return Judged::lack(ID, format!("driver{version} supports this GPU model, but not this GPU, probably a vGPU"))
            .missing(Cost::Install, EVERY)
            .by_hand()
            .advice(guest_driver::instead(ctx));
    }
    Judged::lack(ID, format!("driver{version} supports this GPU model, but cannot start this GPU"))
        .missing(Cost::System, EVERY)
        .by_hand()
        .advice("Power the machine off and on. If it happens again, disable confidential computing mode of the GPU, or send the output of `sudo nvidia-bug-report.sh` to its vendor.")
}

/// How to keep the GPU out of D3cold, with the command for the kernel argument if it is known.
fn power_state(ctx: &Context<'_>) -> String {
    const WORD: &str = "pcie_port_pm=off";
    let command = machine::argument_command(ctx.root, None, Some(WORD));
    command
        .map_or_else(|| POWER_STATE.to_owned(), |command| POWER_STATE.replace(WORD, &format!("{WORD} (`{command}`)")))
}

/// How to allow interrupts of the GPU, with the commands for the arguments of the running kernel that forbid them.
fn with_interrupts(ctx: &Context<'_>) -> Advice {
    let started = ctx.root.read_text(machine::modprobe::COMMAND_LINE).unwrap_or_default();
    let forbidding = started.split_whitespace().filter(|word| ["pci=nomsi", "noapic"].contains(word));
    let commands: Option<Vec<String>> =
        forbidding.map(|word| machine::argument_command(ctx.root, Some(word), None)).collect();
    match commands.filter(|commands| !commands.is_empty()) {
        Some(commands) => Advice::run(commands.join(" && ")).text(", then reboot."),
        None => Advice::from("Remove pci=nomsi and noapic from the kernel command line."),
    }
    .text(" In a virtual machine, check how the host passes the GPU through.")
}

/// The package of Debian or Ubuntu with the firmware of this driver, for apt-get. Debian's package and that of NVIDIA's
/// repository have one name for all versions. Ubuntu's packages have the version in their names.
fn deb_firmware(root: &Root, version: &str) -> Option<String> {
    if version.is_empty() {
        return None;
    }
    if machine::packages::id(root) == "debian" {
        return Some(format!("firmware-nvidia-gsp={version}*"));
    }
    let Some(DriverOrigin::Ubuntu(driver)) = machine::driver_origin(root) else { return None };
    let branch = version.split('.').next()?;
    Some(format!("nvidia-firmware-{branch}{}-{version}", if driver.is_server { "-server" } else { "" }))
}

/// How to get the firmware of the driver. An installed package whose files were lost is installed again.
fn firmware(ctx: &Context<'_>, version: &str) -> Advice {
    let folder = format!("/lib/firmware/nvidia/{}", version.trim());
    match machine::packages::known_family(ctx.root).then(|| machine::packages::family(ctx.root)) {
        Some(machine::packages::Family::Debian) => {
            let is_firmware = |name: &str| name == "firmware-nvidia-gsp" || name.starts_with("nvidia-firmware-");
            let found = machine::deb_packages(ctx.root).into_iter().find(|package| is_firmware(&package.name));
            match found {
                Some(package) => Advice::from(format!(
                    "The package {} is installed, but its files are not there. Install it again: ",
                    package.name
                ))
                .command(format!("sudo apt-get update && sudo apt-get install --reinstall {}", package.name))
                .text(", then reboot."),
                None => match deb_firmware(ctx.root, version.trim()) {
                    Some(package) => Advice::run(format!(
                        "sudo apt-get update && sudo apt-get install {}",
                        quoted(&package)
                    ))
                    .text(", then reboot."),
                    None => format!("Install the firmware package of driver{version}, then reboot. `apt-cache search --names-only nvidia-firmware` lists such packages.").into(),
                },
            }
        }
        Some(family) if !version.is_empty() => {
            let tool = match family {
                machine::packages::Family::Suse => "zypper install --force",
                _ => "dnf reinstall -y",
            };
            Advice::from("Install the package with the firmware again: ")
                .command(format!("sudo {tool} $(rpm -qf {folder})"))
                .text(". If no package has that directory, install the driver again. Then reboot.")
        }
        _ => {
            let rebuild = rebuild_initramfs(ctx.root);
            format!("Install the firmware package of driver{version}, {rebuild}, then reboot.").into()
        }
    }
}

/// The driver that uses a GPU instead of the NVIDIA driver.
pub(crate) fn other_user(ctx: &Context<'_>) -> Option<String> {
    let bound = ctx.pci().into_iter().flatten().find_map(|gpu| gpu.driver.clone().filter(|driver| driver != "nvidia"));
    let modules = ctx.root.read_text("/proc/modules").unwrap_or_default();
    let is_loaded = |name: &&str| modules.lines().any(|line| line.split(' ').next() == Some(*name));
    bound.or_else(|| ["nova_core", "nouveau"].into_iter().find(is_loaded).map(str::to_owned))
}

/// The finding if nouveau uses a GPU.
pub(super) fn by_nouveau(ctx: &Context<'_>) -> Option<Judged> {
    let gpu = ctx.pci().into_iter().flatten().find(|gpu| gpu.driver.as_deref() == Some("nouveau"))?;
    let rebuild = rebuild_initramfs(ctx.root);
    let judged = Judged::lack(ID, "nouveau uses the GPU and blocks the NVIDIA driver")
        .found(format!("/sys/bus/pci/devices/{}/driver", gpu.address), "nouveau");
    let Some(version) = installed_version(ctx) else {
        let judged = judged.missing(Cost::Install, EVERY);
        let then = format!(" Its package disables nouveau. Then {rebuild} and reboot.");
        return Some(match flavours::choice(ctx) {
            Some(choice) => judged.by_hand().advice(choice.text(then)),
            None => judged.fixes(ctx.driver_fix()).advice(install(ctx) + &then),
        });
    };
    let judged = judged.found("modinfo nvidia", version).missing(Cost::Reboot, EVERY).fix(FixId::Initramfs);
    Some(judged.advice(match machine::excluded(ctx.root, "nouveau") {
        Some(_) => format!(
            "{}, then reboot. The driver is installed, but the old initramfs loads nouveau.",
            capitalised(&rebuild)
        ),
        None => format!(
            "Exclude nouveau (`echo blacklist nouveau | sudo tee /etc/modprobe.d/blacklist-nouveau.conf`), {rebuild}, then reboot. The driver is installed."
        ),
    }))
}

/// The version of the driver that is installed for the running kernel.
fn installed_version(ctx: &Context<'_>) -> Option<String> {
    let output = ctx.root.command(&["modinfo", "nvidia"]).filter(|output| output.exit_code == Some(0))?;
    output.stdout.lines().find_map(|line| line.strip_prefix("version:")).map(|version| version.trim().to_owned())
}

/// Another driver uses the GPU.
pub(crate) fn taken(ctx: &Context<'_>) -> Judged {
    let judged = |name: &str| Judged::lack(ID, format!("the driver {name} uses the GPU")).missing(Cost::Reboot, EVERY);
    match other_user(ctx) {
        Some(name) if name.contains("vfio") || name.contains("stub") => judged(&name).advice(format!(
            "Remove the GPU from the ids of {name} in /etc/modprobe.d and on the kernel command line, {}, then reboot.",
            rebuild_initramfs(ctx.root)
        )),
        Some(name) => {
            let module = if name.eq_ignore_ascii_case("novacore") { "nova_core".to_owned() } else { name };
            // The exclusion is in a file, so only the initramfs, which has an older copy, loads the module.
            if let Some(line) = machine::excluded(ctx.root, &module) {
                return judged(&module).found(line.file, line.line).fix(FixId::Initramfs).advice(format!(
                    "{}, then reboot: the old one still loads {module}, which a file excludes.",
                    capitalised(&rebuild_initramfs(ctx.root))
                ));
            }
            judged(&module).advice(
                Advice::from("Run ")
                    .command_and_initramfs(
                        ctx.root,
                        &format!("echo blacklist {module} | sudo tee /etc/modprobe.d/{module}.conf"),
                    )
                    .text(", then reboot. The NVIDIA driver is installed."),
            )
        }
        None => Judged::lack(ID, "another driver uses the GPU").missing(Cost::Reboot, EVERY).advice(
            Advice::run("lspci -nnk -d 10de:")
                .text(", and exclude the driver in use in /etc/modprobe.d. ")
                .text(format!("{}, then reboot.", capitalised(&rebuild_initramfs(ctx.root)))),
        ),
    }
}

/// The installed driver was built for another kernel. DKMS builds it again if it knows it.
fn other_kernel(ctx: &Context<'_>) -> Judged {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    let judged =
        Judged::lack(ID, "the installed NVIDIA driver was built for another kernel").missing(Cost::Root, EVERY);
    let row = machine::dkms_rows(ctx.root).into_iter().find(|row| row.is_driver());
    match row {
        Some(row) => judged.advice(
            Advice::run(machine::build_again(&row.name, &row.version, &release))
                .text(", then ")
                .command("sudo modprobe nvidia"),
        ),
        // Without DKMS the module came from an installer or a package for one kernel.
        None => judged.fixes(ctx.driver_fix()).advice(format!(
            "Install the driver again for {release}. Packages with DKMS build it again after each update of the kernel."
        )),
    }
}

/// Adds the driver to install to a finding, or the choice if no driver serves all GPUs.
pub(crate) fn with_driver(ctx: &Context<'_>, judged: Judged) -> Judged {
    match flavours::choice(ctx) {
        Some(choice) => judged.by_hand().advice(choice),
        None => judged.fixes(ctx.driver_fix()).advice(install(ctx)),
    }
}

/// The driver to install.
pub(crate) fn install(ctx: &Context<'_>) -> String {
    let is_open = ctx.driver_fix() == Some(FixId::NvidiaDriverOpen);
    match ctx.before_turing().max_by_key(|gpu| gpu.architecture).filter(|_| !is_open) {
        None => "Install the NVIDIA driver with the open kernel modules.".to_owned(),
        Some(gpu) if gpu.architecture == Architecture::BeforeMaxwell => {
            "No driver with GPUDirect Storage supports this GPU.".to_owned()
        }
        // Arch Linux moved this branch to its user repository (archlinux.org, "NVIDIA 590 driver drops Pascal support").
        Some(gpu) if machine::packages::is_arch(ctx.root) => format!(
            "Remove the driver (`sudo pacman -Rns nvidia-open-dkms nvidia-utils`), then install nvidia-{LAST_PROPRIETARY}xx-dkms and nvidia-{LAST_PROPRIETARY}xx-utils from the AUR and reboot. It is the last branch for {}.",
            gpu.architecture.name()
        ),
        Some(gpu) => format!(
            "Install the proprietary driver, branch {LAST_PROPRIETARY}, the last for {}. The open modules do not support this GPU.",
            gpu.architecture.name()
        ),
    }
}
