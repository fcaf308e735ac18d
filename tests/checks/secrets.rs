//! Tests that captures contain no names of a machine, its users or its parts, but give the same findings. A capture
//! of this machine gives the same findings as the machine.

use crate::capture::answer;
use crate::machine::*;
use crate::program::gds_top;
use gds_top::checks;
use gds_top::machine::Root;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Texts that must not be in any part of a capture.
const SECRETS: &[&str] = &[
    "zebra-gpu-17",
    "secretcorp",
    "filer99",
    "10.77.3.9",
    "10.77.4.200",
    "fd12:3456:789a:1::42",
    "b8:3f:d2:aa:10:7e",
    "b83f:d203:00aa:107e",
    "carol",
    "S6EXNE0R777777",
    "eui.0025388b91d2a3f4",
    "0025388b91d2a3f4",
    "nqn.2019-08.com.acme:storage-rack-9",
    "9f0c1d2e-3b4a-4c5d-8e9f-0a1b2c3d4e5f",
    "zebra--gpu--17",
    "login01",
    "hunter2",
    "pa55w0rd",
    "tok_9Qx8ZZ",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "nvapi-Sesame",
    "abcSIG999",
    "DEADBEEFCAFE",
    "mgs07",
    "1652923034567",
    "b8-3f-d2-aa-10-7f",
    "lun7",
];

const KERNEL_LOG: &str = "Linux version 6.14.0-37-generic (carol@zebra-gpu-17)\n\
    zebra-gpu-17 systemd[1]: Hostname set to <zebra-gpu-17.secretcorp.example>.\n\
    nvme nvme1: new ctrl: NQN \"nqn.2019-08.com.acme:storage-rack-9\", addr 10.77.3.9:4420\n\
    nvme nvme0: Identify: SerialNumber: S6EXNE0R777777\n\
    mlx5_core 0000:17:00.0 eth4: Link up, hw addr b8:3f:d2:aa:10:7e gid fe80:0000:0000:0000:b83f:d203:00aa:107e\n\
    EXT4-fs (nvme0n1p1): mounted filesystem 9f0c1d2e-3b4a-4c5d-8e9f-0a1b2c3d4e5f r/w\n\
    NFS: server filer99.secretcorp.example not responding\n\
    IPv6: ADDRCONF(NETDEV_CHANGE): fd12:3456:789a:1::42 added for user carol\n\
    Kernel command line: root=/dev/mapper/zebra--gpu--17--vg-root ip=10.77.3.9::10.77.4.200:255.255.255.0:zebra-gpu-17:eth0:off netroot=iscsi:bob:hunter2@@10.77.3.9:3260::iqn.2020-01.org:lun7 crypto=0xDEADBEEFCAFE\n\
    nvidia: ZEBRA-GPU-17 asked login01.secretcorp.example [fd12:3456:789a:1::42]:2049, fe80::ba3f:d2ff:feaa:107e%eth0, B8-3F-D2-AA-10-7F\n\
    nvidia: GPU serial 1652923034567; fetched https://svc:pa55w0rd@meta.secretcorp.example/x?sig=abcSIG999, token=ghp_16C7e42F292c6912E7710c838347Ae178B4a\n\
    nvidia_fs: registered correctly with major number 505\n";
const CMDLINE: &str = "BOOT_IMAGE=/vmlinuz root=/dev/mapper/zebra--gpu--17--vg-root ro ip=10.77.3.9::10.77.4.200:255.255.255.0:zebra-gpu-17:eth0:off join_token=tok_9Qx8ZZ \
    nfsroot=filer99.secretcorp.example:/x ds=nocloud-net;seedfrom=http://svc:pa55w0rd@meta.secretcorp.example/x ifname=eth0:b8:3f:d2:aa:10:7e intel_iommu=off iommu=pt\n";
const CUFILE_LOG: &str = " 20-11-2026 14:32:16:1 [pid=1 tid=1] ERROR  cufio-udev:85 udev property not found: ID_FS_USAGE /home/carol/models/a.safetensors\n \
    20-11-2026 14:32:17:1 [pid=1 tid=1] ERROR  cufio:12 could not reach 10.77.3.9 from zebra-gpu-17 (S6EXNE0R777777)\n";
const UDEV: &str = "E:ID_SERIAL=SAMSUNG_MZQL2_S6EXNE0R777777\nE:ID_SERIAL_SHORT=S6EXNE0R777777\nE:ID_WWN=eui.0025388b91d2a3f4\n\
    E:ID_FS_UUID=9f0c1d2e-3b4a-4c5d-8e9f-0a1b2c3d4e5f\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\n";
const MOUNTS: &str = "22 1 259:2 / / rw - ext4 /dev/nvme1n1p2 rw\n36 22 259:3 / /data rw - ext4 /dev/nvme0n1p1 rw,data=ordered\n\
    41 22 0:53 / /scratch rw - lustre mgs07@o2ib:/scratch rw\n40 22 0:52 / /home/carol/share rw - nfs4 filer99.secretcorp.example:/vol/carol rw,clientaddr=10.77.4.200,addr=10.77.3.9\n";
const CONFIG: &str = "{\n // carol@zebra-gpu-17.secretcorp.example, 10.77.3.9; ask user carol, password hunter2, token: tok_9Qx8ZZ\n \"properties\": { \"rdma_dev_addr_list\": [\"10.77.3.9\"], \
    \"use_pci_p2pdma\": true },\n \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } },\n \"logging\": { \"dir\": \"/home/carol/logs\" }\n}\n";

fn planted() -> Vec<Edit> {
    vec![
        put("files/proc/sys/kernel/hostname", "zebra-gpu-17.secretcorp.example\n"),
        put("files/proc/self/mountinfo", MOUNTS),
        config(CONFIG),
        put("files/proc/cmdline", CMDLINE),
        put("files/home/carol/logs/cufile.log", CUFILE_LOG),
        put("files/home/carol/cufile.json", "{ \"properties\": { \"io_batchsize\": 64 } }"),
        put("files/run/udev/data/b259:3", UDEV),
        put(
            "environment.json",
            r#"{"NVIDIA_API_KEY": "nvapi-Sesame", "CUFILE_ENV_PATH_JSON": "/home/carol/cufile.json", "CUFILE_LOGFILE_PATH": "/home/carol/logs/cufile.log",
                "LD_LIBRARY_PATH": "/home/carol/lib", "CUFILE_USE_PCIP2PDMA": "true"}"#,
        ),
        set(PATHS, "/0/path", json!("/home/carol/models")),
        set(PATHS, "/0/real_path", json!("/data/carol/models")),
        set("capture.json", "/paths", json!(["/home/carol/models"])),
    ]
}

fn everything(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            out.push((entry.path(), String::new()));
            everything(&entry.path(), out);
        } else if kind.is_symlink() {
            out.push((entry.path(), std::fs::read_link(entry.path()).unwrap().display().to_string()));
        } else {
            out.push((entry.path(), String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned()));
        }
    }
}

#[test]
fn no_secret_that_was_planted_is_in_the_capture_and_the_answer_is_the_same() {
    let mut wrong = Vec::new();
    for base in
        ["nvfs-healthy", "p2pdma-healthy", "secure-boot", "nfs-rdma", "md-raid0", "log-tells", "switch-healthy", "weka"]
    {
        let mut edits = planted();
        let commands = fixture(base).join(COMMANDS);
        let known: Vec<Value> =
            std::fs::read(commands).map_or_else(|_| Vec::new(), |bytes| serde_json::from_slice(&bytes).unwrap());
        let mut all: Vec<Value> = known.into_iter().filter(|c| c["argv"][0] != "journalctl").collect();
        all.push(said(&JOURNAL, KERNEL_LOG));
        edits.push(put(COMMANDS, json!(all).to_string()));
        if base == "nfs-rdma" {
            edits.push(path("/0/source", json!("filer99.secretcorp.example:/vol/carol")));
        }
        let machine = build(base, &edits);
        let whole = Root::folder_recorded(machine.path()).unwrap();
        let there = checks::run(&whole, &whole.captured_paths(), None, &mut |_| {});
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("capture");
        let captured = whole.write_capture(&taken, "gds-top test", 0).unwrap();
        assert!(!captured.redacted.is_empty());
        let mut files = Vec::new();
        everything(&taken, &mut files);
        assert!(files.len() > 20, "{base}: {} files", files.len());
        for (path, text) in &files {
            let name = path.strip_prefix(&taken).unwrap().display().to_string();
            for secret in SECRETS {
                if name.contains(secret) || text.to_lowercase().contains(&secret.to_lowercase()) {
                    let line = text
                        .lines()
                        .find(|line| line.to_lowercase().contains(&secret.to_lowercase()))
                        .unwrap_or("its name");
                    wrong.push(format!("{base}: {secret} is in {name}: {line}"));
                }
            }
        }
        let redacted = Root::open(&taken).unwrap();
        let here = checks::run(&redacted, &redacted.captured_paths(), None, &mut |_| {});
        if answer(&there) != answer(&here) {
            let (a, b) = (answer(&there), answer(&here));
            wrong.push(format!("{base}: the answer changed: {:?}", a.iter().zip(&b).find(|(a, b)| a != b)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn program(words: &[&str], folder: &Path) -> Value {
    let output = gds_top().args(words).current_dir(folder).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
}

#[test]
fn the_programs_own_capture_of_this_machine_answers_as_check_does() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/model.safetensors"), vec![1_u8; 65536]).unwrap();
    let taken = folder.path().join("here.tar.zst");
    let taken = taken.to_str().unwrap();
    let models = folder.path().join("models");
    program(&["capture", taken, models.to_str().unwrap(), "--json"], folder.path());
    let live = program(&["check", models.to_str().unwrap(), "--json"], folder.path());
    let told = program(&["check", "--root", taken, "--json"], folder.path());
    // The page cache, memory and transfers in flight change between two runs of the checks.
    let moves = |id: &str| ["page-cache-residency", "gpu-bar1-free", "stats-shm", "ext4-lazyinit"].contains(&id);
    let answers = |report: &Value| -> Vec<String> {
        report["checks"]
            .as_array()
            .or_else(|| report["findings"].as_array())
            .unwrap_or_else(|| panic!("{report}"))
            .iter()
            .filter(|f| !moves(f["id"].as_str().unwrap()))
            // These findings report that a capture does not contain their data.
            .filter(|f| !f["summary"].as_str().unwrap().contains("of this capture"))
            .map(|f| {
                format!("{} {} blocks {} fix {} cause {}", f["id"], f["status"], f["blocks"], f["fix"], f["cause"])
            })
            .collect()
    };
    let (a, b) = (answers(&live), answers(&told));
    assert!(a.len() > 20, "{a:?}");
    assert_eq!(a, b);
}

#[test]
fn a_user_of_a_directory_who_stands_in_no_passwd_is_not_in_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("scratch/zoralice/models");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("model.safetensors"), vec![1_u8; 4096]).unwrap();
    let taken = folder.path().join("capture");
    let output = gds_top()
        .args(["capture", taken.to_str().unwrap(), models.to_str().unwrap()])
        .env("USER", "zoralice")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut files = Vec::new();
    everything(&taken, &mut files);
    for (path, text) in &files {
        let name = path.strip_prefix(&taken).unwrap().display().to_string();
        assert!(!name.contains("zoralice") && !text.contains("zoralice"), "{name}: {text}");
    }
}

#[test]
fn a_capture_with_a_spoilt_part_is_refused_with_a_sentence_and_status_2() {
    for (part, text) in [
        ("capture.json", "{ \"schema_version\": "),
        ("capture.json", "[]"),
        ("nvml.json", "{ \"gpus\": [ }"),
        ("nvml.json", "\u{0}\u{0}"),
        ("libcufile.json", "not json"),
        ("paths.json", "[ { \"path\": 5 "),
        ("commands.json", "[ { \"argv\": "),
        ("environment.json", "{ \"A\" "),
    ] {
        let machine = build("nvfs-healthy", &[]);
        std::fs::write(machine.path().join(part), text).unwrap();
        for words in [vec!["check"], vec!["config", "lint"], vec!["config", "show"]] {
            let output = gds_top().args(&words).arg("--root").arg(machine.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{part} {text:?} {words:?}: {output:?}");
            assert!(
                said.contains(part) && said.trim().lines().count() <= 3 && !said.contains("panicked"),
                "{part}: {said}"
            );
        }
    }
    for (name, make) in [("empty", true), ("missing", false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        if make {
            std::fs::create_dir(&path).unwrap();
        }
        let output = gds_top().args(["check", "--root"]).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}
