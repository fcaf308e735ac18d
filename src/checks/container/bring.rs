//! How to give a container a missing part of the host, for each runtime.

use crate::machine::Container;

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
            Lack::Memlock => "Add the capability IPC_LOCK to the container's securityContext.",
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
        _ => match lack {
            Lack::Udev => "Start the container with -v /run/udev:/run/udev:ro.",
            Lack::Gpu => "Start the container with --gpus all (nvidia-container-toolkit).",
            Lack::NvidiaFs => {
                "Start the container with --device /dev/nvidia-fs0, and the same for each of these devices."
            }
            Lack::Rdma => "Start the container with --device /dev/infiniband and --cap-add IPC_LOCK.",
            Lack::Volume => "Keep models on a volume: -v /data:/data.",
            Lack::Ipc => "Start the container with --ipc=host to watch programs outside it.",
            Lack::Memlock => "Start the container with --ulimit memlock=-1.",
        },
    }
}
