//! How to give a container a missing part of the host, for each runtime.

use crate::machine::{Container, Denial, Root, Unread};
use crate::text::quoted;

/// A part of the host that a container lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The records of udev.
    Udev,
    /// The devices of the GPU.
    Gpu,
    /// The devices of nvidia-fs.
    NvidiaFs,
    /// The devices of RDMA.
    Rdma,
    /// A volume on a real file system.
    Volume,
    /// The IPC namespace of the host.
    Ipc,
    /// A sufficient limit on locked memory.
    Memlock,
}

/// How to start a pod by the NVIDIA runtime, which adds the devices and libraries of its GPUs (k3s#9702,
/// k8s-device-plugin#604).
pub(crate) const RUNTIME_CLASS: &str = "Set runtimeClassName: nvidia in the pod's spec, and create the pod again. `kubectl get runtimeclass` must list it. Or make nvidia the default runtime of the node (k3s: --default-runtime nvidia).";

/// The command that lifts the limit on locked memory of a systemd unit.
macro_rules! lift_memlock {
    ($unit:literal) => {
        concat!(
            "sudo mkdir -p /etc/systemd/system/",
            $unit,
            ".service.d && printf '[Service]\\nLimitMEMLOCK=infinity\\n' | sudo tee /etc/systemd/system/",
            $unit,
            ".service.d/memlock.conf && sudo systemctl daemon-reload && sudo systemctl restart ",
            $unit
        )
    };
}

/// The command that lifts the limit on locked memory of a systemd service.
pub(crate) fn lift_memlock(unit: &str) -> String {
    lift_memlock!("UNIT").replace("UNIT", &quoted(unit.trim_end_matches(".service")))
}

/// The advice for a container of this runtime.
pub(crate) fn bring(container: &Container, lack: Lack) -> &'static str {
    match container.runtime.as_str() {
        "kubernetes" => match lack {
            Lack::Udev => "Mount the node's /run/udev into the pod, read-only (hostPath volume).",
            Lack::Gpu => "Request a GPU for the pod: resources.limits nvidia.com/gpu.",
            Lack::NvidiaFs => {
                "Set gds.enabled in the GPU Operator, or mount /dev/nvidia-fs0 to /dev/nvidia-fs15 (hostPath, privileged pod)."
            }
            Lack::Rdma => "Request an RDMA resource for the pod (RDMA device plugin), and add the capability IPC_LOCK.",
            Lack::Volume => "Keep models on a volume: hostPath, or a local PersistentVolume on ext4 or xfs.",
            Lack::Ipc => "Set hostIPC: true in the pod to watch programs outside it.",
            Lack::Memlock => {
                concat!(
                    "Add the capability IPC_LOCK to the container's securityContext. If it does not run as root, run `",
                    lift_memlock!("containerd"),
                    "` on the node, or the same for crio. Then restart the pod."
                )
            }
        },
        "apptainer" => match lack {
            Lack::Udev => "Start the container with --bind /run/udev:/run/udev:ro.",
            Lack::Gpu => "Start the container with --nv.",
            Lack::NvidiaFs => "Start the container without --contain, so that it has the host's /dev.",
            Lack::Rdma => "Start the container without --contain, so that it has /dev/infiniband.",
            Lack::Volume => "Keep models on a bind-mounted directory: --bind /data:/data.",
            Lack::Ipc => "Start the container without --ipc to watch programs outside it.",
            Lack::Memlock => "Raise the limit on the host: the container has the limit of its user.",
        },
        // Jobs of Slurm with the plugin pyxis, which starts Enroot.
        "pyxis" => match lack {
            Lack::Udev => {
                "Start the job with `srun --container-mounts=/run/udev:/run/udev:ro`. For all jobs, add `/run/udev /run/udev none x-create=dir,bind,ro` to /etc/enroot/mounts.d/20-udev.fstab on the nodes."
            }
            Lack::Gpu => "Request GPUs for the job: srun --gpus.",
            Lack::NvidiaFs => {
                "Start the job with `srun --container-mounts=/dev/nvidia-fs0:/dev/nvidia-fs0`, and the same for each of these devices, separated by commas."
            }
            Lack::Rdma => "Start the job with MELLANOX_VISIBLE_DEVICES=all in its environment.",
            Lack::Volume => "Keep models on a mounted directory: srun --container-mounts=/data:/data.",
            Lack::Ipc => "Enroot shares the IPC namespace of the host; start gds-top on the node, in the job.",
            Lack::Memlock => {
                concat!(
                    "On the nodes, set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf. Then run `",
                    lift_memlock!("slurmd"),
                    "` there, and start a new job."
                )
            }
        },
        "enroot" => match lack {
            Lack::Udev => "Start the container with --mount /run/udev:/run/udev:none:x-create=dir,bind,ro.",
            Lack::Gpu => "Start the container with NVIDIA_VISIBLE_DEVICES=all.",
            Lack::NvidiaFs => {
                "Start the container with --mount /dev/nvidia-fs0, and the same for each of these devices."
            }
            Lack::Rdma => "Start the container with MELLANOX_VISIBLE_DEVICES=all.",
            Lack::Volume => "Keep models on a mounted directory: --mount /data:/data.",
            Lack::Ipc => "Enroot shares the IPC namespace of the host; start gds-top on the host.",
            Lack::Memlock => "Raise the limit on the host: the container has the limit of its user.",
        },
        "podman" if lack == Lack::Memlock => {
            "Create the container again with --ulimit memlock=-1 as root: without root, podman cannot exceed the limit of its user."
        }
        "podman" if lack == Lack::Gpu => {
            "Create the container again with --device nvidia.com/gpu=all. Before, run `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` on the host."
        }
        "lxc" => match lack {
            Lack::Udev => {
                "On the host, add to the container's configuration: lxc.mount.entry = /run/udev run/udev none bind,ro,create=dir. Then restart the container."
            }
            Lack::Gpu => "On the host, give the container the GPU's nodes, then restart it.",
            Lack::NvidiaFs => "On the host, give the container /dev/nvidia-fs0 to /dev/nvidia-fs15, then restart it.",
            Lack::Rdma => "On the host, give the container /dev/infiniband, then restart it.",
            Lack::Volume => "Keep models on a mounted directory: lxc.mount.entry = /data data none bind,create=dir.",
            Lack::Ipc => "Start gds-top on the host to watch programs outside the container.",
            Lack::Memlock => "On the host, set lxc.prlimit.memlock = unlimited for the container, then restart it.",
        },
        "nspawn" => match lack {
            Lack::Udev => "Start the container with --bind-ro=/run/udev.",
            Lack::Gpu => {
                "Start the container with --bind=/dev/nvidia0 --bind=/dev/nvidiactl --bind=/dev/nvidia-uvm, and allow them with DeviceAllow=."
            }
            Lack::NvidiaFs => {
                "Start the container with --bind=/dev/nvidia-fs0, and the same for each of these devices."
            }
            Lack::Rdma => "Start the container with --bind=/dev/infiniband.",
            Lack::Volume => "Keep models on a mounted directory: --bind=/data.",
            Lack::Ipc => "Start gds-top on the host to watch programs outside the container.",
            Lack::Memlock => "Start the container with --rlimit=MEMLOCK=infinity.",
        },
        _ => match lack {
            Lack::Udev => "Create the container again with -v /run/udev:/run/udev:ro.",
            Lack::Gpu => "Create the container again with --gpus all (nvidia-container-toolkit).",
            Lack::NvidiaFs => {
                "Create the container again with --device /dev/nvidia-fs0, and the same for each of these devices."
            }
            Lack::Rdma => "Create the container again with --device /dev/infiniband and --cap-add IPC_LOCK.",
            Lack::Volume => "Keep models on a volume: -v /data:/data.",
            Lack::Ipc => "Create the container again with --ipc=host to watch programs outside it.",
            Lack::Memlock => "Create the container again with --ulimit memlock=-1.",
        },
    }
}

/// How to give a container a file of its host at the same path.
pub(crate) fn bring_file(container: &Container, path: &str) -> String {
    let file = quoted(path);
    let start = match container.runtime.as_str() {
        "kubernetes" => {
            return format!(
                "The pod lacks the file. Put it into a ConfigMap and mount it with volumeMounts at {path} (subPath), or correct the path."
            );
        }
        "lxc" => {
            return format!(
                "The container lacks the file. On the host, add lxc.mount.entry = {path} {} none bind,ro,create=file, then restart it.",
                path.trim_start_matches('/')
            );
        }
        "apptainer" => format!("--bind {file}:{file}:ro"),
        "pyxis" => format!("srun --container-mounts={file}:{file}:ro"),
        "enroot" => format!("--mount {file}:{file}:none:x-create=file,bind,ro"),
        "nspawn" => format!("--bind-ro={file}"),
        _ => format!("-v {file}:{file}:ro"),
    };
    // Docker and Podman start a container again with its earlier options.
    let verb = match container.runtime.as_str() {
        "docker" | "podman" | "container" => "create the container again",
        _ => "start the container",
    };
    format!(
        "The container lacks the file. If the host has it, {verb} with `{start}`. Or copy it into a mounted directory and name that path."
    )
}

/// How to give a container the keys of P2PDMA in the file `path`: its other files are lost with it.
pub(crate) fn bring_keys(container: &Container, path: &str, is_named: bool) -> String {
    let file = quoted(path);
    let variable = |option: &str| if is_named { format!("{option}CUFILE_ENV_PATH_JSON={file}") } else { String::new() };
    let options = match container.runtime.as_str() {
        "kubernetes" => {
            let set = if is_named { ", and name it in CUFILE_ENV_PATH_JSON" } else { "" };
            return format!("Mount a ConfigMap with the keys of P2PDMA into the pod at {path} (subPath){set}.");
        }
        "apptainer" => format!("--bind {file}:{file}:ro{}", variable(" --env ")),
        "pyxis" => format!("srun --container-mounts={file}:{file}:ro{}", variable(" --export=ALL,")),
        "enroot" => format!("--mount {file}:{file}:none:x-create=file,bind,ro{}", variable(" --env ")),
        _ => format!("-v {file}:{file}:ro{}", variable(" -e ")),
    };
    format!("Start it with a file of the host that has the keys of P2PDMA: {options}.")
}

/// The advice for several parts at once: a container is started once with all of them. A volume has the place `point`. The
/// files there are copied first, because the volume hides those of the container, and its removal deletes them.
pub(crate) fn bring_all(root: &Root, container: &Container, lacks: &[Lack], point: &str) -> String {
    let name = point.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let volume = format!("-v {}", quoted(&format!("HOST_FOLDER/{name}:{point}")));
    let option = |lack: &Lack| match lack {
        Lack::Udev => Some("-v /run/udev:/run/udev:ro"),
        Lack::Gpu if container.runtime == "podman" => Some("--device nvidia.com/gpu=all"),
        Lack::Gpu => Some("--gpus all"),
        Lack::NvidiaFs => Some("$(printf -- '--device=%s ' /dev/nvidia-fs*)"),
        Lack::Volume => Some(volume.as_str()),
        Lack::Rdma | Lack::Ipc | Lack::Memlock => None,
    };
    let options: Option<Vec<&str>> = lacks.iter().map(option).collect();
    match options.filter(|_| matches!(container.runtime.as_str(), "docker" | "podman" | "container")) {
        Some(options) if lacks.contains(&Lack::Volume) => {
            let copy = match container.runtime.as_str() {
                "container" => String::new(),
                name => format!(
                    ": `{} cp {} HOST_FOLDER/`",
                    runtime_command(root, name),
                    quoted(&format!("CONTAINER:{point}"))
                ),
            };
            format!(
                "Keep the model on a volume with ext4 or xfs, not in the container's root file system. First copy it to a directory of the host on a local NVMe disk{copy}. Then create the container again with `{}`.{}",
                options.join(" "),
                other_command(root, &container.runtime)
            )
        }
        Some(options) => format!("Create the container again with {}.", options.join(" ")),
        None => {
            let copy = "First copy the model out of the container, to ext4 or xfs on a local NVMe disk of the host.";
            let first = lacks.contains(&Lack::Volume).then_some(copy);
            let parts = first.into_iter().chain(lacks.iter().map(|lack| bring(container, *lack)));
            parts.collect::<Vec<_>>().join(" ")
        }
    }
}

/// How to give a container its GPUs again after its device cgroup was rewritten, and how to keep them. `systemctl
/// daemon-reload` does this to containers whose devices systemd does not know (nvidia-container-toolkit#48).
pub(crate) fn regain(container: &Container) -> &'static str {
    match container.runtime.as_str() {
        "kubernetes" => {
            "Restart the pod. To keep GPUs, use CDI (cdi.enabled in the GPU Operator), or run `sudo nvidia-ctk system create-dev-char-symlinks --create-all` on the node."
        }
        "docker" | "podman" | "container" => {
            "Restart the container. To keep GPUs after `systemctl daemon-reload`, use CDI (--device nvidia.com/gpu=all), or run `sudo nvidia-ctk system create-dev-char-symlinks --create-all` on the host."
        }
        "lxc" => {
            "On the host, allow character devices 195 and the number of nvidia-uvm in /proc/devices (lxc.cgroup2.devices.allow), then restart the container."
        }
        _ => "Allow /dev/nvidia* in the device cgroup of the container, then restart it.",
    }
}

/// NVML_ERROR_NO_PERMISSION.
pub(crate) const NO_PERMISSION: u32 = 4;

/// Whether a container has the devices of the GPU, and its user may not open them.
pub(crate) fn is_denied(root: &Root) -> bool {
    const CONTROL: &str = "/dev/nvidiactl";
    let is_closed = |path: &str| matches!(root.opens(path), Err(Unread::Denied(Denial::Access)));
    [CONTROL, "/dev/nvidia-uvm"].into_iter().any(is_closed)
        || (root.nvml().error_code == Some(NO_PERMISSION) && root.exists(CONTROL))
}

/// Whether the device cgroup of a container denies the devices of the GPU, which the container has.
pub(crate) fn is_cut_off(root: &Root) -> bool {
    let is_closed = |path: &str| matches!(root.opens(path), Err(Unread::Denied(Denial::NotPermitted)));
    ["/dev/nvidiactl", "/dev/nvidia-uvm"].into_iter().any(is_closed)
}

/// Whether SELinux may deny devices to this container. Runtimes hide its files in /sys from containers.
pub(crate) fn has_selinux(root: &Root) -> bool {
    let is_on = root.read_text("/sys/fs/selinux/enforce").ok().map(|text| text.trim() == "1");
    let is_labelled = || root.read_text("/proc/self/attr/current").is_ok_and(|label| label.contains(":container_"));
    is_on.unwrap_or_else(is_labelled)
}

/// Whether Podman runs this container without root. `None` if it is not known: Podman writes it for privileged containers.
pub(crate) fn is_rootless(root: &Root) -> Option<bool> {
    root.read_text("/run/.containerenv").ok()?.lines().find_map(|line| match line.trim() {
        "rootless=1" => Some(true),
        "rootless=0" => Some(false),
        _ => None,
    })
}

/// Whether root of this container is another user on the host, as with a daemon of Docker that a user started. A daemon of
/// root with userns-remap does this too.
fn is_mapped(root: &Root) -> bool {
    let map = root.read_text("/proc/self/uid_map").unwrap_or_default();
    let first =
        map.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|words| words.first() == Some(&"0"));
    first.is_some_and(|words| words.get(1).is_some_and(|outside| *outside != "0"))
}

/// The command of a container runtime on the host. Root can always use the daemon of the system, but a daemon of Docker and
/// a Podman of root have other images and containers than those of a user.
pub(crate) fn runtime_command(root: &Root, runtime: &str) -> String {
    let is_of_user = match runtime {
        "docker" => is_mapped(root),
        "podman" => is_rootless(root) != Some(false),
        _ => false,
    };
    if is_of_user { runtime.to_owned() } else { format!("sudo {runtime}") }
}

/// The other possible command, as a sentence that starts with a space: many containers do not show who started them.
pub(crate) fn other_command(root: &Root, runtime: &str) -> &'static str {
    match runtime {
        "podman" if is_rootless(root).is_none() => " If root started the container, run podman as root.",
        "docker" if is_mapped(root) => " If root started the container, run docker as root.",
        _ => "",
    }
}

/// The option of Docker and Podman that gives the user of a container the group of the GPU's devices on the host
/// (nvidia-container-toolkit#210, #580).
pub(crate) fn group_option(root: &Root, runtime: &str) -> String {
    // Without root, Podman cannot add groups of the host, but it can keep those of its user.
    if runtime == "podman" && is_rootless(root) != Some(false) {
        return "--group-add keep-groups".to_owned();
    }
    let params = root.read_text("/proc/driver/nvidia/params").unwrap_or_default();
    let group = params.lines().find_map(|line| line.strip_prefix("DeviceFileGID:")).map(str::trim);
    format!("--group-add {}", group.filter(|group| !matches!(*group, "" | "0")).unwrap_or("GID"))
}

/// How to let the user of a container open the devices of the GPU, which their mode denies.
pub(crate) fn permit(root: &Root, container: &Container) -> String {
    let with_selinux = |then: &str| if has_selinux(root) { then.to_owned() } else { String::new() };
    let option = group_option(root, &container.runtime);
    match container.runtime.as_str() {
        "kubernetes" => {
            "Add the group of /dev/nvidia* on the node to supplementalGroups of the pod.".to_owned()
                + &with_selinux(" Set seLinuxOptions.type to spc_t.")
        }
        "lxc" | "nspawn" => {
            "On the host, give /dev/nvidia* the mode 0666, or map their group into the container.".to_owned()
        }
        _ => {
            let label = with_selinux(" --security-opt label=disable");
            let who = if option.ends_with("keep-groups") { " as a user in the group of /dev/nvidia*" } else { "" };
            let group = if option.ends_with("GID") {
                " GID is the group that `stat -c %g /dev/nvidiactl` shows on the host."
            } else {
                ""
            };
            format!("Create the container again with {option}{label}{who}.{group}")
        }
    }
}

/// Whether NVIDIA_DRIVER_CAPABILITIES asks for the libraries of CUDA.
pub(crate) fn has_compute(root: &Root) -> bool {
    let value = root.variable("NVIDIA_DRIVER_CAPABILITIES").unwrap_or_default();
    value.split(',').any(|word| matches!(word.trim(), "compute" | "all"))
}

/// The variables that a container of Enroot lacks for libcuda. Without NVIDIA_VISIBLE_DEVICES its hook 98-nvidia.sh does
/// nothing, and without NVIDIA_DRIVER_CAPABILITIES it adds only utilities.
pub(crate) fn enroot_variables(root: &Root) -> Vec<&'static str> {
    let devices = root.variable("NVIDIA_VISIBLE_DEVICES").unwrap_or_default();
    let has_devices = !matches!(devices.trim(), "" | "void");
    [("NVIDIA_VISIBLE_DEVICES=all", has_devices), ("NVIDIA_DRIVER_CAPABILITIES=compute,utility", has_compute(root))]
        .into_iter()
        .filter_map(|(variable, is_set)| (!is_set).then_some(variable))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn enroot_gets_the_variables_that_it_lacks() {
        for (environment, wanted) in [
            ("{}", &["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"][..]),
            (
                r#"{"NVIDIA_VISIBLE_DEVICES": "void", "NVIDIA_DRIVER_CAPABILITIES": "all"}"#,
                &["NVIDIA_VISIBLE_DEVICES=all"],
            ),
            (r#"{"NVIDIA_VISIBLE_DEVICES": "0"}"#, &["NVIDIA_DRIVER_CAPABILITIES=compute,utility"]),
            (r#"{"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}"#, &[]),
        ] {
            let variables = with(&[("environment.json", environment)], enroot_variables);
            assert_eq!(variables, wanted, "{environment}");
        }
    }

    #[test]
    fn options_of_docker_and_podman_need_a_new_container() {
        for runtime in ["docker", "podman", "container"] {
            let container = Container { runtime: runtime.to_owned(), source: String::new(), text: String::new() };
            for lack in [Lack::Udev, Lack::Gpu, Lack::NvidiaFs, Lack::Rdma, Lack::Ipc, Lack::Memlock] {
                let text = bring(&container, lack);
                assert!(text.starts_with("Create the container again with "), "{runtime}: {text}");
            }
            assert!(
                bring_file(&container, "/etc/a.json").contains("create the container again with `-v "),
                "{runtime}"
            );
        }
    }

    #[test]
    fn a_model_is_copied_before_a_volume_hides_it() {
        const LACKS: [Lack; 2] = [Lack::Volume, Lack::Udev];
        for (runtime, copy, volume) in [
            (
                "docker",
                "`sudo docker cp CONTAINER:/opt/models HOST_FOLDER/`",
                "`-v HOST_FOLDER/models:/opt/models -v /run/udev:/run/udev:ro`",
            ),
            ("podman", "`podman cp CONTAINER:/opt/models HOST_FOLDER/", "`-v HOST_FOLDER/models:/opt/models "),
            ("container", "First copy it to a directory of the host", "`-v HOST_FOLDER/models:/opt/models "),
            ("kubernetes", "First copy the model out of the container", "hostPath"),
        ] {
            let container = Container { runtime: runtime.to_owned(), source: String::new(), text: String::new() };
            let text = with(&[], |root| bring_all(root, &container, &LACKS, "/opt/models"));
            let places = (text.find(copy), text.find(volume));
            assert!(places.0.is_some() && places.0 < places.1, "{runtime}: {text}");
        }
    }

    #[test]
    fn root_runs_docker_and_its_own_podman_and_an_unknown_owner_has_both_commands() {
        const FILE: &str = "files/run/.containerenv";
        const MAP: &str = "files/proc/self/uid_map";
        for (runtime, files, command, has_other) in [
            ("podman", &[(FILE, "rootless=0\n")][..], "sudo podman", false),
            ("docker", &[], "sudo docker", false),
            ("docker", &[(MAP, "         0          0 4294967295\n")], "sudo docker", false),
            (
                "docker",
                &[(MAP, "         0       1000          1\n         1     100000      65536\n")],
                "docker",
                true,
            ),
            ("podman", &[(FILE, "rootless=1\n")], "podman", false),
            ("podman", &[(FILE, "engine=\"podman-5.4\"\n")], "podman", true),
        ] {
            let found = with(files, |root| (runtime_command(root, runtime), !other_command(root, runtime).is_empty()));
            assert_eq!(found, (command.to_owned(), has_other), "{runtime} {files:?}");
            let container = Container { runtime: runtime.to_owned(), source: String::new(), text: String::new() };
            let advice = with(files, |root| bring_all(root, &container, &[Lack::Volume], "/opt/models"));
            assert!(advice.contains(&format!("`{command} cp ")), "{advice}");
            assert_eq!(advice.contains(&format!("run {runtime} as root")), has_other, "{advice}");
        }
    }

    #[test]
    fn the_group_of_the_devices_is_known_or_kept() {
        const PARAMS: &str = "files/proc/driver/nvidia/params";
        for (runtime, files, wanted) in [
            ("docker", &[(PARAMS, "DeviceFileGID: 44\n")][..], "--group-add 44"),
            ("docker", &[(PARAMS, "DeviceFileGID: 0\n")], "--group-add GID"),
            ("podman", &[(PARAMS, "DeviceFileGID: 44\n")], "--group-add keep-groups"),
            (
                "podman",
                &[(PARAMS, "DeviceFileGID: 44\n"), ("files/run/.containerenv", "rootless=0\n")],
                "--group-add 44",
            ),
        ] {
            let option = with(files, |root| group_option(root, runtime));
            assert_eq!(option, wanted, "{runtime} {files:?}");
        }
    }

    /// The answer for a captured machine with these files.
    fn with<T>(files: &[(&str, &str)], ask: impl FnOnce(&Root) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let capture = (
            "capture.json",
            r#"{"schema_version": 1, "tool": "gds-top", "about": "", "taken_at": "", "euid": 0, "paths": [], "redacted": []}"#,
        );
        for (path, text) in files.iter().chain([&capture]) {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        ask(&Root::folder(folder.path()).unwrap())
    }
}
