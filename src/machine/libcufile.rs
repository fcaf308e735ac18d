//! The facts about libcufile, in the format of `libcufile.json` of a captured machine.

use super::lenient;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The facts about libcufile, in the format of `libcufile.json`. The child process of a live probe prints the same
/// format to its standard output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LibcufileFacts {
    /// The reason why the facts are missing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::text")]
    pub error: Option<String>,
    /// Each library name that was tried, with the loader's error message if loading failed.
    #[serde(default, deserialize_with = "lenient::list")]
    pub tried: Vec<serde_json::Value>,
    /// Each libcufile that was found.
    #[serde(default, deserialize_with = "lenient::list")]
    pub found: Vec<FoundLibrary>,
    /// Path of the libcufile that is used.
    #[serde(default, deserialize_with = "lenient::text")]
    pub chosen: Option<String>,
    /// The result of `cuFileDriverOpen`; `None` if it was not called.
    #[serde(default, deserialize_with = "lenient::part")]
    pub open: Option<OpenFacts>,
    /// The result of `cuFileDriverGetProperties`, unchanged.
    #[serde(default)]
    pub properties: serde_json::Value,
    /// The result of `cuFileDriverGetP2PFlags`: a bit mask by transport (1 P2PDMA, 2 nvidia-fs, 4 DMABUF, 8 C2C, 16
    /// peermem; cufile.h, since 1.16).
    #[serde(default, deserialize_with = "masks")]
    pub p2p_flags: Option<BTreeMap<String, u64>>,
    /// The parameters of cuFile by name.
    #[serde(default)]
    pub parameters: serde_json::Value,
    /// The permitted ranges of the parameters by name.
    #[serde(default)]
    pub ranges: serde_json::Value,
    /// CUDA attributes of each GPU, read by the same child process. Empty if the driver was not opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient::list")]
    pub cuda: Vec<CudaSeen>,
    /// Whether the caller requested that the driver is not opened.
    #[serde(skip)]
    pub left_closed: bool,
    /// Whether the library was not probed: the capture has no `libcufile.json`, or the view may not probe.
    #[serde(skip)]
    pub unasked: bool,
}

/// Attributes of a CUDA device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaSeen {
    /// UUID of the GPU in the format of NVML.
    #[serde(default, deserialize_with = "lenient::string")]
    pub uuid: String,
    /// The attributes, in the format of `nvml.json`.
    #[serde(flatten)]
    pub attributes: super::nvml::GpuAttributes,
}

/// A libcufile that was found on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLibrary {
    /// The path of the file.
    #[serde(default, deserialize_with = "lenient::string")]
    pub path: String,
    /// Version, for example `1.15`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub version: Option<String>,
}

/// The result of opening the cuFile driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFacts {
    /// The cuFile error code, 0 for success; `None` if the call did not return.
    #[serde(default, deserialize_with = "lenient::signed32")]
    pub code: Option<i32>,
    /// The CUDA error code that was returned with it.
    #[serde(default, deserialize_with = "lenient::signed32")]
    pub cuda_code: Option<i32>,
    /// The standard output of the library.
    #[serde(default, deserialize_with = "lenient::string")]
    pub stdout: String,
    /// The standard error of the library. Configuration errors appear only there.
    #[serde(default, deserialize_with = "lenient::string")]
    pub stderr: String,
    /// Whether the process was killed at the time limit.
    #[serde(default, deserialize_with = "lenient::yes")]
    pub timed_out: bool,
}

fn masks<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, u64>>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_object().map(|map| map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_u64()?))).collect()))
}

impl LibcufileFacts {
    /// The version of the chosen library.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        let chosen = self.chosen.as_deref()?;
        self.found.iter().find(|f| f.path == chosen)?.version.as_deref()
    }

    /// The version of the chosen library as (major, minor).
    #[must_use]
    pub fn version_numbers(&self) -> Option<(u32, u32)> {
        let mut parts = self.version()?.split('.').map(|part| part.parse::<u32>().ok());
        Some((parts.next()??, parts.next().flatten().unwrap_or(0)))
    }

    /// Facts that contain only an error, because the probe failed.
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), unasked: true, ..Self::default() }
    }
}
