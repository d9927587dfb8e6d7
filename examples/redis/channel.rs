//! Channels are groups: a subscriber joins, and a publication is a broadcast.
//!
//! If a client reads more slowly than others publish, it misses the messages for which its connection's mailbox has no
//! room. It delays no other client.

use std::collections::BTreeSet;
use std::sync::Arc;

use postroom::error::GroupError;
use postroom::generic::Actor;
use postroom::prelude::*;

/// The name of a channel: any bytes.
pub type Channel = Arc<[u8]>;

/// A publication, as each subscriber receives it.
#[derive(Clone)]
pub struct Published {
    pub channel: Channel,
    pub text: Arc<[u8]>,
}

/// Publishes to a channel. Returns the number of clients that receive it.
pub fn publish<P: Actor>(ctx: &Context<P>, channel: &[u8], text: &[u8]) -> usize {
    group(ctx, channel).broadcast(Published { channel: channel.into(), text: text.into() })
}

/// The channels of one client.
#[derive(Default)]
pub struct Channels(BTreeSet<Channel>);

impl Channels {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.0.iter()
    }

    pub fn join<P: Actor>(&mut self, ctx: &Context<P>, channel: &[u8]) -> Result<(), GroupError> {
        if !self.0.contains(channel) {
            group(ctx, channel).join(ctx.pid())?;
            self.0.insert(channel.into());
        }
        Ok(())
    }

    pub fn leave<P: Actor>(&mut self, ctx: &Context<P>, channel: &[u8]) {
        if self.0.remove(channel) {
            group(ctx, channel).leave(ctx.pid());
        }
    }
}

fn group<P: Actor>(ctx: &Context<P>, channel: &[u8]) -> Group {
    ctx.group(format!("channel {}", channel.escape_ascii()))
}
