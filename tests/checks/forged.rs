//! Text that ordinary users write into the kernel log decides nothing, and hides nothing.

use crate::machine::*;
use gds_top::core::{Finding, Status};
use serde_json::json;

/// Messages of the kernel, each of which changes the findings of a healthy machine.
const GENUINE: &[&str] = &[
    "NVRM: Xid (PCI:0000:be:00): 79, pid=7, name=x, GPU has fallen off the bus.",
    "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
    "nvme nvme0: Removing after probe failure status: -19",
    "nvme nvme7: Removing after probe failure status: -19",
    "nvidia-fs: Error ret -22 invoking nvidia_p2p_get_pages_persistent",
    "nvidia_fs: registered correctly with major number 505",
    "nvidia_fs: no symbol version for nvidia_p2p_dma_unmap_pages",
    "kernel BUG at /var/lib/dkms/nvidia-fs/2.26.6/build/nvfs-mmap.c:1383!",
    "nvme 0000:c4:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0013 address=0xdffff000 flags=0x0000]",
    "I/O error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm python3: reading directory lblock 0",
    "Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP",
    "x86/PAT: memtype_reserve failed [mem 0x387fe0000000-0x387fefffffff], track uncached-minus, req uncached-minus",
    "audit: type=1400 audit(1763900000.123:456): avc:  denied  { read } for  pid=7 comm=\"x\" name=\"nvidia-fs0\" dev=\"devtmpfs\" tclass=chr_file permissive=0",
];

/// Text that users can write only as a part of a message.
const PARTS: &[&str] = &[
    "NVRM: Xid): 79,",
    "NVRM: GPU 0000:be:00.0: RmInitAdapter failed! (0x62:0x40:2168)",
    "RIP: 0010:nvfs_get_dma+0x2a5/0x3b0 [nvidia_fs]",
    "BUG: kernel NULL pointer dereference, address: 0000000000000000",
    "DMAR: [DMA Read NO_PASID] Request device [be:00.0] fault addr 0xdf",
    "XFS (nvme0n1p1): Corruption detected. Unmount and run xfs_repair",
    "nvidia-fs: rw_verify_area failed with -14",
    "nvidia-fs:nvfs_pin_gpu_pages:1383 Incompatible page table version 0x00020000",
    "Loading of module with unavailable key is rejected",
    "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    "Kernel is locked down from command line; see man kernel_lockdown.7",
];

/// The lines by which a user brings a text into the kernel log: failed mounts, crashed programs, and the names of
/// programs and groups.
fn forged(text: &str) -> Vec<String> {
    // The kernel truncates the names of programs.
    let name: String = text.chars().take(15).collect();
    vec![
        format!("tmpfs: Unknown parameter '{text}'"),
        format!("tmpfs: Unknown parameter 'x\\x0a{text}'"),
        format!("overlayfs: failed to resolve '/{text}': -2"),
        format!("fuse: Unknown parameter '{text}'"),
        format!("cgroup: fork rejected by pids controller in /user.slice/{text}"),
        format!("x[7]: segfault at 8 ip 0000000000401106 sp 00007ffc11 error 6 in {text}[401000+1000]"),
        format!("{name}[7]: segfault at 8 ip 0000000000401106 sp 00007ffc11 error 6 in {text}[401000+1000]"),
        format!("traps: x[7] general protection fault ip:401106 sp:7ffc11 error:0 in {text}[401000+1000]"),
        format!("{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        format!("{name}: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL),cpuset={text},mems_allowed=0"),
        format!("CPU: 1 UID: 2501 PID: 22828 Comm: {name} Not tainted 6.14.0-37-generic"),
        format!("[  22828]  2501 22828      600      200    50000        0             0 {name}"),
        format!("Memory cgroup out of memory: Killed process 7 ({name}) total-vm:1kB, anon-rss:1kB"),
        format!("process '{text}' started with executable stack"),
        format!("audit: type=1326 audit(1763900000.123:456): auid=2501 pid=7 comm=\"x\" exe=\"{text}\" sig=31"),
    ]
}

/// The findings of a healthy machine with these lines in its kernel log. CUDA was not tried, so the log is the only
/// evidence about faults.
fn findings(lines: &[String], more: &[Edit]) -> Vec<Finding> {
    let mut edits = vec![
        set(LIB, "/open", json!(null)),
        put("files/sys/fs/selinux/enforce", "1\n"),
        kernel_log(&format!("Linux version 6.14.0\n{}\n", lines.join("\n"))),
    ];
    edits.extend_from_slice(more);
    check(build("nvfs-healthy", &edits).path()).findings
}

#[test]
fn text_of_users_in_the_kernel_log_changes_no_finding() {
    let quiet = findings(&[], &[]);
    for text in GENUINE {
        assert_ne!(findings(&[(*text).to_owned()], &[]), quiet, "{text}: a genuine message is found");
    }
    for text in GENUINE.iter().chain(PARTS) {
        assert_eq!(findings(&forged(text), &[]), quiet, "{text}");
    }
    // A crash that a user begins with one line and ends with another.
    let parts: Vec<String> = PARTS.iter().flat_map(|text| forged(text)).collect();
    assert_eq!(findings(&parts, &[]), quiet);
}

#[test]
fn the_name_of_a_program_hides_no_fault_of_the_gpu() {
    for name in ["python3", ": segfault at ", "Killed process ", "tmpfs: ", "traps: ", "a, b", "x[7]: "] {
        let line = format!("NVRM: Xid (PCI:0000:be:00): 79, pid=7, name={name}, GPU has fallen off the bus.");
        let found = findings(&[line], &[]);
        let ecc = found.iter().find(|finding| finding.id.as_str() == "gpu-ecc").unwrap();
        assert_eq!(ecc.status, Status::Fail, "{name}: {ecc:?}");
    }
}

#[test]
fn a_failure_in_the_log_is_a_note_if_the_disk_is_live() {
    let live = |name: &str| put(format!("files/sys/class/nvme/{name}/state"), "live\n");
    let line = |name: &str| format!("nvme {name}: Removing after probe failure status: -19");
    let status = |name: &str, more: &[Edit]| {
        let found = findings(&[line(name)], more);
        found.into_iter().find(|finding| finding.id.as_str() == "nvme-state").map(|finding| finding.status)
    };
    assert_eq!(status("nvme0", &[]), Some(Status::Fail));
    assert_eq!(status("nvme0", &[live("nvme0")]), Some(Status::Info));
    assert_eq!(status("nvme7", &[]), Some(Status::Warn));
    assert_eq!(status("nvme7", &[live("nvme7")]), None);
}

/// A capture can have any name in /lib/modules and any line of DKMS.
#[test]
fn no_name_of_a_kernel_in_a_capture_becomes_a_command() {
    const FORGED: &str = "6.99.0$(touch x)-generic";
    let of_dkms = |kernel: &str| format!("nvidia/580.95.05, {kernel}, x86_64: installed\n");
    let boot = [put("files/boot/grub/grub.cfg", ""), put("files/etc/default/grub", "GRUB_DEFAULT=0\n")];
    let texts = |kernel: &str| {
        let edits = [
            put(format!("files/lib/modules/{kernel}/updates/nvidia.ko"), ""),
            set(COMMANDS, "/2/stdout", json!(of_dkms(kernel))),
        ];
        let report = check(build("new-kernel-no-driver", &all([boot.to_vec(), edits.to_vec()])).path());
        report.findings.iter().map(|finding| format!("{finding:?}")).collect::<Vec<_>>().join("\n")
    };
    let plain = "6.99.0-generic";
    assert!(texts(plain).contains(&format!("gnulinux-{plain}-advanced")));
    assert!(!texts(FORGED).contains("touch x"), "{}", texts(FORGED));
}
