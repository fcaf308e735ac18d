//! Machines of clusters and data centres, from bug reports and vendors' manuals: fabrics, image-based hosts, driver
//! containers, and unusual storage. The advice is part of the expectation.

use super::storage::rdma_host;
use super::unusual::{disk, docker, without_driver};
use crate::machine::*;
use gds_top::core::Route;
use serde_json::json;

/// A machine with the advice of some of its findings: the check, a part of the text, and a part that must be absent.
pub(crate) struct Site {
    pub(crate) machine: Variant,
    pub(crate) advice: &'static [(&'static str, &'static str, &'static str)],
}

/// A release of a distribution, with its id.
fn system(id: &str, rest: &str) -> Edit {
    put("files/etc/os-release", format!("ID={id}\n{rest}"))
}

fn transport(kind: &str) -> Edit {
    put("files/sys/class/nvme/nvme0/transport", format!("{kind}\n"))
}

/// No nvidia-fs on a machine that has it.
fn no_nvidia_fs() -> Vec<Edit> {
    vec![
        without("files/sys/module/nvidia_fs"),
        without("files/proc/driver/nvidia-fs"),
        without("files/dev/nvidia-fs0"),
        put(
            "files/proc/modules",
            "nvidia_uvm 2000000 0 - Live 0x0\nnvidia 14000000 12 nvidia_uvm, Live 0x0\nnvme 60000 3 - Live 0x0\n",
        ),
    ]
}

/// A kernel without P2PDMA, with the stock NVMe driver.
fn plain_kernel(release: &str) -> Vec<Edit> {
    vec![
        put("files/proc/sys/kernel/osrelease", format!("{release}\n")),
        put(format!("files/boot/config-{release}"), "# CONFIG_PCI_P2PDMA is not set\n"),
        put("files/proc/kallsyms", "0000000000000000 t nvme_queue_rq\t[nvme]\n"),
    ]
}

fn site(machine: Variant, advice: &'static [(&'static str, &'static str, &'static str)]) -> Site {
    Site { machine, advice }
}

const TALOS: &str = "NAME=\"Talos\"\nPRETTY_NAME=\"Talos (v1.11.5)\"\nVERSION_ID=v1.11.5\n";
const BOTTLEROCKET: &str = "NAME=Bottlerocket\nVERSION_ID=1.50.0\nVARIANT_ID=aws-k8s-1.34\n";
const COS: &str = "NAME=\"Container-Optimized OS\"\nVERSION_ID=121\n";
const FLATCAR: &str = "NAME=\"Flatcar Container Linux by Kinvolk\"\nID_LIKE=coreos\nVERSION_ID=4230.2.3\n";
const OPENSHIFT: &str = "ID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.16\"\nVARIANT_ID=coreos\n";

/// NVMe over fabrics.
pub(crate) fn fabrics() -> Vec<Site> {
    vec![
        // NVIDIA's guide on P2PDMA excludes NVMe-oF, and nvme_rdma of Linux does not support it.
        site(
            bad(
                "NVMe over RDMA that is configured for P2PDMA",
                "p2pdma-healthy",
                Route::Compat,
                Route::Nvfs,
                &["nvfs-nvme-symbol", "nvfs-loaded"],
                &["nvfs-nvme-symbol", "nvfs-loaded"],
                vec![
                    transport("rdma"),
                    config(
                        "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvmeof\": { \"use_pci_p2pdma\": true } } }",
                    ),
                ],
            ),
            &[("nvfs-nvme-symbol", "mlnx-nvme-dkms", "P2PDMA"), ("nvfs-loaded", "nvidia-fs-dkms", "P2PDMA")],
        ),
        site(
            bad(
                "NVMe over RDMA with the driver of Linux, and nvidia-fs",
                "nvfs-healthy",
                Route::Compat,
                Route::Nvfs,
                &["nvfs-nvme-symbol"],
                &["nvfs-nvme-symbol"],
                vec![transport("rdma"), put("files/proc/driver/nvidia-fs/modules", "nvme: 1\n")],
            ),
            &[("nvfs-nvme-symbol", "--with-nvmf", "vendor built")],
        ),
        site(
            fine(
                "NVMe over RDMA with DOCA's driver, and the keys of P2PDMA",
                NVFS,
                vec![
                    transport("rdma"),
                    put("files/proc/driver/nvidia-fs/modules", "nvme: 1\nnvme_rdma: 1\n"),
                    config(
                        "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvmeof\": { \"use_pci_p2pdma\": true } } }",
                    ),
                ],
            ),
            &[],
        ),
        site(
            barred("NVMe over Fibre Channel", P2PDMA, &["nvme-transport"], vec![transport("fc")]),
            &[("nvme-transport", "local NVMe disk", "DOCA")],
        ),
        // OpenEBS Mayastor and Longhorn attach volumes by NVMe over TCP of the same node.
        site(
            barred(
                "a volume of Mayastor over TCP to the own node",
                P2PDMA,
                &["nvme-transport"],
                vec![transport("tcp")],
            ),
            &[("nvme-transport", "local NVMe disk", "use_pci_p2pdma")],
        ),
    ]
}

/// Hosts whose driver comes from an image or a container.
pub(crate) fn images() -> Vec<Site> {
    vec![
        site(
            without_driver("OpenShift without the GPU Operator", vec![system("rhcos", OPENSHIFT)]),
            &[("gpu-present", "GPU Operator", "Install the NVIDIA driver")],
        ),
        site(
            without_driver("Talos without the extension of the driver", vec![system("talos", TALOS)]),
            &[("gpu-present", "nvidia-open-gpu-kernel-modules", "Install the NVIDIA driver")],
        ),
        site(
            without_driver("Bottlerocket without NVIDIA's driver", vec![system("bottlerocket", BOTTLEROCKET)]),
            &[("gpu-present", "NVIDIA variant", "Install the NVIDIA driver")],
        ),
        site(
            without_driver("Container-Optimized OS without a driver", vec![system("cos", COS)]),
            &[("gpu-present", "cos-extensions install gpu", "Install the NVIDIA driver")],
        ),
        site(
            without_driver("Flatcar without a driver", vec![system("flatcar", FLATCAR)]),
            &[("gpu-present", "system extension", "Install the NVIDIA driver")],
        ),
        // Neither nvidia-fs nor P2PDMA: nvidia-fs cannot be added to this system.
        site(
            bad(
                "Container-Optimized OS with a kernel without P2PDMA",
                "nvfs-healthy",
                Route::Compat,
                Route::P2pdma,
                &["kernel-p2pdma", "gpu-static-bar1", "cfg-p2p-both"],
                &["kernel-p2pdma", "gpu-static-bar1", "cfg-p2p-both"],
                all([vec![system("cos", COS)], no_nvidia_fs(), plain_kernel("6.6.93+")]),
            ),
            &[("kernel-p2pdma", "Update Container-Optimized OS", "Boot a kernel")],
        ),
        site(
            bad(
                "Talos without the registry keys of P2PDMA",
                "p2pdma-two-steps",
                Route::Compat,
                Route::P2pdma,
                &["gpu-static-bar1", "cfg-p2p-both"],
                &["gpu-static-bar1", "cfg-p2p-both"],
                vec![system("talos", TALOS)],
            ),
            &[("gpu-static-bar1", "machine.kernel.modules", "/etc/modprobe.d")],
        ),
        // RHEL 9.4 has no P2PDMA, and the Network Operator has no NVMe driver for GDS.
        site(
            bad(
                "OpenShift 4.16 with the driver container",
                "nvfs-healthy",
                Route::Compat,
                Route::P2pdma,
                &["kernel-version", "kernel-p2pdma", "gpu-static-bar1", "cfg-p2p-both"],
                &["kernel-version", "kernel-p2pdma", "gpu-static-bar1", "cfg-p2p-both"],
                all([vec![system("rhcos", OPENSHIFT)], no_nvidia_fs(), plain_kernel("5.14.0-427.72.1.el9_4.x86_64")]),
            ),
            &[
                ("kernel-version", "OpenShift 4.19", "dnf"),
                ("gpu-static-bar1", "kernelModuleConfig", "/etc/modprobe.d"),
            ],
        ),
        site(
            bad(
                "a node with a driver container and a stock NVMe driver",
                "nvfs-healthy",
                Route::None,
                Route::Nvfs,
                &["gpu-present", "nvfs-nvme-symbol", "nvfs-loaded"],
                &["gpu-present", "lib-found", "nvfs-nvme-symbol", "nvfs-loaded"],
                all([
                    no_nvidia_fs(),
                    vec![
                        system("ubuntu", "VERSION_ID=\"22.04\"\nPRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\n"),
                        put("files/run/nvidia/driver/dev/nvidiactl", ""),
                        set(NVML, "/error", json!("libnvidia-ml.so.1: cannot open shared object file")),
                        set(NVML, "/gpus", json!([])),
                        set(LIB, "/found", json!([])),
                        set(LIB, "/chosen", json!(null)),
                        set(LIB, "/open", json!(null)),
                    ],
                    plain_kernel("5.15.0-160-generic"),
                ]),
            ),
            &[
                ("gpu-present", "in a pod", "apt-get"),
                ("nvfs-loaded", "gds.enabled=true", "nvidia-gds"),
                ("nvfs-nvme-symbol", "useHostMofed", "linux-nvidia"),
            ],
        ),
        // gpu-operator#1043: the driver container runs Fabric Manager, and CUDA fails with 802.
        site(
            bad(
                "an HGX node of OpenShift without Fabric Manager",
                "p2pdma-healthy",
                Route::None,
                Route::P2pdma,
                &["gpu-fabric"],
                &["gpu-fabric", "lib-open-probe"],
                all([
                    nvswitch(),
                    vec![cuda_fails(802), system("rhcos", "ID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.19\"\n")],
                    kernel("5.14.0-570.45.1.el9_6.x86_64"),
                ]),
            ),
            &[("gpu-fabric", "nvidia-driver-daemonset", "Install Fabric Manager")],
        ),
    ]
}

/// SLES with nvidia-fs built by DKMS, of which modprobe says that it is unsupported.
fn sles() -> Site {
    let module = "filename:       /lib/modules/6.4.0-150600.23.73-default/updates/nvidia-fs.ko\nversion:        2.26.6\nlicense:        GPL v2\n";
    site(
        slowed(
            "SLES, which loads no unsupported modules",
            NVFS,
            &["nvfs-loaded"],
            all([
                no_nvidia_fs(),
                vec![
                    system("sles", "ID_LIKE=suse\nVERSION_ID=\"15.6\"\n"),
                    command(&["modinfo", "nvidia_fs"], module),
                    put(
                        "files/usr/lib/modprobe.d/10-unsupported-modules.conf",
                        "# default\nallow_unsupported_modules 0\n",
                    ),
                ],
            ]),
        ),
        &[("nvfs-loaded", "allow_unsupported_modules 1", "nvidia-gds")],
    )
}

/// Modules, services and fabrics of real reports.
pub(crate) fn reports() -> Vec<Site> {
    let peermem = |lines: &str| {
        all([
            rdma_host(),
            vec![
                put("files/sys/module/nvidia/version", "580.95.05\n"),
                kernel_log(&format!("Linux version 6.14.0\n{lines}")),
            ],
        ])
    };
    vec![
        // gpu-operator#2868 and nv_peer_memory#63: modprobe fails with 'Invalid argument'.
        site(
            slowed(
                "nvidia-peermem that was built for another InfiniBand stack",
                WEKA,
                &["nvfs-peermem"],
                peermem(
                    "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\nnvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n",
                ),
            ),
            &[("nvfs-peermem", "dkms", "sudo modprobe nvidia-peermem`, or")],
        ),
        // nccl#1939 and nv_peer_memory#84: the driver was installed before OFED.
        site(
            slowed(
                "nvidia-peermem on the InfiniBand stack of Linux",
                WEKA,
                &["nvfs-peermem"],
                peermem("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n"),
            ),
            &[("nvfs-peermem", "dmabuf", "sudo modprobe nvidia-peermem`, or")],
        ),
        // gpu-operator#2781: the NVSwitches of HGX B200 are behind InfiniBand devices; their modules are missing.
        site(
            bad(
                "an HGX B200 without the modules of InfiniBand",
                "p2pdma-healthy",
                Route::None,
                Route::P2pdma,
                &["gpu-fabric"],
                &["gpu-fabric", "lib-open-probe"],
                all([
                    gpu("NVIDIA B200", "10.0"),
                    vec![
                        put("files/sys/bus/pci/devices/0000:be:00.0/device", "0x2901\n"),
                        cuda_fails(802),
                        put("files/usr/bin/nv-fabricmanager", ""),
                        put("files/opt/nvidia/nvlsm/sbin/nvlsm", ""),
                        command(&["nv-fabricmanager", "--version"], "Fabric Manager version is : 580.95.05\n"),
                    ],
                ]),
            ),
            &[("gpu-fabric", "ib_umad", "nvidia-smi")],
        ),
        // gpu-operator#544: the versions differ in the last part only.
        site(
            bad(
                "a Fabric Manager of the same branch and another release",
                "p2pdma-healthy",
                Route::None,
                Route::P2pdma,
                &["gpu-fabric"],
                &["gpu-fabric", "lib-open-probe"],
                all([
                    nvswitch(),
                    vec![
                        cuda_fails(802),
                        put("files/usr/bin/nv-fabricmanager", ""),
                        command(&["nv-fabricmanager", "--version"], "Fabric Manager version is : 580.65.06\n"),
                    ],
                ]),
            ),
            &[("gpu-fabric", "580.95.05", "Read /var/log")],
        ),
        site(
            bad(
                "BeeGFS over TCP with a client without GDS",
                "p2pdma-healthy",
                Route::Compat,
                Route::Nvfs,
                &["rdma-stack", "nvfs-loaded", "nvfs-registered"],
                &["rdma-stack", "nvfs-loaded", "nvfs-registered"],
                all([
                    unbacked("beegfs"),
                    vec![path("/0/source", json!("beegfs_nodev")), path("/0/inode_flags", json!(null))],
                ]),
            ),
            &[
                ("nvfs-registered", "NVFS_INCLUDE_PATH", "nvidia-gds"),
                ("rdma-stack", "network card with RDMA", "ofed_info"),
            ],
        ),
    ]
}

/// Storage of clusters and clouds.
pub(crate) fn stores() -> Vec<Site> {
    let fuse = |kind: &str, source: &str| {
        all([unbacked(kind), vec![path("/0/source", json!(source)), path("/0/inode_flags", json!(null))]])
    };
    vec![
        site(
            barred("models in a bucket by Mountpoint for S3", P2PDMA, &["fs-type"], fuse("fuse", "mountpoint-s3")),
            &[("fs-type", "NVMe", "sudo")],
        ),
        site(
            barred("models in JuiceFS", P2PDMA, &["fs-type"], fuse("fuse.juicefs", "JuiceFS:models")),
            &[("fs-type", "NVMe", "sudo")],
        ),
        site(
            barred("models in CephFS", P2PDMA, &["fs-type"], fuse("ceph", "10.0.0.1:6789:/models")),
            &[("fs-type", "NVMe", "client of ceph")],
        ),
        site(
            barred("a volume of Portworx", NVFS, &["nvme-transport"], disk("pxd!pxd123456", "252:1")),
            &[("nvme-transport", "local NVMe", "DOCA")],
        ),
        site(
            barred("a cache of bcache before an NVMe disk", NVFS, &["nvme-transport"], disk("bcache0", "252:0")),
            &[("nvme-transport", "local NVMe", "DOCA")],
        ),
        // TopoLVM gives pods logical volumes. The pod cannot change the disks.
        site(
            barred(
                "a pod with a volume of TopoLVM",
                P2PDMA,
                &["dm-lvm"],
                all([
                    docker(),
                    vec![
                        put("environment.json", "{\"KUBERNETES_SERVICE_HOST\": \"10.96.0.1\"}"),
                        path("/0/source", json!("/dev/topolvm/5f1c")),
                        path("/0/device", json!("253:7")),
                        stack(json!([
                            {"name": "dm-7", "kind": "dm", "uuid": "LVM-abc", "logical_block_bytes": 512},
                            {"name": "nvme0n1", "kind": "disk", "logical_block_bytes": 512, "pci_bus_id": "0000:c4:00.0"}
                        ])),
                        put("files/run/udev/data/b253:7", "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\n"),
                    ],
                ]),
            ),
            &[("dm-lvm", "NVMe", "lvremove")],
        ),
        // Kata Containers share directories of the host by virtiofs.
        site(
            bad(
                "a Kata container with a shared directory of the host",
                "p2pdma-healthy",
                Route::Compat,
                Route::P2pdma,
                &["cfg-p2p-both"],
                &["cfg-p2p-both"],
                all([
                    unbacked("virtiofs"),
                    vec![path("/0/source", json!("kataShared")), path("/0/inode_flags", json!(null))],
                ]),
            ),
            &[],
        ),
        // Amazon FSx for Lustre over EFA supports GDS, over TCP it does not.
        site(
            fine("FSx for Lustre over EFA", LUSTRE, vec![path("/0/source", json!("10.0.1.5@efa:10.0.2.6@tcp:/fsx"))]),
            &[],
        ),
        // 1414:b111 is a local disk that Azure passes through, 1414:00a9 is a remote one.
        site(
            fine(
                "Azure's direct NVMe disk",
                P2PDMA,
                vec![
                    put("files/sys/bus/pci/devices/0000:c4:00.0/vendor", "0x1414\n"),
                    put("files/sys/bus/pci/devices/0000:c4:00.0/device", "0xb111\n"),
                    put("files/sys/class/nvme/nvme0/model", "Microsoft NVMe Direct Disk v2\n"),
                    transport("pcie"),
                ],
            ),
            &[],
        ),
    ]
}

/// All of them.
pub(crate) fn all_sites() -> Vec<Site> {
    [fabrics(), images(), vec![sles()], reports(), stores()].into_iter().flatten().collect()
}

#[test]
fn advice_names_what_helps_on_this_kind_of_machine() {
    let mut wrong = Vec::new();
    for Site { machine, advice } in all_sites() {
        let report = check(build(machine.base, &machine.edits).path());
        for (id, part, not) in advice {
            let Some(finding) = report.finding(*id) else {
                wrong.push(format!("{}: no finding {id}", machine.name));
                continue;
            };
            let text = finding.advice.clone().unwrap_or_default();
            if !text.contains(part) || text.contains(not) {
                wrong.push(format!("{}: {id}: {text} ({:?})", machine.name, finding.command));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn image_hosts_are_offered_no_packages() {
    const PACKAGES: [&str; 6] = ["nvidia-driver-", "nvfs-install", "nvme-patch", "kernel-p2pdma", "apt-get", "dnf "];
    for Site { machine, .. } in images() {
        let report = check(build(machine.base, &machine.edits).path());
        let on_packages = machine.name.starts_with("a node");
        for finding in &report.findings {
            let command = finding.command.clone().unwrap_or_default();
            let is_package = PACKAGES.iter().any(|part| command.contains(part));
            assert!(!is_package || on_packages, "{}: {}: {command}", machine.name, finding.id);
        }
    }
}
