//! Parses the header of one safetensors file (eight bytes of length, then JSON) and checks the rules for its tensors.
//!
//! Format: <https://github.com/huggingface/safetensors#format>. The maximum header length is the limit of the
//! reference implementation.

use super::dtype::{self, SizeProblem};
use super::error::{WeightsError, name_text};
use crate::core::{TensorInfo, units};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum length of a header in bytes. The reference implementation has the same limit.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A valid header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Offset of the first tensor byte in the file.
    pub data_offset: u64,
    /// The tensors in the order of their bytes, as those of the first file of a model.
    pub tensors: Vec<TensorInfo>,
    /// The string values of `__metadata__`. Other values are ignored.
    pub metadata: BTreeMap<String, String>,
}

/// Reads and checks the header of a file. The function never blocks on a FIFO and reads no tensor bytes.
///
/// # Errors
/// Fails if the path is not a regular file, cannot be read, or has a header that violates the format.
pub fn read_header(path: &Path) -> Result<Header, WeightsError> {
    read_header_within(path, &AtomicU64::new(MAX_HEADER_BYTES))
}

/// Like [`read_header`], for a header of at most `left` bytes. Its length is subtracted.
pub(super) fn read_header_within(path: &Path, left: &AtomicU64) -> Result<Header, WeightsError> {
    let (mut file, file_bytes) = open_regular(path)?;
    let malformed = |problem: String| WeightsError::Malformed { path: path.to_owned(), problem };
    if file_bytes == 0 {
        return Err(malformed("it is empty (files of /proc also look empty); pass a file with tensors".to_owned()));
    }
    if file_bytes < 8 {
        return Err(malformed(format!(
            "it ends after {file_bytes} bytes, before the header's length is complete; download it again"
        )));
    }
    let mut length = [0_u8; 8];
    let unreadable = |source| WeightsError::Unreadable { path: path.to_owned(), doing: "read", source };
    read_exactly(&mut file, &mut length).map_err(unreadable)?;
    let header_bytes = u64::from_le_bytes(length);
    // In another kind of file, these bytes are arbitrary. So this more likely mistake is reported first.
    if header_bytes > MAX_HEADER_BYTES {
        return Err(malformed(format!(
            "its first eight bytes give a header length of {header_bytes} bytes, over the limit of {MAX_HEADER_BYTES}; it is probably another kind of file"
        )));
    }
    if header_bytes > file_bytes - 8 {
        return Err(malformed(format!(
            "its header of {header_bytes} bytes is longer than the file, which has {file_bytes} bytes; it is truncated: download it again"
        )));
    }
    if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(header_bytes)).is_err() {
        let path = path.parent().unwrap_or(path).to_owned();
        return Err(WeightsError::LargeHeaders { path, most: MAX_HEADER_BYTES });
    }
    // The size is limited by MAX_HEADER_BYTES and by the length of the file.
    let mut text = vec![0_u8; header_bytes as usize];
    read_exactly(&mut file, &mut text).map_err(unreadable)?;
    parse(path, &text, file_bytes)
}

/// Opens a path only if it is a regular file.
pub(super) fn open_regular(path: &Path) -> Result<(File, u64), WeightsError> {
    let unreadable = |doing| {
        move |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => WeightsError::NotFound { path: path.to_owned(), hint: String::new() },
            _ => WeightsError::Unreadable { path: path.to_owned(), doing, source },
        }
    };
    let meta = std::fs::metadata(path).map_err(unreadable("examined"))?;
    if let Some(kind) = odd_kind(meta.file_type()) {
        return Err(WeightsError::NotAFile { path: path.to_owned(), kind });
    }
    let file = crate::trust::open_regular(path).map_err(unreadable("opened"))?;
    let bytes = file.metadata().map_err(unreadable("examined"))?.len();
    Ok((file, bytes))
}

fn odd_kind(kind: std::fs::FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("a device")
    } else {
        Some("neither a file nor a directory")
    }
}

fn read_exactly(file: &mut File, into: &mut [u8]) -> io::Result<()> {
    file.read_exact(into).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            io::Error::new(error.kind(), "it became shorter while it was read")
        } else {
            error
        }
    })
}

/// Parses and checks the text of a header.
///
/// # Errors
/// See [`read_header`], except for errors of opening the file.
pub fn parse(path: &Path, text: &[u8], file_bytes: u64) -> Result<Header, WeightsError> {
    let malformed = |problem: String| WeightsError::Malformed { path: path.to_owned(), problem };
    let text = std::str::from_utf8(text).map_err(|error| {
        malformed(format!(
            "byte {} of its header is not UTF-8; the file is damaged: download it again",
            error.valid_up_to()
        ))
    })?;
    let mut current = None;
    let raw = read_raw(text, &mut current).map_err(|error| {
        let place = current.map_or_else(String::new, |name| format!(" at tensor {}", name_text(&name)));
        malformed(if error.is_data() {
            format!("its header does not describe tensors{place}: {error}; the file is damaged or of a newer format")
        } else {
            format!("its header is not valid JSON{place}: {error}; the file is damaged: download it again")
        })
    })?;
    let data_offset = 8 + text.len() as u64;
    let mut header = Header { file_bytes, data_offset, tensors: raw.tensors, metadata: raw.metadata };
    let data_bytes = file_bytes.saturating_sub(data_offset);
    for tensor in &mut header.tensors {
        let bad = |problem: String| WeightsError::BadTensor {
            path: path.to_owned(),
            tensor: name_text(&tensor.name),
            problem,
        };
        let (begin, end) = (tensor.file_offset, tensor.bytes);
        if end < begin {
            return Err(bad(format!(
                "its data ends at {end}, before it begins at {begin}; the header is damaged: download the file again"
            )));
        }
        let bytes = dtype::tensor_bytes(&tensor.dtype, &tensor.shape).map_err(|problem| {
            bad(match problem {
                SizeProblem::UnknownType => format!(
                    "its element type {} is unknown; known are {}",
                    name_text(&tensor.dtype),
                    dtype::DTYPES.map(|(known, _)| known).join(", ")
                ),
                SizeProblem::Overflow => format!(
                    "its shape {} gives a size that does not fit into 64 bits; the header is damaged",
                    shape_text(&tensor.shape)
                ),
                SizeProblem::PartialByte => format!(
                    "its shape {} of type {} ends inside a byte; the header is damaged",
                    shape_text(&tensor.shape),
                    tensor.dtype
                ),
            })
        })?;
        if bytes != end - begin {
            return Err(bad(format!(
                "shape {} of type {} needs {bytes} bytes, but its offsets {begin} to {end} contain {}; the header is damaged",
                shape_text(&tensor.shape),
                tensor.dtype,
                end - begin
            )));
        }
        if end > data_bytes {
            return Err(bad(format!(
                "its data ends at {end}, but the file has only {data_bytes} bytes ({}) of tensors; it is truncated: download it again",
                units::bytes(data_bytes)
            )));
        }
        (tensor.file_offset, tensor.bytes) = (data_offset + begin, bytes);
    }
    header.tensors.sort_by(|a, b| (a.file_offset, a.bytes, &a.name).cmp(&(b.file_offset, b.bytes, &b.name)));
    contiguous(path, &header)?;
    Ok(header)
}

/// Checks that tensors fill the data section without overlap and without gaps.
fn contiguous(path: &Path, header: &Header) -> Result<(), WeightsError> {
    let mut reached = header.data_offset;
    let mut before: Option<&TensorInfo> = None;
    for tensor in &header.tensors {
        if tensor.file_offset != reached {
            let after = before.map_or("the header".to_owned(), |t| format!("tensor {}", name_text(&t.name)));
            let (here, there) = (tensor.file_offset - header.data_offset, reached - header.data_offset);
            return Err(WeightsError::BadTensor {
                path: path.to_owned(),
                tensor: name_text(&tensor.name),
                problem: if tensor.file_offset < reached {
                    format!(
                        "its data begins at {here} and overlaps with {after}, which ends at {there}; the header is damaged"
                    )
                } else {
                    format!(
                        "its data begins at {here}, which leaves a gap after {after}, which ends at {there}; the header is damaged"
                    )
                },
            });
        }
        reached += tensor.bytes;
        before = Some(tensor);
    }
    if reached == header.file_bytes {
        return Ok(());
    }
    Err(WeightsError::Malformed {
        path: PathBuf::from(path),
        problem: format!(
            "its tensors end at byte {reached}, but the file ends at byte {}; it is damaged: download it again",
            header.file_bytes
        ),
    })
}

fn shape_text(shape: &[u64]) -> String {
    let shown: Vec<String> = shape.iter().take(8).map(ToString::to_string).collect();
    format!("[{}{}]", shown.join(", "), if shape.len() > 8 { ", …" } else { "" })
}

#[derive(Deserialize)]
struct RawTensor<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The header as written. It is a vector and not a map, so that duplicate names can be found. A header can have
/// millions of tensors, so they are not copied later: `file_offset` and `bytes` are the two data offsets until they are
/// checked.
struct RawHeader {
    tensors: Vec<TensorInfo>,
    metadata: BTreeMap<String, String>,
}

/// Parses the JSON. `current` is the name of the tensor that is being parsed, for the error message.
fn read_raw(text: &str, current: &mut Option<String>) -> Result<RawHeader, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let raw = (&mut json).deserialize_map(HeaderReader(current))?;
    json.end()?;
    Ok(raw)
}

struct HeaderReader<'c>(&'c mut Option<String>);

impl<'de> Visitor<'de> for HeaderReader<'_> {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut raw = RawHeader { tensors: Vec::new(), metadata: BTreeMap::new() };
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                // The format allows only strings here. Other values are ignored.
                if let serde_json::Value::Object(entries) = map.next_value()? {
                    raw.metadata
                        .extend(entries.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))));
                }
                continue;
            }
            match map.next_value::<RawTensor<'de>>() {
                Ok(RawTensor { dtype, mut shape, data_offsets: (file_offset, bytes) }) => {
                    shape.shrink_to_fit();
                    raw.tensors.push(TensorInfo {
                        name,
                        dtype: dtype::interned(dtype),
                        shape,
                        shard: 0,
                        file_offset,
                        bytes,
                    });
                }
                Err(error) => {
                    *self.0 = Some(name);
                    return Err(error);
                }
            }
        }
        Ok(raw)
    }
}

/// The length of a file's header in bytes, without reading it. `None` if the file has none.
pub(crate) fn header_bytes(path: &Path) -> Option<u64> {
    let (mut file, file_bytes) = open_regular(path).ok()?;
    let mut length = [0_u8; 8];
    file.read_exact(&mut length).ok()?;
    Some(u64::from_le_bytes(length)).filter(|bytes| *bytes <= MAX_HEADER_BYTES && *bytes <= file_bytes)
}

/// The string values of `__metadata__`, even if the data of the file is damaged. `None` if the header cannot be
/// parsed.
pub(super) fn read_metadata(path: &Path) -> Option<BTreeMap<String, String>> {
    let (mut file, file_bytes) = open_regular(path).ok()?;
    let mut length = [0_u8; 8];
    file.read_exact(&mut length).ok()?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES || header_bytes > file_bytes {
        return None;
    }
    let mut text = vec![0_u8; header_bytes as usize];
    file.read_exact(&mut text).ok()?;
    Some(read_raw(std::str::from_utf8(&text).ok()?, &mut None).ok()?.metadata)
}
