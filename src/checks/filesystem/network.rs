//! Whether NFS and Lustre can reach their servers over RDMA from this machine.

use crate::checks::advice::Advice;
use crate::checks::classes;
use crate::checks::context::Context;
use crate::machine::{self, PathFacts, PlannedMount};
use crate::text::{quoted, quoted_line};
use std::path::Path;

const DEVICES: &str = "/sys/class/infiniband";

/// The port of NFS over RDMA.
pub(crate) const RDMA_PORT: &str = "20049";

/// The vendors of network cards with InfiniBand or RoCE: NVIDIA (Mellanox), Broadcom, Intel, Chelsio.
const VENDORS: [&str; 4] = ["0x15b3", "0x14e4", "0x8086", "0x1425"];

/// Whether this machine has a network card for NFS and Lustre over RDMA: InfiniBand or RoCE. EFA and MANA are other
/// protocols. `None` if this is not visible.
pub(crate) fn has_rdma(ctx: &Context<'_>) -> Option<bool> {
    let read = |path: String| ctx.root.read_text(path).ok().map(|text| text.trim().to_owned());
    let is_infiniband = |name: &String| {
        ctx.root.entries(format!("{DEVICES}/{name}/ports")).unwrap_or_default().iter().any(|port| {
            read(format!("{DEVICES}/{name}/ports/{port}/link_layer")).is_some_and(|layer| layer == "InfiniBand")
        })
    };
    let devices = ctx.root.entries(DEVICES).unwrap_or_default();
    match classes::undocumented(ctx) {
        // EFA of Amazon, and the RoCE networks of Google that connect only GPUs. Their file services use TCP.
        Some("Amazon EC2" | "Google Cloud") => return Some(false),
        // Each virtual machine has an Ethernet card with RoCE, which reaches no storage. Only some sizes have InfiniBand.
        Some(_) => return Some(devices.iter().any(is_infiniband)),
        None => {}
    }
    if devices.iter().any(|name| !name.starts_with("efa_") && !name.starts_with("mana_")) {
        return Some(true);
    }
    if machine::container(ctx.root).is_some() {
        return None;
    }
    // The driver of a card may not be loaded. Class 0x0207 is InfiniBand, and only Mellanox cards of class 0x0200 are
    // certain to have RoCE.
    let cards = ctx.root.entries("/sys/bus/pci/devices").ok()?;
    let is_card = |address: &String| {
        let of = |part: &str| read(format!("/sys/bus/pci/devices/{address}/{part}")).unwrap_or_default();
        let (vendor, class) = (of("vendor"), of("class"));
        (class.starts_with("0x0207") && VENDORS.contains(&vendor.as_str()))
            || (class.starts_with("0x0200") && vendor == VENDORS[0])
    };
    Some(cards.iter().any(is_card))
}

/// The evidence that the machine has no such card: in a cloud, its vendor.
pub(crate) fn absent(ctx: &Context<'_>) -> (&'static str, String) {
    const VENDOR: &str = "/sys/class/dmi/id/sys_vendor";
    match classes::undocumented(ctx) {
        Some(cloud) => (VENDOR, ctx.root.read_text(VENDOR).map_or(cloud.to_owned(), |text| text.trim().to_owned())),
        None => (DEVICES, "no InfiniBand or RoCE device".to_owned()),
    }
}

/// Whether the options of an NFS mount are best kept: AWS advises against others than those of its mount helper (Amazon
/// EFS User Guide, "Recommended NFS mount options"). For TLS, the helper mounts from a proxy on this machine.
pub(crate) fn keeps_options(ctx: &Context<'_>, facts: &PathFacts) -> bool {
    let source = facts.source.as_deref().unwrap_or_default();
    let is_proxy = ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|local| source.starts_with(local));
    let is_planned =
        |planned: &PlannedMount| planned.filesystem == "efs" && Some(&planned.point) == facts.mount_point.as_ref();
    is_proxy || source.contains(".efs.") || machine::fstab_mounts(ctx.root).iter().any(is_planned)
}

/// Whether the loaded InfiniBand modules are those of DOCA or MLNX_OFED. The modules of the kernel do not fit them.
pub(crate) fn has_ofed(ctx: &Context<'_>) -> bool {
    let modules = ctx.root.read_text("/proc/modules").unwrap_or_default();
    modules.lines().any(|line| line.starts_with("mlx_compat "))
}

/// How to mount NFS over RDMA. The new mount is tested at another place before the present one is removed.
pub(crate) fn mount_over_rdma(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    const TEST: &str = "/mnt/nfs-rdma-test";
    const FIRST: &str = "The server must export NFS over RDMA. ";
    if machine::container(ctx.root).is_some_and(|container| container.runtime == "kubernetes") {
        return Advice::from(FIRST).text(
            "Set `mountOptions: [proto=rdma, port=20049]` in the PersistentVolume, and in its StorageClass if it has one. Then create the pod again, because a mounted volume keeps its options.",
        );
    }
    let Some(mut mount) = facts.mount_command(&[("proto", "rdma"), ("port", "20049")]) else {
        return Advice::from(FIRST).text("Then mount it with proto=rdma,port=20049.");
    };
    let again = quoted_line(&mount);
    let point = mount.pop().unwrap_or_default();
    mount.push(TEST.to_owned());
    let test = format!("sudo mkdir -p {TEST} && {}", quoted_line(&mount));
    // The client of the kernel cannot be loaded next to the modules of DOCA, so its client comes first.
    let test = if has_ofed(ctx) { test } else { format!("sudo modprobe rpcrdma && {test}") };
    // nvidia-fs lists the clients that registered.
    let listed = ctx.root.read_text("/proc/driver/nvidia-fs/modules").unwrap_or_default();
    let is_registered = listed.lines().any(|line| line.starts_with("rpcrdma:"));
    let stop = if is_registered { "Stop" } else { "With a client that is built for GDS, stop" };
    let place = quoted(&point);
    let last = if has_fstab_line(ctx, facts) {
        format!("Set proto=rdma,port=20049 in its line of /etc/fstab, then run `sudo mount {place}`.")
    } else {
        format!("Then run `{again}`, and set these options in /etc/fstab or in the unit that mounts it.")
    };
    Advice::from(FIRST).text("Test it at another place: ").command(test).text(format!(
        ". Only if `ls {TEST}` shows the files, go on. {stop} the programs that use {place}, and run `sudo umount {TEST} {place}`. {last}"
    ))
}

/// Whether `/etc/fstab` has a line for the mount of a path.
fn has_fstab_line(ctx: &Context<'_>, facts: &PathFacts) -> bool {
    ctx.root.read_text(machine::FSTAB).is_ok()
        && !machine::lacks_fstab_line(ctx.root, facts.mount_point.as_deref().unwrap_or(Path::new("/")))
}

/// The port of a planned mount by NFS over RDMA, if it is not that of NFS over RDMA (RFC 8267).
pub(crate) fn wrong_rdma_port(planned: &PlannedMount) -> Option<&str> {
    let is_nfs = planned.filesystem.starts_with("nfs");
    let mut options = planned.options.split(',').map(str::trim);
    let port = options.clone().find_map(|option| option.strip_prefix("port="))?;
    (is_nfs && options.any(|option| matches!(option, "rdma" | "proto=rdma")) && port != RDMA_PORT).then_some(port)
}

/// The version of the Lustre client, and its file. `None` if it could not be read.
pub(crate) fn lustre_version(ctx: &Context<'_>) -> Option<(String, &'static str)> {
    let read = |path: &'static str| Some((ctx.root.read_text(path).ok()?, path));
    let (text, path) = ["/sys/fs/lustre/version", "/proc/fs/lustre/version"].into_iter().find_map(read)?;
    Some((text.trim().trim_start_matches("lustre:").trim().to_owned(), path))
}

/// Whether a version of the Lustre client is from before GDS (gdscheck -V and the GDS README).
pub(crate) fn is_old_lustre(version: &str) -> bool {
    machine::version_numbers(version) < vec![2, 12, 3]
}

/// How to get a Lustre client with GDS. LU-14798 is in Lustre 2.15. gdscheck -V names the version of EXAScaler.
pub(crate) fn lustre_client(facts: &PathFacts) -> Advice {
    let point = facts.mount_point.as_ref().map_or_else(|| "MOUNT".to_owned(), |point| point.display().to_string());
    Advice::from("Install a Lustre client with GPUDirect Storage, built for this kernel and its OFED: 2.15 or later, or 2.12.3_ddn28 or later of DDN EXAScaler. Its servers must support it. Before, stop the programs that use the mount, and run ")
        .command(format!("sudo umount {} && sudo lustre_rmmod", quoted(&point)))
        .text(". Then mount it again.")
}

/// How to mount FSx for Lustre over EFA
/// (https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html). The script sets options of modules,
/// so these are unloaded before. The address of the mount stays: LNet finds EFA.
pub(crate) fn efa(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    const CLIENT: &str = "configure-efa-fsx-lustre-client";
    let point = facts.mount_point.as_ref().map_or_else(|| "MOUNT".to_owned(), |point| point.display().to_string());
    let place = quoted(&point);
    let mount = facts.mount_command(&[]).filter(|_| !has_fstab_line(ctx, facts));
    let mount = mount.map_or_else(|| format!("sudo mount {place}"), |argv| quoted_line(&argv));
    Advice::run("aws fsx describe-file-systems --query 'FileSystems[].[FileSystemId,LustreConfiguration.EfaEnabled]'")
        .text(format!(". If EFA is enabled, stop the programs that use {place}, then run "))
        .command(format!(
            "sudo umount {place} && sudo lustre_rmmod && curl -O https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/{CLIENT}.zip && unzip -o {CLIENT}.zip && (cd {CLIENT} && sudo ./setup.sh --optimized-for-gds) && {mount}"
        ))
        .text(". Otherwise create a file system with EFA, which cannot be added later.")
}

/// How to reach a Lustre file system over InfiniBand or RoCE (Lustre Operations Manual, Configuring LNet). LNet gets the
/// network before the file system is unmounted, so that its servers can be tested.
pub(crate) fn lnet(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    let names = |folder: String| ctx.root.entries(folder).unwrap_or_default();
    let of_cards = names(DEVICES.to_owned()).into_iter().flat_map(|card| names(format!("{DEVICES}/{card}/device/net")));
    let interface = of_cards
        .chain(names("/sys/class/net".to_owned()).into_iter().filter(|name| name.starts_with("ib")))
        .next()
        .unwrap_or_else(|| "INTERFACE".to_owned());
    let point = facts.mount_point.as_ref().map_or_else(String::new, |point| point.display().to_string());
    Advice::from("Ask the administrator of the servers for their addresses at o2ib (`lctl list_nids`). Add this network to LNet: ")
        .command(format!("sudo modprobe ko2iblnd && sudo lnetctl net add --net o2ib --if {interface}"))
        .text(format!(
            ". If `sudo lnetctl ping ADDRESS@o2ib` answers, set `options lnet networks=\"o2ib({interface})\"` in /etc/modprobe.d. Stop the programs that use {point}, unmount it, and run `sudo lustre_rmmod`. Then mount it by ADDRESS@o2ib, in /etc/fstab too."
        ))
}
