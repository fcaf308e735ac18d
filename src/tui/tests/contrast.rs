//! What is drawn can be read: every letter of every screen against what lies behind it, in every theme with colours.

use super::{app, frame};
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use ratatui::style::Color;

/// Relative luminance (Web Content Accessibility Guidelines 2.2).
fn luminance(colour: Color) -> f64 {
    let Color::Rgb(r, g, b) = colour else { panic!("{colour:?} is no 24-bit colour") };
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

#[test]
fn every_letter_stands_out_from_its_ground_in_every_theme() {
    let mut poor = std::collections::BTreeSet::new();
    for name in ThemeName::ALL.into_iter().filter(|name| *name != ThemeName::Mono) {
        let theme = Theme::new(Taste { theme: name, depth: ColourDepth::True, ascii: false });
        // A terminal's own ground may be black or the dark grey of many.
        let own = Color::Rgb(0x1e, 0x1e, 0x1e);
        for (scene, screen) in Scene::ALL
            .into_iter()
            .flat_map(|s| [ScreenId::Environment, ScreenId::System, ScreenId::Report].map(|screen| (s, screen)))
        {
            let state = testdata::in_use(testdata::state(scene), true);
            let mut ui = app(screen);
            for cell in frame(&state, &mut ui, &theme, 200, 60).content() {
                if !cell.symbol().chars().all(char::is_alphanumeric) {
                    continue;
                }
                let ground = if cell.bg == Color::Reset { own } else { cell.bg };
                let (a, b) = (luminance(cell.fg) + 0.05, luminance(ground) + 0.05);
                let ratio = a.max(b) / a.min(b);
                if ratio < 4.5 {
                    poor.insert(format!("{name} {screen:?}: {:?} on {ground:?}: {ratio:.2}", cell.fg));
                }
            }
        }
    }
    assert!(poor.is_empty(), "{poor:#?}");
}
