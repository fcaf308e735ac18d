//! Explains from cufile.log why a run failed or did not use a direct route.

use super::bus::Bus;
use super::follow::matters;
use super::process::LaneEnd;
use crate::checks::log_signatures::{Explained, explain_cufile};
use crate::core::{LogLevel, Status, Target};
use crate::trust::open_regular;
use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Number of bytes that are read from the end of the log.
const TAIL_BYTES: u64 = 256 << 10;
/// Maximum number of causes for one run.
const MOST: usize = 3;

/// Reports the causes in the log or in the run's last output. Causes that were reported during the run are not
/// repeated.
pub(super) fn after_lane(bus: &Bus, target: &Target, end: &LaneEnd, log: &Path, said: &BTreeSet<String>) {
    let (least, words) = match end {
        LaneEnd::Died(words) => (Status::Warn, words.as_str()),
        LaneEnd::Finished { failed: true, .. } => (Status::Warn, ""),
        // The run worked, but without a direct route. Only causes that block the direct route are relevant.
        LaneEnd::Finished { route: Some(counts), .. } if !counts.route.is_direct() => (Status::Fail, ""),
        LaneEnd::Finished { .. } | LaneEnd::Cancelled => return,
    };
    let causes = causes(&format!("{}\n{words}", tail(log)), least);
    for cause in causes.iter().filter(|cause| !said.contains(&cause.meaning) && matters(cause, target)) {
        bus.say(LogLevel::Warn, format!("cufile.log explains it: {} ('{}')", cause.sentence(), cause.line));
    }
}

fn causes(text: &str, least: Status) -> Vec<Explained> {
    let mut causes = explain_cufile(text);
    causes.retain(|cause| cause.status >= least && cause.status != Status::Na);
    causes.truncate(MOST);
    causes
}

/// The end of the log; empty if there is no log.
fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = open_regular(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_log_is_enough() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = format!("{}\n", "x".repeat(99)).repeat(6_000);
        text.push_str(
            "ERROR cufio-udev:85 udev property not found: ID_FS_USAGE vda\nNOTICE running in compatible mode\n",
        );
        std::fs::write(file.path(), text).unwrap();
        let said = causes(&tail(file.path()), Status::Warn);
        assert_eq!(said.len(), 2);
        assert!(said[0].sentence().contains("udev"));
        assert_eq!(causes(&tail(file.path()), Status::Fail).len(), 1);
        assert!(causes(&tail(Path::new("/nonexistent")), Status::Warn).is_empty());
    }
}
