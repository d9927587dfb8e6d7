//! Messages from other nodes. The first byte of an input selects a message, and tells whether the other bytes are that
//! message, an answer to it, inputs, or a reason.

use crate::driver::{Food, fuzz};
use postroom::prelude::*;
use postroom_cluster::codec::{
    Agreement, CodecError, Codecs, MessageId, decode_call_error, decode_exit_reason, encode_call_error,
    encode_exit_reason,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::OnceLock;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    Text(String),
    Pair(u64, i64),
    Fields { flag: bool, bytes: Vec<u8>, inner: Option<Box<Shape>> },
    Many(Vec<Shape>),
    Map(BTreeMap<String, Shape>),
    Units(Vec<()>),
}

#[process]
#[derive(Default)]
struct Board {
    shapes: Vec<Shape>,
}

#[process(remote)]
impl Board {
    #[entry]
    fn serve(&mut self, shapes: Vec<Shape>, owner: Option<Pid>) {
        let _ = owner;
        self.shapes = shapes;
    }

    #[message]
    fn compact(&mut self, shape: Shape, number: f64) -> Result<Shape, String> {
        let _ = number;
        Ok(shape)
    }

    #[message(codec = "named")]
    fn named(&mut self, shape: Shape, #[serde(default)] letter: char) -> usize {
        let _ = (shape, letter);
        self.shapes.len()
    }
}

/// Returns the kind of outcome: `ok`, or a sum over the letters in the text of the error. The numbers in the text do
/// not count, since they vary from input to input.
fn kind<T>(result: Result<T, CodecError>, ok: u64) -> u64 {
    match result {
        Ok(_) => ok,
        Err(CodecError::Panicked { text, .. }) => panic!("{text}"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1_000, "{text}");
            100 + text.bytes().filter(u8::is_ascii_alphabetic).map(u64::from).sum::<u64>()
        }
    }
}

/// Checks that an answer that was read can be written again, and is unchanged when it is then read back.
fn again(codecs: &Agreement, asked: MessageId, mut answer: Payload) {
    let sent = codecs.encode_answer(asked, &mut answer).expect("what was read can be written");
    let back = codecs.decode_answer(sent.id, &sent.bytes).expect("what was written can be read");
    let [one, other] = [answer, back].map(|payload| payload.take::<Result<Shape, String>>().ok());
    assert!(one.is_some() && one == other, "{other:?} is not {one:?}");
}

/// What two nodes that export the same type have agreed upon.
fn codecs() -> &'static Agreement {
    static CODECS: OnceLock<Agreement> = OnceLock::new();
    CODECS.get_or_init(|| {
        let codecs = Codecs::builder().export::<Board>().build().expect("one process");
        codecs.agree(codecs.table())
    })
}

pub fn target(data: &[u8]) -> u64 {
    let codecs = codecs();
    let Some((&first, bytes)) = data.split_first() else { return 0 };
    let id = MessageId(u16::from(first >> 3));
    match first % 8 {
        0 => kind(codecs.decode(id, bytes), 1),
        1 => {
            let answer = codecs.decode_answer(id, bytes);
            let outcome = kind(answer.as_ref().map_err(Clone::clone), 2);
            if let Some(answer) = answer.ok().filter(Payload::is::<Result<Shape, String>>) {
                again(codecs, id, answer);
            }
            outcome
        }
        2 => kind(codecs.decode_inputs(id, bytes), 3),
        3 => {
            let reason = decode_exit_reason(bytes);
            if let Ok(reason) = &reason {
                assert_eq!(decode_exit_reason(&encode_exit_reason(reason)).as_ref(), Ok(reason));
            }
            kind(reason, 4)
        }
        _ => {
            let error = decode_call_error(bytes);
            if let Ok(error) = &error {
                assert_eq!(decode_call_error(&encode_call_error(error)).as_ref(), Ok(error));
            }
            kind(error, 5)
        }
    }
}

#[test]
fn messages_of_nodes() {
    let codecs = codecs();
    let shape = Shape::Fields {
        flag: true,
        bytes: vec![1, 2, 3],
        inner: Some(Box::new(Shape::Map(BTreeMap::from([("a".into(), Shape::Many(vec![Shape::Pair(7, -7)]))])))),
    };
    let first = |kind: u8, id: MessageId, bytes: &[u8]| [&[(id.0 as u8) << 3 | kind], bytes].concat();
    let mut compact = Payload::new(BoardCompact { shape: shape.clone(), number: 0.5 });
    let mut named = Payload::new(BoardNamed { shape: shape.clone(), letter: 'x' });
    let (compact, named) = (codecs.encode(&mut compact).unwrap(), codecs.encode(&mut named).unwrap());
    let answer = codecs.encode_answer(compact.id, &mut Payload::new(Ok::<_, String>(shape.clone()))).unwrap();
    let count = codecs.encode_answer(named.id, &mut Payload::new(Ok::<usize, Infallible>(3))).unwrap();
    let inputs = codecs.encode_inputs("Board", "serve", payloads![vec![shape], None::<Pid>]).unwrap();
    let reason = encode_exit_reason(&ExitReason::error("disk full"));
    let error = encode_call_error(&CallError::Died(ExitReason::Killed));
    let corpus = [
        first(0, compact.id, &compact.bytes),
        first(0, named.id, &named.bytes),
        first(1, answer.id, &answer.bytes),
        first(1, count.id, &count.bytes),
        first(2, inputs.id, &inputs.bytes),
        first(3, MessageId(0), &reason),
        first(4, MessageId(0), &error),
    ];
    for whole in &corpus {
        assert!(target(whole) < 100, "{whole:?}");
    }
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    // These are nesting levels of both formats, huge lengths, and the names of fields.
    let words: &[&[u8]] = &[
        &[4, 1],
        &[5, 1, 1, b'a'],
        &[6, 0xff, 0xff, 0xff, 0xff, 0x0f],
        b"\x81\xa4Many\x91",
        b"\x81\xa5Units\xdd\xff\xff\xff\xff",
        b"\xa6letter",
        &[0xff; 9],
        &[1],
    ];
    fuzz("messages of nodes", &Food { corpus: &corpus, words }, target);
}
