//! The times at which records were lost. Facts that such a record may have ended are not known afterwards.

/// The times in nanoseconds at which records of a process were lost last. 0 if none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// A registration of a file or memory.
    pub(super) registration_ns: u64,
    /// A release of a file or memory, or the end of the driver.
    pub(super) release_ns: u64,
    /// A submission or the end of transfers.
    pub(super) transfer_ns: u64,
}

/// The losses of a process, or of all processes if it is not known.
pub(super) type Lost = (Option<u32>, Losses);

impl Losses {
    /// Records of all kinds were lost.
    pub(super) const fn all(at_ns: u64) -> Self {
        Self { registration_ns: at_ns, release_ns: at_ns, transfer_ns: at_ns }
    }

    /// The later times of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            registration_ns: self.registration_ns.max(other.registration_ns),
            release_ns: self.release_ns.max(other.release_ns),
            transfer_ns: self.transfer_ns.max(other.transfer_ns),
        }
    }

    /// Only the losses after this time.
    pub(super) const fn after(self, at_ns: u64) -> Self {
        const fn later(of_ns: u64, at_ns: u64) -> u64 {
            if of_ns > at_ns { of_ns } else { 0 }
        }
        Self {
            registration_ns: later(self.registration_ns, at_ns),
            release_ns: later(self.release_ns, at_ns),
            transfer_ns: later(self.transfer_ns, at_ns),
        }
    }

    /// Whether a file or memory that was registered at this time may have been released since.
    pub(super) const fn may_release(self, since_ns: u64) -> bool {
        self.release_ns > 0 && since_ns <= self.release_ns
    }

    /// Whether a transfer that was submitted at this time may have ended since.
    pub(super) const fn may_end(self, since_ns: u64) -> bool {
        self.transfer_ns > 0 && since_ns <= self.transfer_ns
    }

    /// Whether memory without a known registration may be registered.
    pub(super) const fn may_have_registered(self) -> bool {
        self.registration_ns > 0 || self.release_ns > 0
    }
}
