//! The widgets of which screens consist.

pub(crate) mod bars;
pub(crate) mod big_number;
pub(crate) mod canvas;
pub(crate) mod chart;
pub(crate) mod flow;
pub(crate) mod headline;
pub(crate) mod path_drawing;
pub(crate) mod scatter;
pub(crate) mod scroll;
pub(crate) mod series;
pub(crate) mod sheet;
pub(crate) mod time_view;
pub(crate) mod timeline;
