//! Parameters, limits and flags of the library. They can be set while the driver is closed.
//!
//! These setters override the environment, which overrides cufile.json (cufile.h). Before the open, several
//! getters of GDS 1.20 return 0.

use std::ffi::c_uint;

use crate::error::Error;
use crate::library::Library;
use crate::raw::{CUfileDrvProps, fns};
use crate::version::Version;

/// A size class of a buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The size of one buffer in KiB.
    pub size_kib: usize,
    /// The number of buffers.
    pub count: usize,
}

/// The number of size classes in a pool, in every version that was examined. The library requires exactly this
/// number.
pub const SLAB_CLASSES: usize = 3;

impl Library {
    /// The value of a numeric parameter (`PARAM_*` of [`crate::values::SIZE_PARAMETERS`]).
    ///
    /// # Errors
    /// The error of `cuFileGetParameterSizeT`, or [`Error::MissingSymbol`] before GDS 1.14.
    pub fn size(&self, parameter: u32) -> Result<usize, Error> {
        let f = self.need(self.symbols().get_parameter_size_t, "cuFileGetParameterSizeT")?;
        let mut value = 0_usize;
        // SAFETY: the call writes one size_t. For an unknown parameter it returns an error.
        self.check("cuFileGetParameterSizeT", unsafe { f(parameter, &raw mut value) })?;
        Ok(value)
    }

    /// The smallest and the largest value of a numeric parameter.
    ///
    /// # Errors
    /// The error of `cuFileGetParameterMinMaxValue`, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn size_range(&self, parameter: u32) -> Result<(usize, usize), Error> {
        let f = self.need(self.symbols().get_parameter_min_max, "cuFileGetParameterMinMaxValue")?;
        let (mut min, mut max) = (0_usize, 0_usize);
        // SAFETY: the call writes two size_t.
        self.check("cuFileGetParameterMinMaxValue", unsafe { f(parameter, &raw mut min, &raw mut max) })?;
        Ok((min, max))
    }

    /// The value of a switch (`PARAM_*` of [`crate::values::BOOL_PARAMETERS`]).
    ///
    /// # Errors
    /// The error of `cuFileGetParameterBool`, or [`Error::MissingSymbol`] before GDS 1.14.
    pub fn flag(&self, parameter: u32) -> Result<bool, Error> {
        let f = self.need(self.symbols().get_parameter_bool, "cuFileGetParameterBool")?;
        let mut value = 0_u8;
        // SAFETY: the call writes one byte.
        self.check("cuFileGetParameterBool", unsafe { f(parameter, &raw mut value) })?;
        Ok(value != 0)
    }

    /// Sets a switch.
    ///
    /// # Errors
    /// The error of `cuFileSetParameterBool` (5026 while the driver is open), or [`Error::MissingSymbol`] before GDS
    /// 1.14.
    pub fn set_flag(&self, parameter: u32, value: bool) -> Result<(), Error> {
        let f = self.need(self.symbols().set_parameter_bool, "cuFileSetParameterBool")?;
        // SAFETY: the arguments are numbers.
        self.check("cuFileSetParameterBool", unsafe { f(parameter, value) })
    }

    /// The value of a text parameter (`PARAM_*` of [`crate::values::STRING_PARAMETERS`]), at most 4095 bytes.
    ///
    /// # Errors
    /// The error of `cuFileGetParameterString`, or [`Error::MissingSymbol`] before GDS 1.14.
    pub fn string(&self, parameter: u32) -> Result<String, Error> {
        let f = self.need(self.symbols().get_parameter_string, "cuFileGetParameterString")?;
        let mut text = vec![0_u8; 4096];
        // SAFETY: there is space for 4096 bytes. The last byte stays zero, because the library gets a length of 4095.
        self.check("cuFileGetParameterString", unsafe { f(parameter, text.as_mut_ptr().cast(), 4095) })?;
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// The pool of host buffers for compat mode. GDS 1.20 reports it only while the driver is open.
    ///
    /// # Errors
    /// The error of the library, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn posix_pool_slabs(&self) -> Result<Vec<Slab>, Error> {
        self.get_slabs(self.symbols().get_posix_pool_slabs, "cuFileGetParameterPosixPoolSlabArray")
    }

    /// Sets the pool of host buffers for compat mode. A batch that is larger than the count of a class blocks forever
    /// (ai-dynamo/nixl#2070).
    ///
    /// # Errors
    /// The error of the library (5026 while the driver is open), or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn set_posix_pool_slabs(&self, slabs: &[Slab]) -> Result<(), Error> {
        self.set_slabs(self.symbols().set_posix_pool_slabs, "cuFileSetParameterPosixPoolSlabArray", slabs)
    }

    fn get_slabs(&self, f: Option<fns::GetSlabs>, name: &'static str) -> Result<Vec<Slab>, Error> {
        let f = self.need(f, name)?;
        let (mut sizes, mut counts) = ([0_usize; 64], [0_usize; 64]);
        // SAFETY: there is space for many more than the three values whose number the library gets.
        self.check(name, unsafe { f(sizes.as_mut_ptr(), counts.as_mut_ptr(), SLAB_CLASSES as i32) })?;
        Ok(sizes.iter().zip(counts).take(SLAB_CLASSES).map(|(&size_kib, count)| Slab { size_kib, count }).collect())
    }

    fn set_slabs(&self, f: Option<fns::SetSlabs>, name: &'static str, slabs: &[Slab]) -> Result<(), Error> {
        let f = self.need(f, name)?;
        let sizes: Vec<usize> = slabs.iter().map(|s| s.size_kib).collect();
        let counts: Vec<usize> = slabs.iter().map(|s| s.count).collect();
        let len = i32::try_from(slabs.len())
            .map_err(|_| Error::OutOfBounds(format!("{} slab classes are too many", slabs.len())))?;
        // SAFETY: the arguments are two arrays of `len` values that exist during the call.
        self.check(name, unsafe { f(sizes.as_ptr(), counts.as_ptr(), len) })
    }

    /// The properties in any state of the driver. Before the open, libraries from 1.17 on return 0 in several fields,
    /// and earlier ones return 5011 without a GPU. So [`crate::Driver::properties`] is preferable.
    ///
    /// # Errors
    /// The error of `cuFileDriverGetProperties`.
    pub fn properties(&self) -> Result<CUfileDrvProps, Error> {
        let f = self.need(self.symbols().driver_get_properties, "cuFileDriverGetProperties")?;
        // There is additional space, because the structure of a later version may be longer.
        let mut room = [CUfileDrvProps::default(); 8];
        // SAFETY: the call writes one structure, and there is space for eight.
        self.check("cuFileDriverGetProperties", unsafe { f(room.as_mut_ptr()) })?;
        Ok(room[0])
    }

    /// Sets the longest transfer that is passed to the kernel, in KiB: 64 to 16384, a multiple of 64. In compat mode,
    /// each registration of GPU memory pins this size.
    ///
    /// 1.15 applies it immediately, even while the driver is open (seen on an H200). 1.18 and 1.20 return success
    /// while the driver is open, but use the value only from the next open on, where it overrides cufile.json (seen
    /// without a GPU).
    ///
    /// # Errors
    /// The error of the library: 5022 for an invalid number. Without a GPU, 1.14 to 1.16 return 5011.
    pub fn set_max_direct_io_size(&self, kib: usize) -> Result<(), Error> {
        let f = self.need(self.symbols().driver_set_max_direct_io_size, "cuFileDriverSetMaxDirectIOSize")?;
        // SAFETY: the argument is a number.
        self.check("cuFileDriverSetMaxDirectIOSize", unsafe { f(kib) })
    }

    /// The possible routes of a transport (a bit number of [`crate::values::TRANSPORTS`]) as bits of
    /// [`crate::values::P2P_ROUTES`]. It does not show which route is used.
    ///
    /// # Errors
    /// The error of `cuFileDriverGetP2PFlags`, or [`Error::MissingSymbol`] before GDS 1.16.
    pub fn p2p_flags(&self, transport: u32) -> Result<u32, Error> {
        let f = self.need(self.symbols().get_p2p_flags, "cuFileDriverGetP2PFlags")?;
        let mut flags: c_uint = 0;
        // SAFETY: the call writes one C enum, which has the size of an int.
        self.check("cuFileDriverGetP2PFlags", unsafe { f(transport, &raw mut flags) })?;
        Ok(flags)
    }

    /// Requests routes for a transport. The library accepts only P2PDMA on x86 and only C2C on Arm.
    ///
    /// # Errors
    /// The error of `cuFileDriverSetP2PFlags`, or [`Error::MissingSymbol`] before GDS 1.16.
    pub fn set_p2p_flags(&self, transport: u32, flags: u32) -> Result<(), Error> {
        let f = self.need(self.symbols().set_p2p_flags, "cuFileDriverSetP2PFlags")?;
        // SAFETY: the arguments are numbers.
        self.check("cuFileDriverSetP2PFlags", unsafe { f(transport, flags) })
    }

    /// Whether statistics structures have the fields of vectored transfers (since GDS 1.19).
    pub(crate) fn has_vectored_stats(&self) -> bool {
        self.at_least(Version::new(1, 19))
    }
}
