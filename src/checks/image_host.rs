//! Advice for hosts whose kernel modules come from an image or from a driver container. Packages of a distribution
//! cannot be installed there, or have no effect.
//!
//! Sources: GPU Operator (GPUDirect RDMA and GPUDirect Storage), Network Operator 25.10 (DOCA-OFED Driver Container),
//! Talos (NVIDIA GPU), Bottlerocket (variants), Flatcar (Using NVIDIA GPUs), Google Kubernetes Engine (GPUs).

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::core::{FixId, Route};
use crate::machine::{ImageHost, image_host};

/// What a fix installs or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Driver,
    NvidiaFs,
    NvmeDriver,
    Kernel,
    ModuleOption,
    Library,
    FabricManager,
}

const fn part(fix: FixId) -> Option<Part> {
    Some(match fix {
        FixId::NvidiaDriverOpen | FixId::NvidiaDriverProprietary | FixId::NvidiaRepository => Part::Driver,
        FixId::NvfsInstall => Part::NvidiaFs,
        FixId::NvmePatch => Part::NvmeDriver,
        FixId::KernelP2pdma => Part::Kernel,
        FixId::P2pdmaRegistryKeys | FixId::NvmeMultipathOff => Part::ModuleOption,
        FixId::LibcufileInstall => Part::Library,
        FixId::NvidiaFabricmanager => Part::FabricManager,
        _ => return None,
    })
}

/// What is needed on a host instead of a package.
enum Way {
    /// This does it.
    Advice(Advice),
    /// Nothing does it, so the route nvfs is not possible.
    Never(Advice),
}

const OPERATOR: &str =
    "Set gds.enabled=true in the ClusterPolicy of NVIDIA's GPU Operator, which then loads nvidia-fs.";

fn way(host: ImageHost, fix: FixId) -> Option<Way> {
    use ImageHost::{Bottlerocket, ContainerOptimized, DriverContainer, Flatcar, OpenShift, Talos};
    let part = part(fix)?;
    let advice = |text: &'static str| Some(Way::Advice(text.into()));
    match (host, part) {
        (_, Part::Library) => {
            advice("Run gds-top in a container with CUDA. Its image has libcufile, this host has none.")
        }
        (OpenShift | DriverContainer, Part::FabricManager) => advice(
            "Restart the pod nvidia-driver-daemonset of this node: it runs Fabric Manager in the version of its driver.",
        ),
        (Talos, Part::FabricManager) => {
            advice("Add the extension nvidia-fabricmanager in the version of the driver to the image of Talos.")
        }
        (Bottlerocket | ContainerOptimized | Flatcar, Part::FabricManager) => None,
        (OpenShift | DriverContainer, Part::Driver) => advice(
            "Set driver.enabled=true, driver.kernelModuleType=open and a current driver.version in the ClusterPolicy of NVIDIA's GPU Operator.",
        ),
        (OpenShift | DriverContainer, Part::NvidiaFs) => advice(OPERATOR),
        // The DOCA-OFED container supports GDS only for NFS over RDMA.
        (OpenShift, Part::NvmeDriver) => Some(Way::Never(
            "Use P2PDMA for local NVMe disks: NVIDIA's Network Operator has no NVMe driver for GDS.".into(),
        )),
        (DriverContainer, Part::NvmeDriver) => advice(
            "Install DOCA with mlnx-nvme-dkms on this host, and set driver.rdma.enabled and driver.rdma.useHostMofed in the ClusterPolicy.",
        ),
        (OpenShift, Part::Kernel) => advice("Update to OpenShift 4.19 or later, which has the kernel of RHEL 9.6."),
        (DriverContainer, Part::Kernel) => None,
        (OpenShift | DriverContainer, Part::ModuleOption) if matches!(fix, FixId::P2pdmaRegistryKeys) => advice(
            "Put the keys as NVreg_RegistryDwords into nvidia.conf of a ConfigMap, and name it in driver.kernelModuleConfig of the GPU Operator.",
        ),
        (OpenShift, Part::ModuleOption) => advice(
            "Add the kernel argument nvme_core.multipath=N in a MachineConfig (spec.kernelArguments). Do not do this if disks have several paths.",
        ),
        (DriverContainer, Part::ModuleOption) => None,
        (Talos, Part::Driver) => advice(
            "Add the extensions nvidia-open-gpu-kernel-modules and nvidia-container-toolkit to the image of Talos (Image Factory), then upgrade to it.",
        ),
        (Bottlerocket, Part::Driver) => {
            advice("Use an NVIDIA variant of Bottlerocket (such as aws-k8s-1.34-nvidia), which contains the driver.")
        }
        (ContainerOptimized, Part::Driver) => Some(Way::Advice(
            Advice::run("sudo cos-extensions install gpu").text(". On GKE, set gpu-driver-version for the node pool."),
        )),
        (Flatcar, Part::Driver) => advice("Enable Flatcar's system extension with NVIDIA's open drivers, then reboot."),
        (Talos | Bottlerocket | ContainerOptimized | Flatcar, Part::NvidiaFs | Part::NvmeDriver) => {
            Some(Way::Never(Advice::from(format!(
                "Use P2PDMA, or a node with Ubuntu or RHEL: {} has no nvidia-fs and no NVMe driver for it.",
                host.name()
            ))))
        }
        (Talos | Bottlerocket | ContainerOptimized | Flatcar, Part::Kernel) => Some(Way::Advice(Advice::from(
            format!("Update {} to a release with Linux 6.2 or later and CONFIG_PCI_P2PDMA.", host.name()),
        ))),
        (Talos, Part::ModuleOption) => Some(Way::Advice(Advice::from(format!(
            "Set {} in the machine configuration (machine.kernel.modules, machine.install.extraKernelArgs), then reboot.",
            option(fix)
        )))),
        (Bottlerocket, Part::ModuleOption) => Some(Way::Advice(Advice::from(format!(
            "Set {} in settings.boot.kernel-parameters, then reboot.",
            option(fix)
        )))),
        (ContainerOptimized, Part::ModuleOption) => Some(Way::Advice(Advice::from(format!(
            "Set {} on the kernel command line of the node's image, then reboot.",
            option(fix)
        )))),
        // Its /etc can be written.
        (Flatcar, Part::ModuleOption) => None,
    }
}

const fn option(fix: FixId) -> &'static str {
    match fix {
        FixId::NvmeMultipathOff => "nvme_core.multipath=N",
        _ => "nvidia.NVreg_RegistryDwords",
    }
}

/// Whether the host needs something else than the commands of a fix.
pub(crate) fn replaces(ctx: &Context<'_>, fix: FixId) -> bool {
    image_host(ctx.root).is_some_and(|host| way(host, fix).is_some())
}

/// Replaces the advice of findings whose fix needs packages or files that this host does not keep.
pub(crate) fn adapt(ctx: &Context<'_>, judged: Vec<Judged>) -> Vec<Judged> {
    let Some(host) = image_host(ctx.root) else { return judged };
    let adapted = |judged: Judged| {
        let blocks = judged.in_the_way().next().is_some();
        let fix = judged.finding.fix.or(judged.id.spec().default_fix()).filter(|_| blocks);
        match fix.and_then(|fix| way(host, fix)) {
            Some(Way::Advice(advice)) => judged.fixes(None).advice(advice),
            Some(Way::Never(advice)) => judged.fixes(None).advice(advice).never(&[Route::Nvfs]),
            None => judged,
        }
    };
    judged.into_iter().map(adapted).collect()
}
