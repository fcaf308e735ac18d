//! The surroundings of the process: device nodes, memory limits, LSM, RDMA stack, clusters.

use crate::checks::container::bring::{Lack, bring};
use crate::checks::container::rdma::rdma;
use crate::checks::context::{Context, Subject};
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::spec::CheckId;
use crate::core::units;
use crate::machine;

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(cgroup(ctx));
    out.extend(huge_pages(ctx));
    out.extend(lsm(ctx));
    if machine::container(ctx.root).is_some_and(|c| c.runtime == "kubernetes") {
        out.push(operator());
    }
    if let Some(container) = machine::container(ctx.root) {
        out.push(
            Judged::info(CheckId::CtrIpc, "the statistics of other processes are seen only in their IPC namespace")
                .found("/proc/self/ns/ipc", "of this container")
                .advice(bring(&container, Lack::Ipc))
                .why("libcufile shares its statistics through System V memory."),
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

/// Device nodes; asked after NVML, because where NVML answers they are there.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::CtrDevices;
    const WHY: &str = "A container sees the GPU only through device nodes that are brought in when it is started.";
    let Some(container) = machine::container(ctx.root) else { return Vec::new() };
    if !ctx.root.exists("/proc/driver/nvidia/version") {
        return Vec::new();
    }
    if !ctx.root.nvml().gpus.is_empty() {
        return vec![Judged::pass(ID, "the devices of the GPU are here").found("NVML", "answers").why(WHY)];
    }
    let lacking: Vec<&str> = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"]
        .into_iter()
        .filter(|path| !ctx.root.exists(path))
        .collect();
    if lacking.is_empty() {
        return Vec::new();
    }
    vec![
        Judged::lack(
            ID,
            format!("the driver is loaded outside, but its devices are not in this container: {}", lacking.join(" ")),
        )
        .found("/dev", format!("no {}", lacking.join(", no ")))
        .missing(Cost::Root, EVERY)
        .advice(bring(&container, Lack::Gpu))
        .why(WHY),
    ]
}

/// The limits of the cgroup; version 2, with the process's own group at the top of its namespace.
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
                "only {} of memory, the page cache included: mapped loads of larger models thrash",
                units::bytes(bytes)
            ),
        ),
        Ok(bytes) => Judged::info(ID, format!("{} of memory, the page cache included", units::bytes(bytes))),
        Err(_) => Judged::pass(ID, "no limit of memory"),
    };
    let mut judged = judged.found(source, memory);
    if let Some((pids, source)) = read("pids.max") {
        judged = judged.found(source, pids);
    }
    Some(judged.why("Page cache counts against the limit, so it decides how a mapped load compares with a direct one."))
}

fn huge_pages(ctx: &Context<'_>) -> Option<Judged> {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = ctx.root.read_text(FILE).ok()?;
    let mode = text.split('[').nth(1)?.split(']').next()?.to_owned();
    Some(
        Judged::info(CheckId::LimHugepages, format!("transparent huge pages: {mode}; GDS does not need huge pages"))
            .found(FILE, text.trim())
            .why("They change the timing of mapped loads, not of direct ones."),
    )
}

fn lsm(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::UserLsm;
    const FILE: &str = "/sys/fs/selinux/enforce";
    let on = ctx.root.read_text(FILE).ok()?.trim().to_owned();
    let denied = machine::kernel_log(ctx.root).and_then(|log| {
        log.lines()
            .rev()
            .find(|line| line.contains("avc:") && line.contains("denied") && line.contains("nvidia-fs"))
            .map(str::to_owned)
    });
    let judged = match denied {
        Some(line) => Judged::warn(ID, "SELinux denied access to nvidia-fs")
            .found(machine::KERNEL_LOG, line.trim())
            .advice("Label the volume (:z) or allow it by a policy module (ausearch, audit2allow); do not switch SELinux off."),
        None if on == "1" => Judged::info(ID, "SELinux is enforcing"),
        None => Judged::pass(ID, "SELinux is permissive"),
    };
    Some(judged.found(FILE, on).why("A denial is reported as EACCES although the mode of the device allows all users."))
}

fn operator() -> Judged {
    Judged::na(CheckId::K8sOperator, "how the GPU Operator is set up is seen from outside the pod only")
        .found("kubectl", "not run by gds-top")
        .advice("kubectl get clusterpolicy -o yaml: gds.enabled must be true, driver.kernelModuleType open or auto.")
        .why("The operator loads nvidia-fs on the node, and it needs the open kernel modules.")
}

fn rootfs(ctx: &Context<'_>) -> Option<Judged> {
    let overlay = |s: &&Subject| s.facts.as_ref().is_some_and(|f| f.filesystem.as_deref() == Some("overlay"));
    // A machine may have overlays without a container. The file system check covers those.
    let container = machine::container(ctx.root)?;
    let subject = ctx.subjects.iter().find(overlay)?;
    Some(
        Judged::info(CheckId::CtrRootfs, format!("{} is in the container's root file system", subject.path.display()))
            .found("/proc/self/mountinfo", "overlay")
            .advice(bring(&container, Lack::Volume))
            .cause(CheckId::FsType)
            .why("The layers of a container cannot write into GPU memory."),
    )
}
