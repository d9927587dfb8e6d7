//! The listener: a process that makes a connection of each client that comes.

use std::convert::Infallible;
use std::time::Duration;

use postroom::ChildSpawn;
use postroom::prelude::*;
use postroom::supervision::{Child, ChildError, Tree};
use tokio::net::{TcpListener, TcpStream};

use crate::Failure;
use crate::connection::Connection;
use crate::keys::Keys;

/// How long it waits when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

#[process]
pub struct Listener {
    keys: Keys,
    /// The supervisor of the connections.
    connections: Tree,
    count: u64,
}

#[process]
impl Listener {
    pub fn new(keys: Keys, connections: Tree) -> Self {
        Self { keys, connections, count: 0 }
    }

    #[entry]
    pub async fn accept(&mut self, ctx: &mut Context<Self>, listener: TcpListener) -> Result<Infallible, ChildError> {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.connect(stream)?,
                Err(error) => {
                    eprintln!("redis: no connection: {error}");
                    ctx.sleep(PAUSE).await;
                }
            }
        }
    }

    fn connect(&mut self, stream: TcpStream) -> Result<(), ChildError> {
        self.count += 1;
        let (keys, mut stream) = (self.keys.clone(), Some(stream));
        let start = move |spawn: ChildSpawn| -> Result<_, Failure> {
            let stream = stream.take().ok_or("a connection has one life")?;
            Ok(spawn.of(Connection::new(keys.clone())).serve(stream)?)
        };
        self.connections.start_any(Child::new(self.count.to_string(), start).temporary()).map(drop)
    }
}
