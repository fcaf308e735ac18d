//! Keeps the heap of the C library small in the main process, because that process runs next to the measured load.
//! Run processes do not use this, because their libraries need a large heap.

/// Free memory above this size at the end of the heap is returned to the kernel, and allocations of this size get
/// their own mapping. Both are the initial values of glibc. Setting them explicitly prevents glibc from raising them
/// to 64 and 32 MiB when the first large buffer is freed (mallopt(3), M_MMAP_THRESHOLD).
#[cfg(target_env = "gnu")]
const THRESHOLD: libc::c_int = 128 << 10;

/// Uses one heap for all threads and trims it. By default, glibc has one heap per thread, and each keeps the memory
/// of its largest use. The threads of a session allocate too little to compete for one heap. Call this before any
/// thread is started. glibc settings of the user have precedence.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("GLIBC_TUNABLES").is_none() {
        for (setting, value) in
            [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, THRESHOLD), (libc::M_TRIM_THRESHOLD, THRESHOLD)]
        {
            // SAFETY: mallopt only changes numbers inside the allocator, under its lock. It can be called at any
            // time.
            unsafe { libc::mallopt(setting, value) };
        }
    }
}

/// Returns free pages in the middle of the heap to the kernel. Call it after work that needed much memory for a short
/// time.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim returns only free pages, under the lock of the allocator. It can be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
