//! Taste: themes, colours and glyphs that suit the terminal.

mod palette;
mod taste;

pub use palette::{Ink, Palette};
pub use taste::{ColourDepth, Taste, ThemeName};
