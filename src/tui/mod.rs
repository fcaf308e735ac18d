//! Face: screens, widgets, keys, themes. Draws a state and sends commands.
