//! Serves metrics over HTTP. The server is read-only, answers one request at a time and keeps no state for a client.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tiny_http::{Header, Method, Request, Response, Server};

/// The content type of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A server that is bound to its address.
pub struct MetricsServer {
    server: Arc<Server>,
}

impl MetricsServer {
    /// Binds the address, for example `127.0.0.1:9469`.
    ///
    /// # Errors
    /// When the address cannot be parsed or bound.
    pub fn bind(address: &str) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let server = Server::http(addresses.as_slice()).map_err(io::Error::other)?;
        Ok(Self { server: Arc::new(server) })
    }

    /// The address, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    /// A handle that ends [`MetricsServer::run`] from another thread.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let server = self.server.clone();
        move || server.unblock()
    }

    /// Answers requests until the stopper is called. `GET /metrics` returns the text of `page`.
    pub fn run(&self, mut page: impl FnMut() -> Vec<u8>) {
        while let Ok(request) = self.server.recv() {
            let path = request.url().split('?').next().unwrap_or_default();
            match (request.method(), path) {
                (Method::Get | Method::Head, "/metrics") => answer(request, 200, METRICS, page()),
                (Method::Get | Method::Head, "/") => {
                    answer(request, 200, "text/plain; charset=utf-8", b"gds-top: metrics are at /metrics\n".to_vec());
                }
                (Method::Get | Method::Head, _) => {
                    answer(request, 404, "text/plain; charset=utf-8", b"not found; metrics are at /metrics\n".to_vec());
                }
                _ => answer(request, 405, "text/plain; charset=utf-8", b"only GET is supported\n".to_vec()),
            }
        }
    }
}

/// If the client has disconnected, its response is dropped.
fn answer(request: Request, status: u16, kind: &str, body: Vec<u8>) {
    let mut response = Response::from_data(body).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    let _ = request.respond(response);
}
