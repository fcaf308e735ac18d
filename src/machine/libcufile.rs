//! The facts about libcufile, in the format of `libcufile.json` of a captured machine.

use super::lenient;
use super::root::Root;
use crate::text::quoted;
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

/// The installer of a libcufile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryOwner {
    /// A package of the system or NVIDIA's installer.
    System,
    /// A Python package, with the interpreter of its environment. Frameworks load this copy by an RPATH, which
    /// LD_LIBRARY_PATH does not override (pytorch, .ci/manywheel/build_common.sh).
    Wheel(String),
    /// A conda environment, by its folder.
    Conda(String),
}

/// The installer of the libcufile at `path`.
#[must_use]
pub fn library_owner(root: &Root, path: &str) -> LibraryOwner {
    let packages = ["/site-packages/nvidia/", "/dist-packages/nvidia/"].into_iter().find_map(|part| path.find(part));
    if let Some(packages) = packages {
        let (prefix, version) = path[..packages].rsplit_once("/lib/").unwrap_or(("", "python3"));
        let version = version.split('/').next().unwrap_or("python3");
        // These folders belong to the interpreter of the system.
        let is_of_system = matches!(prefix, "" | "/usr" | "/usr/local") || prefix.ends_with("/.local");
        return LibraryOwner::Wheel(if is_of_system { version.to_owned() } else { format!("{prefix}/bin/python3") });
    }
    let prefix = ["/targets/", "/lib/"].into_iter().find_map(|part| path.split_once(part)).map(|(prefix, _)| prefix);
    let is_conda = |prefix: &&str| prefix.contains("conda") || root.exists(format!("{prefix}/conda-meta"));
    prefix.filter(is_conda).map_or(LibraryOwner::System, |prefix| LibraryOwner::Conda(prefix.to_owned()))
}

/// The Python package that contains libcufile for a major CUDA version.
#[must_use]
pub const fn cufile_wheel(major: u32) -> Option<&'static str> {
    match major {
        13.. => Some("nvidia-cufile"),
        12 => Some("nvidia-cufile-cu12"),
        _ => None,
    }
}

/// The command that updates a library of a Python or conda environment to a release of CUDA `major` with P2PDMA, or to
/// any release of it. `None` for other libraries.
#[must_use]
pub fn library_update(root: &Root, path: &str, major: u32) -> Option<String> {
    // 1.15 is the first release of CUDA 13.
    let range = if major >= 13 { ">=1.15" } else { ">=1.13,<1.15" };
    match library_owner(root, path) {
        LibraryOwner::System => None,
        LibraryOwner::Wheel(python) => {
            let wheel = cufile_wheel(major)?;
            Some(format!("{} -m pip install --upgrade '{wheel}{range}'", quoted(&python)))
        }
        LibraryOwner::Conda(prefix) => {
            Some(format!("conda install -p {} -c conda-forge 'libcufile{range}'", quoted(&prefix)))
        }
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_updated_by_what_installed_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("srv/env/conda-meta")).unwrap();
        let root = Root::tree(folder.path()).unwrap();
        for (path, major, wanted) in [
            (
                "/usr/local/lib/python3.10/dist-packages/nvidia/cufile/lib/libcufile.so.0",
                12,
                Some("python3.10 -m pip install --upgrade 'nvidia-cufile-cu12>=1.13,<1.15'"),
            ),
            (
                "/opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcufile.so.0",
                13,
                Some("/opt/venv/bin/python3 -m pip install --upgrade 'nvidia-cufile>=1.15'"),
            ),
            (
                "/home/me/.local/lib/python3.11/site-packages/nvidia/cufile/lib/libcufile.so.0",
                12,
                Some("python3.11 -m pip install --upgrade 'nvidia-cufile-cu12>=1.13,<1.15'"),
            ),
            (
                "/opt/conda/envs/rapids/lib/libcufile.so.0",
                12,
                Some("conda install -p /opt/conda/envs/rapids -c conda-forge 'libcufile>=1.13,<1.15'"),
            ),
            (
                "/srv/env/targets/x86_64-linux/lib/libcufile.so.0",
                13,
                Some("conda install -p /srv/env -c conda-forge 'libcufile>=1.15'"),
            ),
            ("/usr/local/cuda-12.8/targets/x86_64-linux/lib/libcufile.so.0", 12, None),
            ("/usr/lib/x86_64-linux-gnu/libcufile.so.0", 12, None),
        ] {
            assert_eq!(library_update(&root, path, major).as_deref(), wanted, "{path}");
        }
    }
}
