//! The routes of cuFile reads.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The route by which bytes reach the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// DMA into GPU memory by the nvidia-fs kernel module.
    Nvfs,
    /// DMA into GPU memory with PCI P2PDMA of the kernel.
    P2pdma,
    /// The coherent link of Grace systems.
    C2c,
    /// RDMA from a client of a user-space file system.
    Rdma,
    /// libcufile reads into host memory with POSIX calls and copies the bytes to the GPU.
    Compat,
    /// No cuFile read works.
    #[default]
    None,
}

/// The evidence for the route of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteProof {
    /// There is no evidence.
    #[default]
    Nothing,
    /// There was no transfer, so there is no route.
    NoTransfer,
    /// All transfers failed.
    AllFailed,
    /// The level-3 statistics of libcufile count all transfers of the program on this route.
    Statistics,
    /// The level-3 statistics of libcufile count several routes, so the route of a single file is unknown.
    MixedStatistics,
    /// The level-3 statistics of libcufile count nvfs, but nvidia-fs is not loaded.
    NoModule,
    /// nvidia-fs counted reads while the program ran. Its counter includes the reads of all processes.
    NvidiaFsCounter,
    /// The route is inferred: the cufile.log of the process reports compat mode.
    ProcessLog,
    /// The route is inferred: nvidia-fs is not loaded, and P2PDMA is not configured.
    NoDirectRoute,
    /// There is no evidence, and a cufile.json or the environment may enable P2PDMA.
    SettingsMayEnableP2pdma,
    /// There is no evidence, and `cuFileSetParameterBool` enabled P2PDMA.
    ParameterEnablesP2pdma,
    /// There is no evidence, and `cuFileDriverSetP2PFlags` enabled P2PDMA.
    FlagsEnableP2pdma,
}

impl RouteProof {
    /// Whether there is no evidence, although bytes were transferred.
    #[must_use]
    pub const fn is_missing(self) -> bool {
        matches!(
            self,
            Self::Nothing | Self::SettingsMayEnableP2pdma | Self::ParameterEnablesP2pdma | Self::FlagsEnableP2pdma
        )
    }
}

impl Route {
    /// The direct routes: no byte passes through host memory.
    pub const DIRECT: [Self; 4] = [Self::Nvfs, Self::P2pdma, Self::C2c, Self::Rdma];

    /// Whether the route is direct.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Nvfs | Self::P2pdma | Self::C2c | Self::Rdma)
    }

    /// All routes, and the absence of one.
    pub const ALL: [Self; 6] = [Self::Nvfs, Self::P2pdma, Self::C2c, Self::Rdma, Self::Compat, Self::None];

    /// How bytes take the route. It is a sentence without a full stop.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Nvfs => {
                "a direct route: the kernel module nvidia-fs lets the disk or network card write into GPU memory"
            }
            Self::P2pdma => {
                "a direct route: NVMe disks write into GPU memory with PCI P2PDMA of the Linux kernel, without nvidia-fs"
            }
            Self::C2c => "a direct route of Grace machines: disks reach GPU memory over the coherent link (NVLink-C2C)",
            Self::Rdma => {
                "a direct route: the client of a network file system writes into GPU memory by RDMA, without host memory"
            }
            Self::Compat => {
                "compat mode, not a direct route: libcufile reads into host memory and copies the bytes to the GPU"
            }
            Self::None => "no route: cuFile cannot read this path",
        }
    }

    /// The name of the route.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nvfs => "nvfs",
            Self::P2pdma => "p2pdma",
            Self::C2c => "c2c",
            Self::Rdma => "rdma",
            Self::Compat => "compat",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
