//! Machines whose answers were written down before they were run: what an expert would say of each, from NVIDIA's documents, the sources of nvidia-fs and
//! threads of users.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check_support;

use check_support::{judge, unseen_hosts, unseen_more, unseen_storage, unseen_systems};

#[test]
fn file_systems() {
    judge(unseen_storage::filesystems());
}

#[test]
fn routes_over_rdma() {
    judge(unseen_storage::fabrics());
}

#[test]
fn block_devices_in_layers() {
    judge(unseen_storage::stacks());
}

#[test]
fn processors_and_drivers() {
    judge(unseen_hosts::machines());
}

#[test]
fn kernels_and_distributions() {
    judge(unseen_systems::systems());
}

#[test]
fn containers_and_settings() {
    judge(unseen_systems::settings());
}

#[test]
fn what_the_first_round_left_out() {
    judge(unseen_more::more());
}
