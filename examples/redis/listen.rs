//! The listener: a process that spawns a connection for each client.

use std::convert::Infallible;
use std::time::Duration;

use postroom::prelude::*;
use postroom::supervision::{Child, ChildError, Tree};
use tokio::net::{TcpListener, TcpStream};

use crate::connection::Connection;
use crate::keys::Keys;

/// The time that the listener waits when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The time that a connection may take at shutdown to write its last replies. Its client may not be reading them.
const PATIENCE: Duration = Duration::from_secs(1);

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
        let keys = self.keys.clone();
        let connection = Child::once(self.count.to_string(), move |spawn| {
            let keys = keys.present(spawn.host());
            spawn.of(Connection::new(keys)).serve(stream)
        });
        self.connections.start(connection.stop_within(PATIENCE)).map(drop)
    }
}
