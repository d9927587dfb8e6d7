//! The value and the key of a name in the store.

use crate::store::Revision;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use postroom::Pid;

/// The maximum length of a name, in bytes.
pub const MAX_NAME: usize = 1_024;

/// The version of the record format that this crate writes.
const FORM: u8 = 1;

/// The maximum length of a key. A name whose key would be longer gets a key that starts with its hash.
const MAX_KEY: usize = 200;

/// The holder of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: Pid,
    /// The epoch of its node's membership. The name ends with that membership.
    pub epoch: Revision,
}

/// Encodes the record of a name.
pub(super) fn encode(name: &str, holder: &Holder) -> Bytes {
    let mut out = BytesMut::with_capacity(25 + name.len());
    out.put_u8(FORM);
    out.put_slice(&holder.pid.to_bytes());
    out.put_u64(holder.epoch.0);
    out.put_slice(name.as_bytes());
    out.freeze()
}

/// Decodes a record.
///
/// # Errors
/// If the bytes are not a valid record.
pub(crate) fn decode(mut bytes: Bytes) -> Result<(String, Holder), NameRecordError> {
    let form = bytes.try_get_u8().map_err(|_| NameRecordError::Truncated)?;
    if form != FORM {
        return Err(NameRecordError::Form { form });
    }
    let pid = bytes.try_get_u128().map_err(|_| NameRecordError::Truncated)?;
    let pid = Pid::from_bytes(pid.to_be_bytes()).ok_or(NameRecordError::Pid)?;
    let epoch = Revision(bytes.try_get_u64().map_err(|_| NameRecordError::Truncated)?);
    if bytes.is_empty() || bytes.len() > MAX_NAME {
        return Err(NameRecordError::Length { bytes: bytes.len() });
    }
    let name = String::from_utf8(bytes.into()).map_err(|_| NameRecordError::NotText)?;
    Ok((name, Holder { pid, epoch }))
}

/// Returns the key of a name: letters, digits, `-` and `_` are unchanged, and any other byte becomes `=` and two
/// hexadecimal digits. No two names have the same key, except long ones: see [`MAX_KEY`].
pub(crate) fn key(name: &str) -> String {
    use std::fmt::Write;
    let mut key = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => key.push(char::from(byte)),
            other => _ = write!(key, "={other:02x}"),
        }
    }
    if key.len() <= MAX_KEY {
        return key;
    }
    // No other key begins with `==`. Two names with the same key exclude each other: the registration of the second
    // reports the holder of the first.
    format!("=={:032x}{}", hash(name), &key[..64])
}

/// Returns the 128-bit FNV-1a hash of a text (Fowler, Noll, Vo).
fn hash(text: &str) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    text.bytes().fold(start, |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// Why bytes are not a valid record of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameRecordError {
    /// The record has another format version.
    #[error("the record of a name has form {form}, and this node reads {FORM}; upgrade the older of the two nodes")]
    Form {
        /// The version of the record.
        form: u8,
    },
    /// The record is too short.
    #[error("the record of a name is too short; check who may write to the bucket of names")]
    Truncated,
    /// The PID in the record is not valid.
    #[error("the record of a name has a PID without a node; check who may write to the bucket of names")]
    Pid,
    /// The name is empty or too long.
    #[error("the record of a name has a name of {bytes} bytes, not 1 to {MAX_NAME}; check who may write to it")]
    Length {
        /// The length of the name.
        bytes: usize,
    },
    /// The name is not UTF-8.
    #[error("the record of a name is not UTF-8; check who may write to the bucket of names")]
    NotText,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::is_key;

    #[test]
    fn keys_are_legal_and_differ() {
        let names = ["acct-7", "acct_7", "acct.7", "acct=7", "acct=2e7", "==", "ü", " ", ".", "a b", "A", "a"];
        let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
        assert!(keys.iter().all(|key| is_key(key)), "{keys:?}");
        let mut distinct = keys.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
        assert_eq!((keys[0].as_str(), keys[2].as_str()), ("acct-7", "acct=2e7"));
        let [one, other] = ["x".repeat(1_023) + "1", "x".repeat(1_023) + "2"];
        assert!(key(&one) != key(&other) && is_key(&key(&one)) && key(&one).starts_with("=="));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let holder = Holder { pid: "<7.0.5.1>".parse().unwrap(), epoch: Revision(9) };
        let whole = encode("acct-7", &holder);
        assert_eq!(decode(whole.clone()), Ok(("acct-7".into(), holder)));
        for length in 0..25 {
            assert_eq!(decode(whole.slice(..length)), Err(NameRecordError::Truncated));
        }
        assert_eq!(decode(whole.slice(..25)), Err(NameRecordError::Length { bytes: 0 }));
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            decode(bytes.into())
        };
        assert_eq!(with(0, 2), Err(NameRecordError::Form { form: 2 }));
        assert_eq!(with(25, 0xff), Err(NameRecordError::NotText));
        assert_eq!(decode(vec![1; 25 + MAX_NAME + 1].into()), Err(NameRecordError::Length { bytes: MAX_NAME + 1 }));
        assert_eq!(decode([&[1][..], &[0; 30]].concat().into()), Err(NameRecordError::Pid));
    }
}
