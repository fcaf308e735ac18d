//! The functions of libnixl_capi that this crate uses, with the types of NIXL's wrapper.h.

use std::ffi::{c_char, c_int, c_void};

/// Opaque handles: pointers to structures of the library.
pub(crate) type Handle = *mut c_void;
/// `nixl_capi_status_t`.
pub(crate) type Status = c_int;

/// `NIXL_CAPI_SUCCESS`.
pub(crate) const SUCCESS: Status = 0;
/// `NIXL_CAPI_IN_PROG`.
pub(crate) const IN_PROGRESS: Status = 1;
/// `NIXL_CAPI_MEM_DRAM`.
pub(crate) const MEM_DRAM: c_int = 0;
/// `NIXL_CAPI_MEM_VRAM`.
pub(crate) const MEM_VRAM: c_int = 1;
/// `NIXL_CAPI_MEM_FILE`.
pub(crate) const MEM_FILE: c_int = 4;
/// `NIXL_CAPI_XFER_OP_READ` and `NIXL_CAPI_XFER_OP_WRITE`.
pub(crate) const READ: c_int = 0;
pub(crate) const WRITE: c_int = 1;

macro_rules! functions {
    ($($field:ident: $ty:ty = $name:literal;)*) => {
        /// The functions. All of them must exist.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $field: $ty,)*
        }

        impl Functions {
            /// Looks up all names. The error is the first missing name.
            ///
            /// # Safety
            /// `library` must be a libnixl_capi: each function must have the type that wrapper.h declares.
            pub(crate) unsafe fn load(library: &libloading::os::unix::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the caller guarantees the types of wrapper.h, and `$ty` corresponds to it.
                    $($field: *unsafe { library.get::<$ty>(concat!($name, "\0").as_bytes()) }.map_err(|_| $name)?,)*
                })
            }
        }
    };
}

functions! {
    is_stub: unsafe extern "C" fn() -> bool = "nixl_capi_is_stub";
    create_agent: unsafe extern "C" fn(*const c_char, *mut Handle) -> Status = "nixl_capi_create_agent";
    destroy_agent: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_agent";
    get_available_plugins: unsafe extern "C" fn(Handle, *mut Handle) -> Status = "nixl_capi_get_available_plugins";
    destroy_string_list: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_string_list";
    string_list_size: unsafe extern "C" fn(Handle, *mut usize) -> Status = "nixl_capi_string_list_size";
    string_list_get: unsafe extern "C" fn(Handle, usize, *mut *const c_char) -> Status = "nixl_capi_string_list_get";
    create_params: unsafe extern "C" fn(*mut Handle) -> Status = "nixl_capi_create_params";
    params_add: unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> Status = "nixl_capi_params_add";
    destroy_params: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_params";
    create_backend: unsafe extern "C" fn(Handle, *const c_char, Handle, *mut Handle) -> Status = "nixl_capi_create_backend";
    destroy_backend: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_backend";
    create_opt_args: unsafe extern "C" fn(*mut Handle) -> Status = "nixl_capi_create_opt_args";
    destroy_opt_args: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_opt_args";
    opt_args_add_backend: unsafe extern "C" fn(Handle, Handle) -> Status = "nixl_capi_opt_args_add_backend";
    create_reg_dlist: unsafe extern "C" fn(c_int, *mut Handle) -> Status = "nixl_capi_create_reg_dlist";
    destroy_reg_dlist: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_reg_dlist";
    reg_dlist_add_desc: unsafe extern "C" fn(Handle, usize, usize, u64, *const c_void, usize) -> Status = "nixl_capi_reg_dlist_add_desc";
    create_xfer_dlist: unsafe extern "C" fn(c_int, *mut Handle) -> Status = "nixl_capi_create_xfer_dlist";
    destroy_xfer_dlist: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_xfer_dlist";
    xfer_dlist_add_desc: unsafe extern "C" fn(Handle, usize, usize, u64) -> Status = "nixl_capi_xfer_dlist_add_desc";
    register_mem: unsafe extern "C" fn(Handle, Handle, Handle) -> Status = "nixl_capi_register_mem";
    deregister_mem: unsafe extern "C" fn(Handle, Handle, Handle) -> Status = "nixl_capi_deregister_mem";
    create_xfer_req: unsafe extern "C" fn(Handle, c_int, Handle, Handle, *const c_char, *mut Handle, Handle) -> Status = "nixl_capi_create_xfer_req";
    post_xfer_req: unsafe extern "C" fn(Handle, Handle, Handle) -> Status = "nixl_capi_post_xfer_req";
    get_xfer_status: unsafe extern "C" fn(Handle, Handle) -> Status = "nixl_capi_get_xfer_status";
    release_xfer_req: unsafe extern "C" fn(Handle, Handle) -> Status = "nixl_capi_release_xfer_req";
    destroy_xfer_req: unsafe extern "C" fn(Handle) -> Status = "nixl_capi_destroy_xfer_req";
}
