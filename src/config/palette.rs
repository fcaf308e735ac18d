//! The colours of the themes as data: a 24-bit value, and the named colour that replaces it on a terminal with 16
//! colours.

use super::taste::{Background, ThemeName};

/// A colour: its 24-bit value, and the index (0 to 15) of the named colour with the nearest meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// The value `0xRRGGBB`.
    pub rgb: u32,
    /// The named colour, 0 to 15. It is chosen by meaning, not by distance.
    pub ansi: u8,
}

const fn ink(rgb: u32, ansi: u8) -> Ink {
    Ink { rgb, ansi }
}

impl Ink {
    /// The nearest colour of the 256-colour cube (indices 16 to 255).
    #[must_use]
    pub fn ansi256(self) -> u8 {
        const STEPS: [i32; 6] = [0, 95, 135, 175, 215, 255];
        let parts = [(self.rgb >> 16) & 255, (self.rgb >> 8) & 255, self.rgb & 255].map(|part| part as i32);
        let nearest = |part: i32| (0..6_usize).min_by_key(|&i| (STEPS[i] - part).abs()).unwrap_or(0);
        let cube = parts.map(nearest);
        let cube_error: i32 = (0..3).map(|i| (STEPS[cube[i]] - parts[i]).pow(2)).sum();
        let grey = ((parts.iter().sum::<i32>() / 3 - 3) / 10).clamp(0, 23);
        let grey_error: i32 = parts.iter().map(|part| (8 + 10 * grey - part).pow(2)).sum();
        if grey_error < cube_error { 232 + grey as u8 } else { 16 + (36 * cube[0] + 6 * cube[1] + cube[2]) as u8 }
    }
}

/// The colours of a theme by their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// Background of the screen; `None` keeps the terminal's background.
    pub ground: Option<Ink>,
    /// Text; `None` keeps the terminal's foreground.
    pub text: Option<Ink>,
    /// Headlines; `None` keeps the terminal's foreground.
    pub strong: Option<Ink>,
    /// Text of lower importance.
    pub dim: Ink,
    /// Borders and empty parts of bars.
    pub faint: Ink,
    /// The accent colour.
    pub accent: Ink,
    /// Background of the selected row.
    pub selected: Ink,
    /// The status colours: pass, info, warn, fail, not applicable.
    pub status: [Ink; 5],
    /// The colours of the engines (based on the set of Okabe and Ito).
    pub lanes: [Ink; 11],
    /// The colours of the phases: blue and teal for phases in which bytes move.
    pub phases: [Ink; 12],
    /// Text on the colour of a phase or engine.
    pub on_fill: Ink,
    /// Text on the accent colour or a status colour.
    pub on_accent: Ink,
}

// Masataka Okabe and Kei Ito, "Color Universal Design", 2008: eight colours that are distinguishable with every
// common colour blindness.
const ORANGE: Ink = ink(0xe6_9f00, 3);
const SKY: Ink = ink(0x56_b4e9, 14);
const GREEN: Ink = ink(0x00_b386, 10);
const YELLOW: Ink = ink(0xf0_e442, 11);
const BLUE: Ink = ink(0x3d_8fd1, 12);
const VERMILION: Ink = ink(0xe8_6a1f, 9);
const PURPLE: Ink = ink(0xcc_79a7, 13);
const GREY: Ink = ink(0xa0_a0a0, 7);

// In the order of `ENGINES`, then `command:…`: mmap, pread, odirect, per-tensor, bounce, slab, batch, stream, nixl,
// auto, command.
const LANES_ON_DARK: [Ink; 11] =
    [ORANGE, SKY, YELLOW, VERMILION, PURPLE, GREEN, BLUE, GREY, ink(0xe0_9ec4, 5), ink(0xd0_d0d0, 15), GREY];
const LANES_ON_LIGHT: [Ink; 11] = [
    ink(0xb8_7a00, 3),
    ink(0x1f_7fb8, 6),
    ink(0x8f_8400, 3),
    ink(0xc4_4e00, 1),
    ink(0xa8_4f80, 5),
    ink(0x00_7a58, 2),
    ink(0x00_5a94, 4),
    ink(0x60_6060, 8),
    ink(0x8a_3f68, 5),
    ink(0x30_3030, 0),
    ink(0x60_6060, 8),
];

// open, map, allocate, register handle, register buffer, submit, transfer, copy, sync, deregister, release, idle
const PHASES_ON_DARK: [Ink; 12] = [
    ink(0xa9_8776, 7),
    ink(0xe6_c84f, 11),
    ink(0xf2_993a, 3),
    ink(0xf4_a9c0, 13),
    ink(0xe8_604f, 9),
    ink(0x7c_ae4a, 10),
    ink(0x4f_9fd8, 12),
    ink(0x43_c3b0, 14),
    ink(0x9c_8ae0, 5),
    ink(0xcf_5f9c, 5),
    ink(0x85_93a8, 8),
    ink(0x3d_4452, 8),
];

// These colours are dark enough for text on white paper and as a background of white text.
const PHASES_ON_LIGHT: [Ink; 12] = [
    ink(0x7a_5647, 8),
    ink(0x7d_6600, 3),
    ink(0xa6_5300, 3),
    ink(0xb0_406f, 5),
    ink(0xb5_281c, 1),
    ink(0x3f_7022, 2),
    ink(0x1f_6fb0, 4),
    ink(0x0f_7566, 6),
    ink(0x5b_4bb0, 13),
    ink(0x8c_1f5f, 5),
    ink(0x52_607a, 8),
    ink(0xc9_ccd3, 7),
];

impl Palette {
    /// The colours of a theme. `None` for `mono`, which has no colours.
    #[must_use]
    pub const fn of(theme: ThemeName) -> Option<Self> {
        Some(match theme {
            ThemeName::Mono => return None,
            ThemeName::Auto => Self::EITHER,
            ThemeName::Dark => Self::DARK,
            ThemeName::ColourBlind => Self {
                status: [SKY, ink(0xb9_c0cc, 7), YELLOW, VERMILION, ink(0x82_8a99, 8)],
                phases: PHASES_ON_DARK,
                ..Self::DARK
            },
            ThemeName::Light => Self {
                ground: Some(ink(0xfa_f9f5, 15)),
                text: Some(ink(0x2b_303b, 0)),
                strong: Some(ink(0x10_141c, 0)),
                dim: ink(0x5b_6270, 8),
                faint: ink(0xb4_b7bf, 7),
                accent: ink(0x4b_3fc4, 4),
                selected: ink(0xe6_e5f5, 7),
                // Yellow of the sixteen colours cannot be read on white.
                status: [ink(0x1a_7f42, 2), ink(0x2f_6fb5, 4), ink(0x94_6000, 5), ink(0xc6_2f2f, 1), ink(0x6a_707c, 8)],
                lanes: LANES_ON_LIGHT,
                phases: PHASES_ON_LIGHT,
                on_fill: ink(0xff_ffff, 15),
                on_accent: ink(0xff_ffff, 15),
            },
            ThemeName::HighContrast => Self {
                ground: Some(ink(0x00_0000, 0)),
                text: Some(ink(0xff_ffff, 15)),
                strong: Some(ink(0xff_ffff, 15)),
                dim: ink(0xe0_e0e0, 7),
                faint: ink(0xb0_b0b0, 7),
                accent: ink(0x00_ffff, 14),
                selected: ink(0x00_3a8c, 4),
                status: [
                    ink(0x00_ff66, 10),
                    ink(0x66_ccff, 14),
                    ink(0xff_ff00, 11),
                    ink(0xff_7a7a, 9),
                    ink(0xd0_d0d0, 7),
                ],
                lanes: LANES_ON_DARK,
                phases: PHASES_ON_DARK,
                on_fill: ink(0x00_0000, 0),
                on_accent: ink(0x00_0000, 0),
            },
        })
    }

    /// The colours of a theme for a terminal whose background can be unknown.
    #[must_use]
    pub fn on(theme: ThemeName, background: Option<Background>) -> Option<Self> {
        match (theme, background) {
            (ThemeName::Auto, Some(Background::Dark)) => Some(Self::DARK),
            (ThemeName::Auto, Some(Background::Light)) => {
                Self::of(ThemeName::Light).map(|palette| Self { ground: None, ..palette })
            }
            _ => Self::of(theme),
        }
    }

    /// For an unknown background: the hues of `DARK` at a relative luminance of 0.2. Each has a contrast of at least
    /// 4 on black and on white.
    const EITHER: Self = Self {
        ground: None,
        text: None,
        strong: None,
        dim: ink(0x77_7f8c, 8),
        faint: ink(0x77_7f8c, 8),
        accent: ink(0x70_69ff, 5),
        selected: ink(0x3f_3a9c, 4),
        status: [ink(0x27_8f50, 2), ink(0x2f_7fd6, 4), ink(0xa3_760c, 3), ink(0xee_3434, 1), ink(0x77_7f8c, 8)],
        lanes: [
            ink(0xa7_7400, 3),
            ink(0x19_85c1, 6),
            ink(0x7f_8010, 3),
            ink(0xcf_5b15, 1),
            ink(0xc0_5a93, 5),
            ink(0x00_8f6b, 2),
            ink(0x4a_74d8, 4),
            ink(0x7e_7e7e, 8),
            ink(0xb0_5ab8, 5),
            ink(0x7e_7e7e, 8),
            ink(0x7e_7e7e, 8),
        ],
        phases: [
            ink(0xa0_7460, 8),
            ink(0x9a_7d10, 3),
            ink(0xc4_6500, 3),
            ink(0xd4_608f, 5),
            ink(0xe0_453a, 1),
            ink(0x55_8a2c, 2),
            ink(0x2b_83c2, 4),
            ink(0x1d_8d7e, 6),
            ink(0x87_6fc8, 5),
            ink(0xb0_50b0, 5),
            ink(0x5a_829a, 8),
            ink(0x8a_919c, 8),
        ],
        on_fill: ink(0x00_0000, 0),
        on_accent: ink(0xff_ffff, 15),
    };

    const DARK: Self = Self {
        ground: None,
        text: Some(ink(0xd3_d7df, 7)),
        strong: Some(ink(0xf4_f5f8, 15)),
        dim: ink(0x8c_94a3, 8),
        faint: ink(0x49_505e, 8),
        accent: ink(0xa9_a5ff, 13),
        selected: ink(0x28_2b3d, 4),
        status: [ink(0x5f_d38d, 10), ink(0x7f_b6ff, 12), ink(0xf2_c14e, 11), ink(0xff_6b6b, 9), ink(0x82_8a99, 8)],
        lanes: LANES_ON_DARK,
        phases: PHASES_ON_DARK,
        on_fill: ink(0x14_161c, 0),
        on_accent: ink(0x14_161c, 0),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_has_the_nearest_colour() {
        for (rgb, index) in [(0x00_0000, 16), (0xff_ffff, 231), (0xff_0000, 196), (0x80_8080, 244), (0x5f_87af, 67)] {
            assert_eq!(ink(rgb, 0).ansi256(), index, "{rgb:06x}");
        }
    }

    /// The contrast as defined in the Web Content Accessibility Guidelines 2.2 (relative luminance of sRGB).
    fn contrast(a: Ink, b: Ink) -> f64 {
        let luminance = |ink: Ink| {
            let part = |shift: u32| f64::from((ink.rgb >> shift) & 255) / 255.0;
            let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
            0.2126 * linear(part(16)) + 0.7152 * linear(part(8)) + 0.0722 * linear(part(0))
        };
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn contrast_is_that_of_the_guidelines() {
        assert!((contrast(ink(0, 0), ink(0xff_ffff, 0)) - 21.0).abs() < 1e-9);
        assert!((contrast(ink(0x77_7777, 0), ink(0xff_ffff, 0)) - 4.478).abs() < 0.01);
    }

    #[test]
    fn every_theme_can_be_read_on_its_ground() {
        for theme in ThemeName::ALL {
            let Some(p) = Palette::of(theme) else { continue };
            // If the theme keeps the terminal's background, it can be black or the dark grey of many terminals.
            let mut grounds = p.ground.map_or_else(|| vec![ink(0, 0), ink(0x1e_1e1e, 0)], |ground| vec![ground]);
            let unknown = theme == ThemeName::Auto;
            if unknown {
                grounds.push(ink(0xff_ffff, 15));
            }
            // Guideline 1.4.3 requires a contrast of 4.5 for text (1.4.6: 7). Guideline 1.4.11 requires 3 for
            // graphics that carry meaning. No colour has a contrast above 4.1 on both dark grey and white.
            let text = match theme {
                ThemeName::HighContrast => 7.0,
                ThemeName::Auto => 4.0,
                _ => 4.5,
            };
            for ground in grounds {
                let written = p.text.into_iter().chain(p.strong).chain([p.dim, p.accent]).chain(p.status);
                for (i, ink) in written.enumerate() {
                    let ratio = contrast(ink, ground);
                    assert!(ratio >= text, "{theme}: text {i} {:06x} on {:06x}: {ratio:.2}", ink.rgb, ground.rgb);
                }
                // The last phase is idle, which charts leave empty.
                for (i, ink) in p.lanes.into_iter().chain(p.phases.into_iter().take(11)).enumerate() {
                    let ratio = contrast(ink, ground);
                    assert!(ratio >= 3.0, "{theme}: lane or phase {i} {:06x}: {ratio:.2}", ink.rgb);
                }
            }
            // If the theme has no text colour, the selected row and filled areas have their own text colours.
            let on_row = p.text.map_or_else(|| vec![(p.on_accent, text)], |ink| vec![(ink, text), (p.dim, 4.5)]);
            for (over, least) in on_row {
                assert!(contrast(over, p.selected) >= least, "{theme}: {:06x} on the selected row", over.rgb);
            }
            assert!(contrast(p.on_accent, p.accent) >= text, "{theme}: on the accent");
            assert!(contrast(p.text.unwrap_or(p.on_fill), p.phases[11]) >= 4.5, "{theme}: text on idle");
            for (i, fill) in p.phases.into_iter().take(11).enumerate() {
                let ratio = contrast(p.on_fill, fill);
                assert!(ratio >= 4.5, "{theme}: on phase {i}: {ratio:.2}");
            }
            for (i, fill) in p.lanes.into_iter().enumerate() {
                let ratio = contrast(p.on_fill, fill);
                assert!(ratio >= 3.0, "{theme}: bold on lane {i}: {ratio:.2}");
            }
        }
    }

    #[test]
    fn phases_have_distinguishable_colours() {
        for theme in ThemeName::ALL {
            let Some(palette) = Palette::of(theme) else { continue };
            let parts = |ink: Ink| [16, 8, 0].map(|shift| f64::from((ink.rgb >> shift) & 255));
            for (at, one) in palette.phases.into_iter().enumerate() {
                for other in palette.phases.into_iter().skip(at + 1) {
                    let apart: f64 = parts(one).iter().zip(parts(other)).map(|(a, b)| (a - b).powi(2)).sum();
                    assert!(apart.sqrt() >= 36.0, "{theme}: {:06x} and {:06x}", one.rgb, other.rgb);
                }
            }
        }
    }

    #[test]
    fn the_lanes_that_race_by_default_have_colours_of_their_own() {
        for theme in ThemeName::ALL {
            let Some(palette) = Palette::of(theme) else { continue };
            // The engines mmap, pread, odirect, per-tensor and slab.
            let mut seen: Vec<u32> = [0, 1, 2, 3, 5].iter().map(|&i: &usize| palette.lanes[i].rgb).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 5, "{theme}");
        }
    }
}
