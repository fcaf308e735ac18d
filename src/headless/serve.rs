//! Serves metrics over HTTP. The server is read-only. One thread answers all clients, with limits on connections,
//! time and size, because any user of the machine can connect and no client may block the others.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The content type of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
/// Maximum number of open connections. If one more arrives, the oldest is closed.
const MOST_CLIENTS: usize = 64;
/// Time limit of a connection.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum size of a request with its headers, in bytes.
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// Maximum number of bytes behind a request that are dropped before the connection is closed.
const MOST_DROPPED_BYTES: usize = 64 << 10;
/// Interval between the checks of the stop request and of the deadlines.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A server that is bound to its address.
pub struct MetricsServer {
    listener: TcpListener,
    stopped: Arc<AtomicBool>,
}

/// The phase of a connection.
enum Phase {
    /// The request so far.
    Reads(Vec<u8>),
    /// The answer, and the number of its bytes that were sent.
    Writes(Vec<u8>, usize),
    /// The answer was sent, and further bytes of the client are dropped. If the connection were closed before they
    /// arrive, the answer could be lost.
    Drains(usize),
}

struct Client {
    stream: TcpStream,
    since: Instant,
    phase: Phase,
}

impl MetricsServer {
    /// Binds the address, for example `127.0.0.1:9469`.
    ///
    /// # Errors
    /// When the address cannot be parsed or bound.
    pub fn bind(address: &str) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let listener = TcpListener::bind(addresses.as_slice())?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, stopped: Arc::default() })
    }

    /// The address, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// A handle that ends [`MetricsServer::run`] from another thread.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let stopped = self.stopped.clone();
        move || stopped.store(true, Ordering::SeqCst)
    }

    /// Answers requests until the stopper is called. `GET /metrics` returns the text of `page`.
    pub fn run(&self, mut page: impl FnMut() -> Vec<u8>) {
        let mut clients: Vec<Client> = Vec::new();
        while !self.stopped.load(Ordering::SeqCst) {
            wait(&self.listener, &clients);
            self.accept(&mut clients);
            // A request that arrived during the checks is answered, even if its time limit has passed.
            clients.retain_mut(|client| client.step(&mut page) && client.since.elapsed() < LONGEST);
        }
    }

    /// Accepts all new connections.
    fn accept(&self, clients: &mut Vec<Client>) {
        // At most as many connections as can be kept are accepted at once, so that many new connections do not delay
        // the answers.
        for _ in 0..MOST_CLIENTS {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if clients.len() >= MOST_CLIENTS {
                        clients.remove(0);
                    }
                    if stream.set_nonblocking(true).is_ok() {
                        clients.push(Client { stream, since: Instant::now(), phase: Phase::Reads(Vec::new()) });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Without a free descriptor the connection stays in the queue and the listener stays ready. A
                // pause, or closing the oldest connection, prevents a busy loop.
                Err(_) => {
                    if clients.is_empty() {
                        std::thread::sleep(LONGEST / 100);
                    } else {
                        clients.remove(0);
                    }
                    return;
                }
            }
        }
    }
}

/// Waits until a connection arrives or can continue.
fn wait(listener: &TcpListener, clients: &[Client]) {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    for client in clients {
        let wanted = if matches!(client.phase, Phase::Writes(..)) { PollFlags::OUT } else { PollFlags::IN };
        fds.push(PollFd::new(&client.stream, wanted));
    }
    // A signal ends the wait early. The next turn waits again.
    let _ = poll(&mut fds, Some(&TICK));
}

impl Client {
    /// Continues as far as possible without waiting. Returns false if the connection must be closed.
    fn step(&mut self, page: &mut impl FnMut() -> Vec<u8>) -> bool {
        let mut bytes = [0; 4096];
        loop {
            let moved = match &mut self.phase {
                Phase::Writes(answer, sent) => self.stream.write(&answer[*sent..]),
                Phase::Reads(_) | Phase::Drains(_) => self.stream.read(&mut bytes),
            };
            let count = match moved {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            };
            match &mut self.phase {
                Phase::Reads(request) => {
                    request.extend_from_slice(&bytes[..count]);
                    if let Some(answer) = answer(request, page) {
                        self.phase = Phase::Writes(answer, 0);
                    }
                }
                Phase::Writes(answer, sent) => {
                    *sent += count;
                    if *sent == answer.len() {
                        let _ = self.stream.shutdown(std::net::Shutdown::Write);
                        self.phase = Phase::Drains(0);
                    }
                }
                // Each turn reads one part, so that a client that never stops sending does not delay the others.
                Phase::Drains(dropped) => {
                    *dropped += count;
                    return *dropped < MOST_DROPPED_BYTES;
                }
            }
        }
    }
}

/// The answer to a request. `None` if the end of the request has not arrived.
fn answer(request: &[u8], page: &mut impl FnMut() -> Vec<u8>) -> Option<Vec<u8>> {
    let has_ended = [&b"\r\n\r\n"[..], b"\n\n"].iter().any(|end| request.windows(end.len()).any(|part| part == *end));
    if !has_ended {
        let too_long = request.len() > MOST_REQUEST_BYTES;
        return too_long
            .then(|| response("431 Request Header Fields Too Large", PLAIN, b"the request is too long\n", true));
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace());
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let with_body = method != b"HEAD";
    Some(match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => response("200 OK", METRICS, &page(), with_body),
        (b"GET" | b"HEAD", b"/") => response("200 OK", PLAIN, b"gds-top: metrics are at /metrics\n", with_body),
        (b"GET" | b"HEAD", _) => response("404 Not Found", PLAIN, b"not found; metrics are at /metrics\n", with_body),
        _ => response("405 Method Not Allowed", PLAIN, b"only GET is supported\n", true),
    })
}

fn response(status: &str, kind: &str, body: &[u8], with_body: bool) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    let mut complete = head.into_bytes();
    if with_body {
        complete.extend_from_slice(body);
    }
    complete
}
