//! The limits under which a process is examined. A process can have any number of mappings and descriptors, with long
//! paths.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

/// The bytes that are read between two looks at the clock.
const PART_BYTES: u64 = 256 << 10;

/// The beginning of a file.
#[derive(Debug)]
pub struct Beginning {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the file has more.
    pub is_cut: bool,
}

/// The time, bytes, paths and descriptors that are left for an examination.
#[derive(Clone, Debug)]
pub struct Allowance {
    pub(super) until: Option<Instant>,
    pub(super) bytes: u64,
    pub(super) path_bytes: usize,
    pub(super) descriptors: usize,
    /// Whether the result is incomplete because of a limit.
    pub(super) is_exceeded: bool,
}

impl Allowance {
    /// No limit, for processes of the own user.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { until: None, bytes: u64::MAX, path_bytes: usize::MAX, descriptors: usize::MAX, is_exceeded: false }
    }

    /// Whether time is left. The caller can continue later.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// Whether the examination can go on. If not, its result is not used.
    pub fn may_go_on(&mut self) -> bool {
        self.is_exceeded |= self.bytes == 0 || !self.has_time();
        !self.is_exceeded
    }

    /// Whether another descriptor can be examined. If not, the result is not used.
    pub fn descriptor(&mut self) -> bool {
        self.is_exceeded |= self.descriptors == 0;
        self.descriptors = self.descriptors.saturating_sub(1);
        self.may_go_on()
    }

    /// Whether another path can be kept. If not, the list of paths is incomplete.
    pub fn path(&mut self, path: &str) -> bool {
        let left = self.path_bytes.checked_sub(path.len());
        self.path_bytes = left.unwrap_or(self.path_bytes);
        left.is_some()
    }

    /// Reads the beginning of a file of procfs.
    ///
    /// # Errors
    /// Fails if the file cannot be read: the process has ended, the permission is missing, or a limit is reached.
    pub fn beginning(&mut self, file: &Path, limit: u64) -> io::Result<Beginning> {
        let mut bytes = Vec::new();
        let mut file = File::open(file)?;
        loop {
            if !self.may_go_on() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the limit of an examination is reached"));
            }
            let wanted = (limit + 1).saturating_sub(bytes.len() as u64).min(PART_BYTES);
            let read = Read::by_ref(&mut file).take(wanted).read_to_end(&mut bytes)? as u64;
            self.bytes = self.bytes.saturating_sub(read);
            if read < wanted || wanted == 0 {
                break;
            }
        }
        let is_cut = bytes.len() as u64 > limit;
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(Beginning { bytes, is_cut })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reading_ends_at_each_limit() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("maps");
        File::create(&file).unwrap().set_len(4 * PART_BYTES).unwrap();
        let read = |allowance: &mut Allowance| allowance.beginning(&file, u64::MAX / 2).map(|seen| seen.bytes.len());
        let all = Allowance::unlimited();
        assert_eq!(read(&mut all.clone()).unwrap() as u64, 4 * PART_BYTES);
        let mut few = Allowance { bytes: 2 * PART_BYTES, ..all.clone() };
        assert!(read(&mut few).is_err() && few.is_exceeded && few.bytes == 0);
        let ago = Instant::now().checked_sub(Duration::from_millis(1));
        let mut late = Allowance { until: ago, ..all.clone() };
        assert!(ago.is_none() || (read(&mut late).is_err() && late.is_exceeded));
        let mut one = Allowance { descriptors: 1, path_bytes: 3, ..all };
        assert!(one.descriptor() && one.path("ab") && !one.path("ab") && !one.is_exceeded);
        assert!(!one.descriptor() && one.is_exceeded);
    }
}
