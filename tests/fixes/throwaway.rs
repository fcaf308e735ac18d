//! A temporary root for the real program: a copy of a captured machine, or a plain tree. A fix can be stopped and
//! killed at any step.

use crate::copies::{Image, image};
use crate::machine::{copy, fixture};
use crate::program::gds_top;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// A temporary root.
pub(crate) struct Throwaway {
    pub(crate) folder: tempfile::TempDir,
}

impl Throwaway {
    /// A copy of a captured machine without the mark of a capture, because nothing is written into captures.
    pub(crate) fn captured(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&fixture(name), &folder.path().join("root"));
        fs::remove_file(folder.path().join("root/capture.json")).unwrap();
        Self { folder }
    }

    /// A plain tree, like a chroot.
    pub(crate) fn tree(release: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("root");
        for name in ["etc/modprobe.d", "etc/udev/rules.d", "proc/sys/kernel/random"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        fs::write(top.join("etc/os-release"), release).unwrap();
        fs::write(top.join("proc/sys/kernel/random/boot_id"), "first\n").unwrap();
        Self { folder }
    }

    pub(crate) fn top(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn files(&self) -> PathBuf {
        let files = self.top().join("files");
        if files.is_dir() { files } else { self.top() }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = gds_top();
        command.arg("fix").arg("--root").arg(self.top()).args(words);
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn fix(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs the program on a terminal. `answer` gives the answer to each question, which are counted from 0. Returns the
    /// exit status and the text on the terminal.
    pub(crate) fn on_terminal(&self, words: &[&str], mut answer: impl FnMut(usize) -> &'static str) -> (u32, String) {
        let pair = native_pty_system().openpty(PtySize { rows: 50, cols: 200, ..PtySize::default() }).unwrap();
        let mut command = CommandBuilder::new(crate::program::PROGRAM);
        command.args(["fix", "--root", self.top().to_str().unwrap()]);
        command.args(words);
        command.cwd(self.top());
        for name in crate::program::foreign_variables() {
            command.env_remove(name);
        }
        for (name, value) in crate::program::VARIABLES {
            command.env(name, value);
        }
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let (mut reader, mut writer) = (pair.master.try_clone_reader().unwrap(), pair.master.take_writer().unwrap());
        let (mut said, mut answered) = (Vec::new(), 0);
        let mut bytes = [0_u8; 4096];
        // Reading a terminal whose program has ended gives an error.
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            said.extend_from_slice(&bytes[..count]);
            while String::from_utf8_lossy(&said).matches("[y/N]").count() > answered {
                writer.write_all(format!("{}\n", answer(answered)).as_bytes()).unwrap();
                answered += 1;
            }
        }
        (child.wait().unwrap().exit_code(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Starts the program and waits until it stops before the step. `None` if it ended before.
    pub(crate) fn held_at(&self, step: u32, words: &[&str]) -> Option<(Child, BufReader<ChildStderr>)> {
        let mut command = self.command(words);
        command.env("GDS_TOP_FIX_HOLD_AT", step.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while said.read_line(&mut line).unwrap() > 0 {
            if line.starts_with("holding before step") {
                return Some((child, said));
            }
            line.clear();
        }
        child.wait().unwrap();
        None
    }

    /// Runs to the step and kills the program there. False if it ended before.
    pub(crate) fn killed_at(&self, step: u32, words: &[&str]) -> bool {
        let Some((mut child, _said)) = self.held_at(step, words) else { return false };
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        true
    }

    /// Resumes an interrupted fix and does nothing else, because the fix that it must undo is never applied.
    pub(crate) fn resume(&self) -> Output {
        let resumed = self.fix(RESUME);
        assert_eq!(resumed.status.code(), Some(3), "{}", err(&resumed));
        assert!(err(&resumed).contains("nothing to undo"), "{}", err(&resumed));
        resumed
    }

    pub(crate) fn image(&self) -> Image {
        image(&self.top())
    }

    /// The content by path, without the journal.
    pub(crate) fn outside_the_journal(&self) -> Image {
        let ours = |(path, ..): &(PathBuf, _, _)| !path.display().to_string().contains("/.gds-top");
        let below = |path: &Path| path.strip_prefix(self.top()).unwrap().to_owned();
        self.image().into_iter().filter(ours).map(|(path, mode, text)| (below(&path), mode, text)).collect()
    }

    pub(crate) fn reboot(&self) {
        let path = self.files().join("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "second\n").unwrap();
    }
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The arguments that resume an interrupted fix. The fix that they undo is never applied.
pub(crate) const RESUME: &[&str] = &["--undo", "kernel-p2pdma"];
pub(crate) const UBUNTU: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
