//! The form of a chunk file: 4096 bytes of header, then the payload, layer by layer. The header alone shows whether a
//! file ends early, was written in part or holds another chunk; the checksum shows a damaged payload.

use super::keys::{Key, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Length of the header, so that the payload begins at a multiple of the page size.
pub const HEADER_BYTES: u64 = 4096;

const MAGIC: &[u8; 8] = b"GDSTOPKV";
/// Magic and length of the description before it, its checksum behind it.
const FIXED: usize = 12;
const SUM: usize = 32;

/// The fields of a chunk's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the form, 1.
    pub version: u32,
    /// The chunk's key, in hexadecimal digits.
    pub key: String,
    /// Tokens in it.
    pub tokens: u64,
    /// The shape by name.
    pub shape: String,
    /// Layers.
    pub layers: u64,
    /// Bytes behind the header.
    pub payload_bytes: u64,
    /// SHA-256 of those, in hexadecimal digits.
    pub payload_sha256: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub written_unix_ms: u64,
}

impl Header {
    /// The header as bytes.
    ///
    /// # Errors
    /// When the description does not fit.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let text = serde_json::to_vec(self).map_err(|e| format!("the chunk's header cannot be written: {e}"))?;
        let end = FIXED + text.len();
        if end + SUM > HEADER_BYTES as usize {
            return Err(format!("the chunk's header has {} bytes and must fit into {HEADER_BYTES}", end + SUM));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend(MAGIC);
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(&text);
        let sum: Key = Sha256::digest(&bytes).into();
        bytes.extend(sum);
        bytes.resize(HEADER_BYTES as usize, 0);
        Ok(bytes)
    }

    /// The header in these bytes.
    ///
    /// # Errors
    /// A sentence that names the wrong field.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let start = bytes.get(..FIXED).ok_or("it ends within its header")?;
        if &start[..8] != MAGIC {
            return Err("it does not begin as a chunk does".to_owned());
        }
        let length = u32::from_le_bytes([start[8], start[9], start[10], start[11]]) as usize;
        let end = FIXED.checked_add(length).filter(|end| end + SUM <= HEADER_BYTES as usize);
        let (text, sum) = end
            .and_then(|end| Some((bytes.get(FIXED..end)?, bytes.get(end..end + SUM)?)))
            .ok_or("it ends within its header")?;
        let expected: Key = Sha256::digest(&bytes[..FIXED + length]).into();
        if sum != expected {
            return Err("its header's checksum is wrong".to_owned());
        }
        let header: Self = serde_json::from_slice(text).map_err(|e| format!("its header is malformed: {e}"))?;
        if header.version != 1 {
            return Err(format!("its form has version {}, and 1 is known", header.version));
        }
        Ok(header)
    }
}

/// Whether a file is the complete chunk of this key: its header, and with `payload` the checksum of its payload.
/// `Ok(None)` if there is no file.
///
/// # Errors
/// A sentence with the reason: it cannot be read, was cut, is damaged or is another chunk.
pub fn examine(path: &Path, key: &Key, payload: bool) -> Result<Option<Header>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("it cannot be opened: {error}")),
    };
    let mut head = Vec::with_capacity(HEADER_BYTES as usize);
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    (&file).take(HEADER_BYTES).read_to_end(&mut head).map_err(unreadable)?;
    let header = Header::decode(&head)?;
    if header.key != hex(key) {
        return Err("it is the chunk of another key".to_owned());
    }
    let length = file.metadata().map_err(unreadable)?.len();
    if length != HEADER_BYTES + header.payload_bytes {
        return Err(format!("it has {length} bytes, and its header promises {}", HEADER_BYTES + header.payload_bytes));
    }
    if payload {
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
        if hex(&hash.finalize()) != header.payload_sha256 {
            return Err("its payload's checksum is wrong".to_owned());
        }
    }
    Ok(Some(header))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const KEY: Key = [7; 32];

    fn chunk(payload: &[u8]) -> Vec<u8> {
        let header = Header {
            version: 1,
            key: hex(&KEY),
            tokens: 256,
            shape: "tiny".to_owned(),
            layers: 2,
            payload_bytes: payload.len() as u64,
            payload_sha256: hex(&Sha256::digest(payload)),
            written_unix_ms: 1,
        };
        let mut bytes = header.encode().unwrap();
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_whole_chunk_is_found_and_an_absent_one_is_a_plain_miss() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chunk");
        assert_eq!(examine(&path, &KEY, true), Ok(None));
        std::fs::write(&path, chunk(&[3; 9000])).unwrap();
        assert_eq!(examine(&path, &KEY, true).unwrap().unwrap().payload_bytes, 9000);
        assert!(examine(&path, &[8; 32], false).unwrap_err().contains("another key"));
    }

    #[test]
    fn no_beginning_of_a_chunk_is_taken_for_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chunk");
        let whole = chunk(&[3; 5000]);
        for length in (0..whole.len()).step_by(97).chain([4095, 4096, whole.len() - 1]) {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(examine(&path, &KEY, false).is_err(), "{length} of {} bytes", whole.len());
        }
        std::fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
        assert!(examine(&path, &KEY, false).is_err(), "a byte too many");
    }

    #[test]
    fn a_changed_byte_of_the_header_or_the_payload_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chunk");
        let whole = chunk(&[3; 500]);
        let used = FIXED + u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize + SUM;
        for at in (0..used).chain(HEADER_BYTES as usize..whole.len()) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            let said = examine(&path, &KEY, true);
            assert!(said.is_err(), "byte {at}: {said:?}");
        }
    }
}
