//! Test data for drawing: invented machines and races that consist of events. Nothing here was measured.

use crate::core::{
    AppliedFix, Basis, Change, CheckId, Event, EventBody, Evidence, Finding, FixId, FixPlan, FixPolicy, FixProgress,
    FixRisk, FixStage, Gpu, Group, LibcufileSeen, Machine, ModelInfo, Needs, Route, ShardInfo, Status, TensorInfo,
    Verdict,
};
mod loads;
mod measured;
mod others;

pub(crate) use measured::{grid, kv, offers, several};
pub(crate) use others::{in_use, many_tensors, unseen};

use crate::session::State;
use loads::race;
use std::path::PathBuf;

/// A situation to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Checks are arriving, and there is no verdict yet.
    Loading,
    /// The third run is loading.
    Live,
    /// All runs were successful.
    Done,
    /// One run died, one engine cannot run, and no route works.
    Failed,
    /// A machine without a GPU.
    NoGpu,
}

impl Scene {
    /// All scenes.
    pub(crate) const ALL: [Self; 5] = [Self::Loading, Self::Live, Self::Done, Self::Failed, Self::NoGpu];

    /// The name of the scene in file names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Live => "live",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::NoGpu => "no-gpu",
        }
    }
}

const MS: u64 = 1_000_000;
const UUID: &str = "GPU-00000000-0000-0000-0000-000000000001";

/// The events of a scene in the order of time.
pub(crate) fn events(scene: Scene) -> Vec<Event> {
    let mut tape = Tape { events: Vec::new(), at_ns: 0 };
    tape.put(EventBody::SessionStarted {
        tool: "gds-top 0.1.0".into(),
        unix_ms: 1_760_000_000_000,
        command: String::new(),
        directory: String::new(),
        left_out_variables: Vec::new(),
    });
    tape.put(EventBody::MachineSeen { machine: machine(scene != Scene::NoGpu) });
    for finding in findings(scene) {
        tape.wait(12 * MS);
        tape.put(EventBody::CheckDone { finding });
        if scene == Scene::Loading && tape.events.len() > 12 {
            return tape.events;
        }
    }
    tape.put(EventBody::VerdictReached { verdict: verdict(scene) });
    tape.put(EventBody::ChecksDone { took_ns: tape.at_ns });
    if scene != Scene::NoGpu {
        tape.put(EventBody::FixPlanned { plan: udev_plan() });
    }
    tape.wait(30 * MS);
    tape.put(EventBody::ModelOpened { model: model() });
    race(&mut tape, scene);
    tape.events
}

/// The state of a scene.
pub(crate) fn state(scene: Scene) -> State {
    let mut state = State::default();
    events(scene).iter().for_each(|event| state.reduce(event));
    state
}

/// The state of a scene in which a fix was applied up to this stage.
pub(crate) fn fixing(stage: FixStage) -> State {
    let mut state = state(Scene::Failed);
    let messages = [
        (FixStage::Applying, "writing /run/udev/data/b254:0"),
        (FixStage::Verifying, "written; the check runs again"),
        (FixStage::Fixed, "✔ udev-database passes now: cuFile can register files of this disk"),
    ];
    for (at, text) in messages {
        let finding = (at == FixStage::Fixed).then(|| Finding { status: Status::Pass, ..udev_finding() });
        if at == FixStage::Fixed {
            let fix = AppliedFix { plan: udev_plan(), at_unix_s: state.started_unix_ms / 1000, in_effect: true };
            let body = EventBody::FixesApplied { applied: vec![fix] };
            state.reduce(&Event { at_ns: state.now_ns, body });
        }
        let progress = FixProgress { id: FixId::UdevRecord, stage: at, text: text.into(), finding };
        state.reduce(&Event { at_ns: state.now_ns + 5 * MS, body: EventBody::FixProgress { progress } });
        if at == stage {
            break;
        }
    }
    state
}

struct Tape {
    events: Vec<Event>,
    at_ns: u64,
}

impl Tape {
    fn put(&mut self, body: EventBody) {
        self.events.push(Event { at_ns: self.at_ns, body });
    }

    fn wait(&mut self, ns: u64) {
        self.at_ns += ns;
    }
}

fn machine(gpu: bool) -> Machine {
    Machine {
        host: "node-17".into(),
        kernel: "6.8.0".into(),
        distribution: "Ubuntu 24.04.2 LTS".into(),
        cpus: 32,
        memory_bytes: 256 << 30,
        gpus: if gpu {
            vec![Gpu {
                index: 0,
                uuid: UUID.into(),
                name: "NVIDIA H200".into(),
                pci_bus_id: "0000:8d:00.0".into(),
                compute_capability: Some("9.0".into()),
                memory_total_bytes: Some(141 << 30),
                bar1_total_bytes: Some(256 << 30),
                pcie_generation: Some((5, 5)),
                pcie_width: Some((16, 16)),
                numa_node: Some(0),
            }]
        } else {
            Vec::new()
        },
        driver: gpu.then(|| "580.159.04 open".into()),
        cuda: gpu.then(|| "13.0".into()),
        libcufile: Some(LibcufileSeen { path: "/usr/lib/libcufile.so.0".into(), version: Some("1.15.1".into()) }),
        nvidia_fs: None,
        container: None,
        ..Machine::default()
    }
}

#[allow(clippy::expect_used, reason = "the ids are constants")]
fn finding(id: &str, group: Group, status: Status, summary: &str) -> Finding {
    Finding {
        id: id.parse().expect("the id of a check"),
        group,
        status,
        summary: summary.into(),
        evidence: vec![Evidence { source: "/proc/modules".into(), text: summary.to_lowercase() }],
        why: "It decides whether a read can reach the GPU without a stop in host memory.".into(),
        blocks: Vec::new(),
        fix: None,
        advice: None,
        command: None,
        cause: None,
        permanent: false,
        facts: Vec::new(),
    }
}

fn udev_finding() -> Finding {
    Finding {
        id: CheckId::UdevDatabase,
        group: Group::Files,
        status: Status::Fail,
        summary: "cuFile cannot register any file on this disk: error 5027.".into(),
        evidence: vec![
            Evidence { source: "read".into(), text: "/run/udev/data/b254:0 does not exist".into() },
            Evidence { source: "cufile.log".into(), text: "udev property not found: ID_FS_USAGE".into() },
        ],
        why: "libcufile asks udev for the file system of the disk; containers often lack /run/udev, and then every cuFile call \
              fails, compat too."
            .into(),
        blocks: vec![Route::Nvfs, Route::P2pdma, Route::Compat],
        fix: Some(FixId::UdevRecord),
        advice: Some("in a container: start it with -v /run/udev:/run/udev:ro".into()),
        command: None,
        cause: None,
        permanent: false,
        facts: Vec::new(),
    }
}

fn findings(scene: Scene) -> Vec<Finding> {
    use Status::{Fail, Info, Na, Pass, Warn};
    if scene == Scene::NoGpu {
        return vec![
            finding("gpu-present", Group::Gpu, Na, "No NVIDIA GPU was found: neither a driver nor a device."),
            finding("kernel-version", Group::Kernel, Pass, "Linux 6.8 is recent enough for P2PDMA."),
            finding("fs-type", Group::Files, Pass, "ext4 on /dev/vda1."),
            finding("odirect-open", Group::Files, Pass, "A file opens with O_DIRECT."),
            finding("lib-found", Group::Cufile, Pass, "libcufile 1.15.1 opens."),
            finding("lim-memlock", Group::Limits, Warn, "Locked memory is limited to 8 MiB."),
        ];
    }
    let mut all = vec![
        finding("gpu-present", Group::Gpu, Pass, "One GPU: NVIDIA H200."),
        finding("driver-version", Group::Gpu, Pass, "Driver 580.159.04, open kernel modules."),
        finding("gpu-bar1-size", Group::Gpu, Pass, "BAR1 covers all of the GPU's memory."),
        finding("nvfs-loaded", Group::NvidiaFs, Na, "Not needed for P2PDMA."),
        finding("nvfs-version", Group::NvidiaFs, Na, "The module is not loaded."),
        finding("kernel-version", Group::Kernel, Pass, "Linux 6.8 is recent enough for P2PDMA."),
        finding("kernel-p2pdma", Group::Kernel, Pass, "CONFIG_PCI_P2PDMA is set."),
        finding("iommu-state", Group::Kernel, Warn, "The IOMMU translates; peer reads may take a detour."),
        finding("pcie-topology", Group::Storage, Info, "The disk and the GPU are on different root ports."),
        finding("fs-type", Group::Files, Pass, "ext4 on /dev/vda1."),
        finding("odirect-open", Group::Files, Pass, "A file opens with O_DIRECT."),
        finding("ext4-ordered", Group::Files, Warn, "ext4 does not show data=ordered."),
        finding("lib-found", Group::Cufile, Pass, "libcufile 1.15.1 opens."),
        finding("cfg-p2p-both", Group::Cufile, Warn, "use_pci_p2pdma is not set in /etc/cufile.json."),
        finding("log-location", Group::Cufile, Pass, "The log is writable."),
        finding("lim-memlock", Group::Limits, Pass, "Locked memory is not limited."),
    ];
    if scene == Scene::Failed {
        all.push(udev_finding());
        all.push(Finding {
            cause: Some(CheckId::UdevDatabase),
            ..finding("lib-open-probe", Group::Cufile, Fail, "A test file could not be registered: 5027.")
        });
    }
    all
}

fn verdict(scene: Scene) -> Verdict {
    let (route, possible, blockers): (_, _, &[CheckId]) = match scene {
        Scene::NoGpu => (Route::None, Route::None, &[]),
        Scene::Failed => (Route::None, Route::P2pdma, &[CheckId::UdevDatabase, CheckId::CfgP2pBoth]),
        Scene::Done => (Route::P2pdma, Route::P2pdma, &[]),
        _ => (Route::Compat, Route::P2pdma, &[CheckId::GpuStaticBar1, CheckId::CfgP2pBoth]),
    };
    Verdict {
        path: "/data/models".into(),
        gpu: (scene != Scene::NoGpu).then(|| UUID.into()),
        route,
        possible,
        proven: matches!(scene, Scene::Done | Scene::Live),
        proof: if matches!(scene, Scene::Done | Scene::Live) {
            "cuFile level-3 statistics".into()
        } else {
            "no read was made".into()
        },
        basis: if scene == Scene::NoGpu { Basis::NoGpu } else { Basis::Checks },
        blockers: blockers.to_vec(),
        steps: blockers.to_vec(),
        gpu_name: None,
        caveat: None,
        advice: String::new(),
    }
}

fn udev_plan() -> FixPlan {
    FixPlan {
        id: FixId::UdevRecord,
        check: CheckId::UdevDatabase,
        title: "write the missing udev record".into(),
        why: "libcufile reads ID_FS_USAGE and ID_FS_TYPE of the disk from this record and refuses the file without it."
            .into(),
        changes: vec![
            Change::WriteFile {
                path: "/run/udev/data/b254:0".into(),
                before: None,
                after: "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\nE:DEVTYPE=disk\nG:systemd\n".into(),
                mode: 0o644,
            },
            Change::Run { argv: vec!["udevadm".into(), "info".into(), "--query=property".into(), "/dev/vda".into()] },
        ],
        needs: Needs::Root,
        risk: FixRisk::Low,
        policy: FixPolicy::Ask,
        undo_commands: Vec::new(),
        remaining: Vec::new(),
        verify: "the check runs again and libcufile registers a test file".into(),
        undo: "remove the record".into(),
        obstacle: None,
    }
}

/// A model with the shape of a 7B model: few large tensors and many tiny ones.
fn model() -> ModelInfo {
    const LAYER: [(&str, u64); 12] = [
        ("input_layernorm.weight", 7_168),
        ("mlp.down_proj.weight", 135_790_592),
        ("mlp.gate_proj.weight", 135_790_592),
        ("mlp.up_proj.weight", 135_790_592),
        ("post_attention_layernorm.weight", 7_168),
        ("self_attn.k_proj.bias", 1_024),
        ("self_attn.k_proj.weight", 3_670_016),
        ("self_attn.o_proj.weight", 25_690_112),
        ("self_attn.q_proj.bias", 7_168),
        ("self_attn.q_proj.weight", 25_690_112),
        ("self_attn.v_proj.bias", 1_024),
        ("self_attn.v_proj.weight", 3_670_016),
    ];
    const HEADER: u64 = 16_384;
    let mut sizes =
        vec![("model.embed_tokens.weight".to_owned(), 1_089_994_752), ("lm_head.weight".to_owned(), 1_089_994_752)];
    for layer in 0..28 {
        sizes.extend(LAYER.iter().map(|(name, bytes)| (format!("model.layers.{layer}.{name}"), *bytes)));
    }
    sizes.push(("model.norm.weight".to_owned(), 7_168));
    let mut offsets = [HEADER; 4];
    let tensors = sizes
        .into_iter()
        .enumerate()
        .map(|(i, (name, bytes))| {
            let shard = (i / 85).min(3);
            let file_offset = offsets[shard];
            offsets[shard] += bytes;
            let (dtype, shape) = ("BF16".into(), vec![bytes / 2]);
            TensorInfo { name, dtype, shape, shard: shard as u32, file_offset, bytes }
        })
        .collect();
    let shards = (0..4)
        .map(|n| ShardInfo {
            path: PathBuf::from(format!("/data/models/Qwen2.5-7B/model-{:05}-of-00004.safetensors", n + 1)),
            file_bytes: offsets[n],
            data_offset: HEADER,
        })
        .collect();
    ModelInfo { name: "Qwen2.5-7B".into(), path: "/data/models/Qwen2.5-7B".into(), shards, tensors, synthetic: None }
}
