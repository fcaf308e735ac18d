//! Tests that the advice can be followed: each step once, in the order of work, with the required rights, and only
//! routes that are possible on the machine.

use crate::fixtures::check;
use crate::machine::fixtures;
use gds_top::checks::matrix::{GpuClass, Storage, is_closed};
use gds_top::core::{Route, Status};

#[test]
fn network_cards_are_examined_for_file_systems_over_rdma() {
    let of = |name: &str, id: &str| {
        let finding = check(name).finding(id).unwrap_or_else(|| panic!("{name}: no {id}")).clone();
        (finding.status, finding.summary, finding.advice.unwrap_or_default())
    };
    let (status, summary, _) = of("rdma-near", "rdma-affinity");
    assert_eq!((status, summary.as_str()), (Status::Pass, "mlx5_0 and GPU 0000:be:00.0 share a root port"));
    let (status, summary, advice) = of("rdma-far", "rdma-affinity");
    assert_eq!(status, Status::Info, "{summary}");
    assert!(summary.contains("0000:be:00.0") && advice.contains("rdma_dev_addr_list"), "{summary} {advice}");
    let (status, summary, advice) = of("rdma-far", "cfg-rdma-policy");
    assert_eq!(status, Status::Warn, "{summary}");
    assert!(summary.contains("'roundrobin'") && advice.contains("RoundRobinMaxMin"), "{summary} {advice}");
    assert_eq!(of("rdma-near", "cfg-rdma-policy").0, Status::Pass);
    let (status, summary, advice) = of("rdma-shared", "cfg-rdma-policy");
    assert_eq!(status, Status::Info, "{summary}");
    assert!(advice.contains("RoundRobinMaxMin"), "{advice}");
    assert!(check("p2pdma-healthy").finding("cfg-rdma-policy").is_none(), "a local disk needs no policy");
}

#[test]
fn each_step_is_advised_once_in_the_order_of_work() {
    for name in fixtures() {
        for verdict in check(&name).verdicts {
            let mut steps: Vec<&str> = verdict.steps.iter().map(String::as_str).collect();
            let place = |id: &str| verdict.steps.iter().position(|step| step == id);
            // nvidia-fs is built against the NVMe driver.
            if let (Some(driver), Some(module)) = (place("nvfs-nvme-symbol"), place("nvfs-loaded")) {
                assert!(driver < module, "{name}: {steps:?}");
            }
            let count = steps.len();
            steps.sort_unstable();
            steps.dedup();
            assert_eq!(steps.len(), count, "{name}: {}", verdict.advice);
            // There is one numbered sentence for each step, and none occurs twice.
            let numbered = (2..9).filter(|number| verdict.advice.contains(&format!(" {number}. "))).count();
            assert!(count == 0 || numbered < count, "{name}: {}", verdict.advice);
        }
    }
}

#[test]
fn a_route_that_this_machine_cannot_have_is_not_advised() {
    for name in ["amazon-t4", "linux-6-17-t4", "vgpu-ada", "arm-without-grace"] {
        let report = check(name);
        let advice = report.finding("nvfs-nvme-symbol").unwrap().advice.clone().unwrap();
        assert!(!advice.contains("P2PDMA") && !report.verdicts[0].advice.contains("P2PDMA"), "{name}: {advice}");
    }
    let paths = check("disk-with-two-paths");
    let advice = paths.finding("nvme-multipath").unwrap().advice.clone().unwrap();
    assert!(advice.starts_with("Keep multipath on"), "{advice}");
    let amazon = check("amazon-t4").finding("nvfs-nvme-symbol").unwrap().advice.clone().unwrap();
    assert!(amazon.contains("Amazon Linux 2023"), "{amazon}");
}

#[test]
fn advice_names_the_needed_rights_once() {
    for name in fixtures() {
        for verdict in check(&name).verdicts {
            for step in verdict.advice.split(". ") {
                let says_sudo = step.contains("sudo") || step.matches("as root").count() > 1;
                let adds = step.contains("(as root") || step.contains("(no root");
                assert!(!(says_sudo && adds), "{name}: {step}");
            }
        }
    }
}

#[test]
fn no_verdict_promises_a_route_that_the_matrix_closes() {
    for (name, gpu, storage) in [
        ("geforce", Some(GpuClass::GeForce), Some(Storage::Nvme)),
        ("volta", Some(GpuClass::Volta), Some(Storage::Nvme)),
        ("lvm", None, Some(Storage::Mapped)),
        ("ebs-volume", None, Some(Storage::OtherDisk)),
        ("overlay-root", None, Some(Storage::Layered)),
        ("nfs-tcp", None, Some(Storage::Tcp)),
        ("lustre", None, Some(Storage::KernelClient)),
        ("weka", None, Some(Storage::UserRdma)),
        ("dgx-spark", Some(GpuClass::Integrated), None),
        ("vgpu", Some(GpuClass::OldVgpu), None),
        ("grace", Some(GpuClass::Grace), Some(Storage::Nvme)),
    ] {
        for verdict in check(name).verdicts {
            for route in [verdict.route, verdict.possible] {
                assert!(route == Route::None || !is_closed(gpu, storage, route), "{name}: {route}");
            }
        }
    }
}
