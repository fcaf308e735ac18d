//! Taste: settings file, themes, keymap.
