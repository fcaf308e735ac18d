//! Machines with expected results that were written before the checks ran. The sources are NVIDIA's documents, the
//! sources of nvidia-fs, and threads of users.

pub(crate) mod combined;
pub(crate) mod hosts;
pub(crate) mod logs;
pub(crate) mod reported;
pub(crate) mod sites;
pub(crate) mod starts;
pub(crate) mod storage;
pub(crate) mod systems;
pub(crate) mod unusual;
pub(crate) mod variations;

use crate::machine::*;
use gds_top::checks::{self, Trial};
use gds_top::core::CheckId;
use gds_top::core::{Basis, Change, FixId, Needs, Route, RouteCounts};
use gds_top::fixes;
use gds_top::machine::Root;
use serde_json::json;

/// All machines with results that were expected before the checks ran.
pub(crate) fn expected() -> Vec<Variant> {
    let all = [
        storage::filesystems(),
        storage::fabrics(),
        storage::stacks(),
        hosts::machines(),
        systems::systems(),
        systems::settings(),
        variations::variations(),
        combined::two_faults(),
        combined::layers(),
        combined::healthy(),
        starts::machines(),
        reported::reports(),
        reported::healthy(),
        reported::elsewhere(),
        logs::logs(),
        logs::lists(),
        unusual::devices(),
        unusual::modules(),
        unusual::stores(),
    ];
    let sites = sites::all_sites().into_iter().map(|site| site.machine);
    all.into_iter().flatten().chain(sites).collect()
}

#[test]
fn clusters_and_data_centres() {
    judge(sites::all_sites().into_iter().map(|site| site.machine).collect());
}

#[test]
fn file_systems() {
    judge(storage::filesystems());
}

#[test]
fn routes_over_rdma() {
    judge(storage::fabrics());
}

#[test]
fn block_devices_in_layers() {
    judge(storage::stacks());
}

#[test]
fn processors_and_drivers() {
    judge(hosts::machines());
}

#[test]
fn kernels_and_distributions() {
    judge(systems::systems());
}

#[test]
fn containers_and_settings() {
    judge(systems::settings());
}

#[test]
fn gpus_keys_drivers_and_clusters() {
    judge(variations::variations());
}

#[test]
fn two_faults_at_once() {
    judge(combined::two_faults());
}

#[test]
fn storage_in_layers_without_a_direct_route() {
    judge(combined::layers());
}

#[test]
fn healthy_machines_that_look_ill() {
    judge(combined::healthy());
}

#[test]
fn what_the_next_start_takes() {
    judge(starts::machines());
}

#[test]
fn machines_of_those_who_asked_for_help() {
    judge(reported::reports());
}

#[test]
fn machines_of_this_year_with_nothing_wrong() {
    judge(reported::healthy());
}

#[test]
fn storage_and_sandboxes_without_a_direct_route() {
    judge(reported::elsewhere());
}

#[test]
fn what_healthy_machines_write_into_their_logs() {
    judge(logs::logs());
}

#[test]
fn lists_and_files_in_their_full_length() {
    judge(logs::lists());
}

#[test]
fn devices_cgroups_and_policies() {
    judge(unusual::devices());
}

#[test]
fn overridden_settings_and_packages_of_kernels() {
    judge(unusual::modules());
}

#[test]
fn storage_that_looks_like_other_storage() {
    judge(unusual::stores());
}

/// A machine, a check, a part of its advice, and a part that must be absent. The result of gds-nvidia-fs#87: the cause
/// is the driver of DOCA 26.01 and not nvidia-fs.
const ADVICE: &str = "\
Oracle's bare metal with DOCA 26.01 and xfs on raid0 | nvfs-nvme-symbol | Update DOCA to 3.4.1 | Install nvidia-fs
Rocky 8 with nvidia-fs 2.17.3 and its own NVMe driver | nvfs-nvme-symbol | MLNX_OFED with --with-nvmf | Ubuntu
an H20 with a tainted nvidia-fs and the stock NVMe driver | nvfs-nvme-symbol | Use P2PDMA | but another kernel
a model in an image that is mounted by loop | dm-lvm | Copy the model out of that file | md raid0
a download that broke off behind fallocate | sparse-or-delalloc | download the file again | cp --sparse
Apptainer without the host's udev | udev-database | --bind /run/udev | -v /run/udev
a systemd unit that denies the devices of nvidia-fs | nvfs-devnodes | DeviceAllow=/dev/nvidia-fs0 | chmod
SELinux denies a container the devices of nvidia-fs | nvfs-devnodes | label=disable | --device
a systemd unit with PrivateDevices | gpu-present | PrivateDevices=no | NVSwitch
a driver that allows its devices to one group | gpu-present | usermod -aG video | 0666
a node whose driver runs in a container of the GPU Operator | gpu-present | in a pod | nvidia-smi
a container to which only nvidia-smi was given | lib-open-probe | compute,utility | check -v
the stub of libcuda in LD_LIBRARY_PATH | lib-open-probe | lib64/stubs | check -v
a GPU for which the driver requests a reset | gpu-ecc | --gpu-reset -i 0000:be:00.0 | nvidia-modprobe
the registry keys of P2PDMA in one file, and another list in a later one | gpu-static-bar1 | in /etc/modprobe.d/zz-cluster.conf | fix initramfs
the registry keys of P2PDMA in a file, and another list on the kernel command line | gpu-static-bar1 | Move the registry keys from the kernel command line | fix initramfs
Ubuntu's built driver, for the kernel before | gpu-present | linux-modules-nvidia-580-server-open-6.8.0-90-generic | nvidia-open
Proxmox VE without the headers of its kernel | gpu-present | proxmox-headers-6.8.12-15-pve | linux-headers
OpenShift without the registry keys of P2PDMA | gpu-static-bar1 | kernel-module-params | /etc/modprobe.d
OpenShift without the registry keys of P2PDMA | nvme-multipath | MachineConfig | /etc/modprobe.d
an ext4 that the kernel reports as damaged, and an error of another disk | nvme-state | sudo umount /data && sudo e2fsck -f /dev/nvme0n1p1 | sdb
a disk with a failed read, which the kernel log names | nvme-state | sudo smartctl -a /dev/nvme0n1 | journalctl
an NFS server that does not know the handle any more | odirect-open | sudo umount -l /data | bench";

#[test]
fn what_is_advised_is_what_helps_there() {
    for line in ADVICE.lines() {
        let Ok([name, id, part, not]) = <[&str; 4]>::try_from(line.split(" | ").collect::<Vec<_>>()) else {
            panic!("{line}");
        };
        let report = check(machine(name).path());
        let advice = report.finding(id).unwrap().advice.clone().unwrap_or_else(|| panic!("{name}: {id} has none"));
        assert!(advice.contains(part) && !advice.contains(not), "{name}: {advice}");
    }
}

/// A fixture, its first blocker, the fix of that finding, and a part of its advice.
const FIRST_STEPS: &[(&str, &str, Option<FixId>, &str)] = &[
    ("driver-prime-select", "gpu-present", None, "sudo prime-select nvidia"),
    ("driver-excluded-on-command-line", "gpu-present", None, "--remove-args=modprobe.blacklist=nvidia"),
    ("dkms-driver-too-old", "gpu-present", Some(FixId::NvidiaDriverOpen), "Install a newer version"),
    ("gpu-in-d3cold", "gpu-present", None, "pcie_port_pm=off"),
    ("nova-core", "gpu-present", None, "nova_core.conf && sudo dracut -f --regenerate-all"),
    ("lxc-no-uvm", "ctr-devices", Some(FixId::ContainerDevices), "/dev/nvidia-uvm"),
    ("pod-cgroup-denied", "ctr-devices", Some(FixId::ContainerDevices), "Restart the pod"),
    ("podman-no-permission", "ctr-devices", Some(FixId::ContainerDevices), "keep-groups"),
    ("pod-mig-without-instance", "gpu-mig-vgpu", None, "nvidia.com/mig"),
    ("p2pdma-refused-by-kernel", "kernel-p2p-rootports", None, "PCIe switch"),
    ("nvme-removed", "nvme-state", None, "Power the machine off"),
    ("nvfs-no-driver-source", "nvfs-dkms", None, "/usr/src"),
];

#[test]
fn first_step_names_the_remedy_of_its_cause() {
    for (name, id, fix, part) in FIRST_STEPS {
        let report = check(&fixture(name));
        let finding = report.finding(report.verdicts[0].blockers[0]).unwrap();
        assert_eq!((finding.id.as_str(), finding.fix), (*id, *fix), "{name}");
        let advice = finding.advice.clone().unwrap_or_default();
        assert!(advice.contains(part), "{name}: {advice}");
    }
}

#[test]
fn nvidia_fs_is_not_loaded_next_to_modules_that_a_volta_gpu_keeps() {
    let installed = json!([{
        "argv": ["modinfo", "nvidia_fs"], "exit_code": 0, "stderr": "",
        "stdout": "filename: /lib/modules/6.8.0-88-generic/updates/dkms/nvidia-fs.ko\nversion: 2.26.6\nname: nvidia_fs\n"
    }]);
    for (name, capability, cause) in
        [("NVIDIA H200", "9.0", "driver-flavour"), ("NVIDIA GeForce RTX 4090", "8.9", "gpu-open-capable")]
    {
        let mut edits = combined::second(name, capability);
        edits.push(put("commands.json", installed.to_string()));
        let report = check(build("volta", &edits).path());
        let loaded = report.finding("nvfs-loaded").unwrap();
        assert!(loaded.fix.is_none() && loaded.advice.is_none(), "{name}: {loaded:?}");
        assert_eq!(loaded.cause.map(|id| id.as_str()), Some(cause), "{name}");
    }
}

#[test]
fn a_target_with_the_system_stays_connected() {
    let advice = |mounts: &str| {
        let edits = [put("files/proc/self/mountinfo", mounts)];
        let report = check(build("nvme-tcp-with-rdma-card", &edits).path());
        report.finding("nvme-transport").unwrap().advice.clone().unwrap()
    };
    const DATA: &str = "36 30 259:3 / /data rw,relatime,data=ordered - ext4 /dev/nvme0n1p1 rw\n";
    for (source, is_system) in [("nvme1n1p2", false), ("nvme0n1p2", true), ("nvme0n2", true)] {
        let text = advice(&format!("30 1 259:9 / / rw,relatime - ext4 /dev/{source} rw\n{DATA}"));
        assert_eq!(text.contains("nvme disconnect"), !is_system, "{source}: {text}");
        assert_eq!(text.contains("do not disconnect it"), is_system, "{source}: {text}");
    }
}

fn machine(name: &str) -> tempfile::TempDir {
    let machine = expected().into_iter().find(|machine| machine.name == name).unwrap();
    build(machine.base, &machine.edits)
}

#[test]
fn the_verdict_says_what_libcufile_lists_for_the_storage_under_the_path() {
    for (name, route, proof, basis) in [
        (
            "WekaFS over RDMA, as libcufile says",
            Route::Rdma,
            "libcufile lists rdma for WekaFS, but no read",
            Basis::LibraryLists,
        ),
        (
            "GPFS over RDMA, by its old name",
            Route::Rdma,
            "libcufile lists rdma for IBM Storage Scale",
            Basis::LibraryLists,
        ),
        ("NFS over RDMA, as libcufile says too", Route::Nvfs, "libcufile lists nvfs for NFS", Basis::LibraryLists),
        (
            "WekaFS over RDMA, of which libcufile says compat",
            Route::Compat,
            "libcufile does not list rdma for WekaFS (its table: none)",
            Basis::LibraryDenies,
        ),
        (
            "GPFS of which libcufile says P2PDMA",
            Route::Compat,
            "libcufile does not list rdma for IBM Storage Scale (its table: p2pdma)",
            Basis::LibraryDenies,
        ),
    ] {
        let report = check(machine(name).path());
        let verdict = &report.verdicts[0];
        assert_eq!((verdict.route, verdict.basis), (route, basis), "{name}");
        assert!(verdict.proof.contains(proof) && !verdict.proven, "{name}: {}", verdict.proof);
    }
}

#[test]
fn what_is_told_of_healthy_machines_is_true_of_them() {
    let finding = |name: &str, id: &str| check(machine(name).path()).finding(id).unwrap().clone();
    let node = finding("a node without a local disk that has an overlay as its root", "ctr-detect");
    assert_eq!(node.summary, "not inside a container");
    let overlay = check(machine("an overlay of the machine's own, with its upper directory on xfs").path());
    assert!(overlay.finding("ctr-rootfs").is_none_or(|f| !f.summary.contains("container")), "there is no container");
    let class = finding("a GeForce, and udev knows no disk", "gpu-gdr-attr");
    assert_eq!(class.cause, Some(CheckId::GpuClass));
    assert_eq!(check(machine("64 GPUs").path()).verdicts.len(), 64);
    let sp5 = finding("SLES 15 SP5 with a kernel that is too old for P2PDMA", "kernel-version");
    assert_eq!(sp5.fix, Some(FixId::KernelP2pdma));
}

#[test]
fn of_two_gpus_each_has_the_verdict_of_its_own_place_on_the_bus() {
    let folder = build("p2pdma-healthy", &combined::far_gpu());
    let report = check(folder.path());
    let of = |gpu: &str| report.verdicts.iter().find(|v| v.gpu.as_deref().unwrap().starts_with(gpu)).unwrap();
    let (near, far) = (of("GPU-5f1c"), of("GPU-6a2d"));
    assert!(near.route.is_direct() && near.blockers.is_empty(), "{near:?}");
    assert_eq!((far.route, far.possible), (Route::Compat, Route::Nvfs), "{far:?}");
    assert_eq!(far.blockers, ["kernel-p2p-rootports", "nvfs-nvme-symbol", "nvfs-loaded"]);
    assert_eq!(far.steps, ["nvfs-nvme-symbol", "nvfs-loaded"]);
    let summary = &report.finding("kernel-p2p-rootports").unwrap().summary;
    assert!(summary.contains("GPU 1 ("), "{summary}");
    let one = checks::run(
        &Root::folder(folder.path()).unwrap(),
        &[std::path::PathBuf::from("/data/models")],
        Some("1"),
        &mut |_| {},
    );
    assert!(one.finding("pcie-topology").unwrap().summary.contains("0000:5e:00.0"), "the one that was asked for");
}

#[test]
fn a_nvidia_fs_of_another_driver_is_built_again_from_the_source_of_the_loaded_one_before_a_reboot() {
    let folder = machine("nvidia-fs built for the driver before, and a read that crashed");
    let report = check(folder.path());
    assert_eq!(report.finding("nvfs-errors").unwrap().cause, Some(CheckId::NvfsDkms));
    let root = Root::folder(folder.path()).unwrap();
    let plan = fixes::plan(&root, &report).into_iter().find(|plan| plan.id == "nvfs-dkms").unwrap();
    let lines: Vec<String> = plan
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Run { argv } => Some(argv.join(" ")),
            _ => None,
        })
        .collect();
    assert!(
        lines.iter().any(|line| line.contains("NVIDIA_SRC_DIR=/usr/src/nvidia-595.91.07/nvidia dkms build")),
        "{lines:?}"
    );
    assert!(!lines.iter().any(|line| line.contains("modprobe")), "{lines:?}");
    assert_eq!(plan.needs, Needs::Reboot);
}

#[test]
fn what_keeps_a_module_or_a_gpu_away_is_named() {
    for (name, id, part) in [
        ("nvidia-fs is on a denylist of modules", "nvfs-loaded", "/etc/modprobe.d/hardening.conf blocks it"),
        ("nouveau has the GPU", "gpu-present", "nouveau uses the GPU"),
        ("every GPU is kept for virtual machines", "gpu-present", "for virtual machines"),
        ("nvidia-fs built for the driver before", "nvfs-dkms", "built for driver 570.207, and 595.91.07 is loaded"),
    ] {
        let report = check(machine(name).path());
        let summary = &report.finding(id).unwrap().summary;
        assert!(summary.contains(part), "{name}: {summary}");
    }
}

#[test]
fn a_test_read_with_wrong_bytes_leaves_no_route() {
    let folder = machine("WekaFS over RDMA, as libcufile says");
    let verdict = check(folder.path()).verdicts.remove(0);
    let wrong = Trial::Wrong { error: "the bytes differ".to_owned() };
    let refused = Trial::Refused { error: "5008".to_owned() };
    for found in [checks::with_trial(&verdict, &wrong, None), checks::with_trial(&verdict, &refused, Some(&wrong))] {
        assert_eq!((found.route, found.proven), (Route::None, true), "{}", found.proof);
        assert!(found.proof.contains("the bytes differ") && found.advice.contains("for no data"), "{}", found.advice);
    }
}

#[test]
fn a_read_that_worked_with_compat_mode_forbidden_proves_rdma_though_no_counter_counts_it() {
    let folder = machine("WekaFS over RDMA, as libcufile says");
    let verdict = check(folder.path()).verdicts.remove(0);
    let counts = |proven| RouteCounts {
        route: Route::None,
        nvfs_reads: None,
        p2p_reads: None,
        posix_reads: None,
        source: "cuFile level-3 statistics counted no read of this GPU".to_owned(),
        proven,
    };
    let worked = |counts| Trial::Worked { file: "/data/models/a.safetensors".to_owned(), bytes: 16 << 20, counts };
    let found = checks::with_trial(&verdict, &worked(Some(counts(false))), None);
    assert_eq!((found.route, found.proven), (Route::Rdma, true), "{}", found.proof);
    assert!(found.proof.contains("compat mode forbidden"), "{}", found.proof);
    let refused = Trial::Refused { error: "5008".to_owned() };
    let found = checks::with_trial(&verdict, &refused, Some(&worked(Some(counts(false)))));
    assert_eq!((found.route, found.possible, found.proven), (Route::Compat, Route::Rdma, true), "{}", found.proof);
}
