//! Themes, colours and glyphs for the terminal, and the settings file.

mod palette;
mod settings;
mod taste;
mod theme_file;
mod toml_text;

pub use palette::{Ink, Palette};
pub use settings::{FRAMES_PER_SECOND, KeySetting, Markers, Settings};
pub use taste::{Background, ColourDepth, Taste, ThemeName};
pub use theme_file::{UserTheme, parse as parse_theme, template as theme_template};
