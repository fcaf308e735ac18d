//! Applies a fix: writes the journal, then runs the commands before the first file, writes the files and runs the other
//! commands. If a step fails, all changes are undone.

use super::editable::may_edit;
use super::error::FixError;
use super::files::{Found, has_text, look, missing_folders, spot};
use super::journal::{Before, CommandRun, CommandState, ENTRY_VERSION, Entry, Journal, Stage, Written};
use super::lock::lock;
use super::place::Place;
use super::resume::boot_id;
use super::rollback::roll_back;
use super::step::{Hook, Runner, Step, step};
use crate::core::{Change, FixPlan, FixPolicy, Needs};
use crate::text::quoted_line;
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The state of the files if an error occurs before the first change.
const NOTHING: &str = "no file was changed";

/// Applies a plan without commands, see [`apply_with`]. On a running machine, a plan with commands fails.
///
/// # Errors
/// The same as [`apply_with`].
pub fn apply(plan: &FixPlan, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    apply_with(plan, place, hook, &mut |_| Err("commands are not run here".to_owned()))
}

/// Applies a plan to which the user consented: the commands before its first file, its files, then its other commands.
/// `hook` is called before each step. If it returns false, the work stops at this step, as after a power failure. Below
/// `--root`, no command is run.
///
/// # Errors
/// If the plan can only be shown, needs root, finds a changed file or a symbolic link, cannot be written, or if a
/// command fails. The files are then restored.
pub fn apply_with(plan: &FixPlan, place: &Place, hook: Hook<'_>, run: Runner<'_>) -> Result<(), FixError> {
    let id = plan.id;
    let shown = |why: &str| FixError::OnlyShown { id, why: why.to_owned() };
    match plan.policy {
        FixPolicy::Ask => {}
        FixPolicy::Show => {
            return Err(shown(
                "if it fails, the machine needs repair at its console; 'gds-top fix nvidia-gds' applies it with the other steps",
            ));
        }
        FixPolicy::Never => return Err(shown("it can destroy data")),
    }
    if let Some(why) = &plan.obstacle {
        return Err(FixError::Obstacle { id, why: why.clone() });
    }
    if place.lacks_root(plan) {
        return Err(FixError::NeedsRoot { id, command: place.command(id.as_str(), None, plan.needs) });
    }
    place.writable()?;
    for change in &plan.changes {
        if let Change::WriteFile { path, .. } = change
            && !may_edit(id, path)
        {
            let what = format!("{id} may not edit this file; no file was changed");
            return Err(FixError::File { path: path.clone(), what });
        }
    }
    let journal = Journal::make(place)?;
    let _lock = lock(&journal)?;
    journal.sweep();
    let done = apply_locked(plan, place, &journal, hook, run);
    if done.is_err() {
        journal.tidy(place);
    }
    done
}

fn apply_locked(
    plan: &FixPlan,
    place: &Place,
    journal: &Journal,
    hook: Hook<'_>,
    run: Runner<'_>,
) -> Result<(), FixError> {
    let mut entry = prepare(plan, place, journal).map_err(|e| e.with(NOTHING.to_owned()))?;
    step(hook, Step::Journal)?;
    journal.write(&entry).map_err(|e| e.with(NOTHING.to_owned()))?;
    // A command before the first file can be a test without which the file must not be written.
    let files = entry.commands_before_files;
    let commands = entry.commands.len();
    let done = run_commands(&mut entry, 0..files, journal, hook, run)
        .and_then(|()| write_all(place, &entry, hook))
        .and_then(|()| run_commands(&mut entry, files..commands, journal, hook, run));
    let done = done.and_then(|()| {
        step(hook, Step::Finish)?;
        journal.write(&Entry { stage: Stage::Applied, ..entry.clone() })
    });
    match done {
        // After a signal or a power failure nothing is undone here. The next fix recovers.
        Ok(()) | Err(FixError::Stopped { .. }) => done,
        Err(error) => Err(take_back(error, &entry, place, journal, run)),
    }
}

/// Reads the files again and creates the journal entry of the plan.
fn prepare(plan: &FixPlan, place: &Place, journal: &Journal) -> Result<Entry, FixError> {
    let id = plan.id;
    let root = place.open_root()?;
    if let Some(entry) = journal.read(id)? {
        // If the entry of an interrupted fix were overwritten, the original text would be lost.
        if entry.stage != Stage::Applied {
            return Err(FixError::Interrupted { id, command: place.again(id.as_str(), None) });
        }
        // If the files of an applied fix no longer exist, for example in a tmpfs after a reboot, its entry is
        // obsolete.
        if entry.files.iter().any(|file| has_text(&root, &file.path, &file.after)) {
            return Err(FixError::AlreadyApplied { id, command: place.again(&format!("--undo {id}"), None) });
        }
    }
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    let is_file = |change: &Change| matches!(change, Change::WriteFile { .. });
    for change in &plan.changes {
        match change {
            Change::WriteFile { path, before, after, mode } => {
                let found = look(&root, path)?;
                unchanged(path, before.as_deref(), found.as_ref())?;
                files.push(Written {
                    path: path.clone(),
                    mode: found.as_ref().map_or(*mode, |found| found.mode),
                    before: found.map(|f| Before { text: f.text, mode: f.mode, uid: f.uid, gid: f.gid }),
                    after: after.clone(),
                    made_folders: missing_folders(&root, path)?,
                });
            }
            Change::Run { argv } => {
                let state = if place.is_live() { CommandState::Waiting } else { CommandState::Skipped };
                commands.push(CommandRun { argv: argv.clone(), state });
            }
        }
    }
    Ok(Entry {
        schema_version: ENTRY_VERSION,
        id,
        check: plan.check,
        title: plan.title.clone(),
        at_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        sequence: journal.entries().iter().map(|entry| entry.sequence).max().unwrap_or(0) + 1,
        stage: Stage::Applying,
        files,
        commands,
        commands_before_files: plan.changes.iter().position(is_file).unwrap_or(0),
        undo_commands: plan.undo_commands.clone(),
        remaining: plan.remaining.clone(),
        verify: plan.verify.clone(),
        waits_for_boot: plan.needs == Needs::Reboot,
        boot_id: boot_id(&root),
        needs: Some(plan.needs),
        risk: Some(plan.risk),
    })
}

/// Undoes all changes after a failed step, and reports the restored files and the commands that were run. The undo
/// commands are run if a command after the files was begun, or in a plan without files if one succeeded.
fn take_back(error: FixError, entry: &Entry, place: &Place, journal: &Journal, run: Runner<'_>) -> FixError {
    let id = entry.id;
    let (back, ended) = roll_back(place, entry, &mut |_| true);
    let mut then = match ended {
        Ok(()) => match journal.forget(id) {
            Ok(()) => back.to_string(),
            Err(stays) => format!("{back}; {stays}"),
        },
        Err(why) => {
            let again = place.again(id.as_str(), None);
            format!("{back}; {why}; the journal keeps the fix: run {again} to resume it")
        }
    };
    let ran: Vec<String> = entry
        .commands
        .iter()
        .filter(|command| command.state == CommandState::Done)
        .map(|command| quoted_line(&command.argv))
        .collect();
    if !ran.is_empty() {
        then.push_str(&format!("; run before it: {}", ran.join("; ")));
    }
    if entry.needs_undo_commands() && !(entry.files.is_empty() && ran.is_empty()) {
        for argv in &entry.undo_commands {
            let line = quoted_line(argv);
            let done = run(argv).map_or_else(|what| format!("failed ({what})"), |()| "was run".to_owned());
            then.push_str(&format!("; to undo it {line} {done}"));
        }
    }
    error.with(then)
}

fn run_commands(
    entry: &mut Entry,
    range: Range<usize>,
    journal: &Journal,
    hook: Hook<'_>,
    run: Runner<'_>,
) -> Result<(), FixError> {
    for at in range {
        if entry.commands[at].state == CommandState::Skipped {
            continue;
        }
        step(hook, Step::Command)?;
        entry.commands[at].state = CommandState::Started;
        journal.write(entry)?;
        if let Err(what) = run(&entry.commands[at].argv) {
            let command = quoted_line(&entry.commands[at].argv);
            return Err(FixError::Command { id: entry.id, command, what });
        }
        entry.commands[at].state = CommandState::Done;
        journal.write(entry)?;
    }
    Ok(())
}

fn unchanged(path: &Path, before: Option<&str>, found: Option<&Found>) -> Result<(), FixError> {
    let what = match (before, found) {
        (None, None) => return Ok(()),
        (Some(before), Some(found)) if before == found.text => return Ok(()),
        (None, Some(_)) => "it did not exist at the preview",
        (Some(_), None) => "it no longer exists",
        _ => "its content differs",
    };
    Err(FixError::Changed { path: path.to_owned(), found: what.to_owned() })
}

fn write_all(place: &Place, entry: &Entry, hook: Hook<'_>) -> Result<(), FixError> {
    let root = place.open_root()?;
    entry.files.iter().try_for_each(|file| write(&root, file, hook))
}

fn write(root: &OwnedFd, file: &Written, hook: Hook<'_>) -> Result<(), FixError> {
    step(hook, Step::Stage)?;
    let Some(spot) = spot(root, &file.path, true)? else {
        return Err(FixError::File { path: file.path.clone(), what: "its directory no longer exists".to_owned() });
    };
    let owner = file.before.as_ref().map(|before| (before.uid, before.gid));
    spot.stage(&file.after, file.mode, owner, &mut || step(hook, Step::Half))?;
    step(hook, Step::Commit)?;
    // The file is read again, so that changes since the preview are not overwritten.
    let before = file.before.as_ref().map(|before| before.text.as_str());
    if let Err(error) = spot.read().and_then(|found| unchanged(&file.path, before, found.as_ref())) {
        spot.clear();
        return Err(error);
    }
    spot.commit()
}
