//! Tests that findings and their advice name the facts that decide: the key, the file, the value and its absence.

use crate::fixtures::check;
use gds_top::core::Finding;

fn finding(name: &str, id: &str) -> Finding {
    check(name).finding(id).unwrap_or_else(|| panic!("{name}: no {id}")).clone()
}

#[test]
fn a_key_that_is_not_enrolled_has_the_command_that_enrols_it() {
    let advice = finding("nvfs-mok", "nvfs-secureboot").advice.unwrap();
    assert!(advice.contains("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der"), "{advice}");
}

#[test]
fn a_translating_iommu_is_a_problem_of_nvidia_fs_only() {
    let found = finding("iommu-on", "iommu-state");
    assert!(found.summary.ends_with("a problem for nvidia-fs, not for P2PDMA"), "{}", found.summary);
}
