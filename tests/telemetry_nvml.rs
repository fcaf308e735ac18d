//! Tests the sampler with a stand-in for NVML. Its values are not measurements; only the path to the sample is
//! tested.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod standins;

use gds_top::core::{Metric, Sample};
use gds_top::telemetry::{GpuRef, Sampler, SamplerConfig};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time limit of the test. It only prevents that the test hangs.
const PATIENCE: Duration = Duration::from_secs(180);

fn sampler(nvml: &Path, gpu: GpuRef) -> (Sampler, Receiver<Sample>) {
    let (send, samples) = channel();
    let config = SamplerConfig {
        // A GPU reading that is older than three intervals is left out, and threads of a busy machine are late. So
        // the interval is long.
        interval: Duration::from_millis(500),
        gpu: Some(gpu),
        nvml_library: Some(nvml.to_owned()),
        model_device: None,
    };
    let sampler = Sampler::start(config, move |sample| drop(send.send(sample))).unwrap();
    (sampler, samples)
}

#[test]
fn the_meters_of_the_gpu_reach_the_samples_and_stop_when_told() {
    let Some(standins) = standins::build() else { return };
    for gpu in [GpuRef::Index(0), GpuRef::Uuid("GPU-7374616e-642d-696e-2047-505520202020".to_owned())] {
        let (sampler, samples) = sampler(&standins.nvml, gpu.clone());
        let start = Instant::now();
        let sample = loop {
            let sample = samples.recv_timeout(PATIENCE).unwrap();
            if sample.values.contains_key(&Metric::GpuMemoryBytes) {
                break sample;
            }
            assert!(start.elapsed() < PATIENCE, "{gpu:?}: {:?}", sampler.gpu_problem());
        };
        // The values of the stand-in: 1 GiB in use, and 1 MiB of BAR1.
        assert_eq!(sample.values[&Metric::GpuMemoryBytes], f64::from(1 << 30));
        assert_eq!(sample.values[&Metric::Bar1UsedBytes], f64::from(1 << 20));
        for metric in
            [Metric::GpuUtilizationPercent, Metric::PcieRxBytesPerS, Metric::PcieTxBytesPerS, Metric::PowerWatts]
        {
            assert!(sample.values.contains_key(&metric), "{metric:?}");
        }
        assert_eq!(sampler.gpu_problem(), None);
        sampler.set_gpu(None);
        while samples.recv_timeout(PATIENCE).unwrap().values.contains_key(&Metric::GpuMemoryBytes) {
            assert!(start.elapsed() < 2 * PATIENCE);
        }
        assert!(sampler.stop().samples > 1);
    }
}

#[test]
fn a_gpu_that_nvml_does_not_know_is_a_reason_in_words() {
    let Some(standins) = standins::build() else { return };
    let (sampler, samples) = sampler(&standins.nvml, GpuRef::Index(99));
    let start = Instant::now();
    while sampler.gpu_problem().is_none() {
        let sample = samples.recv_timeout(PATIENCE).unwrap();
        assert!(!sample.values.contains_key(&Metric::GpuMemoryBytes));
        assert!(start.elapsed() < PATIENCE);
    }
    assert!(sampler.gpu_problem().unwrap().contains("GPU number 99"));
}
