//! Ends a child process together with its session, because it may use a GPU or a disk.

/// The process id of the session that started this process.
pub const ENV_SESSION: &str = "GDS_TOP_SESSION";

/// Makes the kernel kill this process when its parent ends. Returns false if the parent has already ended.
#[must_use]
pub fn end_with_parent() -> bool {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let session = std::env::var(ENV_SESSION).ok().and_then(|pid| pid.parse().ok());
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    session.is_none_or(|session: i32| parent == Some(session))
}
