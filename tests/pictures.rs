//! The pictures of the README are what the program draws now: `gds-top __pictures assets/pictures --machine tests/machines/h200-vm-no-udev`.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "program/mod.rs"]
mod program;

use crate::program::gds_top;
use std::path::Path;

#[test]
fn the_pictures_are_up_to_date_and_self_contained() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/h200-vm-no-udev");
    let status = gds_top().arg("__pictures").arg(folder.path()).arg("--machine").arg(machine).status().unwrap();
    assert!(status.success());
    let mut count = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let drawn = entry.unwrap().path();
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/pictures").join(drawn.file_name().unwrap());
        let (new, old) = (std::fs::read_to_string(&drawn).unwrap(), std::fs::read_to_string(&kept).unwrap_or_default());
        assert!(new == old, "{} is stale; the command in the first line of this file draws it anew", kept.display());
        let outside = new.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http") && !outside.contains("<script"), "{}", kept.display());
        count += 1;
    }
    assert!(count >= 4, "{count} pictures");
}
