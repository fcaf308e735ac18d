//! The settings file. It is parsed strictly, so that a mistyped line is an error and never ignored.

use super::taste::ColourDepth;
use super::toml_text::{Text, Value};
use crate::core::{CacheState, Engine, EngineError, SettingError, SettingOrder};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The default number of frames per second during animations.
pub const FRAMES_PER_SECOND: u32 = 10;

/// The characters that draw the lines of charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markers {
    /// Braille dots, two by four per cell.
    #[default]
    Braille,
    /// Quarter blocks, two by two per cell, for fonts without braille.
    Block,
    /// One ASCII character per cell.
    Ascii,
}

impl Markers {
    /// All kinds of markers with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("braille", Self::Braille), ("block", Self::Block), ("ascii", Self::Ascii)];
}

impl std::str::FromStr for Markers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, markers)| *markers);
        let names = Self::ALL.map(|(name, _)| name);
        known.ok_or_else(|| format!("'{text}' is not a kind of markers{}", crate::core::nearest::hint(text, &names)))
    }
}

/// An action and its key bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetting {
    /// The name of the action as written in the file.
    pub action: String,
    /// The keys as written in the file. An empty list removes the bindings of the action.
    pub keys: Vec<String>,
    /// `FILE:LINE` of the setting, for messages.
    pub place: String,
}

/// All settings. A value that is `None` or empty is not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The name of a theme, or the path of a theme file.
    pub theme: Option<String>,
    /// `FILE:LINE` of the theme, for messages.
    pub theme_place: String,
    /// The number of colours of the terminal.
    pub colours: Option<ColourDepth>,
    /// Whether only ASCII characters are used.
    pub ascii: Option<bool>,
    /// The characters that draw the lines of charts.
    pub markers: Option<Markers>,
    /// Whether the mouse is enabled.
    pub mouse: Option<bool>,
    /// The number of frames per second during animations.
    pub frames_per_second: Option<u32>,
    /// The engines to measure if the command line names none.
    pub engines: Vec<Engine>,
    /// The cache states to measure if the command line names none.
    pub cache: Vec<CacheState>,
    /// The number of runs of each engine in each cache state.
    pub repeat: Option<u32>,
    /// The GPU by index or UUID, or `host`.
    pub gpu: Option<String>,
    /// Engine settings, `NAME=NUMBER`, with their `FILE:LINE`.
    pub engine_settings: Vec<(SettingOrder, String)>,
    /// The key bindings.
    pub keys: Vec<KeySetting>,
    /// The directory of the settings file. Its subdirectory `themes` contains theme files.
    pub folder: Option<PathBuf>,
}

/// A setting in the file: its table, its name, its default in TOML, and its help text.
struct Line {
    table: &'static str,
    name: &'static str,
    default: &'static str,
    about: &'static str,
}

const fn line(table: &'static str, name: &'static str, default: &'static str, about: &'static str) -> Line {
    Line { table, name, default, about }
}

/// All settings, in the order of the file.
const LINES: [Line; 11] = [
    line(
        "",
        "theme",
        "\"auto\"",
        "auto (dark or light, by the terminal's background), dark, light, high-contrast, colour-blind, mono; NAME for themes/NAME.toml next to this file; or a path to a theme",
    ),
    line("", "colours", "\"auto\"", "of the terminal: 16, 256, true (24 bit); auto reads COLORTERM and TERM"),
    line("", "ascii", "false", "only ASCII characters; without this line the terminal and the locale decide"),
    line("", "markers", "\"braille\"", "characters for the lines of charts: braille, block, ascii"),
    line("", "mouse", "true", "clicks and the wheel; false leaves them to the terminal"),
    line(
        "",
        "frames_per_second",
        "10",
        "frames per second during animations, 1 to 30; nothing is drawn without changes",
    ),
    line(
        "race",
        "engines",
        "[\"pread\", \"odirect\"]",
        "engines that race; without this line all engines that can run on this machine",
    ),
    line(
        "race",
        "cache",
        "[\"cold\"]",
        "page cache before each run: cold, hot, as-is; several are measured one after another",
    ),
    line(
        "race",
        "repeat",
        "3",
        "runs of each engine in each cache state, 1 to 1000; one engine alone runs once if this is not set",
    ),
    line(
        "race",
        "gpu",
        "\"0\"",
        "a GPU by index or UUID, or \"host\" for host memory; without this line the first one, else host memory",
    ),
    line(
        "race",
        "set",
        "[\"pread.threads=8\"]",
        "engine settings as for --set; without this line the defaults of each engine",
    ),
];

fn names(table: &str) -> Vec<&'static str> {
    LINES.iter().filter(|line| line.table == table).map(|line| line.name).collect()
}

impl Settings {
    /// Parses the text of a settings file.
    ///
    /// # Errors
    /// A sentence with file and line: invalid TOML, an unknown name with a suggestion, or a value of the wrong type.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let source = Text::new(path, text);
        let mut settings = Self { folder: path.parent().map(Path::to_owned), ..Self::default() };
        for (key, value) in &source.parse()? {
            let name: &str = key.get_ref();
            match name {
                "race" => {
                    for (key, value) in source.table(value, "[race]")? {
                        settings.race(&source, key.get_ref(), key.span(), value)?;
                    }
                }
                "keys" => {
                    for (key, value) in source.table(value, "[keys]")? {
                        let found =
                            source.texts(value, key.get_ref(), "a key or a list of keys, such as \"ctrl-r\"")?;
                        settings.keys.push(KeySetting {
                            action: key.get_ref().to_string(),
                            keys: found.into_iter().map(|(text, _)| text.to_owned()).collect(),
                            place: source.place(&key.span()),
                        });
                    }
                }
                _ => settings.look(&source, name, key.span(), value)?,
            }
        }
        // The parser sorts tables by name, but messages about keys are in the order of the file.
        settings.keys.sort_by_key(|key| key.place.rsplit(':').next().and_then(|n| n.parse::<usize>().ok()));
        Ok(settings)
    }

    fn look(
        &mut self,
        source: &Text<'_>,
        name: &str,
        at: std::ops::Range<usize>,
        value: &Value<'_>,
    ) -> Result<(), String> {
        match name {
            "theme" => {
                self.theme = Some(source.text_of(value, name, "the name or the file of a theme")?.to_owned());
                self.theme_place = source.place(&value.span());
            }
            "colours" => {
                const KNOWN: [&str; 4] = ["auto", "16", "256", "true"];
                let text = source.text_of(value, name, "\"auto\", \"16\", \"256\" or \"true\"")?;
                self.colours = match text {
                    "auto" => None,
                    "16" => Some(ColourDepth::Ansi16),
                    "256" => Some(ColourDepth::Ansi256),
                    "true" => Some(ColourDepth::True),
                    _ => return Err(source.unknown(&value.span(), text, "number of colours", &KNOWN)),
                };
            }
            "ascii" => self.ascii = Some(source.flag(value, name)?),
            "markers" => {
                let text = source.text_of(value, name, "\"braille\", \"block\" or \"ascii\"")?;
                self.markers = Some(text.parse().map_err(|e: String| source.wrong(&value.span(), &e))?);
            }
            "mouse" => self.mouse = Some(source.flag(value, name)?),
            "frames_per_second" => self.frames_per_second = Some(source.number(value, name, 1..31)?),
            _ => {
                let mut known = names("");
                known.extend(["race", "keys"]);
                let inside = names("race").contains(&name);
                return Err(if inside {
                    source.wrong(&at, &format!("'{name}' belongs under [race]"))
                } else {
                    source.unknown(&at, name, "setting", &known)
                });
            }
        }
        Ok(())
    }

    fn race(
        &mut self,
        source: &Text<'_>,
        name: &str,
        at: std::ops::Range<usize>,
        value: &Value<'_>,
    ) -> Result<(), String> {
        match name {
            "engines" => {
                for (text, at) in source.texts(value, name, "a list of engines")? {
                    self.engines.push(text.parse().map_err(|e: EngineError| source.wrong(&at, &e.to_string()))?);
                }
            }
            "cache" => {
                for (text, at) in source.texts(value, name, "a list of cache states")? {
                    self.cache.push(text.parse().map_err(|e: String| source.wrong(&at, &e))?);
                }
            }
            "repeat" => self.repeat = Some(source.number(value, name, 1..1001)?),
            "gpu" => {
                self.gpu = Some(source.text_of(value, name, "an index or UUID in quotes, or \"host\"")?.to_owned());
            }
            "set" => {
                for (text, at) in source.texts(value, name, "a list such as [\"pread.threads=8\"]")? {
                    let order = text.parse().map_err(|e: SettingError| source.wrong(&at, &e.to_string()))?;
                    self.engine_settings.push((order, source.place(&at)));
                }
            }
            _ => return Err(source.unknown(&at, name, "setting of [race]", &names("race"))),
        }
        Ok(())
    }

    /// The settings file with all defaults. Every line is commented out and has its help text.
    #[must_use]
    pub fn template() -> String {
        let mut text = String::new();
        let mut table = "";
        for line in &LINES {
            if line.table != table {
                table = line.table;
                let _ = writeln!(text, "\n[{table}]");
            }
            let _ = writeln!(text, "# {}\n# {} = {}", line.about, line.name, line.default);
        }
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        Settings::parse(Path::new("/etc/x.toml"), text)
    }

    #[test]
    fn every_line_of_the_template_is_read_when_its_comment_mark_is_taken_away() {
        let live: Vec<String> = Settings::template()
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ')) => rest.to_owned(),
                _ => line.to_owned(),
            })
            .collect();
        let settings = read(&live.join("\n")).unwrap();
        assert_eq!(settings.theme.as_deref(), Some("auto"));
        assert_eq!(settings.frames_per_second, Some(FRAMES_PER_SECOND));
        assert_eq!(settings.engines, [Engine::Pread, Engine::Odirect]);
        assert_eq!((settings.repeat, settings.gpu.as_deref()), (Some(3), Some("0")));
        assert_eq!(settings.engine_settings[0].0.to_string(), "pread.threads=8");
        let commented = read(&Settings::template()).unwrap();
        assert_eq!(
            commented,
            Settings { folder: Some("/etc".into()), ..Settings::default() },
            "a template sets nothing"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_remedy() {
        for (text, line, parts) in [
            ("thme = \"dark\"", 1, ["'thme' is not a setting", "'theme'"]),
            ("\n\nmouse = 1", 3, ["mouse takes true or false", "the number 1"]),
            ("ascii = \"yes\"", 1, ["ascii takes true or false", "\"yes\""]),
            ("frames_per_second = 0", 1, ["from 1 to 30", "the number 0"]),
            ("frames_per_second = 99999999999", 1, ["from 1 to 30", "99999999999"]),
            ("frames_per_second = 2.5", 1, ["from 1 to 30", "2.5"]),
            ("colours = \"257\"", 1, ["'257' is not a number of colours", "'256'"]),
            ("markers = \"brail\"", 1, ["'brail'", "'braille'"]),
            ("[race]\nengine = []", 2, ["'engine' is not a setting of [race]", "'engines'"]),
            ("[race]\nengines = [\"mmapp\"]", 2, ["mmapp", "engine"]),
            ("[race]\ncache = [\"warm\"]", 2, ["warm", "cold"]),
            ("repeat = 3", 1, ["'repeat' belongs under", "[race]"]),
            ("race = 1", 1, ["[race] takes a table", "the number 1"]),
            ("[keys]\nquit = 7", 2, ["quit takes a key", "the number 7"]),
            ("theme = ", 1, ["not TOML", ""]),
            ("a = 1\na = 2", 2, ["not TOML", "duplicate"]),
            ("theme = \"\u{0}\"", 1, ["not TOML", ""]),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with(&format!("/etc/x.toml:{line}: ")), "{text}: {said}");
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
