//! Checks of RDMA, if a path is on a file system that uses it.

use crate::checks::advice::Advice;
use crate::checks::classes;
use crate::checks::container::bring::{Lack, bring};
use crate::checks::container::dynamic_routing::is_user_space;
use crate::checks::container::ports::{self, Port, ports};
use crate::checks::context::Context;
use crate::checks::cufile::config_file::{SYSTEM_FILE, edit};
use crate::checks::filesystem::clients;
use crate::checks::judged::{Cost, Judged, Scope};
use crate::core::{CheckId, Route};
use crate::machine::{self, PathFacts, Root};
use crate::text::quoted;
use serde_json::Value;

/// Shows the state and the addresses of the interfaces of the RDMA devices that libcufile can use.
fn show(root: &Root) -> String {
    let (mlx5, others) = machine::rdma_devices(root);
    let named =
        |device: &String| root.entries(format!("{}/{device}/device/net", machine::RDMA_DEVICES)).unwrap_or_default();
    let names: Vec<String> = mlx5.iter().flat_map(named).collect();
    if let ([_], [interface]) = (mlx5.as_slice(), names.as_slice()) {
        return format!("ip -4 -br addr show {}", quoted(interface));
    }
    let folder = |device: &str| format!("{}/{device}/device/net/*", machine::RDMA_DEVICES);
    let folders = if others.is_empty() || mlx5.is_empty() {
        folder("*")
    } else {
        mlx5.iter().map(|device| folder(device)).collect::<Vec<_>>().join(" ")
    };
    format!("for d in {folders}; do ip -4 -br addr show \"${{d##*/}}\"; done")
}

/// The general list of addresses.
const LIST: &str = "properties.rdma_dev_addr_list";

/// The addresses of this machine's network cards in cufile.json, and their origin. libcufile looks first in the entry
/// of the mount, then in that of the file system, then in the general list.
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
    ctx.config().texts_below(LIST)
}

/// Checks of RDMA. They run only if a path is on a file system that uses RDMA.
pub(crate) fn rdma(ctx: &Context<'_>) -> Vec<Judged> {
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
    if user_space && machine::rdma_without_mlx5(ctx.root).is_some() {
        // An address changes nothing, and another place on this machine can have a direct route.
        let paths = ctx.subjects.iter().enumerate().filter(|(_, subject)| is_user_space(subject));
        return paths.map(|(number, _)| stack(ctx, true).of(Scope::Path(number))).collect();
    }
    let mut out = vec![stack(ctx, user_space)];
    if user_space {
        let judged = addresses(ctx);
        let is_scale = kinds.iter().any(|(kind, _)| matches!(*kind, "gpfs" | "mmfs"));
        // Both are off by default (IBM Storage Scale, 'Configuring GPUDirect Storage').
        let advice = judged.advice.clone().filter(|_| is_scale);
        out.push(match advice {
            Some(advice) => judged.advice(
                advice
                    .text(" On Storage Scale, ")
                    .command("mmlsconfig verbsGPUDirectStorage verbsRdma")
                    .text(" must show yes and enable. For a change, it must be stopped on all nodes."),
            ),
            None => judged,
        });
    }
    out
}

/// Whether there is no device for user-space RDMA.
fn no_verbs(ctx: &Context<'_>) -> bool {
    !ctx.root.entries("/dev/infiniband").unwrap_or_default().iter().any(|name| name.starts_with("uverbs"))
}

fn stack(ctx: &Context<'_>, user_space: bool) -> Judged {
    const ID: CheckId = CheckId::RdmaStack;
    let devices = ctx.root.entries("/sys/class/infiniband").unwrap_or_default();
    let version = ctx.root.read_text("/sys/module/mlx5_core/version").ok().map(|text| text.trim().to_owned());
    let route = if user_space { Route::Rdma } else { Route::Nvfs };
    let judged = if devices.is_empty() && machine::container(ctx.root).is_some() {
        // A container can have its own list of RDMA devices.
        Judged::warn(ID, "this container has no RDMA device")
            .found("/sys/class/infiniband", "empty or absent")
            .unknown(&[route])
    } else if let Some(cloud) = classes::undocumented(ctx).filter(|_| devices.is_empty()) {
        Judged::lack(ID, format!("this virtual machine of {cloud} has no RDMA device for this file system"))
            .found("/sys/class/infiniband", "empty or absent")
            .never(&[route])
            .advice("Stay with compat mode, or use an instance type with an RDMA network card and a file system that supports it.")
    } else if devices.is_empty() {
        Judged::lack(ID, "there is no RDMA device, so this file system cannot reach GPU memory")
            .found("/sys/class/infiniband", "empty or absent")
            .missing(Cost::Hardware, &[route])
            .advice(if user_space {
                "Use an NVIDIA ConnectX network card with RDMA and load its driver mlx5_core, or keep the model on a local NVMe disk."
            } else {
                "Use a network card with RDMA (InfiniBand or RoCE) and load its driver, or keep the model on a local NVMe disk."
            })
    } else if let Some(judged) = without_mlx5(ctx).filter(|_| user_space) {
        judged
    } else if let Some(container) = machine::container(ctx.root).filter(|_| user_space && no_verbs(ctx)) {
        Judged::lack(ID, "the RDMA devices of the host are not in this container")
            .found("/dev/infiniband", "no uverbs device")
            .missing(Cost::Root, &[Route::Rdma])
            .advice(bring(&container, Lack::Rdma))
    } else if let Some(judged) = no_port(ctx, user_space) {
        judged
    } else {
        Judged::info(ID, format!("RDMA devices: {}", devices.join(" ")))
            .found("/sys/class/infiniband", devices.join(" "))
    };
    let judged = match version {
        Some(version) => judged.found("/sys/module/mlx5_core/version", version),
        None => judged.found("/sys/module/mlx5_core/version", "absent: the driver of the kernel, or no driver"),
    };
    let rates = ports(ctx.root).into_iter().filter_map(|port| {
        let path = format!("{}/rate", port.folder);
        Some((ctx.root.read_text(&path).ok()?.trim().to_owned(), path, port.state))
    });
    let judged =
        rates.take(8).fold(judged, |judged, (rate, path, state)| judged.found(path, format!("{rate}, {state}")));
    if judged.advice.is_some() {
        judged
    } else {
        judged.advice("Run `ofed_info -s` to see whether DOCA or MLNX_OFED is installed. Do not install both.")
    }
}

/// The finding if the RDMA of libcufile can use none of the RDMA devices.
fn without_mlx5(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::RdmaStack;
    let devices = machine::rdma_without_mlx5(ctx.root)?;
    let judged = match machine::mellanox_card(ctx.root) {
        Some(card) => Judged::lack(ID, "the NVIDIA network card has no RDMA device, and cuFile uses no other card")
            .found(format!("/sys/bus/pci/devices/{card}/vendor"), "0x15b3")
            .missing(Cost::Install, &[Route::Rdma])
            .advice(
                Advice::run("sudo modprobe mlx5_ib")
                    .text(", which creates the RDMA device of a ConnectX card. Mount the file system over this card."),
            ),
        None => Judged::lack(ID, "this file system needs an NVIDIA network card (mlx5) for a direct route")
            .never(&[Route::Rdma])
            .advice("Stay with compat mode, add an NVIDIA ConnectX card and mount the file system over it, or keep the model on a local NVMe disk."),
    };
    Some(devices.into_iter().take(8).fold(judged, |judged, device| {
        let driver = machine::rdma_driver(ctx.root, &device).unwrap_or_else(|| "not mlx5".to_owned());
        judged.found(format!("{}/{device}", machine::RDMA_DEVICES), driver)
    }))
}

/// The finding if no port is active, and a client in the kernel needs one. For clients in user space, the finding about
/// rdma_dev_addr_list shows it. A mount of such a client can be older than the failure of its port. A mount over TCP has
/// another finding.
fn no_port(ctx: &Context<'_>, user_space: bool) -> Option<Judged> {
    let ports = ports(ctx.root);
    let over_rdma = || ctx.subjects.iter().filter_map(|s| s.facts.as_ref()).any(|facts| is_over_rdma(ctx, facts));
    if user_space || ports.is_empty() || ports.iter().any(Port::is_active) || !over_rdma() {
        return None;
    }
    let down: Vec<&Port> = ports.iter().collect();
    let judged =
        Judged::lack(CheckId::RdmaStack, "no port of an RDMA device is up: this file system has no direct route")
            .missing(Cost::System, &[Route::Nvfs])
            .advice(ports::advice(ctx, &down));
    Some(seen(judged, &down))
}

/// Whether a client in the kernel reaches its servers over RDMA.
fn is_over_rdma(ctx: &Context<'_>, facts: &PathFacts) -> bool {
    match facts.filesystem.as_deref() {
        Some("lustre") => !classes::is_lustre_over_tcp(ctx.root, facts),
        Some("beegfs" | "fhgfs") => clients::beegfs_over_tcp(ctx, facts).is_none(),
        Some(kind) => kind.starts_with("nfs") && facts.option_value("proto") == Some("rdma"),
        None => false,
    }
}

/// Adds the states of ports as evidence.
fn seen(judged: Judged, down: &[&Port]) -> Judged {
    down.iter().take(8).fold(judged, |judged, port| judged.found(port.file(), port.state.clone()))
}

fn addresses(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::RdmaIps;
    let (list, origin) = rdma_addresses(ctx);
    let table = ctx.root.read_text("/proc/net/fib_trie");
    if list.is_empty() {
        let (summary, file, text) = match ctx.config().latest(LIST) {
            Some((_, file)) => (
                "rdma_dev_addr_list is empty: cuFile has no network card for this file system",
                file,
                "properties.rdma_dev_addr_list is empty",
            ),
            None => (
                "rdma_dev_addr_list is not set: cuFile has no network card for this file system",
                SYSTEM_FILE.to_owned(),
                "no properties.rdma_dev_addr_list, and none in the section of the file system",
            ),
        };
        Judged::lack(ID, summary).found(&file, text).missing(Cost::Root, &[Route::Rdma]).advice(
            Advice::run(show(ctx.root))
                .text(" for the addresses of the RDMA interfaces. ")
                .and(edit(ctx.root, &file))
                .text(": list them in properties.rdma_dev_addr_list, and restart the program."),
        )
    } else {
        match table {
            Ok(text) => {
                let known = |ip: &String| text.lines().any(|l| l.trim().trim_start_matches("|-- ") == ip.as_str());
                let unknown: Vec<&str> = list.iter().filter(|ip| !known(ip)).map(String::as_str).collect();
                let (mlx5, _) = machine::rdma_devices(ctx.root);
                let ports: Vec<Port> =
                    ports(ctx.root).into_iter().filter(|port| mlx5.iter().any(|name| name == port.device())).collect();
                let down: Vec<&Port> = ports.iter().filter(|port| !port.is_active()).collect();
                let up = ports.len() - down.len();
                let all_down = !down.is_empty() && up == 0;
                if unknown.is_empty() && all_down {
                    let judged =
                        Judged::lack(ID, "no port of an RDMA device is up: this file system cannot reach the GPU")
                            .missing(Cost::System, &[Route::Rdma])
                            .advice(ports::advice(ctx, &down));
                    seen(judged, &down)
                } else if unknown.is_empty() && !down.is_empty() && list.len() > up {
                    // A card can have ports without a cable, but each address of the list needs a port.
                    let summary = format!("{up} RDMA ports are up for {} addresses of rdma_dev_addr_list", list.len());
                    let judged = Judged::lack(ID, summary).missing(Cost::System, &[Route::Rdma]).only_warn().advice(
                        ports::advice(ctx, &down)
                            .text(" Until they are up, remove their addresses from rdma_dev_addr_list: ")
                            .command(show(ctx.root))
                            .text("."),
                    );
                    seen(judged, &down)
                } else if unknown.is_empty() {
                    Judged::pass(ID, "this machine has all addresses of rdma_dev_addr_list")
                } else {
                    Judged::lack(
                        ID,
                        format!(
                            "rdma_dev_addr_list names addresses that this machine does not have: {}",
                            unknown.join(" ")
                        ),
                    )
                    .missing(Cost::Setting, &[Route::Rdma])
                    .advice(
                        Advice::run(show(ctx.root))
                            .text(" for the addresses of the RDMA interfaces. ")
                            .and(edit(ctx.root, &origin))
                            .text(format!(": replace {} in rdma_dev_addr_list.", unknown.join(", "))),
                    )
                }
            }
            Err(why) => Judged::na(ID, "the addresses of this machine could not be read")
                .unread("/proc/net/fib_trie", &why)
                .unknown(&[Route::Rdma]),
        }
        .found(origin, Value::from(list).to_string())
    }
}
