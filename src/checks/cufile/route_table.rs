//! The routes that libcufile lists for the storage of a path (cuFileDriverGetP2PFlags, 1.16 and later).

use crate::checks::context::{Context, Subject};
use crate::core::Route;
use crate::machine;

/// The bits of a mask, as in libcufile's header.
pub(crate) const WORDS: [(u64, &str); 5] = [(1, "p2pdma"), (2, "nvfs"), (4, "dmabuf"), (8, "c2c"), (16, "peermem")];

/// The kind of storage below a path: the name in libcufile's table, and a name for sentences.
pub(crate) fn storage(ctx: &Context<'_>, subject: &Subject) -> Option<(&'static str, &'static str)> {
    let facts = subject.facts.as_ref()?;
    let kind = match facts.filesystem.as_deref()? {
        "wekafs" => ("wekafs", "WekaFS"),
        "gpfs" | "mmfs" => ("gpfs", "IBM Storage Scale"),
        "nfs" | "nfs4" => ("nfs", "NFS"),
        "lustre" => ("lustre", "Lustre"),
        "beegfs" | "fhgfs" => ("beegfs", "BeeGFS"),
        "scatefs" => ("scatefs", "ScaTeFS"),
        "virtiofs" => ("virtiofs", "virtiofs"),
        "ext4" | "xfs" => match machine::vendor_driver(facts) {
            Some(machine::VendorDriver { name: "sfxvdriver", .. }) => ("scaleflux", "ScaleFlux"),
            Some(_) => ("nvmesh", "NVMesh"),
            None if machine::nvme_transports(ctx.root, facts).iter().any(|kind| kind == "rdma") => {
                ("nvmeof", "NVMe over fabrics")
            }
            None => ("nvme", "NVMe"),
        },
        _ => return None,
    };
    Some(kind)
}

/// The mask for the storage of a path. `None` if libcufile does not report it.
fn mask(ctx: &Context<'_>, subject: &Subject) -> Option<u64> {
    let (name, _) = storage(ctx, subject)?;
    ctx.root.libcufile().p2p_flags.as_ref()?.get(name).copied()
}

/// Whether libcufile lists the route for the storage of a path. `None` if it does not report routes.
pub(crate) fn says(ctx: &Context<'_>, subject: &Subject, route: Route) -> Option<bool> {
    let bits = match route {
        Route::P2pdma => 1,
        Route::Nvfs => 2,
        Route::C2c => 8,
        // dma-buf and nvidia_peermem are two methods for the same route.
        Route::Rdma => 4 | 16,
        _ => return None,
    };
    Some(mask(ctx, subject)? & bits != 0)
}

/// The routes of a mask in words: `nvfs dmabuf`, or `none`.
pub(crate) fn words(mask: u64) -> String {
    let names: Vec<&str> = WORDS.into_iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// The entry of libcufile's table as part of a sentence: `libcufile lists rdma for WekaFS`.
pub(crate) fn sentence(ctx: &Context<'_>, subject: &Subject, route: Route) -> Option<String> {
    let (_, storage) = storage(ctx, subject)?;
    Some(match says(ctx, subject, route)? {
        true => format!("libcufile lists {route} for {storage}"),
        false => format!("libcufile does not list {route} for {storage} (its table: {})", words(mask(ctx, subject)?)),
    })
}
