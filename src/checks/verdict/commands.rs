//! The advice of findings as text, and their command lines. Both name the examined path.

use crate::checks::advice::{Advice, Command, Examined, NamedConfig, Sudo, sudo_program};
use crate::checks::context::Context;
use crate::checks::cufile_json::{SYSTEM_FILE, is_of_user, named_file};
use crate::checks::image_host;
use crate::checks::judged::{Judged, Scope};
use crate::core::{CheckId, FindingFact, FixId, Needs, Status};
use crate::machine::Root;
use std::path::Path;

/// Renders the advice of each finding, and the command line of its fix.
pub(crate) fn complete(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let examined = examined_by(ctx, judged);
        judged.finding.advice = judged.advice.as_ref().map(|advice| advice.render(&examined));
        judged.finding.command = judged.finding.fix.map(|fix| Command::Fix(fix).line(&examined));
    }
}

/// Gives the problems whose findings name no fix the default fix of their check, or the command of their advice, and
/// removes the fixes of consequences. Findings need their final status for this.
pub(crate) fn add_fixes(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let is_problem = matches!(judged.finding.status, Status::Fail | Status::Warn);
        // A consequence is fixed with its cause. Until then its fix fails: modprobe cannot load a module that the kernel
        // rejects.
        if is_problem && judged.finding.cause.is_some() && judged.finding.fix.is_some() {
            judged.advice = None;
            judged.finding.advice = None;
            judged.finding.fix = None;
            judged.finding.command = None;
        } else if judged.finding.fix.is_none() && judged.finding.cause.is_none() && is_problem {
            // A permanent cause can only be avoided.
            let is_permanent = judged.finding.permanent;
            let fix = judged
                .id
                .spec()
                .default_fix()
                .filter(|_| !judged.by_hand)
                .filter(|fix| !is_permanent || *fix == FixId::MoveModel)
                .filter(|fix| !image_host::replaces(ctx, *fix));
            let command = match fix {
                Some(fix) => Some(Command::Fix(fix)),
                None => judged.advice.as_ref().and_then(Advice::first_command).cloned(),
            };
            judged.finding.fix = fix;
            judged.finding.command = command.map(|command| command.line(&examined_by(ctx, judged)));
        }
    }
}

/// The facts on which the commands of a finding depend.
fn examined_by<'a>(ctx: &'a Context<'_>, judged: &Judged) -> Examined<'a> {
    let is_system = |fact: &FindingFact| match fact {
        FindingFact::BrokenFile(file) | FindingFact::UnreadableFile(file) => file == SYSTEM_FILE,
        _ => false,
    };
    let examined = examined(ctx, path_of(judged));
    match examined.config {
        // Its advice removes the variable before the command.
        _ if judged.id == CheckId::CfgEnvPath => Examined { config: NamedConfig::None, ..examined },
        NamedConfig::OfUser if judged.finding.facts.iter().any(is_system) => {
            Examined { config: NamedConfig::OfSystem, ..examined }
        }
        _ => examined,
    }
}

/// The number of the path that the command of a finding names.
fn path_of(judged: &Judged) -> usize {
    match judged.scope {
        Scope::Path(path) | Scope::Pair(path, _) => path,
        Scope::Machine | Scope::Gpu(_) => 0,
    }
}

/// The facts on which the commands for a path depend. The working directory is examined without an option, so it is not
/// named.
pub(crate) fn examined<'a>(ctx: &'a Context<'_>, path: usize) -> Examined<'a> {
    let path = ctx.subjects.get(path).map(|subject| subject.path.as_path());
    let is_here = |path: &&Path| ctx.root.is_live() && std::env::current_dir().is_ok_and(|here| here == **path);
    let config = named_config(ctx.root);
    Examined {
        path: path.filter(|path| !is_here(path)),
        config,
        program: sudo_program(ctx.root),
        sudo: Sudo::of(ctx.root),
    }
}

fn named_config(root: &Root) -> NamedConfig {
    match named_file(root) {
        None => NamedConfig::None,
        Some(file) if is_of_user(&file) => NamedConfig::OfUser,
        Some(_) => NamedConfig::OfSystem,
    }
}

/// The command line of `gds-top fix` with these words after `fix`. On the live machine `live`, it names this program so
/// that sudo finds it.
#[must_use]
pub fn fix_line(live: Option<&Root>, path: Option<&Path>, words: &str, needs: Needs) -> String {
    let config = live.map_or(NamedConfig::None, named_config);
    Examined { path, config, program: live.and_then(sudo_program), sudo: live.map_or(Sudo::default(), Sudo::of) }
        .line(words, needs)
}
