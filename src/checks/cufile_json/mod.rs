//! cufile.json: parsing with positions, linting, the values in effect, a file for a model, and edits that preserve
//! the user's text.

mod bounds;
mod edit;
mod effective;
mod environment;
mod facts;
mod known;
mod lint;
mod machine;
mod meant;
mod nearest;
mod repair;
#[cfg(test)]
mod rules;
mod syntax;
#[cfg(test)]
mod tests;
mod together;
mod tune;
mod types;
mod values;
mod without_effect;
mod words;

pub use edit::{EditError, rename_misspelt, set_keys};
pub use effective::{Effective, Origin, defaults, effective, settings};
pub use environment::PLACE as PLACE_OF_VARIABLES;
pub use facts::{KeyFacts, key_facts, key_names, meant_by, variable_names};
pub use machine::{file_to_mount, is_in_home, is_of_user, lint_machine, lint_text, named_file};
pub use nearest::key_instead_of;
pub use repair::{Repaired, repair};
pub use tune::{Tuned, TunedFor, tune};
pub use types::{Hardware, Linted, Problem, SYSTEM_FILE, Severity};

pub(super) use environment::lint_environment;
pub(super) use lint::{Surroundings, lint};
pub(super) use nearest::{Ignored, distance, ignored};
