//! Advice inside a container about changes of its host: kernel modules, packages of the driver, mounts and boot.

use super::bring::{Lack, bring_keys};
use super::lxc::given;
use crate::checks::advice::{Advice, Command, Examined};
use crate::checks::context::Context;
use crate::checks::cufile_json::{SYSTEM_FILE, file_to_mount, named_file};
use crate::checks::filesystem::network;
use crate::checks::image_host;
use crate::checks::judged::Judged;
use crate::checks::storage::virtual_disk::cloud;
use crate::core::{CheckId, FixId};
use crate::machine::{self, Container, Kept, kept};

/// The place that a fix changes, seen from inside a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Files of the container, or how it is started.
    Container,
    /// An option of its start replaces the fix.
    Start(Lack),
    /// Its image.
    Image,
    /// The host.
    Host,
}

const fn place(fix: FixId) -> Place {
    match fix {
        FixId::UdevRecord => Place::Start(Lack::Udev),
        FixId::Memlock => Place::Start(Lack::Memlock),
        FixId::LibcufileInstall => Place::Image,
        FixId::CufileP2pdmaKeys
        | FixId::CufileConfig
        | FixId::CufileLog
        | FixId::ContainerDevices
        | FixId::GpuNearDisk
        | FixId::MoveModel => Place::Container,
        FixId::NvidiaRepository
        | FixId::NvidiaDriverOpen
        | FixId::NvidiaDriverProprietary
        | FixId::NvidiaFabricmanager
        | FixId::NvfsInstall
        | FixId::NvfsLoad
        | FixId::NvfsDkms
        | FixId::NvfsStats
        | FixId::SecureBootKey
        | FixId::NvmePatch
        | FixId::NfsRdmaClient
        | FixId::IommuOff
        | FixId::AcsRedirect
        | FixId::Ext4Ordered
        | FixId::NvmeMultipathOff
        | FixId::P2pdmaRegistryKeys
        | FixId::Initramfs
        | FixId::MdUdev
        | FixId::Bar1Large
        | FixId::KernelP2pdma => Place::Host,
    }
}

/// Words of commands that change the host.
const OF_HOST: &[&str] = &[
    "modprobe",
    "journalctl",
    "dkms",
    "systemctl",
    "reboot",
    "grubby",
    "update-grub",
    "grub2-mkconfig",
    "prime-select",
    "mokutil",
    "udevadm",
    "umount",
    "mount",
    "nvidia-smi -",
    "/etc/modules-load.d",
    "/etc/modprobe.d",
    "/sys/module",
    "linux-modules",
    "linux-headers",
    "kernel-devel",
];

/// Adapts the findings in a container: fixes and commands of the host become advice for the host.
pub(crate) fn adapt(ctx: &Context<'_>, judged: Vec<Judged>) -> Vec<Judged> {
    let Some(container) = machine::container(ctx.root) else { return judged };
    let node = machine::image_host_of_node(ctx.root);
    // The nodes of these clouds come with their driver, and an operator would install a second one.
    let has_operator = cloud(ctx).is_none();
    let adapt = |judged: Judged| {
        let judged = keys_from_outside(ctx, &container, judged);
        let is_of_host = judged.finding.fix.or(judged.id.spec().default_fix()).map(place) == Some(Place::Host);
        match node.filter(|_| is_of_host) {
            Some(host) => image_host::on(ctx, host, judged)
                .unwrap_or_else(|judged| adapted(ctx, &container, has_operator, *judged)),
            None => adapted(ctx, &container, has_operator, judged),
        }
    };
    judged.into_iter().map(adapt).collect()
}

/// A container gets the keys of P2PDMA with its start, because a change of its files is lost with it.
fn keys_from_outside(ctx: &Context<'_>, container: &Container, judged: Judged) -> Judged {
    if judged.finding.fix != Some(FixId::CufileP2pdmaKeys) {
        return judged;
    }
    let path = named_file(ctx.root).unwrap_or_else(|| SYSTEM_FILE.to_owned());
    match kept(ctx.root, &path) {
        Kept::Here => judged,
        Kept::Lost => {
            let (path, is_named) = file_to_mount(ctx.root);
            let keys = bring_keys(container, &path, is_named);
            // A variable that disables P2PDMA overrides every file.
            let advice = match judged.advice.clone().filter(|advice| advice.first_command().is_some()) {
                Some(advice) => advice.text(" ").text(keys),
                None => keys.into(),
            };
            judged.fix(FixId::ContainerDevices).advice(advice)
        }
        Kept::Outside => {
            let source = match container.runtime.as_str() {
                "kubernetes" => "its ConfigMap, or in the file of the node",
                _ => "the file of the host",
            };
            judged.by_hand().advice(format!(
                "{path} is mounted into the container. Set the keys of P2PDMA in {source}, then restart the container."
            ))
        }
    }
}

fn adapted(ctx: &Context<'_>, container: &Container, has_operator: bool, judged: Judged) -> Judged {
    let advice = judged.advice.clone();
    match judged.finding.fix.or(judged.id.spec().default_fix()).map(place) {
        Some(Place::Start(lack)) => {
            let advice = advice.unwrap_or_else(|| given(ctx.root, container, &[lack]).into());
            judged.fix(FixId::ContainerDevices).advice(advice)
        }
        Some(Place::Host) => {
            let fix = judged.finding.fix;
            let judged = judged.by_hand();
            match (fix.filter(|_| has_operator).and_then(|fix| of_operator(ctx, container, fix)), advice) {
                // Other packages of DOCA on the node would be a second driver next to that of its container.
                (Some(operator), Some(_)) if fix == Some(FixId::NfsRdmaClient) && network::has_ofed(ctx) => judged
                    .advice(operator.text(
                        " If the node has DOCA as packages, install its package mlnx-nfsrdma-dkms there instead.",
                    )),
                (Some(operator), Some(advice)) => {
                    let node = on_host(container, &advice);
                    judged.advice(operator.text(" Without the operator: ").text(lowered(&node)))
                }
                (Some(operator), None) => judged.advice(operator),
                (None, Some(advice)) => {
                    let host = on_host(container, &advice);
                    // The host is often another distribution, and gds-top finds its packages and tools there.
                    judged.advice(match fix.filter(|_| container.runtime != "kubernetes") {
                        Some(fix) => {
                            format!("{host} Or run `{}` on the host.", Command::Fix(fix).line(&Examined::default()))
                        }
                        None => host,
                    })
                }
                (None, None) => judged,
            }
        }
        Some(Place::Image) if container.runtime == "kubernetes" => match into_image(ctx, &judged) {
            Some(advice) => judged.by_hand().advice(advice),
            None => judged,
        },
        Some(Place::Container | Place::Image) | None => match advice {
            Some(advice) if advice.has_command_with(OF_HOST) => {
                let node = on_host(container, &advice);
                judged.advice(node)
            }
            _ => judged,
        },
    }
}

/// How the image of a pod gets another libcufile of a Python or conda environment. A new pod, which other steps create,
/// loses the packages that were installed in this one. `None` if the environment is not part of the image.
fn into_image(ctx: &Context<'_>, judged: &Judged) -> Option<Advice> {
    judged.in_the_way().next()?;
    let chosen = ctx.root.libcufile().chosen.clone()?;
    if kept(ctx.root, &chosen) != Kept::Lost {
        return None;
    }
    let image = |command: &str| {
        Advice::from(format!(
            "A change inside this pod is lost with it: add `RUN {command}` to the Dockerfile of its image, and use the new image."
        ))
    };
    if judged.id != CheckId::CudaDriverRuntime {
        let command = judged.advice.as_ref()?.first_command()?.line(&Examined::default());
        return ["pip ", "conda "].iter().any(|tool| command.contains(tool)).then(|| image(&command));
    }
    let served: u32 = ctx.root.nvml().cuda_version.as_ref()?.split('.').next()?.parse().ok()?;
    let wheel = machine::cufile_wheel(served)?;
    let pip = |verb: &str| machine::library_pip(ctx.root, &chosen, verb);
    let install = format!("{} {wheel}", pip("install")?);
    let is_replaced = chosen.contains("/nvidia/cu13/") && wheel != "nvidia-cufile";
    let command = if is_replaced { format!("{} nvidia-cufile && {install}", pip("uninstall -y")?) } else { install };
    Some(image(&command).text(format!(
        " Its other packages need their releases for CUDA {served} too. Or update the driver of the node (on GKE: gpu-driver-version=latest of the node pool)."
    )))
}

/// How NVIDIA's GPU Operator does what a fix does, for pods.
fn of_operator(ctx: &Context<'_>, container: &Container, fix: FixId) -> Option<Advice> {
    if container.runtime != "kubernetes" {
        return None;
    }
    let fix = if matches!(fix, FixId::NvfsLoad | FixId::NvfsDkms) { FixId::NvfsInstall } else { fix };
    image_host::by_operator(ctx, fix)
}

/// The advice as text for the host. It contains no commands as data: a command of the host must not look like one for
/// the container.
fn on_host(container: &Container, advice: &Advice) -> String {
    let text = advice.plain();
    if text.contains("the host") || text.contains("the node") {
        return text;
    }
    let host = if container.runtime == "kubernetes" { "node" } else { "host" };
    // Such a step ends the programs of all users of the host.
    if text.contains("ower the machine off") {
        return format!("Ask the administrator of the {host}, which may have other users: {}", lowered(&text));
    }
    format!("On the {host}: {}", lowered(&text))
}

/// A sentence as the continuation of another one. Names and acronyms keep their case.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    let (first, second) = (letters.next(), letters.next());
    match first {
        Some(first) if second.is_some_and(char::is_lowercase) => {
            format!("{}{}", first.to_lowercase(), &text[first.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(runtime: &str) -> Container {
        Container { runtime: runtime.to_owned(), source: String::new(), text: String::new() }
    }

    #[test]
    fn commands_of_the_host_become_text() {
        let load = Advice::run("sudo modprobe nvidia-fs").text(", then check again.");
        assert_eq!(
            on_host(&container("docker"), &load),
            "On the host: run `sudo modprobe nvidia-fs`, then check again."
        );
        assert_eq!(on_host(&container("kubernetes"), &"DKMS failed.".into()), "On the node: DKMS failed.");
        let known: Advice = "Start it on the host.".into();
        assert_eq!(on_host(&container("docker"), &known), "Start it on the host.");
    }
}
