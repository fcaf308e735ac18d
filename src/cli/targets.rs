//! Parses the argument of `--target`.

use super::settings;
use crate::session::live::{self, GpuChoice};
use clap::ArgMatches;

/// The reason why a GPU that the user named for a command cannot be used. Without a command, the screens or the report
/// show it among the checks.
pub(super) fn missing(call: &ArgMatches) -> Option<String> {
    let (_, call) = call.subcommand().filter(|(name, _)| !name.starts_with("__"))?;
    let named = call.try_get_one::<String>("gpu").ok()?.cloned().or_else(|| settings::current().gpu.clone())?;
    live::missing_gpu(&std::env::current_exe().ok()?, &parse(&named).ok()?)
}

/// The targets in the argument.
pub(super) fn parse(text: &str) -> Result<GpuChoice, String> {
    let mut choices = text.split(',').map(one).collect::<Result<Vec<GpuChoice>, String>>()?;
    let mixed = choices.contains(&GpuChoice::Host) && !choices.iter().all(GpuChoice::is_host);
    if mixed || (choices.len() > 1 && choices.contains(&GpuChoice::All)) {
        return Err(format!(
            "--target '{text}' mixes targets: pass 'all' alone, and either GPUs or 'host', because loads into host memory and GPU memory cannot be compared"
        ));
    }
    Ok(match choices.len() {
        1 => choices.remove(0),
        _ => GpuChoice::Several(choices),
    })
}

fn one(text: &str) -> Result<GpuChoice, String> {
    let text = text.trim();
    match text {
        "host" => Ok(GpuChoice::Host),
        "all" => Ok(GpuChoice::All),
        uuid if uuid.to_ascii_lowercase().starts_with("gpu-") => Ok(GpuChoice::Uuid(uuid.to_owned())),
        index => index.parse().map(GpuChoice::Index).map_err(|_| {
            format!(
                "'{text}' is not a target: pass an index, a UUID (GPU-…), 'host', 'all', or several separated by commas; 'nvidia-smi -L' lists the GPUs"
            )
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_several_or_all_targets_are_parsed_and_mixtures_rejected() {
        use GpuChoice::{All, Host, Index, Several, Uuid};
        assert_eq!(parse("host").unwrap(), Host);
        assert_eq!(parse("2").unwrap(), Index(2));
        assert_eq!(parse("all").unwrap(), All);
        assert_eq!(parse("GPU-ab, 1").unwrap(), Several(vec![Uuid("GPU-ab".into()), Index(1)]));
        assert_eq!(parse("host,host").unwrap(), Several(vec![Host, Host]));
        assert_eq!(parse("0,0").unwrap(), Several(vec![Index(0), Index(0)]));
        for wrong in ["host,0", "all,1", "", "first", "0,,1", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
