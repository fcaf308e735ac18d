//! The capabilities of the terminal, from the environment.

use std::fmt;
use std::str::FromStr;

/// The name of a theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThemeName {
    /// `dark` or `light`, depending on the terminal's background. If the background is unknown, the terminal's
    /// foreground and colours that are readable on black and on white.
    #[default]
    Auto,
    /// Light text on the terminal's background, which is dark or transparent.
    Dark,
    /// Dark text on a paper-coloured background.
    Light,
    /// Saturated colours on black, with bold text.
    HighContrast,
    /// Status colours in blue, yellow and vermilion, which are distinguishable with every common colour blindness.
    ColourBlind,
    /// No colours. Bold, underline and reverse show emphasis.
    Mono,
}

impl ThemeName {
    /// All themes, in the order of the help.
    pub const ALL: [Self; 6] = [Self::Auto, Self::Dark, Self::Light, Self::HighContrast, Self::ColourBlind, Self::Mono];
}

impl fmt::Display for ThemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::HighContrast => "high-contrast",
            Self::ColourBlind => "colour-blind",
            Self::Mono => "mono",
        })
    }
}

impl FromStr for ThemeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.to_ascii_lowercase().replace('_', "-").replace("color", "colour");
        Self::ALL.into_iter().find(|theme| theme.to_string() == wanted).ok_or_else(|| {
            let known: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
            format!("'{text}' is not a theme; known themes: {}", known.join(", "))
        })
    }
}

/// The number of colours of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColourDepth {
    /// The 16 named colours.
    #[default]
    Ansi16,
    /// The 256-colour cube.
    Ansi256,
    /// 24-bit colour.
    True,
}

/// The brightness of the terminal's background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Light text is readable on it.
    Dark,
    /// Dark text is readable on it.
    Light,
}

impl Background {
    /// Parses `COLORFGBG`, which rxvt and Konsole set to `foreground;background`, possibly with a word between them.
    /// The values are indices of the 16 named colours. 7 and 15 are white.
    fn of_colorfgbg(text: &str) -> Option<Self> {
        let number: u8 = text.rsplit_once(';')?.1.parse().ok()?;
        (number < 16).then_some(if matches!(number, 7 | 15) { Self::Light } else { Self::Dark })
    }
}

/// The appearance of the screens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taste {
    /// The theme.
    pub theme: ThemeName,
    /// The number of colours of the terminal.
    pub depth: ColourDepth,
    /// Whether only ASCII characters are used.
    pub ascii: bool,
    /// The terminal's background. `None` if it is unknown.
    pub background: Option<Background>,
}

impl Taste {
    /// Detects the appearance from environment variables. A non-empty `NO_COLOR` and `CLICOLOR=0` select `mono`. `COLORTERM` and
    /// `TERM` determine the number of colours. ASCII is used on a simple terminal (`linux`, `dumb`, or none) and if
    /// the locale is not UTF-8. `asked` is the theme that the user named. It is more explicit than `NO_COLOR` and
    /// overrides it.
    pub fn detect(asked: Option<ThemeName>, get: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let poor = matches!(term.as_str(), "" | "dumb" | "linux" | "vt100" | "vt220" | "ansi");
        let depth = match set("COLORTERM").as_deref() {
            Some("truecolor" | "24bit") => ColourDepth::True,
            _ if term.contains("direct") || term.contains("kitty") || term.contains("ghostty") => ColourDepth::True,
            _ if term.contains("256") => ColourDepth::Ansi256,
            _ => ColourDepth::Ansi16,
        };
        let utf8 = has_utf8(&get).unwrap_or(false);
        let no_colours = set("NO_COLOR").is_some() || set("CLICOLOR").as_deref() == Some("0");
        let colourless = no_colours || matches!(term.as_str(), "dumb" | "vt100" | "vt220");
        let theme = asked.unwrap_or(if colourless { ThemeName::Mono } else { ThemeName::Auto });
        let background = set("COLORFGBG").and_then(|text| Background::of_colorfgbg(&text));
        Self { theme, depth, ascii: poor || !utf8, background }
    }

    /// Whether text without screens uses only ASCII characters, from environment variables. A terminal gets the
    /// characters of the screens. A pipe gets ASCII if the locale has another charset than UTF-8. If there is no
    /// locale, as in services and containers, the reader of a pipe is unknown.
    pub fn text_is_ascii(is_terminal: bool, get: impl Fn(&str) -> Option<String>) -> bool {
        if is_terminal { Self::detect(None, get).ascii } else { has_utf8(&get) == Some(false) }
    }
}

/// Whether the charset of the locale is UTF-8. `None` if no variable names a locale.
fn has_utf8(get: &impl Fn(&str) -> Option<String>) -> Option<bool> {
    // In POSIX, LC_ALL overrides LC_CTYPE, which overrides LANG.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(get).find(|value| !value.is_empty())?;
    let locale = locale.to_ascii_lowercase();
    Some(locale.contains("utf-8") || locale.contains("utf8"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn taste(vars: &[(&str, &str)]) -> Taste {
        Taste::detect(None, |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn colours_follow_colorterm_then_term() {
        let utf8 = ("LANG", "C.UTF-8");
        for (vars, depth) in [
            (vec![("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), utf8], ColourDepth::True),
            (vec![("TERM", "xterm-256color"), utf8], ColourDepth::Ansi256),
            (vec![("TERM", "xterm"), utf8], ColourDepth::Ansi16),
            (vec![("TERM", "xterm-kitty"), utf8], ColourDepth::True),
        ] {
            assert_eq!(taste(&vars).depth, depth, "{vars:?}");
            assert!(!taste(&vars).ascii);
        }
    }

    #[test]
    fn no_color_means_mono_unless_a_theme_was_named() {
        assert_eq!(taste(&[("TERM", "xterm"), ("NO_COLOR", "1")]).theme, ThemeName::Mono);
        assert_eq!(taste(&[("TERM", "xterm"), ("NO_COLOR", "")]).theme, ThemeName::Auto);
        assert_eq!(taste(&[("TERM", "xterm"), ("CLICOLOR", "0")]).theme, ThemeName::Mono);
        assert_eq!(taste(&[("TERM", "xterm"), ("CLICOLOR", "1")]).theme, ThemeName::Auto);
        let named = Taste::detect(Some(ThemeName::Light), |n| (n == "NO_COLOR").then(|| "1".to_owned()));
        assert_eq!(named.theme, ThemeName::Light);
    }

    #[test]
    fn the_background_is_read_from_colorfgbg() {
        for (text, background) in [
            ("15;0", Some(Background::Dark)),
            ("0;15", Some(Background::Light)),
            ("0;default;7", Some(Background::Light)),
            ("0;default", None),
            ("0;200", None),
            ("", None),
        ] {
            assert_eq!(taste(&[("TERM", "xterm"), ("COLORFGBG", text)]).background, background, "{text}");
        }
    }

    #[test]
    fn poor_terminals_and_other_locales_get_ascii() {
        assert!(taste(&[("TERM", "linux"), ("LANG", "C.UTF-8")]).ascii);
        assert!(taste(&[("TERM", "xterm-256color"), ("LANG", "C")]).ascii);
        assert!(taste(&[("TERM", "xterm-256color"), ("LANG", "C.UTF-8"), ("LC_ALL", "POSIX")]).ascii);
        assert!(!taste(&[("TERM", "xterm-256color"), ("LC_CTYPE", "de_DE.utf8")]).ascii);
    }

    #[test]
    fn text_of_a_pipe_is_ascii_only_if_the_locale_says_so() {
        for (vars, terminal, pipe) in [
            (vec![("TERM", "xterm"), ("LANG", "C.UTF-8")], false, false),
            (vec![("TERM", "xterm"), ("LANG", "C.UTF-8"), ("LC_ALL", "C")], true, true),
            (vec![("TERM", "xterm"), ("LC_CTYPE", "de_DE.ISO-8859-1")], true, true),
            (vec![("TERM", "linux"), ("LANG", "C.UTF-8")], true, false),
            (vec![("TERM", "xterm"), ("LC_ALL", "")], true, false),
            (vec![], true, false),
        ] {
            let of = |is_terminal| {
                let get = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
                Taste::text_is_ascii(is_terminal, get)
            };
            assert_eq!((of(true), of(false)), (terminal, pipe), "{vars:?}");
        }
    }

    #[test]
    fn theme_names_parse_back_and_an_unknown_one_lists_the_known() {
        for theme in ThemeName::ALL {
            assert_eq!(theme.to_string().parse::<ThemeName>().unwrap(), theme);
        }
        assert_eq!("color-blind".parse::<ThemeName>().unwrap(), ThemeName::ColourBlind);
        assert!("neon".parse::<ThemeName>().unwrap_err().contains("high-contrast"));
    }
}
