//! gds-top.
