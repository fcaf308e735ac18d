//! The kernel symbols that checks need, and the search for them in `/proc/kallsyms`.

use std::collections::BTreeSet;
use std::io::BufRead;

/// The kernel symbols that checks need. nvidia-fs and libcufile look these symbols up.
pub const SYMBOLS: &[&str] = &[
    "pci_p2pdma_add_resource",
    "p2pdma_pgmap_ops",
    "nvme_v1_register_nvfs_dma_ops",
    "nvme_v2_register_nvfs_dma_ops",
    "nvme_rdma_v1_register_nvfs_dma_ops",
    "lustre_v1_register_nvfs_dma_ops",
    "beegfs_v1_register_nvfs_dma_ops",
    "ibm_scale_v1_register_nvfs_dma_ops",
    "rpcrdma_register_nvfs_dma_ops",
    "scatefs_register_nvfs_dma_ops",
    "sfxv_v1_register_nvfs_dma_ops",
    "nvmesh_v1_register_nvfs_dma_ops",
    "scsi_v1_register_dma_scsi_ops",
    // The interface of DOCA and MLNX_OFED that nvidia_peermem needs, and a symbol that each ib_core has.
    "ib_register_peer_memory_client",
    "ib_register_client",
    // Symbols of the NVIDIA driver that nvidia-fs needs.
    "nvidia_p2p_get_pages",
    "nvidia_p2p_get_pages_persistent",
    "nvidia_p2p_put_pages",
    "nvidia_p2p_put_pages_persistent",
    "nvidia_p2p_dma_map_pages",
    "nvidia_p2p_dma_unmap_pages",
    "nvidia_p2p_free_page_table",
    "nvidia_p2p_free_dma_mapping",
];

/// Finds the symbols in text with the format of `/proc/kallsyms`: address, type, name, and for modules `[module]`.
pub(super) fn found_in(mut text: impl BufRead) -> BTreeSet<String> {
    let wanted: BTreeSet<&[u8]> = SYMBOLS.iter().map(|s| s.as_bytes()).collect();
    let mut found = BTreeSet::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match text.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return found,
            Ok(_) => {}
        }
        let name = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty()).nth(2);
        if let Some(name) = name.filter(|name| wanted.contains(name)) {
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
}
