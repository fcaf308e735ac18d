//! CUDA errors that make opening cuFile fail, and their remedies.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::container::bring::{Lack, RUNTIME_CLASS, enroot_variables, has_compute};
use crate::checks::container::lxc::given;
use crate::checks::cufile::cuda_causes::{FAULTY, NO_UVM, RESUMED};
use crate::checks::cufile::stub;
use crate::checks::cufile::variables::SETTERS;
use crate::checks::logs::xid::{self, Cure};
use crate::machine::{self, Message, Root, Source};

/// How to make libcuda.so.1 available, which libcufile did not find although the driver works.
pub(crate) fn bring_libcuda(root: &Root) -> String {
    let Some(container) = machine::container(root) else {
        return "libcuda.so.1 was not found: install the driver's CUDA library (Ubuntu libnvidia-compute, Debian libcuda1, RHEL nvidia-driver-cuda).".to_owned();
    };
    let variables = enroot_variables(root);
    match (root.variable("NVIDIA_DRIVER_CAPABILITIES"), container.runtime.as_str()) {
        (_, "pyxis") if !variables.is_empty() => format!(
            "libcuda.so.1 is not in this container, because Enroot's hook for NVIDIA needs variables: start the job with `{} srun`.",
            variables.join(" ")
        ),
        (_, "enroot") if !variables.is_empty() => format!(
            "libcuda.so.1 is not in this container, because Enroot's hook for NVIDIA needs variables: use `enroot start --env {}`.",
            variables.join(" --env ")
        ),
        (Some(value), _) if !has_compute(root) => format!(
            "libcuda.so.1 is not in this container, because NVIDIA_DRIVER_CAPABILITIES is {value}: set it to compute,utility."
        ),
        (_, "kubernetes") if machine::assigned_gpus(root).is_some() => {
            format!("libcuda.so.1 is not in this pod, because the NVIDIA runtime did not start it. {RUNTIME_CLASS}")
        }
        (_, "apptainer") => "libcuda.so.1 is not in this container: start it with --nv.".to_owned(),
        _ => "libcuda.so.1 is not in this container: set NVIDIA_DRIVER_CAPABILITIES=compute,utility for it.".to_owned(),
    }
}

/// The remedy for a CUDA error code. `None` if the code has no specific remedy. `is_newer` is whether libcufile is also too
/// new for the driver.
pub(crate) fn remedy(root: &Root, code: i32, is_newer: bool) -> Option<Advice> {
    if let Some(advice) = without_hmm(root, code) {
        return Some(advice);
    }
    if resumed(root, code).is_some() {
        return Some(
            reload_uvm(&format!("CUDA error {code}: {}", RESUMED.text))
                .text(" To prevent suspend: ")
                .command("sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target"),
        );
    }
    Some(match code {
        35 => {
            "CUDA error 35: install the libcufile of the CUDA release that the driver supports, or update the driver."
                .into()
        }
        34 => stub::without(root),
        2 => "CUDA error 2: the GPU has no free memory. Run `nvidia-smi`, and end programs that use it.".into(),
        46 => Advice::from("CUDA error 46: another process uses the GPU exclusively. End it, or run ")
            .command("sudo nvidia-smi -c 0"),
        100 => match machine::container(root) {
            Some(container) => {
                format!("CUDA error 100, no GPU is visible. {}", given(root, &container, &[Lack::Gpu])).into()
            }
            None if root.variable("CUDA_VISIBLE_DEVICES").is_some() => {
                Advice::from("CUDA error 100, no GPU is visible: run ")
                    .command("unset CUDA_VISIBLE_DEVICES")
                    .text(", then ")
                    .command("nvidia-smi -L")
            }
            None => Advice::from("CUDA error 100, no GPU is visible: run ")
                .command("sudo nvidia-modprobe -u -c=0")
                .text(", then ")
                .command("nvidia-smi -L"),
        },
        101 => "CUDA error 101: CUDA_VISIBLE_DEVICES names a GPU that does not exist. Correct or unset it.".into(),
        304 | 999 => uvm(root, code),
        // A GPU in confidential computing mode takes no work before it is attested and set to ready. It has no NVSwitch.
        802 if machine::confidential_guest(root).is_some() => {
            let text = Advice::from("CUDA error 802, the GPU is not set to ready: ");
            // Without persistence mode, the GPU loses its state when the last program ends.
            let text = if root.nvml().gpus.iter().any(|gpu| gpu.persistence == Some(false)) {
                text.text("run ").command("sudo nvidia-smi -pm 1").text(", ")
            } else {
                text
            };
            text.text("attest it, then run ").command("sudo nvidia-smi conf-compute -srs 1")
        }
        802 => not_ready(root),
        803 if library_path(root).split(':').any(is_compat) => {
            without_compat(root, "CUDA error 803, cuda-compat has another version than the driver: ", is_newer)
        }
        803 => Advice::from("CUDA error 803: a libcuda of another version than the driver is loaded. Run ")
            .command("ldconfig -p | grep libcuda.so")
            .text(", and remove the other one from LD_LIBRARY_PATH or /etc/ld.so.conf.d."),
        804 => without_compat(root, "CUDA error 804, cuda-compat does not support this GPU: ", is_newer),
        805..=810 => without_mps(root, code),
        _ => return None,
    })
}

/// The last error of the driver in the kernel log.
pub(crate) fn logged(root: &Root) -> Option<String> {
    let log = machine::kernel_log(root)?;
    let is_error = |message: &&Message| {
        matches!(message.source, Source::Nvidia | Source::Xid)
            && ["error", "err ", "failed"].iter().any(|word| message.has(&[*word]))
    };
    log.messages().rev().find(is_error).map(|message| message.line.clone())
}

/// The remedy if nvidia_uvm found no range of addresses for HMM, which KASLR takes on some kernels (CUDA 13.2 release
/// notes, known issues).
fn without_hmm(root: &Root, code: i32) -> Option<Advice> {
    const OPTION: &str = "echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/nvidia-uvm-hmm.conf";
    let is_it = |message: &Message| message.has(&["request_free_mem_region", "err -34"]);
    if !matches!(code, 3 | 304 | 999) || !machine::kernel_log(root)?.of(Source::Nvidia).any(is_it) {
        return None;
    }
    let text = format!("CUDA error {code}: KASLR of this kernel leaves nvidia_uvm no addresses for HMM. ");
    Some(match machine::container(root) {
        Some(_) => format!("{text}On the host, run `{OPTION}`, then reboot it.").into(),
        None => Advice::from(format!("{text}Run ")).command_and_initramfs(root, OPTION).text(", then reboot."),
    })
}

/// How to reach the MPS server, which several processes share a GPU with.
fn without_mps(root: &Root, code: i32) -> Advice {
    let pipe = root.variable("CUDA_MPS_PIPE_DIRECTORY");
    let named = pipe.map_or_else(String::new, |pipe| format!(" (CUDA_MPS_PIPE_DIRECTORY={pipe})"));
    let text = Advice::from(format!("CUDA error {code}: the MPS server does not answer{named}. "));
    match machine::container(root) {
        Some(container) if container.runtime == "kubernetes" => text
            .text("Its daemon runs in a pod of the node, which this command names: ")
            .command("kubectl get pods -A -o wide | grep mps-control-daemon")
            .text(". Delete that pod, wait for the new one, and start this pod again. Or request a GPU that is not shared by MPS."),
        Some(_) => text.text("Start nvidia-cuda-mps-control on the host, and this container again."),
        None => text
            .text("Start it: ")
            .command("sudo -E nvidia-cuda-mps-control -d")
            .text(". To use the GPU without it: ")
            .command("echo quit | sudo -E nvidia-cuda-mps-control; unset CUDA_MPS_PIPE_DIRECTORY"),
    }
}

/// The part of a path that names a release of the CUDA toolkit: `cuda-13.0`.
fn release(path: &str) -> Option<&str> {
    path.split('/').find(|part| part.starts_with("cuda-"))
}

fn library_path(root: &Root) -> String {
    root.variable("LD_LIBRARY_PATH").unwrap_or_default()
}

/// Whether a directory is that of cuda-compat.
fn is_compat(folder: &str) -> bool {
    folder.split('/').any(|part| part == "compat")
}

/// How to search for libcuda without the directory of cuda-compat.
fn without_compat(root: &Root, text: &str, is_newer: bool) -> Advice {
    let value = library_path(root);
    let (compat, others): (Vec<&str>, Vec<&str>) =
        value.split(':').filter(|one| !one.is_empty()).partition(|one| is_compat(one));
    let said = |what: &str| Advice::from(format!("{text}{what}"));
    let chosen = root.libcufile().chosen.clone().unwrap_or_default();
    let is_of_chosen = |folder: &&&str| release(folder).is_some() && release(folder) == release(&chosen);
    match (compat.as_slice(), others.as_slice()) {
        // The installation of the other libcufile sets the variable to its directory, which this step must not undo.
        (folders @ [_, ..], others) if is_newer => {
            let folders: Vec<&str> = folders.iter().chain(others.iter().filter(is_of_chosen)).copied().collect();
            said(&format!("remove {} from LD_LIBRARY_PATH, also in the file that sets it.", folders.join(" and ")))
        }
        ([], _) => said("remove its directory from LD_LIBRARY_PATH."),
        (folders, []) => said(&format!("LD_LIBRARY_PATH names {}. Run ", folders.join(" ")))
            .command("unset LD_LIBRARY_PATH")
            .text(" here, and remove it from the file that sets it."),
        (folders, others) => export(
            said(&format!("LD_LIBRARY_PATH names {}. Run ", folders.join(" "))),
            &crate::text::quoted(&others.join(":")),
        ),
    }
}

/// Adds the command that sets LD_LIBRARY_PATH, and the one that finds the file with its value.
pub(crate) fn export(advice: Advice, value: &str) -> Advice {
    advice
        .command(format!("export LD_LIBRARY_PATH={value}"))
        .text(" here, and in the file that sets it: ")
        .command(SETTERS)
}

/// CUDA waits for the NVLink fabric. Fabric Manager runs only on machines that have NVSwitches.
fn not_ready(root: &Root) -> Advice {
    let seen = machine::pci_nvidia(root);
    let gpus = &root.nvml().gpus;
    let is_of_rack = gpus.iter().any(|gpu| ["GB200", "GB300"].iter().any(|name| gpu.name.contains(name)));
    if is_of_rack {
        // NVIDIA, NMX-Controller (NMX-C) documentation, Management and Configuration.
        return "CUDA error 802: the NVLink fabric of the rack is not configured. Its NVSwitches are in the switch trays: install and restart nothing on this compute tray. `nvidia-smi -q | grep -A 4 Fabric` shows the state of each tray. On a switch tray, `nv show cluster apps` must list nmx-controller as ok. Otherwise its administrator runs `nv action start cluster app nmx-controller`.".into();
    }
    if seen.is_none() || machine::runs_fabric(root) {
        return Advice::from("CUDA error 802, the system is not ready: run ")
            .command("sudo systemctl restart nvidia-fabricmanager");
    }
    // Fabric Manager User Guide, Shared NVSwitch Virtualization Model and Virtual Machine with One GPU.
    let advice = Advice::from(
        "CUDA error 802: the GPU waits for the NVLink fabric, and this machine has no NVSwitch. In a virtual machine, ask the administrator of the host to run Fabric Manager with FABRIC_MODE=1 there. The partition with these GPUs must be active before the driver of the virtual machine loads, so restart it after that. `nvidia-smi -q | grep -A 4 Fabric` must show Completed.",
    );
    if !gpus.iter().any(|gpu| gpu.virtualization.as_deref() == Some("passthrough")) {
        return advice;
    }
    let advice = if root.exists("/usr/bin/nv-fabricmanager") {
        advice.text(" Fabric Manager has no effect in this virtual machine: `sudo systemctl disable --now nvidia-fabricmanager`.")
    } else {
        advice
    };
    advice.text(format!(
        " Without the host's help, the GPUs work without NVLink: `echo 'options nvidia NVreg_NvLinkDisable=1' | sudo tee /etc/modprobe.d/nvidia-nvlink.conf`, {}, then reboot.",
        rebuild_initramfs(root)
    ))
}

/// CUDA opens nvidia-uvm after the driver. If only that fails, CUDA reports 304 or 999.
fn uvm(root: &Root, code: i32) -> Advice {
    let text = |rest: &str| Advice::from(format!("CUDA error {code}: {rest} "));
    let modules = root.read_text("/proc/modules").unwrap_or_default();
    let is_loaded = modules.lines().any(|line| line.starts_with("nvidia_uvm "));
    let is_inside = machine::container(root).is_some();
    let service = match machine::starter(root) {
        Some(machine::Starter::Service(unit)) => Some(unit),
        _ => None,
    };
    match machine::excluded(root, "nvidia_uvm").filter(|_| !is_loaded && !is_inside) {
        Some(line) => {
            return text(NO_UVM.text)
                .text(format!("Remove '{}' ({}), then run ", line.line, line.file))
                .command("sudo modprobe nvidia_uvm");
        }
        None if !is_loaded && !modules.is_empty() && !is_inside => {
            return text(NO_UVM.text).text("Run ").command(NO_UVM.todo);
        }
        None => {}
    }
    if is_inside {
        return text(
            "CUDA cannot open its devices. Restart the container, after `sudo nvidia-modprobe -u -c=0` on the host.",
        );
    }
    let is_known = root.entries("/dev").is_ok_and(|names| names.iter().any(|name| name.starts_with("nvidia")));
    if is_known && !root.exists("/dev/nvidia-uvm") && service.is_none() {
        return text(NO_UVM.text).text("Run ").command(NO_UVM.todo);
    }
    // The sandbox of a unit is the likely cause, and other programs of the machine use the driver.
    if let Some(unit) = service {
        return text("CUDA cannot open its devices from this service. Run gds-top check in a login. If CUDA works there, a setting of the unit denies them:")
            .command(format!("systemctl cat {unit} | grep -e Private -e Protect -e Proc -e Device"));
    }
    if only_uvm_may_fail(root) && machine::kernel_log(root).is_some_and(|log| !log.messages().any(is_fault)) {
        return reload_uvm(&format!("CUDA error {code}: the driver answers, and the kernel log has no error of it."));
    }
    text(FAULTY.text).text("The kernel log has the reason: ").command(FAULTY.look)
}

/// Whether the driver answers and nvidia_uvm is loaded, outside of containers.
fn only_uvm_may_fail(root: &Root) -> bool {
    let modules = root.read_text("/proc/modules").unwrap_or_default();
    machine::container(root).is_none()
        && modules.lines().any(|line| line.starts_with("nvidia_uvm "))
        && !root.nvml().gpus.is_empty()
}

/// Whether a message of the kernel log reports a fault of the GPU or its driver that no program caused.
fn is_fault(message: &Message) -> bool {
    match message.source {
        Source::Xid => xid::number(&message.text).and_then(xid::of).is_none_or(|xid| xid.cure != Cure::Program),
        Source::Nvidia => message.has(&["nvrm: ", "fail"]),
        _ => false,
    }
}

/// The line of the kernel log about the end of a suspend, if that explains the error: the driver was loaded before it,
/// answers, and reports no fault.
pub(crate) fn resumed(root: &Root, code: i32) -> Option<String> {
    let is_hidden = code == 100 && root.variable("CUDA_VISIBLE_DEVICES").is_some();
    if !matches!(code, 3 | 100 | 304 | 999) || is_hidden || !only_uvm_may_fail(root) {
        return None;
    }
    let log = machine::kernel_log(root)?;
    let is_loading = |message: &Message| message.source == Source::Nvidia && message.has(&["nvrm: loading"]);
    let mut since = log.messages().rev().take_while(|message| !is_loading(message));
    let line = since.find(|message| message.source == Source::Resume)?.line.clone();
    (!log.messages().any(is_fault)).then_some(line)
}

/// How to load nvidia_uvm again. Its programs must end before.
fn reload_uvm(cause: &str) -> Advice {
    Advice::from(format!("{cause} End all programs and containers that use the GPU, then run "))
        .command("sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm")
        .text(". If that fails or the error remains, reboot.")
}
