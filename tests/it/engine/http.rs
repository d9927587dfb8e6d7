//! An HTTP client inside processes, as an example of a library that spawns tasks of its own. The server is a process,
//! too.

use postroom::prelude::*;
use postroom_tests::HOUR;
use postroom_tests::face::watched;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers each request with the request's text, twice.
#[process]
#[derive(Default)]
struct Server {
    connections: usize,
}

#[process]
impl Server {
    #[entry]
    async fn listen(&mut self, ctx: &mut Context<Self>, listener: TcpListener) -> std::io::Result<()> {
        loop {
            let accepted = listener.accept();
            let (stream, _) = ctx.serve_until(self, accepted).await?;
            self.connections += 1;
            let _connection = ctx.spawn(Connection).answer(stream);
        }
    }

    #[message]
    fn connections(&mut self) -> usize {
        self.connections
    }
}

#[process]
struct Connection;

#[process]
impl Connection {
    #[entry]
    async fn answer(&mut self, stream: TcpStream) -> std::io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        loop {
            let (mut path, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                if path.is_empty() {
                    path = line.split(' ').nth(1).unwrap_or("/").to_string();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut text = vec![0; length];
            reader.read_exact(&mut text).await?;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nx-path: {path}\r\n\r\n", 2 * length);
            writer.write_all(head.as_bytes()).await?;
            writer.write_all(&text).await?;
            writer.write_all(&text).await?;
        }
    }
}

/// A process that sends requests.
#[process]
struct Client {
    http: reqwest::Client,
    server: SocketAddr,
}

#[process]
impl Client {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn post(&mut self, path: String, text: String) -> Result<(String, String), reqwest::Error> {
        post(&self.http, self.server, path, text).await
    }

    /// Sends a request in a background task.
    #[message]
    fn post_beside(
        &mut self,
        ctx: &mut Context<Self>,
        path: String,
        text: String,
        reply: Reply<Result<(String, String), reqwest::Error>>,
    ) {
        let (http, server) = (self.http.clone(), self.server);
        ctx.run(async move { post(&http, server, path, text).await }).then(|_, answer, _| reply.send(answer));
    }
}

async fn post(
    http: &reqwest::Client,
    server: SocketAddr,
    path: String,
    text: String,
) -> Result<(String, String), reqwest::Error> {
    let answer = http.post(format!("http://{server}/{path}")).body(text).send().await?.error_for_status()?;
    let path = answer.headers().get("x-path").and_then(|path| path.to_str().ok()).unwrap_or("").to_string();
    Ok((path, answer.text().await?))
}

fn with_server(body: impl FnOnce(&Runtime, Address<Server>, SocketAddr) + Send + 'static) {
    watched(|| {
        let runtime = Runtime::builder().workers(2).tokio().build().unwrap();
        let (server, address) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            (runtime.spawn(Server::default()).listen(listener).unwrap(), address)
        });
        body(&runtime, server.address(), address);
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
    });
}

#[test]
fn an_http_client_works_in_processes_and_keeps_its_connections() {
    with_server(|runtime, server, address| {
        let http = reqwest::Client::new();
        let clients: Vec<_> =
            (0..8).map(|_| runtime.spawn(Client { http: http.clone(), server: address }).serve().unwrap()).collect();
        for round in 0..20 {
            let (path, text) = (format!("round-{round}"), "text ".repeat(round * 100));
            let expected = (format!("/{path}"), text.repeat(2));
            runtime.block_on(async {
                let calls = clients.iter().map(|client| {
                    let call = client.post(path.clone(), text.clone()).timeout(Duration::from_secs(30));
                    call.into_future()
                });
                let beside = clients.iter().map(|client| {
                    let call = client.post_beside(path.clone(), text.clone()).timeout(Duration::from_secs(30));
                    call.into_future()
                });
                let (calls, beside) = futures_util::future::join(
                    futures_util::future::join_all(calls),
                    futures_util::future::join_all(beside),
                )
                .await;
                for answer in calls {
                    assert_eq!(answer.unwrap(), expected);
                }
                for answer in beside {
                    assert_eq!(answer.unwrap(), expected);
                }
            });
        }
        let connections = server.connections().wait().unwrap();
        assert!(connections < 320, "320 requests went over {connections} connections");
    });
}

#[test]
fn a_request_that_is_cut_short_by_a_kill_or_a_timeout_harms_no_other() {
    with_server(|runtime, _, address| {
        let http = reqwest::Client::new();
        // A socket that accepts connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let never = silent.local_addr().unwrap();
        let killed = runtime.spawn(Client { http: http.clone(), server: never }).serve().unwrap();
        let impatient = runtime.spawn(Client { http: http.clone(), server: never }).serve().unwrap();
        let client = runtime.spawn(Client { http, server: address }).serve().unwrap();
        killed.post("a".into(), "b".into()).send().unwrap();
        let _accepted = silent.accept().unwrap();
        killed.pid().kill();
        let late = impatient.post_beside("a".into(), "b".into()).timeout(Duration::from_millis(20)).wait();
        assert!(matches!(late, Err(CallError::Timeout)), "{late:?}");
        assert_eq!(client.post("x".into(), "y".into()).wait().unwrap(), ("/x".into(), "yy".into()));
    });
}
