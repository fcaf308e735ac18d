//! Text for people, shells and files. The files of this module wrap crates and use no other module.

mod ascii;
mod columns;
mod csv;
mod diff;
mod json;
mod markup;
mod paragraph;
mod sanitise;
mod search;
mod sentence;
mod shell;
mod table;

pub use ascii::{TextWriter, ascii_of};
pub use columns::{TIE, fitted, glyph_width, indented, truncate, truncate_middle, truncate_name, width, wrap};
pub use csv::{CsvRows, csv_cell};
pub use diff::{DiffLine, diff};
pub use json::{json_values, pretty_json, write_json};
pub use markup::markup;
pub use paragraph::{paragraph, strong};
pub use sanitise::{CHANGED_IN_NAMES, is_unsafe, sanitise, sanitise_coloured, sanitise_line, sanitise_name, visible};
pub use search::contains_in_order;
pub use sentence::capitalised;
pub use shell::{quoted, quoted_line, without_sudo};
pub use table::table_lines;
