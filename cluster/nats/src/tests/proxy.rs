//! A TCP proxy whose connections a test can cut or hold up.

use postroom_cluster::engine::Lane;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;

/// Forwards connections to a server.
pub(super) struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    /// The lane whose connections forward nothing.
    held: Option<Lane>,
    streams: Vec<TcpStream>,
}

impl Proxy {
    pub(super) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared: Arc<Shared> = Arc::default();
        let passing = Arc::clone(&shared);
        // The thread ends with the test program.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut state = passing.state.lock().unwrap();
                if state.is_cut {
                    continue;
                }
                let Ok(other) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
                let lane: Arc<OnceLock<Lane>> = Arc::default();
                for (from, to, is_client) in [(&stream, &other, true), (&other, &stream, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (shared, lane) = (Arc::clone(&passing), Arc::clone(&lane));
                    thread::spawn(move || shared.pass(from, to, &lane, is_client));
                }
                state.streams.extend([stream, other]);
            }
        });
        Self { shared, port }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections, and refuses new ones.
    pub(super) fn cut(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.is_cut = true;
        state.break_all();
    }

    /// Breaks all connections.
    pub(super) fn interrupt(&self) {
        self.shared.state.lock().unwrap().break_all();
    }

    pub(super) fn heal(&self) {
        self.shared.state.lock().unwrap().is_cut = false;
    }

    /// Forwards nothing more in either direction on the connections of this lane, including future ones.
    pub(super) fn hold(&self, lane: Lane) {
        self.shared.state.lock().unwrap().held = Some(lane);
    }

    /// Forwards everything that was held up.
    pub(super) fn release(&self) {
        self.shared.state.lock().unwrap().held = None;
        self.shared.released.notify_all();
    }
}

impl State {
    fn break_all(&mut self) {
        for stream in self.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    /// Forwards the bytes of one direction while the lane of the connection is not held. The first line that the
    /// client sends contains the name of the lane.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, lane: &OnceLock<Lane>, is_client: bool) {
        let (mut buffer, mut line) = ([0; 65_536], Vec::new());
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..length];
            if is_client && lane.get().is_none() && !line.contains(&b'\n') {
                line.extend_from_slice(bytes);
                let text = String::from_utf8_lossy(&line);
                let named = Lane::ALL.into_iter().find(|lane| text.contains(&format!("-{lane:?}\"")));
                named.into_iter().for_each(|named| _ = lane.set(named));
            }
            let state = self.state.lock().unwrap();
            let is_held = |state: &mut State| state.held.is_some_and(|held| lane.get() == Some(&held));
            drop(self.released.wait_while(state, is_held).unwrap());
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
