//! Writes synthetic models with real names, shapes and types and with random bytes from a seed. An incomplete model
//! never looks complete.

use super::error::WeightsError;
use super::held::ModelFolder;
use super::layout::{Layout, lay_out};
use super::open::open;
use super::profile::Profile;
use crate::core::ModelInfo;
use crate::trust::Owners;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of bytes that a thread generates and writes at a time. It is a multiple of four, the word size of the
/// generator.
const CHUNK_BYTES: u64 = 16 << 20;

/// Suffix of incomplete files. Their names are hidden, and they are never used as shards.
const PARTIAL: &str = ".gds-top-partial";

/// The options of a synthetic model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SynthOptions {
    /// Factor for the first dimension of every tensor, above 0 and at most 4.
    pub scale: f64,
    /// Seed of the random bytes. The same seed, profile and scale always give the same files.
    pub seed: u64,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self { scale: 1.0, seed: 0 }
    }
}

/// Writes the files of a model into `dir`, which is created if needed, and opens the model. `progress` gets the
/// number of bytes written and the total, and returns whether to continue. It is called on this thread, and it gets
/// the total only after everything is on the disk. The files get their names when all of them are complete. Earlier
/// synthetic models in the directory are replaced; any other model file is an error.
///
/// # Errors
/// Fails if the scale is out of range, the disk has too little space, the directory contains a model that gds-top did
/// not write, writing fails, or `progress` stopped it. In these cases no new file remains.
pub fn synthesize(
    profile: &Profile,
    dir: &Path,
    options: &SynthOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ModelInfo, WeightsError> {
    synthesize_below(profile, dir, Owners::Any, options, progress)
}

/// Like [`synthesize`], with the permitted owners of the directories in the path.
pub(super) fn synthesize_below(
    profile: &Profile,
    dir: &Path,
    owners: Owners,
    options: &SynthOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ModelInfo, WeightsError> {
    let layout = lay_out(profile, options.scale, options.seed)?;
    let total = layout.total_bytes();
    let folder = match ModelFolder::open(dir, owners)? {
        Some(folder) => {
            let earlier = own_files(&folder)?;
            if !room(dir, total, earlier.iter().map(|name| folder.bytes(name)).sum())? {
                // The earlier files would be replaced anyway, and can be generated again.
                remove_all(&folder, &earlier)?;
            }
            folder
        }
        None => {
            room(dir, total, 0)?;
            ModelFolder::make(dir, owners)?
        }
    };
    remove_dead_partials(&folder);
    let mut partials = Partials { folder: &folder, names: Vec::new() };
    let files = layout
        .files
        .iter()
        .map(|file| partials.create(&file.file_name, file.head.len() as u64 + file.data_bytes))
        .collect::<Result<Vec<File>, _>>()?;
    let index = match &layout.index {
        Some((name, text)) => {
            let file = partials.create(name, text.len() as u64)?;
            let path = dir.join(name);
            file.write_all_at(text.as_bytes(), 0).map_err(|source| fault(&path, "written", source))?;
            Some(file)
        }
        None => None,
    };
    fill(dir, &layout, &files, options.seed, total, progress)?;
    for (file, path) in files.iter().chain(&index).zip(partials.targets()) {
        file.sync_all().map_err(|source| fault(&path, "flushed to the disk", source))?;
    }
    // From here on, an interruption can leave a directory without its index or without some shards. `open` detects this
    // by the file names. A mixture that looks complete is not possible, because all earlier files are removed first.
    remove_all(&folder, &own_files(&folder)?)?;
    partials.publish()?;
    folder.sync().map_err(|source| fault(dir, "flushed to the disk", source))?;
    progress(total, total);
    open(dir)
}

fn fault(path: &Path, doing: &'static str, source: io::Error) -> WeightsError {
    WeightsError::unwritable(path, doing, source)
}

/// The shards and indices in the directory. Fails if gds-top did not write one of them.
fn own_files(folder: &ModelFolder) -> Result<Vec<OsString>, WeightsError> {
    let files = folder.model_files()?;
    match files.iter().find(|name| folder.mark(name).is_none()) {
        Some(foreign) => Err(WeightsError::Foreign { path: folder.shown(foreign) }),
        None => Ok(files),
    }
}

fn remove_all(folder: &ModelFolder, files: &[OsString]) -> Result<(), WeightsError> {
    // The index is last in the list but is removed first. Without it, the names show that shards are missing.
    for name in files.iter().rev() {
        folder.remove(name).map_err(|error| fault(&folder.shown(name), "replaced", error))?;
    }
    Ok(())
}

/// Whether the model fits on the disk next to the earlier files. Returns `false` if it only fits after their removal.
/// Fails if it does not fit.
pub(super) fn room(dir: &Path, needed_bytes: u64, earlier_bytes: u64) -> Result<bool, WeightsError> {
    let absolute = std::path::absolute(dir).map_err(|source| fault(dir, "made absolute", source))?;
    let there = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there).map_err(|errno| WeightsError::Unreadable {
        path: there.to_owned(),
        doing: "examined",
        source: errno.into(),
    })?;
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free_bytes >= needed_bytes {
        Ok(true)
    } else if free_bytes.saturating_add(earlier_bytes) >= needed_bytes {
        Ok(false)
    } else {
        Err(WeightsError::NoSpace {
            path: there.to_owned(),
            needed_bytes,
            free_bytes,
            advice: "choose a smaller --scale or another disk",
        })
    }
}

/// Incomplete files. They are removed if this value is dropped before they are published.
struct Partials<'a> {
    folder: &'a ModelFolder,
    /// The current and the final name of each file.
    names: Vec<(String, String)>,
}

impl Partials<'_> {
    fn create(&mut self, name: &str, bytes: u64) -> Result<File, WeightsError> {
        let target = self.folder.shown(name);
        let partial = format!(".{name}.{}{PARTIAL}", std::process::id());
        self.folder.remove(partial.as_ref()).map_err(|error| fault(&self.folder.shown(&partial), "replaced", error))?;
        let file = self.folder.create(&partial).map_err(|source| fault(&target, "created", source))?;
        self.names.push((partial, name.to_owned()));
        // Reserving the space detects a full disk or quota before minutes of writing. It also keeps the file in few
        // extents.
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {
                file.set_len(bytes).map_err(|source| fault(&target, "sized", source))?;
                Ok(file)
            }
            Err(errno) => Err(fault(&target, "given its space", errno.into())),
        }
    }

    fn targets(&self) -> Vec<PathBuf> {
        self.names.iter().map(|(_, name)| self.folder.shown(name)).collect()
    }

    /// Renames all files to their final names, the index last.
    fn publish(&mut self) -> Result<(), WeightsError> {
        while let Some((partial, name)) = self.names.first() {
            self.folder.rename(partial, name).map_err(|source| fault(&self.folder.shown(name), "renamed", source))?;
            self.names.remove(0);
        }
        Ok(())
    }
}

impl Drop for Partials<'_> {
    fn drop(&mut self) {
        for (partial, _) in &self.names {
            // If this fails, nothing more can be done. The file's name shows that it is incomplete.
            let _ = self.folder.remove(partial.as_ref());
        }
    }
}

/// Removes the incomplete files that killed processes left.
fn remove_dead_partials(folder: &ModelFolder) {
    let Ok(names) = folder.names() else { return };
    for name in names {
        let Some(pid) = name.to_str().and_then(|n| n.strip_suffix(PARTIAL)?.rsplit_once('.')?.1.parse::<u32>().ok())
        else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = folder.remove(&name);
        }
    }
}

/// Writes the headers and the random data with several threads.
fn fill(
    dir: &Path,
    layout: &Layout,
    files: &[File],
    seed: u64,
    total: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), WeightsError> {
    let chunks: Vec<(usize, u64)> = layout
        .files
        .iter()
        .enumerate()
        .flat_map(|(number, file)| {
            (0..file.data_bytes.div_ceil(CHUNK_BYTES).max(1)).map(move |k| (number, k * CHUNK_BYTES))
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(chunks.len()).min(16);
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (send, receive) = crossbeam_channel::unbounded::<Result<u64, WeightsError>>();
    std::thread::scope(|scope| {
        let work = |send: crossbeam_channel::Sender<Result<u64, WeightsError>>| {
            let mut buffer = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let Some(&(number, at)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let (file, layout) = (&files[number], &layout.files[number]);
                let result = write_chunk(file, number as u64, layout, at, seed, &mut buffer)
                    .map_err(|source| fault(&dir.join(&layout.file_name), "written", source));
                let failed = result.is_err();
                if send.send(result).is_err() || failed {
                    break;
                }
            }
        };
        let begin = |send| std::thread::Builder::new().spawn_scoped(scope, move || work(send));
        let begun = (0..threads).filter(|_| begin(send.clone()).is_ok()).count();
        // If no thread could be started, the caller's thread writes all files.
        if begun == 0 {
            work(send);
        } else {
            drop(send);
        }
        let mut done = 0_u64;
        let mut outcome = Ok(());
        for result in &receive {
            match result {
                Ok(bytes) => {
                    done += bytes;
                    // The last byte is only reported after the flush.
                    if !progress(done.min(total.saturating_sub(1)), total) {
                        stop.store(true, Ordering::Relaxed);
                        outcome = outcome.and(Err(WeightsError::Stopped));
                    }
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        outcome
    })
}

/// Generates and writes one chunk of a file's data, and the header before the first chunk. The bytes only depend on
/// the seed, the file number and the offset.
fn write_chunk(
    file: &File,
    number: u64,
    layout: &super::layout::FileLayout,
    at: u64,
    seed: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<u64> {
    let mut written = 0;
    if at == 0 {
        file.write_all_at(&layout.head, 0)?;
        written += layout.head.len() as u64;
    }
    let bytes = (layout.data_bytes - at).min(CHUNK_BYTES);
    let more = (bytes as usize).saturating_sub(buffer.len());
    // If the address space is limited, a normal allocation would fail and abort the process.
    buffer.try_reserve_exact(more).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    buffer.resize(bytes as usize, 0);
    random_bytes(seed, number, at, buffer);
    file.write_all_at(buffer, layout.head.len() as u64 + at)?;
    Ok(written + bytes)
}

/// Fills `into` with the bytes of file `number` of a model with this seed. The bytes start at offset `at` of the data
/// section, which must be a multiple of four.
pub fn random_bytes(seed: u64, number: u64, at: u64, into: &mut [u8]) {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(number);
    generator.set_word_pos(u128::from(at / 4));
    generator.fill_bytes(into);
}
