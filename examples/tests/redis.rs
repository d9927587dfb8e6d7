//! Runs the built `redis` with an independent client library, and with clients that violate the protocol.
//!
//! Blind spots: speed is measured in `benches/redis`, not here. The tests check that a key expires, but not when.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::error::Error;
#[cfg(target_os = "linux")]
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use redis::{Client, Commands, Connection, RedisResult, Value, cmd, pipe};

mod program;

type Tested = Result<(), Box<dyn Error>>;

/// The time that the server may take to answer, so that the test cannot hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server for one test.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = program::command("redis");
        let command = command.env("POSTROOM_WORKERS", "2").args(["--port", "0"]);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
        let port =
            line.trim_end().strip_prefix("listening on 127.0.0.1:").ok_or(format!("it says {line:?}"))?.parse()?;
        Ok(Self { process, port })
    }

    fn client(&self) -> RedisResult<Connection> {
        Client::open(format!("redis://127.0.0.1:{}/", self.port))?.get_connection()
    }

    /// Opens a raw connection.
    fn connect(&self) -> Result<TcpStream, Box<dyn Error>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn interrupt(&self) -> Tested {
        let status = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err("not interrupted".into()) }
    }

    fn end(mut self) -> Result<ExitStatus, Box<dyn Error>> {
        self.interrupt()?;
        Ok(self.process.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has already ended, unless the test failed.
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Writes bytes, and reads until the connection ends.
fn talk(server: &Server, bytes: &[u8]) -> Result<String, Box<dyn Error>> {
    let mut stream = server.connect()?;
    stream.write_all(bytes)?;
    until_end(stream)
}

fn until_end(mut stream: TcpStream) -> Result<String, Box<dyn Error>> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // The system resets a connection that is closed with data unread. The replies have still arrived.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        read => _ = read?,
    }
    Ok(String::from_utf8(answer)?)
}

/// Reads exactly `length` bytes.
fn read(stream: &mut TcpStream, length: usize) -> Result<String, Box<dyn Error>> {
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer)?)
}

#[test]
fn each_command_answers_a_client() -> Tested {
    let server = Server::start()?;
    let mut client = server.client()?;

    assert_eq!(cmd("PING").query::<String>(&mut client)?, "PONG");
    assert_eq!(cmd("PING").arg("hello").query::<String>(&mut client)?, "hello");

    assert_eq!(client.get::<_, Option<String>>("a")?, None);
    assert_eq!(cmd("SET").arg("a").arg("text").query::<Value>(&mut client)?, Value::Okay);
    assert_eq!(client.get::<_, Option<String>>("a")?.as_deref(), Some("text"));

    let () = client.set("b", "")?;
    assert_eq!(
        client.mget::<_, Vec<Option<String>>>(&["a", "c", "b", "a"])?,
        [Some("text".to_string()), None, Some(String::new()), Some("text".to_string())]
    );
    assert_eq!(client.exists::<_, i64>(&["a", "b", "c", "a"])?, 3);

    assert!(client.incr::<_, _, i64>("n", 2).is_err(), "it does not know INCRBY");
    assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut client)?, 1);
    assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut client)?, 2);
    assert_eq!(client.get::<_, i64>("n")?, 2);

    assert_eq!(client.ttl::<_, i64>("c")?, -2);
    assert_eq!(client.ttl::<_, i64>("a")?, -1);
    assert_eq!(client.expire::<_, i64>("a", 1_000)?, 1);
    assert_eq!(client.expire::<_, i64>("c", 1_000)?, 0);
    assert!((900..=1_000).contains(&client.ttl::<_, i64>("a")?));
    assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut client)?, 3);

    assert_eq!(client.del::<_, i64>(&["a", "b", "c", "a"])?, 2);
    assert_eq!(client.exists::<_, i64>("a")?, 0);
    assert_eq!(cmd("QUIT").query::<Value>(&mut client)?, Value::Okay);
    assert!(cmd("PING").query::<Value>(&mut client).is_err());
    assert!(server.end()?.success());
    Ok(())
}

#[test]
fn what_is_wrong_with_a_request_is_told_and_the_next_is_answered() -> Tested {
    let server = Server::start()?;
    let answers = talk(
        &server,
        b"SET text a\r\nINCR text\r\nSET most 9223372036854775807\r\nINCR most\r\nGET most\r\nGET\r\nEXPIRE text x\r\n\
        EXPIRE text 9223372036854775807\r\nSET a b EX 10\r\nGETX 1\r\nQUIT\r\n",
    )?;
    assert_eq!(
        answers.split("\r\n").collect::<Vec<_>>(),
        [
            "+OK",
            "-ERR value is not an integer or out of range",
            "+OK",
            "-ERR increment or decrement would overflow",
            "$19",
            "9223372036854775807",
            "-ERR wrong number of arguments for 'get' command",
            "-ERR value is not an integer or out of range",
            "-ERR invalid expire time in 'expire' command",
            "-ERR syntax error",
            "-ERR unknown command 'GETX', with args beginning with: '1' ",
            "+OK",
            ""
        ]
    );
    Ok(())
}

#[test]
fn keys_and_values_are_any_bytes_of_any_length() -> Tested {
    let server = Server::start()?;
    let mut client = server.client()?;
    let bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    for length in [0, 1, 255, 256, 16 << 10, (16 << 10) + 1, 3 << 20] {
        let (key, value) = (&bytes[..length], &bytes[..length]);
        let () = client.set(key, value)?;
        assert!(client.get::<_, Vec<u8>>(key)? == value, "{length}");
        assert_eq!(client.del::<_, i64>(key)?, 1);
    }
    Ok(())
}

#[test]
fn a_pipeline_is_answered_in_its_order() -> Tested {
    let server = Server::start()?;
    let mut client = server.client()?;
    let (mut pipe, mut expected) = (pipe(), Vec::new());
    let mut counts: BTreeMap<u64, i64> = BTreeMap::new();
    for number in 0..5_000_u64 {
        let key = number * number % 101;
        if number % 7 == 0 {
            pipe.cmd("GET").arg(key);
            expected.push(counts.get(&key).map_or(Value::Nil, |count| Value::BulkString(count.to_string().into())));
        } else {
            let count = counts.entry(key).or_default();
            *count += 1;
            pipe.cmd("INCR").arg(key);
            expected.push(Value::Int(*count));
        }
    }
    assert_eq!(pipe.query::<Vec<Value>>(&mut client)?, expected);
    let keys: Vec<u64> = counts.keys().copied().collect();
    assert_eq!(client.mget::<_, Vec<i64>>(keys)?, counts.values().copied().collect::<Vec<_>>());
    Ok(())
}

#[test]
fn many_clients_at_once_lose_no_increment() -> Tested {
    const CLIENTS: i64 = 50;
    const EACH: i64 = 400;
    let server = Server::start()?;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| -> RedisResult<()> {
                    let mut client = server.client()?;
                    for number in 0..EACH {
                        let shared = cmd("INCR").arg(number % 10).query::<i64>(&mut client)?;
                        assert!((1..=CLIENTS * EACH / 10).contains(&shared));
                    }
                    Ok(())
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| client.join().expect("no panic"))
    })?;
    let counts = server.client()?.mget::<_, Vec<i64>>((0..10).collect::<Vec<i64>>())?;
    assert_eq!(counts, [CLIENTS * EACH / 10; 10]);
    assert!(server.end()?.success());
    Ok(())
}

#[test]
fn a_key_ends_when_its_time_is_over() -> Tested {
    let server = Server::start()?;
    let mut client = server.client()?;
    for key in ["ends", "is set anew", "gets more time", "is counted"] {
        let () = client.set(key, "1")?;
        assert_eq!(client.expire::<_, i64>(key, 1)?, 1);
    }
    let () = client.set("is set anew", "2")?;
    assert_eq!(client.expire::<_, i64>("gets more time", 1_000)?, 1);
    assert_eq!(cmd("INCR").arg("is counted").query::<i64>(&mut client)?, 2);
    for key in ["ends", "is counted"] {
        while client.exists(key)? {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.ttl::<_, i64>(key)?, -2);
    }
    assert_eq!(client.ttl::<_, i64>("is set anew")?, -1);
    assert!(client.ttl::<_, i64>("gets more time")? > 900);
    for seconds in [0, -1] {
        let () = client.set("at once", "1")?;
        assert_eq!(client.expire::<_, i64>("at once", seconds)?, 1);
        assert_eq!(client.exists::<_, i64>("at once")?, 0);
    }
    Ok(())
}

#[test]
fn what_is_published_comes_to_all_who_have_subscribed_in_order() -> Tested {
    const MESSAGES: usize = 500;
    let server = Server::start()?;
    let mut publisher = server.client()?;
    assert_eq!(publisher.publish::<_, _, i64>("news", "nobody hears")?, 0);

    let mut subscribers: Vec<_> = (0..3).map(|_| server.client()).collect::<Result<_, _>>()?;
    thread::scope(|scope| -> Tested {
        let mut heard = Vec::new();
        for (number, client) in subscribers.iter_mut().enumerate() {
            let mut pubsub = client.as_pubsub();
            pubsub.set_read_timeout(Some(PATIENCE))?;
            pubsub.subscribe("news")?;
            pubsub.subscribe(&[format!("own {number}"), "a\r\nb".to_string()])?;
            heard.push(scope.spawn(move || -> RedisResult<Vec<(String, String)>> {
                let mut heard = Vec::new();
                while heard.len() < MESSAGES + 2 {
                    let message = pubsub.get_message()?;
                    heard.push((message.get_channel_name().to_string(), message.get_payload()?));
                }
                Ok(heard)
            }));
        }
        for number in 0..MESSAGES {
            assert_eq!(publisher.publish::<_, _, i64>("news", number)?, 3);
        }
        for number in 0..3 {
            assert_eq!(publisher.publish::<_, _, i64>(format!("own {number}"), "yours")?, 1);
        }
        assert_eq!(publisher.publish::<_, _, i64>("a\r\nb", "end")?, 3);
        for (number, heard) in heard.into_iter().enumerate() {
            let mut expected: Vec<_> = (0..MESSAGES).map(|text| ("news".to_string(), text.to_string())).collect();
            expected
                .extend([(format!("own {number}"), "yours".to_string()), ("a\r\nb".to_string(), "end".to_string())]);
            assert_eq!(heard.join().expect("no panic")?, expected);
        }
        Ok(())
    })?;

    // A disconnected client is no longer counted.
    drop(subscribers);
    while publisher.publish::<_, _, i64>("news", "nobody hears")? > 0 {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(server.end()?.success());
    Ok(())
}

#[test]
fn who_subscribes_may_only_ask_for_a_few_things() -> Tested {
    let server = Server::start()?;
    let answers = talk(
        &server,
        b"UNSUBSCRIBE\r\nSUBSCRIBE a b a\r\nGET x\r\nPING\r\nPING x\r\n\
          UNSUBSCRIBE b c\r\nUNSUBSCRIBE\r\nPING\r\nQUIT\r\n",
    )?;
    let expected = "*3 $11 unsubscribe $-1 :0 \
        *3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *3 $9 subscribe $1 a :2 \
        -ERR Can't execute 'GET': only SUBSCRIBE / UNSUBSCRIBE / PING / QUIT are allowed in this context \
        *2 $4 pong $0  *2 $4 pong $1 x \
        *3 $11 unsubscribe $1 b :1 *3 $11 unsubscribe $1 c :1 *3 $11 unsubscribe $1 a :0 \
        +PONG +OK ";
    assert_eq!(answers.replace("\r\n", " "), expected);
    Ok(())
}

#[test]
fn a_subscriber_that_does_not_read_holds_nobody_up() -> Tested {
    let server = Server::start()?;
    let mut deaf = server.connect()?;
    deaf.write_all(b"SUBSCRIBE a\r\n")?;
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
    assert_eq!(read(&mut deaf, confirmed.len())?, confirmed);

    let mut client = server.client()?;
    let text = "x".repeat(64 << 10);
    let mut missed = 0;
    // This is far more than the system's socket buffers and the client's mailbox can hold.
    for _ in 0..3_000 {
        missed += 1 - client.publish::<_, _, i64>("a", &text)?;
    }
    assert!(missed > 0, "its mailbox is not so large");
    assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut client)?, 1);
    assert!(server.end()?.success());
    Ok(())
}

#[test]
fn who_breaks_the_protocol_is_told_and_harms_no_one_else() -> Tested {
    let server = Server::start()?;
    let mut other = server.client()?;
    let long = vec![b'x'; 100_000];
    let table: &[(&[u8], &str)] = &[
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$3\r\nPING\r\n", "expected the end of a line after a bulk string"),
        (b"GET \"a\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&[b"*", &long[..]].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "too big bulk count string"),
    ];
    for (number, (bytes, text)) in (1..).zip(table) {
        // Earlier requests are answered, and later ones are not.
        let stream = [b"PING\r\nSET a b\r\n", *bytes, b"SET a c\r\nPING\r\n"].concat();
        assert_eq!(talk(&server, &stream)?, format!("+PONG\r\n+OK\r\n-ERR Protocol error: {text}\r\n"));
        assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut other)?, number);
        assert_eq!(other.get::<_, String>("a")?, "b");
    }
    assert!(server.end()?.success());
    Ok(())
}

#[test]
fn a_request_may_come_in_pieces_and_be_left_half_sent() -> Tested {
    let server = Server::start()?;
    let mut other = server.client()?;
    let request = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\nb\r\nc\r\n";
    let mut slow = server.connect()?;
    slow.set_nodelay(true)?;
    for (number, byte) in (1..).zip(request) {
        slow.write_all(&[*byte])?;
        assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut other)?, number);
    }
    assert_eq!(read(&mut slow, 5)?, "+OK\r\n");
    assert_eq!(other.get::<_, String>("a")?, "b\r\nc");

    for length in 0..request.len() {
        let mut half = server.connect()?;
        half.write_all(&request[..length])?;
        if length % 2 == 0 {
            // The client closes its sending side, and then the server closes its own.
            half.shutdown(Shutdown::Write)?;
            assert_eq!(until_end(half)?, "");
        }
    }
    // Other clients do not wait for announced data that never arrives.
    let mut greedy = server.connect()?;
    greedy.write_all(b"*1048576\r\n$536870912\r\nx")?;
    assert_eq!(cmd("PING").query::<String>(&mut other)?, "PONG");
    assert!(server.end()?.success());
    Ok(())
}

#[test]
fn a_client_that_asks_and_never_reads_holds_nobody_up() -> Tested {
    let server = Server::start()?;
    let mut other = server.client()?;
    let () = other.set("large", "x".repeat(1 << 20))?;
    let mut greedy = server.connect()?;
    // The server stops reading when it cannot write; then this write blocks as well.
    greedy.set_write_timeout(Some(Duration::from_millis(100)))?;
    let requests = b"GET large\r\n".repeat(1_000);
    while greedy.write_all(&requests).is_ok() {}
    assert_eq!(cmd("INCR").arg("n").query::<i64>(&mut other)?, 1);
    drop(greedy);
    assert!(server.end()?.success());
    Ok(())
}

/// However clients disconnect (with QUIT, in the middle of a request, without reading their replies, with a broken
/// request), the server keeps neither their processes nor their sockets.
#[test]
#[cfg(target_os = "linux")]
fn clients_that_come_and_go_leave_nothing_behind() -> Tested {
    let server = Server::start()?;
    let open = || Ok::<_, std::io::Error>(fs::read_dir(format!("/proc/{}/fd", server.process.id()))?.count());
    let mut client = server.client()?;
    let () = client.set("large", "x".repeat(1 << 20))?;
    let before = open()?;
    for number in 0..400 {
        let mut stream = server.connect()?;
        let requests: &[u8] = match number % 5 {
            0 => b"PING\r\nQUIT\r\n",
            1 => b"*2\r\n$3\r\nGET\r\n$5\r\nlar",
            2 => b"GET large\r\nGET large\r\nGET large\r\nGET large\r\n",
            3 => b"SUBSCRIBE a b c\r\n",
            _ => b"*1\r\n$-1\r\n",
        };
        stream.write_all(requests)?;
    }
    while open()? > before {
        thread::sleep(Duration::from_millis(5));
    }
    // The connection's state is dropped, and its socket closed, before the connection has left its channels.
    while client.publish::<_, _, i64>("a", "nobody hears")? > 0 {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(server.end()?.success());
    Ok(())
}

/// On Ctrl-C the server exits without errors, and all answers sent until then are in order.
#[test]
fn an_interrupt_under_load_ends_it_in_order() -> Tested {
    const CLIENTS: usize = 8;
    let server = Server::start()?;
    let idle = server.connect()?;
    let streams: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect::<Result<_, _>>()?;
    let (is_busy, busy) = channel();
    let clients: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(number, stream)| {
            let is_busy = is_busy.clone();
            thread::spawn(move || flood(&stream, number, &is_busy))
        })
        .collect();
    (0..CLIENTS).try_for_each(|_| busy.recv())?;
    assert!(server.end()?.success());
    for client in clients {
        let answers = client.join().expect("no panic")?;
        assert!((1_u64..).zip(answers.split_inclusive('\n')).all(|(number, line)| line == format!(":{number}\r\n")));
    }
    assert_eq!(until_end(idle)?, "");
    Ok(())
}

/// Increments a key until the server is gone, and reports the first answer to `is_busy`. Returns all answers.
fn flood(mut stream: &TcpStream, number: usize, is_busy: &Sender<()>) -> Result<String, String> {
    let requests = format!("INCR {number}\r\n").repeat(50);
    let mut answers = vec![0; 4];
    thread::scope(|scope| {
        let mut requester = stream;
        scope.spawn(move || while requester.write_all(requests.as_bytes()).is_ok() {});
        stream.read_exact(&mut answers).map_err(|error| error.to_string())?;
        is_busy.send(()).map_err(|error| error.to_string())?;
        match stream.read_to_end(&mut answers) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            read => _ = read.map_err(|error| error.to_string())?,
        }
        // The last replies may be lost, if the server did not read all requests, or was killed.
        let last = answers.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        answers.truncate(last);
        String::from_utf8(answers).map_err(|error| error.to_string())
    })
}

#[test]
fn it_says_why_it_does_not_start() -> Tested {
    let server = Server::start()?;
    let output = program::command("redis").args(["--port", &server.port.to_string()]).output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr)?.contains("in use"));
    for arguments in [&["--port"][..], &["--port", "65536"], &["--port", "x"], &["--ports"], &["6379"]] {
        let output = program::command("redis").args(arguments).output()?;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8(output.stderr)?.contains("usage: redis"), "{arguments:?}");
    }
    assert!(program::command("redis").arg("--help").output()?.status.success());
    Ok(())
}
