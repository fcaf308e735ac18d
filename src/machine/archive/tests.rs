//! Tests of archives: hostile entries, limits and links.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Builds an archive with raw names, as an attacker could write them.
fn archive(entries: &[(&str, tar::EntryType, &str, &[u8])]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut encoder = zstd::Encoder::new(file.reopen().unwrap(), 1).unwrap();
    {
        let mut builder = tar::Builder::new(&mut encoder);
        for (name, kind, link, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(bytes.len() as u64);
            header.set_mode(0o777);
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        }
        builder.finish().unwrap();
    }
    encoder.finish().unwrap();
    file
}

fn refusal(entries: &[(&str, tar::EntryType, &str, &[u8])]) -> String {
    unpack(archive(entries).path()).map(|_| ()).expect_err("it was unpacked")
}

#[test]
fn hostile_archives_are_refused_with_a_sentence() {
    use tar::EntryType as T;
    let cases: [(&str, T, &str, &str); 16] = [
        ("../evil", T::Regular, "", "leads out of it"),
        ("machine/files/../../../evil", T::Regular, "", "leads out of it"),
        ("/etc/evil", T::Regular, "", "leads out of it"),
        ("machine/files/a", T::Symlink, "../../../etc/passwd", "leads out of it"),
        ("machine/capture.json", T::Symlink, "/etc/passwd", "leads out of it"),
        ("files", T::Symlink, "/", "leads out of it"),
        ("./files", T::Symlink, "/", "leads out of it"),
        ("machine/files", T::Symlink, "/", "leads out of it"),
        ("machine/files", T::Symlink, "../../..", "leads out of it"),
        ("machine", T::Symlink, "/", "leads out of it"),
        ("machine/files/a/b", T::Symlink, "../../x", "leads out of it"),
        ("machine/files/a", T::Symlink, "b/../../x", "leads out of it"),
        ("machine/files/dev/null", T::Char, "", "device node"),
        ("machine/files/dev/sda", T::Block, "", "device node"),
        ("machine/files/pipe", T::Fifo, "", "FIFO"),
        ("machine/files/hard", T::Link, "/etc/passwd", "hard link"),
    ];
    for (name, kind, link, part) in cases {
        let said = refusal(&[(name, kind, link, b"")]);
        assert!(said.contains(part) && said.contains("gds-top capture"), "{name}: {said}");
    }
}

#[test]
fn nothing_is_written_through_a_link_or_over_a_file() {
    use tar::EntryType as T;
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().to_str().unwrap();
    let said = refusal(&[("machine/files/a", T::Symlink, target, b""), ("machine/files/a/evil", T::Regular, "", b"x")]);
    assert!(said.contains("reached through a link"), "{said}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    let twice = ("machine/files/a", T::Regular, "", b"x".as_slice());
    assert!(refusal(&[twice, twice]).contains("twice"));
}

#[test]
fn an_archive_that_grows_without_end_is_stopped() {
    let zeros = vec![0_u8; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
    let said = refusal(&[("machine/files/bomb", tar::EntryType::Regular, "", &zeros)]);
    assert!(said.contains("exceeds the maximum size"), "{said}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut encoder = zstd::Encoder::new(file.reopen().unwrap(), 1).unwrap();
    // A tar header with a large size, followed by endless zeros.
    let mut header = tar::Header::new_gnu();
    header.set_path("machine/files/bomb").unwrap();
    header.set_entry_type(tar::EntryType::XHeader);
    header.set_size(1 << 40);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    let block = vec![0_u8; 1 << 20];
    for _ in 0..300 {
        encoder.write_all(&block).unwrap();
    }
    encoder.finish().unwrap();
    let said = unpack(file.path()).err().unwrap();
    assert!(said.contains("larger than 16 KiB"), "{said}");
    let zeros = vec![0_u8; 60 << 20];
    let names: Vec<String> = (0..5).map(|n| format!("machine/files/{n}")).collect();
    let entries: Vec<_> =
        names.iter().map(|name| (name.as_str(), tar::EntryType::Regular, "", zeros.as_slice())).collect();
    let said = refusal(&entries);
    assert!(said.contains(&TooLarge.to_string()) || said.contains("exceeds the maximum size"), "{said}");
}

#[test]
fn a_disk_without_space_is_not_the_archive_s_fault() {
    for code in [libc::ENOSPC, libc::EDQUOT] {
        let said = no_space(&io::Error::from_raw_os_error(code), Path::new("/tmp/scratch"));
        assert!(said.contains("/tmp does not have enough space") && said.contains("TMPDIR"), "{said}");
    }
    // The error of a failed write is distinguished from the error of an unreadable archive.
    let mut out = Unwritten { file: fs::File::open("/dev/null").unwrap(), error: None };
    assert!(out.write(b"x").is_err() && out.error.is_some());
}

#[test]
fn folders_that_paths_imply_are_counted() {
    // 2000 paths with ten new directories each.
    let folders = "/a".repeat(10);
    let names: Vec<String> = (0..2_100).map(|n| format!("machine/files/{n}{folders}/file")).collect();
    let entries: Vec<_> =
        names.iter().map(|name| (name.as_str(), tar::EntryType::Regular, "", b"".as_slice())).collect();
    let said = refusal(&entries);
    assert!(said.contains("more than 20000 entries"), "{said}");
    // They are counted before the first one is created.
    let counted = |made: &[_]| super::entries(&mut fs::File::open(archive(made).path()).unwrap()).unwrap();
    assert!((MAX_ENTRIES..MAX_ENTRIES + MAX_DEPTH).contains(&counted(&entries)));
    let regular = |name| (name, tar::EntryType::Regular, "", b"".as_slice());
    let named = "31 path=machine/files/c/d/long\n";
    assert_eq!(named.len(), 31);
    // Six entries imply machine, files, a, c and c/d.
    let few = [
        regular("machine/files/a/x"),
        regular("./machine/files/a/y"),
        ("machine/files/b/", tar::EntryType::Directory, "", b"".as_slice()),
        regular("machine/files/b/z"),
        ("pax", tar::EntryType::XHeader, "", named.as_bytes()),
        regular("short"),
    ];
    assert_eq!(counted(&few), 11);
    let long = format!("machine{}", "/a".repeat(2_000));
    let record = format!(" path={long}\n");
    let length = record.len() + (record.len() + 4).to_string().len();
    let record = format!("{length}{record}");
    let said = refusal(&[
        ("pax", tar::EntryType::XHeader, "", record.as_bytes()),
        ("machine/files/x", tar::EntryType::Regular, "", b""),
    ]);
    assert!(said.contains("deeper than 64 directories"), "{said}");
}

#[test]
fn long_names_of_both_forms_are_read() {
    let name = format!("machine/files/{}", "x/".repeat(40)) + &"n".repeat(120);
    let mut record = format!(" path={name}\n");
    record = format!("{}{record}", record.len() + 3);
    let gnu = format!("{name}\0");
    for describing in [("x", tar::EntryType::XHeader, record), ("x", tar::EntryType::GNULongName, gnu)] {
        let (first, kind, bytes) = describing;
        let made = archive(&[
            (first, kind, "", bytes.as_bytes()),
            ("short", tar::EntryType::Regular, "", b"content"),
            ("machine/files/second", tar::EntryType::Regular, "", b"second"),
        ]);
        let (_kept, top) = unpack(made.path()).unwrap();
        assert_eq!(fs::read_to_string(top.parent().unwrap().join(&name)).unwrap(), "content", "{kind:?}");
        assert_eq!(fs::read_to_string(top.join("files/second")).unwrap(), "second");
    }
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), b"{\"not\": \"an archive\"}").unwrap();
    assert!(unpack(file.path()).err().unwrap().contains("is not a captured machine"));
    fs::write(file.path(), b"").unwrap();
    assert!(unpack(file.path()).is_err() || !unpack(file.path()).unwrap().1.join("files").exists());
}

#[test]
fn what_was_packed_comes_back_with_its_links() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("files/sys/class")).unwrap();
    fs::write(folder.path().join("files/sys/x"), "1").unwrap();
    std::os::unix::fs::symlink("../x", folder.path().join("files/sys/class/x")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    pack(folder.path(), file.reopen().unwrap()).unwrap();
    let (_kept, top) = unpack(file.path()).unwrap();
    assert_eq!(fs::read_to_string(top.join("files/sys/x")).unwrap(), "1");
    assert_eq!(fs::read_link(top.join("files/sys/class/x")).unwrap(), Path::new("../x"));
}
