//! Plans that only give advice: how to start a container, which disk and GPU to use, how to set the log.

use super::parts::{empty, p2pdma_keys, run, words};
use crate::checks::cufile_json::{file_to_mount, set_keys};
use crate::checks::{
    Lack, Report, disk_for_model, disks_in_use, enroot_variables, free_folder, group_option, has_compute, has_selinux,
    is_confined, is_cut_off, is_denied, is_rootless, loss_of_local_disks, lxc, nearest_gpu, other_command,
    place_for_model, runtime_command,
};
use crate::core::check::names;
use crate::core::{Change, CheckId, Finding, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs, Route, Status};
use crate::machine::{PathFacts, Root, assigned_gpus, kernel_release, kernel_version, nvidia_fs_loaded, pod_namespace};
use crate::text::quoted;
use std::path::{Path, PathBuf};

/// The plan that moves a model to a disk with a direct route.
pub(super) fn move_model(root: &Root, report: &Report) -> FixPlan {
    // A container sees only the volumes that it was started with, so its host copies the model.
    let runtime = crate::machine::container(root).map(|container| container.runtime);
    let program = runtime.as_deref().filter(|name| matches!(*name, "docker" | "podman"));
    let is_pod = crate::machine::container(root).is_some_and(|container| container.runtime == "kubernetes");
    // RHEL 9 has P2PDMA as a backport in Linux 5.14.
    let has_p2pdma = kernel_version(root).is_none_or(|version| version >= (6, 2) || version == (5, 14));
    let lacks_both = nvidia_fs_loaded(root) != Some(true) && !has_p2pdma;
    let mine = report.paths.first().and_then(|facts| facts.mount_point.as_deref());
    // A container does not show the mounts of its host.
    let known = place_for_model(root, mine).filter(|_| runtime.is_none());
    let free = disk_for_model(root).filter(|_| known.is_none());
    let point = known.as_ref().or(free.as_ref().map(|(_, point)| point));
    let place = point.map_or_else(|| "/NVME_MOUNT_POINT".to_owned(), |point| point.display().to_string());
    let path = model(report);
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let link = report.paths.first().and_then(|facts| linked(facts, &path));
    let source = link.clone().unwrap_or_else(|| path.clone());
    let target = free_folder(root, Path::new(&place), name.as_ref(), &[Path::new(&path), Path::new(&source)]);
    let target = target.display().to_string();
    let copy = match program {
        Some(program) => {
            let copy = ["cp", &format!("CONTAINER:{path}"), "/NVME_MOUNT_POINT/"].map(str::to_owned);
            words(&runtime_command(root, program)).into_iter().chain(copy).collect()
        }
        // A snapshot of the Hugging Face cache consists of links to files in another directory.
        None => {
            let options = if link.is_some() || path.contains("/snapshots/") { "-rL" } else { "-a" };
            let copy = ["cp", options, "--sparse=never", &source, &target].map(str::to_owned);
            // A new mount point belongs to root.
            (!is_pod).then(|| "sudo".to_owned()).into_iter().chain(copy).collect()
        }
    };
    let then = program.map(|program| {
        let volume = quoted(&format!("/NVME_MOUNT_POINT/{name}:{path}")).into_owned();
        format!("start the container again with {} run -v {volume} …", runtime_command(root, program))
    });
    // A copy from a container makes no file system.
    let is_copy_only = is_pod || known.is_some() || program.is_some();
    let risk = if is_copy_only { FixRisk::Low } else { FixRisk::High };
    let lost = loss_of_local_disks(root).map_or_else(String::new, |sentence| {
        format!(" {}", sentence.replacen("Its data", "The data of a local disk", 1))
    });
    let warning = disks_in_use(root).filter(|_| !is_copy_only && free.is_none());
    let warning = warning.map_or_else(String::new, |sentence| format!(" {sentence}"));
    FixPlan {
        why: "The direct routes read from xfs, and from ext4 with the mount option data=ordered in /etc/fstab, on a partition of an NVMe disk. Reads of this \
              place pass through host memory."
            .to_owned()
            + if is_pod {
                " Give the pod a volume on a local NVMe disk of the node (hostPath, or a local PersistentVolume) and the node's /run/udev, and copy the model to it."
            } else if known.is_some() {
                ""
            } else if program.is_some() {
                " Run the commands on the host, and put a directory on such a partition for /NVME_MOUNT_POINT."
            } else if free.is_some() {
                " No partition, file system or mount is known on this disk. mkfs.xfs erases it, and runs only if wipefs finds nothing."
            } else {
                " A new file system (mkfs.xfs) destroys the content of the disk, so you choose the disk, and copy its data first."
            }
            + program.map_or("", |program| other_command(root, program))
            + &link.map_or_else(String::new, |real| format!(" {path} leads to {real}, and the copy has no links."))
            + &warning
            + if lacks_both {
                " This machine has neither nvidia-fs nor a kernel with P2PDMA (6.2), so the copy alone stays in compat mode; gds-top check at the new place shows the next steps."
            } else {
                ""
            }
            + &lost,
        changes: (!is_pod && known.is_none())
            .then(|| run("lsblk -o NAME,FSTYPE,SIZE,MOUNTPOINTS"))
            .into_iter()
            .chain(free.iter().flat_map(|(disk, _)| file_system(disk, &place)))
            .chain([Change::Run { argv: copy }])
            .collect(),
        verify: format!("gds-top check {}", quoted(&target)),
        remaining: then.into_iter().collect(),
        undo: if free.is_some() {
            "read the model from its earlier directory; unmount the disk and remove its line from /etc/fstab. The former content of the disk is not restored".to_owned()
        } else {
            "read the model from its earlier directory; the copy can be removed".to_owned()
        },
        ..empty(FixId::MoveModel, Needs::User, risk, FixPolicy::Never)
    }
}

/// The place to which the examined path leads by links. `None` if it contains no link.
fn linked(facts: &PathFacts, path: &str) -> Option<String> {
    let real = facts.real_path.as_deref().filter(|real| *real != facts.path && facts.path == Path::new(path))?;
    facts.path.is_absolute().then(|| real.display().to_string())
}

/// The commands that make a file system on an empty disk and mount it, also after a reboot.
fn file_system(disk: &str, place: &str) -> [Change; 4] {
    let shell = |script: String| Change::Run {
        argv: ["sudo", "sh", "-c"].map(str::to_owned).into_iter().chain([script]).collect(),
    };
    [
        shell(format!("test -z \"$(wipefs --no-act /dev/{disk})\" && mkfs.xfs /dev/{disk}")),
        run(&format!("sudo mkdir -p {place}")),
        shell(format!("echo \"UUID=$(blkid -o value -s UUID /dev/{disk}) {place} xfs nofail 0 0\" >> /etc/fstab")),
        run(&format!("sudo mount {place}")),
    ]
}

/// The plan that uses the GPU that is nearest to the disk.
pub(super) fn gpu_near_disk(root: &Root, report: &Report) -> FixPlan {
    let address = nearest_gpu(root, &report.paths);
    let gpu = address.as_ref().and_then(|address| root.nvml().gpus.iter().find(|gpu| gpu.pci_bus_id == *address));
    let uuid = gpu.map_or("NEAREST", |gpu| gpu.uuid.as_str());
    let of_gpu = address.as_ref().map(|address| format!("/sys/bus/pci/devices/{address}/numa_node"));
    let node = of_gpu.and_then(|path| root.read_text(path).ok()?.trim().parse::<u32>().ok()).or_else(|| nearest(root));
    let node = node.map_or_else(|| "N".to_owned(), |node| node.to_string());
    let show = uuid == "NEAREST";
    FixPlan {
        why: "Reads across root ports or sockets work, but more slowly. 'nvidia-smi topo -m' shows the distances: PIX and PXB are near, SYS is far."
            .to_owned(),
        changes: show
            .then(|| run("nvidia-smi topo -m"))
            .into_iter()
            .chain([run(&format!("env CUDA_VISIBLE_DEVICES={uuid} numactl --cpunodebind={node} PROGRAM"))])
            .collect(),
        verify: "gds-top check: pcie-topology; gds-top bench MODEL --target N measures it".to_owned(),
        undo: "start the program as before".to_owned(),
        ..empty(FixId::GpuNearDisk, Needs::User, FixRisk::Low, FixPolicy::Show)
    }
}

fn model(report: &Report) -> String {
    report.verdicts.first().map_or_else(|| "MODEL".to_owned(), |verdict| verdict.path.display().to_string())
}

/// The plan for the log. It creates a missing directory, or shows how to set the path of the log, because only the
/// user's shell can set it.
pub(super) fn log(root: &Root, report: &Report) -> FixPlan {
    let missing = report
        .finding(CheckId::LogLocation)
        .filter(|f| f.status == Status::Fail)
        .and_then(|f| {
            f.facts.iter().find_map(|fact| match fact {
                FindingFact::MissingFolder(folder) => Some(folder),
                _ => None,
            })
        })
        .filter(|folder| folder.starts_with('/') && !folder.contains(char::is_whitespace));
    if let Some(folder) = missing {
        return FixPlan {
            title: "Make the directory of libcufile's log".to_owned(),
            why: format!(
                "logging.dir names {folder}, which does not exist. libcufile then rejects the complete configuration, and every open fails. The directory gets the mode of /tmp (1777), because each program writes a log there."
            ),
            changes: vec![run(&format!("sudo mkdir -p -m 1777 {folder}"))],
            verify: "gds-top check: log-location and lib-open-probe".to_owned(),
            undo_commands: vec![words(&format!("sudo rmdir {folder}"))],
            ..empty(FixId::CufileLog, Needs::Root, FixRisk::Low, FixPolicy::Ask)
        };
    }
    // Other users can create files in the shared directories for temporary files, so none of these is named.
    let home = std::env::var("HOME").ok().filter(|_| root.is_live()).unwrap_or_else(|| "/home/NAME".to_owned());
    FixPlan {
        why: "Only cufile.log has the reasons for a fallback. Without CUFILE_LOGFILE_PATH or logging.dir it is written to the working \
              directory. gds-top sets it for its child processes. For other programs, set it in the shell that starts them. The library does not expand variables in the name."
            .to_owned(),
        changes: vec![Change::Run {
            argv: vec!["export".to_owned(), format!("CUFILE_LOGFILE_PATH={home}/cufile.log")],
        }],
        verify: "the file appears when a program opens cuFile".to_owned(),
        undo: "unset CUFILE_LOGFILE_PATH".to_owned(),
        ..empty(FixId::CufileLog, Needs::User, FixRisk::Low, FixPolicy::Show)
    }
}

/// The NUMA node of the first NVMe disk.
fn nearest(root: &Root) -> Option<u32> {
    let name = root.entries("/sys/class/nvme").ok()?.into_iter().next()?;
    root.read_text(PathBuf::from(format!("/sys/class/nvme/{name}/numa_node"))).ok()?.trim().parse().ok()
}

/// The parts that a container needs for the routes of the examined paths.
struct Needed {
    /// The devices of nvidia-fs, for the route nvfs.
    nvidia_fs: bool,
    /// The devices of RDMA, for the route rdma.
    rdma: bool,
    /// The right to lock memory. Reads of local disks do not need it.
    memlock: bool,
    /// libcuda, which the runtime adds for the capability compute.
    libcuda: bool,
    /// The records of udev.
    udev: bool,
    /// The variables with which Enroot adds libcuda.
    variables: Vec<&'static str>,
    /// The group of the GPU's devices: the container has them, and its user may not open them.
    group: bool,
    /// A file with the keys of P2PDMA, and whether a variable must name it.
    keys: Option<(String, bool)>,
}

impl Needed {
    fn of(root: &Root, report: &Report, has_keys: bool) -> Self {
        let is = |route: Route| report.verdicts.iter().any(|v| v.possible == route || v.route == route);
        let is_loud = |id: CheckId| report.finding(id).is_some_and(|f| matches!(f.status, Status::Fail | Status::Warn));
        let rdma = is(Route::Rdma);
        let capabilities = root.variable("NVIDIA_DRIVER_CAPABILITIES").unwrap_or_default();
        let is_inside = crate::machine::container(root).is_some();
        let has_udev = is_inside && root.entries("/run/udev/data").is_ok_and(|names| !names.is_empty());
        let has_no_gpu = is_inside && root.nvml().gpus.is_empty();
        Self {
            // The host has no nodes if its nvidia-fs is not loaded.
            nvidia_fs: is(Route::Nvfs) && nvidia_fs_loaded(root) != Some(false),
            rdma,
            memlock: rdma || is_loud(CheckId::LimMemlock),
            libcuda: !capabilities.is_empty() && !has_compute(root),
            udev: !has_udev,
            variables: if has_no_gpu { enroot_variables(root) } else { Vec::new() },
            group: is_inside && is_denied(root) && !is_confined(root),
            keys: has_keys.then(|| file_to_mount(root)),
        }
    }

    /// The options of Docker and Podman, each after a space.
    fn options(&self, root: &Root, runtime: &str) -> String {
        let mut out = Vec::new();
        if has_selinux(root) {
            out.push("--security-opt=label=disable".to_owned());
        }
        if self.group {
            out.push(group_option(root, runtime));
        }
        // Without root, Podman cannot exceed the limit of its user, and the container does not start (podman#19319).
        if self.memlock && is_rootless(root) != Some(true) {
            out.push("--ulimit memlock=-1 --cap-add IPC_LOCK".to_owned());
        }
        if self.libcuda {
            out.push("-e NVIDIA_DRIVER_CAPABILITIES=compute,utility".to_owned());
        }
        out.extend(self.udev.then(|| "-v /run/udev:/run/udev:ro".to_owned()));
        out.extend(self.keys_by("-v ", ":ro", "-e "));
        // Each node needs its own --device. The container does not show the nodes of the host, so the usual number is
        // used.
        out.extend((0..16).filter(|_| self.nvidia_fs).map(|n| format!("--device /dev/nvidia-fs{n}")));
        out.extend(self.rdma.then(|| "--device /dev/infiniband".to_owned()));
        out.iter().map(|option| format!(" {option}")).collect()
    }

    /// The option that mounts the file with the keys of P2PDMA, and the one that names it.
    fn keys_by(&self, mount: &str, read_only: &str, variable: &str) -> Option<String> {
        let (path, is_named) = self.keys.as_ref()?;
        let named = if *is_named { format!(" {variable}CUFILE_ENV_PATH_JSON={path}") } else { String::new() };
        Some(format!("{mount}{path}:{path}{read_only}{named}"))
    }

    /// The command that writes the keys of P2PDMA outside the container.
    fn keys_outside(&self, report: &Report, is_pod: bool, namespace: &str) -> Option<Change> {
        let (path, is_named) = self.keys.as_ref()?;
        let keys: Vec<(&str, &str)> = p2pdma_keys(report).into_iter().map(|key| (key, "true")).collect();
        let file: serde_json::Value = serde_json::from_str(&set_keys("{}", &keys).ok()?).ok()?;
        Some(if is_pod {
            run(&format!("kubectl {namespace}create configmap cufile-json --from-literal=cufile.json={file}"))
        } else if *is_named {
            run(&format!(
                "sudo env CUFILE_ENV_PATH_JSON={path} gds-top fix {} --path HOST_FOLDER",
                FixId::CufileP2pdmaKeys
            ))
        } else {
            run(&format!("sudo gds-top fix {} --path HOST_FOLDER", FixId::CufileP2pdmaKeys))
        })
    }

    /// The change of an LXC container: only the parts that it lacks.
    fn lxc(&self, root: &Root, report: &Report) -> Vec<String> {
        let has_no_gpu = report.finding(CheckId::CtrDevices).is_some_and(|found| found.status == Status::Fail);
        let parts = [(Lack::Gpu, has_no_gpu), (Lack::NvidiaFs, self.nvidia_fs), (Lack::Memlock, self.memlock)];
        let mut lacks: Vec<Lack> = parts.into_iter().filter(|(_, lacks)| *lacks).map(|(lack, _)| lack).collect();
        // The last command restarts the container.
        let lacks_something = lxc::commands(root, &lacks).len() > 1;
        let has_udev = root.entries("/run/udev/data").is_ok_and(|names| !names.is_empty());
        if !(has_udev && lacks_something) {
            lacks.push(Lack::Udev);
        }
        lxc::commands(root, &lacks)
    }

    /// The change of a pod: only the parts that it lacks.
    fn pod(&self, root: &Root, report: &Report, namespace: &str) -> String {
        use serde_json::{Map, Value, json};
        let has_gpu = !root.nvml().gpus.is_empty();
        let is_assigned = assigned_gpus(root).is_some();
        let mut spec = Map::new();
        let mut container = Map::new();
        if !has_gpu && is_assigned {
            spec.insert("runtimeClassName".to_owned(), json!("nvidia"));
        } else if report.finding(CheckId::CtrDevices).is_some_and(|found| found.status == Status::Fail)
            && !root.exists("/dev/nvidiactl")
        {
            container.insert("resources".to_owned(), json!({"limits": {"nvidia.com/gpu": 1}}));
        }
        let (mut env, mut volumes, mut mounts): (Vec<Value>, Vec<Value>, Vec<Value>) = Default::default();
        if self.libcuda {
            env.push(json!({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}));
        }
        if let Some((path, is_named)) = &self.keys {
            volumes.push(json!({"name": "cufile-json", "configMap": {"name": "cufile-json"}}));
            mounts.push(json!({"name": "cufile-json", "mountPath": path, "subPath": "cufile.json", "readOnly": true}));
            env.extend(is_named.then(|| json!({"name": "CUFILE_ENV_PATH_JSON", "value": path})));
        }
        let has_udev = root.entries("/run/udev/data").is_ok_and(|names| !names.is_empty());
        let is_empty = spec.is_empty() && container.is_empty() && env.is_empty() && mounts.is_empty();
        if !has_udev || is_empty {
            volumes.push(json!({"name": "udev", "hostPath": {"path": "/run/udev"}}));
            mounts.push(json!({"name": "udev", "mountPath": "/run/udev", "readOnly": true}));
        }
        for (key, list) in [("env", env), ("volumeMounts", mounts)] {
            if !list.is_empty() {
                container.insert(key.to_owned(), Value::Array(list));
            }
        }
        if !volumes.is_empty() {
            spec.insert("volumes".to_owned(), Value::Array(volumes));
        }
        if self.memlock {
            container.insert("securityContext".to_owned(), json!({"capabilities": {"add": ["IPC_LOCK"]}}));
        }
        if !container.is_empty() {
            container.insert("name".to_owned(), json!("CONTAINER"));
            spec.insert("containers".to_owned(), json!([container]));
        }
        let patch = json!({"spec": {"template": {"spec": spec}}});
        format!("kubectl {namespace}patch deployment DEPLOYMENT --patch {patch}")
    }
}

/// Whether NVIDIA's GPU Operator may be changed for this pod. The nodes of these clouds come with their driver, and the
/// operator would install a second one.
fn may_change_operator(root: &Root) -> bool {
    let vendor = root.read_text("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let release = kernel_release(root).unwrap_or_default();
    !["Amazon EC2", "Google"].contains(&vendor.trim())
        && !["-azure", "-aws", "-gcp", "-gke"].iter().any(|cloud| release.contains(cloud))
}

/// The title of a plan for a container that lacks the keys of P2PDMA.
const WITH_KEYS: &str = "Start the container with a file that enables P2PDMA";

/// Makes the links by which systemd knows the devices of GPUs, so that it allows them to containers (libnvidia-container,
/// known issue of `systemctl daemon-reload`).
const DEVICE_LINKS: &str = "sudo nvidia-ctk system create-dev-char-symlinks --create-all";

/// The plan that starts a container with the parts that it lacks.
pub(super) fn container(root: &Root, report: &Report) -> FixPlan {
    let is_with_start = |finding: &Finding| finding.fix == Some(FixId::ContainerDevices);
    // The keys are for these routes only.
    let has_use = |route: Route| matches!(route, Route::P2pdma | Route::C2c);
    let is_useful = report.verdicts.iter().any(|verdict| has_use(verdict.route) || has_use(verdict.possible));
    started(root, report, is_useful && report.finding(CheckId::CfgP2pBoth).is_some_and(is_with_start))
}

/// The plan that starts a container with the keys of P2PDMA and the other parts that it lacks.
pub(super) fn with_keys(root: &Root, report: &Report) -> FixPlan {
    let plan = started(root, report, true);
    FixPlan { id: FixId::CufileP2pdmaKeys, title: WITH_KEYS.to_owned(), ..plan }
}

/// Whether a path is on a file system that was mounted into its container.
fn is_mounted(facts: &PathFacts) -> bool {
    facts.mount_point.as_ref().is_some_and(|point| point.parent().is_some())
}

fn started(root: &Root, report: &Report, has_keys: bool) -> FixPlan {
    let found = crate::machine::container(root).map(|container| container.runtime);
    let needed = Needed::of(root, report, has_keys);
    // The directory of the host is not known inside the container.
    let point =
        report.paths.iter().filter_map(|facts| facts.mount_point.as_ref()).find(|point| point.parent().is_some());
    let point = point.map_or_else(|| "/data".to_owned(), |point| point.display().to_string());
    // The present options of the start mount a directory that the container has already.
    let has_folder = found.is_some() && !report.paths.is_empty() && report.paths.iter().all(is_mounted);
    let folder = (!has_folder).then(|| format!("HOST_FOLDER:{point}"));
    let bind = |option: &str| folder.as_ref().map_or_else(String::new, |folder| format!(" {option}{folder}"));
    let options = |runtime: &str| format!("{}{}", needed.options(root, runtime), bind("-v "));
    let docker = format!("{} run --gpus all{} IMAGE", runtime_command(root, "docker"), options("docker"));
    let podman =
        format!("{} run --device nvidia.com/gpu=all{} IMAGE", runtime_command(root, "podman"), options("podman"));
    let cdi = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml";
    let gds = "sudo nvidia-ctk cdi generate --mode=gds --output=/etc/cdi/nvidia-gds.yaml";
    let keys =
        |mount: &str, read_only: &str, variable: &str| needed.keys_by(mount, read_only, variable).unwrap_or_default();
    let nerdctl = format!(
        "nerdctl run --device nvidia.com/gpu=all --device nvidia.com/gds=all -v /run/udev:/run/udev:ro{}{} IMAGE",
        keys(" -v ", ":ro", "-e "),
        bind("-v ")
    );
    let mounts = [needed.udev.then(|| "/run/udev:/run/udev:ro".to_owned()), folder.clone()];
    let mounts = mounts.into_iter().flatten().collect::<Vec<_>>().join(",") + &keys(",", ":ro", "--export=ALL,");
    let set = if needed.variables.is_empty() { String::new() } else { format!("env {} ", needed.variables.join(" ")) };
    let pyxis = match mounts.trim_start_matches(',') {
        "" => format!("{set}srun PROGRAM"),
        mounts => format!("{set}srun --container-mounts={mounts} PROGRAM"),
    };
    let variables: String = needed.variables.iter().map(|variable| format!(" --env {variable}")).collect();
    let udev = if needed.udev { " -m /run/udev:/run/udev:none:x-create=dir,rbind,ro:0:0" } else { "" };
    let enroot =
        format!("enroot start{udev}{}{variables} IMAGE", keys(" -m ", ":none:x-create=file,bind,ro:0:0", "-e "));
    let apptainer = format!(
        "apptainer exec --nv{}{}{} IMAGE PROGRAM",
        if needed.udev { " --bind /run/udev:/run/udev:ro" } else { "" },
        keys(" --bind ", ":ro", "--env "),
        bind("--bind ")
    );
    let of_lxc = needed.lxc(root, report);
    let nspawn = format!("sudo systemd-nspawn --bind-ro=/run/udev{} -D FOLDER", bind("--bind="));
    let helm = "helm upgrade --install gpu-operator nvidia/gpu-operator --namespace gpu-operator --reuse-values --set gds.enabled=true --set driver.kernelModuleType=open";
    let namespace = pod_namespace(root).map(|name| format!("-n {name} ")).unwrap_or_default();
    let pod = needed.pod(root, report, &namespace);
    let own =
        root.read_text("/proc/sys/kernel/hostname").map_or_else(|_| "POD".to_owned(), |name| name.trim().to_owned());
    let owner = format!(
        "kubectl {namespace}get pod {own} -o jsonpath={{.metadata.ownerReferences[0].kind}}/{{.metadata.ownerReferences[0].name}}:{{.spec.containers[*].name}}"
    );
    // A container that lacks nothing else gets its devices again by a restart.
    let is_cut_off = found.is_some() && is_cut_off(root) && !is_confined(root);
    let restart = found
        .as_deref()
        .filter(|name| is_cut_off && matches!(*name, "docker" | "podman") && options(name).is_empty())
        .map(|name| format!("{} restart NAME", runtime_command(root, name)));
    let lines: Vec<&str> = match found.as_deref() {
        _ if restart.is_some() => [DEVICE_LINKS].into_iter().chain(restart.as_deref()).collect(),
        Some("docker") => vec![&docker],
        // The container has the devices, so the host has the specification. It is not written again for other parts.
        Some("podman") if needed.group || !root.nvml().gpus.is_empty() => vec![&podman],
        Some("podman") => vec![cdi, &podman],
        Some("enroot") => vec![&enroot],
        Some("pyxis") => vec![&pyxis],
        Some("apptainer") => vec![&apptainer],
        Some("lxc") => of_lxc.iter().map(String::as_str).collect(),
        Some("nspawn") => vec![&nspawn],
        // The operator restarts the drivers of all nodes, so it is changed only for the route that needs it.
        Some("kubernetes") if needed.nvidia_fs && may_change_operator(root) => vec![&owner, helm, &pod],
        Some("kubernetes") => vec![&owner, &pod],
        _ => vec![&docker, cdi, &podman, gds, &nerdctl, &enroot, &pyxis, &apptainer, &pod],
    };
    let which = match found.as_deref() {
        Some("docker") => "This is a container of Docker",
        Some("podman") => "This is a container of Podman",
        Some("enroot") => "This is a container of Enroot",
        Some("pyxis") => "This is a job of Slurm in a container of Enroot (pyxis)",
        Some("kubernetes") => "This is a pod of Kubernetes",
        Some("lxc") => "This is a container of LXC: run the commands on its host",
        Some("nspawn") => "This is a container of systemd-nspawn",
        Some("apptainer") => "This is a container of Apptainer, which has the host's nodes in /dev",
        _ => {
            "The commands are for Docker, Podman, containerd with CDI, Enroot, Slurm with pyxis, Apptainer and Kubernetes"
        }
    };
    let device = match found.as_deref() {
        Some("enroot" | "pyxis" | "apptainer" | "kubernetes" | "nspawn") => "",
        Some("lxc") if !lxc::is_on_proxmox(root) => {
            " `incus list` shows NAME. If the host has no /dev/nvidia-uvm, run `sudo nvidia-modprobe -u -c 0` there first."
        }
        Some("lxc") => {
            " `sudo pct list` shows ID, and `sudo pct config ID` must not list these numbers yet. If the host has no /dev/nvidia-uvm, run `sudo nvidia-modprobe -u -c 0` there first."
        }
        _ if !needed.nvidia_fs => "",
        _ => " Omit --device for nodes that the host does not have.",
    };
    let rdma = match found.as_deref() {
        Some("enroot" | "pyxis") => " File systems over RDMA also need MELLANOX_VISIBLE_DEVICES=all.",
        _ => "",
    };
    let folder = match found.as_deref() {
        Some("lxc" | "enroot") => "",
        Some("kubernetes") => {
            " The first command prints the owner of the pod, often a ReplicaSet with the name of its deployment and a suffix, and the names of its containers: put these for DEPLOYMENT and CONTAINER. For a StatefulSet use its kind in place of deployment. A pod without an owner, or of a Job, must be created again with these parts."
        }
        _ if has_folder && needed.keys.is_none() => " Keep the other options of its start.",
        _ => " Replace HOST_FOLDER by the directory of the host with the model. Keep the other options of its start.",
    };
    let group = if needed.group && lines.iter().any(|line| line.contains("--group-add GID")) {
        " GID is the group that `stat -c %g /dev/nvidiactl` shows on the host."
    } else if needed.group && lines.iter().any(|line| line.contains("keep-groups")) {
        " The user who starts it must be in the group of /dev/nvidia* on the host."
    } else {
        ""
    };
    let other = found.as_deref().map_or("", |name| other_command(root, name));
    let is_pod = found.as_deref() == Some("kubernetes");
    let outside = needed.keys_outside(report, is_pod, &namespace);
    let file = match &needed.keys {
        None => "",
        Some(_) if is_pod => " A change of cufile.json inside the pod is lost with it.",
        Some(_) => {
            " Run gds-top on the host: it writes the file that the container gets. A change inside the container is lost with it."
        }
    };
    let is_resolved = |finding: &&Finding| {
        matches!(finding.status, Status::Fail | Status::Warn)
            && (finding.fix == Some(FixId::ContainerDevices) || (has_keys && finding.id == CheckId::CfgP2pBoth))
    };
    let resolved: Vec<CheckId> = report.findings.iter().filter(is_resolved).map(|finding| finding.id).collect();
    let is_keys_only = resolved == [CheckId::CfgP2pBoth];
    let lack = if is_cut_off {
        "The host no longer allows this container its GPUs, as after systemctl daemon-reload."
    } else if is_keys_only {
        "The container lacks a file with the keys of P2PDMA."
    } else {
        "The container lacks parts of its host."
    };
    let plan = empty(FixId::ContainerDevices, Needs::User, FixRisk::Low, FixPolicy::Show);
    let verify =
        if resolved.is_empty() { "udev-database, ctr-devices and lim-memlock".to_owned() } else { names(&resolved) };
    let plan = FixPlan { verify: format!("gds-top check in the container: {verify}"), ..plan };
    if restart.is_some() {
        return FixPlan {
            title: "Restart the container, so that it has its GPUs again".to_owned(),
            why: format!(
                "{lack} {which}. Run both commands on the host. The first one makes links in /dev/char, with which the container keeps its GPUs at the next daemon-reload. They are lost at a boot of the host; CDI needs none (--device nvidia.com/gpu=all).{other}"
            ),
            changes: lines.into_iter().map(run).collect(),
            undo: "the links in /dev/char are lost at a boot of the host".to_owned(),
            ..plan
        };
    }
    FixPlan {
        title: if is_keys_only { WITH_KEYS.to_owned() } else { plan.title.clone() },
        why: format!("{lack} {which}.{other}{device}{folder}{group}{file}{rdma}"),
        changes: outside.into_iter().chain(lines.into_iter().map(run)).collect(),
        undo: "start it as before".to_owned(),
        ..plan
    }
}
