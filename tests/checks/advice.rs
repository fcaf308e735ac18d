//! Tests that the advice can be followed: each step once, in the order of work, with the required rights, and only
//! routes that are possible on the machine.

use crate::fixtures::{all, check};
use crate::machine::{self, build, command, cuda_fails, kernel_log, link, path, put, set, stack, without};
use gds_top::checks::matrix::{GpuClass, Storage, is_closed};
use gds_top::core::{CheckId, FixId, Route, Status};
use gds_top::fixes;
use gds_top::machine::Root;
use serde_json::json;

#[test]
fn network_cards_are_examined_for_file_systems_over_rdma() {
    let of = |name: &str, id: &str| {
        let finding = check(name).finding(id).unwrap_or_else(|| panic!("{name}: no {id}")).clone();
        (finding.status, finding.summary, finding.advice.unwrap_or_default())
    };
    let (status, summary, _) = of("rdma-near", "rdma-affinity");
    assert_eq!((status, summary.as_str()), (Status::Pass, "mlx5_0 and GPU 0000:be:00.0 share a root port"));
    let (status, summary, advice) = of("rdma-far", "rdma-affinity");
    assert_eq!(status, Status::Info, "{summary}");
    assert!(summary.contains("0000:be:00.0") && advice.contains("rdma_dev_addr_list"), "{summary} {advice}");
    let (status, summary, advice) = of("rdma-far", "cfg-rdma-policy");
    assert_eq!(status, Status::Warn, "{summary}");
    assert!(summary.contains("'roundrobin'") && advice.contains("RoundRobinMaxMin"), "{summary} {advice}");
    assert_eq!(of("rdma-near", "cfg-rdma-policy").0, Status::Pass);
    let (status, summary, advice) = of("rdma-shared", "cfg-rdma-policy");
    assert_eq!(status, Status::Info, "{summary}");
    assert!(advice.contains("RoundRobinMaxMin"), "{advice}");
    assert!(check("p2pdma-healthy").finding("cfg-rdma-policy").is_none(), "a local disk needs no policy");
}

#[test]
fn each_step_is_advised_once_in_the_order_of_work() {
    for (name, report) in all() {
        for verdict in &report.verdicts {
            let mut steps = verdict.steps.clone();
            let place = |id| verdict.steps.iter().position(|step| *step == id);
            // nvidia-fs is built against the NVMe driver.
            if let (Some(driver), Some(module)) = (place(CheckId::NvfsNvmeSymbol), place(CheckId::NvfsLoaded)) {
                assert!(driver < module, "{name}: {steps:?}");
            }
            let count = steps.len();
            steps.sort_unstable();
            steps.dedup();
            assert_eq!(steps.len(), count, "{name}: {}", verdict.advice);
            // There is one numbered sentence for each step, and none occurs twice.
            let numbered = (2..9).filter(|number| verdict.advice.contains(&format!("\n{number}. "))).count();
            assert!(count == 0 || numbered < count, "{name}: {}", verdict.advice);
        }
    }
}

#[test]
fn a_directory_in_the_place_of_the_configuration_is_not_edited() {
    let finding = check("cufile-json-folder").finding("cfg-parse").unwrap().clone();
    let command = finding.command.as_deref();
    assert_eq!((finding.fix, command), (None, Some("sudo mv /etc/cufile.json /etc/cufile.json.old")));
}

#[test]
fn a_library_that_needs_nvidia_fs_opens_when_the_module_is_loaded() {
    let forbidden = machine::config("{\"properties\": {\"allow_compat_mode\": false}}");
    let folder = build("sles-unsupported-module", &[forbidden, machine::open_fails(5001, "")]);
    let report = machine::check(folder.path());
    assert_eq!(report.finding("lib-open-probe").unwrap().cause, Some(CheckId::NvfsLoaded));
}

#[test]
fn a_directory_of_the_log_that_the_library_misses_is_made() {
    let edits = [machine::config("{\"logging\": {\"dir\": \"/scratch/a/logs\"}}")];
    let report = machine::check(build("log-folder-missing", &edits).path());
    let finding = report.finding("log-location").unwrap().clone();
    assert_eq!((finding.status, finding.fix), (Status::Fail, Some(FixId::CufileLog)), "{}", finding.summary);
    assert!(finding.advice.unwrap().contains("sudo mkdir -p -m 1777 /scratch/a/logs"));
    assert_eq!(report.finding("lib-open-probe").unwrap().cause, Some(CheckId::LogLocation));
}

#[test]
fn a_reboot_after_all_other_steps_is_the_last_step() {
    let keys = build("reboot-into-driver", &[without("files/etc/modprobe.d/nvidia-p2pdma.conf")]);
    let advice = machine::check(keys.path()).verdicts[0].advice.clone();
    assert!(advice.contains("\n2. Run `sudo reboot` after all other steps."), "{advice}");
    let alone = check("reboot-into-driver").verdicts[0].advice.clone();
    assert!(alone.starts_with("Run `sudo reboot`. "), "{alone}");
}

#[test]
fn a_gpu_that_failed_is_recovered_before_the_proof() {
    let advice = check("sick-gpu").verdicts[0].advice.clone();
    assert!(advice.contains("power the machine off and on") && !advice.contains("bench"), "{advice}");
}

#[test]
fn the_next_step_is_the_fix_if_there_is_one() {
    let report = check("mlnx-nvme-other-kernel");
    let finding = report.finding("nvfs-nvme-symbol").unwrap();
    assert!(finding.advice.as_ref().unwrap().contains("dkms install"), "{finding:?}");
    let first = format!("Run the commands that `{}` shows. In short: ", finding.command.as_ref().unwrap());
    assert!(report.verdicts[0].advice.starts_with(&first), "{}", report.verdicts[0].advice);
}

#[test]
fn a_fix_is_run_only_if_it_does_more_than_to_show_commands() {
    for (name, first) in [
        ("broken-cufile-json", "Run `sudo gds-top fix cufile-config --path /data/models`. By hand: Correct "),
        ("iommu-on", "Run the commands that `sudo gds-top fix iommu-off --path /data/models` shows. In short: "),
    ] {
        let advice = check(name).verdicts[0].advice.clone();
        assert!(advice.starts_with(first), "{name}: {advice}");
    }
}

#[test]
fn the_file_system_of_a_gvisor_sandbox_is_not_a_cause_of_its_own() {
    let edits = [put("files/proc/sys/kernel/osrelease", "4.19.0-gvisor\n"), path("/0/filesystem", json!("9p"))];
    let report = machine::check(build("p2pdma-healthy", &edits).path());
    assert_eq!(report.verdicts[0].blockers.first(), Some(&CheckId::KernelVersion), "{:?}", report.verdicts[0]);
    let kind = report.finding("fs-type").unwrap();
    assert_eq!((kind.cause, kind.fix), (Some(CheckId::KernelVersion), None), "{}", kind.summary);
}

#[test]
fn a_file_with_two_settings_is_renamed_once() {
    let advice = check("modprobe-no-suffix").verdicts[0].advice.clone();
    assert_eq!(advice.matches("sudo mv").count(), 1, "{advice}");
    assert!(advice.contains("nvidia-p2pdma.conf && sudo "), "{advice}");
}

#[test]
fn nvidia_fs_that_is_built_with_the_driver_is_no_other_step() {
    let debian = build("new-kernel-no-driver", &[put("files/etc/os-release", "ID=debian\nVERSION_ID=13\n")]);
    let advice = machine::check(debian.path()).verdicts[0].advice.clone();
    assert!(advice.contains("dkms install nvidia-fs/2.26.6"), "{advice}");
    assert!(!advice.contains("not built for this kernel"), "{advice}");
}

#[test]
fn a_route_that_this_machine_cannot_have_is_not_advised() {
    for name in ["amazon-t4", "linux-6-17-t4", "vgpu-ada", "arm-without-grace"] {
        let report = check(name);
        let advice = report.finding("nvfs-nvme-symbol").unwrap().advice.clone().unwrap();
        let next = &report.verdicts[0].advice;
        assert!(
            !advice.contains("P2PDMA") && !next.contains("p2pdma-") && !next.contains("Use P2PDMA"),
            "{name}: {next}"
        );
    }
    let paths = check("disk-with-two-paths");
    let advice = paths.finding("nvme-multipath").unwrap().advice.clone().unwrap();
    assert!(advice.starts_with("Keep multipath on"), "{advice}");
    let advice = paths.finding("nvfs-nvme-symbol").unwrap().advice.clone().unwrap();
    assert!(!advice.contains("P2PDMA"), "{advice}");
    let forced = check("rhel-10-multipath-device").finding("nvme-multipath").unwrap().clone();
    assert!(forced.summary.starts_with("nvme0n1 is a multipath device") && forced.fix.is_none(), "{forced:?}");
    assert!(forced.evidence.iter().any(|e| e.source == "/sys/block/nvme0c1n1"), "{forced:?}");
    let single = check("rhel-10-disk-with-one-port").finding("nvme-multipath").unwrap().clone();
    assert_eq!((single.status, single.summary.as_str()), (Status::Pass, "nvme0n1 is not a multipath device"));
    let amazon = check("amazon-t4").finding("nvfs-nvme-symbol").unwrap().advice.clone().unwrap();
    assert!(amazon.contains("Amazon Linux 2023"), "{amazon}");
}

#[test]
fn no_verdict_promises_a_route_that_the_matrix_closes() {
    for (name, gpu, storage) in [
        ("geforce", Some(GpuClass::GeForce), Some(Storage::Nvme)),
        ("volta", Some(GpuClass::Volta), Some(Storage::Nvme)),
        ("lvm", None, Some(Storage::Mapped)),
        ("ebs-volume", None, Some(Storage::OtherDisk)),
        ("overlay-root", None, Some(Storage::Layered)),
        ("nfs-tcp", None, Some(Storage::Tcp)),
        ("lustre", None, Some(Storage::KernelClient)),
        ("weka", None, Some(Storage::UserRdma)),
        ("dgx-spark", Some(GpuClass::Integrated), None),
        ("vgpu", Some(GpuClass::OldVgpu), None),
        ("grace", Some(GpuClass::Grace), Some(Storage::Nvme)),
    ] {
        for verdict in check(name).verdicts {
            for route in [verdict.route, verdict.possible] {
                assert!(route == Route::None || !is_closed(gpu, storage, route), "{name}: {route}");
            }
        }
    }
}

#[test]
fn the_reason_of_a_file_system_agrees_with_the_verdict() {
    let report = check("tumbleweed-btrfs");
    let finding = report.finding("fs-type").unwrap();
    assert_eq!(report.verdicts[0].route, Route::None);
    assert!(!finding.summary.contains("copies"), "{}", finding.summary);
    assert!(finding.advice.as_ref().unwrap().contains("libcufile-13-2"), "{finding:?}");
    let image = check("pod-image-volume");
    let advice = image.finding("fs-type").unwrap().advice.clone().unwrap();
    assert!(advice.contains("hostPath: {path:") && advice.contains("initContainer"), "{advice}");
    assert!(advice.contains("cp -an ") && !advice.contains("/data/models,"), "{advice}");
    assert!(image.finding("ctr-rootfs").is_none(), "the image is a volume");
}

#[test]
fn software_that_is_installed_is_not_advised_again() {
    let nouveau = build(
        "p2pdma-healthy",
        &[
            put("files/proc/modules", "nouveau 2000000 1 - Live 0x0\nnvme 60000 3 - Live 0x0\n"),
            link("files/sys/bus/pci/devices/0000:be:00.0/driver", "../../../../bus/pci/drivers/nouveau"),
            without("files/sys/module/nvidia"),
            without("files/proc/driver/nvidia"),
            set("nvml.json", "/gpus", json!([])),
            set("nvml.json", "/error", json!("Driver Not Loaded")),
            command(&["modinfo", "nvidia"], "version: 580.95.05\nlicense: Dual MIT/GPL\n"),
        ],
    );
    let report = machine::check(nouveau.path());
    let finding = report.finding("gpu-present").unwrap();
    assert_eq!((finding.status, finding.fix), (Status::Fail, Some(FixId::Initramfs)), "{}", finding.summary);

    let unbuilt = build(
        "nvfs-healthy",
        &[
            put("files/proc/modules", "nvidia 14000000 12 - Live 0x0\nnvme 60000 3 - Live 0x0\n"),
            without("files/sys/module/nvidia_fs"),
            without("files/proc/driver/nvidia-fs"),
            command(&["dkms", "status"], "nvidia-fs/2.26.6: added\n"),
        ],
    );
    let report = machine::check(unbuilt.path());
    let cause = report.finding("nvfs-dkms").unwrap();
    assert_eq!((cause.status, cause.fix), (Status::Fail, Some(FixId::NvfsDkms)));
    let finding = report.finding("nvfs-loaded").unwrap();
    assert_eq!((finding.fix, finding.advice.as_deref()), (None, None), "{}", finding.summary);
    assert_eq!(finding.cause, Some(CheckId::NvfsDkms));
}

#[test]
fn a_consequence_has_the_cause_that_the_kernel_log_names() {
    let lost = build(
        "nvfs-healthy",
        &[
            set("nvml.json", "/gpus", json!([])),
            set("nvml.json", "/error", json!("GPU is lost")),
            cuda_fails(999),
            kernel_log("Linux version 6.14\nNVRM: Xid (PCI:0000:be:00): 79, pid=1, GPU has fallen off the bus.\n"),
        ],
    );
    let report = machine::check(lost.path());
    assert_eq!(report.verdicts[0].blockers, ["gpu-present"]);
}

#[test]
fn p2pdma_is_not_advised_for_a_raid_that_it_does_not_support() {
    let raid = build(
        "nvme-stock",
        &[
            path("/0/device", json!("9:0")),
            path("/0/source", json!("/dev/md0")),
            stack(json!([
                {"name": "md0", "kind": "md", "level": "raid0"},
                {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"},
                {"name": "nvme1n1", "kind": "disk", "pci_bus_id": "0000:c5:00.0"},
            ])),
            put("files/run/udev/data/b9:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=raid0\n"),
        ],
    );
    let report = machine::check(raid.path());
    let advice = report.finding("nvfs-nvme-symbol").unwrap().advice.clone().unwrap();
    assert!(!advice.contains("P2PDMA"), "{advice}");
}

#[test]
fn a_missing_gpu_has_a_remedy_for_a_machine_one_for_a_virtual_machine_and_one_for_a_container() {
    let (guest, container) =
        (put("files/proc/cpuinfo", "flags\t\t: fpu hypervisor\n"), put("files/run/.containerenv", ""));
    let remedies = [vec![], vec![guest], vec![container]].map(|edits| {
        let finding = machine::check(build("no-gpu", &edits).path()).finding("gpu-present").unwrap().clone();
        assert_eq!((finding.status, finding.fix), (Status::Fail, None), "{}", finding.summary);
        (finding.summary, finding.advice.unwrap())
    });
    let [bare, guest, container] = &remedies;
    for (one, other) in [(bare, guest), (bare, container), (guest, container)] {
        assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
    }
}

#[test]
fn a_container_without_nvml_gets_the_capability_that_adds_it() {
    const ERROR: &str = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory";
    let advice = |value: &str| {
        let edits = [
            set("environment.json", "/container", json!("docker")),
            set("environment.json", "/NVIDIA_DRIVER_CAPABILITIES", json!(value)),
            put("nvml.json", json!({ "error": ERROR }).to_string()),
        ];
        let report = machine::check(build("lxc-healthy", &edits).path());
        report.finding("gpu-present").unwrap().advice.clone().unwrap()
    };
    assert!(advice("compute").contains("-e NVIDIA_DRIVER_CAPABILITIES=compute,utility"), "{}", advice("compute"));
    assert!(advice("compute,video").contains("=compute,video,utility"), "{}", advice("compute,video"));
    assert!(!advice("compute,utility").contains("NVIDIA_DRIVER_CAPABILITIES"), "{}", advice("compute,utility"));
}

#[test]
fn a_driver_that_suse_does_not_support_is_allowed_before_it_is_loaded() {
    let advice = |support: &str| {
        let driver = format!("filename: /lib/modules/nvidia.ko\nversion: 580.95.05\n{support}license: Dual MIT/GPL\n");
        let edits = [
            put("files/etc/os-release", "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.7\"\n"),
            put("files/usr/lib/modprobe.d/10-unsupported-modules.conf", "allow_unsupported_modules 0\n"),
            put("files/proc/modules", "nvme 60000 3 - Live 0x0\n"),
            put("commands.json", json!([machine::said(&["modinfo", "nvidia"], &driver)]).to_string()),
        ];
        let report = machine::check(build("driver-key-rejected", &edits).path());
        report.finding("gpu-present").unwrap().advice.clone().unwrap()
    };
    let refused = advice("");
    assert!(
        refused.contains("`allow_unsupported_modules 1`") && refused.contains("`sudo modprobe nvidia`"),
        "{refused}"
    );
    assert!(!advice("supported: external\n").contains("allow_unsupported_modules"), "modprobe loads it");
}

#[test]
fn missing_devices_outside_a_container_are_made_by_the_module() {
    let bare = build("nvfs-healthy", &[without("files/dev/nvidia-fs0")]);
    let report = machine::check(bare.path());
    let finding = report.finding("nvfs-devnodes").unwrap();
    assert_eq!((finding.status, finding.fix), (Status::Fail, None));
    let mounts = "30 1 0:61 / / rw,relatime - overlay overlay rw,lowerdir=/l\n\
                  36 30 259:3 / /data rw,relatime,data=ordered - ext4 /dev/nvme0n1p1 rw\n";
    let inside = build(
        "nvfs-healthy",
        &[without("files/dev/nvidia-fs0"), put("files/.dockerenv", ""), put("files/proc/self/mountinfo", mounts)],
    );
    let report = machine::check(inside.path());
    assert_eq!(report.finding("nvfs-devnodes").unwrap().fix, Some(FixId::ContainerDevices));
}

#[test]
fn commands_name_the_examined_path() {
    let report = check("h200-vm-no-udev");
    let finding = report.finding("udev-database").unwrap();
    assert_eq!(finding.command.as_deref(), Some("sudo gds-top fix udev-record --path /data/models"));
    assert!(report.verdicts[0].advice.contains("gds-top fix udev-record --path /data/models"));
    for finding in &report.findings {
        assert!(finding.command.is_some() || finding.fix.is_none(), "{}", finding.id);
    }
}

#[test]
fn advice_does_not_repeat_command_of_its_fix() {
    for (name, report) in all() {
        for finding in &report.findings {
            if let (Some(advice), Some(fix)) = (&finding.advice, finding.fix) {
                assert!(!advice.contains(&format!("gds-top fix {fix}")), "{name}: {}: {advice}", finding.id);
            }
        }
    }
}

#[test]
fn a_variable_that_overrides_the_files_is_unset_and_a_file_is_corrected() {
    let advice = |machine: &tempfile::TempDir, id: &str| {
        let report = machine::check(machine.path());
        let finding = report.finding(id).unwrap().clone();
        (finding.status, finding.fix, finding.advice.unwrap_or_default())
    };
    let variable =
        |name: &str, value: &str| build("p2pdma-healthy", &[set("environment.json", format!("/{name}"), json!(value))]);
    let (status, fix, text) = advice(&variable("CUFILE_USE_PCIP2PDMA", "false"), "cfg-p2p-both");
    assert_eq!((status, fix), (Status::Fail, None), "{text}");
    assert!(text.contains("unset CUFILE_USE_PCIP2PDMA"), "{text}");
    let both = [
        set("environment.json", "/CUFILE_USE_PCIP2PDMA", json!("1")),
        machine::config("{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
        machine::put("files/etc/environment", "CUFILE_USE_PCIP2PDMA=1\n"),
    ];
    let both = build("p2pdma-healthy", &both);
    let (status, fix, text) = advice(&both, "cfg-p2p-both");
    assert_eq!((status, fix), (Status::Fail, None), "the keys have no effect while the variable is set: {text}");
    let (removed, keys) = (text.find("sudo sed -i"), text.find("gds-top fix cufile-p2pdma-keys"));
    assert!(removed.is_some() && removed < keys, "{text}");
    let counted = machine::check(both.path()).finding("cfg-effective").unwrap().summary.clone();
    assert!(counted.contains("counts as false"), "{counted}");
    let (_, _, text) = advice(&variable("CUFILE_FORCE_COMPAT_MODE", "true"), "cfg-compat");
    assert!(text.contains("unset CUFILE_FORCE_COMPAT_MODE"), "{text}");
    let forced = "{\"properties\":{\"force_compat_mode\":true}}";
    let (_, _, text) = advice(&build("nvfs-healthy", &[machine::config(forced)]), "cfg-compat");
    assert!(text.contains("properties.force_compat_mode") && text.contains("/etc/cufile.json"), "{text}");
}

#[test]
fn findings_that_a_command_can_resolve_have_it_in_json() {
    for (name, id) in [
        ("slim-image", "lib-deps"),
        ("gpus-hidden", "gpu-present"),
        ("driver-mismatch", "driver-mismatch"),
        ("weka-no-peermem", "nvfs-peermem"),
        ("nfs-tcp", "nfs-rdma"),
        ("dynamic-routing", "cfg-rdma-routing"),
        ("weka", "rdma-ips"),
        ("denylist", "cfg-effective"),
        ("forced-compat", "cfg-compat"),
    ] {
        let finding = check(name).finding(id).unwrap().clone();
        assert!(finding.command.is_some_and(|command| !command.is_empty()), "{name}: {id}");
        assert!(!finding.why.is_empty(), "{name}: {id}");
    }
}

#[test]
fn systems_with_an_image_get_no_commands_for_files_that_they_do_not_keep() {
    for name in machine::fixtures() {
        let folder = machine::fixture(&name);
        let host = gds_top::machine::image_host(&gds_top::machine::Root::folder(&folder).unwrap());
        if host.is_none() || host == Some(gds_top::machine::ImageHost::DriverContainer) {
            continue;
        }
        let report = machine::check(&folder);
        let advice = report.findings.iter().filter_map(|finding| finding.advice.clone());
        let said: Vec<String> = advice.chain(report.verdicts.iter().map(|verdict| verdict.advice.clone())).collect();
        for command in ["tee -a /etc/modprobe.d", "update-initramfs"] {
            assert!(!said.iter().any(|text| text.contains(command)), "{name}: {command}: {said:?}");
        }
    }
}

/// A machine whose kernel is a real-time kernel and whose driver is built for the previous kernel.
fn real_time(edits: Vec<machine::Edit>) -> gds_top::core::Finding {
    let own = vec![
        put("files/boot/config-6.14.0-37-generic", "CONFIG_PCI_P2PDMA=y\nCONFIG_PREEMPT_RT=y\n"),
        put("files/boot/grub/grub.cfg", ""),
        put("files/lib/modules/6.14.0-33-generic/updates/dkms/nvidia.ko.zst", ""),
        put("files/lib/modules/6.14.0-37-generic/build/Makefile", ""),
    ];
    let folder = build("new-kernel-no-driver", &machine::all([own, edits]));
    machine::check(folder.path()).finding("gpu-present").unwrap().clone()
}

#[test]
fn a_real_time_kernel_is_left_for_the_one_with_the_driver() {
    const LOG: &str = "DKMS make.log for nvidia-580.95.05 for kernel 6.14.0-37-generic (x86_64)\n*** Failed PREEMPT_RT sanity check. Bailing out! ***\n";
    let log = put("files/var/lib/dkms/nvidia/580.95.05/build/make.log", LOG);
    for edits in [vec![], vec![log.clone()], vec![log, put("files/boot/config-6.14.0-37-generic", "")]] {
        let finding = real_time(edits);
        let advice = finding.advice.unwrap();
        assert!(finding.summary.contains("real-time kernel"), "{}", finding.summary);
        assert!(advice.contains("gnulinux-6.14.0-33-generic-advanced"), "{advice}");
        assert!(!advice.contains("linux-headers") && !advice.contains("dkms install"), "{advice}");
    }
    let advice = real_time(Vec::new()).advice.unwrap();
    assert!(advice.contains("sudo pro disable realtime-kernel"), "{advice}");
}

#[test]
fn a_build_that_failed_for_an_unknown_reason_names_the_kernel_with_the_module() {
    const LOG: &str =
        "DKMS make.log for nvidia-580.95.05 for kernel 6.14.0-37-generic (x86_64)\nnv.c:1:1: error: something odd\n";
    let edits = vec![
        put("files/boot/config-6.14.0-37-generic", "CONFIG_PCI_P2PDMA=y\n"),
        put("files/var/lib/dkms/nvidia/580.95.05/build/make.log", LOG),
    ];
    let advice = real_time(edits).advice.unwrap();
    assert!(advice.contains("Boot 6.14.0-33-generic") && advice.contains("something odd"), "{advice}");
}

#[test]
fn headers_that_are_installed_are_not_advised() {
    let advice = real_time(vec![put("files/boot/config-6.14.0-37-generic", "CONFIG_PCI_P2PDMA=y\n")]).advice.unwrap();
    assert!(!advice.contains("linux-headers") && advice.contains("dkms install nvidia/580.95.05"), "{advice}");
}

#[test]
fn root_without_sudo_gets_no_command_with_it() {
    let shown = |user: u32, has_sudo: bool, container: bool| {
        let mut edits = vec![set("capture.json", "/euid", json!(user)), set("capture.json", "/sudo", json!(has_sudo))];
        if container {
            edits.push(put("files/run/.containerenv", ""));
        }
        let folder = build("p2pdma-two-steps", &edits);
        let report = machine::check(folder.path());
        let plans = fixes::plan(&Root::folder(folder.path()).unwrap(), &report);
        let of_findings = report.findings.iter().flat_map(|f| [f.advice.clone(), f.command.clone()]).flatten();
        let of_verdicts = report.verdicts.iter().map(|verdict| verdict.advice.clone());
        let of_plans = plans.iter().map(|plan| format!("{plan:?}"));
        of_findings.chain(of_verdicts).chain(of_plans).collect::<Vec<_>>().join("\n")
    };
    assert!(!shown(0, false, false).contains("sudo"), "{}", shown(0, false, false));
    // Commands for the host of the container keep it.
    assert!(shown(0, false, true).contains("\ngds-top fix container-devices"), "{}", shown(0, false, true));
    for (user, has_sudo) in [(0, true), (1000, true), (1000, false)] {
        assert!(shown(user, has_sudo, false).contains("sudo gds-top fix"), "{user} {has_sudo}");
    }
}

/// The advice of the verdict for a model on a device-mapper volume, without the keys of P2PDMA.
fn on_volume(uuid: &str, edits: Vec<machine::Edit>) -> String {
    let own = vec![
        path("/0/source", json!("/dev/mapper/vg-data")),
        path("/0/device", json!("253:0")),
        path("/0/block_device/0/name", json!("dm-0")),
        path("/0/block_device/0/kind", json!("dm")),
        path("/0/block_device/0/uuid", json!(uuid)),
        path("/0/block_device/0/pci_bus_id", json!(null)),
        put("files/run/udev/data/b253:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
    ];
    let folder = build("p2pdma-two-steps", &machine::all([own, edits]));
    machine::check(folder.path()).verdicts[0].advice.clone()
}

#[test]
fn what_a_route_needs_on_another_disk_is_named_by_commands() {
    // The root file system is on a local NVMe disk. The steps there come after the copy.
    let advice = on_volume("LVM-abcdef", vec![]);
    let has = |part: &str| advice.contains(part);
    assert!(has("p2pdma-registry-keys") && has("`sudo gds-top fix nvidia-gds --path /srv`"), "{advice}");
    // The first NVMe disk loads the driver, which then combines its paths.
    let config = "CONFIG_PCI_P2PDMA=y\nCONFIG_NVME_MULTIPATH=y\n";
    let not_loaded = || vec![without("files/sys/module/nvme_core"), put("files/boot/config-6.14.0-37-generic", config)];
    let advice = on_volume("LVM-abcdef", not_loaded());
    assert!(advice.contains("nvme-multipath-off"), "{advice}");
    let off = put("files/etc/modprobe.d/nvme.conf", "options nvme_core multipath=N\n");
    let advice = on_volume("LVM-abcdef", machine::all([not_loaded(), vec![off]]));
    assert!(!advice.contains("nvme-multipath-off"), "{advice}");
}

#[test]
fn a_model_that_leaves_an_encrypted_volume_is_not_encrypted() {
    assert!(on_volume("CRYPT-LUKS2-abc", vec![]).contains("not encrypted"));
    assert!(!on_volume("LVM-abcdef", vec![]).contains("not encrypted"));
}

#[test]
fn a_container_without_a_local_disk_stays_with_compat_mode() {
    let advice = on_volume("LVM-abcdef", vec![put("files/run/.containerenv", "")]);
    assert!(advice.contains("stay with compat mode") && !advice.contains("PersistentVolume"), "{advice}");
    let advice = on_volume("LVM-abcdef", vec![set("environment.json", "/KUBERNETES_SERVICE_HOST", json!("10.0.0.1"))]);
    assert!(advice.contains("local PersistentVolume"), "{advice}");
}

#[test]
fn an_image_of_squashfs_is_one_problem_with_one_advice() {
    let edits = [
        path("/0/filesystem", json!("squashfs")),
        path("/0/block_device/0/name", json!("loop0")),
        path("/0/block_device/0/kind", json!("loop")),
    ];
    let report = machine::check(build("p2pdma-healthy", &edits).path());
    assert_eq!(report.verdicts[0].blockers, [CheckId::FsType]);
    assert!(!report.verdicts[0].advice.contains("Copy the model out"), "{}", report.verdicts[0].advice);
}

#[test]
fn md_raid0_is_advised_only_if_it_has_a_route() {
    let of = |edits: &[machine::Edit]| {
        let report = machine::check(build("md-raid5", edits).path());
        report.finding("md-raid").unwrap().advice.clone().unwrap()
    };
    assert!(of(&[]).contains("or on md raid0"), "nvidia-fs is loaded");
    let unloaded = machine::all([
        vec![without("files/proc/driver/nvidia-fs"), without("files/sys/module/nvidia_fs")],
        vec![put("files/proc/modules", "nvidia 14000000 12 - Live 0x0\nnvme 60000 3 - Live 0x0\n")],
    ]);
    assert!(of(&unloaded).contains("from Linux 7.1 on"));
}
