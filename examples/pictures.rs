//! Draws the pictures of the README as SVG: screens of the shipped recordings and of a captured machine. Run it with
//! `cargo run --example pictures -- assets/pictures tests/machines/h200-vm-no-udev`.

use gds_top::core::{Event, EventBody};
use gds_top::machine::Root;
use gds_top::session::{State, shipped};
use gds_top::tui::{OffScreen, ScreenId};
use gds_top::{checks, fixes, machine};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Columns and rows of a picture.
const SIZE: (u16, u16) = (120, 36);

fn main() -> Result<(), String> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(machine)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pictures FOLDER CAPTURED_MACHINE".to_owned());
    };
    std::fs::create_dir_all(&folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    for (name, svg) in draw(&machine)? {
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, svg).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(())
}

/// The pictures with their names. The same recordings and machine always give the same bytes.
pub(crate) fn draw(machine: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let small = shipped::SMALL.state().map_err(|e| e.to_string())?;
    let large = shipped::LARGE.state().map_err(|e| e.to_string())?;
    let checked = environment(machine)?;
    // The lesson would also show the loads of this session. They are removed, because readers of the README have
    // none.
    let mut lesson = small.clone();
    lesson.lanes.clear();
    let shots: [(&str, &State, ScreenId, &str, &str); 6] = [
        (
            "environment",
            &checked,
            ScreenId::Environment,
            "",
            "The Environment screen: whether reads go straight to the GPU, and the blockers",
        ),
        (
            "race",
            &large,
            ScreenId::Race,
            "",
            "The Race screen: five engines load Qwen2.5-7B into an H200, cold and hot",
        ),
        // The selected engine registers each tensor, and the cache is hot.
        (
            "tensors",
            &small,
            ScreenId::Tensors,
            "l",
            "The Tensors screen: the overhead of each tensor of Qwen3-0.6B, with a read and a registration for each",
        ),
        (
            "learn",
            &lesson,
            ScreenId::Learn,
            "lllll",
            "The Learn screen: the timeline of a load in which each tensor registers its own memory",
        ),
        (
            "system",
            &large,
            ScreenId::System,
            "",
            "The System screen of a recording: disk, link, memory and power of the machine while loads ran",
        ),
        ("report", &large, ScreenId::Report, "", "The Report screen: findings and measurements on one page"),
    ];
    Ok(shots
        .into_iter()
        .map(|(name, state, screen, keys, title)| (name, picture(state, screen, keys, title)))
        .collect())
}

/// A screen after the given keys, when all jobs and animations are complete.
fn picture(state: &State, screen: ScreenId, keys: &str, title: &str) -> String {
    let mut shown = OffScreen::new(screen, SIZE.0, SIZE.1);
    shown.frame(state);
    shown.settle();
    for key in keys.chars() {
        shown.key(key, state);
        shown.frame(state);
        shown.settle();
    }
    shown.pass(Duration::from_secs(60));
    shown.frame(state);
    shown.svg(title)
}

/// The state with the checks of the captured machine and the fixes that would be offered there.
fn environment(machine: &Path) -> Result<State, String> {
    let view = Root::open(machine)?;
    let found = checks::run(&view, &view.captured_paths(), None, &mut |_| {});
    let bodies = [EventBody::MachineSeen { machine: machine::machine(&view) }]
        .into_iter()
        .chain(found.findings.iter().map(|finding| EventBody::CheckDone { finding: finding.clone() }))
        .chain(found.verdicts.iter().map(|verdict| EventBody::VerdictReached { verdict: verdict.clone() }))
        .chain([EventBody::ChecksDone { took_ns: found.took_ns }, EventBody::SessionEnded { interrupted: false }])
        .chain(fixes::plan(&view, &found).into_iter().map(|plan| EventBody::FixPlanned { plan }));
    let mut state = State::default();
    bodies.for_each(|body| state.reduce(&Event { at_ns: 0, body }));
    Ok(state)
}
