//! The RDMA devices, and whether the RDMA of libcufile can use them.

use super::root::Root;

/// The directory with the RDMA devices.
pub const RDMA_DEVICES: &str = "/sys/class/infiniband";

/// The first letters of the usual names of devices that other drivers than mlx5 create. A rule of udev can rename them.
const OTHERS: [&str; 12] =
    ["rxe", "siw", "efa_", "mana_", "bnxt_re", "irdma", "i40iw", "qedr", "mlx4_", "hfi1_", "cxgb4_", "erdma_"];

/// The driver of an RDMA device, or the vendor of its card if the driver is not visible.
#[must_use]
pub fn rdma_driver(root: &Root, device: &str) -> Option<String> {
    let driver = root.link(format!("{RDMA_DEVICES}/{device}/device/driver"));
    let driver = driver.as_deref().and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    driver.or_else(|| {
        let vendor = root.read_text(format!("{RDMA_DEVICES}/{device}/device/vendor")).ok()?;
        Some(vendor.trim().to_owned())
    })
}

/// Whether an RDMA device is of an NVIDIA card with the driver mlx5. `libcufile_rdma` is linked to libmlx5 and uses no
/// other device. A device without any sign of another driver counts.
fn is_mlx5(root: &Root, device: &str) -> bool {
    match rdma_driver(root, device).as_deref() {
        Some("mlx5_core" | "0x15b3") => true,
        Some(_) => false,
        None => !OTHERS.iter().any(|start| device.starts_with(start)),
    }
}

/// The RDMA devices of NVIDIA cards with the driver mlx5, and the other RDMA devices.
#[must_use]
pub fn rdma_devices(root: &Root) -> (Vec<String>, Vec<String>) {
    root.entries(RDMA_DEVICES).unwrap_or_default().into_iter().partition(|device| is_mlx5(root, device))
}

/// The RDMA devices, if there are some and the RDMA of libcufile can use none of them.
#[must_use]
pub fn rdma_without_mlx5(root: &Root) -> Option<Vec<String>> {
    let (mlx5, others) = rdma_devices(root);
    (mlx5.is_empty() && !others.is_empty()).then_some(others)
}

/// The PCI address of an NVIDIA (Mellanox) network card.
#[must_use]
pub fn mellanox_card(root: &Root) -> Option<String> {
    const PCI: &str = "/sys/bus/pci/devices";
    let is_card = |address: &String| {
        let starts = |part: &str, value: &str| {
            root.read_text(format!("{PCI}/{address}/{part}")).is_ok_and(|text| text.trim().starts_with(value))
        };
        starts("vendor", "0x15b3") && starts("class", "0x02")
    };
    root.entries(PCI).ok()?.into_iter().find(is_card)
}
