//! The advice of a finding: sentences, and the commands in them as data.

use crate::core::FixId;
use crate::text::quoted;
use std::borrow::Cow;
use std::path::Path;

/// A command in advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A command line of the shell.
    Shell(Cow<'static, str>),
    /// `gds-top fix`. A fix is planned for one path, so its command names the examined path.
    Fix(FixId),
}

impl Command {
    /// The command line, for a path unless it is the working directory.
    pub(crate) fn line(&self, path: Option<&Path>) -> String {
        match self {
            Self::Shell(line) => line.to_string(),
            Self::Fix(id) => fix_line(id.as_str(), path),
        }
    }
}

/// The command line of a fix, or of a group of fixes.
pub(crate) fn fix_line(id: &str, path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("sudo gds-top fix {id} --path {}", quoted(&path.to_string_lossy())),
        None => format!("sudo gds-top fix {id}"),
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

    pub(crate) fn first_command(&self) -> Option<&Command> {
        self.parts.iter().find_map(|part| match part {
            Part::Command(command) => Some(command),
            Part::Text(_) => None,
        })
    }

    /// The advice as text, with its commands for a path. Text that ends with a command gets a full stop.
    pub(crate) fn render(&self, path: Option<&Path>) -> String {
        let mut out: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Command(command) => format!("`{}`", command.line(path)).into(),
            })
            .collect();
        if matches!(self.parts.last(), Some(Part::Command(_))) {
            out.push('.');
        }
        out
    }
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
        let path = Path::new("/data/my models");
        assert_eq!(
            advice.render(Some(path)),
            "Run `sync`, then run `sudo gds-top fix memlock --path '/data/my models'`."
        );
        assert_eq!(advice.render(None), "Run `sync`, then run `sudo gds-top fix memlock`.");
        assert_eq!(advice.first_command(), Some(&Command::from("sync")));
    }

    #[test]
    fn code_in_text_is_not_a_command() {
        let advice = Advice::from("Start it with `-v /data:/data`.");
        assert_eq!(advice.first_command(), None);
        assert_eq!(advice.render(Some(Path::new("/data"))), "Start it with `-v /data:/data`.");
    }
}
