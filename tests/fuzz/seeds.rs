//! Examples of each format: the corpus in `tests/corpus`, and other files of the repository.

use crate::targets;
use gds_top::core::{LaneId, PackedSpans, Phase, Span};
use gds_top::workloads::kv;
use std::fs;
use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The examples of a format.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    let mut all = corpus(target);
    match target {
        "safetensors-header" => {
            let head = br#"{"__metadata__":{"format":"pt"},"model.embed":{"dtype":"BF16","shape":[8,4],"data_offsets":[0,64]},"b":{"dtype":"F32","shape":[],"data_offsets":[64,68]}}"#;
            all.push(head.to_vec());
            all.push([&(head.len() as u64).to_le_bytes(), head.as_slice(), &[0; 68]].concat());
        }
        "safetensors-index" => all.push(
            br#"{"metadata":{"total_size":4},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#.to_vec(),
        ),
        "recording" => {
            for name in ["h200-no-udev", "h200-io", "h200-kv-ucm-layers"] {
                let path = repository(&format!("assets/recordings/{name}.gdsrec"));
                let lines = zstd::decode_all(fs::File::open(path).unwrap()).unwrap();
                // Examples contain complete lines, so that mutations do not only affect the first events.
                let lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() < 8_000).collect();
                for part in lines[1..].chunks(lines.len() / 4 + 1) {
                    let short = part.iter().step_by(part.len() / 40 + 1).copied();
                    all.push(std::iter::once(lines[0]).chain(short).collect::<Vec<_>>().concat());
                }
            }
        }
        "recording-file" => all.push(fs::read(repository("assets/recordings/h200-io.gdsrec")).unwrap()),
        "capture-archive" => all.push(zstd::encode_all(tar().as_slice(), 3).unwrap()),
        "capture-tar" => all.push(tar()),
        "capture-folder" => {
            for (number, (_, bytes)) in targets::machine_files().iter().enumerate() {
                let content = &bytes[..bytes.len().min(usize::from(u16::MAX))];
                let head = [(number as u16).to_le_bytes(), (content.len() as u16).to_le_bytes()].concat();
                all.push([head, content.to_vec()].concat());
            }
        }
        "cufile-json" => {
            for entry in fs::read_dir(repository("profiles")).unwrap().flatten() {
                let bytes = if entry.path().is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
                if String::from_utf8_lossy(&bytes).contains("properties") {
                    all.push(bytes);
                }
            }
            all.push(br#"{ // comment
                "logging": { "dir": "/tmp", "level": "ERROR" },
                "properties": { "max_direct_io_size_kb": 16384, "allow_compat_mode": true, "use_pci_p2pdma": false, "rdma_dev_addr_list": [], },
                "fs": { "generic": { "posix_unaligned_writes": false }, "lustre": { "mount_table": { "1.2.3.4@tcp": { "rdma_dev_addr_list": ["a"] } } } },
            }"#.to_vec());
        }
        "settings" => all.push(uncommented(&gds_top::config::Settings::template())),
        "theme" => all.extend(
            gds_top::config::theme_template(gds_top::config::ThemeName::Dark).map(String::into_bytes),
        ),
        "run-frames" => all.push(frames()),
        "line-protocol" => all.push(
            b"{\"program\":\"x 1\"}\n{\"ready\":true,\"at_ns\":5}\n{\"phase\":\"transfer\",\"ns\":5,\"slot\":1,\"bytes\":7,\"at_ns\":9}\n{\"landed\":7}\n{\"done\":true,\"bytes\":7}\n{\"verified\":true,\"note\":\"n\",\"error\":\"e\"}\n{\"supervisor\":{\"code\":0,\"signal\":null,\"cpu_ns\":1,\"left\":2}}\n".to_vec(),
        ),
        "audit-ring" => all.push(ring()),
        "probe-hits" => all.push(hits()),
        "fleet-report" => all.push(fleet()),
        "kv-chunk" => all.push(chunk()),
        "kv-shape" => {
            all.push(br#"{"name":"s","layers":2,"kv_heads":8,"head_dim":128,"bytes_per_element":2}"#.to_vec());
            all.extend(below("profiles/kv"));
        }
        "serving-config" => {
            all.push(b"chunk_size: 256\nlocal_disk: \"file:///data/\"\ngds_path: &a /data\nextra_config: {use_gds: true, list: [*a, 1.5, ~]}\n".to_vec());
            all.push(br#"{"kv_connector":"LMCacheConnectorV1","kv_connector_extra_config":{"shared_storage_path":"/data","gds_mode":"read_write"}}"#.to_vec());
            all.push(b"vllm serve m --kv-transfer-config '{\"kv_connector\":\"OffloadingConnector\"}' --max-model-len 8192".to_vec());
        }
        "kv-store" => {
            all.push(chunk());
            all.push(br#"{"gpu_blocks_per_file":16,"model_name":"m","blocks_per_file":4}"#.to_vec());
        }
        "logs" => all.push(LOGS.as_bytes().to_vec()),
        _ => {}
    }
    all
}

const LOGS: &str = " 23-11-2026 01:00:00:123 [pid=7 tid=8] ERROR  cufio-fs:190 error getting volume attributes error for device: dev_no: 259:0\n\
 NOTICE  cufio-drv:720 running in compatible mode\n[ 12.3] nvidia-fs: loading out-of-tree module taints kernel.\n\
[ 13.1] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n cuFileHandleRegister error 5030 (file system type not supported)\n";

/// Inputs that were found earlier, and files that were written by hand.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    below(&format!("tests/corpus/{target}"))
}

fn below(folder: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(repository(folder)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn tar() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let long = format!("machine/files/{}/x", "long".repeat(40));
    for (path, bytes) in
        [("machine/capture.json", "{\"schema_version\":1}"), ("machine/files/proc/modules", "nvme 1 0\n"), (&long, "y")]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, bytes.as_bytes()).unwrap();
    }
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "machine/files/sys/link", "../proc/modules").unwrap();
    builder.into_inner().unwrap()
}

fn uncommented(template: &str) -> Vec<u8> {
    let lines =
        template.lines().map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

fn frames() -> Vec<u8> {
    let span =
        Span { slot: 1, phase: Phase::Transfer, tensor: Some(3), start_ns: 5, end_ns: 9, bytes: 4096, offset: 8 };
    let spans = serde_json::to_value(PackedSpans::pack(&[span, Span { slot: 2, ..span }])).unwrap();
    let lines = [
        serde_json::json!({"at_monotonic_ns": 1, "lane": "stage", "stage": "loading"}),
        serde_json::json!({"at_monotonic_ns": 2, "lane": "progress", "landed_bytes": 1, "pinned_bytes": 2, "verified_bytes": 3}),
        serde_json::json!({"at_monotonic_ns": 3, "lane": "spans", "spans": spans}),
        serde_json::json!({"at_ns": 3, "event": "lane_spans", "lane": LaneId(0), "spans": spans}),
        serde_json::json!({"at_monotonic_ns": 4, "lane": "said", "level": "warn", "text": "x"}),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// A ring with calls of all functions on one file.
fn ring() -> Vec<u8> {
    use cufile_audit::layout::{Function, RING_HEADER_BYTES, Record, kind, ring};
    let mut records = Vec::new();
    let text = |text: &str| {
        let mut words = [0_u64; 16];
        words[0] = Record::head(kind::TEXT, 0, 0);
        for (word, eight) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..eight.len()].copy_from_slice(eight);
            *word = u64::from_le_bytes(bytes);
        }
        Record::from_words(words)
    };
    for (at, function) in Function::ALL.iter().enumerate() {
        let named = matches!(function, Function::HandleRegister);
        records.push(Record {
            head: Record::head(*function as u16, 0, u32::from(named)),
            start_ns: at as u64 * 10,
            end_ns: at as u64 * 10 + 5,
            object: 7,
            size: 4096,
            result: 4096,
            extra: [0, 0, 0, 0, 0, 0, if named { 6 } else { 0 }],
            ..Record::default()
        });
        if named {
            records.push(text("/a/b/c"));
        }
    }
    records.push(Record { head: Record::head(kind::LIBRARY, 0, 1), extra: [0, 0, 0, 0, 0, 0, 4], ..Record::default() });
    records.push(text("/lib"));
    records.push(Record { head: Record::head(kind::STATISTICS, 0, 1), extra: [3; 7], ..Record::default() });
    records.push(Record { head: Record::head(kind::STATISTICS, 0, 0), size: 9, extra: [3; 7], ..Record::default() });
    let mut header = vec![0_u8; RING_HEADER_BYTES];
    let at = ring::WRITTEN * 8;
    header[at..at + 8].copy_from_slice(&(records.len() as u64).to_le_bytes());
    let words = records.iter().flat_map(|record| record.words()).flat_map(u64::to_le_bytes);
    header.into_iter().chain(words).collect()
}

/// The entry and the return of each function, with arguments on the stack.
fn hits() -> Vec<u8> {
    use cufile_audit::layout::Function;
    let stack = 0x7000_u64;
    let mut words: Vec<u64> = Vec::new();
    for (at, function) in Function::ALL.iter().enumerate() {
        for at_return in [0, 1] {
            let at_ns = at as u64 * 10 + at_return;
            let result = if matches!(function, Function::Read | Function::Write) { 4096 } else { 0 };
            words.extend([*function as u64 | at_return << 16, at_ns, result]);
            // The arguments, and the stack to which they point.
            words.extend([7, stack, 1, stack + 8, stack + 16, stack + 24, stack]);
            words.extend([1, 5, 4096, 0, 4096, 9, 0, 0]);
        }
    }
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn fleet() -> Vec<u8> {
    let path = repository("assets/recordings/h200-no-udev.gdsrec");
    let mut state = gds_top::session::State::default();
    for event in gds_top::session::recording::read(&path).unwrap() {
        state.reduce(&event.unwrap());
    }
    let mut text = Vec::new();
    gds_top::report::write_json(&state, &mut text).unwrap();
    text
}

fn chunk() -> Vec<u8> {
    let payload = vec![5_u8; 64];
    let header = kv::Header {
        shape: [2, 2, 4, 4],
        dtype: "U8".to_owned(),
        format: 2,
        payload_bytes: payload.len() as u64,
        payload_sha256: None,
    };
    [header.encode().unwrap(), payload].concat()
}
