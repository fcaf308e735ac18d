//! The environment of the process: device nodes, memory limits, LSM, RDMA stack, clusters.

use crate::checks::advice::Advice;
use crate::checks::container::bring::{Lack, NO_PERMISSION, RUNTIME_CLASS, bring, permit, regain};
use crate::checks::container::lxc::given;
use crate::checks::container::rdma::rdma;
use crate::checks::context::{Context, Subject};
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::storage::virtual_disk::cloud;
use crate::core::CheckId;
use crate::core::units;
use crate::machine::{self, Denial, Message, PathFacts, Root, Source, Unread};
use std::path::Path;

const ENFORCE: &str = "/sys/fs/selinux/enforce";

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(cgroup(ctx));
    out.extend(huge_pages(ctx));
    out.extend(lsm(ctx));
    // The nodes of these clouds come with their driver, so no operator configures it.
    if machine::container(ctx.root).is_some_and(|c| c.runtime == "kubernetes") && cloud(ctx).is_none() {
        out.push(operator());
    }
    if let Some(container) = machine::container(ctx.root) {
        out.push(
            Judged::info(CheckId::CtrIpc, "statistics of other processes are visible only in their IPC namespace")
                .found("/proc/self/ns/ipc", "of this container")
                .advice(bring(&container, Lack::Ipc)),
        );
    }
    out.extend(rootfs(ctx));
    out.extend(rdma(ctx));
    out
}

/// Whether CUDA cannot work because the container has no device nodes.
pub(crate) fn lacks_devices(ctx: &Context<'_>) -> bool {
    slow(ctx).iter().any(|judged| judged.in_the_way().next().is_some())
}

/// Checks the device nodes. If NVML answers, only /dev/nvidia-uvm can be missing: NVML does not need it.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::CtrDevices;
    const CONTROL: &str = "/dev/nvidiactl";
    const UVM: &str = "/dev/nvidia-uvm";
    let Some(container) = machine::container(ctx.root) else { return Vec::new() };
    if !ctx.root.exists("/proc/driver/nvidia/version") {
        return Vec::new();
    }
    let denial = |path: &'static str| match ctx.root.opens(path) {
        Err(Unread::Denied(denial @ (Denial::NotPermitted | Denial::Access))) => Some((path, denial)),
        _ => None,
    };
    let seen = !ctx.root.nvml().gpus.is_empty();
    let cuda_fails = || {
        let open = ctx.root.libcufile().open.as_ref();
        open.is_some_and(|open| open.code != Some(0) && open.cuda_code.is_some_and(|code| code != 0))
    };
    // libcufile is asked only if a device is denied.
    let denied = [CONTROL, UVM].into_iter().find_map(denial).filter(|_| !seen || cuda_fails());
    if let Some((path, denial)) = denied {
        let (by, advice) = match denial {
            Denial::NotPermitted => ("the device cgroup of this container denies", regain(&container).to_owned()),
            _ => ("this user of the container cannot open", permit(ctx.root, &container)),
        };
        let judged = Judged::lack(ID, format!("{by} {path}")).advice(advice);
        let judged = confined(ctx.root, &container).unwrap_or(judged);
        return vec![judged.unread(path, &Unread::Denied(denial)).missing(Cost::Root, EVERY)];
    }
    // Without the result of an open, NVML reports that it may not use the devices.
    let nvml = ctx.root.nvml();
    if !seen && nvml.error_code == Some(NO_PERMISSION) && ctx.root.exists(CONTROL) {
        let judged = Judged::lack(ID, "this container has the devices of the GPU, but may not open them")
            .advice(permit(ctx.root, &container));
        let judged = confined(ctx.root, &container).unwrap_or(judged);
        return vec![judged.found("NVML", nvml.error.clone().unwrap_or_default()).missing(Cost::Root, EVERY)];
    }
    let lacking: Vec<&str> = if !seen {
        [CONTROL, UVM, "/dev/nvidia0"].into_iter().filter(|path| !ctx.root.exists(path)).collect()
    } else if ctx.root.exists(CONTROL) && !ctx.root.exists(UVM) && cuda_fails() {
        vec![UVM]
    } else {
        return vec![Judged::pass(ID, "the devices of the GPU exist").found("NVML", "answers")];
    };
    if lacking.is_empty() {
        return Vec::new();
    }
    if let Some(value) = machine::assigned_gpus(ctx.root).filter(|_| !seen && container.runtime == "kubernetes") {
        return vec![
            Judged::lack(ID, "the pod has a GPU, but it was not started by the NVIDIA runtime")
                .found("environment", format!("NVIDIA_VISIBLE_DEVICES={value}"))
                .found("/dev", format!("no {}", lacking.join(", no ")))
                .missing(Cost::Root, EVERY)
                .advice(RUNTIME_CLASS),
        ];
    }
    vec![
        Judged::lack(
            ID,
            format!("the host has loaded the driver, but this container lacks its devices: {}", lacking.join(" ")),
        )
        .found("/dev", format!("no {}", lacking.join(", no ")))
        .missing(Cost::Root, EVERY)
        .advice(given(ctx.root, &container, &[Lack::Gpu])),
    ]
}

/// SELinux as the reason why a container cannot open the devices of the GPU (nvidia-container-toolkit#210).
fn confined(root: &Root, container: &machine::Container) -> Option<Judged> {
    const LABEL: &str = "/proc/self/attr/current";
    let label = root.read_text(LABEL).ok()?.trim_end_matches(['\0', '\n']).to_owned();
    // The profiles of the runtimes allow devices.
    const USUAL: &[&str] =
        &["docker-default", "containers-default", "cri-containerd", "crio-default", "lxc-", "incus-"];
    if let Some(profile) =
        label.strip_suffix(" (enforce)").filter(|name| !USUAL.iter().any(|usual| name.starts_with(usual)))
    {
        let start = match container.runtime.as_str() {
            "kubernetes" => "set securityContext.appArmorProfile.type of the container to Unconfined",
            _ => "create the container again with --security-opt apparmor=unconfined",
        };
        return Some(
            Judged::lack(
                CheckId::CtrDevices,
                format!("AppArmor may deny the GPU's devices to this container ({profile})"),
            )
            .found(LABEL, label.clone())
            .advice(format!("Allow `/dev/nvidia* rw,` in the profile {profile} on the host. To test it, {start}.")),
        );
    }
    let kind = label.split(':').nth(2).filter(|kind| kind.starts_with("container_"))?.to_owned();
    let is_enforcing = root.read_text(ENFORCE).is_ok_and(|text| text.trim() == "1");
    is_enforcing.then(|| {
        let start = match container.runtime.as_str() {
            "kubernetes" => "Set seLinuxOptions.type of the pod to spc_t.",
            _ => "Create the container again with --security-opt label=disable.",
        };
        Judged::lack(CheckId::CtrDevices, format!("SELinux denies the GPU's devices to this container ({kind})"))
            .found(LABEL, label)
            .found(ENFORCE, "1")
            .advice(format!(
                "{start} Or allow it for all containers, on the host: `sudo setsebool -P container_use_xserver_devices on`."
            ))
    })
}

/// Whether SELinux or AppArmor may deny the devices of the GPU to this container.
pub(crate) fn is_confined(root: &Root) -> bool {
    machine::container(root).is_some_and(|container| confined(root, &container).is_some())
}

/// The limits of the cgroup, version 2. In its own namespace, the group of the process is the root.
fn cgroup(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::LimCgroup;
    let own = ctx.root.read_text("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim().trim_end_matches('/').to_owned();
    let read = |part: &str| {
        [format!("/sys/fs/cgroup{path}/{part}"), format!("/sys/fs/cgroup/{part}")]
            .into_iter()
            .find_map(|file| Some((ctx.root.read_text(&file).ok()?.trim().to_owned(), file)))
    };
    let (memory, source) = read("memory.max")?;
    let judged = match memory.parse::<u64>() {
        Ok(bytes) if bytes < 4 * units::GIB => Judged::info(
            ID,
            format!(
                "only {} of memory for programs and page cache: mapped loads of larger models thrash",
                units::bytes(bytes)
            ),
        ),
        Ok(bytes) => Judged::info(ID, format!("{} of memory for programs and page cache", units::bytes(bytes))),
        Err(_) => Judged::pass(ID, "memory is not limited"),
    };
    let mut judged = judged.found(source, memory);
    if let Some((pids, source)) = read("pids.max") {
        judged = judged.found(source, pids);
    }
    Some(judged)
}

fn huge_pages(ctx: &Context<'_>) -> Option<Judged> {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = ctx.root.read_text(FILE).ok()?;
    let mode = text.split('[').nth(1)?.split(']').next()?.to_owned();
    Some(
        Judged::info(CheckId::LimHugepages, format!("transparent huge pages: {mode}; GDS does not need huge pages"))
            .found(FILE, text.trim()),
    )
}

/// The last line of the kernel log by which SELinux denied an access to nvidia-fs.
pub(crate) fn selinux_denial(ctx: &Context<'_>) -> Option<String> {
    let log = machine::kernel_log(ctx.root)?;
    // The kernel encodes names with spaces or quotes, and users cannot create devices.
    let is_device = |message: &&Message| {
        let has = |part: &str| message.text.contains(part);
        has(" tclass=chr_file") && (has(" name=\"nvidia-fs") || has(" path=\"/dev/nvidia-fs"))
    };
    log.of(Source::Denial).rev().find(is_device).map(|message| message.line.clone())
}

/// How to allow an access that SELinux denies, without disabling SELinux.
pub(crate) fn allow_in_selinux(ctx: &Context<'_>) -> Advice {
    const MODULE: &str = "sudo ausearch -m avc -ts boot | audit2allow -M gds && sudo semodule -i gds.pp";
    match machine::container(ctx.root).map(|container| container.runtime) {
        Some(runtime) if runtime == "kubernetes" => {
            Advice::from("Set seLinuxOptions.type of the pod to spc_t, or allow the access on the node: ")
                .command(MODULE)
        }
        Some(_) => Advice::from(
            "Create the container again with --security-opt label=disable, or allow the access on the host: ",
        )
        .command(MODULE),
        None => Advice::from("Allow the access: ").command(MODULE),
    }
}

fn lsm(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::UserLsm;
    let on = ctx.root.read_text(ENFORCE).ok()?.trim().to_owned();
    let judged = match selinux_denial(ctx) {
        Some(line) => Judged::warn(ID, "SELinux denied access to nvidia-fs")
            .found(machine::KERNEL_LOG, line)
            .advice(allow_in_selinux(ctx)),
        None if on == "1" => Judged::info(ID, "SELinux is enforcing"),
        None => Judged::pass(ID, "SELinux is permissive"),
    };
    Some(judged.found(ENFORCE, on))
}

fn operator() -> Judged {
    Judged::na(CheckId::K8sOperator, "the settings of the GPU Operator are visible only outside the pod")
        .found("kubectl", "gds-top does not run it")
        .advice(
            Advice::run("kubectl get clusterpolicy -o yaml")
                .text(": gds.enabled must be true, and driver.kernelModuleType open or auto."),
        )
}

fn rootfs(ctx: &Context<'_>) -> Option<Judged> {
    // Another mount point is that of a volume, which can be an image.
    let is_root = |facts: &PathFacts| facts.mount_point.as_deref().is_none_or(|point| point == Path::new("/"));
    let overlay = |s: &&Subject| {
        s.facts.as_ref().is_some_and(|facts| facts.filesystem.as_deref() == Some("overlay") && is_root(facts))
    };
    // Overlays outside of containers are covered by the check of the file system.
    let container = machine::container(ctx.root)?;
    let subject = ctx.subjects.iter().find(overlay)?;
    Some(
        Judged::info(CheckId::CtrRootfs, format!("{} is in the container's root file system", subject.path.display()))
            .found("/proc/self/mountinfo", "overlay")
            .advice(bring(&container, Lack::Volume))
            .cause(CheckId::FsType),
    )
}
