//! A client of HTTP/1.1, with only what the load of a service needs, so that its share of a request is small.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept open, for one request at a time.
pub struct Connection {
    stream: TcpStream,
    /// What has arrived of the current response.
    received: Vec<u8>,
}

impl Connection {
    /// Connects to a service.
    ///
    /// # Panics
    /// If nothing listens at the address.
    pub async fn open(service: SocketAddr) -> Self {
        let stream = TcpStream::connect(service).await.expect("a listening service");
        Self { stream, received: Vec::with_capacity(1_024) }
    }

    /// Makes a request, and returns the number that is the body of the response.
    ///
    /// # Panics
    /// If the connection breaks, or the response is not a number with the status 200.
    pub async fn post(&mut self, path: &str) -> u64 {
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await.expect("the service reads");
        self.received.clear();
        loop {
            let read = self.stream.read_buf(&mut self.received).await.expect("the service answers");
            assert_ne!(read, 0, "the service should answer before it closes the connection");
            if let Some(body) = body(&self.received) {
                return body.parse().expect("a number");
            }
        }
    }
}

/// Returns the body of a response, or `None` if the response is incomplete.
///
/// # Panics
/// If the status is not 200, or there is no length.
fn body(response: &[u8]) -> Option<&str> {
    let response = std::str::from_utf8(response).expect("a response in ASCII");
    let (head, body) = response.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"), "the status of `{response}`");
    let length = lines.find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    (body.len() == length.parse::<usize>().expect("a length in digits")).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_returned_when_all_of_it_has_arrived() {
        let response = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 2\r\n\r\n17";
        for length in 0..response.len() {
            assert_eq!(body(&response[..length]), None);
        }
        assert_eq!(body(response), Some("17"));
    }

    #[test]
    #[should_panic(expected = "503")]
    fn another_status_ends_the_run() {
        body(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
    }
}
