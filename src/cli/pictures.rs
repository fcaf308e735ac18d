//! The pictures of the README: screens as SVG, from the recordings that come with the program and a captured machine.

use super::check::as_state;
use super::outcome::{BAD_CALL, FINE, fail};
use super::view::{examined, open_view};
use crate::domain::{CacheState, Engine, Event, EventBody};
use crate::session::State;
use crate::session::shipped;
use crate::tui::{self, Screen, Shot};
use crate::{checks, fixes};
use std::path::Path;

/// Writes `environment.svg`, `race.svg` and so on into the folder. The same recordings and machine give the same bytes.
pub(super) fn write(folder: &Path, machine: &Path) -> u8 {
    match draw(machine).and_then(|pictures| save(folder, &pictures)) {
        Ok(()) => FINE,
        Err(sentence) => fail(BAD_CALL, &sentence),
    }
}

fn draw(machine: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let small = shipped::SMALL.state().map_err(|e| e.to_string())?;
    let large = shipped::LARGE.state().map_err(|e| e.to_string())?;
    let checked = environment(machine)?;
    let per_tensor = Some((&Engine::GdsPerTensor, CacheState::Hot));
    let shots = [
        (
            "environment",
            &checked,
            Screen::Environment,
            None,
            "The Environment screen: whether reads go straight to the GPU, and what stands in the way",
        ),
        (
            "race",
            &large,
            Screen::Race,
            None,
            "The Race screen: five ways of loading Qwen2.5-7B onto an H200, cold and hot",
        ),
        (
            "tensors",
            &small,
            Screen::Tensors,
            per_tensor,
            "The Tensors screen: what each tensor of Qwen3-0.6B costs with a read and a registration for each",
        ),
        (
            "learn",
            &small,
            Screen::Learn,
            None,
            "The Learn screen: the timeline of a load in which each tensor registers its own memory",
        ),
        (
            "system",
            &large,
            Screen::System,
            None,
            "The System screen of a recording: disk, link, memory and power of the machine while loads ran",
        ),
        ("report", &large, Screen::Report, None, "The Report screen: what was found and measured, on one page"),
    ];
    Ok(shots
        .into_iter()
        .map(|(name, state, screen, select, title)| {
            (name, tui::picture(state, &Shot { screen, size: (120, 36), select, step: 5, title }))
        })
        .collect())
}

/// The captured machine as the checks judge it, with the fixes that would be offered there.
fn environment(machine: &Path) -> Result<State, String> {
    let view = open_view(Some(machine))?;
    let found = checks::run(&view, &examined(&view, &[])?, None, &mut |_| {});
    let mut state = as_state(&view, &found);
    for plan in fixes::plan(&view, &found) {
        state.reduce(&Event { at_ns: 0, body: EventBody::FixPlanned { plan } });
    }
    Ok(state)
}

fn save(folder: &Path, pictures: &[(&str, String)]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{} cannot be made: {e}", folder.display()))?;
    for (name, svg) in pictures {
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, svg).map_err(|e| format!("{} cannot be written: {e}", path.display()))?;
    }
    Ok(())
}
