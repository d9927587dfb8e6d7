//! The execution of commands by a connection, and its replies.

use postroom::prelude::*;
use tokio::net::TcpStream;

use crate::channel::{self, Channel};
use crate::command::{Command, CommandError};
use crate::connection::{Connection, Lost};
use crate::resp::Words;

/// The reason why a command is refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("Can't execute '{0}': only SUBSCRIBE / UNSUBSCRIBE / PING / QUIT are allowed in this context")]
    Subscribed(String),
}

impl Connection {
    /// Executes a request, or adds it to the pending operations.
    pub async fn answer(
        &mut self,
        ctx: &Context<Self>,
        stream: &mut TcpStream,
        request: Words<'_>,
    ) -> Result<(), Lost> {
        let command = self.understand(request);
        if !matches!(command, Ok(Command::Key(..))) {
            // This command is answered here, after the pending operations have been performed.
            self.perform(stream).await?;
        }
        let replies = &mut self.batch.replies;
        match command {
            Err(refusal) => replies.error(refusal),
            Ok(Command::Key(key, operation)) => self.begin(stream, key, operation).await?,
            Ok(Command::GetMany(keys)) => {
                replies.array(keys.len());
                for key in keys.iter() {
                    let value = self.keys.shard(key).get(key.into()).await?;
                    self.batch.replies.bulk_or_null(value.as_deref());
                    self.make_room(stream).await?;
                }
            }
            Ok(Command::Delete(keys)) => {
                let mut count = 0;
                for key in keys.iter() {
                    count += i64::from(self.keys.shard(key).delete(key.into()).await?);
                }
                self.batch.replies.integer(count);
            }
            Ok(Command::Exists(keys)) => {
                let mut count = 0;
                for key in keys.iter() {
                    count += i64::from(self.keys.shard(key).exists(key.into()).await?);
                }
                self.batch.replies.integer(count);
            }
            Ok(Command::Publish(channel, text)) => replies.integer(channel::publish(ctx, channel, text) as i64),
            Ok(Command::Subscribe(channels)) => self.subscribe(ctx, channels),
            Ok(Command::Unsubscribe(channels)) => self.unsubscribe(ctx, channels),
            Ok(Command::Ping(text)) if !self.channels.is_empty() => {
                replies.array(2);
                replies.bulk(b"pong");
                replies.bulk(text.unwrap_or_default());
            }
            Ok(Command::Ping(None)) => replies.simple("PONG"),
            Ok(Command::Ping(Some(text))) => replies.bulk(text),
            Ok(Command::Quit) => {
                replies.simple("OK");
                self.is_over = true;
            }
        }
        Ok(self.make_room(stream).await?)
    }

    fn understand<'a>(&self, request: Words<'a>) -> Result<Command<'a>, Refusal> {
        let command = Command::of(request)?;
        if self.channels.is_empty() || command.is_for_subscribers() {
            return Ok(command);
        }
        let name = request.iter().next().unwrap_or_default();
        Err(Refusal::Subscribed(name.escape_ascii().to_string()))
    }

    fn subscribe(&mut self, ctx: &Context<Self>, channels: Words<'_>) {
        for channel in channels.iter() {
            match self.channels.join(ctx, channel) {
                Ok(()) => self.tell("subscribe", Some(channel)),
                Err(error) => self.batch.replies.error(error),
            }
        }
    }

    fn unsubscribe(&mut self, ctx: &Context<Self>, channels: Words<'_>) {
        let mut channels: Vec<Channel> = channels.iter().map(Channel::from).collect();
        if channels.is_empty() {
            channels.extend(self.channels.iter().cloned());
        }
        for channel in &channels {
            self.channels.leave(ctx, channel);
            self.tell("unsubscribe", Some(channel));
        }
        if channels.is_empty() {
            self.tell("unsubscribe", None);
        }
    }

    /// Adds the reply to a change of the client's channels: the change, the channel, and the number of channels.
    fn tell(&mut self, done: &str, channel: Option<&[u8]>) {
        let replies = &mut self.batch.replies;
        replies.array(3);
        replies.bulk(done.as_bytes());
        replies.bulk_or_null(channel);
        replies.integer(self.channels.len() as i64);
    }
}
