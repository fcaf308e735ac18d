//! Tests a new kernel parameter for each boot loader, and packages that are not in NVIDIA's lists.

use crate::machine::*;
use gds_top::checks;
use gds_top::core::{Change, FixPlan};
use gds_top::fixes;
use gds_top::machine::Root;

const DEBIAN: &str = "ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n";
const POP: &str = "ID=pop\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"24.04\"\nUBUNTU_CODENAME=noble\n";
const FEDORA: &str = "ID=fedora\nVERSION_ID=42\nPLATFORM_ID=\"platform:f42\"\n";
const SILVERBLUE: &str = "ID=fedora\nVERSION_ID=42\nVARIANT_ID=silverblue\nOSTREE_VERSION='42.20251101.0'\n";
const AMAZON: &str = "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\nPRETTY_NAME=\"Amazon Linux 2023\"\n";
const AZURE: &str = "ID=azurelinux\nVERSION_ID=\"3.0\"\nPRETTY_NAME=\"Microsoft Azure Linux 3.0\"\n";
const SLES: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n";
const LOADER: &str = "files/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

fn plan(id: &str, release: &str, edits: Vec<Edit>) -> FixPlan {
    let edits = all([vec![put("files/etc/os-release", release)], edits]);
    let folder = build("iommu-on", &edits);
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    fixes::plan_by_id(&root, &report, id.parse().unwrap()).unwrap()
}

fn lines(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => gds_top::text::quoted_line(argv),
        Change::WriteFile { path, after, .. } => format!("{}: {}", path.display(), after.trim_end()),
    };
    plan.changes.iter().map(of).collect()
}

fn systemd_boot() -> Edit {
    let text: String = "systemd-boot 257.9".chars().flat_map(|letter| [letter, '\0']).collect();
    put(LOADER, format!("\u{6}\0\0\0{text}\0\0"))
}

#[test]
fn a_word_goes_where_the_boot_loader_has_it_from() {
    const GRUB: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n";
    let grub = || put("files/etc/default/grub", GRUB);
    let cmdline = || put("files/etc/kernel/cmdline", "root=UUID=1 ro quiet\n");
    let rows: Vec<(&str, Vec<Edit>, &[&str])> = vec![
        (
            DEBIAN,
            vec![grub()],
            &["/etc/default/grub: GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"", "sudo update-grub", "sudo reboot"],
        ),
        (
            DEBIAN,
            vec![systemd_boot(), cmdline(), grub()],
            &[
                "/etc/kernel/cmdline: root=UUID=1 ro quiet iommu=pt",
                "sudo kernel-install add 6.14.0-37-generic /boot/vmlinuz-6.14.0-37-generic",
                "sudo reboot",
            ],
        ),
        (
            DEBIAN,
            vec![systemd_boot(), cmdline(), put("files/etc/kernel/proxmox-boot-uuids", "1234-5678\n")],
            &["/etc/kernel/cmdline: root=UUID=1 ro quiet iommu=pt", "sudo proxmox-boot-tool refresh", "sudo reboot"],
        ),
        (
            FEDORA,
            vec![systemd_boot(), put("files/proc/cmdline", "initrd=\\a BOOT_IMAGE=/v root=UUID=2 ro\n")],
            &[
                "/etc/kernel/cmdline: root=UUID=2 ro iommu=pt",
                "sudo kernel-install add 6.14.0-37-generic /lib/modules/6.14.0-37-generic/vmlinuz",
                "sudo reboot",
            ],
        ),
        (
            POP,
            vec![put("files/etc/kernelstub/configuration", "{}"), grub()],
            &["sudo kernelstub --add-options iommu=pt", "sudo reboot"],
        ),
        (
            SILVERBLUE,
            vec![put("files/run/ostree-booted", ""), put("files/usr/bin/rpm-ostree", "")],
            &["sudo rpm-ostree kargs --append-if-missing=iommu=pt", "sudo reboot"],
        ),
        (AMAZON, vec![grub()], &["sudo grubby --update-kernel=ALL --args=iommu=pt", "sudo reboot"]),
        (
            AZURE,
            vec![grub()],
            &[
                "/etc/default/grub: GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"",
                "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
                "sudo reboot",
            ],
        ),
        (SLES, vec![grub()], &["sudo pbl --add-option iommu=pt", "sudo pbl --config", "sudo reboot"]),
        (
            DEBIAN,
            vec![put("files/boot/extlinux/extlinux.conf", "LABEL l0\n  APPEND quiet\n")],
            &["sudoedit /boot/extlinux/extlinux.conf", "sudo reboot"],
        ),
    ];
    for (release, edits, wanted) in rows {
        let plan = plan("iommu-off", release, edits);
        assert_eq!(lines(&plan), wanted, "{release}");
        assert_eq!(plan.obstacle, None, "{release}");
        let is_grub = lines(&plan)[0].starts_with("/etc/default/grub");
        assert_eq!(plan.why.contains("GRUB_CMDLINE_LINUX_DEFAULT"), is_grub, "{release}: {}", plan.why);
    }
    let image = plan("p2pdma-registry-keys", SILVERBLUE, vec![put("files/run/ostree-booted", "")]);
    assert!(image.obstacle.is_some_and(|why| why.contains("rpm-ostree")), "files in its initramfs are another matter");
}

#[test]
fn a_boot_loader_that_no_file_shows_gets_no_command_of_grub() {
    let plan = plan("iommu-off", DEBIAN, vec![put("files/proc/device-tree/model", "a board with U-Boot")]);
    assert!(plan.obstacle.as_ref().is_some_and(|why| why.contains("bootargs")), "{:?}", plan.obstacle);
    assert!(lines(&plan).iter().all(|line| !line.contains("grub")), "{:?}", lines(&plan));
    assert!(!plan.why.contains("GRUB") && plan.undo_commands.is_empty(), "{plan:?}");
}

#[test]
fn headers_of_sles_are_those_of_the_running_kernel() {
    let running = |release: &str| vec![put("files/proc/sys/kernel/osrelease", format!("{release}\n"))];
    for (release, wanted) in [
        ("6.4.0-150600.23.25-default", "sudo zypper --non-interactive install kernel-default-devel=6.4.0-150600.23.25"),
        ("6.4.0-150600.8.8-azure", "sudo zypper --non-interactive install kernel-azure-devel=6.4.0-150600.8.8"),
    ] {
        let plan = plan("nvidia-driver-open", SLES, running(release));
        assert!(lines(&plan).iter().any(|line| line == wanted), "{:?}", lines(&plan));
    }
    let azure = plan("nvidia-driver-open", AZURE, running("6.12.87.1-1.azl3"));
    assert!(lines(&azure).iter().any(|line| line.contains("kernel-hwe-devel-6.12.87.1-1.azl3")), "{:?}", lines(&azure));
}

#[test]
fn distributions_outside_nvidias_lists_are_called_not_confirmed() {
    let said = |id: &str, release: &str| plan(id, release, Vec::new()).why.contains("not confirmed");
    for (id, release, wanted) in [
        ("nvidia-driver-open", AMAZON, false),
        ("nvfs-install", AMAZON, false),
        ("libcufile-install", AMAZON, false),
        ("nvidia-driver-open", AZURE, true),
        ("nvfs-install", AZURE, true),
        ("nvidia-repository", AZURE, true),
        ("nvfs-install", DEBIAN, false),
        ("nvidia-repository", DEBIAN, false),
    ] {
        assert_eq!(said(id, release), wanted, "{id} on {release}");
    }
}
