//! The text of a PID.

use crate::driver::{Food, fuzz};
use postroom::Pid;

/// Parses a PID independently of the runtime: its four numbers, within their bounds.
fn read(text: &str) -> Option<[u64; 4]> {
    let bare = text.strip_prefix('<')?.strip_suffix('>')?;
    let parts: Vec<_> = bare.split('.').collect();
    let [node, host, slot, generation] = parts[..] else { return None };
    let number = |part: &str, base: u64, below: u64| {
        let digit = |letter: char| letter.to_digit(base as u32).map(u64::from);
        let add = |sum: u64, letter| sum.checked_mul(base)?.checked_add(digit(letter)?);
        part.chars().try_fold(0, add).filter(|number| *number < below && !part.is_empty())
    };
    let node = number(node, 16, 1 << 48).filter(|node| *node > 0)?;
    Some([node, number(host, 10, 1 << 16)?, number(slot, 10, 1 << 28)?, number(generation, 10, 1 << 36)?])
}

pub fn target(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let expected = read(&text);
    match text.parse::<Pid>() {
        Ok(pid) => {
            let [node, host, slot, generation] = expected.unwrap_or_else(|| panic!("{pid} is no PID"));
            assert_eq!((pid.node().get(), u64::from(pid.host_number())), (node, host));
            assert_eq!(pid.to_string(), format!("<{node:x}.{host}.{slot}.{generation}>"));
            assert_eq!(pid.to_string().parse(), Ok(pid));
            let json = serde_json::to_string(&pid).expect("a text");
            assert_eq!(serde_json::from_str::<Pid>(&json).expect("its own text"), pid);
            // No node in this program has that number, except with a probability of 2^-48.
            assert!(!pid.is_alive() && !pid.stop());
            u64::from(pid.is_alias())
        }
        Err(error) => {
            assert_eq!(expected, None, "{error}");
            let error = error.to_string();
            assert!(error.len() < 600, "{error}");
            assert!(serde_json::from_value::<Pid>(text.into()).is_err());
            // The number tells apart the reasons.
            error.rsplit(':').next().map_or(0, |reason| 2 + reason.bytes().map(u64::from).sum::<u64>())
        }
    }
}

#[test]
fn pids() {
    let corpus: &[&[u8]] =
        &[b"<1.0.0.0>", b"<ffffffffffff.65535.268435455.68719476735>", b"<a1b2c3.7.12.345>", b"<>", b""];
    let words: &[&[u8]] = &[
        b"<",
        b">",
        b".",
        b"-",
        b"+",
        b"0",
        b"00000000000000000000",
        b"65536",
        b"268435456",
        b"68719476736",
        b"1000000000000",
        "\u{660}".as_bytes(),
    ];
    fuzz("pids", &Food { corpus, words }, target);
}
