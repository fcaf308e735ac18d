//! Where bytes land: CUDA memory or host memory, and the pinned staging on the way. Opens no files.
