//! Paper: JSON, Markdown and other files from a state.
