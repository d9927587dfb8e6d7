//! A connection: a process that does what one client asks for, in the client's order.
//!
//! It answers all requests that have come before it writes, so that a client that sends many at once is written to once;
//! unless the replies become many. A client that asks and does not read is not read from either.
//! While it waits for more it takes what is published on the client's channels.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use postroom::JoinError;
use postroom::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::channel::{self, Channel, Published};
use crate::command::{Command, CommandError};
use crate::keys::Keys;
use crate::reply::Replies;
use crate::resp::{Requests, Words};
use crate::shard::{ShardError, TimeToLive};

/// So many bytes of replies are written, though more may come.
const ENOUGH: usize = 64 * 1024;

/// How long a client is given to go.
const PARTING: Duration = Duration::from_millis(100);

#[process]
pub struct Connection {
    keys: Keys,
    channels: BTreeSet<Channel>,
    replies: Replies,
    /// Whether it is over when the replies have been written.
    is_over: bool,
}

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("Can't execute '{0}': only SUBSCRIBE / UNSUBSCRIBE / PING / QUIT are allowed in this context")]
    Subscribed(String),
    #[error(transparent)]
    Channel(#[from] JoinError),
    #[error(transparent)]
    Shard(#[from] CallError<ShardError>),
    #[error(transparent)]
    Unanswered(#[from] CallError),
    /// There is nobody to tell it to.
    #[error(transparent)]
    Lost(#[from] io::Error),
}

#[process]
impl Connection {
    pub fn new(keys: Keys) -> Self {
        Self { keys, channels: BTreeSet::new(), replies: Replies::default(), is_over: false }
    }

    #[entry]
    pub async fn serve(&mut self, ctx: &mut Context<Self>, mut stream: TcpStream) -> io::Result<()> {
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
        part(ctx, &mut stream).await
    }

    /// The server goes. What has been read is answered before this is handled.
    #[signal]
    fn go(&mut self, _cancel: Cancel) {
        self.is_over = true;
    }

    /// Something was published on a channel of the client's.
    #[message(Published)]
    fn published(&mut self, published: Published) {
        self.replies.array(3);
        self.replies.bulk(b"message");
        self.replies.bulk(&published.channel);
        self.replies.bulk(&published.text);
    }

    async fn answer_all(
        &mut self,
        ctx: &Context<Self>,
        stream: &mut TcpStream,
        requests: &mut Requests,
    ) -> io::Result<()> {
        while !self.is_over {
            match requests.next() {
                Ok(None) => break,
                Ok(Some(request)) => match self.answer(ctx, stream, request).await {
                    Ok(()) => {}
                    Err(Refusal::Lost(error)) => return Err(error),
                    Err(refusal) => self.replies.error(refusal),
                },
                Err(error) => {
                    self.replies.error(format_args!("Protocol error: {error}"));
                    self.is_over = true;
                }
            }
            self.make_room(stream).await?;
        }
        Ok(())
    }

    async fn write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.replies.bytes).await?;
        self.replies.bytes.clear();
        Ok(())
    }

    /// Writes, if there is enough for it.
    async fn make_room(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        if self.replies.bytes.len() < ENOUGH { Ok(()) } else { self.write(stream).await }
    }

    async fn answer(&mut self, ctx: &Context<Self>, stream: &mut TcpStream, request: Words<'_>) -> Result<(), Refusal> {
        let command = Command::of(request)?;
        if !self.channels.is_empty() && !command.is_for_subscribers() {
            let name = request.split_first().map(|(name, _)| name.escape_ascii().to_string());
            return Err(Refusal::Subscribed(name.unwrap_or_default()));
        }
        match command {
            Command::Get(key) => {
                let value = self.keys.shard(key).get(key.into()).await?;
                self.replies.bulk_or_null(value.as_deref());
            }
            Command::Set(key, value) => {
                self.keys.shard(key).set(key.into(), value.into()).await?;
                self.replies.simple("OK");
            }
            Command::Increment(key) => {
                let number = self.keys.shard(key).increment(key.into()).await?;
                self.replies.integer(number);
            }
            Command::GetMany(keys) => {
                self.replies.array(keys.len());
                for key in keys.iter() {
                    match self.keys.shard(key).get(key.into()).await {
                        Ok(value) => self.replies.bulk_or_null(value.as_deref()),
                        Err(error) => self.replies.error(error),
                    }
                    self.make_room(stream).await?;
                }
            }
            Command::Delete(keys) => {
                let mut count = 0;
                for key in keys.iter() {
                    count += i64::from(self.keys.shard(key).delete(key.into()).await?);
                }
                self.replies.integer(count);
            }
            Command::Exists(keys) => {
                let mut count = 0;
                for key in keys.iter() {
                    count += i64::from(self.keys.shard(key).exists(key.into()).await?);
                }
                self.replies.integer(count);
            }
            Command::Expire(key, seconds) => {
                let is_there = self.keys.shard(key).expire(key.into(), seconds).await?;
                self.replies.integer(i64::from(is_there));
            }
            Command::TimeToLive(key) => {
                let seconds = match self.keys.shard(key).time_to_live(key.into()).await? {
                    TimeToLive::Missing => -2,
                    TimeToLive::Unlimited => -1,
                    TimeToLive::Limited(left) => (left.as_secs_f64() + 0.5) as i64,
                };
                self.replies.integer(seconds);
            }
            Command::Publish(channel, text) => self.replies.integer(channel::publish(ctx, channel, text) as i64),
            Command::Subscribe(channels) => {
                for channel in channels.iter() {
                    self.subscribe(ctx, channel)?;
                }
            }
            Command::Unsubscribe(channels) => self.unsubscribe(ctx, channels),
            Command::Ping(text) if self.channels.is_empty() => match text {
                None => self.replies.simple("PONG"),
                Some(text) => self.replies.bulk(text),
            },
            Command::Ping(text) => {
                self.replies.array(2);
                self.replies.bulk(b"pong");
                self.replies.bulk(text.unwrap_or_default());
            }
            Command::Quit => {
                self.replies.simple("OK");
                self.is_over = true;
            }
        }
        Ok(())
    }

    fn subscribe(&mut self, ctx: &Context<Self>, channel: &[u8]) -> Result<(), JoinError> {
        if !self.channels.contains(channel) {
            channel::group(ctx, channel).join(ctx.pid())?;
            self.channels.insert(channel.into());
        }
        self.tell("subscribe", Some(channel));
        Ok(())
    }

    fn unsubscribe(&mut self, ctx: &Context<Self>, channels: Words<'_>) {
        let mut channels: Vec<Channel> = channels.iter().map(Channel::from).collect();
        if channels.is_empty() {
            channels.extend(self.channels.iter().cloned());
        }
        for channel in &channels {
            if self.channels.remove(channel) {
                channel::group(ctx, channel).leave(ctx.pid());
            }
            self.tell("unsubscribe", Some(channel));
        }
        if channels.is_empty() {
            self.tell("unsubscribe", None);
        }
    }

    /// What was done with a channel, and how many the client has now.
    fn tell(&mut self, done: &str, channel: Option<&[u8]>) {
        self.replies.array(3);
        self.replies.bulk(done.as_bytes());
        self.replies.bulk_or_null(channel);
        self.replies.integer(self.channels.len() as i64);
    }
}

/// Tells the client that nothing more will come. What it had sent before it heard that is read: if it were not, the system
/// would throw the last replies away.
async fn part(ctx: &Context<Connection>, stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unheard = Vec::with_capacity(ENOUGH);
    let reading = async {
        while stream.read_buf(&mut unheard).await? > 0 {
            unheard.clear();
        }
        Ok(())
    };
    // A client that has not gone by then is left.
    ctx.timeout(PARTING, reading).await.unwrap_or(Ok(()))
}
