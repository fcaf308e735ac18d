//! The pictures of the README are what the program draws now. To draw them again: `cargo run --example pictures -- assets/pictures
//! tests/machines/h200-vm-no-udev`, or this test with `GDS_TOP_UPDATE_README=1`.

#![allow(clippy::unwrap_used)]

#[path = "../examples/pictures.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod pictures;

use std::path::Path;

#[test]
fn the_pictures_are_up_to_date_and_self_contained() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let drawn = pictures::draw(&here.join("tests/machines/h200-vm-no-udev")).unwrap();
    for (name, new) in &drawn {
        let kept = here.join("assets/pictures").join(format!("{name}.svg"));
        if std::env::var_os("GDS_TOP_UPDATE_README").is_some() {
            std::fs::write(&kept, new).unwrap();
        }
        let old = std::fs::read_to_string(&kept).unwrap_or_default();
        assert!(*new == old, "{} is stale; the comment at the top of this file says how to draw it", kept.display());
        let outside = new.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http") && !outside.contains("<script"), "{}", kept.display());
    }
    assert!(drawn.len() >= 4, "{} pictures", drawn.len());
}
