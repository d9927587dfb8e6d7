//! The thread that serves: connections, and their limits.

use crate::api::Sight;
use crate::options::{Builder, ConsoleError};
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

/// The most connections at a time; others wait in the system's queue.
const CONNECTIONS: usize = 16;
/// How long a request's headers may take.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may take that is no watch.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// How long a watch may take: a little longer than it lasts.
const WATCH_WITHIN: Duration = Duration::from_secs(660);
/// The most bytes of headers.
const HEADERS: usize = 64 << 10;
/// How many abnormal ends, stalls and dead letters are kept, of each.
const INCIDENTS: usize = 1_000;
/// The wait after the system has no connection to give, for lack of descriptors perhaps.
const AGAIN: Duration = Duration::from_millis(100);

/// A console that runs: a thread that serves one address. It ends when this is dropped.
#[must_use = "the console ends when this is dropped"]
#[derive(Debug)]
pub struct Console {
    address: SocketAddr,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Console {
    /// Begins a console of this host, or runtime.
    pub fn of(host: &Host) -> Builder {
        Builder::new(*host)
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the page, with the token. **Who has it may look**: do not write it where others can read it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the console, and waits until its address is free.
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
        let lacks = |error: std::io::Error| ConsoleError::System(error.to_string());
        let address = listener.local_addr().map_err(lacks)?;
        listener.set_nonblocking(true).map_err(lacks)?;
        let url = format!("http://{address}/?token={}", token.text());
        let (incidents, samples) = (host.incidents(INCIDENTS), Samples::start(host).map_err(lacks)?);
        let sight = Sight { host, may_act, incidents, samples, taps: Taps::default() };
        let site = Arc::new(Site::new(sight, Guard::new(token, address, hosts)));
        let reactor = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(lacks)?;
        let (stop, stopped) = oneshot::channel();
        let run = move || reactor.block_on(accept(listener, site, stopped));
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

async fn accept(listener: TcpListener, site: Arc<Site>, mut stopped: oneshot::Receiver<()>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(target: "postroom", %error, "the console cannot listen"),
    };
    let room = Arc::new(Semaphore::new(CONNECTIONS));
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
                    connection(stream, peer, site).await;
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

/// Serves one request: without connections that are kept, nobody holds one without using it.
async fn connection(stream: TcpStream, peer: SocketAddr, site: Arc<Site>) {
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
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    // What goes wrong on a connection is the other side's affair.
    if timeout(REQUEST_WITHIN, &mut served).await.is_err() && watches.load(Ordering::Relaxed) {
        let _ = timeout(WATCH_WITHIN - REQUEST_WITHIN, served).await;
    }
}
