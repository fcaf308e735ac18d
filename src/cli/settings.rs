//! Finds the settings file, reads it once and validates it before anything runs.

use super::args::OutputArgs;
use super::outcome::{Ran, note, print_file, print_fitted};
use super::streams::choose_ascii;
use crate::config::{Markers, Palette, Settings, Taste, ThemeName, parse_theme, theme_template};
use crate::core::nearest::hint;
use crate::trust::{distrust, foreign_commands, read_regular};
use crate::tui::Keymap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The maximum size of a settings file or a theme in bytes.
const LONGEST: u64 = 1 << 20;

static CURRENT: OnceLock<(Settings, Keymap)> = OnceLock::new();
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// The settings of this process. They are the defaults if no file was read.
pub(super) fn current() -> &'static Settings {
    &CURRENT.get_or_init(Default::default).0
}

/// The key bindings of this process.
pub(super) fn keys() -> Keymap {
    CURRENT.get_or_init(Default::default).1.clone()
}

/// The settings file of this process, for the sessions that it starts.
pub(super) fn file() -> Option<&'static Path> {
    FILE.get().map(PathBuf::as_path)
}

/// Reads the named file, or the file at the default path if it exists. A file at the default path that another user
/// could have written is not used, because its engines can be commands. sudo and containers can keep HOME of that user.
/// Root takes no commands from a named file of that kind either.
///
/// # Errors
/// A sentence with file and line.
pub(super) fn read(asked: Option<&Path>) -> Result<(), String> {
    let Some(path) = asked.map(Path::to_owned).or_else(|| usual_place().filter(|path| path.exists())) else {
        return Ok(());
    };
    if asked.is_none()
        && let Some(why) = distrust(&path)
    {
        note(&format!("the settings in {} are not used: {why}; '--config FILE' names a file to use", path.display()));
        return Ok(());
    }
    let settings = Settings::parse(&path, &text_of(&path, "the settings")?)?;
    let keys = Keymap::with(&settings.keys)?;
    // A rule of sudo can permit a command with any --config.
    if let Some(engine) = settings.engines.iter().find(|engine| engine.is_outside())
        && let Some(why) = foreign_commands(&path)
    {
        let path = path.display();
        return Err(format!(
            "{path}: root does not run the engine '{engine}' of this file, because {why}; use --engine"
        ));
    }
    for (order, place) in &settings.engine_settings {
        order.check().map_err(|sentence| format!("{place}: {sentence}"))?;
    }
    if let Some(name) = &settings.theme {
        theme(name, settings.folder.as_deref()).map_err(|sentence| format!("{}: {sentence}", settings.theme_place))?;
    }
    if let Some(ascii) = settings.ascii {
        choose_ascii(ascii);
    }
    // This is called once. A second call would keep the first settings.
    let _ = CURRENT.set((settings, keys));
    let _ = FILE.set(path);
    Ok(())
}

/// `$XDG_CONFIG_HOME/gds-top/config.toml`, or `~/.config/gds-top/config.toml` (XDG Base Directory Specification,
/// which ignores relative paths).
fn usual_place() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("gds-top/config.toml"))
}

/// Reads a text file of limited size. Pipes and devices are rejected, because reading them may never end.
fn text_of(path: &Path, what: &str) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{what} in {} cannot be read: {error}", path.display());
    let about = std::fs::metadata(path).map_err(|e| failed(&e))?;
    if !about.is_file() {
        return Err(failed(&"it is not a regular file"));
    }
    if about.len() > LONGEST {
        return Err(failed(&format!("it has {} bytes; the limit is 1 MiB", about.len())));
    }
    let bytes = read_regular(path, LONGEST).map_err(|e| failed(&e))?;
    String::from_utf8(bytes)
        .map_err(|e| failed(&format!("it is not UTF-8 text, at byte {}", e.utf8_error().valid_up_to())))
}

/// Finds a theme by name, by the name of a file in `themes` next to the settings, or by path.
fn theme(name: &str, folder: Option<&Path>) -> Result<(ThemeName, Option<Palette>), String> {
    if let Ok(theme) = name.parse::<ThemeName>() {
        return Ok((theme, None));
    }
    let by_path = name.contains('/') || name.ends_with(".toml");
    let folder = folder.map(Path::to_owned).or_else(|| usual_place()?.parent().map(Path::to_owned));
    let path = match (&folder, by_path) {
        (_, true) if Path::new(name).exists() => PathBuf::from(name),
        // Paths in a settings file are relative to that file.
        (Some(folder), true) => folder.join(name),
        (None, true) => PathBuf::from(name),
        (Some(folder), false) => folder.join("themes").join(format!("{name}.toml")),
        (None, false) => PathBuf::new(),
    };
    if !by_path && !path.is_file() {
        let mut known: Vec<String> = ThemeName::ALL.iter().map(ToString::to_string).collect();
        let own = folder.and_then(|folder| std::fs::read_dir(folder.join("themes")).ok());
        for entry in own.into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            known.extend(file.strip_suffix(".toml").map(str::to_owned));
        }
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(format!("'{name}' is not a theme{}", hint(name, &known)));
    }
    parse_theme(&path, &text_of(&path, "the theme")?)
}

/// The appearance and the key bindings of the screens.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) taste: Taste,
    pub(super) palette: Option<Palette>,
    pub(super) markers: Option<Markers>,
}

/// Reads the appearance from the arguments, then the settings, then the environment.
///
/// # Errors
/// A sentence if the theme or the markers are unknown.
pub(super) fn look(output: &OutputArgs) -> Result<Look, String> {
    let settings = current();
    let asked = match (&output.theme, output.plain) {
        (Some(name), _) => Some(theme(name, settings.folder.as_deref())?),
        (None, true) => Some((ThemeName::Mono, None)),
        (None, false) => settings.theme.as_deref().map(|name| theme(name, settings.folder.as_deref())).transpose()?,
    };
    let mut taste = Taste::detect(asked.map(|(name, _)| name), |name| std::env::var(name).ok());
    taste.ascii = settings.ascii.unwrap_or(taste.ascii);
    taste.depth = settings.colours.unwrap_or(taste.depth);
    let markers = output.markers.as_deref().map(str::parse).transpose()?.or(settings.markers);
    Ok(Look { taste, palette: asked.and_then(|(_, palette)| palette), markers })
}

/// Prints the settings file with every line commented out, a theme as a template, or the key bindings as a table.
pub(super) fn show(theme: Option<&str>, keys: bool) -> Ran {
    if keys {
        return Ok(print_fitted(&Keymap::document(), false));
    }
    let Some(name) = theme else {
        let head = "# Settings of gds-top: $XDG_CONFIG_HOME/gds-top/config.toml (~/.config/gds-top/config.toml), or the file named by --config.\n\
                    # These are the defaults or examples; remove the mark from the lines that you change.\n\n";
        return Ok(print_file(format!("{head}{}{}", Settings::template(), Keymap::template()).as_bytes()));
    };
    match theme_template(name.parse()?) {
        Some(text) => Ok(print_file(text.as_bytes())),
        None => Err("the theme 'mono' has no colours, so it cannot be a start for a custom theme".to_owned()),
    }
}
