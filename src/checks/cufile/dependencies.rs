//! The libraries that libcufile loads.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::core::{CheckId, Route};
use crate::machine;

/// The helper library for file systems over user-space RDMA. Local disks do not need it.
pub(crate) fn rdma_helper(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::LibRdma;
    const NEEDED: &[&str] = &["libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1"];
    let mut kinds = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()?.filesystem.as_deref());
    let kind = kinds.find(|kind| matches!(*kind, "gpfs" | "mmfs" | "wekafs"))?;
    if machine::rdma_without_mlx5(ctx.root).is_some() {
        return None;
    }
    let output = ctx.root.command(&["ldconfig", "-p"]).filter(|o| o.exit_code == Some(0) && !o.stdout.is_empty());
    let judged = match output {
        None => Judged::na(ID, "the installed libraries could not be listed")
            .found("ldconfig -p", "no answer")
            .unknown(&[Route::Rdma]),
        Some(output) => {
            let lacking: Vec<&str> = NEEDED
                .iter()
                .copied()
                .filter(|name| !output.stdout.lines().any(|line| line.trim().starts_with(&format!("{name} "))))
                .collect();
            if lacking.is_empty() {
                Judged::pass(ID, "the libraries of RDMA are installed").found("ldconfig -p", NEEDED.join(" "))
            } else {
                let are = if lacking.len() == 1 { "is" } else { "are" };
                Judged::lack(ID, format!("{kind} uses RDMA, and {} {are} not installed", lacking.join(", ")))
                    .found("ldconfig -p", format!("no {}", lacking.join(", no ")))
                    .missing(Cost::Install, &[Route::Rdma])
                    .advice(Advice::run(install(
                        ctx,
                        ["rdma-core ibverbs-providers", "rdma-core libibverbs", "rdma-core libibverbs"],
                    )))
            }
        }
    };
    Some(judged)
}

/// The command of this distribution that installs libraries, from their packages in the families of Debian, RHEL and
/// SUSE.
fn install(ctx: &Context<'_>, [debian, red_hat, suse]: [&str; 3]) -> String {
    let named = ["ID", "ID_LIKE"].into_iter().filter_map(|key| machine::os_release(ctx.root, key)).collect::<Vec<_>>();
    let has = |name: &str| named.iter().any(|words| words.contains(name));
    if has("rhel") || has("fedora") || has("azurelinux") || has("amzn") || has("centos") {
        format!("sudo dnf install -y {red_hat}")
    } else if has("suse") || has("sles") {
        format!("sudo zypper --non-interactive install {suse}")
    } else {
        format!("sudo apt-get update && sudo apt-get install -y {debian}")
    }
}

/// Whether libcufile fails to open because a library that it loads is missing.
pub(crate) fn lacks_libraries(ctx: &Context<'_>) -> bool {
    dependencies(ctx).is_some_and(|judged| judged.in_the_way().next().is_some())
}

/// The libraries that libcufile loads when it opens. If it was not opened or fails, the loader's list shows whether
/// they exist.
pub(crate) fn dependencies(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::LibDeps;
    let facts = ctx.root.libcufile();
    facts.chosen.as_ref()?;
    if facts.open.as_ref().is_some_and(|open| open.code == Some(0)) {
        return Some(Judged::pass(ID, "libcufile loads its libraries").found("cuFileDriverOpen", "0"));
    }
    let output = ctx.root.command(&["ldconfig", "-p"]).filter(|o| o.exit_code == Some(0) && !o.stdout.is_empty())?;
    let lacks = |name: &str| !output.stdout.lines().any(|line| line.trim().starts_with(&format!("{name} ")));
    let needed: Vec<&str> = ["libudev.so.1", "libmount.so.1"].into_iter().filter(|name| lacks(name)).collect();
    let judged = if needed.is_empty() {
        let optional: Vec<&str> = ["libnuma.so.1", "liburcu-bp.so.6"].into_iter().filter(|name| lacks(name)).collect();
        if optional.is_empty() {
            Judged::pass(ID, "the libraries that libcufile loads are installed")
        } else {
            Judged::info(ID, format!("libcufile works without {}", optional.join(" and ")))
        }
        .found("ldconfig -p", "libudev.so.1, libmount.so.1")
    } else {
        let are = if needed.len() == 1 { "is" } else { "are" };
        Judged::lack(ID, format!("libcufile needs {}, which {are} not installed", needed.join(" and ")))
            .found("ldconfig -p", format!("no {}", needed.join(", no ")))
            .missing(Cost::Install, EVERY)
            .advice({
                let line = install(
                    ctx,
                    [
                        "libudev1 libmount1 libnuma1",
                        "systemd-libs libmount numactl-libs",
                        "libudev1 libmount1 libnuma1",
                    ],
                );
                match machine::container(ctx.root) {
                    // The change would be lost with the container, and most images have no sudo.
                    Some(_) => Advice::from("Add to the image: ").command(line.trim_start_matches("sudo ").to_owned()),
                    None => Advice::run(line),
                }
            })
    };
    Some(judged)
}
