//! A PCI bus without a GPU: that of a machine, of a container's host, of a Jetson, or of the virtual machine of Docker
//! Desktop.

use crate::checks::advice::Advice;
use crate::checks::container::bring::{Lack, runtime_command};
use crate::checks::container::lxc::given;
use crate::checks::context::Context;
use crate::checks::guest;
use crate::checks::judged::{EVERY, Judged};
use crate::core::CheckId;
use crate::machine;
use crate::text::quoted;

const ID: CheckId = CheckId::GpuPresent;

/// The commands that need no GPU.
const STILL_WORKS: &str =
    "Here you can write a model with `gds-top make-model` and load it into host memory with `gds-top bench`.";

/// The files of a Jetson (JetPack). Its GPU is not a PCI device, and NVML does not list it in all releases.
const JETSON: [&str; 2] = ["/etc/nv_tegra_release", "/sys/module/nvgpu"];

/// The finding for a bus without a GPU.
pub(super) fn absent(ctx: &Context<'_>) -> Judged {
    if let Some((source, text)) = docker_desktop(ctx) {
        let path =
            ctx.subjects.first().map_or_else(|| "/models".to_owned(), |subject| subject.path.display().to_string());
        return Judged::lack(ID, "this container runs in the virtual machine of Docker Desktop, which has no GPU")
            .found(source, text)
            .never(EVERY)
            .advice(
                Advice::from("On Linux, install Docker Engine, the NVIDIA driver and nvidia-container-toolkit. Then run ")
                    .command("docker context use default && sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker")
                    .text(". Start the container there: ")
                    .command(format!(
                        "{} run --gpus all -v /run/udev:/run/udev:ro -v MODELS:{}:ro IMAGE",
                        runtime_command(ctx.root, "docker"),
                        quoted(&path)
                    )),
            );
    }
    if let Some(path) = JETSON.into_iter().find(|path| ctx.root.exists(path)) {
        return Judged::lack(ID, "the integrated GPU of this Jetson has no GPUDirect RDMA, so no direct route")
            .found(path, "exists")
            .never(EVERY)
            .advice("Use a loader without cuFile: this GPU shares host memory, so a direct route saves no copy.");
    }
    if let Some(container) = machine::container(ctx.root) {
        return Judged::lack(ID, "this container has no NVIDIA GPU").never(EVERY).advice(format!(
            "Run `nvidia-smi` on the host. If it lists no GPU, choose another host. Otherwise: {}",
            given(ctx.root, &container, &[Lack::Gpu])
        ));
    }
    let (summary, elsewhere) = if guest::is_virtual(ctx) {
        (
            "this virtual machine has no NVIDIA GPU",
            "Pass a GPU to this virtual machine, or run gds-top on the machine with the GPU.",
        )
    } else {
        ("this machine has no NVIDIA GPU", "Run gds-top on the machine with the GPU.")
    };
    Judged::lack(ID, summary).never(EVERY).advice(format!("{elsewhere} {STILL_WORKS}"))
}

/// The evidence that this is a container of Docker Desktop: the kernel of its virtual machine, or a directory that it shares.
fn docker_desktop(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    const SHARED: [&str; 3] = ["fakeowner", "grpcfuse", "fuse.grpcfuse"];
    machine::container(ctx.root)?;
    if let Some(release) = machine::kernel_release(ctx.root).filter(|release| release.ends_with("-linuxkit")) {
        return Some(("/proc/sys/kernel/osrelease", release));
    }
    let mut kinds = ctx.subjects.iter().filter_map(|subject| subject.present()?.filesystem.clone());
    Some(("/proc/self/mountinfo", kinds.find(|kind| SHARED.contains(&kind.as_str()))?))
}
