//! The screens. Each has a directory with its state, keys, update and view. `calls` replaces the content of the Race
//! screen for a watched program.

pub(crate) mod calls;
pub(crate) mod environment;
pub(crate) mod learn;
pub(crate) mod race;
pub(crate) mod report;
pub(crate) mod system;
pub(crate) mod tensors;

use super::keys::bindings::Place;
use super::keys::spec::Spec;
use super::screen::Screen;

/// The screens, in the order of their tabs.
pub(crate) fn all() -> Vec<Box<dyn Screen>> {
    vec![
        Box::new(environment::Environment::default()),
        Box::new(race::Race::default()),
        Box::new(tensors::Tensors::default()),
        Box::new(system::System::default()),
        Box::new(learn::Learn::default()),
        Box::new(report::Report::default()),
    ]
}

/// The key tables of all screens.
pub(crate) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    let tables =
        [environment::tables(), race::tables(), tensors::tables(), system::tables(), learn::tables(), report::tables()];
    tables.into_iter().flatten().collect()
}
