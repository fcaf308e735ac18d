//! Parameters, limits and flags of the library, settable while the driver is closed.
//!
//! Order of authority: these setters, then the environment, then cufile.json (cufile.h). `SetParameterSizeT` takes nonsense; only the open
//! checks it. Before the open GDS 1.20 answers several getters with 0.

use std::ffi::{CString, c_uint};

use crate::error::Error;
use crate::library::Library;
use crate::raw::{CUfileDrvProps, fns};
use crate::version::Version;

/// One size class of a pool of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Size of one buffer, KiB.
    pub size_kib: usize,
    /// Number of buffers.
    pub count: usize,
}

/// Classes that a pool has in every version seen (the library wants exactly this length).
pub const SLAB_CLASSES: usize = 3;

impl Library {
    /// A parameter with a number (`PARAM_*` of [`crate::values::SIZE_PARAMETERS`]).
    ///
    /// # Errors
    /// What `cuFileGetParameterSizeT` answered; [`Error::MissingSymbol`] before GDS 1.14.
    pub fn size(&self, parameter: u32) -> Result<usize, Error> {
        let f = self.need(self.symbols().get_parameter_size_t, "cuFileGetParameterSizeT")?;
        let mut value = 0_usize;
        // SAFETY: writes one size_t; an unknown parameter is answered with a code.
        self.check("cuFileGetParameterSizeT", unsafe { f(parameter, &raw mut value) })?;
        Ok(value)
    }

    /// Sets a parameter with a number.
    ///
    /// # Errors
    /// What `cuFileSetParameterSizeT` answered (5026 while the driver is open); [`Error::MissingSymbol`] before GDS 1.14.
    pub fn set_size(&self, parameter: u32, value: usize) -> Result<(), Error> {
        let f = self.need(self.symbols().set_parameter_size_t, "cuFileSetParameterSizeT")?;
        // SAFETY: numbers only.
        self.check("cuFileSetParameterSizeT", unsafe { f(parameter, value) })
    }

    /// Least and greatest value of a parameter with a number.
    ///
    /// # Errors
    /// What `cuFileGetParameterMinMaxValue` answered; [`Error::MissingSymbol`] before GDS 1.15.
    pub fn size_range(&self, parameter: u32) -> Result<(usize, usize), Error> {
        let f = self.need(self.symbols().get_parameter_min_max, "cuFileGetParameterMinMaxValue")?;
        let (mut min, mut max) = (0_usize, 0_usize);
        // SAFETY: writes two size_t.
        self.check("cuFileGetParameterMinMaxValue", unsafe { f(parameter, &raw mut min, &raw mut max) })?;
        Ok((min, max))
    }

    /// A parameter that is on or off (`PARAM_*` of [`crate::values::BOOL_PARAMETERS`]).
    ///
    /// # Errors
    /// What `cuFileGetParameterBool` answered; [`Error::MissingSymbol`] before GDS 1.14.
    pub fn flag(&self, parameter: u32) -> Result<bool, Error> {
        let f = self.need(self.symbols().get_parameter_bool, "cuFileGetParameterBool")?;
        let mut value = 0_u8;
        // SAFETY: writes one byte.
        self.check("cuFileGetParameterBool", unsafe { f(parameter, &raw mut value) })?;
        Ok(value != 0)
    }

    /// Sets a parameter that is on or off.
    ///
    /// # Errors
    /// What `cuFileSetParameterBool` answered (5026 while the driver is open); [`Error::MissingSymbol`] before GDS 1.14.
    pub fn set_flag(&self, parameter: u32, value: bool) -> Result<(), Error> {
        let f = self.need(self.symbols().set_parameter_bool, "cuFileSetParameterBool")?;
        // SAFETY: numbers only.
        self.check("cuFileSetParameterBool", unsafe { f(parameter, value) })
    }

    /// A parameter with text (`PARAM_*` of [`crate::values::STRING_PARAMETERS`]), at most 4095 bytes.
    ///
    /// # Errors
    /// What `cuFileGetParameterString` answered; [`Error::MissingSymbol`] before GDS 1.14.
    pub fn string(&self, parameter: u32) -> Result<String, Error> {
        let f = self.need(self.symbols().get_parameter_string, "cuFileGetParameterString")?;
        let mut text = vec![0_u8; 4096];
        // SAFETY: room for 4096 bytes; the last stays zero because the library gets a length of 4095.
        self.check("cuFileGetParameterString", unsafe { f(parameter, text.as_mut_ptr().cast(), 4095) })?;
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// Sets a parameter with text.
    ///
    /// # Errors
    /// What `cuFileSetParameterString` answered (5026 while the driver is open); [`Error::MissingSymbol`] before GDS 1.14;
    /// [`Error::OutOfBounds`] for text with a NUL byte.
    pub fn set_string(&self, parameter: u32, value: &[u8]) -> Result<(), Error> {
        let f = self.need(self.symbols().set_parameter_string, "cuFileSetParameterString")?;
        let value = CString::new(value)
            .map_err(|_| Error::OutOfBounds(format!("the text for parameter {parameter} has a NUL byte inside")))?;
        // SAFETY: a C string that lives through the call; the library copies it.
        self.check("cuFileSetParameterString", unsafe { f(parameter, value.as_ptr()) })
    }

    /// The pool of host buffers that compat mode uses; GDS 1.20 reports it only while the driver is open.
    ///
    /// # Errors
    /// What the library answered; [`Error::MissingSymbol`] before GDS 1.15.
    pub fn posix_pool_slabs(&self) -> Result<Vec<Slab>, Error> {
        self.get_slabs(self.symbols().get_posix_pool_slabs, "cuFileGetParameterPosixPoolSlabArray")
    }

    /// Sets the pool of host buffers that compat mode uses. A batch larger than a class's count waits for ever (ai-dynamo/nixl#2070).
    ///
    /// # Errors
    /// What the library answered (5026 while the driver is open); [`Error::MissingSymbol`] before GDS 1.15.
    pub fn set_posix_pool_slabs(&self, slabs: &[Slab]) -> Result<(), Error> {
        self.set_slabs(self.symbols().set_posix_pool_slabs, "cuFileSetParameterPosixPoolSlabArray", slabs)
    }

    fn get_slabs(&self, f: Option<fns::GetSlabs>, name: &'static str) -> Result<Vec<Slab>, Error> {
        let f = self.need(f, name)?;
        let (mut sizes, mut counts) = ([0_usize; 64], [0_usize; 64]);
        // SAFETY: room for far more than the three values whose count the library gets.
        self.check(name, unsafe { f(sizes.as_mut_ptr(), counts.as_mut_ptr(), SLAB_CLASSES as i32) })?;
        Ok(sizes.iter().zip(counts).take(SLAB_CLASSES).map(|(&size_kib, count)| Slab { size_kib, count }).collect())
    }

    fn set_slabs(&self, f: Option<fns::SetSlabs>, name: &'static str, slabs: &[Slab]) -> Result<(), Error> {
        let f = self.need(f, name)?;
        let sizes: Vec<usize> = slabs.iter().map(|s| s.size_kib).collect();
        let counts: Vec<usize> = slabs.iter().map(|s| s.count).collect();
        let len = i32::try_from(slabs.len())
            .map_err(|_| Error::OutOfBounds(format!("{} slab classes are too many", slabs.len())))?;
        // SAFETY: two arrays of `len` values that live through the call.
        self.check(name, unsafe { f(sizes.as_ptr(), counts.as_ptr(), len) })
    }

    /// The properties, asked in whatever state the driver is. Before the open libraries from 1.17 on leave several fields at 0, and earlier
    /// ones answer 5011 without a GPU; better asked through [`crate::Driver::properties`].
    ///
    /// # Errors
    /// What `cuFileDriverGetProperties` answered.
    pub fn properties(&self) -> Result<CUfileDrvProps, Error> {
        let f = self.need(self.symbols().driver_get_properties, "cuFileDriverGetProperties")?;
        // Room after the structure, should a later version have a longer one.
        let mut room = [CUfileDrvProps::default(); 8];
        // SAFETY: writes one structure at the start of room for eight.
        self.check("cuFileDriverGetProperties", unsafe { f(room.as_mut_ptr()) })?;
        Ok(room[0])
    }

    /// Longest transfer given to the kernel at once, KiB; 64 to 16384, a multiple of 64. In compat mode each registration of GPU memory pins as much.
    ///
    /// 1.15 applies it at once, open or not (seen on an H200). 1.18 and 1.20 return success while the driver is open
    /// but keep the old value: the new one applies from the next open and overrides cufile.json (seen without a GPU).
    ///
    /// # Errors
    /// What the library answered: 5022 for another number; 1.14 to 1.16 answer 5011 without a GPU.
    pub fn set_max_direct_io_size(&self, kib: usize) -> Result<(), Error> {
        let f = self.need(self.symbols().driver_set_max_direct_io_size, "cuFileDriverSetMaxDirectIOSize")?;
        // SAFETY: numbers only.
        self.check("cuFileDriverSetMaxDirectIOSize", unsafe { f(kib) })
    }

    /// Routes that could serve a transport (a bit number of [`crate::values::TRANSPORTS`]); bits of [`crate::values::P2P_ROUTES`]. Says what
    /// could happen, not what does.
    ///
    /// # Errors
    /// What `cuFileDriverGetP2PFlags` answered; [`Error::MissingSymbol`] before GDS 1.16.
    pub fn p2p_flags(&self, transport: u32) -> Result<u32, Error> {
        let f = self.need(self.symbols().get_p2p_flags, "cuFileDriverGetP2PFlags")?;
        let mut flags: c_uint = 0;
        // SAFETY: writes one C enum, which has the size of an int.
        self.check("cuFileDriverGetP2PFlags", unsafe { f(transport, &raw mut flags) })?;
        Ok(flags)
    }

    /// Asks for routes of a transport; the library takes only P2PDMA on x86 and only C2C on Arm.
    ///
    /// # Errors
    /// What `cuFileDriverSetP2PFlags` answered; [`Error::MissingSymbol`] before GDS 1.16.
    pub fn set_p2p_flags(&self, transport: u32, flags: u32) -> Result<(), Error> {
        let f = self.need(self.symbols().set_p2p_flags, "cuFileDriverSetP2PFlags")?;
        // SAFETY: numbers only.
        self.check("cuFileDriverSetP2PFlags", unsafe { f(transport, flags) })
    }

    /// True where statistics structures have the fields of vectored transfers (from GDS 1.19).
    pub(crate) fn has_vectored_stats(&self) -> bool {
        self.at_least(Version::new(1, 19))
    }
}
