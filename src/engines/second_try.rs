//! Repeats single cuFile reads that failed with `pread` and a copy. These reads are counted and reported.

use super::error::{LoadError, explain};
use super::files;
use crate::core::{Made, Note};
use crate::device::DeviceMemory;
use cufile_ffi::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The repeated reads of a load.
#[derive(Debug)]
pub(super) struct SecondTries {
    /// The number of all reads of the load, and their bytes.
    reads: usize,
    bytes: u64,
    failed: AtomicUsize,
    repeated_bytes: AtomicU64,
    first_failure: Mutex<Option<String>>,
}

/// The position of missing bytes in the file and on the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing<'a> {
    /// The purpose of the read, for the error message.
    pub(super) what: &'a str,
    pub(super) path: &'a Path,
    pub(super) file_offset: u64,
    pub(super) target_offset: u64,
    pub(super) bytes: u64,
}

impl SecondTries {
    pub(super) fn new(reads: usize, bytes: u64) -> Self {
        let (failed, repeated_bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { reads, bytes, failed, repeated_bytes, first_failure: Mutex::new(None) }
    }

    /// The reads that cuFile made. A read that moved only a part was continued with another one.
    pub(super) fn made(&self) -> Made {
        let bytes = self.bytes.saturating_sub(self.repeated_bytes.load(Ordering::Relaxed));
        let repeated = self.repeated();
        Made { repeated, ..Made::at_least((self.reads as u64).saturating_sub(repeated), bytes) }
    }

    /// Reads the missing bytes with `pread` and copies them to the target. At most an eighth of all reads are
    /// repeated. With more, the load would not measure cuFile any more, and the error is returned.
    pub(super) fn read(&self, missing: &Missing<'_>, memory: &DeviceMemory, error: &Error) -> Result<(), LoadError> {
        let explained = explain(&format!("reading {}", missing.what), error);
        let most = if self.reads > 1 { (self.reads / 8).max(1) } else { 0 };
        if self.failed.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(explained);
        }
        self.first_failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| explained.to_string());
        self.repeated_bytes.fetch_add(missing.bytes, Ordering::Relaxed);
        let length = missing.bytes as usize;
        let mut bytes = vec![0; length];
        let again = files::open_shard(missing.path, false)
            .and_then(|file| files::read_block(&file, missing.path, &mut bytes, missing.file_offset, length));
        match again {
            Ok(()) => Ok(memory.write_pageable(missing.target_offset, &bytes)?),
            Err(short @ LoadError::Short { .. }) => Err(short),
            Err(second) => Err(LoadError::CuFile(format!("{explained}; the second try failed too: {second}"))),
        }
    }

    /// The number of repeated reads.
    pub(super) fn repeated(&self) -> u64 {
        self.failed.load(Ordering::Relaxed) as u64
    }

    /// The note about the repeated reads. `None` if there were none.
    pub(super) fn note(&self) -> Option<Note> {
        let first_error = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Note::RepeatedReads { repeated: self.repeated(), reads: self.reads as u64, first_error })
    }
}
