//! The clients of IBM Storage Scale and BeeGFS: whether they support GPUDirect Storage, and whether they use RDMA.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::filesystem::network;
use crate::checks::judged::{Cost, Judged};
use crate::core::{CheckId, Route};
use crate::machine::{self, PathFacts};
use crate::text::quoted;

/// The oldest client of Storage Scale with GDS (NVIDIA's guide and IBM's documentation; 5.1.1 was a technical preview).
pub(crate) const SCALE_SINCE: &str = "5.1.2";
const BEEGFS: &str = "/proc/fs/beegfs";

/// Whether the client of Storage Scale is built for GDS. `None` if its kernel module is not visible. nvidia-fs looks up
/// a symbol of mmfslinux.
pub(crate) fn scale(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::DfsClientVersion;
    const MODULE: &str = "mmfslinux";
    const SYMBOL: &str = "ibm_scale_v1_register_nvfs_dma_ops";
    const REGISTERED: &str = "/proc/driver/nvidia-fs/modules";
    let lists = |path: &str, end: char| {
        let text = ctx.root.read_text(path).unwrap_or_default();
        text.lines().find(|line| line.split(end).next() == Some(MODULE)).map(str::to_owned)
    };
    if let Some(line) = lists(REGISTERED, ':') {
        let judged = scale_settings(ctx, "the client of Storage Scale is registered with nvidia-fs");
        return Some(judged.found(REGISTERED, line));
    }
    lists("/proc/modules", ' ')?;
    let symbols = ctx.root.symbols().ok()?;
    if symbols.contains(SYMBOL) {
        let judged = scale_settings(ctx, "the client of Storage Scale is built for GDS");
        return Some(judged.found("/proc/kallsyms", SYMBOL));
    }
    let judged = Judged::lack(ID, format!("the client of Storage Scale has no GDS: it is older than {SCALE_SINCE}"))
        .found("/proc/kallsyms", format!("no {SYMBOL}, although {MODULE} is loaded"))
        .missing(Cost::System, &[Route::Rdma])
        .advice(upgrade_scale());
    let package = machine::deb_packages(ctx.root).into_iter().find(|package| package.name == "gpfs.base");
    Some(match package {
        Some(package) => judged.found("/var/lib/dpkg/status", format!("gpfs.base {}", package.version)),
        None => judged,
    })
}

/// The value of a setting of Storage Scale on this node.
enum ScaleSetting {
    On,
    /// The line that switches it off, or that there is none.
    Off(String),
    /// It is set for other nodes or for a class of nodes, which may include this one.
    Unknown,
}

/// A setting of Storage Scale in the text of [`SCALE_FILE`]: lines `KEY VALUE`. After a line `[NODE,NODE]` they are for
/// these nodes, and after `[common]` for all.
fn scale_setting(text: &str, host: &str, key: &str) -> ScaleSetting {
    let short = |name: &str| name.trim().split('.').next().unwrap_or_default().to_owned();
    let (mut of_all, mut of_node, mut is_elsewhere) = (None, None, false);
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(names) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            names.clone_into(&mut section);
        } else if line.split_whitespace().next() == Some(key) {
            let is_mine = !host.is_empty() && section.split(',').any(|name| short(name) == short(host));
            match section.as_str() {
                "" | "common" => of_all = Some(line),
                _ if is_mine => of_node = Some(line),
                _ => is_elsewhere = true,
            }
        }
    }
    let is_on = |line: &str| {
        let value = line.split_whitespace().nth(1).unwrap_or_default();
        ["yes", "enable", "enabled"].iter().any(|on| value.eq_ignore_ascii_case(on))
    };
    match of_node.or(of_all) {
        Some(line) if is_on(line) => ScaleSetting::On,
        _ if is_elsewhere && of_node.is_none() => ScaleSetting::Unknown,
        Some(line) => ScaleSetting::Off(line.to_owned()),
        None => ScaleSetting::Off(format!("no line {key}, which is off by default")),
    }
}

/// The settings of this node. The commands of Storage Scale write the file.
const SCALE_FILE: &str = "/var/mmfs/gen/mmfs.cfg";

/// Whether the settings of Storage Scale enable GDS, with the summary if they do. They are off by default, and IBM
/// requires that Storage Scale is stopped on all nodes for a change (Configuring GPUDirect Storage for IBM Storage Scale).
fn scale_settings(ctx: &Context<'_>, summary: &str) -> Judged {
    const ID: CheckId = CheckId::DfsClientVersion;
    const NEEDED: [(&str, &str); 2] = [("verbsRdma", "enable"), ("verbsGPUDirectStorage", "yes")];
    let ask = Advice::run(format!("{BIN}/mmlsconfig verbsGPUDirectStorage"))
        .text(", which must show yes on this node, because the setting is off by default.");
    let hidden = || Judged::na(ID, "it is not visible whether the settings of Storage Scale enable GDS");
    let text = match ctx.root.read_text(SCALE_FILE) {
        Ok(text) => text,
        Err(why) => return hidden().unread(SCALE_FILE, &why).unknown(&[Route::Rdma]).advice(ask),
    };
    let host = ctx.root.read_text("/proc/sys/kernel/hostname").unwrap_or_default();
    let (mut off, mut lines, mut is_unknown) = (Vec::new(), Vec::new(), false);
    for (key, value) in NEEDED {
        match scale_setting(&text, host.trim(), key) {
            ScaleSetting::On => {}
            ScaleSetting::Unknown => is_unknown = true,
            ScaleSetting::Off(line) => {
                off.push(format!("{key}={value}"));
                lines.push(line);
            }
        }
    }
    if off.is_empty() && is_unknown {
        return hidden().found(SCALE_FILE, "set for other nodes").unknown(&[Route::Rdma]).advice(ask);
    }
    if off.is_empty() {
        return Judged::pass(ID, summary);
    }
    let judged = Judged::lack(ID, "the settings of Storage Scale do not enable GPUDirect Storage")
        .missing(Cost::System, &[Route::Rdma])
        .by_hand()
        .advice(enable_scale(&off.join(",")));
    lines.into_iter().fold(judged, |judged, line| judged.found(SCALE_FILE, line))
}

/// How to change settings of Storage Scale: `KEY=VALUE,KEY=VALUE`.
fn enable_scale(settings: &str) -> String {
    format!(
        "Ask the administrator of the cluster to run `{BIN}/mmchconfig {settings}`. IBM requires that Storage Scale is stopped on all nodes for it (mmshutdown, then mmstartup), so plan a maintenance."
    )
}

/// The commands of Storage Scale are not in the search path of sudo.
const BIN: &str = "/usr/lpp/mmfs/bin";

fn upgrade_scale() -> String {
    format!(
        "`{BIN}/mmdiag --version` shows the client, which must be {SCALE_SINCE} or later. Stop the programs that use it, then run `sudo {BIN}/mmumount all && sudo {BIN}/mmshutdown`. Upgrade the packages gpfs.* to the level of the cluster, which `{BIN}/mmlsconfig minReleaseLevel` shows. Then run `sudo {BIN}/mmbuildgpl && sudo {BIN}/mmstartup && sudo {BIN}/mmmount all`. {}",
        enable_scale("verbsGPUDirectStorage=yes")
    )
}

/// The directory of a BeeGFS mount in /proc: that whose file of settings the mount names.
fn beegfs_folder(ctx: &Context<'_>, facts: &PathFacts) -> Option<String> {
    let wanted = facts.option_value("cfgFile");
    let is_meant = |folder: &String| {
        let config = ctx.root.read_text(format!("{folder}/config")).unwrap_or_default();
        let file = setting(&config, "cfgFile");
        file.is_none() || wanted.is_none() || file.as_deref() == wanted
    };
    let names = ctx.root.entries(BEEGFS).ok()?;
    names.into_iter().map(|name| format!("{BEEGFS}/{name}")).find(is_meant)
}

/// The value of `name = value`.
fn setting(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// A mount of BeeGFS whose connections are TCP only. A direct route needs RDMA (BeeGFS: GPUDirect Storage Support).
pub(crate) fn beegfs_over_tcp(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    // Without a card, another finding asks for one.
    if network::has_rdma(ctx) == Some(false) {
        return None;
    }
    let folder = beegfs_folder(ctx, facts)?;
    let nodes = ctx.root.read_text(format!("{folder}/storage_nodes")).unwrap_or_default();
    let config = ctx.root.read_text(format!("{folder}/config")).unwrap_or_default();
    let file = facts.option_value("cfgFile").unwrap_or("/etc/beegfs/beegfs-client.conf").to_owned();
    let is_off = |value: String| matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "n" | "no");
    let is_switched_off = setting(&config, "connUseRDMA").is_some_and(is_off);
    let over_tcp = nodes.lines().map(str::trim).find(|line| line.contains("TCP:")).map(str::to_owned);
    if nodes.contains("RDMA:") || !(is_switched_off || over_tcp.is_some()) {
        return None;
    }
    let mut judged = Judged::lack(CheckId::FsType, "BeeGFS over TCP: a direct route needs RDMA")
        .missing(if is_switched_off { Cost::Root } else { Cost::System }, &[Route::Nvfs])
        .by_hand()
        .advice(if is_switched_off { switch_on(&file, facts) } else { give_rdma(ctx, facts) });
    if let Some(line) = over_tcp {
        judged = judged.found(format!("{folder}/storage_nodes"), line);
    }
    Some(if is_switched_off { judged.found(format!("{folder}/config"), "connUseRDMA = 0") } else { judged })
}

const CLIENT: &str = "sudo systemctl restart beegfs-client";
const TEST: &str = ". The connections of `cat /proc/fs/beegfs/*/storage_nodes` must then be RDMA.";

/// The step before a client is replaced or its mount removed.
pub(crate) fn stop_programs(facts: &PathFacts) -> String {
    match &facts.mount_point {
        Some(point) => format!("Stop the programs that use {}. ", point.display()),
        None => String::new(),
    }
}

fn switch_on(file: &str, facts: &PathFacts) -> Advice {
    let edit = format!(r"sudo sed -i 's/^[[:space:]]*connUseRDMA[[:space:]]*=.*/connUseRDMA = true/' {}", quoted(file));
    Advice::from(stop_programs(facts)).text("Then run ").command(format!("{edit} && {CLIENT}")).text(TEST)
}

/// RDMA is on, but no server or no interface offers it (BeeGFS: RDMA Support).
fn give_rdma(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    const BUILD: &str = "/etc/beegfs/beegfs-client-autobuild.conf";
    let is_built_without = ctx.root.read_text(BUILD).is_ok_and(|text| {
        text.lines().any(|line| line.trim_start().starts_with("buildArgs") && line.contains("BEEGFS_NO_RDMA=1"))
    });
    if is_built_without {
        return Advice::from(format!("Remove BEEGFS_NO_RDMA=1 from {BUILD}. {}Then run ", stop_programs(facts)))
            .command(format!("sudo /etc/init.d/beegfs-client rebuild && {CLIENT}"))
            .text(TEST);
    }
    Advice::from("Install libbeegfs-ib on the servers and restart their services. Give each InfiniBand or RoCE interface an IP address, here and on the servers. ")
        .text(stop_programs(facts))
        .text("Then run ")
        .command(CLIENT)
        .text(TEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_storage_scale_is_that_of_this_node() {
        const KEY: &str = "verbsGPUDirectStorage";
        let state = |text: &str| match scale_setting(text, "gpu01.example.org", KEY) {
            ScaleSetting::On => "on",
            ScaleSetting::Off(_) => "off",
            ScaleSetting::Unknown => "unknown",
        };
        for (text, wanted) in [
            ("", "off"),
            ("clusterName a.b\nverbsRdma enable\n", "off"),
            ("verbsGPUDirectStorage yes\n", "on"),
            ("verbsGPUDirectStorage enable\n", "on"),
            ("verbsGPUDirectStorage disable\n", "off"),
            ("[gpu01,gpu02]\nverbsGPUDirectStorage yes\n[common]\nmaxMBpS 2048\n", "on"),
            ("[gpu01]\nverbsGPUDirectStorage no\n[common]\nverbsGPUDirectStorage yes\n", "off"),
            ("[gpuNodes]\nverbsGPUDirectStorage yes\n[common]\nverbsGPUDirectStorage no\n", "unknown"),
            ("[nsdNodes]\nverbsGPUDirectStorage no\n[common]\nverbsGPUDirectStorage yes\n", "on"),
        ] {
            assert_eq!(state(text), wanted, "{text}");
        }
    }
}
