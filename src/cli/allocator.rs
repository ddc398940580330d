//! What the allocator does with memory that was freed.

/// Has the allocator keep what is freed. A step with gradients frees tensors that the next one needs again: without this
/// every one of them is new memory of the system, whose pages are cleared first (more than half of the time of a search in
/// pixel space).
pub fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets thresholds of the allocator.
    unsafe {
        // Older versions take no more than 32 MiB.
        if libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) == 0 {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        }
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        // Threads ask for more at a time, and so less often while others wait; what is not touched is no memory yet.
        libc::mallopt(libc::M_TOP_PAD, 4 << 20);
    }
}
