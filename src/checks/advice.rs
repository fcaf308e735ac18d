//! The advice of a finding: sentences, and the commands in them as data.

use crate::core::{Finding, FixId, Needs};
use crate::machine::packages::{Family, family, initramfs_command};
use crate::machine::{Root, container, nvme_has_single_paths};
use crate::text::{quoted, without_sudo};
use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

/// The words of a step that must be the last one.
pub(crate) const LAST: &str = " after all other steps";

/// A command in advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A command line of the shell.
    Shell(Cow<'static, str>),
    /// `gds-top fix`. A fix is planned for one path, so its command names the examined path.
    Fix(FixId),
}

/// The file that `CUFILE_ENV_PATH_JSON` names. `sudo` removes the variable, so a fix would edit another file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NamedConfig {
    /// The variable is not set.
    #[default]
    None,
    /// The user can edit the file, and the fix edits no other one.
    OfUser,
    /// Root can edit the file, or the fix also edits `/etc/cufile.json`.
    OfSystem,
}

/// Which commands have sudo. A root user without sudo cannot run a command with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sudo {
    /// All that need root.
    #[default]
    All,
    /// All but those of this program: in a container without sudo, other commands are for the host.
    OfHost,
    /// None.
    No,
}

impl Sudo {
    /// The commands with sudo for the user of this machine.
    pub(crate) fn of(root: &Root) -> Self {
        match (root.is_root_without_sudo(), container(root)) {
            (false, _) => Self::All,
            (true, Some(_)) => Self::OfHost,
            (true, None) => Self::No,
        }
    }

    /// A text with commands as this user can run them.
    pub(crate) fn adapt(self, text: String) -> String {
        if self == Self::No { without_sudo(&text) } else { text }
    }
}

/// The facts on which the command of a fix depends, in addition to the fix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Examined<'a> {
    /// The examined path, unless it is the working directory.
    pub path: Option<&'a Path>,
    /// The file that `CUFILE_ENV_PATH_JSON` names.
    pub config: NamedConfig,
    /// The path of this program, if sudo does not find its name.
    pub program: Option<&'static str>,
    /// Which commands have sudo.
    pub sudo: Sudo,
}

/// The path of this program if sudo does not find its name. `None` in a capture, which was made on another machine.
pub(crate) fn sudo_program(root: &Root) -> Option<&'static str> {
    static PROGRAM: OnceLock<Option<String>> = OnceLock::new();
    if !root.is_live() {
        return None;
    }
    let path = || {
        let program = std::env::current_exe().ok().filter(|path| path.exists() && !sudo_finds(path, family(root)))?;
        Some(quoted(program.to_str()?).into_owned())
    };
    PROGRAM.get_or_init(path).as_deref()
}

/// Whether a program is in a directory of sudo's usual `secure_path` (sudoers(5)), which the installers of Rust and Python do
/// not use. That of RHEL lacks /usr/local.
fn sudo_finds(program: &Path, family: Family) -> bool {
    match program.parent().and_then(Path::to_str) {
        Some("/usr/bin" | "/usr/sbin" | "/bin" | "/sbin") => true,
        Some("/usr/local/bin" | "/usr/local/sbin") => family != Family::RedHat,
        _ => false,
    }
}

impl Examined<'_> {
    /// The command line of a fix.
    fn fix(&self, id: FixId) -> String {
        let own_file = self.config == NamedConfig::OfUser && edits_config(id);
        self.line(id.as_str(), if own_file || id.only_shows() { Needs::User } else { Needs::Root })
    }

    /// The command line of a fix or of a group of fixes, by its name.
    pub(crate) fn line(&self, id: &str, needs: Needs) -> String {
        let path = self.path.map_or_else(String::new, |path| format!(" --path {}", quoted(&path.to_string_lossy())));
        let is_config = id == "nvidia-gds" || id.parse::<FixId>().is_ok_and(edits_config);
        let program = self.program.unwrap_or("gds-top");
        match needs {
            Needs::Root | Needs::Reboot if self.sudo != Sudo::All => format!("{program} fix {id}{path}"),
            Needs::Root | Needs::Reboot if is_config && self.config != NamedConfig::None => {
                format!("sudo --preserve-env=CUFILE_ENV_PATH_JSON {program} fix {id}{path}")
            }
            Needs::Root | Needs::Reboot => format!("{}{program} fix {id}{path}", needs.sudo()),
            Needs::User => format!("gds-top fix {id}{path}"),
        }
    }
}

/// Whether a fix edits cufile.json.
const fn edits_config(id: FixId) -> bool {
    matches!(id, FixId::CufileP2pdmaKeys | FixId::CufileConfig)
}

impl Command {
    /// The command line for the examined path.
    pub(crate) fn line(&self, examined: &Examined<'_>) -> String {
        match self {
            Self::Shell(line) => examined.sudo.adapt(line.to_string()),
            Self::Fix(id) => examined.fix(*id),
        }
    }
}

impl From<&'static str> for Command {
    fn from(line: &'static str) -> Self {
        Self::Shell(line.into())
    }
}

impl From<String> for Command {
    fn from(line: String) -> Self {
        Self::Shell(line.into())
    }
}

impl From<FixId> for Command {
    fn from(id: FixId) -> Self {
        Self::Fix(id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Cow<'static, str>),
    Command(Command),
}

/// The advice of a finding. It does not contain the command of the finding's fix, which is shown next to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    parts: Vec<Part>,
}

impl Advice {
    /// ``Run `command` ``. Further text and commands can follow.
    pub(crate) fn run(command: impl Into<Command>) -> Self {
        Self::default().text("Run ").command(command)
    }

    pub(crate) fn text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.parts.push(Part::Text(text));
        }
        self
    }

    pub(crate) fn command(mut self, command: impl Into<Command>) -> Self {
        self.parts.push(Part::Command(command.into()));
        self
    }

    /// A command line, and the command that writes the initramfs again after it. Text with the reboot must follow.
    pub(crate) fn command_and_initramfs(self, root: &Root, command: &str) -> Self {
        match initramfs_command(root) {
            Some(rebuild) => self.command(format!("{command} && {rebuild}")),
            None => self.command(command.to_owned()).text(", rebuild the initramfs"),
        }
    }

    /// How to add a line to a file of modprobe.d. Text with the reboot must follow.
    pub(crate) fn set_option(root: &Root, line: &str, file: &str) -> Self {
        let add = format!("echo '{line}' | sudo tee -a {file}");
        Self::default().text("Run ").command_and_initramfs(root, &add)
    }

    /// Adds other advice.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Whether one of its shell commands contains one of these words.
    pub(crate) fn has_command_with(&self, words: &[&str]) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Command(Command::Shell(line)) => words.iter().any(|word| line.contains(word)),
            Part::Command(Command::Fix(_)) | Part::Text(_) => false,
        })
    }

    /// The advice as text for another machine: its fixes are named without a path of this one.
    pub(crate) fn plain(&self) -> String {
        self.render(&Examined::default())
    }

    pub(crate) fn first_command(&self) -> Option<&Command> {
        self.parts.iter().find_map(|part| match part {
            Part::Command(command) => Some(command),
            Part::Text(_) => None,
        })
    }

    /// The advice as text, with its commands for the examined path. Text that ends with a command gets a full stop.
    pub(crate) fn render(&self, examined: &Examined<'_>) -> String {
        let mut out: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => examined.sudo.adapt(text.to_string()),
                Part::Command(command) => format!("`{}`", command.line(examined)),
            })
            .collect();
        if matches!(self.parts.last(), Some(Part::Command(_))) {
            out.push('.');
        }
        out
    }
}

/// The step that writes the initramfs again, with its command if that is known.
pub(crate) fn rebuild_initramfs(root: &Root) -> String {
    match initramfs_command(root) {
        Some(command) => format!("rebuild the initramfs (`{command}`)"),
        None => "rebuild the initramfs".to_owned(),
    }
}

/// The condition for disabling NVMe multipath.
pub(crate) const SINGLE_PATHS: &str = " `sudo nvme list-subsys` must show one path per subsystem.";

/// Whether the fix of a finding only shows commands, as the one for disks that can have several paths.
pub(crate) fn only_shows(finding: &Finding) -> bool {
    let needs_decision = finding.advice.as_ref().is_some_and(|advice| advice.contains(SINGLE_PATHS));
    finding.fix.is_some_and(|fix| fix.is_shown() || needs_decision)
}

/// The sentence with the command of a finding's fix. `None` without a command.
pub(crate) fn how_to_fix(finding: &Finding) -> Option<String> {
    let command = finding.command.as_ref()?;
    Some(if only_shows(finding) {
        format!("Run the commands that `{command}` shows.")
    } else {
        format!("Run `{command}`.")
    })
}

/// [`SINGLE_PATHS`], unless each disk is known to have one path.
pub(crate) fn for_single_paths(root: &Root) -> &'static str {
    if nvme_has_single_paths(root) { "" } else { SINGLE_PATHS }
}

impl From<&'static str> for Advice {
    fn from(text: &'static str) -> Self {
        Self::default().text(text)
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self::default().text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_of_fix_names_quoted_path() {
        let advice = Advice::run("sync").text(", then run ").command(FixId::Memlock);
        let path = Some(Path::new("/data/my models"));
        assert_eq!(
            advice.render(&Examined { path, ..Examined::default() }),
            "Run `sync`, then run `sudo gds-top fix memlock --path '/data/my models'`."
        );
        assert_eq!(advice.render(&Examined::default()), "Run `sync`, then run `sudo gds-top fix memlock`.");
        assert_eq!(advice.first_command(), Some(&Command::from("sync")));
    }

    #[test]
    fn command_of_fix_asks_for_root_only_if_the_fix_needs_it() {
        let line = |fix: FixId, config| Command::Fix(fix).line(&Examined { config, ..Examined::default() });
        assert_eq!(line(FixId::CufileP2pdmaKeys, NamedConfig::None), "sudo gds-top fix cufile-p2pdma-keys");
        assert_eq!(line(FixId::CufileP2pdmaKeys, NamedConfig::OfUser), "gds-top fix cufile-p2pdma-keys");
        assert_eq!(line(FixId::CufileConfig, NamedConfig::OfUser), "gds-top fix cufile-config");
        assert_eq!(
            line(FixId::CufileP2pdmaKeys, NamedConfig::OfSystem),
            "sudo --preserve-env=CUFILE_ENV_PATH_JSON gds-top fix cufile-p2pdma-keys"
        );
        assert_eq!(line(FixId::Memlock, NamedConfig::OfUser), "sudo gds-top fix memlock");
        assert_eq!(line(FixId::MoveModel, NamedConfig::None), "gds-top fix move-model");
    }

    #[test]
    fn root_without_sudo_gets_commands_without_it() {
        let advice = Advice::run("sudo sync && sudo reboot").text(", or `sudo x`; then run ").command(FixId::Memlock);
        let of = |sudo| advice.render(&Examined { sudo, ..Examined::default() });
        assert_eq!(of(Sudo::No), "Run `sync && reboot`, or `x`; then run `gds-top fix memlock`.");
        // The commands of a host keep it.
        assert_eq!(of(Sudo::OfHost), "Run `sudo sync && sudo reboot`, or `sudo x`; then run `gds-top fix memlock`.");
    }

    #[test]
    fn a_program_that_sudo_does_not_find_is_named_by_its_path() {
        for (path, family, is_found) in [
            ("/usr/bin/gds-top", Family::RedHat, true),
            ("/usr/local/bin/gds-top", Family::Debian, true),
            ("/usr/local/bin/gds-top", Family::RedHat, false),
            ("/home/me/.cargo/bin/gds-top", Family::Debian, false),
        ] {
            assert_eq!(sudo_finds(Path::new(path), family), is_found, "{path}");
        }
        let examined = Examined { program: Some("/home/me/.cargo/bin/gds-top"), ..Examined::default() };
        assert_eq!(examined.fix(FixId::Memlock), "sudo /home/me/.cargo/bin/gds-top fix memlock");
        assert_eq!(examined.fix(FixId::MoveModel), "gds-top fix move-model");
    }

    #[test]
    fn code_in_text_is_not_a_command() {
        let advice = Advice::from("Start it with `-v /data:/data`.");
        assert_eq!(advice.first_command(), None);
        assert_eq!(
            advice.render(&Examined { path: Some(Path::new("/data")), ..Examined::default() }),
            "Start it with `-v /data:/data`."
        );
    }
}
