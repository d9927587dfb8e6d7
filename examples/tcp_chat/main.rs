//! A TCP chat server: one process per connection, and a group for each room.
//!
//! ```text
//! cargo run --example tcp_chat              # a few scripted clients talk to it
//! cargo run --example tcp_chat -- --serve   # until Ctrl-C, for `nc 127.0.0.1 PORT`
//! ```
//!
//! The first line of a client is its name. After that, `/join ROOM` changes the room, `/quit` leaves, and any other
//! line is sent to the room. Things to look for in the transcript of the scripted clients:
//!
//! * Bob closes his socket without `/quit`, and the room is notified.
//! * Sam does not read until lines for him have been dropped. This never delays Ada.
//! * At the end the server drains, and says goodbye to its clients before it closes their sockets.
//!
//! A connection that cannot write takes no messages, so they queue in its mailbox. The mailbox is bounded, and drops
//! the oldest lines. A client that does not read at all is disconnected after a while. In the other direction, a
//! connection handles the lines that it has read before it reads more, so TCP slows down a client that writes too fast.

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use postroom::Interrupt;
use postroom::prelude::*;
use postroom::supervision::{ChildError, Tree};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

mod script;

const LOBBY: &str = "lobby";

/// Maximum length of a line in bytes. A client that sends a longer one is disconnected.
const LONGEST: usize = 16 * 1024;

/// Maximum number of lines that wait for a slow client.
const WAITING: usize = 64;

/// The time that a write to a client may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time that a client may take to read the last lines and to close its side.
const PARTING: Duration = Duration::from_secs(1);

/// The time that the server may take to shut down.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// A line that goes to everyone in a room.
#[derive(Clone)]
struct Said(Arc<str>);

#[process]
struct Connection {
    name: String,
    room: Group,
    unsent: String,
    is_over: bool,
}

#[process]
impl Connection {
    #[entry]
    async fn talk(&mut self, ctx: &mut Context<Self>, mut stream: TcpStream) {
        let mut received = Vec::new();
        self.tell("welcome, what is your name?");
        while !self.is_over {
            let Ok(Ok(())) = ctx.timeout(PATIENCE, stream.write_all(self.unsent.as_bytes())).await else { break };
            self.unsent.clear();
            match ctx.serve_next_or(self, stream.read_buf(&mut received)).await {
                None => _ = ctx.serve_ready(self).await, // one write for all messages that have arrived
                Some(Ok(1..)) => self.take_lines(ctx, &mut received),
                Some(Ok(_) | Err(_)) => break,
            }
        }
        self.leave(ctx);
        let _slow = ctx.timeout(PARTING, part(&mut stream, &self.unsent)).await;
    }

    #[message(Said)]
    fn said(&mut self, said: Said) {
        self.tell(&said.0);
    }

    /// Ends the connection when the server shuts down.
    #[signal]
    fn on_cancel(&mut self, _cancel: Cancel) {
        self.tell("* the server closes, goodbye");
        self.is_over = true;
    }
}

impl Connection {
    fn new(room: Group) -> Self {
        Self { name: String::new(), room, unsent: String::new(), is_over: false }
    }

    /// Handles the complete lines among the bytes, and keeps the rest.
    fn take_lines(&mut self, ctx: &Context<Self>, received: &mut Vec<u8>) {
        while let Some(end) = received.iter().position(|byte| *byte == b'\n')
            && end <= LONGEST
            && !self.is_over
        {
            let line: Vec<u8> = received.drain(..=end).collect();
            self.take_line(ctx, String::from_utf8_lossy(&line).trim());
        }
        if received.len() > LONGEST {
            self.tell("* this line is too long, goodbye");
            self.is_over = true;
        }
    }

    fn take_line(&mut self, ctx: &Context<Self>, line: &str) {
        match line.split_once(' ') {
            _ if line.is_empty() => {}
            _ if self.name.is_empty() => {
                self.name = line.to_string();
                self.enter(ctx, LOBBY);
            }
            _ if line == "/quit" => self.is_over = true,
            Some(("/join", room)) => {
                self.leave(ctx);
                self.enter(ctx, room);
            }
            _ => self.say(&format!("{}: {line}", self.name)),
        }
    }

    fn enter(&mut self, ctx: &Context<Self>, room: &str) {
        self.room = ctx.group(format!("room {room}"));
        match self.room.join(ctx.pid()) {
            Ok(_) => self.say(&format!("* {} joined {room}", self.name)),
            Err(error) => self.tell(&format!("* {error}")),
        }
    }

    fn leave(&mut self, ctx: &Context<Self>) {
        if self.room.leave(ctx.pid()) {
            self.say(&format!("* {} left", self.name));
        }
    }

    /// Sends a line to everyone in the room. Never waits for a slow client.
    fn say(&self, line: &str) {
        self.room.broadcast(Said(line.into()));
    }

    fn tell(&mut self, line: &str) {
        self.unsent.push_str(line);
        self.unsent.push('\n');
    }
}

/// Writes the last lines, and waits until the client has closed its side too. If the server closed its socket with
/// bytes still unread, the system would discard the last lines.
async fn part(stream: &mut TcpStream, last: &str) -> io::Result<()> {
    stream.write_all(last.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

#[process]
struct Listener {
    connections: Tree,
}

#[process]
impl Listener {
    #[entry]
    async fn accept(&mut self, ctx: &mut Context<Self>, socket: Arc<TcpListener>) -> Result<Infallible, ChildError> {
        loop {
            match socket.accept().await {
                Ok((stream, client)) => {
                    let room = ctx.group(LOBBY);
                    let connection = Child::once(client.to_string(), move |spawn| {
                        let spawn = spawn.of(Connection::new(room)).label(client.to_string());
                        spawn.mailbox(Bound::Hard(WAITING, Overflow::DropOldest)).talk(stream)
                    });
                    self.connections.start(connection.stop_within(PARTING * 2))?;
                }
                // The system cannot open another socket until a client has left.
                Err(error) => {
                    eprintln!("tcp_chat: no connection: {error}");
                    ctx.sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Starts the server, and returns its address. The listener is restarted with the same socket if it fails.
async fn start(runtime: &Runtime) -> Result<SocketAddr, Box<dyn Error>> {
    let socket = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    let address = socket.local_addr()?;
    let connections = Supervisor::dynamic().spawn(runtime)?;
    Supervisor::one_for_one()
        .child("listener", move |spawn| {
            spawn.of(Listener { connections: connections.clone() }).accept(Arc::clone(&socket))
        })
        .spawn(runtime)?;
    Ok(address)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().on_tokio(Handle::current()).build()?; // processes run on the threads of Tokio
    let address = start(&runtime).await?;
    let report = if env::args().any(|argument| argument == "--serve") {
        let interrupt = Interrupt::catch()?;
        println!("listening on {address}");
        block_in_place(|| interrupt.wait());
        runtime.drain_async(SHUTDOWN).await?
    } else {
        block_in_place(|| script::talk(runtime, address))?
    };
    println!("clean shutdown: {}", report.is_clean());
    Ok(())
}
