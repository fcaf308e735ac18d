//! Opens the files of a run, for cuFile or for plain reads and writes. It also removes the files that a failed run
//! left.

use super::params::KvSetting;
use super::shared::{OpenFile, Refused, Shared};
use super::store::{self, failed};
use crate::core::{FallbackReason, Phase};
use crate::engines::{LoadError, Recorder, What, explain};
use crate::trust::shown;
use cufile_ffi::FileHandle;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Opens a file, and registers it if cuFile will use it.
pub(super) fn open_file(shared: &Shared<'_>, rec: &mut Recorder, file: u32, cufile: bool) -> Result<OpenFile, Refused> {
    let refused = |reason, error| Refused { reason, error };
    let gone = || refused(FallbackReason::OperationFailed, LoadError::Stopped);
    let of = shared.layout.files.get(file as usize).ok_or_else(gone)?;
    let path = if shared.lane.write { &of.temporary } else { &of.path };
    let direct = shared.settings.on(if cufile { KvSetting::Odirect } else { KvSetting::PlainOdirect });
    let mut flags = OFlags::CLOEXEC;
    flags |= if shared.lane.write { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
    if direct {
        flags |= OFlags::DIRECT;
    }
    let mut at = rec.now();
    let provoked = cufile && shared.order.provoke == Some(FallbackReason::NoOdirect);
    let opened = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)) {
        Ok(_) if provoked => {
            let said = "provoked: the file system was treated as if it did not support O_DIRECT".to_owned();
            return Err(refused(FallbackReason::NoOdirect, LoadError::CuFile(said)));
        }
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::INVAL) if direct => {
            let setting = if cufile { KvSetting::Odirect } else { KvSetting::PlainOdirect };
            let error = LoadError::CuFile(format!(
                "{} cannot be opened with O_DIRECT: its file system does not support direct I/O; use a directory on ext4 or xfs, or --set {setting}=0",
                shown(path).display()
            ));
            return Err(refused(FallbackReason::NoOdirect, error));
        }
        Err(errno) => {
            return Err(refused(FallbackReason::OperationFailed, failed("opening", path, errno.into())));
        }
    };
    at = rec.end(Phase::Open, at, What::SETUP);
    if !cufile {
        return Ok(OpenFile::Plain(opened));
    }
    let Some(cufile) = shared.context.cufile else { return Err(gone()) };
    let handle = FileHandle::register(&cufile.driver, opened).map_err(|error| {
        let doing = format!("registering {} with cuFile", shown(path).display());
        refused(FallbackReason::OperationFailed, explain(&doing, &error))
    })?;
    shared.handle_registrations.fetch_add(1, Ordering::Relaxed);
    rec.end(Phase::RegisterHandle, at, What::SETUP);
    Ok(OpenFile::Gds(Arc::new(handle)))
}

/// Removes the incomplete files of a failed run.
pub(super) fn tidy(shared: &Shared<'_>) {
    if shared.lane.write {
        drop(shared.handles.cleanup());
        store::remove_partial(shared.layout);
    }
}
