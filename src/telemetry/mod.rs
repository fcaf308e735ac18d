//! Pulse: NVML and procfs become samples on a schedule.
