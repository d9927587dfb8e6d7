//! Channels are groups: who subscribes joins, and what is published is broadcast.
//!
//! A client that reads more slowly than others publish misses what its connection's mailbox has no room for. It holds
//! nobody up.

use std::sync::Arc;

use postroom::Actor;
use postroom::prelude::*;

/// The name of a channel: any bytes.
pub type Channel = Arc<[u8]>;

/// What somebody has published, as it comes to each subscriber.
#[derive(Clone)]
pub struct Published {
    pub channel: Channel,
    pub text: Arc<[u8]>,
}

/// The group of a channel.
pub fn group<P: Actor>(ctx: &Context<P>, channel: &[u8]) -> Group {
    ctx.group(format!("channel {}", channel.escape_ascii()))
}

/// Gives how many clients it goes to.
pub fn publish<P: Actor>(ctx: &Context<P>, channel: &[u8], text: &[u8]) -> usize {
    group(ctx, channel).broadcast(Published { channel: channel.into(), text: text.into() })
}
