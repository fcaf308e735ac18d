//! The screens, one folder for each: state, keys, update and view. `calls` is the form that the Race screen has for a watched program.

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

/// The tables of keys of all screens.
pub(crate) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    let tables =
        [environment::tables(), race::tables(), tensors::tables(), system::tables(), learn::tables(), report::tables()];
    tables.into_iter().flatten().collect()
}
