//! Recognises threads of the kernel. Any user can give a program the name of one.

/// The flag of a thread of the kernel (`PF_KTHREAD` in linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

/// Whether a file `/proc/1234/stat` is that of the kernel thread with the given name.
pub(super) fn is_kernel_thread(stat: &[u8], name: &str) -> bool {
    let end = stat.iter().rposition(|byte| *byte == b')');
    let start = stat.iter().position(|byte| *byte == b'(');
    let (Some(start), Some(end)) = (start, end) else { return false };
    // The flags are field 9, the seventh after the name.
    let flags = stat
        .get(end + 1..)
        .and_then(|after| std::str::from_utf8(after).ok())
        .and_then(|after| after.split_whitespace().nth(6)?.parse::<u64>().ok());
    stat.get(start + 1..end) == Some(name.as_bytes()) && flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_the_name_of_a_kernel_thread_is_none() {
        // Lines of Linux 6.14; 2129984 and 4194304 are the flags.
        let thread = b"812 (ext4lazyinit) S 2 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 4711 0 0\n";
        assert!(is_kernel_thread(thread, "ext4lazyinit"));
        assert!(!is_kernel_thread(thread, "kthreadd"));
        for program in [
            &b"812 (ext4lazyinit) S 700 812 700 34816 812 4194304 94 0 0 0 0 0 0 0 20 0 1 0 4711 0 0\n"[..],
            b"812 (x) S 2 0 0 0 -1 2129984 (y) S 700 812 700 34816 812 4194304 94 0 0\n",
            b"812 (ext4lazyinit) S 2",
            b"812 ext4lazyinit",
            b") (",
            b"",
        ] {
            assert!(!is_kernel_thread(program, "ext4lazyinit"), "{}", String::from_utf8_lossy(program));
        }
        let own = std::fs::read("/proc/self/stat").unwrap_or_default();
        assert!(!is_kernel_thread(&own, "kthreadd"));
    }
}
