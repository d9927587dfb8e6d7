//! The protocol of `examples/redis`. The first byte determines the size of the pieces in which the other bytes arrive.

use crate::command::Command;
use crate::driver::{Dice, Food, fuzz};
use crate::resp::{Requests, number};

type Request = Vec<Vec<u8>>;

/// Feeds the bytes in pieces of these sizes. Returns the requests up to the first error, and that error.
fn requests(bytes: &[u8], mut size: impl FnMut() -> usize) -> (Vec<Request>, Option<String>) {
    let (mut requests, mut found, mut left) = (Requests::default(), Vec::new(), bytes);
    while !left.is_empty() {
        let (piece, rest) = left.split_at(size().clamp(1, left.len()));
        left = rest;
        requests.space().extend_from_slice(piece);
        loop {
            match requests.next() {
                Ok(None) => break,
                Ok(Some(words)) => {
                    assert!(words.len() > 0, "a request of no words is none");
                    // Parsing must not panic, whatever the request contains.
                    let _may_be_wrong = Command::of(words).map_err(|error| assert!(error.to_string().len() < 2_000));
                    found.push(words.iter().map(<[u8]>::to_vec).collect());
                }
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }
    (found, None)
}

/// Returns a request in the form in which a client writes it.
fn written(request: &Request) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for word in request {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub fn target(data: &[u8]) -> u64 {
    let (&first, bytes) = data.split_first().unwrap_or((&0, &[]));
    let (whole, error) = requests(bytes, || usize::MAX);
    let mut dice = Dice(u64::from(first) << 8 | 1);
    let most = 1 + usize::from(first % 16);
    assert_eq!(requests(bytes, || 1 + dice.below(most)), (whole.clone(), error.clone()), "in pieces");
    let again: Vec<u8> = whole.iter().flat_map(written).collect();
    assert_eq!(requests(&again, || usize::MAX), (whole.clone(), None), "written anew");
    // Bytes are a number if the standard library reads them as one and would write the same bytes.
    let plain = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
    assert_eq!(number(bytes), plain.filter(|number| number.to_string().as_bytes() == bytes));
    let error = error.map_or(0, |error| error.bytes().map(u64::from).sum());
    let words: usize = whole.iter().map(Vec::len).sum();
    error << 16 | (whole.len().min(15) as u64) << 4 | words.min(15) as u64
}

#[test]
fn redis_requests() {
    let corpus: &[&[u8]] = &[
        b"\x01*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\na\r\nb\0\r\n",
        b"\x04PING\r\n*0\r\n\r\n*-1\r\n*1\r\n$4\r\nPING\r\n",
        b"\x09 get  \"a \\x41b\" 'c\\''\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
        b"\x00*2\r\n$6\r\nexpire\r\n$2\r\n-1\r\nmget a b\n",
        b"\x02-9223372036854775808",
    ];
    let words: &[&[u8]] = &[
        b"\r\n",
        b"*",
        b"$",
        b"*1048577\r\n",
        b"$536870913\r\n",
        b"$-1\r\n",
        b"*9223372036854775808\r\n",
        b"\"",
        b"'",
        b"\\x",
        b"publish",
        b"subscribe",
        b"incr",
        b"$4\r\nquit\r\n",
        b"*1\r\n",
    ];
    fuzz("redis requests", &Food { corpus, words }, target);
}
