//! Tests `gds-top export` with the real program over a socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(folder: &std::path::Path) -> Self {
        Self::started(&mut program::gds_top(), folder)
    }

    fn started(command: &mut std::process::Command, folder: &std::path::Path) -> Self {
        let mut child =
            command.args(["export", "--listen", "127.0.0.1:0"]).arg(folder).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().trim_end_matches("/metrics").to_owned();
        Self { child, address }
    }

    /// Sends a request and returns the status and the body.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        write!(socket, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn metrics_are_served_and_everything_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(folder.path());
    let (status, page) = exporter.ask("GET /metrics");
    assert_eq!(status, 200);
    for family in
        gds_top::report::FAMILIES.iter().take(3).map(|family| family.name).filter(|name| !name.contains("route"))
    {
        assert!(page.lines().any(|line| line.starts_with(family)), "{family} is missing:\n{page}");
    }
    // Every series belongs to a family that was declared before.
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(page.contains(&format!("# TYPE {name} ")), "{line}");
    }
    assert_eq!(exporter.ask("GET /etc/passwd").0, 404);
    assert_eq!(exporter.ask("GET /../metrics").0, 404);
    assert_eq!(exporter.ask("POST /metrics").0, 405);
    assert_eq!(exporter.ask("GET /").0, 200);
}

#[test]
fn a_signal_ends_the_server_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut exporter = Exporter::start(folder.path());
    let pid = rustix::process::Pid::from_child(&exporter.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_address_or_path_that_cannot_be_used_is_wrong_usage() {
    for arguments in [&["--listen", "nonsense"][..], &["--listen", "127.0.0.1:0", "/no/such/folder"]] {
        let out = program::gds_top().arg("export").args(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8(out.stderr).unwrap().lines().count(), 1);
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let mut page = include_str!("../docs/metrics.md").to_owned();
    for (mark, families) in
        [("metrics", gds_top::report::FAMILIES.to_vec()), ("top", gds_top::report::top_families().collect())]
    {
        page = with_table(&page, mark, &families);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    if std::env::var_os("GDS_TOP_UPDATE_DOCS").is_some() {
        std::fs::write(path, page).unwrap();
    } else {
        assert_eq!(std::fs::read_to_string(path).unwrap(), page, "run the test with GDS_TOP_UPDATE_DOCS=1");
    }
}

/// The page with a table of these families between two marks.
fn with_table(page: &str, mark: &str, families: &[gds_top::report::Family]) -> String {
    let mut table = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for family in families {
        let kind = match family.kind {
            gds_top::report::Kind::Gauge => "gauge",
            gds_top::report::Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!("| `{}` | {kind} | {} | {} |\n", family.name, labels.join(" "), family.help));
    }
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->\n"));
    let (before, rest) = page.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{table}{end}{after}")
}

/// Any user of the machine can connect.
#[test]
fn clients_that_hold_connections_or_send_without_end_do_not_stop_the_answers() {
    let folder = tempfile::tempdir().unwrap();
    // The server has fewer descriptors than there are connections.
    let exporter = Exporter::started(
        program::started_by("sh").args(["-c", "ulimit -n 100; exec \"$@\"", "sh", program::PROGRAM]),
        folder.path(),
    );
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut socket = TcpStream::connect(&exporter.address).unwrap();
        // The server may have closed this connection to accept a newer one.
        let _ = socket.write_all(b"GET /met");
        held.push(socket);
    }
    assert_eq!(exporter.ask("GET /metrics").0, 200);
    let mut endless = TcpStream::connect(&exporter.address).unwrap();
    let sent = (0..200_000).take_while(|_| endless.write_all(&[b'a'; 1024]).is_ok()).count();
    assert!(sent < 200_000, "200 MB of one request were taken");
    assert_eq!(exporter.ask("GET /metrics").0, 200);
    drop(held);
    assert_eq!(exporter.ask("GET /metrics").0, 200);
}
