//! The contents of a session's messages, and the directory messages in them.

use crate::driver::{Food, fuzz};
use postroom::Pid;
use postroom_cluster::__recoded_directory_message as recoded;
use postroom_cluster::envelope::{AskKind, Content, Envelope, LinkKind, ToldKind, WireError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of accepted inputs of each kind, indexed by the byte of the kind.
static ACCEPTED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
/// The number of inputs of each kind that were refused because of the bytes after the kind.
static REFUSED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
/// The numbers of refused and of accepted messages of the directory, indexed by their codes.
static DIRECTORY: [[AtomicU64; 256]; 2] = [const { [const { AtomicU64::new(0) }; 256] }; 2];

fn count(of: &[AtomicU64; 256], kind: u8) {
    of[usize::from(kind)].fetch_add(1, Ordering::Relaxed);
}

pub fn target(data: &[u8]) -> u64 {
    let kind = data.first().copied().unwrap_or(u8::MAX);
    match Envelope::decode(data.to_vec().into()) {
        Ok(envelope) => {
            assert_eq!(envelope.encode(), data, "there is one form of each envelope: {envelope:?}");
            count(&ACCEPTED, kind);
            let inner = if let Envelope::Directory { message: bytes } = envelope { directory(&bytes) } else { 0 };
            1 << 40 | inner << 16 | u64::from(kind) << 8 | data.len().ilog2() as u64
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1_000, "{text}");
            let what = match error {
                WireError::Kind { what: "Envelope", .. } => return 1,
                WireError::Kind { .. } => 2,
                WireError::Truncated => 3,
                WireError::Pid => 4,
                WireError::NotText => 5,
                _ => 6,
            };
            count(&REFUSED, kind);
            2 << 40 | u64::from(kind) << 8 | what
        }
    }
}

fn directory(bytes: &[u8]) -> u64 {
    let code = bytes.first().copied().unwrap_or(u8::MAX);
    let again = recoded(bytes);
    count(&DIRECTORY[usize::from(again.is_some())], code);
    if let Some(again) = &again {
        // The text of a reason may be shortened when it is first written, but not when it is written again.
        assert_eq!(recoded(again).as_ref(), Some(again));
    }
    u64::from(code) << 1 | u64::from(again.is_some())
}

#[test]
fn envelopes() {
    let pid = |number: u8| {
        let mut bytes = [0; 16];
        (bytes[5], bytes[15]) = (7, number);
        Pid::from_bytes(bytes).unwrap()
    };
    let content = || Content { message: 3, bytes: b"\x00value".as_slice().into() };
    let bytes = || b"\x03".as_slice().into();
    let text = |text: &str| [&[0, text.len() as u8], text.as_bytes()].concat();
    let mut all = vec![
        Envelope::Message { to: pid(1), content: content() },
        Envelope::Call { to: pid(1), number: 9, time_left: Some(Duration::from_secs(1)), content: content() },
        Envelope::Answer { number: 9, content: content() },
        Envelope::Failed { number: 9, error: bytes() },
        Envelope::Link { from: pid(1), to: pid(2), link: LinkKind::Exit, number: 0, reason: bytes() },
        Envelope::Start { number: 4, content: content() },
        Envelope::Started { number: 4, pid: pid(3) },
        Envelope::Refused { number: 4, reason: "not today".into() },
        Envelope::Abandon { number: 9 },
        Envelope::StartKeyed { number: 5, key: "order-17".into(), content: content() },
        Envelope::KeyTaken { number: 5, process: "Order".into() },
        Envelope::StartChild { number: 6, content: content() },
        Envelope::ChildEnded { number: 6, handling: "Order::pay".into(), reason: bytes() },
    ];
    let asks = [AskKind::Info, AskKind::Stop, AskKind::Cancel, AskKind::Kill];
    all.extend(asks.map(|ask| Envelope::Ask { number: 7, to: pid(1), ask, reason: bytes() }));
    let answers = [ToldKind::Done, ToldKind::Info, ToldKind::Gone, ToldKind::Denied];
    all.extend(answers.map(|told| Envelope::Told { number: 7, told, bytes: bytes() }));
    let (own, number) = (pid(1).to_bytes(), [0, 0, 0, 0, 0, 0, 0, 5]);
    let group = text("group");
    let of_directory = [
        [&[0], &*group, &[0, 3, 0]].concat(),
        [&[1], &*group].concat(),
        [&[2], &*group].concat(),
        [&[3], &*group, &own, &own].concat(),
        [&[4], &*group, &own].concat(),
        [&[5], &*group, &own].concat(),
        [&[6], &*group, &own, &number].concat(),
        [&[7], &*group].concat(),
        [&[8], number.as_slice(), &text("Order"), &text("serve"), &text("17")].concat(),
        [&[9], number.as_slice(), &own].concat(),
        [&[10], number.as_slice(), &[4], &text("no")].concat(),
    ];
    all.extend(of_directory.map(|message| Envelope::Directory { message: message.into() }));
    let corpus: Vec<_> = all.iter().map(Envelope::encode).collect();
    corpus.iter().for_each(|whole| assert!(Envelope::decode(whole.clone()).is_ok(), "{whole:?}"));
    let corpus: Vec<&[u8]> = corpus.iter().map(|whole| &whole[..]).chain([&[][..]]).collect();
    let words: &[&[u8]] =
        &[&[40], &[41], &[42], &[50], &[60], &[61], &[62], &[63], &own, &number, &[0xff; 8], &group, &[0xff; 2]];
    fuzz("envelopes", &Food { corpus: &corpus, words }, target);

    let read = |of: &[AtomicU64; 256], kind: u8| of[usize::from(kind)].load(Ordering::Relaxed);
    let kinds = (0..=8).filter(|kind| *kind != 5).chain(40..=42).chain([50]).chain(60..=63);
    for kind in kinds {
        let (accepted, refused) = (read(&ACCEPTED, kind), read(&REFUSED, kind));
        println!("kind {kind}: {accepted} accepted, {refused} refused");
        // Kind 50 need not be refused, since the bytes after it are for the directory.
        assert!(accepted > 0 && (refused > 0 || kind == 50), "kind {kind} was not reached in both ways");
    }
    for code in 0..=10 {
        let [refused, accepted] = &DIRECTORY;
        let (accepted, refused) = (read(accepted, code), read(refused, code));
        println!("code {code} of the directory: {accepted} accepted, {refused} refused");
        assert!(accepted > 0 && refused > 0, "code {code} was not reached in both ways");
    }
}
