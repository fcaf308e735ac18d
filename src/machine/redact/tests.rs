//! Tests of the redaction of captures.

use super::*;

fn clean(text: &str) -> String {
    let mut redactor = Redactor::default();
    redactor.host("node17.example.org");
    redactor.learn(
        Path::new("/run/udev/data/b259:0"),
        "E:ID_SERIAL=Disk_980_S64DNX0\nE:ID_SERIAL_SHORT=S64DNX0\nE:ID_FS_TYPE=ext4",
    );
    redactor.home("/u/alice");
    redactor.text(text)
}

#[test]
fn redaction_replaces_equal_names_equally() {
    for (before, after) in [
        ("node17 and node17.example.org", "host2 and host1"),
        ("/home/alice/m /home/bob/x /home/alice", "/home/user1/m /home/user2/x /home/user1"),
        ("/u/alice/models", "/home/user1/models"),
        ("E:ID_SERIAL=Disk_980_S64DNX0 disk/by-id/nvme-S64DNX0", "E:ID_SERIAL=serial1 disk/by-id/nvme-serial2"),
        ("addr=10.1.2.3,clientaddr=10.1.2.4 10.1.2.3:/export", "addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/export"),
        ("eth0 aa:bb:cc:dd:ee:ff up", "eth0 02:00:00:00:00:01 up"),
        ("fe80::1ff:fe23:4567:890a", "2001:db8::1"),
        ("UUID=12345678-1234-1234-1234-123456789abc", "UUID=00000000-0000-4000-8000-000000000001"),
    ] {
        assert_eq!(clean(before), after);
    }
}

#[test]
fn names_of_a_cluster_of_storage_scale_are_replaced() {
    const SETTINGS: &str = "clusterName ai.corp\nverbsRdma enable\n[c01n01.corp,c01n02]\nverbsRdmaSend yes\n[common]\n";
    let mut redactor = Redactor::default();
    redactor.cluster(SETTINGS);
    let clean = redactor.text(SETTINGS);
    assert!(!clean.contains("corp") && !clean.contains("c01n0"), "{clean}");
    assert!(clean.contains("[common]\n") && clean.contains("\nverbsRdma enable\n"), "{clean}");
}

#[test]
fn what_only_looks_like_a_name_stays() {
    for text in [
        "GDS Version: 1.17.1.22",
        "libcufile 1.20.0.107 at /opt/cuda/1.20.0.107/lib/libcufile.so.1.14.1.1",
        "0000:be:00.0 pci 254:0 12:30:45 127.0.0.1 0.0.0.0 ::1 ::",
        "GPU-12345678-1234-1234-1234-123456789abc",
        "580.95.05 6.8.0-60-generic /dev/nvme0n1p1 /home/ std::fs",
        "deadbeef node170 anode17",
    ] {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn the_lines_of_a_log_keep_their_cause_and_lose_their_names() {
    let mut redactor = Redactor::default();
    redactor.host("node17");
    redactor.people(
        "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/u/alice:/bin/sh\nubuntu:x:1001:1001::/home/ubuntu:/bin/sh\n",
    );
    redactor.server("lustre", "mgs01@o2ib:/scratch");
    let log = " 20-11-2026 14:32:15:112 [pid=1 tid=1] ERROR  cufio-udev:85 udev property not found: ID_FS_USAGE on node17 \
               path /u/alice/m and /home/ubuntu/m for user alice (alice) alice@node17 mgs01@o2ib:/scratch 10.1.2.3 nvme-eui.0025385b71b0aa11\n";
    redactor.learn(Path::new("/var/log/cufile.log"), log);
    let clean = redactor.text(log);
    assert!(clean.contains("udev property not found: ID_FS_USAGE"), "{clean}");
    for name in ["node17", "alice", "mgs01", "10.1.2.3", "0025385b71b0aa11", "/home/ubuntu"] {
        assert!(!clean.contains(name), "{name} is still in: {clean}");
    }
    assert_eq!(redactor.text("ID=ubuntu\nID_LIKE=debian\n"), "ID=ubuntu\nID_LIKE=debian\n");
}

#[test]
fn names_that_a_text_does_not_contain_are_neither_counted_nor_numbered() {
    let mut redactor = Redactor::default();
    redactor.host("node17");
    redactor.people("alice:x:1000:1000::/u/alice:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n");
    assert_eq!(redactor.text("/home/eve/models"), "/home/user1/models");
    assert_eq!(redactor.said(), ["user names in paths (1)"]);
}

#[test]
fn directories_of_users_lose_their_name_and_those_of_the_system_keep_theirs() {
    let mut redactor = Redactor::default();
    redactor.user("alice");
    assert_eq!(
        redactor.text("/dev/shm/alice/m /run/media/alice/disk /vol/alice /dev/alice /run/alice.pid /dev/shmem/alice"),
        "/dev/shm/user1/m /run/media/user1/disk /vol/user1 /dev/alice /run/alice.pid /dev/shmem/alice"
    );
}

#[test]
fn it_says_what_it_took_out() {
    let mut redactor = Redactor::default();
    let _ = redactor.text("10.0.0.1 10.0.0.2 /home/eve/");
    assert_eq!(redactor.said(), ["IP addresses (2)", "user names in paths (1)"]);
}
