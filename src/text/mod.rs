//! Text for people, shells and files. Thin layers over crates; uses nothing else of this program.

mod columns;
mod sanitise;
mod shell;
mod table;

pub use columns::{TIE, glyph_width, indented, truncate, truncate_middle, width, wrap};
pub use sanitise::{is_unsafe, sanitise, sanitise_coloured, sanitise_line};
pub use shell::{quoted, quoted_line};
pub use table::table_lines;
