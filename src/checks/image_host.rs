//! Advice for hosts whose kernel modules come from an image, a declared configuration or a driver container. Packages of
//! a distribution cannot be installed there, or have no effect.
//!
//! Sources: NixOS options (hardware.nvidia, boot, services.udev), rpm-ostree and transactional-update manuals, GPU Operator (GPUDirect RDMA and GPUDirect Storage), Network Operator 25.10 (DOCA-OFED Driver Container),
//! Talos (NVIDIA GPU), Bottlerocket (variants), Flatcar (Using NVIDIA GPUs), Google Kubernetes Engine (GPUs).

use crate::checks::advice::{Advice, for_single_paths};
use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::core::{CheckId, FixId, Route, Status};
use crate::machine::{BootLoader, ImageHost, boot_loader, container, image_host, os_release, packages, registry};

/// The part of the host that a fix installs or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Driver,
    NvidiaFs,
    NvmeDriver,
    Kernel,
    ModuleOption,
    Library,
    FabricManager,
    /// An argument of the kernel for the IOMMU or ACS.
    Argument,
    /// An option of a mount.
    Mount,
    /// The list of modules that are loaded at boot.
    Loading,
    /// The initramfs.
    Initramfs,
    /// A rule of udev.
    UdevRule,
    /// A limit of the user.
    Limit,
}

const fn part(fix: FixId) -> Option<Part> {
    Some(match fix {
        FixId::NvidiaDriverOpen | FixId::NvidiaDriverProprietary | FixId::NvidiaRepository => Part::Driver,
        FixId::NvfsInstall => Part::NvidiaFs,
        FixId::NvmePatch | FixId::NfsRdmaClient => Part::NvmeDriver,
        FixId::KernelP2pdma => Part::Kernel,
        FixId::P2pdmaRegistryKeys | FixId::NvmeMultipathOff => Part::ModuleOption,
        FixId::LibcufileInstall => Part::Library,
        FixId::NvidiaFabricmanager => Part::FabricManager,
        FixId::IommuOff | FixId::AcsRedirect => Part::Argument,
        FixId::Ext4Ordered => Part::Mount,
        FixId::NvfsLoad => Part::Loading,
        FixId::Initramfs => Part::Initramfs,
        FixId::MdUdev => Part::UdevRule,
        FixId::Memlock => Part::Limit,
        _ => return None,
    })
}

/// The replacement of a package on a host.
enum Way {
    /// This does it.
    Advice(Advice),
    /// Nothing does it, so the route nvfs is not possible.
    Never(Advice),
}

/// NVIDIA's guide for the installation.
const GUIDE: &str = "docs.nvidia.com/gpudirect-storage/troubleshooting-guide";

/// The default names of the GPU Operator's ClusterPolicy and of its namespace.
const fn operator(host: ImageHost) -> (&'static str, &'static str) {
    match host {
        ImageHost::OpenShift => ("gpu-cluster-policy", "nvidia-gpu-operator"),
        _ => ("cluster-policy", "gpu-operator"),
    }
}

/// The command that changes the ClusterPolicy of the GPU Operator.
fn change_policy(host: ImageHost, spec: &str) -> String {
    let (policy, _) = operator(host);
    format!("kubectl patch clusterpolicies.nvidia.com/{policy} --type merge -p '{{\"spec\":{spec}}}'")
}

/// A change of the driver in the ClusterPolicy changes its DaemonSet (GPU Operator, "GPU Driver Upgrades").
const ON_ALL_NODES: &str =
    " The operator then restarts the driver on all GPU nodes, which drains their pods with GPUs: choose the time.";

/// How the GPU Operator gives the registry keys to its driver (GPU Operator, "Customizing NVIDIA GPU Driver Parameters").
/// A second ConfigMap would replace the parameters of the first one.
fn keys_by_operator(host: ImageHost, keys: &str) -> Advice {
    let (policy, namespace) = operator(host);
    Advice::from(format!(
        "If `kubectl get clusterpolicies.nvidia.com/{policy} -o jsonpath='{{.spec.driver.kernelModuleConfig.name}}'` prints no name, run "
    ))
    .command(format!(
        "kubectl create configmap kernel-module-params -n {namespace} --from-literal=nvidia.conf='NVreg_RegistryDwords=\"{keys}\"'"
    ))
    .text(", then ")
    .command(change_policy(host, "{\"driver\":{\"kernelModuleConfig\":{\"name\":\"kernel-module-params\"}}}"))
    .text(format!(
        ". If it prints a name, run `kubectl edit configmap NAME -n {namespace}`: add the keys to the line NVreg_RegistryDwords of nvidia.conf, and keep its other lines.{ON_ALL_NODES} If a driver is not loaded again, delete the pod nvidia-driver-daemonset of its node. Then create the pods with GPUs again."
    ))
}

/// How the Machine Config Operator of OpenShift sets a kernel argument.
fn by_machine_config(name: &str, argument: &str) -> Advice {
    Advice::run(format!(
        "printf 'apiVersion: machineconfiguration.openshift.io/v1\\nkind: MachineConfig\\nmetadata:\\n  name: 99-{name}\\n  labels:\\n    machineconfiguration.openshift.io/role: worker\\nspec:\\n  kernelArguments:\\n  - {argument}\\n' | oc apply -f -"
    ))
    .text(". If the GPU nodes have another pool, name it instead of worker. The operator restarts its nodes.")
}

/// How the GPU Operator loads nvidia-fs, and the log to read if it does not (gpu-operator#2416: an image of nvidia-fs
/// without the module for its system).
fn gds_of_operator(host: ImageHost) -> Advice {
    let (_, namespace) = operator(host);
    Advice::from("Set gds.enabled=true for NVIDIA's GPU Operator, which then loads nvidia-fs: ")
        .command(change_policy(host, "{\"gds\":{\"enabled\":true}}"))
        .text(format!(".{ON_ALL_NODES} If it is set already, read the log of its container: "))
        .command(format!("kubectl -n {namespace} logs -l app=nvidia-driver-daemonset -c nvidia-fs-ctr --previous"))
        .text(". If the image lacks the module of this system (exit 127), choose another gds.version. Then create the pods with GPUs again: only new pods get the devices of nvidia-fs.")
}

/// How the DOCA-OFED driver container of NVIDIA's Network Operator loads the NFS client for GDS.
const NFS_OF_OPERATOR: &str = "Add `{name: ENABLE_NFSRDMA, value: \"true\"}` to spec.ofedDriver.env of NVIDIA's Network Operator: `kubectl edit nicclusterpolicies.mellanox.com nic-cluster-policy`. If the node loaded rpcrdma of its kernel, add UNLOAD_STORAGE_MODULES in the same way. Its driver container starts again, so pods with RDMA must end before. Then delete the pod nvidia-driver-daemonset of this node, which loads nvidia-fs again.";

/// The ways that NVIDIA's GPU Operator does what a fix does. `None` if it does not.
pub(crate) fn by_operator(ctx: &Context<'_>, fix: FixId) -> Option<Advice> {
    match way(ImageHost::DriverContainer, fix, &registry::list(&registry::p2pdma_keys(ctx.root)))? {
        Way::Advice(advice) => (fix != FixId::LibcufileInstall).then_some(advice),
        Way::Never(_) => None,
    }
}

/// The ways on NixOS: options of its configuration.
fn on_nixos(fix: FixId, part: Part, keys: &str) -> Option<Way> {
    let set = |option: &str| {
        Way::Advice(
            Advice::from(format!("Set {option} in configuration.nix, then run "))
                .command("sudo nixos-rebuild boot")
                .text(", then reboot."),
        )
    };
    // A second line with the same option is an error.
    let argument = |word: &str| {
        Way::Advice(
            Advice::from(format!("Add \"{word}\" to the list boot.kernelParams in configuration.nix, then run "))
                .command("sudo nixos-rebuild boot")
                .text(", then reboot."),
        )
    };
    Some(match part {
        Part::Driver if fix == FixId::NvidiaDriverProprietary => set(
            "services.xserver.videoDrivers = [ \"nvidia\" ], hardware.nvidia.open = false and a hardware.nvidia.package of branch 580",
        ),
        Part::Driver => set("services.xserver.videoDrivers = [ \"nvidia\" ] and hardware.nvidia.open = true"),
        Part::NvidiaFs | Part::NvmeDriver => Way::Never(
            "Use P2PDMA, or a node with Ubuntu or RHEL: NixOS has no package of nvidia-fs and no NVMe driver for it."
                .into(),
        ),
        Part::Kernel => set("boot.kernelPackages = pkgs.linuxPackages_latest"),
        Part::ModuleOption if matches!(fix, FixId::NvmeMultipathOff) => argument("nvme_core.multipath=N"),
        Part::ModuleOption => {
            set(&format!("boot.extraModprobeConfig = \"options nvidia NVreg_RegistryDwords={keys}\""))
        }
        Part::Library => Way::Advice("Add cudaPackages.libcufile to the packages of the program's environment.".into()),
        Part::FabricManager => set("hardware.nvidia.datacenter.enable = true"),
        Part::Argument if matches!(fix, FixId::IommuOff) => argument("iommu=pt"),
        Part::Argument => set("pci=disable_acs_redir= for the named bridges in boot.kernelParams"),
        Part::Mount => set("\"data=ordered\" in the options of this file system (fileSystems)"),
        Part::Loading => set("boot.kernelModules = [ \"nvidia_fs\" ]"),
        Part::Initramfs => {
            Way::Advice(Advice::run("sudo nixos-rebuild boot").text(", then reboot: it writes the initramfs again."))
        }
        Part::UdevRule => set("the rule that imports MD_LEVEL in services.udev.extraRules"),
        Part::Limit => set("memlock to unlimited in security.pam.loginLimits"),
    })
}

/// The ways on systems with an image of packages: rpm-ostree and transactional-update.
fn on_package_image(host: ImageHost, fix: FixId, part: Part, keys: &str) -> Option<Way> {
    let is_ostree = host == ImageHost::Ostree;
    let advice = |text: String| Some(Way::Advice(text.into()));
    match part {
        Part::Driver | Part::NvidiaFs | Part::NvmeDriver if is_ostree => advice(
            "Build the modules into the image (a derived bootc or ostree image): rpm-ostree has no place for modules that DKMS builds on the machine.".to_owned(),
        ),
        Part::Kernel if is_ostree => {
            Some(Way::Advice(Advice::run("sudo rpm-ostree upgrade").text(" to a release with Linux 6.2 or later, then reboot.")))
        }
        Part::Library if is_ostree => {
            advice("Run the program in a container with CUDA: its image has libcufile.".to_owned())
        }
        Part::ModuleOption if is_ostree && fix == FixId::NvmeMultipathOff => Some(Way::Advice(
            Advice::run("sudo rpm-ostree kargs --append-if-missing=nvme_core.multipath=N")
                .text(", then reboot."),
        )),
        Part::ModuleOption if is_ostree => Some(Way::Advice(
            Advice::run(format!("echo 'options nvidia NVreg_RegistryDwords=\"{keys}\"' | sudo tee /etc/modprobe.d/nvidia-p2pdma.conf"))
                .text(", then ")
                .command("sudo rpm-ostree initramfs-etc --track=/etc/modprobe.d/nvidia-p2pdma.conf")
                .text(", then reboot."),
        )),
        Part::Initramfs if is_ostree => {
            Some(Way::Advice(Advice::run("sudo rpm-ostree initramfs --enable").text(", then reboot.")))
        }
        Part::Initramfs => {
            Some(Way::Advice(Advice::run("sudo transactional-update initrd").text(", then reboot.")))
        }
        _ => None,
    }
}

/// The ways of a host for a fix. `keys` are the registry keys of the driver that P2PDMA needs on this machine.
fn way(host: ImageHost, fix: FixId, keys: &str) -> Option<Way> {
    use ImageHost::{
        Bottlerocket, ContainerOptimized, DriverContainer, Flatcar, NixOs, OpenShift, Ostree, Talos, Transactional,
    };
    let part = part(fix)?;
    fn advice(text: impl Into<Advice>) -> Option<Way> {
        Some(Way::Advice(text.into()))
    }
    match (host, part) {
        (NixOs, part) => on_nixos(fix, part, keys),
        (Ostree | Transactional, part) => on_package_image(host, fix, part, keys),
        (OpenShift, part @ (Part::Argument | Part::Mount | Part::Loading | Part::UdevRule | Part::Limit)) => {
            Some(Way::Advice(on_openshift(fix, part)))
        }
        (_, Part::Argument | Part::Mount | Part::Loading | Part::Initramfs | Part::UdevRule | Part::Limit) => None,
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
        (OpenShift | DriverContainer, Part::Driver) => {
            let kind = if fix == FixId::NvidiaDriverProprietary { "proprietary" } else { "open" };
            let spec = format!("{{\"driver\":{{\"kernelModuleType\":\"{kind}\"}}}}");
            advice(
                Advice::run(change_policy(host, &spec))
                    .text(format!(
                        ", which changes NVIDIA's GPU Operator 25.3 or later. An earlier one needs KERNEL_MODULE_TYPE={kind} in driver.env. If its driver.version is old, change it too.{ON_ALL_NODES} Create such pods again after it."
                    )),
            )
        }
        (OpenShift | DriverContainer, Part::NvidiaFs) => advice(gds_of_operator(host)),
        (OpenShift | DriverContainer, Part::NvmeDriver) if fix == FixId::NfsRdmaClient => advice(NFS_OF_OPERATOR),
        // The DOCA-OFED container supports GDS only for NFS over RDMA.
        (OpenShift, Part::NvmeDriver) => Some(Way::Never(
            "Use P2PDMA for local NVMe disks: NVIDIA's Network Operator has no NVMe driver for GDS.".into(),
        )),
        (DriverContainer, Part::NvmeDriver) => advice(
            "Install DOCA with mlnx-nvme-dkms on this host, and set driver.rdma.enabled and driver.rdma.useHostMofed in the ClusterPolicy.",
        ),
        (OpenShift, Part::Kernel) => advice("Update to OpenShift 4.19 or later, which has the kernel of RHEL 9.6."),
        (DriverContainer, Part::Kernel) => None,
        (OpenShift | DriverContainer, Part::ModuleOption) if matches!(fix, FixId::P2pdmaRegistryKeys) => {
            advice(keys_by_operator(host, keys))
        }
        (OpenShift, Part::ModuleOption) => {
            advice(by_machine_config(CheckId::NvmeMultipath.as_str(), "nvme_core.multipath=N"))
        }
        (DriverContainer, Part::ModuleOption) => None,
        (Talos, Part::Driver) => advice(
            "Add the extensions nvidia-open-gpu-kernel-modules and nvidia-container-toolkit to the image of Talos (Image Factory). Name nvidia, nvidia_uvm, nvidia_drm and nvidia_modeset in machine.kernel.modules (`talosctl patch mc`), then upgrade to the image.",
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
        // Talos 1.12 was the first with CONFIG_PCI_P2PDMA (github.com/siderolabs/pkgs/pull/1356).
        (Talos, Part::Kernel) => advice("Update Talos to 1.12 or later, the first with CONFIG_PCI_P2PDMA."),
        (Bottlerocket | ContainerOptimized | Flatcar, Part::Kernel) => Some(Way::Advice(Advice::from(format!(
            "Update {} to a release with Linux 6.2 or later and CONFIG_PCI_P2PDMA.",
            host.name()
        )))),
        (Talos, Part::ModuleOption) => Some(Way::Advice(Advice::from(format!(
            "Set {} in the machine configuration (machine.kernel.modules, machine.install.extraKernelArgs), then reboot.",
            option(fix, keys)
        )))),
        (Bottlerocket, Part::ModuleOption) => Some(Way::Advice(on_bottlerocket(&option(fix, keys)))),
        (ContainerOptimized, Part::ModuleOption) => Some(Way::Advice(Advice::from(format!(
            "Set {} on the kernel command line of the node's image, then reboot.",
            option(fix, keys)
        )))),
        // Its /etc can be written, and its extension with the driver is not in the initramfs.
        (Flatcar, Part::ModuleOption) if fix == FixId::P2pdmaRegistryKeys => Some(Way::Advice(
            Advice::run(format!(
                "echo 'options nvidia NVreg_RegistryDwords=\"{keys}\"' | sudo tee /etc/modprobe.d/nvidia-p2pdma.conf"
            ))
            .text(", then reboot."),
        )),
        (Flatcar, Part::ModuleOption) => None,
    }
}

/// How Bottlerocket sets a kernel argument `KEY=VALUE` (its documentation of settings.boot).
fn on_bottlerocket(argument: &str) -> Advice {
    let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
    Advice::run(format!("printf '[settings.boot.kernel-parameters]\\n\"{key}\" = [\"{value}\"]\\n' | apiclient apply"))
        .text(" in the admin container. Then run ")
        .command("apiclient reboot")
        .text(" once, after all settings.")
}

/// How the Machine Config Operator of OpenShift sets a kernel argument or a file. It reverts changes that are made on the
/// node.
fn on_openshift(fix: FixId, part: Part) -> Advice {
    let text = match (part, fix) {
        (Part::Argument, FixId::IommuOff) => return by_machine_config("iommu", "iommu=pt"),
        (Part::Argument, _) => {
            "Add the kernel argument pci=disable_acs_redir= with the named bridges in a MachineConfig (spec.kernelArguments)."
        }
        (Part::Mount, _) => "Set data=ordered in the mount unit of a MachineConfig (spec.config.systemd.units).",
        (Part::Loading, _) => {
            "Add /etc/modules-load.d/nvidia-fs.conf with the line nvidia_fs in a MachineConfig (spec.config.storage.files)."
        }
        (Part::Limit, _) => {
            "Set LimitMEMLOCK=infinity for crio.service in a MachineConfig (spec.config.systemd.units)."
        }
        _ => "Add the file in a MachineConfig (spec.config.storage.files); the operator reverts changes on the node.",
    };
    text.into()
}

fn option(fix: FixId, keys: &str) -> String {
    match fix {
        FixId::NvmeMultipathOff => "nvme_core.multipath=N".to_owned(),
        _ => format!("nvidia.NVreg_RegistryDwords={keys}"),
    }
}

/// Whether the host needs something else than the commands of a fix.
pub(crate) fn replaces(ctx: &Context<'_>, fix: FixId) -> bool {
    image_host(ctx.root).is_some_and(|host| way(host, fix, "").is_some()) || refuses(ctx, fix)
}

/// Whether a fix uses the package manager, the initramfs tool or the boot loader of a distribution that gds-top knows.
fn is_of_distribution(fix: FixId) -> bool {
    match part(fix) {
        Some(Part::Mount | Part::Loading | Part::UdevRule | Part::Limit) => false,
        Some(_) => true,
        None => matches!(fix, FixId::NvfsDkms | FixId::SecureBootKey),
    }
}

/// Whether the plan of a fix has an obstacle on this system: its commands are those of other distributions, or the image
/// of the system replaces its changes.
fn refuses(ctx: &Context<'_>, fix: FixId) -> bool {
    if container(ctx.root).is_some() {
        return false;
    }
    let is_known = packages::known_family(ctx.root);
    match image_host(ctx.root) {
        // Its plan names the shell in which the commands have an effect.
        Some(ImageHost::Transactional) => false,
        Some(ImageHost::Ostree) if part(fix) == Some(Part::Argument) => {
            boot_loader(ctx.root).is_none_or(|boot| boot.loader != BootLoader::RpmOstree)
        }
        Some(ImageHost::DriverContainer) => {
            matches!(fix, FixId::NvfsLoad | FixId::NvfsDkms) || (is_of_distribution(fix) && !is_known)
        }
        None => is_of_distribution(fix) && !is_known,
        Some(ImageHost::Ostree | ImageHost::OpenShift | ImageHost::Flatcar) => is_of_distribution(fix),
        Some(ImageHost::NixOs | ImageHost::Talos | ImageHost::Bottlerocket | ImageHost::ContainerOptimized) => {
            is_of_distribution(fix) || part(fix).is_some()
        }
    }
}

/// A finding without a fix whose plan has an obstacle on this system. Its advice remains.
fn without_refused(ctx: &Context<'_>, judged: Judged) -> Judged {
    // A consequence has no separate step.
    let is_step = judged.in_the_way().next().is_some()
        && judged.finding.status != Status::Pass
        && judged.finding.cause.is_none()
        && !judged.by_hand;
    let default = judged.id.spec().default_fix().filter(|_| is_step);
    if !judged.finding.fix.or(default).is_some_and(|fix| refuses(ctx, fix)) {
        return judged;
    }
    let judged = judged.by_hand();
    if judged.advice.is_some() || !is_step {
        return judged;
    }
    let name = os_release(ctx.root, "PRETTY_NAME").or_else(|| os_release(ctx.root, "ID"));
    let name = name.as_deref().unwrap_or("this system");
    judged.advice(format!("The commands of {name} are not known here: follow {GUIDE}."))
}

/// Advice for a distribution whose packages are not known: a fix that installs packages has no commands there.
fn of_unknown_packages(ctx: &Context<'_>, judged: Vec<Judged>) -> Vec<Judged> {
    if packages::known_family(ctx.root) || container(ctx.root).is_some() {
        return judged;
    }
    let Some(name) = os_release(ctx.root, "PRETTY_NAME").or_else(|| os_release(ctx.root, "ID")) else { return judged };
    let installs = |fix: FixId| {
        matches!(
            part(fix),
            Some(Part::Driver | Part::NvidiaFs | Part::NvmeDriver | Part::Kernel | Part::Library | Part::FabricManager)
        )
    };
    let adapted = |judged: Judged| {
        let blocks = judged.in_the_way().next().is_some();
        let fix = judged.finding.fix.or(judged.id.spec().default_fix());
        if !blocks || !fix.is_some_and(installs) {
            return judged;
        }
        // The advice for the legacy drivers of Arch Linux has its packages.
        if fix == Some(FixId::NvidiaDriverProprietary) && packages::is_arch(ctx.root) {
            return judged.by_hand();
        }
        let advice = judged.advice.clone().unwrap_or_default();
        let guide = format!(" The packages of {name} are not known here: follow {GUIDE}.");
        judged.by_hand().advice(advice.text(guide))
    };
    judged.into_iter().map(adapted).collect()
}

/// Replaces the advice of findings whose fix needs packages or files that this host does not keep.
pub(crate) fn adapt(ctx: &Context<'_>, judged: Vec<Judged>) -> Vec<Judged> {
    let judged: Vec<Judged> = match image_host(ctx.root) {
        Some(host) => judged.into_iter().map(|judged| on(ctx, host, judged).unwrap_or_else(|judged| *judged)).collect(),
        None => of_unknown_packages(ctx, judged),
    };
    judged.into_iter().map(|judged| without_refused(ctx, judged)).collect()
}

/// The finding with the advice for a kind of host. The error is the unchanged finding, if the kind does not matter.
pub(crate) fn on(ctx: &Context<'_>, host: ImageHost, judged: Judged) -> Result<Judged, Box<Judged>> {
    let blocks = judged.in_the_way().next().is_some();
    let fix = judged.finding.fix.or(judged.id.spec().default_fix()).filter(|_| blocks);
    // The operator builds and loads nvidia-fs with its driver.
    let fix = match (host, fix) {
        (ImageHost::DriverContainer, Some(FixId::NvfsLoad | FixId::NvfsDkms))
        | (ImageHost::OpenShift, Some(FixId::NvfsDkms)) => Some(FixId::NvfsInstall),
        (_, fix) => fix,
    };
    let keys = || registry::list(&registry::p2pdma_keys(ctx.root));
    let condition = if fix == Some(FixId::NvmeMultipathOff) { for_single_paths(ctx.root) } else { "" };
    match fix.and_then(|fix| way(host, fix, &keys())) {
        Some(Way::Advice(advice)) => Ok(judged.by_hand().advice(advice.text(condition))),
        Some(Way::Never(advice)) => Ok(judged.by_hand().advice(advice).never(&[Route::Nvfs])),
        None => Err(Box::new(judged)),
    }
}
