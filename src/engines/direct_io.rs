//! The longest transfer that libcufile passes to the kernel at once (`max_direct_io_size_kb`), which is also the size
//! that a registration pins in compat mode.
//!
//! There each registration of GPU memory allocates and pins a shadow buffer of that size, whatever is registered. Hot loads tensor by tensor on H200s
//! (libcufile 1.15, medians of two or three, every byte compared), with the 16 MiB that are usual, with 4 and with 1: q06 660, 406 and 375 ms, q7b 1.90,
//! 1.24 and 1.16 s; NIXL q06 1074, 563 and 384 ms, q7b 3.08 (16) and 1.36 s (1).

use super::cufile::{CuFile, max_direct_io_kib};
use super::error::{LoadError, explain};
use super::settings::{AS_SET, Chosen};
use crate::core::{Engine, LaneOrder, Setting, units};
use cufile_ffi::Version;

/// The value in NVIDIA's /etc/cufile.json, and the default of libcufile from 1.20 on (up to 1.18 it is 1024), so it
/// is not a choice of the user.
const USUAL_KIB: u64 = 16384;
/// The size for compat mode if each tensor is registered.
const COMPAT_KIB: u64 = 1024;

/// Finds the library and opens the driver with the settings of an order.
///
/// # Errors
/// As [`CuFile::open_for`]; if the order sets a size that the library does not accept.
pub(crate) fn open_cufile(order: &LaneOrder) -> Result<CuFile, LoadError> {
    set(CuFile::open_for(order.libcufile.as_deref(), &order.target)?, order)
}

/// The driver with the size of the order or the engine. The engine's preference is dropped if the library does not
/// accept it.
fn set(opened: CuFile, order: &LaneOrder) -> Result<CuFile, LoadError> {
    let Some(wanted) = wanted(&opened, order) else { return Ok(opened) };
    let kib = wanted.value;
    let taken = opened.driver.library().set_max_direct_io_size(kib as usize);
    let mut opened = match taken {
        // 1.18 and 1.20 report success while the driver is open, but the value takes effect at the next open.
        Ok(()) if !holds(&opened, kib) => opened.anew(|library| {
            // The effect is read from the open driver below.
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

/// Whether the open driver has that size. 1.15 applies it at once (the time of registrations on an H200 shows it).
fn holds(opened: &CuFile, wanted: u64) -> bool {
    let at_once = opened.driver.library().version().is_some_and(|version| version < Version::new(1, 16));
    at_once || max_direct_io_kib(&opened.driver) == Some(wanted)
}

/// The size that the order names, or one with which the engine is faster than with the library's.
fn wanted(opened: &CuFile, order: &LaneOrder) -> Option<Chosen> {
    if let Some(kib) = order.settings.get(Setting::MaxDirectIoSizeKb) {
        return Some(Chosen::fixed(Setting::MaxDirectIoSizeKb, kib, AS_SET));
    }
    // Another value in cufile.json is the user's choice. Host memory needs no shadow.
    let usual = opened.direct_io.as_ref().is_some_and(|told| told.value == USUAL_KIB);
    let compat = !opened.host_target && !opened.direct_possible;
    (order.engine == Engine::GdsPerTensor && compat && usual).then(|| {
        Chosen::fixed(
            Setting::MaxDirectIoSizeKb,
            COMPAT_KIB,
            "in compat mode each registration pins as much, whatever its size",
        )
    })
}
