//! Checks whether nvidia-fs is loaded at boot, which storage drivers are registered with it, and its view of bridges
//! and network cards.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::filesystem::{clients, network};
use crate::checks::judged::{Cost, Judged, Scope};
use crate::checks::kernel::iommu;
use crate::checks::nvidia_fs::failed_build;
use crate::checks::pcie::topology;
use crate::core::{CheckId, FindingFact, FixId, NVFS_STATS, Route};
use crate::machine::packages::{Family, family, known_family};
use crate::machine::{self, Message, PathFacts, Source};
use crate::text::quoted;

const NVFS: &[Route] = &[Route::Nvfs];

const MODULES: &str = "/proc/driver/nvidia-fs/modules";

pub(crate) fn autoload(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsAutoload;
    let mut files = vec!["/etc/modules".to_owned()];
    for folder in ["/etc/modules-load.d", "/usr/lib/modules-load.d", "/lib/modules-load.d"] {
        files.extend(ctx.root.entries(folder).unwrap_or_default().into_iter().map(|name| format!("{folder}/{name}")));
    }
    if files.len() == 1 && !ctx.root.exists("/etc/modules-load.d") {
        return None;
    }
    let line = files.iter().find_map(|file| {
        let text = ctx.root.read_text(file).ok()?;
        let line = text.lines().map(str::trim).find(|line| *line == "nvidia_fs" || *line == "nvidia-fs")?.to_owned();
        Some((file.clone(), line))
    });
    let judged = match line {
        Some((file, line)) => Judged::pass(ID, "nvidia-fs is loaded at boot").found(file, line),
        None => Judged::info(ID, "nvidia-fs is not loaded at boot")
            .found("/etc/modules-load.d", "no line nvidia_fs")
            .advice(Advice::run("echo nvidia_fs | sudo tee /etc/modules-load.d/nvidia_fs.conf")),
    };
    Some(judged)
}

pub(crate) fn bridges(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsBridgesAcs;
    const FILE: &str = "/proc/driver/nvidia-fs/bridges";
    let text = ctx.root.read_text(FILE).ok()?;
    let all: Vec<&str> = text.split_whitespace().filter(|word| word.contains(':')).collect();
    // nvidia-fs lists the bridges above all NVMe disks and network cards.
    let between = topology::bridges_between(ctx);
    let is_between = |bridge: &&str| between.as_ref().is_none_or(|between| between.contains(*bridge));
    let list: Vec<&str> = all.iter().copied().filter(is_between).collect();
    if all.is_empty() {
        return Some(Judged::pass(ID, "no bridge with ACS").found(FILE, "empty"));
    }
    if list.is_empty() {
        let others = all.iter().take(16).copied().collect::<Vec<_>>().join(" ");
        return Some(Judged::pass(ID, "no bridge between GPU and disk has ACS").found(FILE, others));
    }
    let have = if list.len() == 1 { "bridge has" } else { "bridges have" };
    let judged =
        Judged::warn(ID, format!("{} PCIe {have} ACS on: transfers may go through the root complex", list.len()))
            .found(FILE, list.iter().take(16).copied().collect::<Vec<_>>().join(" "));
    // The kernel switches ACS on for an IOMMU.
    let judged = if iommu::translates(ctx) {
        judged.cause(CheckId::IommuState)
    } else {
        judged.advice(
            "Disable ACS in the firmware, or with pci=disable_acs_redir= only for the bridges between GPU and disk.",
        )
    };
    Some(list.iter().fold(judged, |judged, bridge| judged.fact(FindingFact::Bridge((*bridge).to_owned()))))
}

pub(crate) fn distances(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsPeerDistance;
    const FILE: &str = "/proc/driver/nvidia-fs/peer_distance";
    let text = ctx.root.read_text(FILE).ok()?;
    let rows: Vec<(&str, &str, u32)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (gpu, peer, _, distance) = (words.next()?, words.next()?, words.next()?, words.next()?);
            Some((gpu, peer, u32::from_str_radix(distance.strip_prefix("0x")?, 16).ok()?))
        })
        .collect();
    let nearest = rows.iter().min_by_key(|(.., distance)| *distance)?;
    let near = rows.iter().filter(|(.., distance)| *distance < 0x7f).count();
    let summary = if near == rows.len() {
        "all pairs of GPU and peer are below one root port".to_owned()
    } else {
        format!("{near} of {} pairs of GPU and peer are below one root port", rows.len())
    };
    Some(
        Judged::info(ID, summary)
            .found(FILE, format!("nearest: {} and {}, distance {:#x}", nearest.0, nearest.1, nearest.2)),
    )
}

/// The name of a file system in nvidia-fs's list of modules, and a symbol of its client.
fn client(filesystem: &str) -> Option<(&'static str, &'static str)> {
    match filesystem {
        "lustre" => Some(("lnet", "lustre_v1_register_nvfs_dma_ops")),
        "beegfs" | "fhgfs" => Some(("beegfs", "beegfs_v1_register_nvfs_dma_ops")),
        "scatefs" => Some(("scatefs", "scatefs_register_nvfs_dma_ops")),
        "nfs" | "nfs4" => Some(("rpcrdma", "rpcrdma_register_nvfs_dma_ops")),
        _ => None,
    }
}

/// Whether VAST's NFS client is loaded.
fn is_vast(ctx: &Context<'_>) -> bool {
    ctx.root.read_text("/sys/module/sunrpc/version").is_ok_and(|version| version.contains("vast"))
}

/// How to get VAST's NFS client. It is built on the machine, for the running kernel and its OFED (VAST NFS, Package
/// download, Source build and Installation). The host of a container can be of another distribution than its image.
fn vast_client(ctx: &Context<'_>) -> Advice {
    const BUILD: &str = "mkdir vastnfs && cd vastnfs && curl -fsSO https://vast-nfs.s3.amazonaws.com/download.sh && bash download.sh && tar xf vastnfs-*.tar.xz && cd vastnfs-*/ && ./build.sh bin";
    let is_known = known_family(ctx.root) && machine::container(ctx.root).is_none();
    let install = match family(ctx.root) {
        Family::Debian if is_known => "sudo apt-get install ./dist/vastnfs-*.deb && sudo update-initramfs -u",
        Family::RedHat if is_known => "sudo dnf install ./dist/vastnfs-[1-9]*.rpm && sudo dracut -f",
        _ => return Advice::from("For a server of VAST, build the client of VAST instead (vastnfs.vastdata.com)."),
    };
    Advice::from("For a server of VAST, build the client of VAST instead: ")
        .command(format!("{BUILD} && {install}"))
        .text(". After a reboot, `vastnfs-ctl status` shows its version.")
}

const OFED_HEADERS: &str = "/usr/src/ofa_kernel/default/include";

/// The directory with nv-p2p.h of the loaded driver. DKMS keeps the source of a package in /usr/src/NAME-VERSION, and the
/// packages of the driver have several names: nvidia, nvidia-open, nvidia-srv.
fn driver_source(ctx: &Context<'_>) -> String {
    let version = machine::Driver::of(ctx.root).version.unwrap_or_else(|| "VERSION".to_owned());
    let rows = machine::dkms_rows(ctx.root).into_iter().filter(|row| row.is_driver() && row.version == version);
    let mut names: Vec<String> = rows.map(|row| format!("{}-{version}", row.name)).collect();
    let sources = ctx.root.entries("/usr/src").unwrap_or_default();
    names.extend(
        sources.into_iter().filter(|name| name.starts_with("nvidia-") && name.ends_with(&format!("-{version}"))),
    );
    let has_header = |name: &&String| ctx.root.exists(format!("/usr/src/{name}/nvidia/nv-p2p.h"));
    let name = names.iter().find(has_header).or(names.first()).cloned();
    format!("/usr/src/{}/nvidia", name.unwrap_or_else(|| format!("nvidia-{version}")))
}

/// How to get a client that is built for GDS. BeeGFS is built on the host, with the headers of OFED, nvidia-fs and the
/// driver, and with the file config-host.h, which the configure of nvidia-fs writes
/// (https://doc.beegfs.io/latest/advanced_topics/gds_support.html).
fn client_for_gds(ctx: &Context<'_>, filesystem: &str, facts: &PathFacts) -> Advice {
    match filesystem {
        "lustre" => network::lustre_client(facts),
        "beegfs" | "fhgfs" => {
            let module = machine::nvidia_fs_installed(ctx.root).unwrap_or_else(|| "VERSION".to_owned());
            const FILE: &str = "/etc/beegfs/beegfs-client-autobuild.conf";
            let config = ctx.root.read_text(FILE).unwrap_or_default();
            let args = config.lines().find(|line| line.trim_start().starts_with("buildArgs")).unwrap_or_default();
            let source = format!("/usr/src/nvidia-fs-{module}");
            let paths = [
                format!("OFED_INCLUDE_PATH={OFED_HEADERS}"),
                format!("NVFS_INCLUDE_PATH={source}"),
                format!("NVIDIA_INCLUDE_PATH={}", driver_source(ctx)),
            ];
            let is_new = |path: &&String| path.split('=').next().is_some_and(|name| !args.contains(name));
            let paths: Vec<&str> = paths.iter().filter(is_new).map(String::as_str).collect();
            let has_ofed = network::has_ofed(ctx) || args.contains("OFED_INCLUDE_PATH");
            let has_nvfs = machine::nvidia_fs_installed(ctx.root).is_some();
            let mut advice = Advice::from(match (has_ofed, has_nvfs) {
                (true, true) => "",
                (false, true) => "Install DOCA or MLNX_OFED first. ",
                (true, false) => "Install nvidia-fs first. ",
                (false, false) => "Install DOCA or MLNX_OFED, and then nvidia-fs. ",
            });
            // DKMS runs configure only in its own copy of the source.
            if !ctx.root.exists(format!("{source}/config-host.h")) {
                advice = advice
                    .text("Run ")
                    .command(format!("cd {source} && sudo ./configure"))
                    .text(", which writes config-host.h for the build. ");
            }
            if !paths.is_empty() {
                advice = advice.text(format!("Add `{}` to buildArgs in {FILE}. ", paths.join(" ")));
            }
            advice
                .text(clients::stop_programs(facts))
                .text("Then run ")
                .command("sudo /etc/init.d/beegfs-client rebuild && sudo systemctl restart beegfs-client")
        }
        "nfs" | "nfs4" if machine::mlnx_ofed(ctx.root).is_some() => {
            let client = machine::mlnx_ofed(ctx.root).map(|ofed| super::nvme_hook::from_ofed(&ofed, "mlnx-nfsrdma"));
            format!(
                "Install an NFS client that registers with nvidia-fs: {}. Then unmount and reboot.",
                client.unwrap_or_default()
            )
            .into()
        }
        "nfs" | "nfs4" => {
            // The modules in Red Hat's packages are compiled in earlier releases.
            let older = if family(ctx.root) == Family::RedHat { " (before 3.2 kmod-mlnx-nfsrdma)" } else { "" };
            Advice::from(format!(
                "Install an NFS client that registers with nvidia-fs: mlnx-nfsrdma-dkms{older} with doca-ofed of DOCA. "
            ))
            .and(vast_client(ctx))
        }
        _ => format!("Install a client of {filesystem} that its vendor built for GPUDirect Storage.").into(),
    }
}

/// The file of rpcrdma that modprobe loads, if it is not in the kernel's own directory. It has the client for GDS.
fn installed_client(ctx: &Context<'_>) -> Option<(String, String)> {
    let release = machine::kernel_release(ctx.root)?;
    let list = format!("/lib/modules/{release}/modules.dep");
    let text = ctx.root.read_text(&list).ok()?;
    let file = text.lines().filter_map(|line| line.split(':').next()).find(|path| {
        let is_added = ["updates/", "extra/", "weak-updates/"].iter().any(|folder| path.starts_with(folder));
        is_added && path.rsplit('/').next().is_some_and(|name| name.starts_with("rpcrdma.ko"))
    })?;
    Some((list, file.to_owned()))
}

/// The finding for an installed client of NFS without its hook in the kernel: a mount over RDMA loads it, unless the
/// client of the kernel is loaded.
fn of_installed_client(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    const ID: CheckId = CheckId::NvfsRegistered;
    const LOADED: &str = "/sys/module/rpcrdma";
    let (list, file) = installed_client(ctx).unwrap_or_default();
    if !ctx.root.exists(LOADED) {
        return Judged::pass(ID, "the client of NFS for GDS is installed, and a mount over RDMA loads it")
            .found(list, file);
    }
    let point = facts.mount_point.as_ref().map_or_else(|| "MOUNT".to_owned(), |point| point.display().to_string());
    Judged::lack(ID, "the client of NFS for GDS is installed, but that of the kernel is loaded")
        .found(list, file)
        .found(LOADED, "exists")
        .missing(Cost::Reboot, NVFS)
        .by_hand()
        .advice(
            Advice::from(format!("Stop the programs that use {point}. Then run "))
                .command(format!("sudo umount {} && sudo reboot", quoted(&point))),
        )
}

/// The client of DOCA or MLNX_OFED for NFS over RDMA, if DKMS has it for other kernels only.
fn nfs_to_build(ctx: &Context<'_>) -> Option<Judged> {
    let release = machine::kernel_release(ctx.root)?;
    let modules = machine::ofed_module_to_build(ctx.root, "mlnx-nfsrdma", &release);
    if let Some(judged) = failed_build::failed(ctx, CheckId::NvfsRegistered, &modules, "") {
        return Some(judged);
    }
    let others: Vec<String> = machine::dkms_rows(ctx.root)
        .into_iter()
        .filter(|row| row.name == "mlnx-nfsrdma")
        .map(|row| row.kernel.map_or_else(|| "no kernel".to_owned(), |kernel| format!("{kernel}: {}", row.state)))
        .collect();
    (!modules.is_empty()).then(|| {
        Judged::lack(
            CheckId::NvfsRegistered,
            format!("mlnx-nfsrdma, the NFS client for GDS, is not built for the running kernel {release}"),
        )
        .found("dkms status", format!("mlnx-nfsrdma for {}", others.join(", ")))
        .missing(Cost::Reboot, NVFS)
        .advice(
            Advice::from("Run ")
                .command_and_initramfs(ctx.root, &failed_build::builds(ctx, &modules, &release))
                .text(", then reboot. The mount itself is right."),
        )
    })
}

/// The driver nvme_rdma has no hook. It is in the package of DOCA's NVMe driver, and nvidia-fs is built after it.
fn nvme_rdma_without_hook(ctx: &Context<'_>, symbol: &str) -> Judged {
    const DRIVER: &str = "DOCA with mlnx-nvme-dkms, or MLNX_OFED with --with-nvmf --enable-gds";
    let driver = machine::mlnx_ofed(ctx.root)
        .map_or_else(|| DRIVER.to_owned(), |ofed| super::nvme_hook::from_ofed(&ofed, "mlnx-nvme"));
    Judged::lack(CheckId::NvfsNvmeSymbol, "the driver nvme_rdma is not built for GDS")
        .found("/proc/kallsyms", format!("no {symbol}"))
        .missing(Cost::System, NVFS)
        .fix(FixId::NvmePatch)
        .advice(format!("Install {driver}, then reboot."))
}

/// The finding for a client that is built for GDS but not registered. nvidia-fs looks for clients when the first program
/// opens its device, and lists them while the device is open. Kernels from 6.6 on, and earlier ones with that change,
/// give a module only symbols that are exported for the GPL (ThinkParQ/beegfs#123, NVIDIA/NV-Kernels#13).
fn unregistered(
    ctx: &Context<'_>,
    (name, symbol): (&str, &str),
    filesystem: &str,
    is_list_readable: bool,
) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsRegistered;
    const REFUSED: &str = "failing symbol_get of non-gplonly symbol";
    let is_complete = is_list_readable && ctx.root.opens("/dev/nvidia-fs0").is_ok();
    let log = machine::kernel_log(ctx.root).unwrap_or_default();
    let refused = log.of(Source::NvidiaFs).rev().find(|message| message.has(&[REFUSED, symbol]));
    let judged = if let Some(message) = refused {
        let summary =
            format!("nvidia-fs cannot register the client of {filesystem}: the kernel does not give it the symbol");
        Judged::lack(ID, summary)
            .found(machine::KERNEL_LOG, &message.line)
            .missing(Cost::System, NVFS)
            .by_hand()
            .advice(match filesystem {
                "beegfs" | "fhgfs" => "Update BeeGFS to 8.5 or later on the servers and here. Build its client with the same include paths, then reboot.".to_owned(),
                "nfs" | "nfs4" => "Update the NFS client for GDS to its latest release, then reboot: mlnx-nfsrdma of DOCA, or the client of VAST.".to_owned(),
                _ => format!("Update the client of {filesystem} to a release for this kernel, then reboot."),
            })
    } else if is_complete {
        Judged::lack(ID, format!("the client of {filesystem} is built for GDS, but not registered with nvidia-fs"))
            .missing(Cost::Root, NVFS)
            .by_hand()
            .advice("Stop the programs that `sudo fuser -v /dev/nvidia-fs*` lists, then start them again: nvidia-fs looks for clients only when the first one opens it. If that does not help, update nvidia-fs.")
    } else {
        return None;
    };
    let judged = judged.found("/proc/kallsyms", symbol).explaining();
    Some(if is_complete {
        judged.found(MODULES, format!("no line {name}, while /dev/nvidia-fs0 was held open"))
    } else {
        judged
    })
}

/// Checks whether the storage drivers of the paths are registered with nvidia-fs. A client that is not built for it is
/// found before nvidia-fs is loaded.
pub(crate) fn registered(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::NvfsRegistered;
    let mut out = Vec::new();
    let listed = ctx.root.read_text(MODULES);
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let filesystem = facts.filesystem.as_deref().unwrap_or("");
        let remote = client(filesystem);
        let disks = machine::disks(facts);
        let fabric = machine::nvme_transports(ctx.root, facts).iter().any(|kind| kind == "rdma");
        let local = disks.iter().any(|disk| disk.name.starts_with("nvme"));
        let device = machine::vendor_driver(facts)
            .map(|driver| (driver.name, driver.symbol))
            .or(fabric.then_some(("nvme_rdma", "nvme_rdma_v1_register_nvfs_dma_ops")));
        let remote = remote.or(device);
        let Some((name, symbol)) = remote.or(local.then_some(("nvme", ""))) else { continue };
        let filesystem = if device.is_some() { name } else { filesystem };
        let line =
            listed.as_ref().ok().and_then(|text| text.lines().find(|line| line.starts_with(&format!("{name}:"))));
        let judged = if let Some(line) = line {
            Judged::pass(ID, format!("{name} is registered with nvidia-fs")).found(MODULES, line)
        } else if remote.is_some() {
            match ctx.root.symbols() {
                Ok(symbols) if symbols.contains(symbol) => {
                    unregistered(ctx, (name, symbol), filesystem, listed.is_ok()).unwrap_or_else(|| {
                        Judged::pass(ID, format!("the client of {filesystem} is built for GDS"))
                            .found("/proc/kallsyms", symbol)
                    })
                }
                Ok(_) if subject.unmounted.is_some() => Judged::na(
                    ID,
                    format!("the client of {filesystem} is not loaded, so its build for GDS is not known"),
                )
                .found("/proc/kallsyms", format!("no {symbol}"))
                .unknown(NVFS),
                Ok(_) if name == "nvme_rdma" => nvme_rdma_without_hook(ctx, symbol),
                // A mount over TCP does not load the module. VAST's client names itself in the version of sunrpc.
                Ok(_) if name == "rpcrdma" && is_vast(ctx) => continue,
                Ok(_) if name == "rpcrdma" && installed_client(ctx).is_some() => {
                    of_installed_client(ctx, facts).found("/proc/kallsyms", format!("no {symbol}"))
                }
                Ok(_) => match nfs_to_build(ctx).filter(|_| name == "rpcrdma") {
                    Some(judged) => judged.found("/proc/kallsyms", format!("no {symbol}")),
                    None => {
                        let judged = Judged::lack(ID, format!("the client of {filesystem} is not built for GDS"))
                            .found("/proc/kallsyms", format!("no {symbol}"))
                            .missing(Cost::System, NVFS)
                            .fixes((name == "rpcrdma").then_some(FixId::NfsRdmaClient));
                        let is_old = || network::lustre_version(ctx).is_some_and(|(v, _)| network::is_old_lustre(&v));
                        if filesystem == "lustre" && is_old() {
                            judged.cause(CheckId::DfsClientVersion)
                        } else {
                            judged.advice(client_for_gds(ctx, filesystem, facts))
                        }
                    }
                },
                Err(why) => {
                    Judged::na(ID, format!("it is not visible whether the client of {filesystem} is built for GDS"))
                        .unread("/proc/kallsyms", &why)
                        .unknown(NVFS)
                }
            }
        } else {
            let Ok(text) = &listed else { continue };
            if ctx.root.opens("/dev/nvidia-fs0").is_err() {
                continue;
            }
            let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Judged::lack(ID, "the NVMe driver is not registered with nvidia-fs")
                .found(MODULES, if said.is_empty() { "empty".to_owned() } else { said })
                .missing(Cost::System, NVFS)
                .cause(CheckId::NvfsNvmeSymbol)
        };
        out.push(judged.of(Scope::Path(number)));
    }
    out
}

/// The evidence that libcufile registers GPU memory with dma-buf, which needs no kernel module.
fn by_dma_buf(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    if ctx.config().text("properties.rdma_peer_type") == Some("dmabuf") {
        return Some(("cufile.json", "properties.rdma_peer_type \"dmabuf\"".to_owned()));
    }
    let value = ctx.root.variable("CUFILE_DMABUF_ENABLE")?;
    value.eq_ignore_ascii_case("true").then(|| ("environment", format!("CUFILE_DMABUF_ENABLE={value}")))
}

/// Whether a GPU may support dma-buf: none reports that it does not.
fn may_use_dma_buf(ctx: &Context<'_>) -> bool {
    let denies = |gpu: &machine::NvmlGpu| gpu.attributes.as_ref().and_then(|a| a.dma_buf) == Some(false);
    !ctx.root.nvml().gpus.iter().any(denies)
}

/// Why the kernel rejected nvidia_peermem (gpu-operator#2868, nv_peer_memory#63 and #84, nccl#1939). Loading it again
/// does not help.
fn peermem_refused(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsPeermem;
    const SYMBOL: &str = "ib_register_peer_memory_client";
    let log = machine::kernel_log(ctx.root).unwrap_or_default();
    let is_meant = |message: &&Message| {
        let has = |part: &str| message.text.contains(part);
        has(SYMBOL) && (has("peer_mem") || has("peermem"))
    };
    let line = log.of(Source::Nvidia).find(is_meant).map(|message| message.line.clone());
    // ib_core of the kernel has no such symbol, so the module fails with EINVAL and the log says nothing about it.
    let symbols = ctx.root.symbols().unwrap_or_default();
    let has_no_interface = symbols.contains("ib_register_client") && !symbols.contains(SYMBOL);
    let is_of_another = |line: &String| line.contains("disagrees about version") || line.contains("(err -22)");
    let judged = if line.as_ref().is_some_and(is_of_another) && !has_no_interface {
        Judged::lack(ID, "nvidia_peermem was built for another InfiniBand stack than the loaded one")
            .advice(build_driver_again(
                ctx,
                "DOCA or MLNX_OFED was installed after the driver, so build its modules again: ",
            ))
            .missing(Cost::Root, &[Route::Rdma])
    } else if line.is_some() || has_no_interface {
        Judged::lack(ID, "nvidia_peermem cannot load: this InfiniBand stack has no interface for it")
            // The commands help only after the installation, so they are not offered as the command of the finding.
            .advice(build_driver_again(
                ctx,
                "In place of the RDMA drivers of the distribution, install DOCA (doca-ofed) or MLNX_OFED and reboot. Then build the driver again: ",
            ).plain())
            .missing(Cost::Install, &[Route::Rdma])
    } else {
        return None;
    };
    let judged = if has_no_interface { judged.found("/proc/kallsyms", format!("no {SYMBOL}")) } else { judged };
    Some(
        match line {
            Some(line) => judged.found(machine::KERNEL_LOG, line),
            None => judged,
        }
        .only_warn(),
    )
}

/// How to build the modules of the driver again, after the InfiniBand stack changed below them.
fn build_driver_again(ctx: &Context<'_>, first: &'static str) -> Advice {
    let advice = Advice::from(first);
    let row = machine::dkms_rows(ctx.root).into_iter().find(machine::DkmsRow::is_driver);
    // Without the list of DKMS, the name is that of NVIDIA's packages.
    let named = row.map(|row| (row.name, row.version));
    let named = named.or_else(|| Some(("nvidia".to_owned(), machine::nvidia_driver(ctx.root)?)));
    let advice = match named.zip(machine::kernel_release(ctx.root)) {
        Some(((name, version), kernel)) => advice
            .command(format!("{} && sudo modprobe nvidia-peermem", machine::build_again(&name, &version, &kernel)))
            .text(" (a driver without DKMS: install it again, then load nvidia-peermem)"),
        None => advice.text("install the driver again, then load nvidia-peermem"),
    };
    if !may_use_dma_buf(ctx) {
        return advice.text(".");
    }
    advice.text(". Or use dma-buf without the module, if the storage client supports it: set properties.rdma_peer_type to \"dmabuf\".")
}

/// nvidia-fs registers the memory of Storage Scale with the InfiniBand stack only if it was built after DOCA or MLNX_OFED
/// (NVIDIA's guide on Spectrum Scale).
pub(crate) fn peer_direct(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsPeerdirect;
    let mut kinds = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()?.filesystem.as_deref());
    kinds.find(|kind| matches!(*kind, "gpfs" | "mmfs"))?;
    let text = ctx.root.read_text(NVFS_STATS).ok()?;
    let line = text.lines().map(str::trim).find(|line| line.starts_with("Mellanox PeerDirect Supported:"))?.to_owned();
    if !line.ends_with("False") {
        return Some(Judged::pass(ID, "nvidia-fs was built with PeerDirect").found(NVFS_STATS, line));
    }
    let build = machine::nvidia_fs_builds(ctx.root)
        .into_iter()
        .next()
        .zip(machine::kernel_release(ctx.root))
        .map(|(row, kernel)| machine::build_again(&row.name, &row.version, &kernel));
    let advice = Advice::from("Build nvidia-fs again now that DOCA or MLNX_OFED is installed: ");
    let advice = match build {
        Some(build) => advice.command(build),
        None => advice.text("install its package again"),
    };
    Some(
        Judged::lack(ID, "nvidia-fs was built before DOCA or MLNX_OFED, without PeerDirect")
            .found(NVFS_STATS, line)
            .missing(Cost::Root, &[Route::Rdma])
            .advice(
                advice
                    .text(". Then stop Storage Scale on this node (mmshutdown), ")
                    .command("sudo modprobe -r nvidia_fs && sudo modprobe nvidia_fs")
                    .text(", and start it (mmstartup)."),
            ),
    )
}

/// Checks the module that user-space RDMA clients need, if a path is on such a file system.
pub(crate) fn peermem(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsPeermem;
    let mut kinds = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()?.filesystem.as_deref());
    let kind = kinds.find(|kind| matches!(*kind, "gpfs" | "mmfs" | "wekafs"))?;
    // Without a card that libcufile can use, the module has no effect.
    if machine::rdma_without_mlx5(ctx.root).is_some() {
        return None;
    }
    let name = ["nvidia_peermem", "nv_peer_mem"].into_iter().find(|name| {
        ctx.root.exists(format!("/sys/module/{name}"))
            || ctx
                .root
                .read_text("/proc/modules")
                .is_ok_and(|text| text.lines().any(|l| l.split(' ').next() == Some(*name)))
    });
    let refused = peermem_refused(ctx).filter(|_| name.is_none());
    let judged = match (name, by_dma_buf(ctx)) {
        (Some(name), _) => Judged::pass(ID, format!("{name} is loaded")).found("/proc/modules", name),
        (None, Some((source, text))) => {
            Judged::pass(ID, "nvidia_peermem is not loaded and not needed: libcufile uses dma-buf").found(source, text)
        }
        (None, None) if refused.is_some() => refused?,
        (None, None) => Judged::lack(ID, format!("nvidia_peermem is not loaded, but {kind} uses it"))
            .found("/proc/modules", "neither nvidia_peermem nor nv_peer_mem")
            .missing(Cost::Root, &[Route::Rdma])
            .only_warn()
            .advice(
                Advice::run("sudo modprobe nvidia-peermem && echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf")
                    .text(if may_use_dma_buf(ctx) { ", or set properties.rdma_peer_type to \"dmabuf\"." } else { "." }),
            ),
    };
    Some(judged)
}
