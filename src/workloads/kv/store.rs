//! The store: lookups before a read, moving complete files into place after a write, and the limit above which the
//! oldest files are removed.

use super::chunk::{self, Header};
use super::content;
use super::keys::hex;
use super::layout::{FileLayout, Layout};
use super::order::{KvOrder, Settings};
use super::params::KvSetting;
use crate::core::{KvSystem, Note};
use crate::engines::LoadError;
use crate::trust::shown;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Number of bytes that are generated at a time.
const STEP: usize = 1 << 20;

/// A file error as a sentence, with advice if the disk is full.
pub(super) fn failed(doing: &'static str, path: &Path, source: std::io::Error) -> LoadError {
    if source.kind() == std::io::ErrorKind::StorageFull {
        return LoadError::CuFile(format!(
            "{doing} {} failed: the disk is full; the incomplete file was removed. Free some space, pass another DIR, or use fewer tokens or sequences",
            shown(path).display()
        ));
    }
    LoadError::File { doing, path: shown(path), source }
}

/// The result of a lookup.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// For each file: whether it and all earlier files of its sequence are complete.
    pub(super) files: Vec<bool>,
    pub(super) lookups: u64,
    pub(super) hits: u64,
    /// Number of files that exist but were rejected, with the first reason.
    pub(super) refused: u64,
    pub(super) first_refusal: Option<String>,
    /// The reason why files may be missing, if the store is too small for them.
    pub(super) limited: Option<Note>,
}

/// The reason why written files may be missing, if the store is too small for them. A lookup starts at the beginning
/// of a sequence, which was written first and is removed first.
fn limited(settings: &Settings, layout: &Layout) -> Option<Note> {
    let files = layout.files.len() as u64;
    let room = room_files(settings, layout).filter(|room| *room < files)?;
    let name =
        if settings.on(KvSetting::MaxCacheSizeMb) { KvSetting::MaxCacheSizeMb } else { KvSetting::MaxCacheSizeGb };
    Some(Note::StoreLimited { setting: name.to_string(), value: settings.get(name), kept: room, files })
}

/// Number of bytes that fit into the store; `None` if it has no limit.
pub(super) fn room_bytes(settings: &Settings) -> Option<u64> {
    let bytes = match settings.get(KvSetting::MaxCacheSizeMb) {
        0 => settings.get(KvSetting::MaxCacheSizeGb).saturating_mul(1 << 30),
        mib => mib.saturating_mul(1 << 20),
    };
    (bytes > 0).then_some(bytes)
}

/// Number of files that fit into the store, at least one; `None` if it has no limit.
pub(super) fn room_files(settings: &Settings, layout: &Layout) -> Option<u64> {
    room_bytes(settings).map(|bytes| (bytes / layout.file_bytes().max(1)).max(1))
}

/// Looks up every chunk of every sequence in order, until the first missing one. Later chunks cannot be used.
pub(super) fn look_up(order: &KvOrder, settings: &Settings, layout: &Layout) -> Found {
    let stored = layout.files.len() / layout.asked.len().max(1);
    let mut found = Found { files: vec![false; layout.files.len()], ..Found::default() };
    for (sequence, keys) in layout.asked.iter().enumerate() {
        found.lookups += keys.len() as u64;
        for (index, key) in keys.iter().enumerate() {
            // Only chunks that this session stored are known in a slab, because the index of a slab ends with its
            // process.
            let number = (sequence * stored + index) as u64;
            if layout.is_slab() && index >= stored {
                break;
            }
            let file = layout.file(order, key, number);
            match is_complete(order, settings, layout, &file) {
                // Only files that this session stored are known. Any other file with such a name belongs to another
                // program.
                Ok(true) if index < stored => found.files[sequence * stored + index] = true,
                Ok(_) => break,
                Err(why) => {
                    found.refused += 1;
                    found.first_refusal.get_or_insert_with(|| format!("{}: {why}", shown(&file.path).display()));
                    break;
                }
            }
            found.hits += 1;
        }
    }
    found.limited = limited(settings, layout).filter(|_| found.files.contains(&false));
    found
}

/// Whether a file exists and is complete.
fn is_complete(order: &KvOrder, settings: &Settings, layout: &Layout, file: &FileLayout) -> Result<bool, String> {
    if order.kind == KvSystem::Lmcache {
        let expected = Header::of(&order.shape, layout.file_tokens(), None);
        return match chunk::examine(&file.path, settings.on(KvSetting::CheckPayload))? {
            None => Ok(false),
            Some(found) if found.shape != expected.shape => {
                Err(format!("its shape is {:?}, but {:?} is expected", found.shape, expected.shape))
            }
            Some(found) if found.dtype != expected.dtype || found.payload_bytes != layout.payload => Err(format!(
                "it contains {} bytes of {}, but {} of {} are expected",
                found.payload_bytes, found.dtype, layout.payload, expected.dtype
            )),
            Some(_) => Ok(true),
        };
    }
    let expected = if layout.is_slab() { layout.slab_file_bytes() } else { layout.file_bytes() };
    match fs::metadata(&file.path) {
        Ok(meta) if meta.len() == expected => Ok(true),
        // The index of a slab is in the memory of the process that wrote it. A larger file is the rest of a larger
        // slab.
        Ok(meta) if layout.is_slab() && meta.len() > file.start + layout.payload => Ok(true),
        Ok(meta) => Err(format!("it has {} bytes, but {expected} are expected", meta.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("it cannot be examined: {error}")),
    }
}

/// The header of each chunk, with the checksum of its payload. Empty for systems whose files have no headers.
pub(super) fn headers(order: &KvOrder, layout: &Layout, files: std::ops::Range<usize>) -> Result<Vec<Vec<u8>>, String> {
    let mut buffer = vec![0; STEP];
    files
        .filter(|index| *index < layout.files.len())
        .map(|index| {
            let mut hash = Sha256::new();
            let mut at = 0;
            while at < layout.payload {
                let length = ((layout.payload - at) as usize).min(STEP);
                content::fill(layout.seed(), layout.content_of(index), at, &mut buffer[..length]);
                hash.update(&buffer[..length]);
                at += length as u64;
            }
            let sum = Some(hex(&hash.finalize()));
            Header::of(&order.shape, layout.file_tokens(), sum).encode()
        })
        .collect()
}

/// Writes one file with plain writes, completely or not at all. For a slab, writes one chunk into the existing file.
pub(super) fn write_plainly(layout: &Layout, index: usize, header: Option<&[u8]>) -> Result<(), LoadError> {
    let Some(file) = layout.files.get(index) else { return Ok(()) };
    let written = (|| -> std::io::Result<()> {
        if let Some(folder) = file.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut out = if layout.is_slab() {
            OpenOptions::new().write(true).open(&file.path)?
        } else {
            File::create(&file.temporary)?
        };
        let mut start = header.unwrap_or_default().to_vec();
        start.resize(layout.data_offset as usize, 0);
        out.seek(SeekFrom::Start(file.start - layout.data_offset))?;
        out.write_all(&start)?;
        let mut buffer = vec![0; STEP];
        let mut at = 0;
        while at < layout.payload {
            let length = ((layout.payload - at) as usize).min(STEP);
            content::fill(layout.seed(), layout.content_of(index), at, &mut buffer[..length]);
            out.write_all(&buffer[..length])?;
            at += length as u64;
        }
        if layout.is_slab() {
            return Ok(());
        }
        fs::rename(&file.temporary, &file.path)?;
        header.map_or(Ok(()), |header| write_metadata(&file.path, header))
    })();
    written.map_err(|error| {
        let _ = fs::remove_file(&file.temporary);
        failed("writing", &file.path, error)
    })
}

/// Creates an empty slab for this number of chunks, with all its blocks allocated.
pub(super) fn make_slab(layout: &Layout) -> Result<(), LoadError> {
    let Some(file) = layout.files.first() else { return Ok(()) };
    let made = (|| -> std::io::Result<()> {
        if let Some(folder) = file.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let slab = File::create(&file.path)?;
        Ok(rustix::fs::fallocate(&slab, rustix::fs::FallocateFlags::empty(), 0, layout.slab_file_bytes())?)
    })();
    made.map_err(|error| failed("making", &file.path, error))
}

/// Writes the metadata of a chunk whose file is in place.
pub(super) fn write_metadata(chunk: &Path, header: &[u8]) -> std::io::Result<()> {
    let metadata = chunk::metadata_of(chunk);
    let partial = chunk::metadata_of(&chunk.with_extension("tmp"));
    fs::write(&partial, header).and_then(|()| fs::rename(&partial, &metadata))
}

/// Removes a stored file. The metadata of a chunk is removed first.
pub(super) fn remove(kind: KvSystem, path: &Path) -> Result<(), LoadError> {
    if kind == KvSystem::Lmcache {
        let metadata = chunk::metadata_of(path);
        if metadata.exists() {
            fs::remove_file(&metadata).map_err(|e| failed("removing", &metadata, e))?;
        }
    }
    fs::remove_file(path).map_err(|e| failed("removing", path, e))
}

/// Removes the incomplete files of an interrupted write.
pub(super) fn remove_partial(layout: &Layout) {
    for file in &layout.files {
        let _ = fs::remove_file(&file.temporary);
        if layout.is_slab() {
            break;
        }
    }
}

/// The files in the order in which they were written, and their maximum number.
#[derive(Debug)]
pub(super) struct Limit {
    most_files: usize,
    kept: Mutex<(VecDeque<u32>, u64)>,
}

impl Limit {
    pub(super) fn new(most_bytes: u64, file_bytes: u64) -> Self {
        let most_files = usize::try_from(most_bytes / file_bytes.max(1)).unwrap_or(usize::MAX).max(1);
        Self { most_files, kept: Mutex::default() }
    }

    /// Adds a file that is now in place. Returns the files that must be removed.
    pub(super) fn add(&self, file: u32) -> Vec<u32> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0.push_back(file);
        let over = kept.0.len().saturating_sub(self.most_files);
        kept.1 += over as u64;
        kept.0.drain(..over).collect()
    }

    /// Number of removed files.
    pub(super) fn evicted(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::workloads::kv::layout::tests::order;

    fn stored(kind: KvSystem, tokens: u64) -> (tempfile::TempDir, KvOrder, Settings, Layout) {
        let folder = tempfile::tempdir().unwrap();
        let set: &[(&str, u64)] = if kind == KvSystem::Lmcache { &[("chunk_size", 64)] } else { &[("block_size", 64)] };
        let mut order = order(kind, tokens, 2, set);
        order.folder = folder.path().to_owned();
        let settings = order.settings(&format!("{}/disk/read", kind.name()).parse().unwrap());
        let layout = Layout::new(&order, &settings, false).unwrap();
        let headers = headers(&order, &layout, 0..layout.files.len()).unwrap();
        for (index, header) in headers.iter().enumerate() {
            write_plainly(&layout, index, (kind == KvSystem::Lmcache).then_some(header.as_slice())).unwrap();
        }
        (folder, order, settings, layout)
    }

    #[test]
    fn what_was_stored_is_found_and_nothing_partial_remains() {
        for kind in [KvSystem::Lmcache, KvSystem::Llmd] {
            let (_folder, order, settings, layout) = stored(kind, 256);
            let found = look_up(&order, &settings, &layout);
            assert_eq!((found.lookups, found.hits, found.refused), (8, 8, 0));
            assert!(layout.files.iter().all(|f| f.path.exists() && !f.temporary.exists()));
        }
    }

    #[test]
    fn a_cut_damaged_or_missing_file_is_a_miss_and_so_is_what_follows_it() {
        for kind in [KvSystem::Lmcache, KvSystem::Llmd] {
            let (_folder, order, settings, layout) = stored(kind, 256);
            let complete = fs::read(&layout.files[1].path).unwrap();
            fs::write(&layout.files[1].path, &complete[..complete.len() - 1]).unwrap();
            let found = look_up(&order, &settings, &layout);
            assert_eq!((found.lookups, found.hits, found.refused), (8, 5, 1), "{kind:?}");
            assert!(found.files[0] && !found.files[1] && !found.files[2] && found.files[4]);
            fs::remove_file(&layout.files[1].path).unwrap();
            // Metadata without its chunk is rejected. A chunk without metadata is a normal miss.
            let left = u64::from(kind == KvSystem::Lmcache);
            assert_eq!(look_up(&order, &settings, &layout).refused, left);
        }
    }

    #[test]
    fn a_damaged_payload_is_seen_by_the_lookup_that_reads_it() {
        let (_folder, order, mut settings, layout) = stored(KvSystem::Lmcache, 128);
        let mut complete = fs::read(&layout.files[0].path).unwrap();
        let last = complete.len() - 1;
        complete[last] ^= 1;
        fs::write(&layout.files[0].path, complete).unwrap();
        assert_eq!(look_up(&order, &settings, &layout).hits, 4);
        settings.0.insert(KvSetting::CheckPayload, 1);
        let found = look_up(&order, &settings, &layout);
        assert_eq!(found.hits, 2);
        assert!(found.first_refusal.unwrap().contains("checksum"));
    }

    #[test]
    fn the_least_recently_written_goes_when_the_limit_is_reached() {
        let limit = Limit::new(3 * 100 + 50, 100);
        let gone: Vec<Vec<u32>> = (0..5).map(|file| limit.add(file)).collect();
        assert_eq!(gone, [vec![], vec![], vec![], vec![0], vec![1]]);
        assert_eq!(limit.evicted(), 2);
    }
}
