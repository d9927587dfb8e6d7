//! Frames survive a round trip, and anything else is refused.

use super::*;
use crate::random::Random;

fn epoch(revision: u64, count: u32) -> Epoch {
    Epoch::new(Revision(revision), count).unwrap()
}

fn pid(number: u64) -> Pid {
    format!("<7f3a.1.{}.{}>", number % 1_000, number % 100_000 + 1).parse().unwrap()
}

fn frame(body: Body) -> Frame {
    Frame { from: epoch(u64::MAX, u32::MAX), to: Some(epoch(1, 0)), body }
}

fn segment(parcels: Vec<Parcel>) -> Segment {
    Segment { lane: Lane::Data, nack: false, ask: false, ack: 3, credit: 1 << 40, first: 9, parcels }
}

fn piece(length: usize) -> Parcel {
    Parcel::Piece { last: true, bytes: vec![7; length].into() }
}

fn random_frame(random: &mut Random) -> Frame {
    let body = match random.below(6) {
        0 => Body::Hello(Hello {
            versions: Versions { minor: 9, oldest_minor: random.below(10) as u8 },
            features: random.next(),
            credit: [random.next(), random.next()],
            table: Table::new((0..random.below(20)).map(|n| (format!("type-{n}"), random.next()))).unwrap(),
        }),
        1 => Body::Goodbye([random.next(), random.next()]),
        2 => Body::End(
            [EndCode::Done, EndCode::Unknown, EndCode::Aborted, EndCode::Violation, EndCode::Version]
                [random.below(5) as usize],
        ),
        _ => Body::Segment(Segment {
            lane: Lane::ALL[random.below(2) as usize],
            nack: random.chance(50),
            ask: random.chance(50),
            ack: random.next(),
            credit: random.next(),
            first: random.next() >> 1,
            parcels: (0..random.below(30))
                .map(|_| match random.below(6) {
                    0 => Parcel::Slow(pid(random.next())),
                    1 => Parcel::Fast(pid(random.next())),
                    _ => Parcel::Piece {
                        last: random.chance(50),
                        bytes: (0..random.below(100)).map(|_| random.next() as u8).collect(),
                    },
                })
                .collect(),
        }),
    };
    let to = random.chance(50).then(|| epoch(random.next() | 1, random.next() as u32));
    Frame { from: epoch(random.next() | 1, random.next() as u32), to, body }
}

#[test]
fn every_frame_comes_back() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let sent = random_frame(&mut random);
        assert_eq!(Frame::decode(sent.encode()), Ok(sent));
    }
}

#[test]
fn the_largest_frames_fit() {
    let table = Table::new((0..64).map(|n| (format!("{n:02}{}", "x".repeat(1_012)), 0))).unwrap();
    assert_eq!(table.encoded_len(), MAX_TABLE);
    let hello = Hello { versions: Versions::CURRENT, features: 0, credit: [0; 2], table };
    for body in [Body::Segment(segment(vec![piece(MAX_PIECE)])), Body::Hello(hello)] {
        let sent = frame(body);
        assert!(sent.encode().len() <= MAX_FRAME);
        assert_eq!(Frame::decode(sent.encode()), Ok(sent));
    }
}

#[test]
#[should_panic(expected = "a frame of")]
fn a_segment_that_is_too_long_is_not_encoded() {
    frame(Body::Segment(segment(vec![piece(MAX_PIECE), piece(100)]))).encode();
}

#[test]
fn a_frame_cut_or_prolonged_anywhere_is_refused() {
    let mut random = Random::new(2);
    for _ in 0..100 {
        let whole = random_frame(&mut random).encode();
        for length in 0..whole.len() {
            let error = Frame::decode(whole.slice(..length)).unwrap_err();
            assert!(matches!(error, DecodeError::Truncated(_)), "{length} of {}: {error}", whole.len());
        }
        let longer = [&whole[..], &[0]].concat().into();
        assert_eq!(Frame::decode(longer), Err(DecodeError::Trailing(1)));
    }
}

/// Each frame has a single encoding: bytes that decode are encoded to the same bytes again. A decoder that ignores a
/// bit fails this test.
#[test]
fn changed_frames_are_refused_or_mean_what_they_say() {
    let mut random = Random::new(3);
    let (mut refused, mut accepted) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = random_frame(&mut random).encode().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ (1 << random.below(8)),
                _ => random.next() as u8,
            };
        }
        match Frame::decode(bytes.clone().into()) {
            Ok(frame) => {
                accepted += 1;
                assert_eq!(frame.encode(), bytes, "{frame:?}");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000 && accepted > 1_000, "{refused} refused, {accepted} accepted");
}

#[test]
fn noise_is_refused() {
    let mut random = Random::new(4);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
        // Without these two bytes, hardly any input would get past the first byte.
        if bytes.len() >= 2 {
            (bytes[0], bytes[1]) = (Versions::MAJOR, random.below(6) as u8);
        }
        if let Ok(frame) = Frame::decode(bytes.clone().into()) {
            assert_eq!(frame.encode(), bytes);
        }
    }
}

/// Offsets of two fields in a segment that has one parcel.
const COUNT: usize = SEGMENT - 2;
const LENGTH: usize = SEGMENT + 1;

#[test]
fn a_count_alone_reserves_no_memory() {
    let mut bytes = frame(Body::Segment(segment(vec![piece(1)]))).encode().to_vec();
    bytes[COUNT..COUNT + 2].copy_from_slice(&u16::MAX.to_be_bytes());
    assert_eq!(Frame::decode(bytes.into()), Err(DecodeError::Truncated("parcel")));
}

#[test]
fn a_piece_longer_than_a_piece_can_be_is_refused_before_it_is_looked_for() {
    let mut bytes = frame(Body::Segment(segment(vec![piece(1)]))).encode().to_vec();
    for length in [MAX_PIECE as u32 + 1, u32::MAX] {
        bytes[LENGTH..LENGTH + 4].copy_from_slice(&length.to_be_bytes());
        let error = DecodeError::Field { field: "length of a piece", value: length.into() };
        assert_eq!(Frame::decode(bytes.clone().into()), Err(error));
    }
}

#[test]
fn a_frame_that_is_too_long_is_not_looked_at() {
    assert_eq!(Frame::decode(vec![0; MAX_FRAME + 1].into()), Err(DecodeError::TooLong(MAX_FRAME + 1)));
    assert!(matches!(Frame::decode(vec![0; MAX_FRAME].into()), Err(DecodeError::Version(_))));
}

#[test]
fn numbers_of_parcels_do_not_wrap() {
    let mut last = segment(vec![piece(1)]);
    last.first = u64::MAX - 1;
    assert!(Frame::decode(frame(Body::Segment(last.clone())).encode()).is_ok());
    last.first = u64::MAX;
    assert!(matches!(Frame::decode(frame(Body::Segment(last)).encode()), Err(DecodeError::Field { .. })));
}

#[test]
fn a_short_message_does_not_keep_its_frame() {
    let whole = frame(Body::Segment(segment(vec![piece(10), piece(60_000)]))).encode();
    let memory = whole.as_ptr() as usize..whole.as_ptr() as usize + whole.len();
    let Body::Segment(Segment { parcels, .. }) = Frame::decode(whole.clone()).unwrap().body else { panic!() };
    let shares = |parcel: &Parcel| match parcel {
        Parcel::Piece { bytes, .. } => memory.contains(&(bytes.as_ptr() as usize)),
        _ => panic!(),
    };
    assert_eq!(parcels.iter().map(shares).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn another_major_version_is_refused_with_its_number_whatever_follows() {
    for there in [0, 2, 255] {
        let error = VersionError::Major { here: Versions::MAJOR, there };
        assert!(error.to_string().contains(&format!("version {there} ")));
        assert_eq!(Frame::decode(vec![there, 77].into()), Err(error.into()));
    }
}

#[test]
fn minor_versions_agree_on_the_smaller_if_both_speak_it() {
    let versions = |oldest_minor, minor| Versions { minor, oldest_minor };
    assert_eq!(versions(0, 5).agree(versions(5, 9)), Ok(5));
    assert_eq!(versions(5, 9).agree(versions(0, 5)), Ok(5));
    for (one, other) in [(versions(0, 4), versions(5, 9)), (versions(5, 9), versions(0, 4))] {
        assert_eq!(one.agree(other), Err(VersionError::Minor { here: one, there: other }));
    }
    let text = versions(0, 4).agree(versions(5, 9)).unwrap_err().to_string();
    assert!(text.contains("peer speaks versions 1.5 to 1.9") && text.contains("this node 1.0 to 1.4"), "{text}");
}

#[test]
fn tables_that_are_none_are_refused() {
    let name = |length| "x".repeat(length);
    assert!(Table::new([(name(MAX_NAME), 0)]).is_ok());
    assert_eq!(Table::new([(name(MAX_NAME + 1), 0)]), Err(TableError::NameTooLong { bytes: MAX_NAME + 1 }));
    assert_eq!(Table::new([("", 0)]), Err(TableError::Empty));
    assert_eq!(Table::new([("b", 0), ("a", 1), ("b", 2)]), Err(TableError::Twice { name: "b".into() }));
    let long = Table::new((0..65).map(|n| (format!("{n:02}{}", name(1_000)), 0)));
    assert_eq!(long, Err(TableError::TooLong { bytes: 65 * 1_012, names: 65 }));
}

/// The entries of a peer's table must be sorted, as ours are, and must be text.
#[test]
fn a_peers_table_is_checked_too() {
    let table = Table::new([("aa", 1), ("bb", 2)]).unwrap();
    let hello = Hello { versions: Versions::CURRENT, features: 0, credit: [0; 2], table };
    let whole = frame(Body::Hello(hello)).encode().to_vec();
    let with = |first: [u8; 2]| {
        let mut bytes = whole.clone();
        bytes[HELLO + 2..HELLO + 4].copy_from_slice(&first);
        Frame::decode(bytes.into()).map(|_| ())
    };
    assert_eq!(with(*b"aa"), Ok(()));
    assert_eq!(with(*b"bb"), Err(TableError::Twice { name: "bb".into() }.into()));
    assert_eq!(with(*b"cc"), Err(TableError::Order.into()));
    assert_eq!(with([0xff, 0xff]), Err(TableError::NotText.into()));
}

#[test]
fn values_that_fields_cannot_have_are_refused_with_their_name() {
    let whole = frame(Body::Segment(segment(vec![Parcel::Slow(pid(5))]))).encode();
    let with = |at: usize, value: u8| {
        let mut bytes = whole.to_vec();
        bytes[at] = value;
        match Frame::decode(bytes.into()) {
            Err(DecodeError::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with(1, 9), "kind");
    assert_eq!(with(HEADER, 2), "lane");
    assert_eq!(with(HEADER + 1, 4), "set of flags");
    assert_eq!(with(SEGMENT, 4), "kind of a parcel");
    let mut bytes = whole.to_vec();
    bytes[2..10].fill(0);
    bytes[10..14].fill(0);
    assert_eq!(Frame::decode(bytes.into()), Err(DecodeError::Field { field: "sender's epoch", value: 0 }));
    let mut bytes = whole.to_vec();
    bytes[SEGMENT + 1..].fill(0);
    assert_eq!(Frame::decode(bytes.into()), Err(DecodeError::Field { field: "PID's node", value: 0 }));
    let hello = Hello { versions: Versions::CURRENT, features: 0, credit: [0; 2], table: Table::default() };
    let mut bytes = frame(Body::Hello(hello)).encode().to_vec();
    bytes[HEADER + 1] = Versions::CURRENT.minor + 1;
    assert!(matches!(Frame::decode(bytes.into()), Err(DecodeError::Field { field: "oldest minor version", .. })));
    let mut bytes = frame(Body::End(EndCode::Done)).encode().to_vec();
    *bytes.last_mut().unwrap() = 5;
    assert_eq!(Frame::decode(bytes.into()), Err(DecodeError::Field { field: "end code", value: 5 }));
}

#[test]
fn epochs_grow_with_the_record_and_with_each_session() {
    assert!(epoch(7, 0) < epoch(7, 1) && epoch(7, u32::MAX) < epoch(8, 0));
    assert_eq!(Epoch::new(Revision(0), 3), None);
    assert_eq!(epoch(7, 2).to_string(), "7/2");
}
