//! A read-only view of a machine, either live or captured. The view collects facts and never judges them.

mod archive;
mod arguments;
mod block;
mod boot;
mod boot_default;
mod capture;
mod command;
mod confidential;
mod container;
mod cuda;
mod cufile_probe;
mod deb;
mod disks;
mod dkms;
mod driver;
mod driver_origin;
mod excluded;
mod ext4;
mod fabric;
mod folder;
mod fstab;
mod gone;
mod grub;
mod hardware;
mod image;
mod kconfig;
mod kept;
mod kernel_log;
mod kernel_thread;
mod kernels;
mod lenient;
mod libcufile;
mod library_owner;
mod live;
mod live_options;

mod mkinitcpio;
/// Parses modprobe.d.
pub mod modprobe;
mod module_list;
mod mounts;
mod next_kernel;
mod nvidia_fs;
mod nvme;
mod nvml;
mod ofed;
mod old_release;
/// The distribution family and its packages.
pub mod packages;
mod path_facts;
mod pci;
mod plain_name;
mod pod;
mod rdma;
mod recording;
mod redact;
pub mod registry;
mod release;
mod root;
mod secrets;
mod secure_boot;
mod smi;
mod starter;
mod summary;
mod symbols;
mod unit_file;
mod unread;
mod unstarted;
mod variable;
mod vgpu;
mod visible;

pub use arguments::{argument_command, renew_entries};
pub use block::{BlockDevice, BlockKind};
pub use boot::{Boot, BootLoader, boot_loader, initramfs};
pub use boot_default::{PINNED_BY_GRUB, PinnedEntry, pinned_entry, systemd_boot_entry};
pub use capture::{CAPTURE_SCHEMA_VERSION, CaptureError, Captured, is_archive_name};
pub use command::{CommandOutput, Ran, run_limited};
pub use confidential::confidential_guest;
pub use container::Container;
pub use cuda::{cuda_of_driver, cuda_packages, cuda_served, nvidia_driver};
pub use deb::{DebPackage, deb_packages, failed_initramfs, is_half_configured};
pub use disks::{
    VendorDriver, disks, local_multipath, map_id, nvme_controller, nvme_members, nvme_transports, software_device,
    udev_record_path, vendor_driver,
};
pub use dkms::{DkmsRow, build_again, build_log, dkms_rows, ofed_module_to_build};
pub use driver::{DRIVER_VERSION, Driver, ModuleInfo, module_info, precompiled_driver};
pub use driver_origin::{
    DriverOrigin, UbuntuDriver, driver_origin, following_kernel, modules_of_other_variants, nvidia_fs_of_ubuntu,
};
pub use excluded::{Excluded, excluded};
pub use ext4::{ext4_journal, ext4_mode, ext4_sets_ordered};
pub use fabric::{fabric_manager_package, fabric_manager_version, is_umad_loaded, runs_fabric};
pub use fstab::{FSTAB, PlannedMount, fstab_mounts, fstab_point, lacks_fstab_line, unmounted};
pub use gone::{device_of_uuid, gone_device};
pub use grub::{GRUB, GRUB_FOLDER, GrubArgument, grub_files, grub_lines, grub_value};
pub use hardware::{numa_node, storage};
pub use image::{ImageHost, driver_container, image_host, image_host_of_node};
pub use kconfig::{KernelConfig, built_in, kernel_config};
pub use kept::{Kept, kept};
pub use kernel_log::{KERNEL_LOG, KernelLog, Message, Source, kernel_log};
pub use kernels::{installed_kernels, is_foreign_kernel, kernel_with_p2pdma, release_numbers};
pub use libcufile::{CudaSeen, FoundLibrary, LibcufileFacts, OpenFacts};
pub use library_owner::{LibraryOwner, cufile_wheel, library_owner, library_pip, library_update};
pub use live_options::LiveOptions;
pub use mkinitcpio::without_modconf;
pub use module_list::has_module;
pub use mounts::{Mount, mount_for, parse_mountinfo};
pub use next_kernel::{
    GRUB_ENVIRONMENT, UnreadyKernel, default_entry, has_driver, next_kernel_release, ubuntu_driver, unready_kernel,
};
pub use nvidia_fs::{
    modules_disabled, nvidia_fs_builds, nvidia_fs_installed, nvidia_fs_known, nvidia_fs_loaded, refused_mappings,
};
pub use nvme::{
    MULTIPATHD_LOCAL, NVME_IOPOLICY, NVME_MULTIPATH, NVME_SUBSYSTEMS, NvmeMultipath, is_kernel_false, local_nvme_ids,
    multipathd_blacklist, multipathd_takes_nvme, nvme_has_single_paths, nvme_hidden_path, nvme_multipath,
    nvme_multipath_argument, nvme_subsystems,
};
pub use nvml::{GpuAttributes, NvmlFacts, NvmlGpu, PcieLink, has_display_mode};
pub use ofed::{MlnxOfed, mlnx_ofed};
pub use old_release::{OldRelease, debian_base, old_release, ubuntu_base};
pub use path_facts::{DirectRead, PathFacts, UnfinishedFile};
pub use pci::{Architecture, BRANCH_OF_BLACKWELL, GpuKind, PciGpu, PciNvidia, gpu_kinds, pci_gpus, pci_nvidia};
pub use plain_name::is_plain_name;
pub use pod::{assigned_gpus, pod_namespace};
pub use rdma::{RDMA_DEVICES, mellanox_card, rdma_devices, rdma_driver, rdma_without_mlx5};
pub use release::{is_aarch64, kernel_version, version_numbers, wsl};
pub use root::{KeptReads, MAX_TEXT_BYTES, Root};
pub use secrets::hidden as without_secrets;
pub use secure_boot::{
    AKMODS_CERTIFICATE, Enforcer, SecureBoot, Signature, dkms_certificate, enforcer, is_of_akmods, secure_boot,
    signature, signs_as_ubuntu,
};
pub use starter::{Starter, starter};
pub use summary::{
    container, kernel_release, machine, memory_bytes, nvidia_fs_version, nvidia_version_line, os_release,
};
pub use symbols::SYMBOLS;
pub use unit_file::{proc_of_processes, unit_files, unit_line};
pub use unread::{Denial, Unread};
pub use variable::{VariableLine, variable_line};
pub use vgpu::is_vgpu_guest;
pub use visible::{CUDA_VISIBLE_DEVICES, Visible, visible_gpus};
