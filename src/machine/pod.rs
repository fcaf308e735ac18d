//! The GPUs and the namespace of a pod of Kubernetes.

use super::root::Root;

/// The directory with the identity of a pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The GPUs that the device plugin of Kubernetes gave this pod, as the value of its variable. Images set the variable too,
/// but only to `all`.
#[must_use]
pub fn assigned_gpus(root: &Root) -> Option<String> {
    let value = root.variable("NVIDIA_VISIBLE_DEVICES")?;
    let is_named = value.starts_with("GPU-") || value.starts_with("MIG-");
    (is_named || value.split(',').all(|part| part.parse::<u32>().is_ok())).then_some(value)
}

/// The namespace of this pod.
#[must_use]
pub fn pod_namespace(root: &Root) -> Option<String> {
    let name = root.read_text(format!("{SERVICE_ACCOUNT}/namespace")).ok()?.trim().to_owned();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}
