//! Applying a fix, undoing it, and finishing or rolling back one that was interrupted.

use super::commands::quoted_line;
use super::files::{Found, missing_folders, remove_folders, spot};
use super::journal::{Before, CommandRun, CommandState, ENTRY_VERSION, Entry, Journal, Stage, Written};
use super::lock::{lock, tidy};
use super::resume::boot_id;
use super::{FixError, Place, merge};
use crate::domain::{Change, FixPlan, FixPolicy, Needs};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A step of the work. A hook is called before each, so that a test can cut the power there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The journal entry is about to be written.
    Journal,
    /// New content is about to be written beside the file.
    Stage,
    /// Half of it is written.
    Half,
    /// It is about to be put in the file's place.
    Commit,
    /// A command is about to be run.
    Command,
    /// The journal is about to say that all is done.
    Finish,
    /// A file is about to be restored.
    Restore,
    /// Folders that the fix made are about to be removed.
    Folders,
    /// The journal entry is about to be removed.
    Forget,
}

type Hook<'a> = &'a mut dyn FnMut(Step) -> bool;

/// Runs a command and says how it failed.
type Runner<'a> = &'a mut dyn FnMut(&[String]) -> Result<(), String>;

pub(super) fn step(hook: Hook<'_>, step: Step) -> Result<(), FixError> {
    if hook(step) { Ok(()) } else { Err(FixError::Stopped { step: format!("{step:?}") }) }
}

/// [`apply_with`] for plans whose commands are not to be run: one that has any fails on a running machine.
///
/// # Errors
/// As for [`apply_with`].
pub fn apply(plan: &FixPlan, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    apply_with(plan, place, hook, &mut |_| Err("commands are not run here".to_owned()))
}

/// Applies a plan to which the user consented: its files, then its commands. `hook` is asked before each step and stops the work, as a power cut
/// would, by answering false. In a folder that stands for a machine no command is run.
///
/// # Errors
/// When the plan is only shown, needs root, meets a changed file or a symbolic link, cannot be written, or a command fails. The files are then as
/// they were.
pub fn apply_with(plan: &FixPlan, place: &Place, hook: Hook<'_>, run: Runner<'_>) -> Result<(), FixError> {
    let id = &plan.id;
    let shown = |why: &str| FixError::OnlyShown { id: id.clone(), why: why.to_owned() };
    match plan.policy {
        FixPolicy::Ask => {}
        FixPolicy::Show => return Err(shown("too much can go wrong without somebody at the machine")),
        FixPolicy::Never => return Err(shown("what it can destroy is not worth an automatic step")),
    }
    if let Some(why) = &plan.obstacle {
        return Err(FixError::Obstacle { id: id.clone(), why: why.clone() });
    }
    if place.lacks_root(plan) {
        return Err(FixError::NeedsRoot { id: id.clone() });
    }
    let _lock = lock(place, true)?;
    let done = apply_locked(plan, place, hook, run);
    if done.is_err() {
        tidy(place);
    }
    done
}

fn apply_locked(plan: &FixPlan, place: &Place, hook: Hook<'_>, run: Runner<'_>) -> Result<(), FixError> {
    let id = &plan.id;
    let journal = Journal::at(&place.state);
    if let Some(entry) = journal.read(id)? {
        // To overwrite the entry of an interrupted fix would lose the text that was there before it.
        if entry.stage != Stage::Applied {
            return Err(FixError::Interrupted { id: id.clone() });
        }
        // An applied one whose files are gone (a tmpfs after a boot) is void.
        if entry.files.iter().any(|file| is_as_written(place, file)) {
            return Err(FixError::AlreadyApplied { id: id.clone() });
        }
    }
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    for change in &plan.changes {
        match change {
            Change::WriteFile { path, before, after, mode } => {
                let found = look(&place.root, path)?;
                unchanged(path, before.as_deref(), found.as_ref())?;
                files.push(Written {
                    path: path.clone(),
                    mode: found.as_ref().map_or(*mode, |found| found.mode),
                    before: found.map(|f| Before { text: f.text, mode: f.mode, uid: f.uid, gid: f.gid }),
                    after: after.clone(),
                    made_folders: missing_folders(&place.root, path)?,
                });
            }
            Change::Run { argv } => {
                let state = if place.is_live() { CommandState::Waiting } else { CommandState::Skipped };
                commands.push(CommandRun { argv: argv.clone(), state });
            }
        }
    }
    let mut entry = Entry {
        schema_version: ENTRY_VERSION,
        id: id.clone(),
        check: plan.check.clone(),
        title: plan.title.clone(),
        at_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        stage: Stage::Applying,
        files,
        commands,
        undo_commands: plan.undo_commands.clone(),
        remaining: plan.remaining.clone(),
        verify: plan.verify.clone(),
        waits_for_boot: plan.needs == Needs::Reboot,
        boot_id: boot_id(&place.root),
        needs: Some(plan.needs),
        risk: Some(plan.risk),
    };
    step(hook, Step::Journal)?;
    journal.write(&entry)?;
    let written = entry.files.iter().try_for_each(|file| write(place, file, hook));
    match written.and_then(|()| run_commands(&mut entry, &journal, hook, run)) {
        Ok(()) => {}
        // A power cut leaves everything as it is; the next fix that is applied or undone cleans up.
        Err(stopped @ FixError::Stopped { .. }) => return Err(stopped),
        Err(error) => {
            roll_back(place, &entry, &mut |_| true)?;
            journal.forget(id)?;
            return Err(taken_back(error, &entry, run));
        }
    }
    step(hook, Step::Finish)?;
    entry.stage = Stage::Applied;
    journal.write(&entry)
}

/// After the files of a fix are back whose command failed: the commands that make them effective, where one before it had succeeded, so that nothing stays
/// unmounted. Where the first one failed nothing was begun.
fn taken_back(error: FixError, entry: &Entry, run: Runner<'_>) -> FixError {
    let begun = entry.commands.iter().any(|c| c.state == CommandState::Done);
    let FixError::Command { id, command, what, mut then } = error else { return error };
    if begun {
        for argv in &entry.undo_commands {
            let line = quoted_line(argv);
            let done = run(argv).map_or_else(|what| format!("failed ({what})"), |()| "was run".to_owned());
            then.push_str(&format!("; to take it back {line} {done}"));
        }
    }
    FixError::Command { id, command, what, then }
}

fn run_commands(entry: &mut Entry, journal: &Journal, hook: Hook<'_>, run: Runner<'_>) -> Result<(), FixError> {
    for at in 0..entry.commands.len() {
        if entry.commands[at].state == CommandState::Skipped {
            continue;
        }
        step(hook, Step::Command)?;
        entry.commands[at].state = CommandState::Started;
        journal.write(entry)?;
        if let Err(what) = run(&entry.commands[at].argv) {
            let ran: Vec<String> = entry.commands[..at].iter().map(|c| quoted_line(&c.argv)).collect();
            let files = if entry.files.is_empty() { "no file was changed" } else { "the files are as they were" };
            let then =
                if ran.is_empty() { files.to_owned() } else { format!("{files}; run before it: {}", ran.join("; ")) };
            let command = quoted_line(&entry.commands[at].argv);
            return Err(FixError::Command { id: entry.id.clone(), command, what, then });
        }
        entry.commands[at].state = CommandState::Done;
        journal.write(entry)?;
    }
    Ok(())
}

/// What is to be known of a fix that was taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Files that others had changed, a sentence each.
    pub kept: Vec<String>,
    /// Commands that failed, a sentence each.
    pub failed: Vec<String>,
}

/// [`undo_with`] without running commands.
///
/// # Errors
/// As for [`undo_with`].
pub fn undo(id: &str, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    undo_with(id, place, hook, &mut |_| Err("commands are not run here".to_owned())).map(|_| ())
}

/// Takes an applied fix back: bytes, permission bits and owner as they were, or the file gone, and folders that it made gone as far as they are
/// empty. Of a file that somebody changed since only the lines of the fix are taken back. Then the commands that make it effective are run, on the machine
/// itself only.
///
/// # Errors
/// When the fix is not applied, changed nothing that can be restored, or a file was changed by somebody since so that its lines cannot be told; then
/// nothing is touched.
pub fn undo_with(id: &str, place: &Place, hook: Hook<'_>, run: Runner<'_>) -> Result<Undone, FixError> {
    let journal = Journal::at(&place.state);
    let none = || {
        let others = place.journals().into_iter().skip(1);
        if others.flat_map(|other| other.entries()).any(|entry| entry.id == id) {
            return FixError::AppliedByRoot { id: id.to_owned() };
        }
        FixError::NotApplied { id: id.to_owned(), journal: journal.folder().to_owned() }
    };
    let Some(_lock) = lock(place, false)? else { return Err(none()) };
    let Some(mut entry) = journal.read(id)? else { return Err(none()) };
    if entry.files.is_empty() && entry.undo_commands.is_empty() {
        // Known to the journal for its commands only: it need not be remembered once somebody asked.
        journal.forget(id)?;
        tidy(place);
        let how = entry.commands.iter().map(|c| quoted_line(&c.argv)).collect::<Vec<_>>().join("; ");
        return Err(FixError::UndoByHand { id: id.to_owned(), how: format!("it ran {how}") });
    }
    let mut undone = Undone::default();
    for file in &mut entry.files {
        let Some(found) = look(&place.root, &file.path)? else { continue };
        let before = file.before.as_ref().map(|b| b.text.as_str());
        // What was written, what stood there before, or nothing (a tmpfs after a boot) may be restored; anything else is somebody's work.
        if found.text == file.after || Some(found.text.as_str()) == before {
            continue;
        }
        let Some(text) = merge::without(&found.text, before, &file.after) else {
            return Err(FixError::ChangedSince { path: file.path.clone(), journal: journal.path(id) });
        };
        undone.kept.push(format!(
            "{} was changed by somebody since; {}",
            file.path.display(),
            if text == found.text {
                "none of the lines that the fix wrote is in it any more, so it stays as it is"
            } else {
                "only the lines of the fix were taken back, the rest stays as it is"
            }
        ));
        // From here on that is what it was, so that an undo which is interrupted goes on to the same end.
        file.before = Some(Before { text, mode: found.mode, uid: found.uid, gid: found.gid });
        file.after = found.text;
    }
    entry.stage = Stage::Undoing;
    step(hook, Step::Journal)?;
    journal.write(&entry)?;
    roll_back(place, &entry, hook)?;
    step(hook, Step::Forget)?;
    journal.forget(id)?;
    tidy(place);
    if place.is_live() {
        for argv in &entry.undo_commands {
            if let Err(what) = run(argv) {
                undone.failed.push(format!("{} failed: {what}; run it by hand", quoted_line(argv)));
            }
        }
    }
    Ok(undone)
}

fn look(root: &Path, path: &Path) -> Result<Option<Found>, FixError> {
    match spot(root, path, false)? {
        Some(spot) => spot.read(),
        None => Ok(None),
    }
}

pub(super) fn is_as_written(place: &Place, file: &Written) -> bool {
    matches!(look(&place.root, &file.path), Ok(Some(found)) if found.text == file.after)
}

fn unchanged(path: &Path, before: Option<&str>, found: Option<&Found>) -> Result<(), FixError> {
    let what = match (before, found) {
        (None, None) => return Ok(()),
        (Some(before), Some(found)) if before == found.text => return Ok(()),
        (None, Some(_)) => "it did not exist then",
        (Some(_), None) => "it is gone",
        _ => "its content is another",
    };
    Err(FixError::Changed { path: path.to_owned(), found: what.to_owned() })
}

fn write(place: &Place, file: &Written, hook: Hook<'_>) -> Result<(), FixError> {
    step(hook, Step::Stage)?;
    let Some(spot) = spot(&place.root, &file.path, true)? else {
        return Err(FixError::File { path: file.path.clone(), what: "its folder vanished".to_owned() });
    };
    let owner = file.before.as_ref().map(|before| (before.uid, before.gid));
    spot.stage(&file.after, file.mode, owner, &mut || step(hook, Step::Half))?;
    step(hook, Step::Commit)?;
    // Looked at once more, so that what came between the preview and now is not lost.
    let before = file.before.as_ref().map(|before| before.text.as_str());
    if let Err(error) = spot.read().and_then(|found| unchanged(&file.path, before, found.as_ref())) {
        spot.clear();
        return Err(error);
    }
    spot.commit()
}

/// Restores every file of an entry that is not what it was.
pub(super) fn roll_back(place: &Place, entry: &Entry, hook: Hook<'_>) -> Result<(), FixError> {
    for file in entry.files.iter().rev() {
        step(hook, Step::Restore)?;
        if let Some(spot) = spot(&place.root, &file.path, false)? {
            spot.clear();
            let now = spot.read()?;
            match (&file.before, now) {
                (None, Some(now)) if now.text == file.after => spot.remove()?,
                (Some(before), Some(now)) if now.text == file.after || is_worn(before, &now) => {
                    let owner = Some((before.uid, before.gid));
                    spot.stage(&before.text, before.mode, owner, &mut || step(hook, Step::Half))?;
                    spot.commit()?;
                }
                // As it was, gone, or somebody else's work: left alone.
                _ => {}
            }
        }
        step(hook, Step::Folders)?;
        remove_folders(&place.root, &file.made_folders);
    }
    Ok(())
}

/// Whether a file has its old text, but not its old permission bits or owner.
fn is_worn(before: &Before, now: &Found) -> bool {
    now.text == before.text && (now.mode, now.uid, now.gid) != (before.mode, before.uid, before.gid)
}
