//! The command lines of fixes: a fix plans for one path, so its command names the examined one.

use crate::checks::context::Context;
use crate::checks::judged::{Judged, Scope};
use crate::checks::spec::CheckId;
use crate::core::{FixId, Status};
use crate::text::quoted;
use std::path::Path;

/// The beginning of the command, as the advice of checks has it.
const COMMAND: &str = "gds-top fix ";

/// The fixes of checks whose findings name none.
const BY_CHECK: &[(CheckId, FixId)] = &[
    (CheckId::NvfsDkms, FixId::NvfsDkms),
    (CheckId::NvfsBuildInputs, FixId::NvfsDkms),
    (CheckId::NvfsSecureboot, FixId::SecureBootKey),
    (CheckId::NvfsNvmeSymbol, FixId::NvmePatch),
    (CheckId::GpuBar1Size, FixId::Bar1Large),
    (CheckId::KernelP2pdma, FixId::KernelP2pdma),
    (CheckId::CtrDevices, FixId::ContainerDevices),
    (CheckId::NvfsAutoload, FixId::NvfsLoad),
    (CheckId::NvfsStatsOn, FixId::NvfsStats),
    (CheckId::NvfsBridgesAcs, FixId::AcsRedirect),
    (CheckId::PcieAcs, FixId::AcsRedirect),
    (CheckId::CfgParse, FixId::CufileConfig),
    (CheckId::LogLocation, FixId::CufileLog),
    (CheckId::FsType, FixId::MoveModel),
];

/// Gives each finding with a fix its command line, and the commands in its advice their path.
pub(crate) fn complete(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let path = path_of(ctx, judged);
        if let (Some(advice), Some(path)) = (&mut judged.finding.advice, path) {
            *advice = with_path(advice, path);
        }
        judged.finding.command = judged.finding.fix.map(|fix| fix_command(fix.as_str(), path));
    }
}

/// The programs whose commands advice contains.
const PROGRAMS: &[&str] = &[
    "sudo",
    "gds-top",
    "unset",
    "export",
    "apt-get",
    "dnf",
    "zypper",
    "srun",
    "nvidia-smi",
    "ip",
    "ibstat",
    "systemctl",
    "sudoedit",
];

/// The first command in a text, between backticks.
fn command_in(text: &str) -> Option<String> {
    let is_command = |span: &&str| span.split(' ').next().is_some_and(|word| PROGRAMS.contains(&word));
    text.split('`').skip(1).step_by(2).find(is_command).map(str::to_owned)
}

/// Gives the problems whose findings name no fix the fix of their check, or the command of their advice. Findings need
/// their final status for this.
pub(crate) fn add_fixes(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let is_problem = matches!(judged.finding.status, Status::Fail | Status::Warn);
        // A consequence is fixed with its cause.
        if judged.finding.fix.is_none() && judged.finding.cause.is_none() && is_problem {
            // What is permanent can only be avoided.
            let is_permanent = judged.finding.permanent;
            let suits = |fix: FixId| !is_permanent || fix == FixId::MoveModel;
            judged.finding.fix =
                BY_CHECK.iter().find(|(check, fix)| *check == judged.id && suits(*fix)).map(|(_, fix)| *fix);
            judged.finding.command = match judged.finding.fix {
                Some(fix) => Some(fix_command(fix.as_str(), path_of(ctx, judged))),
                None => judged.finding.advice.as_deref().and_then(command_in),
            };
        }
    }
}

/// The path that the command of a finding names.
fn path_of<'a>(ctx: &'a Context<'_>, judged: &Judged) -> Option<&'a Path> {
    match judged.scope {
        Scope::Path(path) | Scope::Pair(path, _) => path_to_name(ctx, path),
        Scope::Machine | Scope::Gpu(_) => path_to_name(ctx, 0),
    }
}

/// The command line of a fix.
pub(crate) fn fix_command(fix: &str, path: Option<&Path>) -> String {
    let command = format!("sudo {COMMAND}{fix}");
    match path {
        Some(path) => format!("{command} --path {}", quoted(&path.to_string_lossy())),
        None => command,
    }
}

/// A path by its number, unless it is the one that a fix examines without an option: the working directory.
pub(crate) fn path_to_name<'a>(ctx: &'a Context<'_>, path: usize) -> Option<&'a Path> {
    let path = ctx.subjects.get(path)?.path.as_path();
    let is_here = ctx.root.is_live() && std::env::current_dir().is_ok_and(|here| here == path);
    (!is_here).then_some(path)
}

/// Adds the path to each command of a text.
fn with_path(text: &str, path: &Path) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(COMMAND) {
        let begin = at + COMMAND.len();
        let tail = rest.get(begin..).unwrap_or_default();
        let length = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(tail.len());
        let (before, after) = rest.split_at(begin + length);
        out.push_str(before);
        if length > 0 && !after.starts_with(" --path") {
            out.push_str(&format!(" --path {}", quoted(&path.to_string_lossy())));
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_advice_is_its_first_code_that_is_a_command() {
        let text = "Mount it (`-v /data:/data`). Run `sudo modprobe nvidia-peermem`, or `gds-top check`.";
        assert_eq!(command_in(text).as_deref(), Some("sudo modprobe nvidia-peermem"));
        assert_eq!(command_in("Load `softdep nvidia_fs pre: nvidia`."), None);
    }

    #[test]
    fn commands_in_advice_name_the_examined_path_once() {
        let path = Path::new("/data/my models");
        assert_eq!(
            with_path("Run `sudo gds-top fix udev-record`. Or gds-top fix memlock --path /x, or nothing.", path),
            "Run `sudo gds-top fix udev-record --path '/data/my models'`. Or gds-top fix memlock --path /x, or nothing."
        );
        assert_eq!(fix_command("memlock", Some(path)), "sudo gds-top fix memlock --path '/data/my models'");
        assert_eq!(fix_command("memlock", None), "sudo gds-top fix memlock");
    }
}
