//! `load A B --together`: each model alone, then all at the same time.

use super::args::{OutputArgs, RaceArgs};
use super::outcome::{BAD_CALL, fail};
use super::race::{baseline, config, export_plan, follow};

/// Runs it and tells it as one session.
pub(super) fn load(models: &[String], race: &RaceArgs, output: &OutputArgs) -> u8 {
    let [first, others @ ..] = models else { return fail(BAD_CALL, "name at least two models to load together") };
    if others.is_empty() {
        return fail(
            BAD_CALL,
            "--together loads several models at the same time; name at least two (the same one twice is two). One model over several GPUs needs no \
             --together: --gpu 0,1",
        );
    }
    let mut config = match config(race) {
        Ok(config) => config,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let baseline = match baseline(race) {
        Ok(baseline) => baseline,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    config.model = Some(first.clone());
    config.together_with = others.to_vec();
    config.checks = false;
    follow(config, output, export_plan(output), baseline.as_ref())
}
