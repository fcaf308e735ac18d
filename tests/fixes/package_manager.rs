//! Tests the guided set-up with the real apt and dpkg, in a copy of this Debian, with small packages that have the
//! names of the real ones.

use crate::machine::{build, copy, put, without};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const KERNEL: &str = "6.14.0-37-generic";
const GUIDED: [&str; 5] = ["gds-top", "fix", "nvidia-gds", "--path", "/data/models"];

/// A Debian in a directory, with the files of a machine without a driver. `None` if this machine cannot provide one; the
/// reason is printed to standard error.
struct Debian {
    folder: tempfile::TempDir,
}

impl Debian {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixes/debian.sh");
        let made = Command::new("bash").arg(script).arg(&root).arg(KERNEL).output().unwrap();
        if made.status.code() == Some(77) {
            eprintln!("skipped: {}", String::from_utf8_lossy(&made.stdout).trim());
            return None;
        }
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let machine = build(
            "nvfs-healthy",
            &[
                without("files/etc/os-release"),
                without("files/proc/driver"),
                without("files/sys/module/nvidia"),
                without("files/sys/module/nvidia_fs"),
                without("files/dev"),
                // Without P2PDMA the route is nvfs, which needs most packages.
                put("files/boot/config-6.14.0-37-generic", "# CONFIG_PCI_P2PDMA is not set\n"),
                put("files/proc/modules", "nvme 73728 2 - Live 0x0000000000000000\n"),
                put("files/proc/sys/kernel/random/boot_id", "first\n"),
            ],
        );
        copy(&machine.path().join("files"), &root);
        fs::create_dir_all(root.join("data/models")).unwrap();
        fs::copy(crate::program::PROGRAM, root.join("usr/bin/gds-top")).unwrap();
        Some(Self { folder })
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = crate::program::started_by("chroot");
        command
            .arg(self.root())
            .args(words)
            .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Sends INT to the process group of a guided set-up, as Ctrl-C does, while its download runs, which ends later.
    /// Returns the status and the lines of the set-up.
    fn interrupted(&self) -> (Option<i32>, String) {
        let download = self.root().join("usr/local/bin/wget");
        let real = self.root().join("usr/local/bin/wget-of-the-test");
        fs::rename(&download, &real).unwrap();
        let wait =
            "n=0; touch /var/fake/begun; until [ -e /var/fake/go ] || [ $n -gt 600 ]; do n=$((n+1)); sleep 0.1; done";
        let script = format!("#!/bin/sh\n{wait}\n/usr/local/bin/wget-of-the-test \"$@\" && touch /var/fake/ended\n");
        fs::write(&download, script).unwrap();
        fs::set_permissions(&download, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = self.command(&[&GUIDED[..], &["--yes"]].concat());
        let mut child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !self.root().join("var/fake/begun").exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        let mut text = String::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            if line.contains("interrupted; the fix ends after its running step") {
                fs::write(self.root().join("var/fake/go"), "").unwrap();
            }
            text.push_str(&format!("{line}\n"));
        }
        (child.wait().unwrap().code(), text)
    }

    fn guided(&self, more: &[&str]) -> (Option<i32>, String) {
        let done = self.run(&[&GUIDED[..], more].concat());
        let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        (done.status.code(), text)
    }

    /// The packages that dpkg installed since the directory was created, in order.
    fn installed(&self) -> Vec<String> {
        let log = fs::read_to_string(self.root().join("var/log/dpkg.log")).unwrap_or_default();
        let of = |line: &str| Some(line.split(" install ").nth(1)?.split(':').next()?.to_owned());
        log.lines().filter_map(of).collect()
    }

    /// Simulates a reboot, which loads the modules that DKMS built.
    fn reboot(&self) {
        let write = |path: &str, text: &str| {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/random/boot_id", "second\n");
        write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
        );
        write("sys/module/nvidia/version", "580.95.05\n");
        write("sys/module/nvidia_fs/version", "2.27.3\n");
        write("proc/driver/nvidia-fs/version", "version: 2.27.3\n");
        write("dev/nvidia-fs0", "");
        write("proc/modules", "nvidia_fs 1 0 - Live 0x0\nnvidia 1 1 nvidia_fs, Live 0x0\nnvme 73728 2 - Live 0x0\n");
    }
}

#[test]
fn packages_are_installed_by_apt_in_order_with_one_reboot_and_the_set_up_continues_after_it() {
    let Some(debian) = Debian::new() else { return };
    let (status, shown) = debian.guided(&["--dry-run"]);
    assert_eq!((status, debian.installed()), (Some(0), Vec::new()), "{shown}");

    // Without a terminal and without --yes, nothing is applied.
    let (status, asked) = debian.guided(&[]);
    assert_eq!((status, debian.installed()), (Some(2), Vec::new()), "{asked}");

    // A signal lets the running command end, and no other begins. The next set-up continues.
    let (status, text) = debian.interrupted();
    assert_eq!((status, debian.installed()), (Some(130), Vec::new()), "{text}");
    assert!(debian.root().join("var/fake/ended").exists(), "the download was killed: {text}");
    assert!(text.contains("nvidia-repository: it was interrupted; "), "{text}");

    let (status, first) = debian.guided(&["--yes"]);
    assert_eq!(status, Some(0), "{first}");
    assert!(first.contains("nvidia-repository: it was interrupted and is now rolled back"), "{first}");
    let installed = debian.installed();
    let at = |name: &str| installed.iter().position(|package| package.starts_with(name));
    let headers = format!("linux-headers-{KERNEL}");
    for (before, after) in
        [("cuda-keyring", "nvidia-open"), (headers.as_str(), "nvidia-open"), ("nvidia-open", "nvidia-gds-")]
    {
        assert!(at(before).is_some() && at(before) < at(after), "{before} before {after}: {installed:?}\n{first}");
    }
    assert!(first.contains("in effect after one reboot: "), "{first}");
    assert!(debian.root().join("var/lib/gds-top/journal/set-up").exists());

    debian.reboot();
    let (status, second) = debian.guided(&["--yes"]);
    assert!(second.contains("done before the last reboot: nvidia-repository, nvidia-driver-open"), "{second}");
    assert_eq!(debian.installed(), installed, "nothing is installed twice\n{second}");
    // There is no GPU that could prove the route, and the command reports this.
    assert_eq!(status, Some(1), "{second}");
    let loaded = fs::read_to_string(debian.root().join("etc/modules-load.d/nvidia_fs.conf")).unwrap_or_default();
    assert_eq!(loaded, "nvidia_fs\n", "{second}");
}
