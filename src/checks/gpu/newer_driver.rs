//! How to install the driver that a newer CUDA release needs.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::machine::{self, DriverOrigin, Root};

/// The first branch of the driver for a CUDA release (CUDA release notes, minor version compatibility).
const fn first_branch(cuda: u32) -> u32 {
    match cuda {
        ..=11 => 450,
        12 => 525,
        _ => 580,
    }
}

/// Advice if libcufile needs a newer CUDA release than the driver supports.
pub(crate) fn for_cuda(ctx: &Context<'_>, supported: u32, cuda: u32) -> Advice {
    let branch = first_branch(cuda);
    let advice = Advice::from(format!(
        "Install the libcufile of CUDA {supported}, which this driver supports. If programs use CUDA {cuda}, "
    ));
    if machine::container(ctx.root).is_some() {
        return advice.text(format!("the host needs driver {branch} or later."));
    }
    let advice = advice.text(format!("install driver {branch} or later"));
    match command(ctx.root, branch) {
        Some(command) => advice.text(": ").command(command).text(", then reboot."),
        None => advice.text(", then reboot."),
    }
}

/// The command that updates packages of the driver. `None` for other origins of a driver.
fn command(root: &Root, branch: u32) -> Option<String> {
    let packages = machine::deb_packages(root);
    let has = |name: &str| packages.iter().any(|package| package.name == name);
    let is_pinned = packages.iter().any(|package| package.name.starts_with("nvidia-driver-pinning-"));
    let is_open = machine::module_info(root, "nvidia").and_then(|module| module.is_open()) == Some(true);
    match machine::driver_origin(root) {
        Some(DriverOrigin::Nvidia) if has("nvidia-open") && !is_pinned => {
            return Some("sudo apt-get update && sudo apt-get install nvidia-open".to_owned());
        }
        Some(DriverOrigin::Ubuntu(driver)) if !driver.is_prebuilt && !driver.is_headless => {
            let server = if driver.is_server { "-server" } else { "" };
            let open = if is_open { "-open" } else { "" };
            return Some(format!("sudo apt-get update && sudo apt-get install nvidia-driver-{branch}{server}{open}"));
        }
        _ => {}
    }
    // RHEL 8 and 9 install the driver from a stream of NVIDIA's repository.
    let stream = root.read_text("/etc/dnf/modules.d/nvidia-driver.module").ok()?;
    stream.lines().any(|line| line.trim() == "state=enabled").then(|| {
        let kind = if is_open { "open" } else { "dkms" };
        format!(
            "sudo dnf module reset -y nvidia-driver && sudo dnf module install -y --allowerasing nvidia-driver:{branch}-{kind}"
        )
    })
}
