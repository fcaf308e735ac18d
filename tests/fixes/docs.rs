//! docs/fixes.md is generated from the specification of the fixes.

use gds_top::core::FixId;
use gds_top::fixes::spec;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const HEAD: &str = "# Fixes\n\n\
    `gds-top fix ID` shows the exact changes, asks, applies them, and runs the check again. `gds-top fix nvidia-gds` does all steps of a direct route in\n\
    order, with consent to each; it needs as few reboots as possible and continues after a reboot. `gds-top fix --undo ID` undoes a fix that\n\
    gds-top applied. The column undo describes such a fix. If the kernel of the next boot lacks modules, a fix with a reboot also installs them,\n\
    and an undo does not remove them. On some machines a fix is only shown; `gds-top fix ID` then shows how to undo it by hand.\n\n\
    | fix | changes | needs | undo | check |\n|---|---|---|---|---|\n";

#[test]
fn the_page_of_the_fixes_has_the_specification_of_each() {
    let mut page = HEAD.to_owned();
    for id in FixId::ALL {
        let spec = spec::of(*id);
        let note = if spec.note.is_empty() { String::new() } else { format!(" {}", spec.note) };
        let _ = writeln!(
            page,
            "| `{id}` | {} | {}{note} | {} | `{}` |",
            spec.changes,
            spec.needs_text(),
            spec.undo_text(),
            spec.check
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fixes.md");
    if std::env::var_os("GDS_TOP_UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/fixes.md is old; GDS_TOP_UPDATE_DOCS=1 cargo test --test fixes docs writes it");
}
