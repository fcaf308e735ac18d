//! NVIDIA GPUs on the PCI bus, visible without a driver.

use super::root::Root;

/// A GPU as sysfs shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciGpu {
    /// PCI address.
    pub address: String,
    /// `0x030000` VGA or `0x030200` 3D.
    pub class: String,
    /// PCI device id, `0x2335`.
    pub device: Option<String>,
    /// The kernel driver bound to it.
    pub driver: Option<String>,
}

/// The display and 3D devices of vendor 0x10de (the two classes that nvidia-fs takes for peers, nvfs-pci.h), by address.
/// `None` where the bus cannot be listed.
#[must_use]
pub fn pci_gpus(root: &Root) -> Option<Vec<PciGpu>> {
    let base = "/sys/bus/pci/devices";
    let names = match root.entries(base) {
        Ok(names) => names,
        Err(_) => return None,
    };
    let read = |name: &str, part: &str| {
        root.read_text(format!("{base}/{name}/{part}")).ok().map(|text| text.trim().to_owned())
    };
    let gpus = names.into_iter().filter_map(|address| {
        if read(&address, "vendor")? != "0x10de" {
            return None;
        }
        let class = read(&address, "class")?;
        if !class.starts_with("0x0300") && !class.starts_with("0x0302") {
            return None;
        }
        let driver = root
            .link(format!("{base}/{address}/driver"))
            .and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()));
        Some(PciGpu { class, device: read(&address, "device"), driver, address })
    });
    Some(gpus.collect())
}
