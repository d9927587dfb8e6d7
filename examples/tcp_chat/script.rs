//! The scripted clients.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use postroom::Runtime;
use postroom::inspect::ShutdownReport;

use crate::{PATIENCE, SHUTDOWN};

/// A client that blocks its thread.
struct Client {
    name: &'static str,
    socket: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: SocketAddr, name: &'static str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Self { name, socket: BufReader::new(socket) };
        client.read()?; // the welcome
        client.write(name)?;
        Ok(client)
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        self.socket.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    fn read(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.socket.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_string()),
        }
    }

    /// Prints the next line.
    fn hear(&mut self) -> io::Result<()> {
        let line = self.read()?;
        println!("{:>4} | {line}", self.name);
        Ok(())
    }
}

/// Runs the clients. Each one writes only when the others have received the previous line, so the transcript is always
/// the same.
pub fn talk(runtime: Runtime, address: SocketAddr) -> Result<ShutdownReport, Box<dyn Error>> {
    let mut ada = Client::connect(address, "ada")?;
    ada.hear()?;
    let mut bob = Client::connect(address, "bob")?;
    [&mut ada, &mut bob].into_iter().try_for_each(Client::hear)?;
    ada.write("hello")?;
    [&mut ada, &mut bob].into_iter().try_for_each(Client::hear)?;
    drop(bob);
    ada.hear()?;

    let mut sam = Client::connect(address, "sam")?;
    [&mut ada, &mut sam].into_iter().try_for_each(Client::hear)?;
    let long = "so much to tell! ".repeat(500);
    let mut said = 1;
    while runtime.statistics().dead_letters.overflow == 0 {
        ada.write(&long)?;
        ada.read()?; // her own line comes back at once, whatever Sam does
        said += 1;
    }
    ada.write("the end")?;
    ada.hear()?;
    let mut read = 1;
    while sam.read()? != "ada: the end" {
        read += 1;
    }
    println!(" sam | missed lines: {}", read < said);

    ada.write("/join garden")?;
    ada.hear()?;
    sam.hear()?;
    let drain = thread::spawn(|| runtime.drain(SHUTDOWN));
    [&mut ada, &mut sam].into_iter().try_for_each(Client::hear)?;
    drop((ada, sam));
    Ok(drain.join().map_err(|_| "the drain panicked")??)
}
