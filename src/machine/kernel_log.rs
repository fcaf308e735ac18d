//! The kernel log of this boot: the messages of the parts of the kernel that the checks know.
//!
//! All users can write text into the kernel log: failed mounts, crashed programs, and names of programs and groups are
//! parts of messages. So a line counts only if it begins as the kernel's code of one part begins it. The name of a
//! program is at the beginning of some messages. It has at most 15 bytes, so it cannot have the form of another message.

use super::command::KERNEL_MESSAGES;
use super::root::Root;

/// The command that prints the kernel log. Findings show it as the source of their evidence.
pub const KERNEL_LOG: &str = "journalctl -k -b";

/// The part of the kernel that wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The NVIDIA driver, about a fault of the GPU at an address: `NVRM: Xid (PCI:0000:be:00): 79, …`.
    Xid,
    /// The NVIDIA driver and its modules other than nvidia-fs, or the kernel about them.
    Nvidia,
    /// nvidia-fs, or the kernel about it.
    NvidiaFs,
    /// The loader of modules, about a signature. The message may lack the name of the module.
    Signature,
    /// The NVMe driver, about a controller: `nvme nvme0: …`.
    Nvme,
    /// A driver, about a device on the PCI bus: `nvme 0000:c4:00.0: …`.
    Device,
    /// The IOMMU, about a transfer.
    Iommu,
    /// The block layer or a file system, about a device.
    Disk,
    /// The memory types of x86.
    MemoryType,
    /// A line of the report of a crash: its first line, a function of a module, or its end.
    Crash,
    /// SELinux, about a denied access.
    Denial,
    /// Kernel lockdown, when it was switched on.
    Lockdown,
    /// The start of a virtual machine with encrypted memory.
    Confidential,
    /// Lustre's network, about an address of this machine.
    Lnet,
    /// An array of md.
    Array,
    /// The loader of modules, about a symbol that a module needs: `mlx5_ib: Unknown symbol ib_register_device (err -22)`.
    Symbol,
    /// The end of a suspend or hibernation.
    Resume,
}

/// A message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The part of the kernel that wrote it.
    pub source: Source,
    /// The line, as evidence.
    pub line: String,
    /// The line for searches: without the name of a program, which its user chose.
    pub text: String,
}

impl Message {
    /// The message in a line. `None` if no known part of the kernel wrote it.
    fn parse(line: &str) -> Option<Self> {
        let line = without_time(line.trim_end());
        let source = FORMS.iter().find(|(_, has_form)| has_form(line))?.0;
        let text = if source == Source::Xid { without_name(line) } else { line.trim().to_owned() };
        Some(Self { source, line: line.trim().to_owned(), text })
    }

    /// The controller and the text of a message of the NVMe driver: `nvme nvme0: text`.
    #[must_use]
    pub fn nvme_controller(&self) -> Option<(&str, &str)> {
        self.text.strip_prefix("nvme ")?.split_once(": ").filter(|_| self.source == Source::Nvme)
    }

    /// Whether the message has all these parts, which are in lower case.
    #[must_use]
    pub fn has(&self, parts: &[&str]) -> bool {
        let lower = self.text.to_ascii_lowercase();
        parts.iter().all(|part| lower.contains(part))
    }
}

/// The known messages of the kernel log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLog(Vec<Message>);

impl KernelLog {
    /// The known messages in a text with one message per line.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(Message::parse).collect())
    }

    /// All messages.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.0.iter()
    }

    /// The messages of one part of the kernel.
    pub fn of(&self, source: Source) -> impl DoubleEndedIterator<Item = &Message> {
        self.0.iter().filter(move |message| message.source == source)
    }
}

/// The kernel log of this boot; `None` if the user has no permission to read it.
#[must_use]
pub fn kernel_log(root: &Root) -> Option<KernelLog> {
    let output = root.command(&KERNEL_MESSAGES)?;
    // Without permission, journalctl prints no kernel messages but `-- No entries --`, and some versions a hint.
    let is_message = |line: &str| !line.trim().is_empty() && !line.starts_with("-- ") && !line.starts_with("Hint: ");
    (output.exit_code == Some(0) && output.stdout.lines().any(is_message)).then(|| KernelLog::parse(&output.stdout))
}

/// Whether a line has the form of a message.
type Form = fn(&str) -> bool;

/// The forms of the messages of each part. The first one decides.
const FORMS: [(Source, Form); 17] = [
    (Source::Xid, is_xid),
    (Source::Iommu, is_of_iommu),
    (Source::Signature, is_of_signature),
    (Source::NvidiaFs, is_of_nvidia_fs),
    (Source::Nvidia, is_of_nvidia),
    (Source::Nvme, is_of_nvme),
    (Source::Device, |line| device(line).is_some()),
    (Source::Disk, is_of_disk),
    (Source::MemoryType, is_of_memory_type),
    (Source::Crash, is_of_crash),
    (Source::Denial, is_denial),
    (Source::Lockdown, |line| line.starts_with("Kernel is locked down from ")),
    (Source::Confidential, is_confidential),
    (Source::Lnet, |line| line.starts_with("LNet: Added LNI ")),
    (Source::Array, |line| starts(line, &["md/raid", "md: md"]) && !is_of_program(line)),
    (Source::Symbol, is_of_symbol),
    (Source::Resume, |line| RESUMED.contains(&line)),
];

/// The messages of kernel/power at the end of a suspend and of a hibernation. The last one is of older kernels.
const RESUMED: [&str; 3] = ["PM: suspend exit", "PM: hibernation: hibernation exit", "PM: hibernation exit"];

fn starts(line: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| line.starts_with(beginning))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a word can be the name of a module, a driver or a function.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Whether a word is the address of a PCI device: `0000:be:00.0`, in messages of the NVIDIA driver `0000:be:00`.
fn is_address(word: &str) -> bool {
    let mut parts = word.splitn(2, ':');
    let domain = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.next().unwrap_or_default().split([':', '.']).collect();
    domain.len() >= 4 && is_hex(domain) && (2..=3).contains(&rest.len()) && rest.into_iter().all(is_hex)
}

/// The driver and the text of a message about a PCI device: `nvme 0000:c4:00.0: text`.
fn device(line: &str) -> Option<(&str, &str)> {
    let (driver, rest) = line.split_once(' ')?;
    let (address, text) = rest.split_once(": ")?;
    (is_address(address) && address.contains('.') && !is_of_program(line)).then_some((driver, text))
}

/// The text after the time that dmesg prints: `[   12.345678] text`.
fn without_time(line: &str) -> &str {
    let is_time = |time: &str| {
        time.trim().split_once('.').is_some_and(|(seconds, fraction)| is_number(seconds) && is_number(fraction))
    };
    let split = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    split.filter(|(time, _)| is_time(time)).map_or(line, |(_, text)| text)
}

/// A line of the NVIDIA driver without the name of the program in it: `…, pid=7, name=python3, GPU has …`. The name
/// itself can contain commas.
fn without_name(line: &str) -> String {
    /// 15 bytes, each of which the kernel can print as `\x` and two digits, then a comma and a space.
    const LONGEST: usize = 4 * 15 + 2;
    let Some((before, rest)) = line.split_once(", name=") else { return line.to_owned() };
    let start: String = rest.chars().take(LONGEST).collect();
    let end = start.rfind(", ").unwrap_or(start.len());
    format!("{before}{}", &rest[end..])
}

/// Whether the line begins with the name and number of a program, as messages about crashes do: `name[123]: segfault
/// at 8 … in FILE[…]`, or ends with the name of a group of its user. These have text of any length from users.
fn is_of_program(line: &str) -> bool {
    /// The longest name, each byte printed as `\x` and two digits.
    const LONGEST: usize = 4 * 15;
    let is_number_at = |at: usize| line[at + 1..].split_once(']').is_some_and(|(number, _)| is_number(number));
    line.contains(",cpuset=")
        || line.match_indices('[').take_while(|(at, _)| *at <= LONGEST).any(|(at, _)| is_number_at(at))
}

fn is_xid(line: &str) -> bool {
    let split = line.strip_prefix("NVRM: Xid (PCI:").and_then(|rest| rest.split_once("): "));
    split.is_some_and(|(address, rest)| is_address(address) && is_number(rest.split(',').next().unwrap_or_default()))
}

fn is_of_nvidia(line: &str) -> bool {
    const STARTS: [&str; 8] = [
        "NVRM: ",
        "nvidia: ",
        "nvidia-uvm: ",
        "nvidia_peermem: ",
        "nvidia-peermem: ",
        "nv_peer_mem: ",
        "nvidia-nvswitch",
        "Module nvidia is blacklisted",
    ];
    let is_named = starts(line, &STARTS) || device(line).is_some_and(|(driver, _)| driver == "nvidia");
    is_named && !line.starts_with("NVRM: Xid") && !is_of_program(line)
}

fn is_of_nvidia_fs(line: &str) -> bool {
    const STARTS: [&str; 4] = [
        "nvidia-fs:",
        "nvidia_fs: ",
        "modprobe: ERROR: could not insert 'nvidia-fs': ",
        "modprobe: ERROR: could not insert 'nvidia_fs': ",
    ];
    // A storage driver whose symbol nvidia-fs asked for.
    let refused = line.strip_prefix("failing symbol_get of non-GPLONLY symbol ");
    refused.is_some_and(|symbol| is_name(symbol) && symbol.contains("_register_nvfs_dma_ops"))
        || starts(line, &STARTS) && !is_of_program(line)
}

/// Messages of kernel/module/signing.c and of kernel lockdown. Some kernels print the name of the module first.
fn is_of_signature(line: &str) -> bool {
    const REJECTED: [&str; 2] =
        ["Loading of unsigned module is rejected", "Loading of module with unavailable key is rejected"];
    let text = line.split_once(": ").filter(|(name, _)| is_name(name)).map_or(line, |(_, text)| text);
    REJECTED.iter().any(|rejected| text.eq_ignore_ascii_case(rejected))
        || line.starts_with("Lockdown: ")
            && line.ends_with(": unsigned module loading is restricted; see man kernel_lockdown.7")
        || line.starts_with("modprobe: ERROR: could not insert '") && line.ends_with("': Key was rejected by service")
}

/// Messages of kernel/module/main.c, which begin with the name of the module.
fn is_of_symbol(line: &str) -> bool {
    let Some((module, text)) = line.split_once(": ") else { return false };
    let symbol = text.strip_prefix("disagrees about version of symbol ").or_else(|| {
        text.strip_prefix("Unknown symbol ")?.strip_suffix(')')?.rsplit_once(" (err ").map(|(name, _)| name)
    });
    is_name(module) && symbol.is_some_and(is_name)
}

fn is_of_nvme(line: &str) -> bool {
    let controller = line.strip_prefix("nvme nvme").and_then(|rest| rest.split_once(": "));
    controller.is_some_and(|(number, _)| is_number(number)) && !is_of_program(line)
}

fn is_of_iommu(line: &str) -> bool {
    const FAULT: &str = "AMD-Vi: Event logged [IO_PAGE_FAULT";
    let is_intel = || starts(line, &["DMAR: [", "DMAR:[", "DMAR: DRHD: handling fault"]) && !is_of_program(line);
    line.starts_with(FAULT) || device(line).is_some_and(|(_, text)| text.starts_with(FAULT)) || is_intel()
}

fn is_of_disk(line: &str) -> bool {
    let text = ["blk_update_request: ", "print_req_error: "].iter().find_map(|start| line.strip_prefix(start));
    starts(text.unwrap_or(line), &["I/O error, dev ", "critical medium error, dev "])
        || starts(line, &["EXT4-fs error (device ", "XFS ("])
        || line.starts_with("EXT4-fs (") && line.contains("): mounted filesystem ")
}

/// Messages of arch/x86/mm/pat. The first one begins with a program: `x86/PAT: gdsio:3544 conflicting memory types
/// 387fe0000000-387ff0000000 write-combining<->uncached-minus`.
fn is_of_memory_type(line: &str) -> bool {
    let Some(text) = line.strip_prefix("x86/PAT: ") else { return false };
    let is_conflict = |(_, rest): (&str, &str)| {
        let Some((range, types)) = rest.split_once(' ') else { return false };
        range.split_once('-').is_some_and(|(from, to)| is_hex(from) && is_hex(to))
            && types.split_once("<->").is_some_and(|(one, other)| is_name(one) && is_name(other))
    };
    text.starts_with("memtype_reserve failed [mem ")
        || text.rsplit_once(" conflicting memory types ").is_some_and(is_conflict)
}

fn is_of_crash(line: &str) -> bool {
    const STARTS: [&str; 7] = [
        "BUG: unable to handle ",
        "BUG: kernel NULL pointer dereference",
        "Unable to handle kernel ",
        "general protection fault",
        "Oops: general protection fault",
        "Internal error: ",
        "------------[ cut here ]",
    ];
    // `kernel BUG at FILE:LINE!`
    let place = line.strip_prefix("kernel BUG at ").and_then(|rest| rest.strip_suffix('!')?.rsplit_once(':'));
    place.is_some_and(|(file, number)| !file.contains(' ') && is_number(number))
        || starts(line, &STARTS)
        || line.starts_with("---[ end trace ") && line.ends_with(" ]---")
        || is_frame(line)
}

/// Whether the line names a function of a module: `RIP: 0010:nvfs_get_dma+0x2a5/0x3b0 [nvidia_fs]`. Some kernels print
/// the build id of the module behind its name. Lines with a question mark are guesses of the kernel.
fn is_frame(line: &str) -> bool {
    let text = line.trim_start();
    let text = ["RIP: 0010:", "pc : ", "lr : "].iter().find_map(|start| text.strip_prefix(start)).unwrap_or(text);
    let Some((function, rest)) = text.split_once("+0x") else { return false };
    let Some((place, module)) = rest.split_once(" [") else { return false };
    is_name(function)
        && place.split_once("/0x").is_some_and(|(at, size)| is_hex(at) && is_hex(size))
        && module.strip_suffix(']').is_some_and(|module| module.split(' ').all(is_name))
}

/// Whether SELinux denied an access. The kernel encodes names in audit messages, so none can end its field.
fn is_denial(line: &str) -> bool {
    let split = line.strip_prefix("audit: type=1400 audit(").and_then(|rest| rest.split_once("): "));
    split.is_some_and(|(time, text)| {
        time.bytes().all(|byte| byte.is_ascii_digit() || b".:".contains(&byte)) && text.starts_with("avc:  denied  {")
    })
}

fn is_confidential(line: &str) -> bool {
    const ACTIVE: &str = "Memory Encryption Features active: ";
    const STARTS: [&str; 3] =
        ["tdx: Guest detected", "SEV: SNP guest platform device initialized", "sev-guest sev-guest: Initialized"];
    // "SME" is reported by hosts. It encrypts memory but does not block device access.
    line.strip_prefix("AMD ")
        .unwrap_or(line)
        .strip_prefix(ACTIVE)
        .is_some_and(|features| features.contains("SEV") || features.contains("TDX"))
        || starts(line, &STARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Genuine messages, and the part of the kernel that wrote each.
    const GENUINE: &[(Source, &str)] = &[
        (Source::Array, "md/raid0:md1: too few disks (3 of 4) - aborting!"),
        (Source::Symbol, "mlx5_ib: disagrees about version of symbol ib_register_device"),
        (Source::Symbol, "ib_umad: Unknown symbol ib_register_client (err -22)"),
        (Source::Resume, "PM: suspend exit"),
        (
            Source::Nvidia,
            "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:92821] request_free_mem_region() err -34",
        ),
        (Source::Xid, "NVRM: Xid (PCI:0000:be:00): 79, pid=1234, GPU has fallen off the bus."),
        (Source::Xid, "NVRM: Xid (PCI:0000:be:00): 79"),
        (Source::Xid, "[   12.345678] NVRM: Xid (PCI:0000:be:00): 31, pid=4242, name=python3, Ch 00000008"),
        (Source::Nvidia, "NVRM: GPU 0000:be:00.0: RmInitAdapter failed! (0x62:0x40:2168)"),
        (Source::Nvidia, "NVRM: installed in this system is not supported by open"),
        (Source::Nvidia, "nvidia 0000:be:00.0: can't change power state from D3cold to D0"),
        (Source::Nvidia, "nvidia: version magic '6.8.0 SMP' should be '6.14.0 SMP'"),
        (Source::Nvidia, "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)"),
        (Source::Nvidia, "Module nvidia is blacklisted"),
        (Source::NvidiaFs, "nvidia-fs:nvfs_pin_gpu_pages:1383 Incompatible page table version 0x00020000"),
        (Source::NvidiaFs, "nvidia-fs: Error ret -22 invoking nvidia_p2p_get_pages"),
        (Source::NvidiaFs, "nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)"),
        (Source::NvidiaFs, "failing symbol_get of non-GPLONLY symbol beegfs_v1_register_nvfs_dma_ops."),
        (Source::Signature, "Loading of unsigned module is rejected"),
        (Source::Signature, "nvidia_fs: loading of module with unavailable key is rejected"),
        (Source::Signature, "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"),
        (Source::Nvme, "nvme nvme0: Removing after probe failure status: -19"),
        (Source::Device, "nvme 0000:c4:00.0: cannot be used for peer-to-peer DMA as the client and provider"),
        (Source::Device, "pcieport 0000:b0:01.0: AER: Corrected error message received from 0000:c4:00.0"),
        (Source::Iommu, "nvme 10000:c4:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x13 address=0xdf]"),
        (Source::Iommu, "AMD-Vi: Event logged [IO_PAGE_FAULT device=be:00.0 domain=0x000f address=0x0]"),
        (Source::Iommu, "nvidia 0000:be:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x13 address=0xdf]"),
        (Source::Iommu, "DMAR: [DMA Read NO_PASID] Request device [be:00.0] fault addr 0xdf"),
        (Source::Disk, "I/O error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"),
        (Source::Disk, "blk_update_request: critical medium error, dev nvme0n1, sector 8 op 0x0:(READ)"),
        (Source::Disk, "EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm a[1]: reading"),
        (Source::Disk, "EXT4-fs (nvme0n1p1): mounted filesystem without journal. Quota mode: none."),
        (Source::Disk, "XFS (nvme0n1p1): Metadata corruption detected at xfs_agf_read_verify"),
        (
            Source::MemoryType,
            "x86/PAT: a[1]: b:3544 conflicting memory types 387fe0000000-387ff0000000 write-combining<->uncached-minus",
        ),
        (Source::MemoryType, "x86/PAT: memtype_reserve failed [mem 0x387fe0000000-0x387fefffffff], track x, req y"),
        (Source::Crash, "kernel BUG at /var/lib/dkms/nvidia-fs/2.26.6/build/nvfs-mmap.c:1383!"),
        (Source::Crash, "RIP: 0010:nvfs_get_dma+0x2a5/0x3b0 [nvidia_fs]"),
        (Source::Crash, " nvfs_io_start_op+0x1/0x2 [nvidia_fs 0123abcd]"),
        (Source::Crash, "pc : nvme_rdma_queue_rq+0x10/0x20 [nvme_rdma]"),
        (Source::Crash, "---[ end trace 0000000000000000 ]---"),
        (Source::Denial, "audit: type=1400 audit(1763900000.123:456): avc:  denied  { read } for  pid=4242 comm=\"x\""),
        (Source::Lockdown, "Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7"),
        (Source::Confidential, "Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP"),
        (Source::Confidential, "AMD Memory Encryption Features active: SEV"),
        (Source::Lnet, "LNet: Added LNI 10.0.3.41@efa [32/2048/0/0]"),
    ];

    #[test]
    fn genuine_messages_are_those_of_their_part() {
        for (source, line) in GENUINE {
            let log = KernelLog::parse(line);
            assert_eq!(log.messages().map(|message| message.source).collect::<Vec<_>>(), [*source], "{line}");
        }
        assert_eq!(KernelLog::parse("Memory Encryption Features active: AMD SME"), KernelLog::default());
    }

    /// Every text of a genuine message, in the places in which users choose the text of a message.
    #[test]
    fn text_of_a_user_is_no_message() {
        for (_, line) in GENUINE {
            // The kernel truncates the names of programs.
            let name: String = line.chars().take(15).collect();
            let device = "a 0000:be:00.0";
            for forged in [
                format!("tmpfs: Unknown parameter '{line}'"),
                format!("overlayfs: failed to resolve '/{line}': -2"),
                format!("fuse: Unknown parameter '{line}'"),
                format!("cgroup: fork rejected by pids controller in /{line}"),
                format!(
                    "x[7]: segfault at 8 ip 0000000000401106 sp 00007ffd0 error 6 in {line}[401000+1000] likely on CPU 3"
                ),
                format!("traps: x[7] general protection fault ip:401106 sp:7ffd0 error:0 in {line}[401000+1000]"),
                format!("process '{line}' started with executable stack"),
                format!(
                    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,task_memcg=/{line},task=x,pid=7"
                ),
                format!("audit: type=1326 audit(1763900000.123:456): auid=1 comm=\"x\" exe=\"{line}\""),
                format!("tmpfs: Unknown parameter 'x\\x0a{line}'"),
                format!(
                    "{name}[7]: segfault at 8 ip 0000000000401106 sp 00007ffd0 error 6 in {line}[401000+1000] likely on CPU 3"
                ),
                format!("{name}[7]: segfault at 8 ip 0000000000401106 sp 00007ffd0 error 6 in {line}[401000+1000]"),
                format!("{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
                format!(
                    "{name}: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset={line},mems_allowed=0"
                ),
                format!("{device}[7]: segfault at 8 ip 0000000000401106 sp 00007ffd0 error 6 in {line}[401000+1000]"),
                format!(
                    "{device}: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset={line}"
                ),
                format!("CPU: 1 UID: 2501 PID: 22828 Comm: {name} Not tainted 6.14.0"),
                format!("[  22828]  2501 22828      600      200    50000        0             0 {name}"),
                format!("Memory cgroup out of memory: Killed process 7 ({name}) total-vm:1kB"),
            ] {
                // Such a line has 15 bytes of the user. Checks read the device of a message of a disk, then its words.
                let is_harmless = |message: &Message| {
                    message.line.contains(" invoked oom-killer: ")
                        || message.source == Source::Disk && message.line.starts_with(&name)
                };
                let log = KernelLog::parse(&forged);
                assert!(log.messages().all(is_harmless), "{forged}: {log:?}");
            }
        }
    }

    #[test]
    fn the_name_of_a_program_is_cut_out_of_a_fault_and_the_fault_is_kept() {
        for name in ["python3", ": segfault at ", "Killed process ", "BAR is 0M @", "a, b, legacy dr", "", "\\xff\\x0a"]
        {
            let line = format!("NVRM: Xid (PCI:0000:be:00): 79, pid=7, name={name}, GPU has fallen off the bus.");
            let log = KernelLog::parse(&line);
            let texts: Vec<&str> = log.of(Source::Xid).map(|message| message.text.as_str()).collect();
            assert_eq!(texts, ["NVRM: Xid (PCI:0000:be:00): 79, pid=7, GPU has fallen off the bus."], "{name}");
            assert_eq!(log.messages().next().map(|message| message.line.as_str()), Some(line.as_str()));
        }
    }
}
