//! A single call of a watched program, or a transfer that a call submitted.

use serde::{Deserialize, Deserializer, Serialize};

/// The function of a [`WatchedCall`] that is an entry of a batch.
pub const BATCH_ENTRY: &str = "batch entry";
/// The function of a [`WatchedCall`] that is a transfer on a stream.
pub const STREAM_TRANSFER: &str = "stream transfer";

/// A method that moves bytes. The order is that of their rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A transfer by cuFile.
    CuFile,
    /// A read by libc.
    Read,
    /// A copy by libcuda.
    Copy,
}

/// The process of a call that has not returned, at the end of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caller {
    /// It is the started program, whose end is known.
    Program,
    /// It is another process that was still running.
    Running,
    /// It is another process that ended in an unknown way, or the recording has not ended.
    #[default]
    Unknown,
}

/// One call, for timelines. Entries of batches and transfers on streams are also such calls, from their submission until
/// their end was seen. The fields from `offset` on are missing in recordings of earlier versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedCall {
    /// The process id.
    pub process: u32,
    /// The thread id. For a submitted transfer, the thread that submitted it.
    pub thread: u32,
    /// The function, [`BATCH_ENTRY`] or [`STREAM_TRANSFER`].
    pub function: String,
    /// The start in nanoseconds since the program started.
    pub start_ns: u64,
    /// The duration in nanoseconds.
    pub duration_ns: u64,
    /// The number of bytes that it requested.
    pub bytes: u64,
    /// The file. `None` for calls without a file and for batches with several files.
    pub file: Option<String>,
    /// The error that it returned, or the negative errno of a transfer that returned -1. 0 if it succeeded.
    pub error: i64,
    /// The offset in the file. A program can pass a negative one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "signed")]
    pub offset: Option<i64>,
    /// The largest power of two, at most 4096, that divides the offset, the size and the address of a transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<u64>,
    /// Whether the memory of a transfer is registered. `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<bool>,
    /// The flags argument of the call. For the registration of a file, the status flags of its descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<u64>,
    /// The number of transferred bytes, or a negative error code. `None` for functions that transfer nothing, and if it is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<i64>,
    /// Whether it is a transfer that writes to the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write: bool,
}

/// Reads an offset. Earlier recordings have it without a sign.
fn signed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Offset {
        Signed(i64),
        Unsigned(u64),
    }
    let offset = Option::<Offset>::deserialize(from)?;
    Ok(offset.map(|offset| match offset {
        Offset::Signed(offset) => offset,
        Offset::Unsigned(offset) => offset.cast_signed(),
    }))
}

impl WatchedCall {
    /// Whether it is a submitted transfer and no call. Transfers of one thread can overlap.
    #[must_use]
    pub fn is_submitted(&self) -> bool {
        [BATCH_ENTRY, STREAM_TRANSFER].contains(&self.function.as_str())
    }

    /// The method by which it moved bytes. `None` for calls that move none, such as registrations, and for calls that
    /// submit transfers, because the transfers move the bytes.
    #[must_use]
    pub fn method(&self) -> Option<Method> {
        match self.function.as_str() {
            "cuFileRead" | "cuFileWrite" | "cuFileReadv" | "cuFileWritev" | BATCH_ENTRY | STREAM_TRANSFER => {
                Some(Method::CuFile)
            }
            function if function.starts_with("cuMem") => Some(Method::Copy),
            function if !function.starts_with("cu") && function.contains("read") => Some(Method::Read),
            _ => None,
        }
    }

    /// The number of bytes that it moved.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        match (self.method(), self.result) {
            (None, _) => 0,
            (Some(_), Some(result)) => u64::try_from(result).unwrap_or(0),
            // The end of a submitted transfer without a result is not known.
            (Some(_), None) if self.error != 0 || self.is_submitted() => 0,
            (Some(_), None) => self.bytes,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_earlier_recordings_are_read_and_unknown_values_take_no_space() {
        let earlier = r#"{"process":1,"thread":2,"function":"cuFileRead","start_ns":3,"duration_ns":4,"bytes":5,"file":"/f","error":0}"#;
        let call: WatchedCall = serde_json::from_str(earlier).unwrap();
        assert_eq!((call.bytes, call.offset, call.registered, call.result, call.write), (5, None, None, None, false));
        assert_eq!(serde_json::to_string(&call).unwrap(), earlier);
    }

    #[test]
    fn a_negative_offset_has_its_sign_also_in_earlier_recordings() {
        let call = WatchedCall { offset: Some(-1), ..WatchedCall::default() };
        let text = serde_json::to_string(&call).unwrap();
        assert!(text.contains("\"offset\":-1"), "{text}");
        for earlier in [text.clone(), text.replace(":-1", ":18446744073709551615")] {
            assert_eq!(serde_json::from_str::<WatchedCall>(&earlier).unwrap(), call);
        }
    }

    #[test]
    fn only_calls_that_move_bytes_have_a_method() {
        let call = |function: &str, result, error| WatchedCall {
            function: function.to_owned(),
            bytes: 100,
            result,
            error,
            ..WatchedCall::default()
        };
        for (function, result, error, method, moved) in [
            ("cuFileRead", Some(60), 0, Some(Method::CuFile), 60),
            ("cuFileRead", None, 0, Some(Method::CuFile), 100),
            ("cuFileWrite", Some(-5), -5, Some(Method::CuFile), 0),
            ("cuFileBufRegister", None, 0, None, 0),
            ("cuFileReadAsync", None, 0, None, 0),
            ("cuFileBatchIOSubmit", None, 0, None, 0),
            (BATCH_ENTRY, Some(100), 0, Some(Method::CuFile), 100),
            (STREAM_TRANSFER, None, 0, Some(Method::CuFile), 0),
            ("__pread64_chk", Some(7), 0, Some(Method::Read), 7),
            ("mmap", None, 0, None, 0),
            ("cuMemcpyHtoDAsync", None, 0, Some(Method::Copy), 100),
            ("cuMemcpyHtoD", None, 700, Some(Method::Copy), 0),
        ] {
            let call = call(function, result, error);
            assert_eq!((call.method(), call.moved_bytes()), (method, moved), "{function}");
        }
    }
}
