//! Theme files: a built-in theme in which some colours are replaced.

use super::palette::{Ink, Palette};
use super::taste::ThemeName;
use super::toml_text::{Text, Value};
use crate::core::{Engine, PHASES, Status};
use std::fmt::Write as _;
use std::path::Path;
use toml::de::DeTable;

/// The 16 named colours by index, with the values of xterm.
pub(super) const NAMED: [(&str, u32); 16] = [
    ("black", 0x00_0000),
    ("red", 0xcd_0000),
    ("green", 0x00_cd00),
    ("yellow", 0xcd_cd00),
    ("blue", 0x00_00ee),
    ("magenta", 0xcd_00cd),
    ("cyan", 0x00_cdcd),
    ("white", 0xe5_e5e5),
    ("bright-black", 0x7f_7f7f),
    ("bright-red", 0xff_0000),
    ("bright-green", 0x00_ff00),
    ("bright-yellow", 0xff_ff00),
    ("bright-blue", 0x5c_5cff),
    ("bright-magenta", 0xff_00ff),
    ("bright-cyan", 0x00_ffff),
    ("bright-white", 0xff_ffff),
];

/// The names of colours that are not in a table.
const ROLES: [&str; 10] =
    ["ground", "text", "strong", "dim", "faint", "accent", "selected", "on_fill", "on_accent", "base"];
const STATUS: [Status; 5] = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na];
const WANTED: &str = "a colour: \"#rrggbb\", one of the sixteen names, or { rgb = \"#rrggbb\", ansi = \"red\" }";

/// A parsed theme: its base theme and its colours. The colours are `None` if the base is `mono`, which has no colours
/// to replace.
pub type UserTheme = (ThemeName, Option<Palette>);

/// Parses the text of a theme.
///
/// # Errors
/// A sentence with file and line: invalid TOML, or an unknown role, table or colour with a suggestion.
pub fn parse(path: &Path, text: &str) -> Result<UserTheme, String> {
    let source = Text::new(path, text);
    let table = source.parse()?;
    let base = match table.get("base") {
        Some(value) => {
            let name = source.text_of(value, "base", "the name of a theme")?;
            let known = ThemeName::ALL.map(|theme| theme.to_string());
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            name.parse().map_err(|_| source.unknown(&value.span(), name, "base theme", &known))?
        }
        None => ThemeName::Dark,
    };
    let Some(mut palette) = Palette::of(base) else {
        if let Some((key, _)) = table.iter().find(|(key, _)| key.get_ref() != "base") {
            return Err(source.wrong(&key.span(), "the theme 'mono' has no colours to replace; choose another base"));
        }
        return Ok((base, None));
    };
    for (key, value) in &table {
        let name: &str = key.get_ref();
        let slot = match name {
            "base" => continue,
            "ground" | "text" | "strong" => {
                let of_terminal = value.get_ref().as_str() == Some("terminal");
                let ink = if of_terminal { None } else { Some(ink(&source, value, name)?) };
                match name {
                    "ground" => palette.ground = ink,
                    "text" => palette.text = ink,
                    _ => palette.strong = ink,
                }
                continue;
            }
            "status" => {
                fill(&source, value, name, &mut palette.status, |n| STATUS.iter().position(|s| status_name(*s) == n))?;
                continue;
            }
            "engines" => {
                fill(&source, value, name, &mut palette.lanes, |n| {
                    let name = n.parse::<Engine>().map_or_else(|_| n.to_owned(), |engine| engine.to_string());
                    engine_names().iter().position(|known| *known == name)
                })?;
                continue;
            }
            "phases" => {
                fill(&source, value, name, &mut palette.phases, |n| PHASES.iter().position(|p| p.name() == n))?;
                continue;
            }
            "dim" => &mut palette.dim,
            "faint" => &mut palette.faint,
            "accent" => &mut palette.accent,
            "selected" => &mut palette.selected,
            "on_fill" => &mut palette.on_fill,
            "on_accent" => &mut palette.on_accent,
            _ => {
                let mut known = ROLES.to_vec();
                known.extend(["status", "engines", "phases"]);
                return Err(source.unknown(&key.span(), name, "colour of a theme", &known));
            }
        };
        *slot = ink(&source, value, name)?;
    }
    Ok((base, Some(palette)))
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Info => "info",
        Status::Warn => "warn",
        Status::Fail => "fail",
        Status::Na => "na",
    }
}

fn engine_names() -> Vec<String> {
    let mut names: Vec<(usize, String)> = Engine::named().map(|e| (e.place(), e.to_string())).collect();
    names.sort_by_key(|(place, _)| *place);
    // All plugins of NIXL have the same colour.
    names.dedup_by_key(|(place, _)| *place);
    names.into_iter().map(|(_, name)| name).chain(["command".to_owned()]).collect()
}

/// The names in a table of colours.
fn members(table: &str) -> Vec<String> {
    match table {
        "status" => STATUS.iter().map(|s| status_name(*s).to_owned()).collect(),
        "engines" => engine_names(),
        _ => PHASES.iter().map(|p| p.name().to_owned()).collect(),
    }
}

fn fill(
    source: &Text<'_>,
    value: &Value<'_>,
    name: &str,
    slots: &mut [Ink],
    find: impl Fn(&str) -> Option<usize>,
) -> Result<(), String> {
    let DeTableRef(table) = table_of(source, value, name)?;
    for (key, value) in table {
        let member: &str = key.get_ref();
        match find(member).and_then(|at| slots.get_mut(at)) {
            Some(slot) => *slot = ink(source, value, member)?,
            None => {
                let known = members(name);
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(source.unknown(&key.span(), member, &format!("colour of [{name}]"), &known));
            }
        }
    }
    Ok(())
}

struct DeTableRef<'v, 't>(&'v DeTable<'t>);

fn table_of<'v, 't>(source: &Text<'_>, value: &'v Value<'t>, name: &str) -> Result<DeTableRef<'v, 't>, String> {
    value
        .get_ref()
        .as_table()
        .map(DeTableRef)
        .ok_or_else(|| source.wrong(&value.span(), &format!("[{name}] takes a table of colours")))
}

/// Parses a colour.
fn ink(source: &Text<'_>, value: &Value<'_>, name: &str) -> Result<Ink, String> {
    let Some(table) = value.get_ref().as_table() else {
        let text = source.text_of(value, name, WANTED)?;
        return colour(source, value, text);
    };
    let mut rgb = None;
    let mut ansi = None;
    for (key, value) in table {
        let text = source.text_of(value, key.get_ref(), WANTED)?;
        match &**key.get_ref() {
            "rgb" => rgb = Some(colour(source, value, text)?),
            "ansi" => ansi = Some(colour(source, value, text)?.ansi),
            other => return Err(source.unknown(&key.span(), other, "part of a colour", &["rgb", "ansi"])),
        }
    }
    let Some(ink) = rgb else {
        return Err(source.wrong(&value.span(), &format!("{name} takes {WANTED}; 'rgb' is missing")));
    };
    Ok(Ink { ansi: ansi.unwrap_or(ink.ansi), ..ink })
}

fn colour(source: &Text<'_>, value: &Value<'_>, text: &str) -> Result<Ink, String> {
    if let Some(digits) = text.strip_prefix('#') {
        let is_complete = digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let rgb = u32::from_str_radix(digits, 16).ok().filter(|_| is_complete).ok_or_else(|| {
            source.wrong(&value.span(), &format!("'{text}' is not a colour: write # and six hexadecimal digits"))
        })?;
        return Ok(Ink { rgb, ansi: nearest_named(rgb) });
    }
    let wanted = text.to_lowercase().replace('_', "-").replace("gray", "grey");
    let wanted = if wanted == "grey" { "bright-black" } else { &wanted };
    match NAMED.iter().position(|(name, _)| *name == wanted) {
        Some(at) => Ok(Ink { rgb: NAMED[at].1, ansi: at as u8 }),
        None => Err(source.unknown(&value.span(), text, "colour", &NAMED.map(|(name, _)| name))),
    }
}

/// The nearest of the 16 named colours.
fn nearest_named(rgb: u32) -> u8 {
    let parts = |rgb: u32| [(rgb >> 16) & 255, (rgb >> 8) & 255, rgb & 255].map(|part| part as i32);
    let wanted = parts(rgb);
    let far = |named: u32| parts(named).iter().zip(wanted).map(|(a, b)| (a - b).pow(2)).sum::<i32>();
    (0..16).min_by_key(|at| far(NAMED[*at].1)).unwrap_or(7) as u8
}

/// A built-in theme as a theme file, as a template for a custom theme. `None` for `mono`.
#[must_use]
pub fn template(theme: ThemeName) -> Option<String> {
    let palette = Palette::of(theme)?;
    let show = |ink: Ink| {
        let ansi = NAMED.get(usize::from(ink.ansi)).map_or("white", |(name, _)| name);
        format!("{{ rgb = \"#{:06x}\", ansi = \"{ansi}\" }}", ink.rgb)
    };
    let mut text =
        format!("# The base theme; colours that are not listed below are taken from it.\nbase = \"{theme}\"\n\n");
    text.push_str("# \"terminal\" keeps the terminal's background or foreground.\n");
    for (name, ink) in [("ground", palette.ground), ("text", palette.text), ("strong", palette.strong)] {
        let _ = writeln!(text, "{name} = {}", ink.map_or_else(|| "\"terminal\"".to_owned(), show));
    }
    for (name, ink) in [
        ("dim", palette.dim),
        ("faint", palette.faint),
        ("accent", palette.accent),
        ("selected", palette.selected),
        ("on_fill", palette.on_fill),
        ("on_accent", palette.on_accent),
    ] {
        let _ = writeln!(text, "{name} = {}", show(ink));
    }
    let tables: [(&str, &[Ink]); 3] =
        [("status", &palette.status), ("engines", &palette.lanes), ("phases", &palette.phases)];
    for (table, inks) in tables {
        let _ = writeln!(text, "\n[{table}]");
        for (name, ink) in members(table).iter().zip(inks) {
            let _ = writeln!(text, "{name} = {}", show(*ink));
        }
    }
    Some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<UserTheme, String> {
        parse(Path::new("t.toml"), text)
    }

    #[test]
    fn a_theme_written_out_is_read_back_as_it_was() {
        for theme in ThemeName::ALL {
            let Some(text) = template(theme) else { continue };
            assert_eq!(read(&text).unwrap(), (theme, Palette::of(theme)), "{theme}");
        }
    }

    #[test]
    fn colours_are_replaced_one_by_one_and_the_rest_is_the_bases() {
        let (base, palette) = read(
            "base = \"light\"\naccent = \"#ff8800\"\nground = \"terminal\"\n[engines]\ngds-slab = \"bright-green\"\n\
             [status]\nfail = { rgb = \"#aa0000\", ansi = \"bright-red\" }",
        )
        .unwrap();
        let (palette, light) = (palette.unwrap(), Palette::of(ThemeName::Light).unwrap());
        assert_eq!((base, palette.accent.rgb, palette.ground), (ThemeName::Light, 0xff_8800, None));
        assert_eq!(palette.accent.ansi, 3, "the nearest of sixteen to orange is yellow");
        assert_eq!((palette.lanes[5].ansi, palette.status[3].ansi), (10, 9));
        assert_eq!((palette.text, palette.lanes[0]), (light.text, light.lanes[0]));
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_remedy() {
        for (text, parts) in [
            ("acent = \"red\"", ["t.toml:1: 'acent' is not a colour of a theme", "'accent'"]),
            ("\ntext = \"rde\"", ["t.toml:2: 'rde' is not a colour", "'red'"]),
            ("text = \"#12345\"", ["'#12345' is not a colour", "six hexadecimal digits"]),
            ("text = 3", ["text takes a colour", "the number 3"]),
            ("base = \"drak\"", ["'drak' is not a base theme", "'dark'"]),
            ("[engines]\nmmapp = \"red\"", ["t.toml:2: 'mmapp'", "'mmap'"]),
            ("[phases]\nsubmitt = \"red\"", ["'submitt'", "'submit'"]),
            ("status = \"red\"", ["[status] takes a table", ""]),
            ("base = \"mono\"\ntext = \"red\"", ["t.toml:2:", "no colours to replace"]),
            ("text = { ansi = \"red\" }", ["'rgb' is missing", ""]),
            ("text = { rbg = \"#000000\" }", ["'rbg'", "'rgb'"]),
        ] {
            let said = read(text).unwrap_err();
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        }
    }
}
