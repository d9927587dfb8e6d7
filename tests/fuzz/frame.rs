//! Frames between the nodes of a cluster.

use crate::driver::{Food, fuzz};
use postroom_cluster::frame::{DecodeError, Frame};

pub fn target(data: &[u8]) -> u64 {
    match Frame::decode(data.to_vec().into()) {
        Ok(frame) => {
            assert_eq!(frame.encode(), data, "there is one form of each frame: {frame:?}");
            // This tells apart the kinds of frames and, roughly, their sizes.
            1 << 32 | u64::from(data[1]) << 8 | data.len().ilog2() as u64
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1_000, "{text}");
            match error {
                DecodeError::Truncated(field) => field.bytes().map(u64::from).sum(),
                DecodeError::Field { field, .. } => 1 << 16 | field.bytes().map(u64::from).sum::<u64>(),
                _ => 2 << 16 | text.bytes().filter(u8::is_ascii_alphabetic).map(u64::from).sum::<u64>(),
            }
        }
    }
}

/// Returns a frame of this kind. `body` comes after the epochs of both ends.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let (from, to) = ([0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0]);
    [&[1, kind], from.as_slice(), to.as_slice(), body].concat()
}

#[test]
fn frames() {
    let numbers = |count: usize| [0_u8, 0, 0, 0, 0, 0, 1, 0].repeat(count);
    let entry = [&[0, 4], b"bank".as_slice(), &[7; 8]].concat();
    let hello = frame(1, &[&[0, 0], numbers(3).as_slice(), &[0, 1], &entry].concat());
    let piece = [&[1, 0, 0, 0, 3], b"abc".as_slice()].concat();
    let notice = [&[2], [0, 0, 0, 0, 0, 1, 0, 0].repeat(2).as_slice()].concat();
    let segment = frame(2, &[&[0, 1], numbers(3).as_slice(), &[0, 2], &piece, &notice].concat());
    let (goodbye, end) = (frame(3, &numbers(2)), frame(4, &[3]));
    for whole in [&hello, &segment, &goodbye, &end] {
        assert!(Frame::decode(whole.clone().into()).is_ok(), "{:?}", Frame::decode(whole.clone().into()));
    }
    let corpus: [&[u8]; 5] = [&hello, &segment, &goodbye, &end, &[]];
    let words: &[&[u8]] = &[&piece, &notice, &entry, &[0xff; 8], &[0; 8], &[0, 1], &[0xff, 0xff], &[1, 0, 0, 0, 0]];
    fuzz("frames", &Food { corpus: &corpus, words }, target);
}
