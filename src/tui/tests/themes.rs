//! Tests of theme colours on the screens: the contrast of every letter, and one colour per status and per engine.

use super::snapshots::theme;
use super::{app, frame};
use crate::config::{Background, ColourDepth, Taste, ThemeName};
use crate::core::{Engine, PHASES, Status};
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use ratatui::style::Color;

/// Relative luminance (Web Content Accessibility Guidelines 2.2).
fn luminance(colour: Color) -> f64 {
    let Color::Rgb(r, g, b) = colour else { panic!("{colour:?} is not a 24-bit colour") };
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// The terminal backgrounds on which a theme must be readable: the background of the theme, or those that the
/// terminal may have.
fn grounds(name: ThemeName, background: Option<Background>) -> Vec<Color> {
    let (black, dark, white) = (Color::Rgb(0, 0, 0), Color::Rgb(0x1e, 0x1e, 0x1e), Color::Rgb(255, 255, 255));
    match (name, background) {
        (ThemeName::Auto, None) => vec![black, dark, white],
        (ThemeName::Auto, Some(Background::Light)) => vec![white],
        _ => vec![black, dark],
    }
}

#[test]
fn every_theme_has_enough_contrast() {
    let mut poor = std::collections::BTreeSet::new();
    let named = ThemeName::ALL.into_iter().filter(|name| *name != ThemeName::Mono).map(|name| (name, None));
    let known = [Background::Dark, Background::Light].map(|known| (ThemeName::Auto, Some(known)));
    for (name, background) in named.chain(known) {
        let theme = Theme::new(Taste { theme: name, depth: ColourDepth::True, background, ..Taste::default() });
        // For an unknown background, no colour reaches a contrast above 4.1 on both black and white.
        let least = if (name, background) == (ThemeName::Auto, None) { 4.0 } else { 4.5 };
        for (scene, screen) in Scene::ALL
            .into_iter()
            .flat_map(|s| [ScreenId::Environment, ScreenId::System, ScreenId::Report].map(|screen| (s, screen)))
        {
            let state = testdata::in_use(testdata::state(scene), true);
            let mut ui = app(screen);
            for cell in frame(&state, &mut ui, &theme, 200, 60).content() {
                // The default foreground of a terminal is readable on its default background.
                let own = cell.fg == Color::Reset && cell.bg == Color::Reset;
                if own || !cell.symbol().chars().all(char::is_alphanumeric) {
                    continue;
                }
                for own in grounds(name, background) {
                    let ground = if cell.bg == Color::Reset { own } else { cell.bg };
                    let (a, b) = (luminance(cell.fg) + 0.05, luminance(ground) + 0.05);
                    let ratio = a.max(b) / a.min(b);
                    if ratio < least {
                        poor.insert(format!(
                            "{name} {background:?} {screen:?}: {:?} on {ground:?}: {ratio:.2}",
                            cell.fg
                        ));
                    }
                }
            }
        }
    }
    assert!(poor.is_empty(), "{poor:#?}");
}

/// The cells of a frame that contain one of these characters, without the selected row.
fn cells(screen: ScreenId, scene: Scene, theme: &Theme, glyph: char) -> Vec<Color> {
    let shown = frame(&testdata::state(scene), &mut app(screen), theme, 120, 36);
    let unselected = shown.content().iter().filter(|cell| theme.selected.bg.is_none_or(|bg| cell.bg != bg));
    unselected.filter(|cell| cell.symbol().starts_with(glyph)).map(|cell| cell.fg).collect()
}

#[test]
fn a_status_has_one_colour_wherever_its_mark_is_drawn() {
    for name in ThemeName::ALL {
        let theme = theme(name);
        for status in [Status::Pass, Status::Warn, Status::Fail] {
            let colour = theme.status(status).fg.unwrap_or_default();
            let found = cells(ScreenId::Environment, Scene::Failed, &theme, status.mark());
            assert!(!found.is_empty() && found.iter().all(|fg| *fg == colour), "{name} {status:?}: {found:?}");
        }
    }
}

#[test]
fn an_engine_has_one_colour_in_the_table_the_charts_and_the_phases() {
    for name in ThemeName::ALL {
        let theme = theme(name);
        for engine in [Engine::Mmap, Engine::Pread, Engine::GdsSlab] {
            let colour = theme.lane(&engine).fg.unwrap_or_default();
            let found = cells(ScreenId::Race, Scene::Done, &theme, theme.marker(&engine));
            assert!(found.len() >= 3 && found.iter().all(|fg| *fg == colour), "{name} {engine}: {found:?}");
        }
    }
}

#[test]
fn without_colour_each_phase_has_its_own_fill() {
    let theme = theme(ThemeName::Mono);
    let fills: std::collections::BTreeSet<char> = PHASES.iter().map(|phase| theme.phase(*phase).1).collect();
    assert_eq!(fills.len(), PHASES.len());
}
