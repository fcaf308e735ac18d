//! Tests the real program on temporary roots: preview, apply, verify, undo and list, kills at every step, and
//! resuming after a reboot.

use crate::program::gds_top;
use crate::throwaway::{RESUME, Throwaway, UBUNTU, err, out};
use gds_top::core::Needs;
use gds_top::fixes::Place;
use gds_top::machine::Root;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

const REGISTRY: &str = "etc/modprobe.d/nvidia-p2pdma.conf";

#[test]
fn a_fix_is_previewed_applied_read_back_listed_and_taken_back_on_a_throw_away_root() {
    let root = Throwaway::captured("h200-vm-no-udev");
    let before = root.image();
    let shown = root.fix(&["udev-record", "--dry-run"]);
    assert!(shown.status.success() && out(&shown).contains("+E:ID_FS_USAGE=filesystem"), "{}", out(&shown));
    assert_eq!(root.image(), before, "a dry run writes nothing");
    let applied = root.fix(&["udev-record", "--yes"]);
    assert!(applied.status.success(), "{}", err(&applied));
    assert!(err(&applied).contains("✔ udev-record fixed"), "{}", err(&applied));
    let record = root.files().join("run/udev/data/b254:0");
    assert_eq!(fs::read_to_string(&record).unwrap(), "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n");
    assert_eq!(fs::metadata(&record).unwrap().mode() & 0o7777, 0o644);
    assert!(out(&root.fix(&["--list"])).contains("udev-record  applied"));
    let image = root.image();
    assert!(root.fix(&["udev-record", "--yes"]).status.success(), "there is nothing left to fix");
    assert_eq!(root.image(), image);
    let undone = root.fix(&["--undo", "udev-record"]);
    assert!(undone.status.success(), "{}", err(&undone));
    assert_eq!(root.image(), before, "undo leaves no trace, not even a journal");
}

#[test]
fn commands_are_shown_and_never_run_on_a_throw_away_root() {
    let root = Throwaway::tree(UBUNTU);
    let before = root.image();
    let tools = tempfile::tempdir().unwrap();
    let ran = tools.path().join("ran");
    for name in ["update-initramfs", "udevadm", "modprobe", "sudo"] {
        let tool = tools.path().join(name);
        fs::write(&tool, format!("#!/bin/sh\necho $0 \"$@\" >> {}\n", ran.display())).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    for id in ["p2pdma-registry-keys", "md-udev", "nvfs-load", "nvfs-stats", "memlock", "cufile-p2pdma-keys"] {
        for mode in ["--yes", "--undo"] {
            let done = root.command(&[id, mode]).env("PATH", &path).output().unwrap();
            assert!(done.status.success(), "{id} {mode}: {}", err(&done));
            if id != "memlock" && id != "cufile-p2pdma-keys" && mode == "--yes" {
                assert!(err(&done).contains("not run, because this is a directory: sudo"), "{id}: {}", err(&done));
            }
        }
        assert_eq!(root.image(), before, "{id} is undone completely");
    }
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
}

/// Kills a run at every step and starts the program again. The fix must then be completed or rolled back.
fn kill_everywhere(make: impl Fn() -> Throwaway, id: &str) -> u32 {
    let finished = {
        let root = make();
        assert!(root.fix(&[id, "--yes"]).status.success());
        root.outside_the_journal()
    };
    let mut steps = 0;
    for step in 1.. {
        let root = make();
        let before = root.image();
        if !root.killed_at(step, &[id, "--yes"]) {
            break;
        }
        steps = step;
        let next = root.resume();
        if root.image() == before {
            continue;
        }
        let after = root.outside_the_journal();
        assert_eq!(after, finished, "{id}, step {step}: neither as before nor finished; {}", err(&next));
        assert!(err(&next).contains("is applied"), "{}", err(&next));
        let undone = root.fix(&["--undo", id]);
        assert!(undone.status.success(), "{}", err(&undone));
        assert_eq!(root.image(), before, "{id}, step {step}: undone after it was finished");
    }
    steps
}

/// An existing file with an unusual mode and a missing file. One fix changes both.
fn with_a_file_of_its_own() -> Throwaway {
    let root = Throwaway::tree(UBUNTU);
    let path = root.files().join("etc/modprobe.d/nvidia-fs.conf");
    fs::write(&path, "# ours\noptions nvidia_fs rw_stats_enabled=1\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    root
}

/// A signal at a step: the program ends with status 130 before the next one, and names a fix that is half done.
#[test]
fn a_signal_at_any_step_ends_a_fix_with_status_130_and_the_next_start_resumes_it() {
    const ID: &str = "nvfs-load";
    let signals = [Signal::TERM, Signal::INT, Signal::HUP];
    let finished = {
        let root = with_a_file_of_its_own();
        assert!(root.fix(&[ID, "--yes"]).status.success());
        root.outside_the_journal()
    };
    // The number of fixes that were not begun, half done and completed.
    let mut ends = [0, 0, 0];
    for (step, signal) in (1..).zip(signals.into_iter().cycle()) {
        let root = with_a_file_of_its_own();
        let before = root.image();
        let Some((mut child, mut said)) = root.held_at(step, &[ID, "--yes"]) else { break };
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}, step {step}: {text}");
        assert!(text.contains("interrupted; the fix ends after its running step"), "step {step}: {text}");
        let is_half = text.contains(&format!("{ID}: it was interrupted; "));
        assert_eq!(err(&root.fix(&["--list"])).contains("it was interrupted"), is_half, "step {step}: {text}");
        if is_half {
            let next = root.resume();
            assert!(err(&next).contains("rolled back"), "step {step}: {}", err(&next));
            ends[1] += 1;
        } else if root.image() == before {
            ends[0] += 1;
        } else {
            assert_eq!(root.outside_the_journal(), finished, "step {step}: {text}");
            assert!(root.fix(&["--undo", ID]).status.success());
            ends[2] += 1;
        }
        assert_eq!(root.image(), before, "step {step}: {text}");
    }
    assert!(ends[0] == 1 && ends[1] >= 3 && ends[2] >= 3, "{ends:?}");
}

#[test]
fn a_signal_ends_an_undo_with_status_130_and_starts_no_further_one() {
    let root = with_a_file_of_its_own();
    for id in ["nvfs-load", "p2pdma-registry-keys"] {
        assert!(root.fix(&[id, "--yes"]).status.success());
    }
    // At step 2, the newest fix restores its file.
    let (mut child, mut said) = root.held_at(2, &["--undo"]).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(!root.files().join(REGISTRY).exists(), "{text}");
    let listed = out(&root.fix(&["--list", "nvfs-load", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["applied"], serde_json::json!(["nvfs-load"]), "{text}");
}

#[test]
fn applying_that_is_killed_at_any_step_is_finished_or_rolled_back() {
    assert!(kill_everywhere(with_a_file_of_its_own, "nvfs-load") >= 8);
    assert!(kill_everywhere(|| Throwaway::captured("h200-vm-no-udev"), "udev-record") >= 5);
}

#[test]
fn undoing_that_is_killed_at_any_step_is_finished() {
    let mut steps = 0;
    for step in 1.. {
        let root = with_a_file_of_its_own();
        let before = root.image();
        assert!(root.fix(&["nvfs-load", "--yes"]).status.success());
        let applied = root.image();
        if !root.killed_at(step, &["nvfs-load", "--undo"]) {
            break;
        }
        steps = step;
        let next = root.resume();
        let expected = if step == 1 { &applied } else { &before };
        assert_eq!(&root.image(), expected, "step {step}: {}", err(&next));
    }
    assert!(steps >= 6, "{steps}");
}

#[test]
fn a_recovery_that_is_killed_at_any_step_is_completed_by_the_next_start() {
    let finished = {
        let root = with_a_file_of_its_own();
        assert!(root.fix(&["nvfs-load", "--yes"]).status.success());
        root.outside_the_journal()
    };
    let mut recoveries = 0;
    for apply in 1.. {
        for recover in 1.. {
            let root = with_a_file_of_its_own();
            let before = root.outside_the_journal();
            if !root.killed_at(apply, &["nvfs-load", "--yes"]) {
                assert!(recoveries >= 8, "{recoveries} recoveries were killed");
                return;
            }
            if !root.killed_at(recover, RESUME) {
                break;
            }
            recoveries += 1;
            // The program is killed again at the same step, then runs to the end.
            root.killed_at(recover, RESUME);
            let next = root.resume();
            let after = root.outside_the_journal();
            assert!(after == before || after == finished, "apply {apply}, recovery {recover}: {}", err(&next));
            let again = root.resume();
            assert!(!err(&again).contains("interrupted"), "there is nothing left to recover: {}", err(&again));
            if after == finished {
                assert!(root.fix(&["--undo", "nvfs-load"]).status.success());
                assert_eq!(root.outside_the_journal(), before);
            }
        }
    }
}

#[test]
fn a_fix_that_another_process_is_at_is_not_taken_for_interrupted() {
    let root = Throwaway::tree(UBUNTU);
    // At step 4, half of the first file is written.
    let (mut child, _said) = root.held_at(4, &["memlock", "--yes"]).unwrap();
    let held = root.image();
    let other = root.fix(&["--list"]);
    assert!(err(&other).contains("another gds-top is applying"), "{}", err(&other));
    assert_eq!(root.image(), held, "the other one was left alone");
    child.kill().unwrap();
    child.wait().unwrap();
    let next = root.resume();
    assert!(err(&next).contains("rolled back"), "{}", err(&next));
}

/// The status is 3, because something was requested that could not run. Its result is not bad.
#[test]
fn a_fix_that_needs_root_is_not_started_and_ends_with_status_3() {
    let root = Throwaway::captured("p2pdma-two-steps");
    let before = root.image();
    let as_user = |words: &[&str]| root.command(words).env("GDS_TOP_TEST_NOT_ROOT", "1").output().unwrap();
    for words in [&["memlock", "--yes"][..], &["memlock"], &["nvidia-gds", "--yes"]] {
        let refused = as_user(words);
        assert_eq!(refused.status.code(), Some(3), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains("sudo gds-top fix"), "{words:?}: {}", err(&refused));
        assert!(!err(&refused).contains("Apply memlock?"), "{}", err(&refused));
    }
    assert_eq!(root.image(), before);
    assert_eq!(as_user(&["memlock", "--dry-run"]).status.code(), Some(0));
}

#[test]
fn every_hint_repeats_the_path_and_the_directory_and_names_a_program_that_sudo_finds() {
    let root = Throwaway::captured("p2pdma-two-steps");
    let sysroot = format!("--sysroot {}", root.top().canonicalize().unwrap().display());
    for id in ["memlock", "nvidia-gds"] {
        let words = [id, "--yes", "--path", "/data/models"];
        let refused = root.command(&words).env("GDS_TOP_TEST_NOT_ROOT", "1").output().unwrap();
        let line = format!("sudo gds-top fix {id} --path /data/models {sysroot}");
        assert!(err(&refused).contains(&line), "{line}: {}", err(&refused));
    }
    // This test is in no directory of sudo's secure_path, like a program of a virtual environment or of Cargo.
    let program = std::env::current_exe().unwrap();
    let line = Place::live().command("memlock", Some(Path::new("/data/my models")), Needs::Root);
    // A container often has a root user without sudo.
    let sudo = if Root::live().is_root_without_sudo() { "" } else { "sudo " };
    assert_eq!(line, format!("{sudo}{} fix memlock --path '/data/my models'", program.display()));
}

#[test]
fn nothing_goes_through_a_symbolic_link_or_into_a_file_that_changed_while_it_was_held() {
    let outside = tempfile::tempdir().unwrap();
    let root = Throwaway::tree(UBUNTU);
    fs::remove_dir(root.files().join("etc/modprobe.d")).unwrap();
    symlink(outside.path(), root.files().join("etc/modprobe.d")).unwrap();
    let refused = root.fix(&["p2pdma-registry-keys", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    assert!(err(&refused).contains("symbolic link"), "{}", err(&refused));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);

    // Stopped when half of the file is written, changed by another process, and continued.
    let root = Throwaway::tree(UBUNTU);
    let path = root.files().join(REGISTRY);
    let (mut child, mut said) = root.held_at(3, &["p2pdma-registry-keys", "--yes"]).unwrap();
    fs::write(&path, "another writer was quicker\n").unwrap();
    fs::write(root.top().join(".gds-top/go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("changed since the preview"), "{rest}");
    let digest = root.fix(&["p2pdma-registry-keys", "--yes", "--consent", "0000000000000000"]);
    assert_eq!(digest.status.code(), Some(1));
    assert!(err(&digest).contains("differ from the preview"), "{}", err(&digest));
    assert_eq!(fs::read_to_string(&path).unwrap(), "another writer was quicker\n");
}

#[test]
fn a_preview_has_the_obstacle_of_a_file_that_the_fix_would_not_write() {
    let outside = tempfile::tempdir().unwrap();
    let root = Throwaway::tree(UBUNTU);
    let (file, folder) = (root.files().join(REGISTRY), root.files().join("etc/modprobe.d"));
    let obstacle = || -> Option<String> {
        let before = root.image();
        let shown = root.fix(&["p2pdma-registry-keys", "--dry-run", "--json"]);
        assert!(shown.status.success(), "{}", err(&shown));
        assert_eq!(root.image(), before);
        let answer: serde_json::Value = serde_json::from_str(&out(&shown)).unwrap();
        answer["plans"][0]["obstacle"].as_str().map(str::to_owned)
    };
    assert_eq!(obstacle(), None);
    fs::write(&file, b"# caf\xe9\n").unwrap();
    assert!(obstacle().unwrap().contains(REGISTRY));
    // There is no question, for which a terminal would be needed.
    assert_eq!(root.fix(&["p2pdma-registry-keys"]).status.code(), Some(3));
    fs::remove_file(&file).unwrap();
    symlink(outside.path().join("none"), &file).unwrap();
    assert!(obstacle().unwrap().contains(REGISTRY));
    fs::remove_dir_all(&folder).unwrap();
    symlink(outside.path(), &folder).unwrap();
    assert!(obstacle().unwrap().starts_with("/etc/modprobe.d"));
}

#[test]
fn the_checklist_has_the_obstacle_of_a_file_and_asks_no_question_about_its_fix() {
    let outside = tempfile::tempdir().unwrap();
    let root = Throwaway::captured("p2pdma-two-steps");
    let file = root.files().join(REGISTRY);
    let obstacle = || -> Option<String> {
        let shown = root.fix(&["nvidia-gds", "--dry-run", "--json"]);
        let answer: serde_json::Value = serde_json::from_str(&out(&shown)).unwrap();
        let mut plans =
            answer["guide"]["steps"].as_array().unwrap().iter().flat_map(|s| s["plans"].as_array().unwrap());
        plans.find(|plan| plan["id"] == "p2pdma-registry-keys").unwrap()["obstacle"].as_str().map(str::to_owned)
    };
    assert_eq!(obstacle(), None);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    symlink(outside.path().join("none"), &file).unwrap();
    assert!(obstacle().unwrap().contains(REGISTRY));
    let before = root.image();
    let mut questions = 0;
    let (status, said) = root.on_terminal(&["nvidia-gds"], |_| {
        questions += 1;
        "n"
    });
    assert_eq!((status, questions), (1, 0), "{said}");
    assert_eq!(root.image(), before);
}

#[test]
fn a_plan_that_waits_for_a_reboot_is_taken_up_and_verified_after_it() {
    let root = Throwaway::captured("p2pdma-two-steps");
    let boot = root.files().join("proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, "first\n").unwrap();
    assert!(root.fix(&["p2pdma-registry-keys", "--yes"]).status.success());
    let waiting = out(&root.fix(&["--list"]));
    assert!(waiting.contains("○ sudo reboot (to do)"), "{waiting}");
    assert!(
        waiting.contains("next: sudo update-initramfs -u -k all, then sudo reboot; then gds-top verifies it"),
        "{waiting}"
    );

    // After the reboot the driver does not have the keys, because the initramfs was not rebuilt.
    root.reboot();
    let open = out(&root.fix(&["--list"]));
    assert!(
        open.contains("✔ sudo reboot (done)") && open.contains("after the reboot gpu-static-bar1 does not pass"),
        "{open}"
    );
    let check = gds_top().args(["check", "--root"]).arg(root.top()).output().unwrap();
    assert!(err(&check).contains("after the reboot gpu-static-bar1 does not pass"), "{}", err(&check));
    let guide = out(&root.fix(&["nvidia-gds", "--dry-run"]));
    assert!(guide.contains("after the reboot gpu-static-bar1"), "{guide}");

    // Now the driver has the keys.
    let params = root.files().join("proc/driver/nvidia/params");
    let text = fs::read_to_string(&params).unwrap_or_default();
    let text: String = text.lines().filter(|l| !l.starts_with("RegistryDwords:")).map(|l| format!("{l}\n")).collect();
    let keys = "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n";
    fs::write(&params, text + keys).unwrap();
    let proven = root.fix(&["--list", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&out(&proven)).unwrap();
    assert_eq!(told["open"][0]["verified"], true, "{told}");
    let closed = out(&root.fix(&["--list"]));
    assert!(!closed.contains("Not verified yet") && closed.contains("p2pdma-registry-keys  applied"), "{closed}");
    assert!(root.fix(&["--undo"]).status.success());
    assert!(!root.files().join(REGISTRY).exists());
}

#[test]
fn a_declined_step_names_the_rebuild_that_an_applied_one_left_to_it() {
    const REBUILD: &str = "before the reboot, run: sudo update-initramfs -u -k all";
    let root = Throwaway::captured("p2pdma-two-steps");
    let put = |path: &str, text: &str| {
        let path = root.files().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/sys/kernel/random/boot_id", "first\n");
    put("sys/module/nvme_core/parameters/multipath", "Y\n");
    put("sys/class/nvme-subsystem/nvme-subsys0/nvme0/transport", "pcie\n");
    put("sys/class/nvme-subsystem/nvme-subsys0/nvme0n1/size", "1\n");
    let (status, said) = root.on_terminal(&["nvidia-gds"], |question| if question == 0 { "y" } else { "n" });
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("nvme-multipath-off was not applied") && said.contains(REBUILD), "{said}");
    // The next command knows it too, until the step is applied.
    let (_, said) = root.on_terminal(&["nvidia-gds"], |_| "n");
    assert!(said.contains(REBUILD), "{said}");
    let applied = root.fix(&["nvidia-gds", "--yes"]);
    assert!(applied.status.success() && err(&applied).contains("in effect after one reboot"), "{}", err(&applied));
    assert!(!err(&applied).contains(REBUILD), "{}", err(&applied));
}

#[test]
fn every_recipe_of_every_family_has_all_that_a_plan_needs() {
    const FAMILIES: [(&str, &str, &str); 3] = [
        (UBUNTU, "apt-get", "update-initramfs"),
        ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n", "dnf", "dracut -f --regenerate-all"),
        ("ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n", "zypper", "dracut -f"),
    ];
    // Their changes depend on a disk, a mount and a bridge, which the tree does not have.
    const OF_A_DEVICE: [&str; 3] = ["udev-record", "ext4-ordered", "acs-redirect"];
    for (release, packages, initramfs) in FAMILIES {
        let root = Throwaway::tree(release);
        for id in gds_top::core::FixId::ALL.iter().map(|id| id.as_str()).filter(|id| !OF_A_DEVICE.contains(id)) {
            let shown = root.fix(&[id, "--dry-run", "--json"]);
            assert!(shown.status.success(), "{}: {}", id, err(&shown));
            let told: serde_json::Value = serde_json::from_str(&out(&shown)).unwrap();
            let plan = &told["plans"][0];
            for field in ["title", "why", "needs", "risk", "policy", "verify", "undo", "check"] {
                assert!(plan[field].as_str().is_some_and(|text| !text.is_empty()), "{}: {field}: {plan}", id);
            }
            assert!(!plan["changes"].as_array().unwrap().is_empty(), "{}: {plan}", id);
            let text = plan.to_string();
            if ["nvfs-install", "libcufile-install", "nvfs-dkms", "nvidia-driver-open"].contains(&id) {
                assert!(plan["changes"].to_string().contains(packages), "{}: {text}", id);
            }
            if ["initramfs", "nvme-multipath-off", "p2pdma-registry-keys"].contains(&id) {
                assert!(plan["changes"].to_string().replace("\",\"", " ").contains(initramfs), "{}: {text}", id);
            }
        }
    }
}

#[test]
fn the_policy_of_the_recipes_is_kept() {
    const POLICY: &[(&str, &str)] = &[
        ("nvidia-driver-open", "show"),
        ("nvfs-install", "ask"),
        ("nvfs-load", "ask"),
        ("nvfs-dkms", "ask"),
        ("secure-boot-key", "show"),
        ("nvme-patch", "show"),
        ("nfs-rdma-client", "show"),
        ("iommu-off", "show"),
        ("acs-redirect", "never"),
        ("nvme-multipath-off", "show"),
        ("p2pdma-registry-keys", "ask"),
        ("initramfs", "ask"),
        ("cufile-p2pdma-keys", "ask"),
        ("libcufile-install", "ask"),
        ("container-devices", "show"),
        ("md-udev", "ask"),
        ("nvfs-stats", "ask"),
        ("bar1-large", "show"),
        ("memlock", "ask"),
        ("kernel-p2pdma", "show"),
        ("gpu-near-disk", "show"),
        ("move-model", "never"),
        ("cufile-config", "show"),
        ("cufile-log", "show"),
    ];
    let root = Throwaway::tree(UBUNTU);
    for (id, policy) in POLICY {
        let told: serde_json::Value = serde_json::from_str(&out(&root.fix(&[id, "--dry-run", "--json"]))).unwrap();
        assert_eq!(told["plans"][0]["policy"], *policy, "{id}");
        if *policy != "ask" {
            let before = root.image();
            let done = root.fix(&[id, "--yes"]);
            assert!(err(&done).contains("is shown only"), "{}", err(&done));
            assert_eq!(root.image(), before, "{id}");
        }
    }
}

#[test]
fn a_root_that_is_none_is_refused() {
    for (root, part) in
        [("/", "omit --sysroot"), ("/no/such/folder", "cannot be opened"), ("/etc/passwd", "is not a directory")]
    {
        let refused = gds_top().args(["fix", "--list", "--root", root]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{root}");
        assert!(err(&refused).contains(part), "{root}: {}", err(&refused));
    }
}
