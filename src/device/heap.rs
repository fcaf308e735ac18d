//! Keeps the C library's heap of an observing process small, because it runs next to the load that it observes. Run
//! processes do not use this: their libraries need the opposite.

/// Free memory at the heap's end beyond this goes back to the kernel, and pieces as large are mapped on their own. Both are glibc's first values;
/// naming them keeps glibc from raising them to 64 and 32 MiB when the first large buffer is freed (mallopt(3), M_MMAP_THRESHOLD).
#[cfg(target_env = "gnu")]
const THRESHOLD: libc::c_int = 128 << 10;

/// One heap for all threads, trimmed as it empties. With glibc's default, a heap for each thread, the memory of every
/// burst stays in each heap; the threads of a session allocate too little to contend. Call this before threads are
/// started; glibc settings of the user are kept.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("GLIBC_TUNABLES").is_none() {
        for (setting, value) in
            [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, THRESHOLD), (libc::M_TRIM_THRESHOLD, THRESHOLD)]
        {
            // SAFETY: mallopt only changes numbers inside the allocator, under its own lock, and may be called at any time.
            unsafe { libc::mallopt(setting, value) };
        }
    }
}

/// Gives pages back that are free in the middle of the heap, after work that needed much for a moment.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim gives only pages back that hold nothing allocated, under the allocator's own lock, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
