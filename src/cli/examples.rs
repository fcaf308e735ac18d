//! Examples in the help of the main commands.

use clap::Command;

/// The examples of each command.
const EXAMPLES: [(&str, &[&str]); 9] = [
    (
        "check",
        &[
            "gds-top check /models                        does GDS work for this path, and if not, why",
            "gds-top check /models --require direct       for scripts: status 1 without a direct route",
            "gds-top check --capture machine.tar.zst      examines another machine",
        ],
    ),
    (
        "fix",
        &[
            "gds-top fix                                  shows each fix and asks",
            "gds-top fix nvidia-gds --dry-run             shows all steps to a direct route",
            "sudo gds-top fix udev-record --path /models  applies one fix",
        ],
    ),
    (
        "bench",
        &[
            "gds-top bench /models/Qwen2.5-7B --cache cold,hot",
            "gds-top bench qwen3-0.6b --engine pread,odirect,gds-slab",
            "gds-top bench /models/Qwen2.5-7B --baseline race.gdsrec",
        ],
    ),
    ("bench-io", &["gds-top bench-io /data", "gds-top bench-io /data --size 1M --threads 1,16 --access read"]),
    ("bench-kv", &["gds-top bench-kv llmd /data", "gds-top bench-kv --list"]),
    (
        "watch",
        &[
            "gds-top watch -- python load.py              runs a program",
            "sudo gds-top watch --pid 4711                shows a running process",
        ],
    ),
    ("explain", &["gds-top explain 5030", "gds-top explain properties.io_batchsize", "gds-top explain compat"]),
    ("make-model", &["gds-top make-model qwen3-0.6b /data/q06 --scale 0.1", "gds-top make-model --list"]),
    ("capture", &["gds-top capture machine.tar.zst /models", "gds-top check --capture machine.tar.zst"]),
];

/// The program with the examples in the help of its commands.
pub(super) fn added(mut program: Command) -> Command {
    for (name, lines) in EXAMPLES {
        program = program.mut_subcommand(name, |command| {
            let examples = format!("Examples:\n  {}", lines.join("\n  "));
            let help = match command.get_after_help() {
                Some(known) => format!("{known}\n\n{examples}"),
                None => examples,
            };
            command.after_help(help)
        });
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_example_is_a_valid_command_line() {
        for (name, lines) in EXAMPLES {
            for line in lines {
                // The explanation is behind several spaces.
                let line = line.split("  ").next().unwrap_or_default().trim_start_matches("sudo ");
                let parsed = Cli::command().try_get_matches_from(line.split(' '));
                assert!(parsed.is_ok(), "{name}: {line}: {:?}", parsed.err());
            }
        }
    }
}
