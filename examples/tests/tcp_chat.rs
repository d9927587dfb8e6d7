//! Tests the chat server as a user runs it: until it is interrupted.
#![cfg(unix)]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

mod program;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The server has already ended, unless the test failed.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A line that is too long disconnects only its sender. An interrupt lets the server say goodbye.
#[test]
fn it_serves_until_it_is_interrupted() -> Result<(), Box<dyn Error>> {
    let mut server = Server(program::command("tcp_chat").arg("--serve").stdout(Stdio::piped()).spawn()?);
    let mut printed = BufReader::new(server.0.stdout.take().ok_or("no pipe")?);
    let mut line = String::new();
    printed.read_line(&mut line)?;
    let address = line.trim_end().strip_prefix("listening on ").ok_or(format!("it says {line:?}"))?;

    let mut greedy = TcpStream::connect(address)?;
    greedy.write_all("x".repeat(16 * 1024 + 1).as_bytes())?;
    let mut answer = String::new();
    greedy.read_to_string(&mut answer)?;
    assert_eq!(answer, "welcome, what is your name?\n* this line is too long, goodbye\n");

    let mut ada = BufReader::new(TcpStream::connect(address)?);
    ada.get_mut().write_all(b"ada\n")?;
    let mut heard = String::new();
    while !heard.contains("joined lobby") {
        assert!(ada.read_line(&mut heard)? > 0, "{heard}");
    }
    assert!(Command::new("kill").args(["-INT", &server.0.id().to_string()]).status()?.success());
    ada.read_to_string(&mut heard)?;
    assert_eq!(heard, "welcome, what is your name?\n* ada joined lobby\n* the server closes, goodbye\n");
    drop(ada);
    let mut last = String::new();
    printed.read_to_string(&mut last)?;
    assert_eq!(last, "clean shutdown: true\n");
    assert!(server.0.wait()?.success());
    Ok(())
}
