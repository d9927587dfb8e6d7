//! The server thread: connections and their limits.

use crate::api::Sight;
use crate::error::ConsoleError;
use crate::priority::give_way;
use crate::routes::Site;
use crate::samples::Samples;
use crate::taps::Taps;
use crate::token::{Guard, Token};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use postroom::Host;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

/// Limits on the number and duration of connections.
#[derive(Clone, Copy)]
struct Limits {
    /// Maximum number of simultaneous connections; others wait in the system's queue.
    connections: usize,
    /// Time limit for the headers of a request.
    headers_within: Duration,
    /// Time limit for a connection that is not a watch.
    request_within: Duration,
    /// Time limit for a watch, slightly longer than a watch lasts.
    watch_within: Duration,
}

const LIMITS: Limits = Limits {
    connections: 16,
    headers_within: Duration::from_secs(10),
    request_within: Duration::from_secs(30),
    watch_within: Duration::from_secs(660),
};
/// Maximum size of the headers in bytes.
const HEADERS: usize = 64 << 10;
/// Number of abnormal ends that are kept, and also of stalls and of dead letters.
const INCIDENTS: usize = 1_000;
/// Delay before retrying after `accept` fails, for example because no file descriptor is free.
const AGAIN: Duration = Duration::from_millis(100);

/// A running console: a thread that serves one address. Dropping it ends the console.
#[must_use = "the console ends when this is dropped"]
#[derive(Debug)]
pub struct Console {
    address: SocketAddr,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Console {
    /// Returns the address that the console listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the page, with the token. **Anyone who has this URL has access**: do not write it where
    /// others can read it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the console and waits until its address is free.
    pub fn stop(self) {
        drop(self);
    }

    pub(crate) fn serve(
        host: Host,
        listener: TcpListener,
        token: Token,
        hosts: Vec<String>,
        may_act: bool,
    ) -> Result<Self, ConsoleError> {
        Self::serve_within(LIMITS, host, listener, token, hosts, may_act)
    }

    fn serve_within(
        limits: Limits,
        host: Host,
        listener: TcpListener,
        token: Token,
        hosts: Vec<String>,
        may_act: bool,
    ) -> Result<Self, ConsoleError> {
        let lacks = |error: std::io::Error| ConsoleError::System(error.to_string());
        let address = listener.local_addr().map_err(lacks)?;
        listener.set_nonblocking(true).map_err(lacks)?;
        let url = format!("http://{address}/?token={}", token.text());
        let (incidents, samples) = (host.incidents(INCIDENTS), Samples::start(host).map_err(lacks)?);
        let sight = Sight { host, may_act, incidents, samples, taps: Taps::default() };
        let site = Arc::new(Site::new(sight, Guard::new(token, address, hosts)));
        let reactor = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(lacks)?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            give_way();
            reactor.block_on(accept(listener, site, stopped, limits));
        };
        let thread = thread::Builder::new().name("postroom-console".into()).spawn(run).map_err(lacks)?;
        Ok(Self { address, url, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(target: "postroom", "the console's thread has panicked, and served nothing since");
        }
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>, mut stopped: oneshot::Receiver<()>, limits: Limits) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(target: "postroom", %error, "the console cannot listen"),
    };
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = &mut stopped => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let site = Arc::clone(&site);
                tokio::spawn(async move {
                    connection(stream, peer, site, limits).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(target: "postroom", %error, "the console has not accepted a connection");
                sleep(AGAIN).await;
            }
        }
    }
}

/// Serves one request. Keep-alive is off, so that an idle connection cannot occupy a place.
async fn connection(stream: TcpStream, peer: SocketAddr, site: Arc<Site>, limits: Limits) {
    let Limits { headers_within, request_within, watch_within, .. } = limits;
    let watches = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&watches);
    let service = service_fn(move |request| {
        let (site, noted) = (Arc::clone(&site), Arc::clone(&noted));
        async move { site.answer(&request, peer, || noted.store(true, Ordering::Relaxed)).await }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEADERS)
        .timer(TokioTimer::new())
        .header_read_timeout(headers_within)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    // Errors of a connection are ignored: only its client is affected.
    if timeout(request_within, &mut served).await.is_err() && watches.load(Ordering::Relaxed) {
        let _ = timeout(watch_within - request_within, served).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::Runtime;
    use postroom_tests::soon;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(3_600);
    const ONE: Limits =
        Limits { connections: 1, headers_within: LONG, request_within: LONG, watch_within: LONG.saturating_mul(2) };

    /// Checks that, if only one connection is served at a time, the connection given to `first` ends, and another one
    /// is served after it. `first` also receives the head of a request.
    fn both_are_served(limits: Limits, path: &str, first: impl FnOnce(&mut TcpStream, &str) + Send + 'static) {
        let path = path.to_owned();
        soon(move || {
            let runtime = Runtime::builder().workers(1).build().expect("it is built");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let token = Token::draw().expect("random numbers");
            let bearer = format!("Authorization: Bearer {}", token.text());
            let console = Console::serve_within(limits, runtime.host(), listener, token, Vec::new(), false);
            let console = console.expect("it runs");
            let address = console.address();
            let mut place = TcpStream::connect(address).expect("it listens");
            first(&mut place, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{bearer}\r\n\r\n"));
            let mut other = TcpStream::connect(address).expect("it listens");
            let request = format!("GET /api/overview HTTP/1.1\r\nHost: {address}\r\n{bearer}\r\n\r\n");
            other.write_all(request.as_bytes()).expect("it reads");
            let mut answer = String::new();
            other.read_to_string(&mut answer).expect("it answers");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            drop(place);
        });
    }

    #[test]
    fn one_that_sends_its_headers_slowly_loses_its_place() {
        both_are_served(Limits { headers_within: SHORT, ..ONE }, "/", |_, _| ());
        both_are_served(Limits { headers_within: SHORT, ..ONE }, "/", |stream, request| {
            stream.write_all(&request.as_bytes()[..request.len() - 2]).expect("it reads");
        });
    }

    #[test]
    fn a_request_has_its_time_whatever_takes_it() {
        both_are_served(Limits { request_within: SHORT, ..ONE }, "/", |stream, request| {
            stream.write_all(&request.as_bytes()[..request.len() - 2]).expect("it reads");
        });
    }

    #[test]
    fn a_watch_outlives_a_request_and_has_its_time_too() {
        let watch = |stream: &mut TcpStream, request: &str| stream.write_all(request.as_bytes()).expect("it reads");
        let second = Duration::from_secs(1);
        both_are_served(
            Limits { request_within: second, ..ONE },
            "/api/watch?view=overview",
            move |stream, request| {
                watch(stream, request);
                let (mut seen, mut part) = (String::new(), [0; 4096]);
                // The events are a second apart.
                while seen.matches("data: {").count() < 3 {
                    let read = stream.read(&mut part).expect("it continues");
                    assert_ne!(read, 0, "it ended with {seen}");
                    seen += &String::from_utf8_lossy(&part[..read]);
                }
                stream.shutdown(std::net::Shutdown::Both).expect("it is open");
            },
        );
        let limits = Limits { request_within: SHORT, watch_within: 2 * SHORT, ..ONE };
        both_are_served(limits, "/api/watch?view=overview", watch);
    }
}
