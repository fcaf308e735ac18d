//! Checks whether there is a GPU, and why the driver does not report it.

use crate::checks::advice::{Advice, LAST};
use crate::checks::container::bring::regain;
use crate::checks::container::surroundings;
use crate::checks::context::Context;
use crate::checks::cufile::cuda_errors::bring_libcuda;
use crate::checks::cufile::variables::unset;
use crate::checks::gpu::driver::is_mismatched;
use crate::checks::gpu::other_kernel::{boot_other, on_real_time, packaged_elsewhere};
use crate::checks::gpu::{absent, driver_log, faults, flavours, reserved, weak_links};
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::kernel::{build_log, excluded, signing};
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, CUDA_VISIBLE_DEVICES, Visible};

const ID: CheckId = CheckId::GpuPresent;

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    flavours::of_refused(ctx, present(ctx))
}

/// The value of CUDA_VISIBLE_DEVICES if it hides all GPUs.
fn hides_all(ctx: &Context<'_>) -> Option<String> {
    let (value, visible) = machine::visible_gpus(ctx.root)?;
    (visible == Visible::Only(Vec::new())).then_some(value)
}

/// How many of the GPUs programs see, if the variable hides some or if it is not known which it hides.
fn of_visible(ctx: &Context<'_>) -> Option<Judged> {
    let (value, visible) = machine::visible_gpus(ctx.root)?;
    let gpus = &ctx.root.nvml().gpus;
    let found = |judged: Judged| judged.found("environment", format!("{CUDA_VISIBLE_DEVICES}={value}"));
    match visible {
        Visible::Only(shown) if shown.is_empty() || shown.len() == gpus.len() => None,
        Visible::Only(shown) => {
            let names: Vec<&str> = shown.iter().map(|at| gpus[*at].name.as_str()).collect();
            let is = if shown.len() == 1 { "is" } else { "are" };
            let count = format!("{} of {} GPUs {is} visible to programs: {}", shown.len(), gpus.len(), names[0]);
            let others = if names.iter().all(|name| *name == names[0]) { "" } else { " and others" };
            Some(found(Judged::pass(ID, format!("{count}{others}"))))
        }
        Visible::Unordered => Some(found(
            Judged::info(ID, "programs see some of the GPUs; the order of their numbers is not known")
                .advice("Numbers count in CUDA's order. Name UUIDs, or set CUDA_DEVICE_ORDER=PCI_BUS_ID too."),
        )),
    }
}

/// Whether programs in this environment see no GPU although the machine has a working one.
pub(crate) fn is_out_of_sight(ctx: &Context<'_>) -> bool {
    hides_all(ctx).is_some() || kept_away(ctx).is_some()
}

/// Whether no program can use a GPU for the reason that this check reports.
pub(crate) fn blocks_all(ctx: &Context<'_>) -> bool {
    ctx.root.nvml().gpus.is_empty() && present(ctx).stops(Route::Compat)
}

/// Why this process cannot use the GPUs: a Slurm job without GPUs, or the permissions of the device.
fn kept_away(ctx: &Context<'_>) -> Option<Judged> {
    const CONTROL: &str = "/dev/nvidiactl";
    const CGROUP: &str = "/proc/self/cgroup";
    if !ctx.root.nvml().gpus.is_empty() || !ctx.gpu_on_bus() || !machine::Driver::of(ctx.root).is_loaded() {
        return None;
    }
    let opened = ctx.root.opens(CONTROL);
    if let (Err(machine::Unread::Missing), None) = (&opened, machine::container(ctx.root)) {
        return without_nodes(ctx);
    }
    let denied = match opened {
        Err(why @ machine::Unread::Denied(_)) => Some(why),
        _ => None,
    };
    let cgroup = ctx.root.read_text(CGROUP).unwrap_or_default();
    let job = cgroup.lines().find(|line| line.contains("slurm")).filter(|_| !has_gpus_of_slurm(ctx));
    let judged = match (job, &denied) {
        (Some(line), _) => Judged::lack(ID, "this Slurm job has no GPU").found(CGROUP, line).advice(
            Advice::from("Start the job with a GPU: ").command("srun --gpus=1 PROGRAM").text(", or --gres=gpu:1."),
        ),
        (None, Some(_)) if machine::container(ctx.root).is_none() => Judged::lack(
            ID,
            format!("this user cannot open {CONTROL}"),
        )
        .advice(match of_a_group(ctx) {
            _ if matches!(denied, Some(machine::Unread::Denied(machine::Denial::NotPermitted))) => by_cgroup(ctx, &cgroup),
            Some(group) => {
                Advice::run(format!("sudo usermod -aG {group} \"$USER\"")).text(", then log in again. An administrator writes the name of this user for $USER.")
            }
            None => "Run as a user that may use the GPU, or correct the mode of /dev/nvidia* (0666 by default) and the cgroup.".into(),
        }),
        _ => return None,
    };
    let judged = judged.missing(Cost::Setting, EVERY);
    Some(denied.iter().fold(judged, |judged, why| judged.unread(CONTROL, why)))
}

/// Whether Slurm gave this job GPUs. It then lists them in variables.
fn has_gpus_of_slurm(ctx: &Context<'_>) -> bool {
    let names = |value: String| value.split(',').next().is_some_and(|first| first.trim().parse::<u32>().is_ok());
    ["SLURM_STEP_GPUS", "SLURM_JOB_GPUS"].into_iter().filter_map(|name| ctx.root.variable(name)).any(names)
}

/// How to get access to devices that a device cgroup denies.
fn by_cgroup(ctx: &Context<'_>, cgroup: &str) -> Advice {
    if ctx.root.exists("/.dockerenv") {
        let container = machine::Container {
            runtime: "docker".to_owned(),
            source: "/.dockerenv".to_owned(),
            text: "exists".to_owned(),
        };
        return regain(&container).into();
    }
    match unit(cgroup) {
        // In DeviceAllow=, `*` is allowed in the groups of /proc/devices, not in paths (systemd.resource-control(5)).
        Some(unit) => Advice::run(format!("sudo systemctl edit {unit}"))
            .text(", and add DeviceAllow=char-nvidia* rw below [Service]. Then run ")
            .command(format!("sudo systemctl restart {unit}")),
        None => "A device cgroup denies the GPU. Start the program again: a container in a new container, a job with a GPU, a shell in a new login.".into(),
    }
}

/// The systemd unit of a control group.
fn unit(cgroup: &str) -> Option<&str> {
    cgroup.split(['/', '\n']).rev().find(|part| part.ends_with(".service"))
}

/// How a systemd unit gets the devices of the machine.
fn private_devices(ctx: &Context<'_>) -> Advice {
    let cgroup = ctx.root.read_text("/proc/self/cgroup").unwrap_or_default();
    let unit = unit(&cgroup).unwrap_or("UNIT");
    Advice::run(format!("sudo systemctl edit {unit}"))
        .text(", and add PrivateDevices=no below [Service]. Then run ")
        .command(format!("sudo systemctl restart {unit}"))
}

/// Why the devices of a loaded driver do not exist outside of containers.
fn without_nodes(ctx: &Context<'_>) -> Option<Judged> {
    const MOUNTS: &str = "/proc/self/mountinfo";
    let judged = if let Some(path) = machine::driver_container(ctx.root) {
        Judged::lack(ID, "the GPU Operator runs the driver in a container, so only pods can use the GPU")
            .found(path, "exists")
            .advice("Run gds-top in a pod that requests a GPU (resources.limits nvidia.com/gpu).")
    } else {
        // Without a list of /dev it is not known whether the devices exist.
        ctx.root.entries("/dev").ok().filter(|names| !names.is_empty())?;
        let mounts = ctx.root.read_bytes(MOUNTS).map(machine::parse_mountinfo).unwrap_or_default();
        let own = mounts.iter().rev().find(|mount| mount.point == std::path::Path::new("/dev"));
        match own.filter(|mount| mount.filesystem == "tmpfs") {
            Some(mount) => Judged::lack(ID, "this process has a private /dev without the GPU")
                .found(MOUNTS, format!("{} on /dev", mount.filesystem))
                .advice(private_devices(ctx)),
            None => Judged::lack(ID, "the driver is loaded, but its devices do not exist").advice(
                Advice::from("Create them: ")
                    .command("sudo nvidia-modprobe -c=0 -u")
                    .text(". To create them at boot, enable nvidia-persistenced."),
            ),
        }
    };
    Some(judged.found("/dev/nvidiactl", "does not exist").missing(Cost::Setting, EVERY))
}

/// The group that may use the GPU, if the driver restricts its devices to one (NVreg_DeviceFileGID).
fn of_a_group(ctx: &Context<'_>) -> Option<String> {
    let params = ctx.root.read_text(machine::registry::PARAMS_FILE).ok()?;
    let number = |name: &str| {
        let line = params.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':')?.trim().parse::<u32>().ok()
    };
    let (mode, group) = (number("DeviceFileMode")?, number("DeviceFileGID")?);
    let is_restricted = mode & 0o006 != 0o006 && mode & 0o060 == 0o060 && group != 0;
    let groups = ctx.root.read_text("/etc/group").unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(group)).then(|| name.to_owned())
    });
    is_restricted.then(|| name.unwrap_or_else(|| format!("\"$(getent group {group} | cut -d: -f1)\"")))
}

fn present(ctx: &Context<'_>) -> Judged {
    let nvml = ctx.root.nvml();
    let (lent, ours): (Vec<&machine::PciGpu>, Vec<&machine::PciGpu>) =
        ctx.pci().into_iter().flatten().partition(|gpu| gpu.is_lent());
    let on_bus = ours.len();
    let mut judged = if let Some(value) = hides_all(ctx) {
        Judged::lack(ID, "CUDA_VISIBLE_DEVICES hides all GPUs from programs")
            .found("environment", format!("{CUDA_VISIBLE_DEVICES}={value}"))
            .missing(Cost::Setting, EVERY)
            .advice(unset(ctx.root, CUDA_VISIBLE_DEVICES).text(" Or name existing GPUs in it."))
    } else if !nvml.gpus.is_empty() {
        let names: Vec<&str> = nvml.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        let summary = match names.as_slice() {
            [name] => format!("1 GPU: {name}"),
            [name, ..] => format!(
                "{} GPUs: {name}{}",
                names.len(),
                if names.iter().all(|n| n == name) { "" } else { " and others" }
            ),
            [] => String::new(),
        };
        let mut judged = of_visible(ctx).unwrap_or_else(|| Judged::pass(ID, summary));
        if on_bus > nvml.gpus.len() {
            judged = Judged::warn(ID, format!("the bus shows {on_bus} GPUs, and NVML {}", nvml.gpus.len()))
                .advice("A missing GPU has failed or belongs to a virtual machine. Search the kernel log for NVRM.");
            let refused = driver_log::refused(ctx).or_else(|| faults::of_unlisted(ctx));
            if let Some(unserved) = flavours::unserved(ctx) {
                judged = unserved;
                judged.finding.evidence.extend(refused.map(|refused| refused.finding.evidence).unwrap_or_default());
            } else if let Some(refused) = refused {
                judged.finding.summary = format!("{}: {}", judged.finding.summary, refused.finding.summary);
                judged.advice = refused.advice;
                judged.finding.evidence.extend(refused.finding.evidence);
            }
        }
        judged.found("NVML", names.join(", "))
    } else if on_bus > 0 {
        if nvml.unasked {
            Judged::na(ID, "the bus shows a GPU; NVML was not used").unknown(EVERY)
        } else if is_mismatched(ctx) {
            Judged::info(ID, "the bus shows a GPU, but NVML fails because the versions differ")
                .cause(CheckId::DriverMismatch)
        } else if let Some(judged) = not_driven(ctx) {
            judged
        } else if let Some(judged) = (!driver_log::on_nouveau(ctx)).then(|| driver_log::refused(ctx)).flatten() {
            judged
        } else if let Some(judged) = kept_away(ctx) {
            judged
        } else if surroundings::lacks_devices(ctx) {
            Judged::info(ID, "a GPU is on the bus, but its devices are not in this container")
                .cause(CheckId::CtrDevices)
        } else if let Some(judged) = faults::of_unlisted(ctx) {
            judged
        } else if machine::Driver::of(ctx.root).is_loaded() {
            unanswered(ctx)
        } else {
            not_loaded(ctx)
        }
    } else if !lent.is_empty() {
        reserved::reserved(ctx)
    } else if ctx.pci().is_none() && (nvml.unasked || !ctx.root.exists("/sys")) {
        Judged::na(ID, "neither NVML nor the PCI bus can be read").unknown(EVERY)
    } else {
        absent::absent(ctx)
    };
    judged = match ctx.pci() {
        Some([]) => judged.found("/sys/bus/pci/devices", "no display device of vendor 0x10de"),
        Some(gpus) => {
            let list: Vec<String> = gpus
                .iter()
                .map(|gpu| match gpu.driver.as_deref().filter(|_| gpu.is_lent()) {
                    Some(driver) => format!("{} ({driver})", gpu.address),
                    None => gpu.address.clone(),
                })
                .collect();
            judged.found("/sys/bus/pci/devices", list.join(" "))
        }
        None => judged.found("/sys/bus/pci/devices", "cannot be listed"),
    };
    if let Some(error) = &nvml.error {
        judged = judged.found("NVML", error.clone());
    }
    judged
}

/// A loaded driver whose NVML reports no GPU, without a reason in the kernel log.
fn unanswered(ctx: &Context<'_>) -> Judged {
    // Without its library NVML shows nothing. CUDA can work all the same.
    let is_absent = ctx.root.nvml().error.as_deref().is_none_or(|error| error.contains("cannot open shared object"));
    let judged = Judged::warn(ID, "the bus shows a GPU and a driver is loaded, but NVML does not answer");
    let container = machine::container(ctx.root);
    if is_absent && container.is_some() && lacks_libcuda(ctx) {
        return Judged::lack(ID, "this container lacks the libraries of the NVIDIA driver")
            .missing(Cost::Root, EVERY)
            .fix(FixId::ContainerDevices)
            .advice(bring_libcuda(ctx.root));
    }
    if is_absent
        && let Some(container) = &container
        && let Some(value) = without_utility(ctx)
    {
        return Judged::warn(ID, format!("NVML is not in this container: {CAPABILITIES} is {value}"))
            .found("environment", format!("{CAPABILITIES}={value}"))
            .unknown(EVERY)
            .advice(with_utility(container, &value));
    }
    if is_absent {
        return judged
            .unknown(EVERY)
            .advice(Advice::run("nvidia-smi").text(". On NVSwitch machines start nvidia-fabricmanager."));
    }
    if container.is_some() {
        return judged.missing(Cost::Root, EVERY).advice(
            "Run `nvidia-smi` on the host. If it works there, start the container again. If it fails, its administrator finds the reason with `sudo gds-top check` on the host.",
        );
    }
    let search = "sudo journalctl -k -b -o cat | grep -e NVRM -e Xid";
    judged.missing(Cost::Reboot, EVERY).advice(
        Advice::run(search)
            .text(" and `gds-top explain` with its last lines. If it has none, power the machine off and on."),
    )
}

/// The variable with which the NVIDIA runtime selects the libraries of a container. NVML is in `utility`.
const CAPABILITIES: &str = "NVIDIA_DRIVER_CAPABILITIES";

/// The value of the variable if it leaves out NVML. Without a value, the runtime adds NVML.
fn without_utility(ctx: &Context<'_>) -> Option<String> {
    let value = ctx.root.variable(CAPABILITIES).filter(|value| !value.trim().is_empty())?;
    (!value.split(',').any(|word| matches!(word.trim(), "utility" | "all"))).then_some(value)
}

/// How to add NVML to the libraries of a container.
fn with_utility(container: &machine::Container, value: &str) -> Advice {
    let kept: String = value.chars().filter(|c| c.is_ascii_alphanumeric() || *c == ',').collect();
    let variable = format!("{CAPABILITIES}={kept},utility");
    match container.runtime.as_str() {
        "kubernetes" => format!("Set {variable} in the environment of the pod's container, and create the pod again."),
        "pyxis" => format!("Start the job with `{variable} srun`."),
        "enroot" => format!("Start the container with `enroot start --env {variable}`."),
        _ => format!("Create the container again with `-e {variable}`."),
    }
    .into()
}

/// Whether libcufile did not find libcuda.
fn lacks_libcuda(ctx: &Context<'_>) -> bool {
    ctx.root.libcufile().open.as_ref().is_some_and(|open| open.stderr.contains("libcuda.so"))
}

/// A GPU without a loaded driver: the driver is not installed, was rejected, or is not built for the running kernel.
fn not_loaded(ctx: &Context<'_>) -> Judged {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    let rows = machine::dkms_rows(ctx.root);
    let judged = if let Some(judged) = driver_log::by_nouveau(ctx) {
        judged
    } else if driver_log::is_installed(ctx) && driver_log::other_user(ctx).is_some() {
        driver_log::taken(ctx)
    } else if let Some(judged) = installed(ctx) {
        judged
    } else if let Some(judged) = after_reboot(ctx, &release, &rows) {
        judged
    } else if let Some(judged) = on_real_time(ctx, &release, &rows) {
        judged
    } else if let Some((package, kernel)) = built_by_ubuntu(ctx, &release) {
        // The meta package brings the modules with each update of the kernel.
        let following = machine::following_kernel(ctx.root, &release)
            .and_then(|kernel| Some(format!(" {}{kernel}", package.strip_suffix(&release)?)))
            .unwrap_or_default();
        Judged::lack(ID, format!("Ubuntu's driver is installed for {kernel}, but {release} is running"))
            .found(format!("/lib/modules/{kernel}/kernel"), "has the driver")
            .missing(Cost::Install, EVERY)
            .advice(
                Advice::run(format!("sudo apt-get update && sudo apt-get install {package}{following}"))
                    .text(", then reboot. The modules are signed by Ubuntu."),
            )
    } else if let Some(judged) = modules_are_gone(ctx, &release) {
        judged
    } else if let Some(judged) = weak_links::dangling(ctx, &release) {
        judged
    } else if let Some(kernel) =
        packaged_elsewhere(ctx, &release).filter(|_| !rows.iter().any(machine::DkmsRow::is_driver))
    {
        Judged::lack(ID, format!("the NVIDIA driver is installed for {kernel}, but {release} is running"))
            .found(format!("/lib/modules/{kernel}"), "has nvidia.ko")
            .missing(Cost::Install, EVERY)
            .fixes(ctx.driver_fix())
            .advice(if machine::driver_origin(ctx.root) == Some(machine::DriverOrigin::Installer) {
                format!(
                    "NVIDIA's installer (.run) built it for {kernel} only. Run the installer again with --dkms, which follows the kernel. Packages must not be installed over it, unless `sudo nvidia-uninstall` removes it first."
                )
            } else {
                format!("Boot {kernel}. Or install the driver for {release}: its packages with DKMS follow the kernel.")
            })
    } else {
        let unbuilt = rows.iter().find(|row| row.is_driver() && !row.is_installed_for(&release));
        let failed = unbuilt.and_then(|row| failed_build(ctx, row));
        let built: Vec<&str> =
            rows.iter().filter(|row| row.is_driver()).filter_map(|row| row.kernel.as_deref()).collect();
        if let Some(judged) = failed.filter(|_| !built.contains(&release.as_str())) {
            judged
        } else if built.contains(&release.as_str()) {
            Judged::lack(ID, "the NVIDIA driver is built for this kernel, but not loaded")
                .missing(Cost::Root, EVERY)
                .advice(
                    Advice::run("sudo modprobe nvidia")
                        .text(". If that fails, `sudo journalctl -k -b | grep NVRM` shows why."),
                )
        } else if let Some(row) = rows.iter().find(|row| row.is_driver()).filter(|_| built.is_empty()) {
            Judged::lack(ID, format!("DKMS has not built the NVIDIA driver {}", row.version))
                .found("dkms status", format!("{}/{}: {}", row.name, row.version, row.state))
                .missing(Cost::Root, EVERY)
                .advice(with_headers(ctx, &release, &row.name, &row.version))
        } else if built.is_empty() {
            let judged = Judged::lack(ID, "the machine has a GPU, but no NVIDIA driver is loaded");
            driver_log::with_driver(ctx, judged.missing(Cost::Install, EVERY))
        } else {
            Judged::lack(ID, format!("the NVIDIA driver is built for {}, but {release} is running", built.join(", ")))
                .found("dkms status", format!("nvidia for {}", built.join(", ")))
                .missing(Cost::Install, EVERY)
                .advice(match rows.iter().find(|row| row.is_driver()) {
                    Some(row) => {
                        let advice = with_headers(ctx, &release, &row.name, &row.version);
                        match boot_other(ctx, &release, &rows) {
                            Some(other) => advice.text(" Alternative: ").and(other),
                            None => advice.text(" Or boot the kernel for which the driver is built."),
                        }
                    }
                    None => driver_log::install(ctx).into(),
                })
        }
    };
    ctx.before_turing().fold(judged, |judged, gpu| judged.found(gpu.name.clone(), gpu.architecture.name()))
}

/// How to build the driver for a kernel whose headers may be missing, and then the nvidia-fs that DKMS has: it is built
/// with the symbols of the driver.
fn with_headers(ctx: &Context<'_>, release: &str, name: &str, version: &str) -> Advice {
    let driver = format!("sudo dkms install {name}/{version} -k {release}");
    let build = match unbuilt_nvidia_fs(ctx, release) {
        Some(nvidia_fs) => format!("{driver} && {nvidia_fs}"),
        None => driver,
    };
    let has_headers = ctx.root.exists(format!("/lib/modules/{release}/build/Makefile"));
    let advice = match machine::packages::install_headers(ctx.root, release, false) {
        _ if has_headers => Advice::run(build),
        Some(install) => Advice::run(format!("{install} && {build}")),
        None => Advice::from(format!("Install the headers of {release}, then run ")).command(build),
    };
    advice.text(", then reboot.")
}

/// The command that builds the nvidia-fs that DKMS has only for other kernels.
fn unbuilt_nvidia_fs(ctx: &Context<'_>, release: &str) -> Option<String> {
    let builds = machine::nvidia_fs_builds(ctx.root);
    let row = builds.first().filter(|_| !builds.iter().any(|row| row.is_installed_for(release)))?;
    Some(format!("sudo dkms install {}/{} -k {release}", row.name, row.version))
}

/// The modules of the running kernel were removed by an update, as on Arch Linux. No module can be loaded until a reboot.
fn modules_are_gone(ctx: &Context<'_>, release: &str) -> Option<Judged> {
    let kernels = Some(machine::installed_kernels(ctx.root)).filter(|kernels| !kernels.is_empty())?;
    // A container has no modules of its host, or those of another kernel.
    if kernels.iter().any(|kernel| kernel == release) || machine::container(ctx.root).is_some() || release.is_empty() {
        return None;
    }
    // The families of Debian, RHEL and SUSE keep the modules of the running kernel.
    if machine::packages::known_family(ctx.root) {
        return None;
    }
    Some(
        Judged::lack(ID, format!("the modules of the running kernel {release} are gone: the kernel was updated"))
            .found("/lib/modules", kernels.join(" "))
            .missing(Cost::Reboot, EVERY)
            .advice(Advice::run("sudo reboot").text(", so that the installed kernel and its modules are used.")),
    )
}

/// The driver exists for the kernel of the next boot, so only the reboot is missing.
fn after_reboot(ctx: &Context<'_>, release: &str, rows: &[machine::DkmsRow]) -> Option<Judged> {
    if rows.iter().any(|row| row.is_driver() && row.is_installed_for(release)) || machine::has_driver(ctx.root, release)
    {
        return None;
    }
    let next = machine::next_kernel_release(ctx.root).filter(|next| next != release)?;
    let is_built = rows.iter().any(|row| row.is_driver() && row.is_installed_for(&next));
    (is_built || machine::has_driver(ctx.root, &next) || machine::ubuntu_driver(ctx.root, &next).is_some()).then(|| {
        Judged::lack(ID, format!("the NVIDIA driver is built for {next}, which runs after the next boot"))
            .found("/proc/sys/kernel/osrelease", release)
            .missing(Cost::Reboot, EVERY)
            .advice(Advice::run("sudo reboot").text(format!("{LAST}. {next} starts by default.")))
    })
}

/// The package of Ubuntu with a built driver for the running kernel, if only another kernel has such a driver. Ubuntu
/// keeps it in `/lib/modules/RELEASE/kernel/nvidia-580srv-open`.
fn built_by_ubuntu(ctx: &Context<'_>, release: &str) -> Option<(String, String)> {
    let of = |kernel: &str| machine::ubuntu_driver(ctx.root, kernel);
    if machine::packages::id(ctx.root) != "ubuntu" || of(release).is_some() {
        return None;
    }
    let mut kernels = machine::installed_kernels(ctx.root);
    kernels.sort_by_cached_key(|kernel| machine::release_numbers(kernel));
    let (kernel, name) = kernels.into_iter().rev().find_map(|kernel| Some((kernel.clone(), of(&kernel)?)))?;
    Some((format!("linux-modules-{}-{release}", name.replace("srv", "-server")), kernel))
}

/// A DKMS build of the driver that failed, with the line of its log.
fn failed_build(ctx: &Context<'_>, row: &machine::DkmsRow) -> Option<Judged> {
    let failed = build_log::failed(ctx, &row.name, &row.version)?;
    let judged = Judged::lack(ID, format!("DKMS cannot build the NVIDIA driver {}: {}", row.version, failed.why))
        .found(failed.log, failed.line);
    Some(if failed.needs_update {
        judged.missing(Cost::Install, EVERY).fixes(ctx.driver_fix()).advice(failed.advice)
    } else {
        let then = unbuilt_nvidia_fs(ctx, &machine::kernel_release(ctx.root).unwrap_or_default())
            .filter(|_| !failed.is_of_kernel);
        let advice = match then {
            Some(nvidia_fs) => failed.advice.text(", then ").command(nvidia_fs),
            None => failed.advice,
        };
        judged.missing(Cost::Root, EVERY).advice(advice.text(", then reboot."))
    })
}

/// A driver that is installed for the running kernel but not loaded. Installing it again has no effect.
fn installed(ctx: &Context<'_>) -> Option<Judged> {
    let output = ctx.root.command(&["modinfo", "nvidia"]).filter(|output| output.exit_code == Some(0))?;
    let field = |name: &str| output.stdout.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let version = field("version:")?;
    let is_open = field("license:").is_some_and(|license| license.contains("GPL"));
    let secure_boot = machine::secure_boot(ctx.root).filter(|state| state.is_on);
    let exclusion = machine::excluded(ctx.root, "nvidia");
    let closed = machine::modules_disabled(ctx.root);
    let is_supported = field("supported:").is_some_and(|by| by != "no");
    let too_old =
        ctx.before_turing().max_by_key(|gpu| gpu.architecture).filter(|_| is_open && ctx.are_all_before_turing());
    let judged = if let Some(gpu) = too_old {
        Judged::lack(
            ID,
            format!("driver {version} has open kernel modules, which do not support a {} GPU", gpu.architecture.name()),
        )
        .missing(Cost::Install, EVERY)
        .fixes(ctx.driver_fix())
        .advice(driver_log::install(ctx))
    } else if let Some(state) = secure_boot.filter(|_| field("signer:").is_none()) {
        signing::rejected(ctx, ID, signing::Module::Driver, None, EVERY).found(state.source, state.text)
    } else if let Some(line) = exclusion {
        Judged::lack(ID, format!("driver {version} is installed, but {} excludes it", line.file))
            .missing(Cost::Reboot, EVERY)
            .advice(excluded::allow(ctx, &line, "nvidia"))
            .found(line.file, line.line)
    } else if let Some((file, text)) = closed {
        Judged::lack(ID, format!("driver {version} is installed, but the kernel loads no modules any more"))
            .missing(Cost::Reboot, EVERY)
            .found(file, text)
            .advice(
                Advice::run("echo nvidia | sudo tee /etc/modules-load.d/nvidia.conf")
                    .text(", then reboot. kernel.modules_disabled=1 can only be left by a reboot, and systemd loads these modules before it is set."),
            )
    } else if let Some(advice) = excluded::allow_unsupported(ctx, "nvidia").filter(|_| !is_supported) {
        Judged::lack(ID, format!("driver {version} is installed, but SLES loads only modules that SUSE supports"))
            .missing(Cost::Root, EVERY)
            .found("modprobe.d", format!("{} 0", machine::modprobe::UNSUPPORTED))
            .advice(advice)
    } else {
        Judged::lack(ID, format!("driver {version} is installed, but not loaded")).missing(Cost::Root, EVERY).advice(
            Advice::run("sudo modprobe nvidia")
                .text(". If it fails, run `sudo journalctl -k -b | grep -i -e nvidia -e NVRM`."),
        )
    };
    let signer = field("signer:").map_or_else(|| "no signer".to_owned(), |signer| format!("signer {signer}"));
    Some(judged.found("modinfo nvidia", format!("version {version}, {signer}")))
}

/// Open kernel modules on a machine whose GPUs they do not support.
fn not_driven(ctx: &Context<'_>) -> Option<Judged> {
    if machine::Driver::of(ctx.root).is_open() != Some(true) || !ctx.root.nvml().gpus.is_empty() {
        return None;
    }
    let gpu = ctx.before_turing().next().filter(|_| ctx.are_all_before_turing())?;
    Some(
        Judged::lack(ID, format!("the loaded open kernel modules do not support a {} GPU", gpu.architecture.name()))
            .found("/sys/bus/pci/devices", gpu.name.clone())
            .missing(Cost::Install, EVERY)
            .fixes(ctx.driver_fix())
            .advice(driver_log::install(ctx)),
    )
}
