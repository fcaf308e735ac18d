//! Checks of GPU and disks on the PCIe bus: distance, ACS between them, links, NUMA nodes, root ports.

use crate::checks::advice::{Advice, sudo_program};
use crate::checks::context::{Context, GpuSeen};
use crate::checks::guest;
use crate::checks::judged::{Cost, Judged, Scope};
use crate::checks::kernel::iommu;
use crate::core::{CheckId, FindingFact, Route};
use crate::machine::{self, PathFacts, Root, Source};
use std::collections::BTreeSet;

const DEVICES: &str = "/sys/bus/pci/devices";

/// The bits of the ACS control word that redirect peer-to-peer requests: RR, CR and EC. Source validation is not one
/// of them (PCIe, 7.7.8.3).
const REDIRECT: u16 = 0x4 | 0x8 | 0x20;

/// A GPU, a disk of a path, and their positions on the bus.
struct Pair {
    gpu: String,
    disk: String,
    gpu_chain: Vec<String>,
    disk_chain: Vec<String>,
}

impl Pair {
    /// The number of bus elements from the root that both share.
    fn shared(&self) -> usize {
        self.gpu_chain.iter().zip(&self.disk_chain).take_while(|(a, b)| a == b).count()
    }

    /// The bridges between the two devices.
    fn bridges(&self) -> impl Iterator<Item = &String> {
        let shared = self.shared();
        let below = |chain: &'_ [String]| chain.len().saturating_sub(1).max(shared);
        let (gpu, disk) = (below(&self.gpu_chain), below(&self.disk_chain));
        self.gpu_chain[shared.min(gpu)..gpu]
            .iter()
            .chain(&self.disk_chain[shared.min(disk)..disk])
            .filter(|name| !name.starts_with("pci"))
    }
}

/// The elements from the host bridge to a device: `pci0000:3a`, `0000:3a:01.0`, `0000:3b:00.0`. It is empty if the
/// link cannot be read.
pub(crate) fn chain(ctx: &Context<'_>, address: &str) -> Vec<String> {
    let Some(target) = ctx.root.link(format!("{DEVICES}/{address}")) else { return Vec::new() };
    let names = target.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    names.skip_while(|name| !name.starts_with("pci")).collect()
}

/// The addresses of the GPUs. If the user named one, its distance is used, not that of the nearest GPU.
fn gpus(ctx: &Context<'_>) -> Vec<String> {
    if ctx.one_was_asked_for() {
        ctx.gpus().iter().map(|gpu| gpu.address.clone()).collect()
    } else {
        ctx.pci().into_iter().flatten().map(|gpu| gpu.address.clone()).collect()
    }
}

/// The bridges between the GPUs and the disks of the paths. `None` if no position of a local disk is known.
pub(crate) fn bridges_between(ctx: &Context<'_>) -> Option<BTreeSet<String>> {
    let gpus = gpus(ctx);
    let mut found = Vec::new();
    for facts in ctx.subjects.iter().filter_map(|subject| subject.facts.as_ref()) {
        let addresses = addresses(facts);
        found.extend(gpus.iter().flat_map(|gpu| pairs(ctx, gpu, &addresses)));
    }
    (!found.is_empty()).then(|| found.iter().flat_map(|pair| pair.bridges().cloned()).collect())
}

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    let gpus = gpus(ctx);
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let addresses = addresses(facts);
        let mut mine = Vec::new();
        mine.extend(addresses.iter().filter_map(|(name, address)| link(ctx, name, address)).max_by_key(severity));
        mine.extend(spread(ctx, &addresses));
        let pairs: Vec<Pair> = gpus.iter().flat_map(|gpu| pairs(ctx, gpu, &addresses)).collect();
        if let Some(nearest) = pairs.iter().max_by_key(|pair| pair.shared()) {
            mine.push(distance(nearest));
            mine.extend(acs(ctx, nearest));
        }
        mine.extend(numa(ctx, &gpus, &addresses));
        out.extend(mine.into_iter().map(|judged| judged.of(Scope::Path(number))));
    }
    out
}

/// The PCI address of the GPU that shares most of the bus with a disk of these paths. `None` if the positions are not
/// known.
#[must_use]
pub(crate) fn nearest_gpu(root: &Root, paths: &[PathFacts]) -> Option<String> {
    let ctx = Context::new(root, &[], None);
    let mut nearest: Option<Pair> = None;
    for facts in paths {
        let addresses = addresses(facts);
        let gpus = ctx.pci().into_iter().flatten();
        for pair in gpus.flat_map(|gpu| pairs(&ctx, &gpu.address, &addresses)) {
            // The first of several GPUs at the same distance.
            if nearest.as_ref().is_none_or(|known| pair.shared() > known.shared()) {
                nearest = Some(pair);
            }
        }
    }
    nearest.map(|pair| pair.gpu)
}

/// Checks whether the kernel allows transfers between each GPU and the disks of each path. Each GPU has its own
/// finding, because another GPU may be connected differently. It waits for NVML, which numbers the GPUs.
pub(crate) fn late(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (path, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        for (gpu, seen) in ctx.gpus().iter().enumerate() {
            out.extend(between(ctx, facts, seen).map(|judged| judged.of(Scope::Pair(path, gpu))));
        }
    }
    out
}

/// Checks whether the kernel allows transfers between a GPU and the disks of a path.
pub(crate) fn between(ctx: &Context<'_>, facts: &PathFacts, gpu: &GpuSeen) -> Option<Judged> {
    let addresses = addresses(facts);
    // A RAID reads from all of its disks, so the farthest one decides.
    let farthest = pairs(ctx, &gpu.address, &addresses).into_iter().min_by_key(Pair::shared);
    addresses
        .iter()
        .find_map(|(_, disk)| refused(ctx, disk, &gpu.address))
        .or_else(|| farthest.and_then(|pair| root_ports(ctx, &pair)))
}

/// The NVMe disks below a path, and their PCI addresses.
fn addresses(facts: &PathFacts) -> Vec<(&str, &str)> {
    let mut addresses: Vec<(&str, &str)> = machine::disks(facts)
        .into_iter()
        .filter(|disk| disk.name.starts_with("nvme"))
        .filter_map(|disk| Some((disk.name.as_str(), disk.pci_bus_id.as_deref()?)))
        .collect();
    addresses.dedup();
    addresses
}

/// A GPU paired with each disk whose position is known.
fn pairs(ctx: &Context<'_>, gpu: &str, addresses: &[(&str, &str)]) -> Vec<Pair> {
    addresses
        .iter()
        .map(|(name, address)| Pair {
            gpu: gpu.to_owned(),
            disk: format!("{name} at {address}"),
            gpu_chain: chain(ctx, gpu),
            disk_chain: chain(ctx, address),
        })
        .filter(|pair| !pair.gpu_chain.is_empty() && !pair.disk_chain.is_empty())
        .collect()
}

fn severity(judged: &Judged) -> u8 {
    judged.finding.status.weight()
}

fn distance(pair: &Pair) -> Judged {
    const ID: CheckId = CheckId::PcieTopology;
    let judged = match pair.shared() {
        0 => Judged::info(
            ID,
            format!("GPU {} and {} are below different host bridges, which is slower", pair.gpu, pair.disk),
        ),
        1 => Judged::info(
            ID,
            format!("GPU {} and {} are below different root ports of one host bridge", pair.gpu, pair.disk),
        ),
        2 => Judged::pass(ID, format!("GPU {} and {} are below one root port", pair.gpu, pair.disk)),
        _ => Judged::pass(ID, format!("GPU {} and {} are below one switch", pair.gpu, pair.disk)),
    };
    judged.found(format!("{DEVICES}/{}", pair.gpu), pair.gpu_chain.join("/")).found(DEVICES, pair.disk_chain.join("/"))
}

/// Checks whether the kernel allows transfers between two root ports. It always does on AMD Zen and later. On Intel
/// it has a list of host bridges (drivers/pci/p2pdma.c).
fn root_ports(ctx: &Context<'_>, pair: &Pair) -> Option<Judged> {
    const ID: CheckId = CheckId::KernelP2pRootports;
    if ctx.is_aarch64() {
        return None;
    }
    if let Some(bus) = pair.disk_chain.iter().find(|part| is_of_vmd(part)) {
        // The root bus of VMD has no device that the kernel's list of host bridges could contain
        // (drivers/pci/p2pdma.c).
        return Some(
            Judged::lack(ID, format!("{} is behind Intel VMD, through which the kernel has no P2PDMA", pair.disk))
                .found(DEVICES, bus.clone())
                .missing(Cost::Reboot, &[Route::P2pdma])
                .advice(
                    "Switch Intel VMD off for the slots of this disk in the firmware, and reboot. A root disk or a RAID (VROC) behind VMD must not depend on it.",
                ),
        );
    }
    let text = ctx.root.read_text("/proc/cpuinfo").ok()?;
    let field = |name: &str| {
        text.lines()
            .find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))
            .and_then(|l| Some(l.split_once(':')?.1.trim()))
    };
    let vendor = field("vendor_id")?;
    let family: Option<u32> = field("cpu family").and_then(|f| f.parse().ok());
    let mut bridges: Vec<(String, Listed)> =
        [&pair.gpu_chain, &pair.disk_chain].into_iter().filter_map(|chain| host_bridge(ctx, chain.first()?)).collect();
    let judged = if pair.shared() >= 2 {
        Judged::pass(ID, "GPU and disk share a root port, so the kernel allows transfers")
    } else if vendor == "AuthenticAMD" && family.is_some_and(|f| f >= 0x17) {
        Judged::pass(ID, "the kernel allows transfers between all root ports of AMD Zen and later")
    } else if vendor == "AuthenticAMD" && guest::hides_zen(ctx) {
        Judged::lack(ID, "the CPU type of this virtual machine hides that its host has AMD Zen")
            .missing(Cost::Root, &[Route::P2pdma])
            .explaining()
            .advice("Give this virtual machine the CPU type of its host.")
    } else if let [(_, gpu), (_, disk)] = bridges.as_slice() {
        let is_listed = ![gpu, disk].contains(&&Listed::No);
        if is_listed && (pair.shared() == 1 || ![gpu, disk].contains(&&Listed::WithinOne)) {
            Judged::pass(ID, "the kernel allows transfers between the root ports of these host bridges")
        } else {
            let (summary, place) = if is_listed {
                (
                    "the kernel allows transfers only between root ports of one such host bridge",
                    "one switch or one host bridge",
                )
            } else {
                ("the kernel's list for P2PDMA between root ports lacks these host bridges", "one PCIe switch")
            };
            Judged::lack(ID, summary)
                .missing(Cost::Hardware, &[Route::P2pdma])
                .explaining()
                .advice(format!("Put GPU and disk below {place}, or use nvidia-fs, which needs no such bridge."))
        }
    } else {
        Judged::info(ID, "the kernel's list of processors for P2PDMA between root ports does not include this one")
            .advice("If P2PDMA stays off although all checks pass, put GPU and disk below one switch.")
    };
    // GPU and disk can be below the same host bridge.
    bridges.dedup();
    let judged = bridges.into_iter().fold(judged, |judged, (text, _)| judged.found(DEVICES, text));
    Some(judged.found(
        "/proc/cpuinfo",
        format!("{vendor}, family {}", family.map_or_else(|| "unknown".to_owned(), |f| f.to_string())),
    ))
}

/// The line of the kernel log by which the kernel refused a transfer between this disk and this GPU (drivers/pci/p2pdma.c).
fn refused(ctx: &Context<'_>, disk: &str, gpu: &str) -> Option<Judged> {
    let log = machine::kernel_log(ctx.root)?;
    let provider = format!("({gpu})");
    let message = log.of(Source::Device).rev().find(|message| {
        let split = message.text.split_once(": cannot be used for peer-to-peer DMA");
        split.is_some_and(|(device, rest)| {
            device.split_once(' ').is_some_and(|(_, address)| address == disk) && rest.contains(&provider)
        })
    })?;
    Some(
        Judged::lack(
            CheckId::KernelP2pRootports,
            format!("the kernel refused a transfer between {disk} and {gpu}, which share no bridge"),
        )
        .found(machine::KERNEL_LOG, &message.line)
        .missing(Cost::Hardware, &[Route::P2pdma])
.explaining()
        .advice("Put GPU and disk below one PCIe switch, or choose another disk. Or use nvidia-fs, which needs no such bridge."),
    )
}

/// Whether a bus or device is in a PCI domain of Intel VMD. These start at 0x10000 (drivers/pci/controller/vmd.c).
fn is_of_vmd(part: &str) -> bool {
    let domain = part.strip_prefix("pci").unwrap_or(part).split(':').next().unwrap_or_default();
    domain.len() > 4 && domain.chars().all(|digit| digit.is_ascii_hexdigit())
}

/// Whether the kernel's list of host bridges contains one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    No,
    /// Transfers must stay within this host bridge.
    WithinOne,
    Yes,
}

/// The last kernel whose list was examined.
const LAST_LIST: (u32, u32) = (6, 17);

/// Host bridges between whose root ports the kernel allows transfers (`pci_p2pdma_whitelist` in drivers/pci/p2pdma.c of
/// Linux 6.17: Xeon E5, Xeon E7 v3, Skylake-E, and 09a2 of Ice Lake and later).
const BRIDGES: &[(&str, &str, Listed)] = &[
    ("0x8086", "0x3c00", Listed::WithinOne),
    ("0x8086", "0x3c01", Listed::WithinOne),
    ("0x8086", "0x2f00", Listed::WithinOne),
    ("0x8086", "0x2f01", Listed::WithinOne),
    ("0x8086", "0x2030", Listed::Yes),
    ("0x8086", "0x2031", Listed::Yes),
    ("0x8086", "0x2032", Listed::Yes),
    ("0x8086", "0x2033", Listed::Yes),
    ("0x8086", "0x2020", Listed::Yes),
    ("0x8086", "0x09a2", Listed::Yes),
];

/// The first device on the root bus `pci0000:3a`, which represents the host bridge, and whether it is on the list.
fn host_bridge(ctx: &Context<'_>, bus: &str) -> Option<(String, Listed)> {
    let prefix = format!("{}:", bus.strip_prefix("pci")?);
    let first = ctx.root.entries(DEVICES).ok()?.into_iter().find(|name| name.starts_with(&prefix))?;
    let read = |part: &str| Some(ctx.root.read_text(format!("{DEVICES}/{first}/{part}")).ok()?.trim().to_owned());
    let (vendor, device) = (read("vendor")?, read("device")?);
    let known = BRIDGES.iter().find(|(v, d, _)| *v == vendor && *d == device).map(|(.., listed)| *listed);
    // A later kernel may list more.
    let is_known_kernel = first.ends_with(":00.0") && ctx.kernel().is_some_and(|kernel| kernel <= LAST_LIST);
    // The list contains all devices of Google. Of other devices, only 00.0 is certainly the first one.
    let is_google = (vendor == "0x1ae0").then_some(Listed::Yes);
    let listed = known.or(is_google).or(is_known_kernel.then_some(Listed::No))?;
    let short = |id: &str| id.trim_start_matches("0x").to_owned();
    Some((format!("{first} is {}:{}", short(&vendor), short(&device)), listed))
}

/// The ACS control word in a bridge's configuration space. `None` if the bridge has no ACS. The error is a reason why
/// it cannot be read.
fn acs_control(config: &[u8]) -> Result<Option<u16>, &'static str> {
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    if config.len() <= 0x100 {
        return Err("only the first bytes are shown to this user");
    }
    let mut at = 0x100;
    // 4 KiB hold at most 1024 capabilities, so this limit ends a circular list.
    for _ in 0..1024 {
        let (Some(id), Some(next)) = (word(at), word(at + 2)) else { return Ok(None) };
        if id == 0x000d {
            return Ok(word(at + 6));
        }
        at = usize::from(next >> 4);
        if at < 0x100 {
            return Ok(None);
        }
    }
    Ok(None)
}

fn acs(ctx: &Context<'_>, pair: &Pair) -> Option<Judged> {
    const ID: CheckId = CheckId::PcieAcs;
    let mut seen = 0;
    let mut hidden: Option<(String, String)> = None;
    let mut on = Vec::new();
    for bridge in pair.bridges() {
        let path = format!("{DEVICES}/{bridge}/config");
        match ctx
            .root
            .read_bytes(&path)
            .map_err(|why| why.to_string())
            .and_then(|b| acs_control(&b).map_err(str::to_owned))
        {
            Ok(control) => {
                seen += 1;
                if control.is_some_and(|word| word & REDIRECT != 0) {
                    on.push((bridge, path, format!("ACS control {:#06x}", control.unwrap_or(0))));
                }
            }
            Err(why) => hidden = Some((path, why)),
        }
    }
    let judged = if !on.is_empty() {
        let mut judged = Judged::warn(
            ID,
            match on.len() {
                1 => "1 bridge between GPU and disk redirects peer-to-peer transfers (ACS)".to_owned(),
                count => format!("{count} bridges between GPU and disk redirect peer-to-peer transfers (ACS)"),
            },
        );
        // The kernel switches ACS on for an IOMMU.
        judged = if iommu::translates(ctx) {
            judged.cause(CheckId::IommuState)
        } else {
            judged.advice(
                "Disable ACS in the firmware, or boot with pci=disable_acs_redir= for these bridges only, never for all.",
            )
        };
        for (bridge, path, text) in on {
            judged = judged.found(path, text).fact(FindingFact::Bridge(bridge.clone()));
        }
        judged
    } else if let Some((path, why)) = hidden {
        let check = format!("sudo {} check", sudo_program(ctx.root).unwrap_or("gds-top"));
        Judged::na(ID, "only root can see whether bridges redirect peer-to-peer transfers")
            .found(path, why)
            .advice(Advice::run(check).text(" or ").command("sudo lspci -vvv | grep -e ACSCtl"))
    } else if seen > 0 {
        Judged::pass(ID, "no bridge on the path redirects peer-to-peer transfers")
            .found(DEVICES, format!("{seen} bridges"))
    } else {
        return None;
    };
    Some(judged)
}

/// Checks the link of an NVMe disk. A disk that is faster than its slot is common. A link with fewer lanes than the
/// slot is a fault.
fn link(ctx: &Context<'_>, name: &str, address: &str) -> Option<Judged> {
    const ID: CheckId = CheckId::NvmeLink;
    let read =
        |part: &str| ctx.root.read_text(format!("{DEVICES}/{address}/{part}")).ok().map(|text| text.trim().to_owned());
    let (width, most) = (read("current_link_width")?, read("max_link_width")?);
    let (speed, best) = (read("current_link_speed").unwrap_or_default(), read("max_link_speed").unwrap_or_default());
    let lanes = (width.parse::<u32>().ok()?, most.parse::<u32>().ok()?);
    let judged = if (1..lanes.1).contains(&lanes.0) {
        Judged::warn(ID, format!("{name} uses {width} of its {most} PCIe lanes"))
            .advice("Reseat the disk, or check the bifurcation of its slot in the firmware.")
    } else if speed != best && !speed.is_empty() && !best.is_empty() {
        Judged::info(ID, format!("{name} has {width} lanes at {speed}; it supports {best}"))
    } else {
        Judged::pass(ID, format!("{name} has {width} lanes at {speed}"))
    };
    Some(judged.found(format!("{DEVICES}/{address}"), format!("{width} of {most} lanes, {speed} of {best}")))
}

/// Reports RAID members below different root ports.
fn spread(ctx: &Context<'_>, addresses: &[(&str, &str)]) -> Option<Judged> {
    if addresses.len() < 2 {
        return None;
    }
    let ports: BTreeSet<String> =
        addresses.iter().filter_map(|(_, address)| chain(ctx, address).get(1).cloned()).collect();
    (ports.len() > 1).then(|| {
        Judged::info(
            CheckId::PcieTopology,
            format!("{} disks of this RAID are below {} root ports", addresses.len(), ports.len()),
        )
        .found(DEVICES, ports.into_iter().collect::<Vec<_>>().join(" "))
    })
}

fn numa(ctx: &Context<'_>, gpus: &[String], addresses: &[(&str, &str)]) -> Option<Judged> {
    const ID: CheckId = CheckId::NumaAffinity;
    let node = |address: &str| -> Option<i32> {
        ctx.root.read_text(format!("{DEVICES}/{address}/numa_node")).ok()?.trim().parse().ok()
    };
    let of_gpus: Vec<(String, i32)> = gpus.iter().filter_map(|gpu| Some((gpu.clone(), node(gpu)?))).collect();
    let (disk, at) = addresses.iter().find_map(|(name, address)| Some((*name, node(address)?)))?;
    let (gpu, nearest) = of_gpus.iter().min_by_key(|(_, n)| *n != at)?;
    let judged = if at < 0 || *nearest < 0 {
        Judged::info(ID, "the machine does not report the NUMA nodes of GPU and disk")
    } else if *nearest == at {
        Judged::pass(ID, format!("GPU {gpu} and {disk} are at NUMA node {at}"))
    } else {
        Judged::info(ID, format!("{disk} is at NUMA node {at}, GPU {gpu} at node {nearest}: reads cross the sockets"))
            .advice(format!(
                "Start the loader with `numactl --cpunodebind={at}`, or keep the model on a disk of node {nearest}."
            ))
    };
    Some(judged.found(DEVICES, format!("GPU {gpu}: node {nearest}, {disk}: node {at}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn with_acs(control: u16) -> Vec<u8> {
        let mut config = vec![0; 4096];
        // The advanced error reporting capability is at 0x100, and ACS is at 0x148.
        config[0x100..0x104].copy_from_slice(&0x1482_0001_u32.to_le_bytes());
        config[0x148..0x14c].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        config[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        config
    }

    #[test]
    fn the_acs_control_word_is_found_in_the_list_of_capabilities() {
        assert_eq!(acs_control(&with_acs(0x1d)), Ok(Some(0x1d)));
        assert_eq!(acs_control(&vec![0; 4096]), Ok(None));
        assert!(acs_control(&[0; 64]).is_err());
    }

    #[test]
    fn a_damaged_list_of_capabilities_ends() {
        let mut config = vec![0; 4096];
        config[0x100..0x104].copy_from_slice(&0x1001_0001_u32.to_le_bytes());
        assert_eq!(acs_control(&config), Ok(None));
        config[0x102..0x104].copy_from_slice(&0xfff0_u16.to_le_bytes());
        assert_eq!(acs_control(&config), Ok(None));
    }

    #[test]
    fn vmd_domains_are_recognised() {
        assert!(is_of_vmd("pci10000:00") && is_of_vmd("10000:01:00.0") && is_of_vmd("10001:00:02.0"));
        assert!(!is_of_vmd("pci0000:b0") && !is_of_vmd("0000:be:00.0") && !is_of_vmd("c05b:00:00.0"));
    }

    #[test]
    fn bridges_are_those_between_the_two_and_not_above_both() {
        let names = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
        let pair = Pair {
            gpu: String::new(),
            disk: String::new(),
            gpu_chain: names("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"),
            disk_chain: names("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0"),
        };
        assert_eq!(pair.bridges().collect::<Vec<_>>(), ["0000:02:00.0", "0000:02:01.0"]);
    }
}
