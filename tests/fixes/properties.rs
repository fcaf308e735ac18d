//! Tests every fix that edits files, on trees that already contain other options. Other words are kept, and undo
//! restores every byte.

use crate::copies::image;
use crate::machine::{build, put};
use gds_top::checks;
use gds_top::core::{Change, FixId, FixPlan, FixPolicy};
use gds_top::fixes::{self, Place, spec};
use gds_top::machine::Root;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Files of a machine, and lines that may be in them.
const FILES: &[(&str, &[&str])] = &[
    ("/etc/os-release", &["ID=ubuntu", "ID_LIKE=debian", "VERSION_ID=\"24.04\""]),
    (
        "/etc/modprobe.d/nvme.conf",
        &[
            "options nvme poll_queues=8",
            "options nvme_core io_timeout=4294967295 max_retries=10",
            "# of the cloud",
            "",
            "options nvme_core multipath=Y",
        ],
    ),
    (
        "/etc/modprobe.d/nvidia.conf",
        &[
            "options nvidia NVreg_OpenRmEnableUnsupportedGpus=1",
            "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\" # ours",
            "softdep nvidia post: nvidia-uvm",
            "blacklist nouveau",
            "softdep nvidia_fs pre: nvidia",
        ],
    ),
    ("/etc/modules-load.d/nvidia_fs.conf", &["# modules", "nvidia_uvm"]),
    (
        "/etc/security/limits.d/99-gds.conf",
        &["* soft nofile 65536", "@hpc - memlock 1024", "* hard memlock 64 # old", "", "root - core 0"],
    ),
    ("/etc/security/limits.d/99-zz.conf", &["* - memlock 8192", "* - nproc 4096"]),
    (
        "/etc/default/grub",
        &[
            "GRUB_TIMEOUT=5",
            "GRUB_CMDLINE_LINUX=\"crashkernel=512M\"",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=nobypass pci=noaer\"",
            "# GRUB_DISABLE_OS_PROBER=false",
        ],
    ),
    (
        "/etc/fstab",
        &[
            "UUID=1 / ext4 errors=remount-ro 0 1",
            "UUID=2\t/data  ext4 noatime,nodiratime\t0 2 # disks",
            "/data /srv none bind 0 0",
        ],
    ),
    ("/run/udev/data/b259:3", &["S:disk/by-id/x", "E:ID_SERIAL=x y", "E:ID_FS_USAGE=other", "G:systemd"]),
    ("/etc/udev/rules.d/64-md-level-gds.rules", &["# rules", "KERNEL==\"sd*\", TAG+=\"x\""]),
    ("/etc/apt/sources.list.d/doca.list", &["# deb http://other/ ./"]),
];

const CUFILE: &[&str] = &[
    "",
    "{\n}\n",
    "{\n  // ours\n  \"logging\": { \"level\": \"ERROR\" },\n  \"properties\": { \"max_direct_io_size_kb\": 16384 }\n}",
    "{ \"properties\": { \"use_pci_p2pdma\": false, \"io_batchsize\": 512, }, \"fs\": { \"lustre\": { \"posix_gds_min_kb\": 0 } } }\n",
];

/// The settings of fixes. A fix may change these words.
const SETTINGS: &[&str] = &[
    "multipath",
    "RegistryDwords",
    "PeerMappingOverride",
    "memlock",
    "unlimited",
    "64",
    "1024",
    "8192",
    "iommu",
    "pci=",
    "ID_FS",
    "use_pci_p2pdma",
    "io_batchsize",
    "rootflags",
    "data=",
    "pre:",
    "false",
    "512",
    "true",
    "}",
    ",",
];

fn text(lines: &[&str], chosen: &[bool], has_end: bool) -> String {
    let kept = lines.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(line, _)| *line);
    let text = kept.collect::<Vec<_>>().join("\n");
    if text.is_empty() || !has_end { text } else { format!("{text}\n") }
}

/// The words of a line that belong to no setting of a fix.
fn foreign(line: &str) -> Vec<&str> {
    let ends = |c: char| c.is_whitespace() || "\",;{}".contains(c);
    let words = line.split(ends).filter(|word| !word.is_empty());
    words.filter(|word| !SETTINGS.iter().any(|own| word.contains(own))).collect()
}

/// Whether `after` contains every word of `before` that is not a setting, in the same order.
fn keeps_foreign_words(before: &str, after: &str) -> bool {
    let mut rest = after;
    before.lines().flat_map(foreign).all(|word| match rest.find(word) {
        Some(at) => {
            rest = &rest[at + word.len()..];
            true
        }
        None => false,
    })
}

thread_local! {
    /// Number of plans that wrote a file, for each fix.
    static WROTE: RefCell<BTreeMap<FixId, u32>> = const { RefCell::new(BTreeMap::new()) };
}

fn apply_and_undo_all(edits: &[(&str, String)]) {
    let edits: Vec<_> = edits.iter().map(|(path, text)| put(format!("files{path}"), text.clone())).collect();
    let folder = build("nvfs-healthy", &edits);
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let state = tempfile::tempdir().unwrap();
    let place = Place::below(&folder.path().join("files"), state.path());
    for id in FixId::ALL.iter().copied().filter(|id| !spec::of(*id).edits.is_empty()) {
        let Some(plan) = fixes::plan_by_id(&root, &report, id) else { continue };
        let files = plan.changes.iter().filter(|change| matches!(change, Change::WriteFile { .. })).count();
        if files == 0 {
            continue;
        }
        for change in &plan.changes {
            if let Change::WriteFile { path, before, after, .. } = change {
                let before = before.as_deref().unwrap_or("");
                assert!(keeps_foreign_words(before, after), "{id} {}:\n{before}\n---\n{after}", path.display());
            }
        }
        WROTE.with_borrow_mut(|wrote| *wrote.entry(id).or_default() += 1);
        let before = image(&folder.path().join("files"));
        // Plans that are only shown, or are not for this machine, edit files by the same rules.
        let plan = FixPlan { policy: FixPolicy::Ask, obstacle: None, ..plan };
        fixes::apply(&plan, &place, &mut |_| true).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_ne!(image(&folder.path().join("files")), before, "{id} wrote nothing");
        fixes::undo(id, &place, &mut |_| true).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(image(&folder.path().join("files")), before, "{id}: undo restores every byte");
    }
}

#[test]
fn every_file_editing_fix_keeps_other_options_and_is_undone_byte_for_byte() {
    let lines: usize = FILES.iter().map(|(_, lines)| lines.len()).sum();
    let cases = (
        prop::collection::vec(any::<bool>(), lines),
        prop::collection::vec(any::<bool>(), FILES.len()),
        0..CUFILE.len(),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&cases, |(chosen, ends, cufile)| {
        let mut chosen = chosen.as_slice();
        let mut edits: Vec<(&str, String)> = Vec::new();
        for ((path, lines), has_end) in FILES.iter().zip(&ends) {
            let (these, rest) = chosen.split_at(lines.len());
            chosen = rest;
            // All lines of the release file are used.
            let all = vec![true; lines.len()];
            let text = text(lines, if *path == "/etc/os-release" { &all } else { these }, *has_end);
            if !text.is_empty() {
                edits.push((path, text));
            }
        }
        if !CUFILE[cufile].is_empty() {
            edits.push(("/etc/cufile.json", CUFILE[cufile].to_owned()));
        }
        apply_and_undo_all(&edits);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let wrote = WROTE.take();
    for id in [
        FixId::NvfsLoad,
        FixId::NvmePatch,
        FixId::IommuOff,
        FixId::Ext4Ordered,
        FixId::NvmeMultipathOff,
        FixId::P2pdmaRegistryKeys,
        FixId::CufileP2pdmaKeys,
        FixId::MdUdev,
        FixId::Memlock,
        FixId::CufileConfig,
        FixId::UdevRecord,
    ] {
        assert!(wrote.contains_key(&id), "{id} was never tried: {wrote:?}");
    }
}
