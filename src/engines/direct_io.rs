//! Sets `max_direct_io_size_kb`: the longest transfer that libcufile passes to the kernel, and in compat mode also
//! the size that each registration pins.
//!
//! In compat mode, each registration of GPU memory allocates and pins a shadow buffer of that size, independent of
//! the registered size. Times of hot loads tensor by tensor on H200 machines (libcufile 1.15, medians of two or three
//! runs, every byte verified) with 16 MiB (the usual value), 4 MiB and 1 MiB: q06 660, 406 and 375 ms; q7b 1.90, 1.24
//! and 1.16 s. With NIXL: q06 1074, 563 and 384 ms; q7b 3.08 s (16 MiB) and 1.36 s (1 MiB).

use super::cufile::{CuFile, max_direct_io_kib};
use super::error::{LoadError, explain};
use super::settings::{AS_SET, Chosen};
use crate::core::{Engine, LaneOrder, Setting, units};
use cufile_ffi::Version;

/// The value in NVIDIA's /etc/cufile.json, and the default of libcufile 1.20 and later (before, it is 1024). So it is
/// not a choice of the user.
const USUAL_KIB: u64 = 16384;
/// The size for compat mode if each tensor is registered separately.
const COMPAT_KIB: u64 = 1024;

/// Finds the library and opens the driver with the settings of an order.
///
/// # Errors
/// The errors of [`CuFile::open_for`], and an error if the library does not accept the size that the order sets.
pub(crate) fn open_cufile(order: &LaneOrder) -> Result<CuFile, LoadError> {
    set(CuFile::open_for(order.libcufile.as_deref(), &order.target)?, order)
}

/// Sets the size that the order or the engine requests. If the library does not accept the engine's value, the value
/// is dropped.
fn set(opened: CuFile, order: &LaneOrder) -> Result<CuFile, LoadError> {
    let Some(wanted) = wanted(&opened, order) else { return Ok(opened) };
    let kib = wanted.value;
    let taken = opened.driver.library().set_max_direct_io_size(kib as usize);
    let mut opened = match taken {
        // 1.18 and 1.20 report success while the driver is open, but use the value only after the next open.
        Ok(()) if !holds(&opened, kib) => opened.read_again(|library| {
            // The result is read from the open driver below.
            let _ = library.set_max_direct_io_size(kib as usize);
        })?,
        _ => opened,
    };
    match taken {
        Ok(()) if holds(&opened, kib) => {
            opened.max_direct_io_bytes = Some(kib * units::KIB);
            opened.direct_io = Some(wanted);
        }
        _ if !order.settings.has(Setting::MaxDirectIoSizeKb) => {}
        Ok(()) => {
            let found = max_direct_io_kib(&opened.driver).map_or_else(|| "nothing".to_owned(), |kib| kib.to_string());
            return Err(LoadError::CuFile(format!(
                "setting {} to {kib} had no effect: libcufile still reports {found}; leave it out, or write it into cufile.json",
                Setting::MaxDirectIoSizeKb
            )));
        }
        Err(error) => return Err(explain(&format!("setting {} to {kib}", Setting::MaxDirectIoSizeKb), &error)),
    }
    Ok(opened)
}

/// Whether the open driver has this size. 1.15 applies it immediately, as the time of registrations on an H200 shows.
fn holds(opened: &CuFile, wanted: u64) -> bool {
    let at_once = opened.driver.library().version().is_some_and(|version| version < Version::new(1, 16));
    at_once || max_direct_io_kib(&opened.driver) == Some(wanted)
}

/// The size that the order sets, or the size with which the engine is faster than with the library's value.
fn wanted(opened: &CuFile, order: &LaneOrder) -> Option<Chosen> {
    if let Some(kib) = order.settings.get(Setting::MaxDirectIoSizeKb) {
        return Some(Chosen::fixed(Setting::MaxDirectIoSizeKb, kib, AS_SET));
    }
    // Any other value in cufile.json is the user's choice. Host memory needs no shadow buffers.
    let usual = opened.direct_io.as_ref().is_some_and(|reading| reading.value == USUAL_KIB);
    let compat = !opened.host_target && !opened.direct_possible;
    (order.engine == Engine::GdsPerTensor && compat && usual).then(|| {
        Chosen::fixed(Setting::MaxDirectIoSizeKb, COMPAT_KIB, "in compat mode each registration pins this much memory")
    })
}
