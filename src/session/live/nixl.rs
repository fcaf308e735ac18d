//! Finds out whether NIXL can run here, by probing it in a child process.

use super::child::probe_child;
use crate::core::{Engine, NixlPlugin};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Time limit of the probe, which loads about thirty libraries.
const LIMIT: Duration = Duration::from_secs(20);

/// The reason why a NIXL engine cannot run here. `None` if it can run, and for all other engines. `cufile` is the
/// reason why cuFile cannot be used.
pub(super) fn obstacle(exe: &Path, engine: &Engine, cufile: Option<&str>) -> Option<String> {
    let plugin = engine.nixl_plugin()?;
    match probe_child(exe, &["__probe-nixl"], LIMIT) {
        Ok(answer) => reason(&answer, plugin, cufile),
        Err(error) => Some(format!("the probe of NIXL failed: {error}")),
    }
}

fn reason(answer: &Value, plugin: NixlPlugin, cufile: Option<&str>) -> Option<String> {
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Some(error.to_owned());
    }
    let library = answer.get("library").and_then(Value::as_str).unwrap_or_default();
    let plugins: Vec<&str> =
        answer.get("plugins").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if !plugins.contains(&plugin.name()) {
        let have = plugins.join(", ");
        return Some(format!("NIXL ({library}) has no plugin {}; it has [{have}]; see NIXL_PLUGIN_DIR", plugin.name()));
    }
    let why = cufile.filter(|_| plugin.uses_cufile())?;
    Some(format!(
        "NIXL ({library}) was found, but its plugin {} needs cuFile: {why}; the plugin POSIX does not",
        plugin.name()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_obstacle_is_the_library_its_plugins_or_cufile() {
        let there = json!({"library": "/x/libnixl_capi.so", "plugins": ["POSIX", "GDS"]});
        let absent = json!({"error": "NIXL was not found: pip install nixl"});
        assert_eq!(reason(&there, NixlPlugin::Gds, None), None);
        assert_eq!(reason(&there, NixlPlugin::Posix, Some("no libcufile")), None);
        for (answer, plugin, cufile, part) in [
            (&absent, NixlPlugin::Gds, None, "pip install nixl"),
            (&there, NixlPlugin::GdsMt, None, "no plugin GDS_MT"),
            (&there, NixlPlugin::Gds, Some("no libcufile"), "needs cuFile: no libcufile"),
        ] {
            let said = reason(answer, plugin, cufile).unwrap();
            assert!(said.contains(part), "{said}");
        }
    }
}
