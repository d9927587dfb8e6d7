//! An HTTP service with axum: its handlers call processes, and each error of a call becomes a status code.
//!
//! ```text
//! cargo run --example axum_service
//! ```
//!
//! The program serves on a free port, makes requests to itself, and prints what comes back. Things to look for in the
//! output:
//!
//! * 404 and 409 are errors of the method: the process has handled the request.
//! * 504: the call has timed out. The message may still be handled.
//! * 500: a bug crashed the process while it handled the request, so the outcome is unknown.
//! * 503 until the supervisor has restarted the process. Nothing was delivered, so a client may repeat the request.
//! * 429: an audit is running, and no second one may wait for it.
//! * On shutdown the listener closes first, then the pending requests complete, then the processes end.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use postroom::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

#[derive(Debug, thiserror::Error)]
enum StockError {
    #[error("no such item")]
    NoSuchItem,
    #[error("only {0} left")]
    OutOfStock(u32),
}

/// A shelf of tea. A real service would keep its stock in a database, which survives a restart.
#[process]
struct Stock {
    tea: u32,
    /// Callers that wait for the next delivery.
    waiting: Vec<Reply<Result<u32, StockError>>>,
}

#[process]
impl Stock {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&self, item: String) -> Result<u32, StockError> {
        if item == "tea" { Ok(self.tea) } else { Err(StockError::NoSuchItem) }
    }

    #[message]
    fn take(&mut self, item: String, pieces: u32) -> Result<u32, StockError> {
        // A bug: this should be an error.
        assert!(pieces > 0, "a withdrawal takes at least one piece");
        let left = self.count(item)?;
        self.tea = left.checked_sub(pieces).ok_or(StockError::OutOfStock(left))?;
        Ok(self.tea)
    }

    /// Answers when tea is delivered, which does not happen in this program.
    #[message]
    fn delivery(&mut self, reply: Reply<Result<u32, StockError>>) {
        self.waiting.retain(|reply| !reply.is_abandoned());
        self.waiting.push(reply);
    }
}

/// A process that checks the stock in the background. It waits while the stock is out of service.
#[process]
struct Auditor {
    stock: Address<Stock>,
}

#[process]
impl Auditor {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn audit(&mut self) -> Result<u32, CallError<StockError>> {
        self.stock.count("tea".to_string()).timeout(Duration::MAX).wait_for_restart().await
    }
}

/// The state of the handlers. An address is `Copy`, and stays valid when its process is restarted.
#[derive(Clone, Copy)]
struct App {
    stock: Address<Stock>,
    auditors: Address<Auditor>,
}

/// A failed call, as a response.
struct Failure(CallError<StockError>);

impl From<CallError<StockError>> for Failure {
    fn from(error: CallError<StockError>) -> Self {
        Self(error)
    }
}

/// Converts a refused send to a call that was not delivered.
impl<M> From<SendError<M>> for Failure {
    fn from(error: SendError<M>) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            CallError::Failed(StockError::NoSuchItem) => StatusCode::NOT_FOUND,
            CallError::Failed(StockError::OutOfStock(_)) => StatusCode::CONFLICT,
            CallError::Full => StatusCode::TOO_MANY_REQUESTS,
            CallError::Restarting | CallError::Gone(_) | CallError::Shutdown => StatusCode::SERVICE_UNAVAILABLE,
            CallError::Timeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        // The text is for people. For a bug, it only tells whether the message was handled.
        let text = match &self.0 {
            CallError::Failed(error) => error.to_string(),
            error => error.delivery().to_string(),
        };
        if self.0.is_retryable() {
            (status, [(header::RETRY_AFTER, "1")], text).into_response()
        } else {
            (status, text).into_response()
        }
    }
}

async fn count(State(app): State<App>, Path(item): Path<String>) -> Result<String, Failure> {
    Ok(app.stock.count(item).await?.to_string())
}

async fn take(State(app): State<App>, Path((item, pieces)): Path<(String, u32)>) -> Result<String, Failure> {
    Ok(app.stock.take(item, pieces).await?.to_string())
}

async fn delivery(State(app): State<App>) -> Result<String, Failure> {
    Ok(app.stock.delivery().timeout(Duration::from_millis(50)).await?.to_string())
}

/// Accepts an audit without waiting for it.
async fn audit(State(app): State<App>) -> Result<StatusCode, Failure> {
    app.auditors.audit().send()?;
    Ok(StatusCode::ACCEPTED)
}

fn routes(app: App) -> Router {
    Router::new()
        .route("/stock/{item}", get(count))
        .route("/stock/{item}/take/{pieces}", post(take))
        .route("/delivery", get(delivery))
        .route("/audits", post(audit))
        .with_state(app)
}

/// Makes a request, and returns the status and the body of the response.
async fn request(server: SocketAddr, line: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("no response")?;
    let status = head.lines().next().unwrap_or_default().trim_start_matches("HTTP/1.1 ");
    Ok(format!("{status} {body}").trim_end().to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The crash is intended. A service would keep the panic report for its log.
    panic::set_hook(Box::new(|_| {}));

    let runtime = Runtime::builder().on_tokio(Handle::current()).build()?; // processes run on the threads of Tokio
    let tree = Supervisor::one_for_one()
        // This delay is much too long for a service. Here it ensures that the stock is down while the program makes
        // requests to it.
        .backoff(Backoff::constant(Duration::from_secs(3_600)))
        .child("stock", |spawn| spawn.of(Stock { tea: 10, waiting: Vec::new() }).serve())
        .child("auditors", |spawn| {
            let stock = spawn.sibling("stock")?;
            Pool::fixed(1).queue(0).spawn(spawn, move |spawn| spawn.of(Auditor { stock }).serve())
        })
        .spawn(&runtime)?;
    let app = App { stock: tree.child("stock")?, auditors: tree.child("auditors")? };

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let server = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, routes(app)).with_graceful_shutdown(async { _ = stopped.await });
    let serving = tokio::spawn(serving.into_future());

    let stock_ends = app.stock.pid().join();
    for line in [
        "GET /stock/tea",
        "POST /stock/tea/take/3",
        "POST /stock/tea/take/30",
        "GET /stock/gold",
        "GET /delivery",
        "POST /stock/tea/take/0",
    ] {
        println!("{line}: {}", request(server, line).await?);
    }
    stock_ends.await;
    for line in ["GET /stock/tea", "POST /audits", "POST /audits"] {
        println!("{line}: {}", request(server, line).await?);
    }

    tree.restart_child("stock")?;
    let last = loop {
        let response = request(server, "GET /stock/tea").await?;
        if !response.starts_with("503") {
            break response;
        }
    };
    println!("GET /stock/tea, repeated: {last}");

    drop(stop);
    serving.await??;
    println!("clean shutdown: {}", runtime.drain_async(Duration::from_secs(10)).await?.is_clean());
    Ok(())
}
