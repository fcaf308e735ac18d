//! The memory of a thread's block, and the operations that move the block.

use crate::core::{Access, Transfer};
use crate::device::{CopyQueue, Device, DeviceMemory, Slot, Staging};
use crate::engines::cufile::CuFile;
use crate::trust;
use cufile_ffi::{BufferRegistration, FileHandle, IoMemory};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A thread's file and buffers, and the method that moves a block between them.
pub(super) enum Mover {
    CuFile {
        handle: FileHandle<'static>,
        memory: Arc<DeviceMemory>,
        registration: Option<BufferRegistration<DeviceMemory>>,
    },
    /// Through host memory. `gpu` is the final target, if there is one.
    Host { file: File, slot: Option<Slot>, gpu: Option<(CopyQueue, Arc<DeviceMemory>)> },
}

/// Opens a measured file with O_DIRECT.
fn open(path: &Path, access: Access) -> Result<File, String> {
    let flags = if access == Access::Read { OFlags::RDONLY } else { OFlags::RDWR };
    // No other flags are used, because cuFile rejects a file that was opened with O_NOFOLLOW (5019, libcufile 1.15).
    // The directory is private.
    let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(|errno| {
        let hint = if errno == rustix::io::Errno::INVAL {
            ": this file system has no O_DIRECT (tmpfs and some overlays), so its storage cannot be measured; choose a directory on a disk"
        } else {
            ""
        };
        format!("opening {} with O_DIRECT failed: {errno}{hint}", trust::shown(path).display())
    })
}

impl Mover {
    /// Opens the file, and allocates and registers the buffers of a thread.
    pub(super) fn open(
        transfer: Transfer,
        access: Access,
        path: &Path,
        block_bytes: usize,
        device: &Device,
        cufile: Result<&CuFile, &str>,
    ) -> Result<Self, String> {
        let file = open(path, access)?;
        let say = |e: &dyn std::fmt::Display| e.to_string();
        if transfer.uses_cufile() {
            let cufile = cufile?;
            let memory = Arc::new(DeviceMemory::allocate(device, block_bytes as u64).map_err(|e| say(&e))?);
            let handle = FileHandle::register(&cufile.driver, file).map_err(|e| {
                crate::engines::explain(&format!("registering {}", trust::shown(path).display()), &e).to_string()
            })?;
            let registration = match transfer {
                Transfer::GdsRegistered => Some(
                    cufile
                        .driver
                        .register(&memory, 0, memory.len(), 0)
                        .map_err(|e| format!("registering the buffer failed: {e}"))?,
                ),
                _ => None,
            };
            return Ok(Self::CuFile { handle, memory, registration });
        }
        // Host memory is only pinned if the bytes continue to a GPU.
        let pinned_for = if transfer == Transfer::CpuGpu { device } else { &Device::Host };
        let slot = Staging::slots(pinned_for, 1, block_bytes).map_err(|e| say(&e))?.pop();
        let gpu = if transfer == Transfer::CpuGpu {
            let memory = Arc::new(DeviceMemory::allocate(device, block_bytes as u64).map_err(|e| say(&e))?);
            Some((CopyQueue::new(device).map_err(|e| say(&e))?, memory))
        } else {
            None
        };
        Ok(Self::Host { file, slot, gpu })
    }

    /// Puts bytes into the buffer from which writes are made.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::CuFile { memory, .. } | Self::Host { gpu: Some((_, memory)), .. } => {
                memory.write_pageable(0, bytes).map_err(|e| e.to_string())
            }
            Self::Host { slot: Some(slot), .. } => {
                slot.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Self::Host { slot: None, .. } => Err("the thread's buffer was released".to_owned()),
        }
    }

    /// Copies the bytes from the buffer into which reads are made.
    pub(super) fn get(&self, bytes: &mut [u8]) -> Result<(), String> {
        match self {
            Self::CuFile { memory, .. } | Self::Host { gpu: Some((_, memory)), .. } => {
                memory.read_back(0, bytes).map_err(|e| e.to_string())
            }
            Self::Host { slot: Some(slot), .. } => {
                bytes.copy_from_slice(&slot.bytes()[..bytes.len()]);
                Ok(())
            }
            Self::Host { slot: None, .. } => Err("the thread's buffer was released".to_owned()),
        }
    }

    /// Moves one block and waits for its completion.
    pub(super) fn operate(&mut self, access: Access, offset: u64, block_bytes: usize) -> Result<(), String> {
        match self {
            Self::CuFile { handle, memory, registration } => {
                let memory: &dyn IoMemory = match registration {
                    Some(registration) => registration,
                    None => &**memory,
                };
                let mut done = 0;
                while done < block_bytes {
                    let (left, at) = (block_bytes - done, offset + done as u64);
                    let moved = match access {
                        Access::Read => handle.read_at(memory, done, left, at),
                        Access::Write => handle.write_at(memory, done, left, at),
                    };
                    match moved {
                        Ok(0) => return Err(format!("cuFile moved nothing at offset {at}")),
                        Ok(n) => done += n,
                        Err(e) => {
                            let doing = format!("a cuFile {access} of {left} bytes at offset {at}");
                            return Err(crate::engines::explain(&doing, &e).to_string());
                        }
                    }
                }
                Ok(())
            }
            Self::Host { file, slot, gpu } => {
                let Some(own) = slot.as_mut() else { return Err("the thread's buffer was released".to_owned()) };
                if access == Access::Read {
                    transfer_complete(block_bytes, |done| {
                        rustix::io::pread(&*file, &mut own.bytes_mut()[done..block_bytes], offset + done as u64)
                    })?;
                    if let Some((queue, memory)) = gpu
                        && let Some(own) = slot.take()
                    {
                        let copied =
                            queue.copy(own, 0, block_bytes, memory, 0).and_then(crate::device::InFlight::finish);
                        *slot = Some(copied.map_err(|e| e.to_string())?);
                    }
                } else {
                    if let Some((_, memory)) = gpu {
                        memory.read_back(0, &mut own.bytes_mut()[..block_bytes]).map_err(|e| e.to_string())?;
                    }
                    transfer_complete(block_bytes, |done| {
                        rustix::io::pwrite(&*file, &own.bytes()[done..block_bytes], offset + done as u64)
                    })?;
                }
                Ok(())
            }
        }
    }
}

/// Repeats a system call until all bytes are moved.
fn transfer_complete(bytes: usize, mut call: impl FnMut(usize) -> rustix::io::Result<usize>) -> Result<(), String> {
    let mut done = 0;
    while done < bytes {
        match call(done) {
            Ok(0) => return Err(format!("the file ended {} bytes early", bytes - done)),
            Ok(n) => done += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(format!("moving {bytes} bytes failed: {errno}")),
        }
    }
    Ok(())
}
