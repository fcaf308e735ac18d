//! The next boot: pending settings, an initramfs with or without them, and the boot loaders that store the kernel
//! parameters.

use crate::machine::*;
use gds_top::core::{FixId, Route};
use serde_json::json;

const KEYS: &str = "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n";
const KEYS_FILE: &str = "/etc/modprobe.d/nvidia-p2pdma.conf";
const IMAGE: &str = "/boot/initrd.img-6.14.0-37-generic";

fn os(text: &str) -> Edit {
    put("files/etc/os-release", text)
}

fn empty(path: &str) -> Edit {
    put(format!("files{path}"), "")
}

/// Modification times of files, in minutes.
fn times(files: &[(&str, u64)]) -> Edit {
    let listed: Vec<_> = files
        .iter()
        .map(|(path, minute)| json!({"path": path, "modified_unix_s": 1_760_000_000 + minute * 60}))
        .collect();
    put("times.json", serde_json::to_string(&listed).unwrap())
}

/// The keys of static BAR1 in modprobe.d, written at minute 10, and an initramfs that was built at the given minute.
pub(crate) fn keys_and_image(made: u64) -> Vec<Edit> {
    vec![put(format!("files{KEYS_FILE}"), KEYS), empty(IMAGE), times(&[(KEYS_FILE, 10), (IMAGE, made)])]
}

fn without_keys() -> Edit {
    put("files/proc/driver/nvidia/params", "RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"\"\n")
}

/// A boot loader whose name is in the EFI variables, as UTF-16 after four bytes of attributes.
pub(crate) fn started_by(name: &str) -> Edit {
    let text: String = name.chars().flat_map(|letter| [letter, '\0']).collect();
    put(
        "files/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
        format!("\u{6}\0\0\0{text}\0\0"),
    )
}

/// Pending settings, the initramfs, and boot loaders.
pub(crate) fn machines() -> Vec<Variant> {
    vec![
        fine("the keys are in effect, and the initramfs was made behind them", P2PDMA, keys_and_image(12)),
        // The next boot may lose the settings. This is a note and not an alarm, because the driver may not be in the
        // initramfs at all.
        fine("the keys are in effect, and the initramfs is older than they are", P2PDMA, keys_and_image(3)),
        bad(
            "the keys are written, and the initramfs is older than they are",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1"],
            &["gpu-static-bar1", "reboot-pending"],
            all([keys_and_image(3), vec![without_keys()]]),
        ),
        bad(
            "the keys are written, the initramfs has them, and a reboot is missing",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1"],
            &["gpu-static-bar1", "reboot-pending"],
            all([keys_and_image(12), vec![without_keys()]]),
        ),
        bad(
            "multipath is to be switched off, and dracut was not run",
            "multipath-on",
            Route::Compat,
            Route::P2pdma,
            &["nvme-multipath"],
            &["nvme-multipath", "reboot-pending"],
            vec![
                os("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"10.0\"\n"),
                put("files/etc/modprobe.d/nvme.conf", "options nvme_core multipath=N\n"),
                empty("/boot/initramfs-6.14.0-37-generic.img"),
                times(&[("/etc/modprobe.d/nvme.conf", 50), ("/boot/initramfs-6.14.0-37-generic.img", 4)]),
            ],
        ),
        fine(
            "an image whose files are all of one date",
            P2PDMA,
            vec![
                put(format!("files{KEYS_FILE}"), KEYS),
                empty("/boot/initramfs-6.14.0-37-generic.img"),
                empty("/run/ostree-booted"),
                empty("/usr/bin/rpm-ostree"),
                os("ID=fedora\nVERSION_ID=42\nVARIANT_ID=silverblue\nOSTREE_VERSION='42.20251101.0'\n"),
                times(&[(KEYS_FILE, 10)]),
            ],
        ),
        bad(
            "Pop!_OS, where kernelstub has the argument and a reboot is missing",
            "iommu-on",
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state", "reboot-pending"],
            vec![
                os("ID=pop\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"24.04\"\nUBUNTU_CODENAME=noble\n"),
                put(
                    "files/etc/kernelstub/configuration",
                    "{\"default\": {\"kernel_options\": [\"quiet\"]}, \"user\": {\"kernel_options\": [\"quiet\", \"iommu=pt\"]}}",
                ),
            ],
        ),
        bad(
            "systemd-boot, and the word in the file of GRUB",
            "iommu-on",
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state", "reboot-pending"],
            vec![
                started_by("systemd-boot 257.9-1"),
                put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n"),
                os("ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n"),
            ],
        ),
        fine(
            "systemd-boot with arguments that are in effect, and GRUB's old file next to it",
            P2PDMA,
            vec![
                started_by("systemd-boot 257.9-1"),
                put("files/proc/cmdline", "initrd=\\initrd root=/dev/nvme1n1p2 ro quiet iommu=pt\n"),
                put("files/etc/kernel/cmdline", "root=/dev/nvme1n1p2 ro quiet iommu=pt\n"),
                put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n"),
            ],
        ),
        fine(
            "GRUB by its name in the firmware, with a loader.conf that is not read",
            P2PDMA,
            vec![started_by("GRUB 2.12"), put("files/boot/efi/loader/loader.conf", "timeout 3\n")],
        ),
    ]
}

/// The finding about pending settings of the machine with this name, and its text.
fn pending(name: &str) -> gds_top::core::Finding {
    let machine = machines().into_iter().find(|machine| machine.name == name).unwrap();
    let folder = build(machine.base, &machine.edits);
    check(folder.path()).finding("reboot-pending").unwrap().clone()
}

fn told(finding: &gds_top::core::Finding) -> String {
    finding.evidence.iter().map(|e| format!("{}: {}\n", e.source, e.text)).collect()
}

#[test]
fn an_initramfs_that_is_older_than_the_options_is_made_anew_and_one_that_has_them_is_not() {
    let older = pending("the keys are written, and the initramfs is older than they are");
    assert_eq!(older.fix, Some(FixId::Initramfs));
    let evidence = told(&older);
    assert!(evidence.contains(&format!("{IMAGE}: created 7 min 00 s before {KEYS_FILE} was changed")), "{evidence}");
    let newer = pending("the keys are written, the initramfs has them, and a reboot is missing");
    assert_eq!(newer.fix, None);
    assert!(
        newer.advice.as_ref().is_some_and(|advice| advice.starts_with("Reboot, because the initramfs is newer")),
        "{newer:?}"
    );
    let lasting = pending("the keys are in effect, and the initramfs is older than they are");
    assert_eq!((lasting.status, lasting.fix), (gds_top::core::Status::Info, None));
    assert!(lasting.summary.contains("may not contain them"), "{}", lasting.summary);
    let fine = pending("the keys are in effect, and the initramfs was made behind them");
    assert_eq!(fine.status, gds_top::core::Status::Pass);
    let dracut = pending("multipath is to be switched off, and dracut was not run");
    assert!(
        told(&dracut).contains("/boot/initramfs-6.14.0-37-generic.img: created 46 min 00 s before"),
        "{}",
        told(&dracut)
    );
}

#[test]
fn words_of_the_kernel_are_looked_for_where_the_boot_loader_has_them() {
    let stub = pending("Pop!_OS, where kernelstub has the argument and a reboot is missing");
    assert!(told(&stub).contains("/etc/kernelstub/configuration: iommu=pt"), "{}", told(&stub));
    assert!(stub.fix.is_none() && stub.advice.as_ref().is_some_and(|a| a.contains("kernelstub")), "{stub:?}");
    let machine = machines().into_iter().find(|m| m.name.starts_with("Pop!_OS")).unwrap();
    let report = check(build(machine.base, &machine.edits).path());
    let iommu = report.finding("iommu-state").unwrap();
    assert_eq!(iommu.fix, None, "it is done already");
    assert!(iommu.advice.as_ref().is_some_and(|a| a.starts_with("iommu=pt is in /etc/kernelstub")), "{iommu:?}");
    let other = pending("systemd-boot, and the word in the file of GRUB");
    assert!(told(&other).contains("iommu=pt, without effect"), "{}", told(&other));
    assert!(other.advice.as_ref().is_some_and(|a| a.contains("/etc/kernel/cmdline")), "{other:?}");
}

#[test]
fn the_times_of_files_are_part_of_a_capture_and_of_nothing_else() {
    let live = gds_top::machine::Root::live_with(gds_top::machine::LiveOptions {
        cufile_probe: None,
        record: true,
        ..gds_top::machine::LiveOptions::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nvme.conf");
    std::fs::write(&file, "options nvme_core multipath=N\n").unwrap();
    let when = live.modified_unix_s(&file).unwrap();
    assert!(live.modified_unix_s(folder.path().join("none")).is_none());
    for name in ["taken", "taken.tar.zst"] {
        let taken = folder.path().join(name);
        live.write_capture(&taken, "gds-top test", 0).unwrap();
        let captured = gds_top::machine::Root::open(&taken).unwrap();
        assert_eq!(captured.modified_unix_s(&file), Some(when), "{name}");
        assert!(captured.exists(&file));
    }
    let tree = gds_top::machine::Root::tree(folder.path()).unwrap();
    assert_eq!(tree.modified_unix_s("/nvme.conf"), None, "a copied tree is dated by its copying");
}
