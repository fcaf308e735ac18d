//! The ports of RDMA devices, and how a port that is not active becomes active.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::machine::packages::{Family, dnf, family, known_family};
use crate::machine::{self, Root};

const TOP: &str = machine::RDMA_DEVICES;

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Its directory: `/sys/class/infiniband/mlx5_0/ports/1`.
    pub(super) folder: String,
    /// Its state: `4: ACTIVE`, `2: INIT`, `1: DOWN`.
    pub(super) state: String,
    /// The state of its link: `5: LinkUp`, `2: Polling`, `3: Disabled`. Empty if it is not known.
    link: String,
}

/// The things that a port needs to be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A subnet manager. The link works, and the fabric has none that configures the port.
    Manager,
    /// A link.
    Link,
    /// An administrator who enables it again.
    Enabled,
}

impl Port {
    pub(super) fn is_active(&self) -> bool {
        self.state.contains("ACTIVE")
    }

    /// The file with its state.
    pub(super) fn file(&self) -> String {
        format!("{}/state", self.folder)
    }

    /// The name of its device: `mlx5_0`.
    pub(super) fn device(&self) -> &str {
        let rest = self.folder.strip_prefix(TOP).unwrap_or(&self.folder).trim_start_matches('/');
        rest.split('/').next().unwrap_or(rest)
    }

    /// The device and the number: `mlx5_0 port 1`.
    fn name(&self) -> String {
        let rest = self.folder.strip_prefix(TOP).unwrap_or(&self.folder).trim_start_matches('/');
        rest.replacen("/ports/", " port ", 1)
    }

    fn need(&self) -> Need {
        if self.state.contains("INIT") || self.state.contains("ARMED") {
            Need::Manager
        } else if self.link.contains("Disabled") {
            Need::Enabled
        } else {
            Need::Link
        }
    }
}

/// The ports of all RDMA devices.
pub(super) fn ports(root: &Root) -> Vec<Port> {
    let names = |folder: &str| root.entries(folder).unwrap_or_default();
    let mut out = Vec::new();
    for device in names(TOP) {
        let ports = format!("{TOP}/{device}/ports");
        for port in names(&ports) {
            let folder = format!("{ports}/{port}");
            let read = |part: &str| root.read_text(format!("{folder}/{part}")).ok().map(|text| text.trim().to_owned());
            let Some(state) = read("state") else { continue };
            let link = read("phys_state").unwrap_or_default();
            out.push(Port { folder, state, link });
        }
    }
    out
}

/// How a node of the fabric becomes its subnet manager. MLNX_OFED and DOCA install it with another name of its unit.
fn start_manager(ctx: &Context<'_>) -> String {
    let is_installed = machine::mlnx_ofed(ctx.root).is_some() || ctx.root.exists("/etc/init.d/opensmd");
    if is_installed {
        return "sudo systemctl enable --now opensmd".to_owned();
    }
    let install = match family(ctx.root) {
        _ if !known_family(ctx.root) => return "sudo systemctl enable --now opensm".to_owned(),
        Family::Debian => "sudo apt-get update && sudo apt-get install opensm".to_owned(),
        Family::RedHat => format!("sudo {} install opensm", dnf(ctx.root)),
        Family::Suse => "sudo zypper install opensm".to_owned(),
    };
    format!("{install} && sudo systemctl enable --now opensm")
}

/// How ports become active that are not. It ends with a full stop.
pub(super) fn advice(ctx: &Context<'_>, down: &[&Port]) -> Advice {
    let of = |need: Need| {
        let names: Vec<String> = down.iter().filter(|port| port.need() == need).map(|port| port.name()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut parts = Vec::new();
    if let Some(names) = of(Need::Manager) {
        parts.push(
            Advice::from(format!(
                "The link of {names} works, but no subnet manager configures the fabric. Start that of the switch, or on one node of the fabric run "
            ))
            .command(start_manager(ctx))
            .text(". Then ")
            .command("cat /sys/class/infiniband/*/ports/*/state")
            .text(" must show ACTIVE."),
        );
    }
    if let Some(names) = of(Need::Link) {
        parts.push(
            Advice::from(format!("No link on {names}: check cable and switch. Then "))
                .command("ibstat")
                .text(" must show Active."),
        );
    }
    if let Some(names) = of(Need::Enabled) {
        parts.push(
            Advice::from(format!(
                "Disabled: {names}. Enable it on the switch, or its interface with `sudo ip link set INTERFACE up`. Then "
            ))
            .command("ibstat")
            .text(" must show Active."),
        );
    }
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |advice, part| advice.text(" ").and(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_a_port_need_different_things() {
        let need = |state: &str, link: &str| {
            let folder = format!("{TOP}/mlx5_0/ports/1");
            Port { folder, state: state.to_owned(), link: link.to_owned() }.need()
        };
        assert_eq!(need("2: INIT", "5: LinkUp"), Need::Manager);
        assert_eq!(need("3: ARMED", "5: LinkUp"), Need::Manager);
        assert_eq!(need("1: DOWN", "2: Polling"), Need::Link);
        assert_eq!(need("1: DOWN", "3: Disabled"), Need::Enabled);
        assert_eq!(need("1: DOWN", ""), Need::Link);
        let port = Port { folder: format!("{TOP}/mlx5_0/ports/1"), state: String::new(), link: String::new() };
        assert_eq!((port.device(), port.name().as_str()), ("mlx5_0", "mlx5_0 port 1"));
    }
}
