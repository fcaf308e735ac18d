//! The engines and their settings as Markdown tables, from the specification. docs/settings.md contains a copy.

use crate::core::engine_spec::ENGINES;
use crate::core::{Need, Setting};

const fn need(need: Need) -> &'static str {
    match need {
        Need::Libcufile => "libcufile",
        Need::Nixl => "NIXL",
        Need::Gpu => "a GPU",
    }
}

/// The table of engines and the table of settings.
pub(super) fn tables() -> String {
    let mut out = String::from("| engine | method | needs | settings |\n|---|---|---|---|\n");
    for spec in &ENGINES {
        let names: Vec<String> = spec.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let also = if names.is_empty() { String::new() } else { format!(" (also {})", names.join(", ")) };
        let needs: Vec<&str> = spec.needs.iter().map(|one| need(*one)).collect();
        let settings: Vec<String> = Setting::of(&spec.engine).map(|setting| format!("`{setting}`")).collect();
        out += &format!(
            "| `{}`{also} | {} | {} | {} |\n",
            spec.name,
            spec.help,
            if needs.is_empty() { "–".to_owned() } else { needs.join(", ") },
            settings.join(", ")
        );
    }
    out += "\n| setting | meaning | values | default |\n|---|---|---|---|\n";
    for setting in Setting::ALL {
        let spec = setting.spec();
        let limits =
            spec.uses.iter().filter_map(|one| Some(format!("{} up to {}", one.engine, setting.text(one.most?))));
        let (least, most) = spec.bounds;
        let values = match spec.bounds {
            (0, 1) => spec.unit.name().to_owned(),
            _ => format!("{} to {} ({})", setting.text(least), setting.text(most), spec.unit.name()),
        };
        let values: Vec<String> = std::iter::once(values).chain(limits).collect();
        out += &format!("| `{setting}` | {} | {} | {} |\n", spec.help, values.join("; "), spec.default);
    }
    out
}
