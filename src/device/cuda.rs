//! The CUDA driver, loaded at run time: devices, the primary context, streams.

use super::error::DeviceError;
use cudarc::driver::{result, sys};
use serde::{Deserialize, Serialize};

/// A CUDA device as the driver lists it. No context is opened for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaInfo {
    /// The CUDA ordinal, in the order of `CUDA_VISIBLE_DEVICES`.
    pub ordinal: u32,
    /// UUID as NVML writes it, `GPU-…`.
    pub uuid: String,
    /// Marketing name.
    pub name: String,
    /// Memory in bytes.
    pub total_bytes: u64,
}

/// Properties that only CUDA reports. A property is `None` if the driver does not know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaAttributes {
    /// UUID as NVML writes it.
    pub uuid: String,
    /// `GPU_DIRECT_RDMA_SUPPORTED` (116).
    pub gpu_direct_rdma: Option<bool>,
    /// `DMA_BUF_SUPPORTED` (124).
    pub dma_buf: Option<bool>,
    /// `CAN_USE_64_BIT_STREAM_MEM_OPS` (122).
    pub stream_mem_ops: Option<bool>,
}

/// A GPU. Its primary context is retained until this value is dropped.
#[derive(Debug)]
pub struct CudaDevice {
    info: CudaInfo,
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a CUcontext is a handle. The driver allows every thread to make it current, and it does not change after
// construction.
unsafe impl Send for CudaDevice {}
// SAFETY: as above. All driver calls on it are documented as thread-safe.
unsafe impl Sync for CudaDevice {}

fn load_driver() -> Result<(), DeviceError> {
    // SAFETY: loading libcuda runs its initialisers, as in every CUDA program. The library is never unloaded while in
    // use.
    if unsafe { !sys::is_culib_present() } {
        return Err(DeviceError::system(
            "loading the CUDA driver library",
            "libcuda.so.1 was not found; the NVIDIA driver contains it",
        ));
    }
    result::init().map_err(|e| DeviceError::cuda("initialising CUDA (cuInit)", e))
}

/// Lists the CUDA devices. This initialises the driver in this process, but opens no context.
///
/// # Errors
/// If libcuda is not installed, or if `cuInit` fails.
pub fn list_cuda_devices() -> Result<Vec<CudaInfo>, DeviceError> {
    load_driver()?;
    let count = result::device::get_count().map_err(|e| DeviceError::cuda("counting CUDA devices", e))?;
    (0..count).map(|ordinal| describe(ordinal).map(|(info, _)| info)).collect()
}

/// Reads the attributes of each CUDA device that direct reads depend on. This initialises the driver in this process,
/// but opens no context.
///
/// # Errors
/// If libcuda is not installed, or if `cuInit` fails.
pub fn list_cuda_attributes() -> Result<Vec<CudaAttributes>, DeviceError> {
    use sys::CUdevice_attribute as Attribute;
    load_driver()?;
    let count = result::device::get_count().map_err(|e| DeviceError::cuda("counting CUDA devices", e))?;
    let of = |ordinal: i32| -> Result<CudaAttributes, DeviceError> {
        let (info, device) = describe(ordinal)?;
        let yes = |attribute: Attribute| {
            // SAFETY: cuDeviceGet returned `device` in `describe`. The call writes one local integer.
            unsafe { result::device::get_attribute(device, attribute) }.ok().map(|value| value != 0)
        };
        Ok(CudaAttributes {
            uuid: info.uuid,
            gpu_direct_rdma: yes(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED),
            dma_buf: yes(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
            stream_mem_ops: yes(Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
        })
    };
    (0..count).map(of).collect()
}

fn describe(ordinal: i32) -> Result<(CudaInfo, sys::CUdevice), DeviceError> {
    let doing = || format!("reading CUDA device {ordinal}");
    let device = result::device::get(ordinal).map_err(|e| DeviceError::cuda(doing(), e))?;
    let name = result::device::get_name(device).map_err(|e| DeviceError::cuda(doing(), e))?;
    let uuid = result::device::get_uuid(device).map_err(|e| DeviceError::cuda(doing(), e))?;
    // SAFETY: cuDeviceGet returned `device` just above.
    let total = unsafe { result::device::total_mem(device) }.map_err(|e| DeviceError::cuda(doing(), e))?;
    let hex: Vec<String> = uuid.bytes.iter().map(|b| format!("{:02x}", *b as u8)).collect();
    let uuid = format!(
        "GPU-{}-{}-{}-{}-{}",
        hex[0..4].concat(),
        hex[4..6].concat(),
        hex[6..8].concat(),
        hex[8..10].concat(),
        hex[10..16].concat()
    );
    Ok((CudaInfo { ordinal: ordinal as u32, uuid, name, total_bytes: total as u64 }, device))
}

impl CudaDevice {
    /// Opens a GPU and binds it to this thread. It is found by UUID if there is one, because the order of CUDA can
    /// differ from that of NVML. Otherwise it is found by ordinal.
    ///
    /// # Errors
    /// If there is no such device, or if its context cannot be created.
    pub fn open(ordinal: u32, uuid: Option<&str>) -> Result<Self, DeviceError> {
        let devices = list_cuda_devices()?;
        let found = match uuid {
            Some(uuid) => devices.iter().find(|d| d.uuid.eq_ignore_ascii_case(uuid)),
            None => devices.iter().find(|d| d.ordinal == ordinal),
        };
        let Some(info) = found else {
            let wanted = uuid.map_or_else(|| format!("GPU {ordinal}"), |u| format!("GPU {u}"));
            let have: Vec<String> = devices.iter().map(|d| format!("{} {} ({})", d.ordinal, d.uuid, d.name)).collect();
            return Err(DeviceError::system(
                format!("opening {wanted}"),
                format!("CUDA sees [{}]; check CUDA_VISIBLE_DEVICES and --target", have.join(", ")),
            ));
        };
        let (info, device) = describe(info.ordinal as i32)?;
        // SAFETY: `device` is valid. The context is released once, in `drop`.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(|e| DeviceError::cuda(format!("opening a CUDA context on {}", info.name), e))?;
        let opened = Self { info, device, context };
        opened.bind()?;
        Ok(opened)
    }

    /// The properties of the device.
    #[must_use]
    pub const fn info(&self) -> &CudaInfo {
        &self.info
    }

    /// Makes its context current on the calling thread.
    ///
    /// # Errors
    /// If CUDA reports an error.
    pub fn bind(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is retained until `self` is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| DeviceError::cuda("binding the CUDA context", e))
    }

    /// Waits for all work in the context.
    ///
    /// # Errors
    /// If earlier work failed.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        result::ctx::synchronize().map_err(|e| DeviceError::cuda("waiting for the GPU", e))
    }

    /// The free and the total memory in bytes.
    ///
    /// # Errors
    /// If CUDA reports an error.
    pub fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let (free, total) = result::mem_get_info().map_err(|e| DeviceError::cuda("reading the free GPU memory", e))?;
        Ok((free as u64, total as u64))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // SAFETY: the context was retained exactly once, in `open`. After an error there is nothing to free.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
