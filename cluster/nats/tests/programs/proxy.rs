//! A network between one node and the server. A test can cut it, stall it in one direction, and slow it down.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The direction of a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToNode,
}

/// The chunk size of a slow network.
const SLOW_CHUNK: usize = 4_096;
/// The delay of each chunk on a slow network. With this delay the network carries 200 KB a second.
const SLOW_DELAY: Duration = Duration::from_millis(20);

/// Forwards all connections of one node to the server. Its threads end with the test program.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

#[derive(Default)]
struct Shared {
    network: Mutex<Network>,
    changed: Condvar,
}

#[derive(Default)]
struct Network {
    is_cut: bool,
    is_slow: bool,
    is_stalled: [bool; 2],
    /// Number of cuts so far: connections from before the most recent cut are broken.
    cuts: u64,
    streams: Vec<TcpStream>,
    /// The bytes that each connection has carried to the server since [`Proxy::record`].
    recorded: Option<Vec<Vec<u8>>>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Shared>::default();
        let connecting = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, node) in listener.incoming().enumerate() {
                let node = node.unwrap();
                let mut network = connecting.lock();
                if network.is_cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
                let cuts = network.cuts;
                for (from, to, direction) in
                    [(&node, &server, Direction::ToServer), (&server, &node, Direction::ToNode)]
                {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = Arc::clone(&connecting);
                    thread::spawn(move || shared.pass(from, to, direction, number, cuts));
                }
                network.streams.extend([node, server]);
            }
        });
        Self { shared, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections, and refuses new ones.
    pub(crate) fn cut(&self) {
        self.shared.change(|network| {
            network.is_cut = true;
            network.cuts += 1;
            network.streams.drain(..).for_each(|stream| _ = stream.shutdown(Shutdown::Both));
        });
    }

    /// Forwards nothing in this direction; both ends consider themselves connected.
    pub(crate) fn stall(&self, direction: Direction) {
        self.shared.change(|network| network.is_stalled[direction as usize] = true);
    }

    pub(crate) fn slow_down(&self) {
        self.shared.change(|network| network.is_slow = true);
    }

    /// Forwards everything again.
    pub(crate) fn heal(&self) {
        self.shared
            .change(|network| (network.is_cut, network.is_slow, network.is_stalled) = (false, false, [false; 2]));
    }

    /// Records the bytes that are carried to the server from now on.
    pub(crate) fn record(&self) {
        self.shared.change(|network| network.recorded = Some(Vec::new()));
    }

    /// Returns whether these bytes were carried to the server since [`record`](Self::record).
    pub(crate) fn has_carried(&self, bytes: &[u8]) -> bool {
        let network = self.shared.lock();
        let recorded = network.recorded.as_ref().expect("it was told to record");
        recorded.iter().any(|carried| carried.windows(bytes.len()).any(|window| window == bytes))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Network)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction, number: usize, cuts: u64) {
        let mut buffer = [0; 65_536];
        let mut most = buffer.len();
        while let Ok(length @ 1..) = from.read(&mut buffer[..most]) {
            let is_stalled = |network: &mut Network| network.is_stalled[direction as usize] && network.cuts == cuts;
            let mut network = self.changed.wait_while(self.lock(), is_stalled).unwrap();
            if let (Direction::ToServer, Some(recorded)) = (direction, &mut network.recorded) {
                recorded.resize_with(recorded.len().max(number + 1), Vec::new);
                recorded[number].extend(&buffer[..length]);
            }
            let is_slow = network.is_slow;
            drop(network);
            most = if is_slow { SLOW_CHUNK } else { buffer.len() };
            if is_slow {
                thread::sleep(SLOW_DELAY);
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
