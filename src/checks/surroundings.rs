//! What is around the process: device nodes, memory limits, LSM, RDMA stack, clusters.

use super::context::Context;
use super::judged::{Cost, EVERY, Judged};
use crate::domain::{Group::Limits, Route, units};
use crate::host;
use serde_json::Value;

pub(super) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(cgroup(ctx));
    out.extend(huge_pages(ctx));
    out.extend(lsm(ctx));
    if host::container(ctx.root).is_some_and(|c| c.runtime == "kubernetes") {
        out.push(operator());
    }
    if host::container(ctx.root).is_some() {
        out.push(
            Judged::info("ctr-ipc", Limits, "the statistics of other processes are seen only in their IPC namespace")
                .found("/proc/self/ns/ipc", "of this container")
                .advice("Start the container with --ipc=host (hostIPC: true) to watch programs outside it.")
                .why("libcufile shares its statistics through System V memory."),
        );
    }
    out.extend(rootfs(ctx));
    out.extend(rdma(ctx));
    out
}

/// Whether CUDA cannot work because the container has no device nodes.
pub(super) fn lacks_devices(ctx: &Context<'_>) -> bool {
    slow(ctx).iter().any(|judged| judged.in_the_way().next().is_some())
}

/// Device nodes; asked after NVML, because where NVML answers they are there.
pub(super) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: &str = "ctr-devices";
    const WHY: &str = "A container sees the GPU only through device nodes that are brought in when it is started.";
    if host::container(ctx.root).is_none() || !ctx.root.exists("/proc/driver/nvidia/version") {
        return Vec::new();
    }
    if !ctx.root.nvml().gpus.is_empty() {
        return vec![Judged::pass(ID, Limits, "the devices of the GPU are here").found("NVML", "answers").why(WHY)];
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
            Limits,
            format!("the driver is loaded outside, but its devices are not in this container: {}", lacking.join(" ")),
        )
        .found("/dev", format!("no {}", lacking.join(", no ")))
        .missing(Cost::Root, EVERY)
        .advice("Start the container with --gpus all (nvidia-container-toolkit).")
        .why(WHY),
    ]
}

/// The limits of the cgroup; version 2, with the process's own group at the top of its namespace.
fn cgroup(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "lim-cgroup";
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
            Limits,
            format!(
                "only {} of memory, the page cache included: mapped loads of larger models thrash",
                units::bytes(bytes)
            ),
        ),
        Ok(bytes) => Judged::info(ID, Limits, format!("{} of memory, the page cache included", units::bytes(bytes))),
        Err(_) => Judged::pass(ID, Limits, "no limit of memory"),
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
        Judged::info("lim-hugepages", Limits, format!("transparent huge pages: {mode}; GDS does not need huge pages"))
            .found(FILE, text.trim())
            .why("They change the timing of mapped loads, not of direct ones."),
    )
}

fn lsm(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "user-lsm";
    const FILE: &str = "/sys/fs/selinux/enforce";
    let on = ctx.root.read_text(FILE).ok()?.trim().to_owned();
    let denied = super::kernel_log::text(ctx).and_then(|log| {
        log.lines()
            .rev()
            .find(|line| line.contains("avc:") && line.contains("denied") && line.contains("nvidia-fs"))
            .map(str::to_owned)
    });
    let judged = match denied {
        Some(line) => Judged::warn(ID, Limits, "SELinux denied access to nvidia-fs")
            .found(super::kernel_log::SOURCE, line.trim())
            .advice("Label the volume (:z) or allow it by a policy module (ausearch, audit2allow); do not switch SELinux off."),
        None if on == "1" => Judged::info(ID, Limits, "SELinux is enforcing"),
        None => Judged::pass(ID, Limits, "SELinux is permissive"),
    };
    Some(judged.found(FILE, on).why("A denial shows as EACCES although the mode of the device allows everybody."))
}

fn operator() -> Judged {
    Judged::na("k8s-operator", Limits, "how the GPU Operator is set up is seen from outside the pod only")
        .found("kubectl", "not run by gds-top")
        .advice("kubectl get clusterpolicy -o yaml: gds.enabled must be true, driver.kernelModuleType open or auto.")
        .why("The operator loads nvidia-fs on the node, and it needs the open kernel modules.")
}

fn rootfs(ctx: &Context<'_>) -> Option<Judged> {
    let overlay =
        |s: &&super::context::Subject| s.facts.as_ref().is_some_and(|f| f.filesystem.as_deref() == Some("overlay"));
    // A machine may have overlays of its own; what is said of those is said of the file system.
    host::container(ctx.root)?;
    let subject = ctx.subjects.iter().find(overlay)?;
    Some(
        Judged::info(
            "ctr-rootfs",
            Limits,
            format!("{} lies in the container's own file system", subject.path.display()),
        )
        .found("/proc/self/mountinfo", "overlay")
        .advice("Keep models on a volume: -v /data:/data.")
        .cause("fs-type")
        .why("The layers of a container are no disk that could write into GPU memory."),
    )
}

/// The addresses of this machine's cards in cufile.json: of the mounts, of the file system, or of all (libcufile looks in this order).
fn rdma_addresses(ctx: &Context<'_>) -> (Vec<String>, String) {
    let kinds = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()?.filesystem.as_deref());
    for kind in kinds {
        let section = match kind {
            "wekafs" => "fs.weka",
            "gpfs" | "mmfs" => "fs.gpfs",
            _ => continue,
        };
        for key in [format!("{section}.mount_table"), format!("{section}.rdma_dev_addr_list")] {
            let (list, origin) = ctx.config().texts_below(&key);
            if !list.is_empty() {
                return (list, origin);
            }
        }
    }
    ctx.config().texts_below("properties.rdma_dev_addr_list")
}

/// RDMA, where a path is on a file system that goes over it.
fn rdma(ctx: &Context<'_>) -> Vec<Judged> {
    let kinds: Vec<(&str, bool)> = ctx
        .subjects
        .iter()
        .filter_map(|s| s.facts.as_ref())
        .filter_map(|f| Some((f.filesystem.as_deref()?, f.option_value("proto") == Some("rdma"))))
        .collect();
    let user_space = kinds.iter().any(|(kind, _)| matches!(*kind, "gpfs" | "mmfs" | "wekafs"));
    let kernel = kinds
        .iter()
        .any(|(kind, rdma)| matches!(*kind, "lustre" | "beegfs" | "fhgfs") || (kind.starts_with("nfs") && *rdma));
    if !user_space && !kernel {
        return Vec::new();
    }
    let mut out = vec![stack(ctx, user_space)];
    if user_space {
        out.push(addresses(ctx));
    }
    out
}

/// Whether no device of user-space RDMA is in sight.
fn no_verbs(ctx: &Context<'_>) -> bool {
    !ctx.root.entries("/dev/infiniband").unwrap_or_default().iter().any(|name| name.starts_with("uverbs"))
}

fn stack(ctx: &Context<'_>, user_space: bool) -> Judged {
    const ID: &str = "rdma-stack";
    let devices = ctx.root.entries("/sys/class/infiniband").unwrap_or_default();
    let version = ctx.root.read_text("/sys/module/mlx5_core/version").ok().map(|text| text.trim().to_owned());
    let judged = if devices.is_empty() {
        Judged::warn(ID, Limits, "no RDMA device is here").found("/sys/class/infiniband", "empty or absent")
    } else if user_space && host::container(ctx.root).is_some() && no_verbs(ctx) {
        Judged::lack(ID, Limits, "the RDMA devices of the host are not in this container")
            .found("/dev/infiniband", "no uverbs device")
            .missing(Cost::Root, &[Route::Rdma])
            .advice("Start the container with --device /dev/infiniband and --cap-add IPC_LOCK.")
    } else {
        Judged::info(ID, Limits, format!("RDMA devices: {}", devices.join(" ")))
            .found("/sys/class/infiniband", devices.join(" "))
    };
    let judged = match version {
        Some(version) => judged.found("/sys/module/mlx5_core/version", version),
        None => judged.found("/sys/module/mlx5_core/version", "absent: the kernel's own driver, or none"),
    };
    let rates = ports(ctx).into_iter().filter_map(|(path, state)| {
        let path = path.strip_suffix("state").map(|port| format!("{port}rate"))?;
        Some((ctx.root.read_text(&path).ok()?.trim().to_owned(), path, state))
    });
    let judged =
        rates.take(8).fold(judged, |judged, (rate, path, state)| judged.found(path, format!("{rate}, {state}")));
    let judged = if judged.finding.advice.is_some() {
        judged
    } else {
        judged.advice("ofed_info -s tells DOCA or MLNX_OFED; do not mix the two.")
    };
    judged.why("The patched clients come with DOCA or MLNX_OFED.")
}

/// The ports of RDMA devices with their state: `4: ACTIVE`, `1: DOWN`.
fn ports(ctx: &Context<'_>) -> Vec<(String, String)> {
    const TOP: &str = "/sys/class/infiniband";
    let names = |folder: &str| ctx.root.entries(folder).unwrap_or_default();
    names(TOP)
        .into_iter()
        .map(|device| format!("{TOP}/{device}/ports"))
        .flat_map(|folder| {
            names(&folder).into_iter().map(move |port| format!("{folder}/{port}/state")).collect::<Vec<_>>()
        })
        .filter_map(|path| Some((ctx.root.read_text(&path).ok()?.trim().to_owned(), path)))
        .map(|(state, path)| (path, state))
        .collect()
}

fn addresses(ctx: &Context<'_>) -> Judged {
    const ID: &str = "rdma-ips";
    let (list, origin) = rdma_addresses(ctx);
    let table = ctx.root.read_text("/proc/net/fib_trie");
    let judged = if list.is_empty() {
        Judged::lack(ID, Limits, "rdma_dev_addr_list is not set, so cuFile knows no network card for this file system")
            .found("cufile.json", "no properties.rdma_dev_addr_list, and none in the section of the file system")
            .missing(Cost::Setting, &[Route::Rdma])
            .advice("Set properties.rdma_dev_addr_list to the addresses of the RDMA interfaces.")
    } else {
        match table {
            Ok(text) => {
                let known = |ip: &String| text.lines().any(|l| l.trim().trim_start_matches("|-- ") == ip.as_str());
                let unknown: Vec<&str> = list.iter().filter(|ip| !known(ip)).map(String::as_str).collect();
                let down = ports(ctx).into_iter().filter(|(_, state)| !state.contains("ACTIVE")).collect::<Vec<_>>();
                let all_down = !down.is_empty() && down.len() == ports(ctx).len();
                if unknown.is_empty() && all_down {
                    let judged = Judged::lack(
                        ID,
                        Limits,
                        "no port of an RDMA device is up, so this file system has no way to the GPU",
                    )
                    .missing(Cost::System, &[Route::Rdma])
                    .advice("Look at cable, switch and subnet manager: ibstat, systemctl status opensm.");
                    down.into_iter().take(8).fold(judged, |judged, (path, state)| judged.found(path, state))
                } else if unknown.is_empty() {
                    Judged::pass(ID, Limits, "each address of rdma_dev_addr_list is of this machine")
                } else {
                    Judged::lack(
                        ID,
                        Limits,
                        format!("rdma_dev_addr_list names addresses that this machine has not: {}", unknown.join(" ")),
                    )
                    .missing(Cost::Setting, &[Route::Rdma])
                    .advice(format!("Correct properties.rdma_dev_addr_list in {origin}."))
                }
            }
            Err(why) => Judged::na(ID, Limits, "the addresses of this machine could not be read")
                .unread("/proc/net/fib_trie", &why)
                .unknown(&[Route::Rdma]),
        }
        .found(origin, Value::from(list).to_string())
    };
    judged.why("Over user-space RDMA cuFile registers GPU memory with the cards of these addresses.")
}
