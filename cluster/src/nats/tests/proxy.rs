//! A connection that a test can cut.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on to a server.
pub(super) struct Proxy {
    state: Arc<Mutex<State>>,
    port: u16,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    streams: Vec<TcpStream>,
}

impl Proxy {
    pub(super) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        // It ends with the test program.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut state = shared.lock().unwrap();
                if state.is_cut {
                    continue;
                }
                let Ok(other) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
                for (from, to) in [(&stream, &other), (&other, &stream)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || pass(from, to));
                }
                state.streams.extend([stream, other]);
            }
        });
        Self { state, port }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections, and refuses new ones.
    pub(super) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        state.break_all();
    }

    /// Breaks all connections.
    pub(super) fn interrupt(&self) {
        self.state.lock().unwrap().break_all();
    }

    pub(super) fn heal(&self) {
        self.state.lock().unwrap().is_cut = false;
    }
}

impl State {
    fn break_all(&mut self) {
        for stream in self.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
