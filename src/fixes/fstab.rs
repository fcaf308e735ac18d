//! Changes the options of a mount in `/etc/fstab`.

use crate::machine::fstab_point;
use std::path::Path;

/// What `/etc/fstab` says about the options of a mount point.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fstab {
    /// The text with the options, in place of other values.
    Changed(String),
    /// The line has the options.
    HasIt,
    /// No line names the mount point.
    NoLine,
}

/// The journal mode that libcufile needs on ext4.
pub(super) const ORDERED: &[(&str, &str)] = &[("data", "ordered")];

/// The options of NFS over RDMA.
pub(super) const OVER_RDMA: &[(&str, &str)] = &[("proto", "rdma"), ("port", "20049")];

/// Whether an option sets one of these names. The words tcp, udp and rdma are short forms of proto (nfs(5)).
fn sets(option: &str, wanted: &[(&str, &str)]) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let name = if matches!(option, "tcp" | "udp" | "rdma") { "proto" } else { name };
    wanted.iter().any(|(wanted, _)| *wanted == name)
}

/// `/etc/fstab` with these options for a mount point. Other options, blanks and lines stay as they are.
pub(super) fn with_options(fstab: &str, point: &str, wanted: &[(&str, &str)]) -> Fstab {
    let words: Vec<String> = wanted.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut out = String::new();
    let (mut is_named, mut is_changed) = (false, false);
    for line in fstab.split_inclusive('\n') {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let options = match fields.as_slice() {
            [device, at, _, options, ..] if !device.starts_with('#') && fstab_point(at) == Path::new(point) => options,
            _ => {
                out.push_str(line);
                continue;
            }
        };
        is_named = true;
        let (own, kept): (Vec<&str>, Vec<&str>) = options.split(',').partition(|option| sets(option, wanted));
        if own.len() == words.len() && words.iter().all(|word| own.contains(&word.as_str())) {
            out.push_str(line);
            continue;
        }
        is_changed = true;
        // The options are in the fourth field.
        let mut start = 0;
        for field in &fields[..3] {
            start += line[start..].find(field).unwrap_or(0) + field.len();
        }
        start += line[start..].len() - line[start..].trim_start().len();
        let changed = kept.into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join(",");
        out.push_str(&line[..start]);
        out.push_str(&changed);
        out.push_str(&line[start + options.len()..]);
    }
    match (is_named, is_changed) {
        (false, _) => Fstab::NoLine,
        (true, false) => Fstab::HasIt,
        (true, true) => Fstab::Changed(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_mode_of_one_line_is_set_and_nothing_else_moves() {
        let changed = |text: &str| Fstab::Changed(text.to_owned());
        let ordered = |text: &str, point: &str| with_options(text, point, ORDERED);
        let fstab = "# /data is ours\nUUID=1\t/\text4 errors=remount-ro 0 1\nUUID=2  /data\text4\tdefaults,noatime\t0 2 # big\n";
        let after = "# /data is ours\nUUID=1\t/\text4 errors=remount-ro 0 1\nUUID=2  /data\text4\tdefaults,noatime,data=ordered\t0 2 # big\n";
        assert_eq!(ordered(fstab, "/data"), changed(after));
        assert_eq!(ordered(after, "/data"), Fstab::HasIt);
        assert_eq!(ordered(fstab, "/models"), Fstab::NoLine);
        for mode in ["journal", "writeback"] {
            let other = format!("UUID=2 /d ext4 noatime,data={mode},nofail 0 2\nUUID=3 /e ext4 data={mode} 0 2\n");
            let kept = format!("UUID=2 /d ext4 noatime,nofail,data=ordered 0 2\nUUID=3 /e ext4 data={mode} 0 2\n");
            assert_eq!(ordered(&other, "/d"), changed(&kept));
        }
        assert_eq!(ordered("x /d ext4 data=writeback", "/d"), changed("x /d ext4 data=ordered"));
        assert_eq!(ordered("ext4 /d ext4 ro", "/d"), changed("ext4 /d ext4 ro,data=ordered"));
    }

    #[test]
    fn a_mount_point_with_a_final_slash_or_an_escaped_blank_is_the_same_one() {
        for (field, point) in
            [("/data/", "/data"), ("/data//", "/data"), ("/data", "/data"), ("/my\\040disk/", "/my disk")]
        {
            let line = format!("/dev/nvme0n1p1 {field} ext4 defaults 0 2\n");
            let after = format!("/dev/nvme0n1p1 {field} ext4 defaults,data=ordered 0 2\n");
            assert_eq!(with_options(&line, point, ORDERED), Fstab::Changed(after), "{field}");
        }
        assert_eq!(with_options("x /data/sets ext4 defaults 0 2\n", "/data", ORDERED), Fstab::NoLine);
    }

    #[test]
    fn a_mount_of_nfs_uses_rdma_at_the_next_boot() {
        let over_rdma = |options: &str| with_options(&format!("s:/m /m nfs4 {options} 0 0\n"), "/m", OVER_RDMA);
        for (before, after) in [
            ("vers=4.2,proto=tcp,hard", "vers=4.2,hard,proto=rdma,port=20049"),
            ("tcp,port=2049", "proto=rdma,port=20049"),
            ("rdma,hard", "hard,proto=rdma,port=20049"),
            ("mountproto=tcp", "mountproto=tcp,proto=rdma,port=20049"),
        ] {
            assert_eq!(over_rdma(before), Fstab::Changed(format!("s:/m /m nfs4 {after} 0 0\n")), "{before}");
            assert_eq!(over_rdma(after), Fstab::HasIt);
        }
    }
}
