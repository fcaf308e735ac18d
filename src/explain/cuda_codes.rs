//! The codes of the CUDA driver and runtime: names, meanings and causes. The most likely cause is first.
//!
//! Numbers and names are from `cuda.h` and `driver_types.h` of CUDA 13.

use super::causes::*;
use crate::checks::cuda_causes::{FAULTY, HIDDEN_PROC, NO_DEVICES, NO_UVM, RESUMED};
use crate::core::CheckId;

/// The number, the name in the driver, the name in the runtime (can be empty), the meaning, and the causes.
pub(super) type Row = (i32, &'static str, &'static str, &'static str, &'static [Cause]);

/// The row of a code.
pub(super) fn of(code: i32) -> Option<&'static Row> {
    CODES.iter().find(|row| row.0 == code)
}

const PROGRAM: &[Cause] = &[own(
    "The program made an invalid call; storage is not involved.",
    "compute-sanitizer PROGRAM",
    "Correct the program.",
)];
const ARGUMENT: &[Cause] = &[
    own("The program passes an invalid pointer, size or flag.", "compute-sanitizer PROGRAM", "Correct the program."),
    own(
        "Memory that is mapped from a file is registered; CUDA does not pin it.",
        "",
        "Copy the data into allocated memory, and register that.",
    ),
];
const NO_MEMORY: &[Cause] = &[
    own(
        "Other programs, or an earlier allocation, use the GPU's memory.",
        "nvidia-smi",
        "End them, or load a smaller part of the model.",
    ),
    found(CheckId::LimMemlock, "The limit of locked memory is too low to pin host memory."),
];
const STUB: &[Cause] = &[own(
    "LD_LIBRARY_PATH contains the toolkit's directory lib64/stubs.",
    "ldd PROGRAM | grep libcuda",
    "Remove that directory from LD_LIBRARY_PATH.",
)];
const OLD_DRIVER: &[Cause] = &[DRIVER_OLD, DRIVER_MISMATCH];
const BUSY: &[Cause] = &[found(CheckId::GpuComputeMode, "The GPU is in compute mode Exclusive_Process or Prohibited.")];
const NO_GPU: &[Cause] = &[
    GPU_ABSENT,
    own("CUDA_VISIBLE_DEVICES excludes all GPUs.", "echo \"$CUDA_VISIBLE_DEVICES\"", "Correct or unset the variable."),
    own(
        "The driver rejected the GPU at boot.",
        "sudo journalctl -k -b -o cat | grep NVRM",
        "Run gds-top explain with the line.",
    ),
];
const WRONG_NUMBER: &[Cause] = &[own(
    "The program names a GPU that does not exist or is excluded by CUDA_VISIBLE_DEVICES.",
    "nvidia-smi -L; echo \"$CUDA_VISIBLE_DEVICES\"",
    "Use a number of the list; after CUDA_VISIBLE_DEVICES numbers start at 0 again.",
)];
const LICENCE: &[Cause] = &[found(CheckId::GpuMigVgpu, "The vGPU has no licence, or a licence without CUDA.")];
const NO_KERNEL: &[Cause] = &[own(
    "The program was built for other GPU architectures.",
    "nvidia-smi --query-gpu=compute_cap --format=csv",
    "Install a build for this compute capability.",
)];
const CONTEXT: &[Cause] = &[own(
    "The thread has no CUDA context, or the context was destroyed.",
    "",
    "Call cudaSetDevice or cudaFree(0) in the thread before the first cuFile call.",
)];
const HARDWARE: &[Cause] = &[found(CheckId::GpuEcc, "The GPU or its NVLink reported a hardware error.")];
const SYSTEM: &[Cause] = &[
    shared(NO_UVM),
    shared(HIDDEN_PROC),
    shared(NO_DEVICES),
    shared(FAULTY),
    found(CheckId::LimMemlock, "The limit of locked memory is too low."),
    found(CheckId::UserLsm, "SELinux or AppArmor denies a device."),
];
const KERNEL: &[Cause] =
    &[own("A kernel of the program is faulty.", "compute-sanitizer PROGRAM", "Correct the program.")];
const PEER: &[Cause] = &[found(CheckId::PcieTopology, "No PCIe or NVLink path between the GPUs allows peer access.")];
const REGISTERED: &[Cause] = &[own(
    "The program registers host memory twice, or releases memory that it did not register.",
    "",
    "Correct the program.",
)];
const NOT_PERMITTED: &[Cause] =
    &[found(CheckId::UserPerms, "The operation needs root or another permission, for example profiling counters.")];
const NOT_SUPPORTED: &[Cause] = &[
    STATIC_BAR1,
    found(CheckId::GpuP2pdmaModel, "NVIDIA does not list the GPU for P2PDMA."),
    found(CheckId::DriverFlavour, "The proprietary kernel modules are loaded; P2PDMA needs the open ones."),
    found(CheckId::KaslrP2pdma, "Address randomisation of the kernel: a known problem of P2PDMA."),
];
const NOT_READY: &[Cause] = &[
    FABRIC,
    own(
        "The NVSwitches are in other machines: in the switch trays of a rack (GB200 NVL72), or in the host of a virtual machine.",
        "lspci -d 10de: | grep -i bridge; nvidia-smi -q | grep -A 4 Fabric",
        "Without an NVSwitch on the bus, install no Fabric Manager here. Ask the administrator of the rack (NMX-Controller) or of the host.",
    ),
];
const MISMATCH: &[Cause] = &[
    DRIVER_MISMATCH,
    own(
        "A container has another libcuda than the driver of the host.",
        "ldconfig -p | grep libcuda",
        "Remove the library from the image; the container runtime adds the right one.",
    ),
];
const FORWARD: &[Cause] = &[
    own(
        "LD_LIBRARY_PATH or the image has the package cuda-compat, which supports data-centre GPUs and certain driver branches only.",
        "ldd PROGRAM | grep libcuda; ls /usr/local/cuda*/compat",
        "Remove cuda-compat from the library path, or update the driver.",
    ),
    DRIVER_OLD,
    found(CheckId::GpuClass, "The GPU is a GeForce, which forward compatibility does not support."),
];
const MPS: &[Cause] = &[own(
    "The MPS server is not running, or has too many clients.",
    "ps -C nvidia-cuda-mps-control,nvidia-cuda-mps-server",
    "Restart nvidia-cuda-mps-control, or end clients.",
)];
const UVM: &[Cause] = &[
    DRIVER_MISMATCH,
    shared(NO_UVM),
    own(
        "The program forked after it had initialised CUDA.",
        "",
        "Start child processes before the first CUDA call, or use the start method spawn.",
    ),
];
const UNKNOWN: &[Cause] = &[shared(FAULTY), shared(RESUMED), shared(NO_UVM), shared(HIDDEN_PROC), shared(NO_DEVICES)];

/// All codes.
#[rustfmt::skip]
pub(super) const CODES: &[Row] = &[
    (0, "CUDA_SUCCESS", "cudaSuccess", "the call worked", &[]),
    (1, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "an argument is invalid", ARGUMENT),
    (2, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "GPU or host memory is not sufficient", NO_MEMORY),
    (3, "CUDA_ERROR_NOT_INITIALIZED", "cudaErrorInitializationError", "the CUDA driver is not initialised", UVM),
    (4, "CUDA_ERROR_DEINITIALIZED", "cudaErrorCudartUnloading", "the CUDA driver is shutting down, often because the program is ending", PROGRAM),
    (5, "CUDA_ERROR_PROFILER_DISABLED", "cudaErrorProfilerDisabled", "the profiler is not available in this run", PROGRAM),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "cudaErrorProfilerNotInitialized", "the profiler is not initialised", PROGRAM),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "cudaErrorProfilerAlreadyStarted", "the profiler is already started", PROGRAM),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "cudaErrorProfilerAlreadyStopped", "the profiler is already stopped", PROGRAM),
    (9, "", "cudaErrorInvalidConfiguration", "the launch configuration is invalid", PROGRAM),
    (10, "", "cudaErrorVersionTranslation", "the versions of the CUDA runtime cannot be translated", PROGRAM),
    (12, "", "cudaErrorInvalidPitchValue", "a pitch is invalid", PROGRAM),
    (13, "", "cudaErrorInvalidSymbol", "a symbol of the program is unknown", PROGRAM),
    (16, "", "cudaErrorInvalidHostPointer", "a host pointer is invalid", PROGRAM),
    (17, "", "cudaErrorInvalidDevicePointer", "a device pointer is invalid", PROGRAM),
    (18, "", "cudaErrorInvalidTexture", "a texture is invalid", PROGRAM),
    (19, "", "cudaErrorInvalidTextureBinding", "a texture binding is invalid", PROGRAM),
    (20, "", "cudaErrorInvalidChannelDescriptor", "a channel descriptor is invalid", PROGRAM),
    (21, "", "cudaErrorInvalidMemcpyDirection", "the direction of a copy is invalid", PROGRAM),
    (22, "", "cudaErrorAddressOfConstant", "the address of a constant was taken", PROGRAM),
    (23, "", "cudaErrorTextureFetchFailed", "a texture fetch failed", PROGRAM),
    (24, "", "cudaErrorTextureNotBound", "a texture is not bound", PROGRAM),
    (25, "", "cudaErrorSynchronizationError", "a synchronisation failed", PROGRAM),
    (26, "", "cudaErrorInvalidFilterSetting", "a texture filter is invalid", PROGRAM),
    (27, "", "cudaErrorInvalidNormSetting", "a texture normalisation is invalid", PROGRAM),
    (28, "", "cudaErrorMixedDeviceExecution", "device code and emulation were mixed", PROGRAM),
    (31, "", "cudaErrorNotYetImplemented", "the function is not implemented", PROGRAM),
    (32, "", "cudaErrorMemoryValueTooLarge", "the memory value is too large", PROGRAM),
    (34, "CUDA_ERROR_STUB_LIBRARY", "cudaErrorStubLibrary", "the program loaded the stub of libcuda instead of the driver's library", STUB),
    (35, "", "cudaErrorInsufficientDriver", "the driver is older than the CUDA runtime", OLD_DRIVER),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "cudaErrorCallRequiresNewerDriver", "the call needs a newer driver", OLD_DRIVER),
    (37, "", "cudaErrorInvalidSurface", "a surface is invalid", PROGRAM),
    (43, "", "cudaErrorDuplicateVariableName", "a variable name is used twice", PROGRAM),
    (44, "", "cudaErrorDuplicateTextureName", "a texture name is used twice", PROGRAM),
    (45, "", "cudaErrorDuplicateSurfaceName", "a surface name is used twice", PROGRAM),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "cudaErrorDevicesUnavailable", "all GPUs are busy, or in an exclusive or prohibited compute mode", BUSY),
    (47, "CUDA_ERROR_MULTICAST_RESOURCE_FULL", "", "no multicast resource is free", NOT_READY),
    (49, "", "cudaErrorIncompatibleDriverContext", "the CUDA context does not fit the runtime", PROGRAM),
    (52, "", "cudaErrorMissingConfiguration", "a launch has no configuration", PROGRAM),
    (53, "", "cudaErrorPriorLaunchFailure", "an earlier launch failed", PROGRAM),
    (65, "", "cudaErrorLaunchMaxDepthExceeded", "the launch depth is exceeded", PROGRAM),
    (66, "", "cudaErrorLaunchFileScopedTex", "a launched kernel uses a file-scoped texture", PROGRAM),
    (67, "", "cudaErrorLaunchFileScopedSurf", "a launched kernel uses a file-scoped surface", PROGRAM),
    (68, "", "cudaErrorSyncDepthExceeded", "the synchronisation depth is exceeded", PROGRAM),
    (69, "", "cudaErrorLaunchPendingCountExceeded", "too many launches are pending", PROGRAM),
    (98, "", "cudaErrorInvalidDeviceFunction", "a kernel does not exist for this GPU", NO_KERNEL),
    (100, "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice", "no GPU is visible", NO_GPU),
    (101, "CUDA_ERROR_INVALID_DEVICE", "cudaErrorInvalidDevice", "there is no GPU with this number", WRONG_NUMBER),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "cudaErrorDeviceNotLicensed", "the GPU has no valid licence (vGPU)", LICENCE),
    (103, "", "cudaErrorSoftwareValidityNotEstablished", "the software's validity is not established", PROGRAM),
    (127, "", "cudaErrorStartupFailure", "the CUDA runtime could not start", UNKNOWN),
    (200, "CUDA_ERROR_INVALID_IMAGE", "cudaErrorInvalidKernelImage", "a kernel image is invalid", PROGRAM),
    (201, "CUDA_ERROR_INVALID_CONTEXT", "cudaErrorDeviceUninitialized", "the thread has no valid CUDA context", CONTEXT),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "", "the context is already current", PROGRAM),
    (205, "CUDA_ERROR_MAP_FAILED", "cudaErrorMapBufferObjectFailed", "memory could not be mapped", PROGRAM),
    (206, "CUDA_ERROR_UNMAP_FAILED", "cudaErrorUnmapBufferObjectFailed", "memory could not be unmapped", PROGRAM),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED", "cudaErrorArrayIsMapped", "the array is mapped", PROGRAM),
    (208, "CUDA_ERROR_ALREADY_MAPPED", "cudaErrorAlreadyMapped", "the resource is already mapped", PROGRAM),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "cudaErrorNoKernelImageForDevice", "no kernel image exists for this GPU", NO_KERNEL),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED", "cudaErrorAlreadyAcquired", "the resource is already acquired", PROGRAM),
    (211, "CUDA_ERROR_NOT_MAPPED", "cudaErrorNotMapped", "the resource is not mapped", PROGRAM),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "cudaErrorNotMappedAsArray", "the resource is not mapped as an array", PROGRAM),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "cudaErrorNotMappedAsPointer", "the resource is not mapped as a pointer", PROGRAM),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE", "cudaErrorECCUncorrectable", "the GPU reported an uncorrectable ECC error", HARDWARE),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "cudaErrorUnsupportedLimit", "the limit is not supported by this GPU", PROGRAM),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "cudaErrorDeviceAlreadyInUse", "the context is in use by another thread", PROGRAM),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "cudaErrorPeerAccessUnsupported", "these GPUs cannot access each other's memory", PEER),
    (218, "CUDA_ERROR_INVALID_PTX", "cudaErrorInvalidPtx", "PTX code could not be compiled", PROGRAM),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "cudaErrorInvalidGraphicsContext", "the graphics context is invalid", PROGRAM),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "cudaErrorNvlinkUncorrectable", "NVLink reported an uncorrectable error", HARDWARE),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "cudaErrorJitCompilerNotFound", "the PTX compiler library is missing", PROGRAM),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "cudaErrorUnsupportedPtxVersion", "the PTX code is newer than the driver", OLD_DRIVER),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "cudaErrorJitCompilationDisabled", "PTX compilation is disabled", PROGRAM),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "cudaErrorUnsupportedExecAffinity", "the execution affinity is not supported", PROGRAM),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "cudaErrorUnsupportedDevSideSync", "synchronisation from device code is not supported", PROGRAM),
    (226, "CUDA_ERROR_CONTAINED", "cudaErrorContained", "an error was contained on the GPU", HARDWARE),
    (227, "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION", "cudaErrorInsufficientLoaderVersion", "the loader of the CUDA module is too old", OLD_DRIVER),
    (300, "CUDA_ERROR_INVALID_SOURCE", "cudaErrorInvalidSource", "the kernel source is invalid", PROGRAM),
    (301, "CUDA_ERROR_FILE_NOT_FOUND", "cudaErrorFileNotFound", "a file was not found", PROGRAM),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "cudaErrorSharedObjectSymbolNotFound", "a shared object lacks a symbol", PROGRAM),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "cudaErrorSharedObjectInitFailed", "a shared object could not be initialised", PROGRAM),
    (304, "CUDA_ERROR_OPERATING_SYSTEM", "cudaErrorOperatingSystem", "a call to the operating system failed", SYSTEM),
    (400, "CUDA_ERROR_INVALID_HANDLE", "cudaErrorInvalidResourceHandle", "a handle is invalid", PROGRAM),
    (401, "CUDA_ERROR_ILLEGAL_STATE", "cudaErrorIllegalState", "the resource is not in the required state", PROGRAM),
    (402, "CUDA_ERROR_LOSSY_QUERY", "cudaErrorLossyQuery", "the query would lose information", PROGRAM),
    (500, "CUDA_ERROR_NOT_FOUND", "cudaErrorSymbolNotFound", "a name was not found", PROGRAM),
    (600, "CUDA_ERROR_NOT_READY", "cudaErrorNotReady", "an asynchronous operation is not complete; this is not an error", &[]),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress", "a kernel accessed an invalid address", KERNEL),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "cudaErrorLaunchOutOfResources", "a launch needs more registers or threads than the GPU has", PROGRAM),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT", "cudaErrorLaunchTimeout", "a kernel exceeded the display watchdog's time limit", PROGRAM),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "cudaErrorLaunchIncompatibleTexturing", "a kernel uses an incompatible texturing mode", PROGRAM),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled", PROGRAM),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "cudaErrorPeerAccessNotEnabled", "peer access is not enabled", PROGRAM),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cudaErrorSetOnActiveProcess", "the primary context is already active", PROGRAM),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "cudaErrorContextIsDestroyed", "the context is destroyed", CONTEXT),
    (710, "CUDA_ERROR_ASSERT", "cudaErrorAssert", "an assertion in a kernel failed", PROGRAM),
    (711, "CUDA_ERROR_TOO_MANY_PEERS", "cudaErrorTooManyPeers", "no further peer can be enabled", PROGRAM),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "cudaErrorHostMemoryAlreadyRegistered", "the host memory is already registered", REGISTERED),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "cudaErrorHostMemoryNotRegistered", "the host memory is not registered", REGISTERED),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "cudaErrorHardwareStackError", "a kernel overflowed its hardware stack", KERNEL),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "cudaErrorIllegalInstruction", "a kernel has an illegal instruction", KERNEL),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorMisalignedAddress", "a kernel accessed a misaligned address", KERNEL),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "cudaErrorInvalidAddressSpace", "a kernel used the wrong address space", KERNEL),
    (718, "CUDA_ERROR_INVALID_PC", "cudaErrorInvalidPc", "a kernel jumped to an invalid address", KERNEL),
    (719, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure", "a kernel failed", KERNEL),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "cudaErrorCooperativeLaunchTooLarge", "a cooperative launch is larger than the GPU", PROGRAM),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "cudaErrorTensorMemoryLeak", "a kernel did not free its tensor memory", PROGRAM),
    (800, "CUDA_ERROR_NOT_PERMITTED", "cudaErrorNotPermitted", "the operation is not permitted", NOT_PERMITTED),
    (801, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported", "the operation is not supported by this GPU, driver or system", NOT_SUPPORTED),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY", "cudaErrorSystemNotReady", "the system is not ready for CUDA", NOT_READY),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "cudaErrorSystemDriverMismatch", "kernel driver and user-space driver have incompatible versions", MISMATCH),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "cudaErrorCompatNotSupportedOnDevice", "the forward-compatibility package does not support this GPU or driver", FORWARD),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "cudaErrorMpsConnectionFailed", "the connection to the MPS server failed", MPS),
    (806, "CUDA_ERROR_MPS_RPC_FAILURE", "cudaErrorMpsRpcFailure", "a call to the MPS server failed", MPS),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "cudaErrorMpsServerNotReady", "the MPS server is not ready", MPS),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "cudaErrorMpsMaxClientsReached", "the MPS server has its maximum of clients", MPS),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "cudaErrorMpsMaxConnectionsReached", "the MPS server has its maximum of connections", MPS),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "cudaErrorMpsClientTerminated", "the MPS client was terminated", MPS),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED", "cudaErrorCdpNotSupported", "dynamic parallelism is not supported", PROGRAM),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH", "cudaErrorCdpVersionMismatch", "the versions of dynamic parallelism differ", PROGRAM),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cudaErrorStreamCaptureUnsupported", "the operation is not permitted during stream capture", PROGRAM),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cudaErrorStreamCaptureInvalidated", "the stream capture is invalid", PROGRAM),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "cudaErrorStreamCaptureMerge", "two stream captures would merge", PROGRAM),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "cudaErrorStreamCaptureUnmatched", "the capture was not started on this stream", PROGRAM),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "cudaErrorStreamCaptureUnjoined", "a fork of the capture was not joined", PROGRAM),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "cudaErrorStreamCaptureIsolation", "the capture depends on work outside it", PROGRAM),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "cudaErrorStreamCaptureImplicit", "the operation would use the legacy stream during a capture", PROGRAM),
    (907, "CUDA_ERROR_CAPTURED_EVENT", "cudaErrorCapturedEvent", "the event was captured", PROGRAM),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "cudaErrorStreamCaptureWrongThread", "the capture was started by another thread", PROGRAM),
    (909, "CUDA_ERROR_TIMEOUT", "cudaErrorTimeout", "a wait exceeded its time limit", PROGRAM),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "cudaErrorGraphExecUpdateFailure", "the graph cannot be updated in place", PROGRAM),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE", "cudaErrorExternalDevice", "an external device failed", PROGRAM),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cudaErrorInvalidClusterSize", "the cluster size is invalid", PROGRAM),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "cudaErrorFunctionNotLoaded", "a function is not loaded", PROGRAM),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "cudaErrorInvalidResourceType", "the type of a resource is invalid", PROGRAM),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "cudaErrorInvalidResourceConfiguration", "the configuration of a resource is invalid", PROGRAM),
    (916, "CUDA_ERROR_KEY_ROTATION", "", "the encryption keys of confidential computing rotate", PROGRAM),
    (917, "CUDA_ERROR_STREAM_DETACHED", "cudaErrorStreamDetached", "the stream is detached", PROGRAM),
    (918, "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE", "cudaErrorGraphRecaptureFailure", "the graph could not be recaptured", PROGRAM),
    (919, "CUDA_ERROR_FABRIC_NOT_READY", "cudaErrorFabricNotReady", "the NVLink fabric is not ready", NOT_READY),
    (999, "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown", "an unknown error inside the driver", UNKNOWN),];
