//! The format of a chunk in LMCache's GDS back end (`lmcache/v1/storage_backend/gds_backend.py`). A chunk is a file
//! that begins with a safetensors header of 4096 bytes, and a file `.metadata` with a copy of that header. LMCache
//! has no checksum. gds-top adds one in a field that LMCache ignores, so that a damaged payload can be detected.

use super::keys::{Key, hex};
use super::shape::Shape;
use crate::trust::open_regular;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Length of the header in bytes. With it, the payload begins at a multiple of the page size.
pub const HEADER_BYTES: u64 = 4096;
/// Suffix of a chunk's file name.
pub const DATA_SUFFIX: &str = ".kvcache.safetensors";
/// Suffix of a chunk's file name while it is being written.
pub(super) const PARTIAL_SUFFIX: &str = ".kvcache.safetensors.tmp";
/// Suffix that is appended to the chunk's name for its metadata.
pub const METADATA_SUFFIX: &str = ".metadata";

/// Size in bytes of the field with the header's length.
const FIXED: usize = 8;
/// LMCache's version of the format.
const VERSION: &str = "1";
/// Name of the field with the checksum.
const CHECKSUM: &str = "gds_top_sha256";
/// `MemoryFormat.KV_2LTD`: the keys of all layers, followed by the values.
const KEYS_AND_VALUES: u64 = 1;
/// `MemoryFormat.KV_MLA_FMT`: a single vector per token and layer.
const LATENT: u64 = 6;

/// The fields of a chunk's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Vectors of a token in a layer, layers, tokens, and elements of a vector.
    pub shape: [u64; 4],
    /// Element type in the notation of safetensors.
    pub dtype: String,
    /// LMCache's number for the order of the dimensions.
    pub format: u64,
    /// Number of bytes after the header.
    pub payload_bytes: u64,
    /// SHA-256 of the payload in hexadecimal digits; `None` for chunks that LMCache wrote.
    pub payload_sha256: Option<String>,
}

impl Header {
    /// The header of a chunk with this number of tokens.
    #[must_use]
    pub fn of(shape: &Shape, tokens: u64, payload_sha256: Option<String>) -> Self {
        Self {
            shape: [shape.vectors(), shape.layers, tokens, shape.kv_heads * shape.head_size],
            dtype: safetensors_name(&shape.dtype).to_owned(),
            format: if shape.mla { LATENT } else { KEYS_AND_VALUES },
            payload_bytes: tokens * shape.token_bytes(),
            payload_sha256,
        }
    }

    /// Encodes the header.
    ///
    /// # Errors
    /// Fails if the fields do not fit into the header.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let mut more = json!({"lmcache_version": VERSION});
        if let (Some(sum), Some(fields)) = (&self.payload_sha256, more.as_object_mut()) {
            fields.insert(CHECKSUM.to_owned(), json!(sum));
        }
        let text = json!({"kvcache": {
            "dtype": self.dtype, "shape": self.shape, "data_offsets": [0, self.payload_bytes], "fmt": self.format,
            "__metadata__": more,
        }})
        .to_string();
        let room = HEADER_BYTES as usize - FIXED;
        if text.len() > room {
            return Err(format!("the chunk's header has {} bytes, but must fit into {room}", text.len()));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend((room as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(HEADER_BYTES as usize, b' ');
        Ok(bytes)
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// Returns a sentence with the invalid field.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (length, text) = bytes.split_first_chunk::<FIXED>().ok_or("it ends within its header")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let text = (length <= HEADER_BYTES as usize - FIXED).then(|| text.get(..length)).flatten();
        let text = text.ok_or("it does not begin like a chunk of LMCache")?;
        let all: Value = serde_json::from_slice(text).map_err(|e| format!("its header is malformed: {e}"))?;
        let chunk = &all["kvcache"];
        let version = chunk["__metadata__"]["lmcache_version"].as_str().unwrap_or("none");
        if version != VERSION {
            return Err(format!("its format has version {version:.20?}; the known version is {VERSION}"));
        }
        let wrong = |field: &str| format!("its header has no valid {field}");
        let numbers = |field: &str| -> Result<Vec<u64>, String> {
            let list = chunk[field].as_array().ok_or_else(|| wrong(field))?;
            list.iter().map(|number| number.as_u64().ok_or_else(|| wrong(field))).collect()
        };
        let [0, payload_bytes] = numbers("data_offsets")?[..] else { return Err(wrong("data_offsets")) };
        Ok(Self {
            shape: numbers("shape")?.try_into().map_err(|_| wrong("shape"))?,
            dtype: chunk["dtype"].as_str().ok_or_else(|| wrong("dtype"))?.to_owned(),
            format: chunk["fmt"].as_u64().ok_or_else(|| wrong("fmt"))?,
            payload_bytes,
            payload_sha256: chunk["__metadata__"][CHECKSUM].as_str().map(str::to_owned),
        })
    }
}

/// The path of a chunk below the root, without its suffix. LMCache derives the directories from the decimal digits of the
/// hash. The name is the key with percent encoding: `model@world_size@worker@hash@dtype`.
pub(super) fn file_name(shape: &Shape, key: &Key) -> PathBuf {
    let hash = key.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    // The directories need four digits, so small numbers are padded.
    let digits = format!("{hash:04}");
    let name = format!("{}@1@0@{hash:x}@{}", shape.name, key_dtype(&shape.dtype));
    [&digits[..2], &digits[2..4], &quoted(&name)].iter().collect()
}

/// The path of a chunk's metadata.
pub(super) fn metadata_of(chunk: &Path) -> PathBuf {
    let mut name = chunk.as_os_str().to_owned();
    name.push(METADATA_SUFFIX);
    name.into()
}

/// Percent encoding like Python's `urllib.parse.quote` without safe characters.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'~');
    let each = text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    each.collect()
}

/// The element type in a chunk's header.
fn safetensors_name(dtype: &str) -> &str {
    match dtype {
        "F8_E4M3" => "F8E4M3FN",
        "F8_E5M2" => "F8E5M2",
        other => other,
    }
}

/// The element type in a chunk's key.
fn key_dtype(dtype: &str) -> &str {
    match dtype {
        "BF16" => "bfloat16",
        "F16" => "half",
        "F32" => "float",
        "F8_E4M3" => "fp8_e4m3fn",
        "F8_E5M2" => "fp8_e5m2",
        other => other,
    }
}

/// The header of a complete chunk. Like LMCache, it reads the metadata and checks the length of the chunk. With
/// `payload`, the checksum is compared too, if there is one. `Ok(None)` if there is no metadata, which LMCache treats
/// as a miss.
///
/// # Errors
/// Returns a sentence with the reason: the chunk cannot be read, is cut or is damaged.
pub fn examine(path: &Path, payload: bool) -> Result<Option<Header>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let head = |path: &Path| -> Result<Option<(File, Vec<u8>)>, String> {
        let file = match open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("it cannot be opened: {error}")),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        (&file).take(HEADER_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
        Ok(Some((file, bytes)))
    };
    let Some((_, metadata)) = head(&metadata_of(path))? else { return Ok(None) };
    let header = Header::decode(&metadata)?;
    let Some((file, begins)) = head(path)? else {
        return Err("its metadata exists, but the chunk does not".to_owned());
    };
    if begins != metadata {
        return Err("its header and its metadata differ".to_owned());
    }
    let length = file.metadata().map_err(unreadable)?.len();
    if length != HEADER_BYTES + header.payload_bytes {
        return Err(format!("it has {length} bytes, but its header requires {}", HEADER_BYTES + header.payload_bytes));
    }
    if let Some(sum) = header.payload_sha256.as_ref().filter(|_| payload) {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        let mut at = HEADER_BYTES;
        while at < length {
            let want = ((length - at) as usize).min(buffer.len());
            match file.read_at(&mut buffer[..want], at).map_err(unreadable)? {
                0 => return Err("it became shorter while it was read".to_owned()),
                got => {
                    hash.update(&buffer[..got]);
                    at += got as u64;
                }
            }
        }
        if hex(&hash.finalize()) != *sum {
            return Err("its payload's checksum is wrong".to_owned());
        }
    }
    Ok(Some(header))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { name: "meta/Tiny".into(), ..Shape::named("llama-3.1-8b").unwrap() }
    }

    fn stored(folder: &Path, payload: &[u8]) -> (PathBuf, Vec<u8>) {
        let sum = Some(hex(&Sha256::digest(payload)));
        let header = Header { payload_bytes: payload.len() as u64, ..Header::of(&shape(), 256, sum) };
        let head = header.encode().unwrap();
        let path = folder.join("chunk");
        std::fs::write(metadata_of(&path), &head).unwrap();
        let complete = [&head[..], payload].concat();
        std::fs::write(&path, &complete).unwrap();
        (path, complete)
    }

    #[test]
    fn a_header_has_the_bytes_that_lmcache_packs_and_its_reader_needs() {
        let bytes = Header::of(&shape(), 256, None).encode().unwrap();
        assert_eq!(bytes.len(), 4096);
        // The expected bytes are those of `struct.pack("<Q", 4088)`, the JSON text and spaces.
        assert_eq!(bytes[..8], 4088_u64.to_le_bytes());
        let text = std::str::from_utf8(&bytes[8..]).unwrap().trim_end_matches(' ');
        let expected = json!({"kvcache": {"dtype": "BF16", "shape": [2, 32, 256, 1024], "data_offsets": [0, 33_554_432],
            "fmt": 1, "__metadata__": {"lmcache_version": "1"}}});
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);
        let mla = Shape::named("deepseek-v3").unwrap();
        assert_eq!((Header::of(&mla, 64, None).shape, Header::of(&mla, 64, None).format), ([1, 61, 64, 576], 6));
    }

    #[test]
    fn a_header_that_lmcache_packed_is_read() {
        // `json.dumps` of Python writes a space after each comma and colon.
        let mut bytes = 4088_u64.to_le_bytes().to_vec();
        bytes.extend(
            br#"{"kvcache": {"dtype": "F16", "shape": [2, 3, 256, 64], "data_offsets": [0, 196608], "fmt": 1, "__metadata__": {"lmcache_version": "1"}}}"#,
        );
        bytes.resize(4096, b' ');
        let header = Header::decode(&bytes).unwrap();
        assert_eq!((header.shape, header.payload_bytes, header.payload_sha256), ([2, 3, 256, 64], 196_608, None));
        let version = bytes.windows(5).position(|w| w == br#": "1""#).unwrap() + 3;
        bytes[version] = b'2';
        assert!(Header::decode(&bytes).unwrap_err().contains("version"));
    }

    #[test]
    fn a_chunk_is_named_as_lmcache_names_it() {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&0x0123_4567_89ab_cdef_u64.to_be_bytes());
        // `str(0x0123456789abcdef)` is 81985529216486895.
        assert_eq!(
            file_name(&shape(), &key).to_str().unwrap(),
            "81/98/meta%2FTiny%401%400%40123456789abcdef%40bfloat16"
        );
        assert_eq!(quoted("a b~%/\u{e9}"), "a%20b~%25%2F%C3%A9");
    }

    #[test]
    fn a_complete_chunk_is_found_and_one_without_metadata_is_a_miss() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(examine(&folder.path().join("chunk"), true), Ok(None));
        let (path, _) = stored(folder.path(), &[3; 9000]);
        assert_eq!(examine(&path, true).unwrap().unwrap().payload_bytes, 9000);
        std::fs::remove_file(metadata_of(&path)).unwrap();
        assert_eq!(examine(&path, true), Ok(None));
    }

    #[test]
    fn a_truncated_chunk_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let (path, complete) = stored(folder.path(), &[3; 5000]);
        for length in (0..complete.len()).step_by(97).chain([4095, 4096, complete.len() - 1]) {
            std::fs::write(&path, &complete[..length]).unwrap();
            assert!(examine(&path, false).is_err(), "{length} of {} bytes", complete.len());
        }
        std::fs::write(&path, [&complete[..], &[0]].concat()).unwrap();
        assert!(examine(&path, false).is_err(), "a byte too many");
        for length in [0, 7, 8, 100, 4095] {
            std::fs::write(metadata_of(&path), &complete[..length]).unwrap();
            assert!(examine(&path, false).is_err(), "{length} bytes of metadata");
        }
    }

    #[test]
    fn a_changed_byte_of_the_header_or_the_payload_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, complete) = stored(folder.path(), &[3; 500]);
        for at in (0..complete.len()).step_by(7) {
            let mut damaged = complete.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            assert!(examine(&path, true).is_err(), "byte {at}");
        }
    }
}
