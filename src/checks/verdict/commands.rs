//! The advice of findings as text, and their command lines. Both name the examined path.

use crate::checks::advice::{Advice, Command};
use crate::checks::context::Context;
use crate::checks::image_host;
use crate::checks::judged::{Judged, Scope};
use crate::core::{FixId, Status};
use std::path::Path;

/// Renders the advice of each finding, and the command line of its fix.
pub(crate) fn complete(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let path = path_of(ctx, judged);
        judged.finding.advice = judged.advice.as_ref().map(|advice| advice.render(path));
        judged.finding.command = judged.finding.fix.map(|fix| Command::Fix(fix).line(path));
    }
}

/// Gives the problems whose findings name no fix the default fix of their check, or the command of their advice.
/// Findings need their final status for this.
pub(crate) fn add_fixes(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let is_problem = matches!(judged.finding.status, Status::Fail | Status::Warn);
        // A consequence is fixed with its cause.
        if judged.finding.fix.is_none() && judged.finding.cause.is_none() && is_problem {
            // What is permanent can only be avoided.
            let is_permanent = judged.finding.permanent;
            let fix = judged
                .id
                .spec()
                .default_fix()
                .filter(|fix| !is_permanent || *fix == FixId::MoveModel)
                .filter(|fix| !image_host::replaces(ctx, *fix));
            let command = match fix {
                Some(fix) => Some(Command::Fix(fix)),
                None => judged.advice.as_ref().and_then(Advice::first_command).cloned(),
            };
            judged.finding.fix = fix;
            judged.finding.command = command.map(|command| command.line(path_of(ctx, judged)));
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

/// A path by its number, unless it is the one that a fix examines without an option: the working directory.
pub(crate) fn path_to_name<'a>(ctx: &'a Context<'_>, path: usize) -> Option<&'a Path> {
    let path = ctx.subjects.get(path)?.path.as_path();
    let is_here = ctx.root.is_live() && std::env::current_dir().is_ok_and(|here| here == path);
    (!is_here).then_some(path)
}
