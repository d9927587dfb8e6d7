//! A connection: a process that executes the requests of one client, in order.
//!
//! It answers all requests that have arrived, and only then writes. So a batch of requests needs only one write, unless
//! the replies become large. If a client does not read, the connection stops reading from it. While it waits for
//! requests, it takes publications on the client's channels.

use std::io;
use std::mem;
use std::time::Duration;

use postroom::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::batch::{Batch, Operation};
use crate::channel::{Channels, Published};
use crate::keys::Keys;
use crate::resp::Requests;
use crate::shard::Shard;

/// Maximum number of operations in a message, so that other connections can use the shard, too.
const MOST: usize = 128;

/// The time that a client may take to close its side.
const PARTING: Duration = Duration::from_millis(100);

#[process]
pub struct Connection {
    pub keys: Keys,
    pub channels: Channels,
    /// The pending operations, all for one shard, and the replies to earlier ones.
    pub batch: Batch,
    shard: Address<Shard>,
    /// Whether the connection ends when the replies have been written.
    pub is_over: bool,
}

/// The reason why a connection is broken.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error(transparent)]
    Client(#[from] io::Error),
    /// A shard has failed, and the replies that had not been written are lost with it.
    #[error("a shard did not answer: {0}")]
    Shard(#[from] CallError),
}

#[process]
impl Connection {
    pub fn new(keys: Keys) -> Self {
        let shard = keys.shard(b"");
        Self { keys, channels: Channels::default(), batch: Batch::default(), shard, is_over: false }
    }

    #[entry]
    pub async fn serve(&mut self, ctx: &mut Context<Self>, mut stream: TcpStream) -> Result<(), Lost> {
        stream.set_nodelay(true)?;
        let mut requests = Requests::default();
        while !self.is_over {
            tokio::select! {
                read = stream.read_buf(requests.space()) => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
                () = ctx.serve_next(self) => {
                    ctx.serve_ready(self).await;
                }
            }
            self.answer_all(ctx, &mut stream, &mut requests).await?;
            self.write(&mut stream).await?;
        }
        Ok(part(ctx, &mut stream).await?)
    }

    /// Ends the connection when the server shuts down. Requests that have been read are answered first.
    #[signal]
    fn go(&mut self, _cancel: Cancel) {
        self.is_over = true;
    }

    /// Adds a publication on one of the client's channels to the replies.
    #[message(Published)]
    fn published(&mut self, published: Published) {
        let replies = &mut self.batch.replies;
        replies.array(3);
        replies.bulk(b"message");
        replies.bulk(&published.channel);
        replies.bulk(&published.text);
    }

    async fn answer_all(
        &mut self,
        ctx: &Context<Self>,
        stream: &mut TcpStream,
        requests: &mut Requests,
    ) -> Result<(), Lost> {
        while !self.is_over {
            match requests.next() {
                Ok(None) => break,
                Ok(Some(request)) => self.answer(ctx, stream, request).await?,
                Err(error) => {
                    self.perform(stream).await?;
                    self.batch.replies.error(format_args!("Protocol error: {error}"));
                    self.is_over = true;
                }
            }
        }
        self.perform(stream).await
    }

    /// Adds an operation on a key to the next message to its shard.
    pub async fn begin(&mut self, stream: &mut TcpStream, key: &[u8], operation: Operation) -> Result<(), Lost> {
        let shard = self.keys.shard(key);
        if shard != self.shard || self.batch.operations.len() == MOST {
            self.perform(stream).await?;
            self.shard = shard;
        }
        self.batch.operations.push_back((key.into(), operation));
        Ok(())
    }

    /// Completes all pending operations.
    pub async fn perform(&mut self, stream: &mut TcpStream) -> Result<(), Lost> {
        while !self.batch.operations.is_empty() {
            self.batch = self.shard.perform(mem::take(&mut self.batch)).await?;
            self.make_room(stream).await?;
        }
        Ok(())
    }

    /// Writes the replies if they have become large.
    pub async fn make_room(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        if self.batch.is_full() { self.write(stream).await } else { Ok(()) }
    }

    async fn write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.batch.replies.bytes).await?;
        self.batch.replies.clear();
        Ok(())
    }
}

/// Closes the sending side, and then reads and ignores what the client still sends. Otherwise the system would discard
/// the last replies.
async fn part(ctx: &Context<Connection>, stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unheard = Vec::with_capacity(16 * 1024);
    let reading = async {
        while stream.read_buf(&mut unheard).await? > 0 {
            unheard.clear();
        }
        Ok(())
    };
    // A client that has not closed its side within this time is disconnected.
    ctx.timeout(PARTING, reading).await.unwrap_or(Ok(()))
}
