//! The driver of a vGPU guest. Packages of the distribution and of NVIDIA's public repository do not contain it.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::core::FixId;
use crate::machine;

/// The installation of the guest driver with the open kernel modules.
pub(crate) fn install(ctx: &Context<'_>) -> Advice {
    let version = machine::Driver::of(ctx.root).version;
    let is_older = version.as_deref().is_some_and(|version| machine::version_numbers(version) < vec![560]);
    let option = if is_older { "-m=kernel-open" } else { "--kernel-module-type=open" };
    let version = version.unwrap_or_else(|| "VERSION".to_owned());
    Advice::from("Get the guest driver of the host's vGPU release from the provider of this machine. Install it with the open kernel modules: ")
        .command(format!("sudo sh NVIDIA-Linux-x86_64-{version}-grid.run {option} --dkms"))
        .text(", then build nvidia-fs again and reboot. Packages of the distribution or of NVIDIA's public repository do not fit a vGPU.")
}

/// How to replace the driver of a public repository, which refuses a vGPU.
pub(crate) fn instead(ctx: &Context<'_>) -> Advice {
    const KINDS: [&str; 6] =
        ["nvidia-open", "nvidia-driver", "nvidia-dkms", "nvidia-headless", "nvidia-kernel", "cuda-drivers"];
    let is_of_driver = |name: &String| KINDS.iter().any(|kind| name.starts_with(kind));
    let names: Vec<String> =
        machine::deb_packages(ctx.root).into_iter().map(|package| package.name).filter(is_of_driver).collect();
    let advice = Advice::from(
        "Ask the administrator of the host whether this is a vGPU. No public repository has its guest driver: get it and the license token of the host's vGPU release there. ",
    );
    let advice = if names.is_empty() {
        advice.text("Remove the packages of the present driver. Then run ")
    } else {
        advice.text("Then run ").command(format!("sudo apt-get purge {}", names.join(" "))).text(" and ")
    };
    advice
        .command("sudo sh NVIDIA-Linux-x86_64-VERSION-grid.run --kernel-module-type=open --dkms")
        .text(" with the version of that release. Put the token into /etc/nvidia/ClientConfigToken, then reboot.")
}

/// Replaces the advice of findings whose fix installs a driver from packages.
pub(crate) fn adapt(ctx: &Context<'_>, judged: Vec<Judged>) -> Vec<Judged> {
    let installs = |judged: &Judged| {
        let fix = judged.finding.fix.or(judged.id.spec().default_fix());
        judged.in_the_way().next().is_some()
            && matches!(fix, Some(FixId::NvidiaDriverOpen | FixId::NvidiaDriverProprietary | FixId::NvidiaRepository))
    };
    if !judged.iter().any(installs) || !machine::is_vgpu_guest(ctx.root) {
        return judged;
    }
    let adapted = |judged: Judged| if installs(&judged) { judged.by_hand().advice(install(ctx)) } else { judged };
    judged.into_iter().map(adapted).collect()
}
