//! The protocol of `redis`, without a socket: the same bytes have the same meaning in any pieces.

use std::ops::RangeInclusive;

#[expect(dead_code, reason = "a batch is the server's affair")]
#[path = "../redis/batch.rs"]
mod batch;
#[expect(dead_code, reason = "the server reads what is only made here")]
#[path = "../redis/command.rs"]
mod command;
#[path = "../redis/inline.rs"]
mod inline;
#[path = "../redis/reply.rs"]
mod reply;
#[path = "../redis/resp.rs"]
mod resp;

use command::{Command, CommandError};
use reply::Replies;
use resp::{ProtocolError, Requests, number};

type Request = Vec<Vec<u8>>;

/// Returns the requests in the given pieces of a stream, up to the first error.
fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Request>, Option<ProtocolError>) {
    let (mut requests, mut found) = (Requests::default(), Vec::new());
    for piece in pieces {
        requests.space().extend_from_slice(piece);
        loop {
            match requests.next() {
                Ok(None) => break,
                Ok(Some(words)) => found.push(words.iter().map(<[u8]>::to_vec).collect()),
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn whole(bytes: &[u8]) -> (Vec<Request>, Option<ProtocolError>) {
    requests([bytes])
}

fn request(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns a pseudorandom number, so that each run tests the same input.
fn next(state: &mut u64, range: RangeInclusive<u64>) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    range.start() + *state % (range.end() - range.start() + 1)
}

const STREAM: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\na\r\nb\0\r\nPING\r\n*0\r\n\r\n*-1\r\n*1\r\n$4\r\nPING\r\n \
    get  \"a b\" 'c'\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n";

fn of_stream() -> Vec<Request> {
    [&["SET", "a", "a\r\nb\0"][..], &["PING"], &["PING"], &["get", "a b", "c"], &["GET", ""]].map(request).to_vec()
}

#[test]
fn a_stream_in_one_piece() {
    assert_eq!(whole(STREAM), (of_stream(), None));
}

#[test]
fn a_stream_byte_by_byte() {
    assert_eq!(requests(STREAM.chunks(1)), (of_stream(), None));
}

#[test]
fn a_stream_cut_anywhere() {
    for first in 0..=STREAM.len() {
        for second in first..=STREAM.len() {
            let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
            assert_eq!(requests(pieces), (of_stream(), None), "cut at {first} and {second}");
        }
    }
}

#[test]
fn what_breaks_the_protocol_is_named() {
    let table: &[(&[u8], &str)] = &[
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        (b"*1\r\n\r\n", r"expected '$', got '\r'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$+4\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$3\r\nPING\r\n", "expected the end of a line after a bulk string"),
        (b"get \"a\r\n", "unbalanced quotes in request"),
        (b"get 'a'b\r\n", "unbalanced quotes in request"),
    ];
    for (bytes, text) in table {
        let before = [b"PING\r\n", *bytes].concat();
        for pieces in [vec![&before[..]], before.chunks(1).collect()] {
            let (found, error) = requests(pieces);
            assert_eq!(found, [request(&["PING"])], "{}", bytes.escape_ascii());
            assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(*text), "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn lines_without_end_are_refused_at_64_kib() {
    for (first, expected) in
        [("x", ProtocolError::LongLine), ("*", ProtocolError::LongCount), ("*1\r\n$", ProtocolError::LongLength)]
    {
        let line = |length| [first.as_bytes(), &vec![b'1'; length]].concat();
        assert_eq!(whole(&line(60_000)), (vec![], None));
        assert_eq!(whole(&line(70_000)), (vec![], Some(expected)));
    }
}

#[test]
fn nothing_is_reserved_for_what_is_only_announced() {
    let mut requests = Requests::default();
    requests.space().extend_from_slice(b"*1048576\r\n$536870912\r\n");
    assert!(requests.next().is_ok_and(|request| request.is_none()));
    assert!(requests.space().capacity() < 100_000);
}

#[test]
fn what_a_large_request_needed_is_given_back() {
    let mut requests = Requests::default();
    requests.space().extend_from_slice(b"*1\r\n$10000000\r\n");
    requests.space().extend_from_slice(&vec![b'x'; 10_000_000]);
    requests.space().extend_from_slice(b"\r\n");
    assert!(requests.next().is_ok_and(|request| request.is_some_and(|words| words.len() == 1)));
    assert!(requests.space().capacity() < 100_000);

    let mut replies = Replies::default();
    replies.bulk(&vec![b'x'; 10_000_000]);
    replies.clear();
    assert!(replies.bytes.is_empty() && replies.bytes.capacity() < 1_000_000);
}

#[test]
fn lines_are_split_as_a_shell_would() {
    let table: &[(&str, Option<&[&str]>)] = &[
        ("", Some(&[])),
        (" \t ", Some(&[])),
        ("a  b\tc ", Some(&["a", "b", "c"])),
        (r#"set "a b" 'c d'"#, Some(&["set", "a b", "c d"])),
        (r#""\x41\n\t\"\\\q""#, Some(&["A\n\t\"\\q"])),
        (r#"'\n\'\x41'"#, Some(&[r"\n'\x41"])),
        (r#"a"b c"d"#, None),
        (r#"a"b c" d"#, Some(&["ab c", "d"])),
        (r#""" ''"#, Some(&["", ""])),
        (r#"""#, None),
        (r#""a\"#, None),
        (r#""a\""#, None),
        ("'a", None),
        (r#""\x4""#, Some(&["x4"])),
        (r#""\xzz""#, Some(&["xzz"])),
    ];
    for (line, expected) in table {
        let (mut bytes, mut places) = (line.as_bytes().to_vec(), Vec::new());
        let words =
            inline::split(&mut bytes, &mut places).map(|()| places.into_iter().map(|place| bytes[place].to_vec()));
        assert_eq!(words.map(Iterator::collect), expected.map(request), "{line}");
    }
}

#[test]
fn numbers_are_written_in_one_way() {
    for (text, value) in [("0", 0), ("-1", -1), ("10", 10), ("9223372036854775807", i64::MAX)] {
        assert_eq!(number(text.as_bytes()), Some(value));
    }
    assert_eq!(number(b"-9223372036854775808"), Some(i64::MIN));
    for text in ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "1e3", "9223372036854775808", "one"] {
        assert_eq!(number(text.as_bytes()), None, "{text}");
    }
}

/// Garbled bytes are either parsed or refused; the parser neither panics nor hangs, and the result does not depend on
/// the pieces.
#[test]
fn garbled_streams() {
    let mut state = 1;
    for _ in 0..20_000 {
        let mut bytes = STREAM.to_vec();
        for _ in 0..next(&mut state, 1..=4) {
            let at = next(&mut state, 0..=bytes.len() as u64 - 1) as usize;
            match next(&mut state, 0..=3) {
                0 => bytes[at] = next(&mut state, 0..=255) as u8,
                1 => bytes[at] = b"*$\r\n\"'0123456789-"[next(&mut state, 0..=16) as usize],
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, next(&mut state, 0..=255) as u8),
            }
        }
        let size = next(&mut state, 1..=9) as usize;
        assert_eq!(whole(&bytes), requests(bytes.chunks(size)), "{}", bytes.escape_ascii());
    }
}

/// Returns the error of a command line, or none if it is valid.
fn refused(line: &str) -> Option<CommandError> {
    let mut requests = Requests::default();
    requests.space().extend_from_slice(format!("{line}\r\n").as_bytes());
    let words = requests.next().expect("a good line").expect("a whole line");
    Command::of(words).err()
}

#[test]
fn commands_say_what_they_need() {
    for line in [
        "get a",
        "SeT a b",
        "INCR a",
        "mget a",
        "mget a b",
        "del a b c",
        "EXISTS a a",
        "expire a -1",
        "ttl a",
        "ping",
        "ping a",
        "publish a b",
        "subscribe a b",
        "unsubscribe",
        "unsubscribe a",
        "quit",
    ] {
        assert_eq!(refused(line), None, "{line}");
    }
    for line in [
        "get",
        "get a b",
        "set",
        "set a",
        "incr",
        "incr a b",
        "mget",
        "del",
        "exists",
        "expire a",
        "expire a 1 2",
        "ttl",
        "ttl a b",
        "ping a b",
        "publish a",
        "publish a b c",
        "subscribe",
    ] {
        let text = refused(line).map(|error| error.to_string());
        let name = line.split(' ').next().unwrap_or_default();
        assert_eq!(text, Some(format!("wrong number of arguments for '{name}' command")), "{line}");
    }
    assert_eq!(refused("set a b ex 10"), Some(CommandError::Syntax));
    assert_eq!(refused("expire a soon"), Some(CommandError::NotANumber));
    let unknown = refused("getx 'a b' c").map(|error| error.to_string());
    assert_eq!(unknown.as_deref(), Some("unknown command 'getx', with args beginning with: 'a b' 'c' "));
}

/// An unknown command gets a short error of one line, however long it is and whatever it contains.
#[test]
fn what_is_quoted_is_short() {
    let long = refused(&format!("{} {}", "x".repeat(10_000), "y ".repeat(10_000))).map(|error| error.to_string());
    assert!(long.is_some_and(|text| text.len() < 1_000));
    let mut replies = Replies::default();
    replies.error("two\r\nlines");
    assert_eq!(replies.bytes, b"-ERR two  lines\r\n");
}

#[test]
fn replies() {
    let mut replies = Replies::default();
    replies.simple("OK");
    replies.integer(-12);
    replies.array(2);
    replies.bulk(b"a\r\nb");
    replies.bulk_or_null(None);
    replies.bulk_or_null(Some(b""));
    assert_eq!(replies.bytes.escape_ascii().to_string(), r"+OK\r\n:-12\r\n*2\r\n$4\r\na\r\nb\r\n$-1\r\n$0\r\n\r\n");
}
