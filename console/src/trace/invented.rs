//! Tests on random recordings: no matter what the events are, the parts of a message's time add up to the whole.

use super::explain::Analysis;
use super::moment::{Legend, Moment, Then, TracedThread, What};
use super::part::{Part, Remedy};
use super::perfetto::Writer;
use postroom::Pid;
use std::time::Duration;

/// A random number generator: xorshift64.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % end
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len() as u32) as usize])
    }
}

const PROCESSES: u32 = 5;
const THREADS: u32 = 3;

fn pid(number: u32) -> Pid {
    format!("<7f3a.0.{number}.1>").parse().expect("a PID")
}

/// Invents the events of a program. If `is_damaged` is set, any event may be missing, and some make no sense.
fn invent(dice: &mut Dice, is_damaged: bool) -> (Vec<Moment>, Legend) {
    let (mut moments, mut at) = (Vec::new(), 0);
    let mut slices = [None; THREADS as usize];
    let mut queued: Vec<(u32, u32)> = Vec::new();
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let (mut flow, mut handles) = (0, [None; PROCESSES as usize]);
    for _ in 0..dice.below(400) + 20 {
        at += [0, 0, u64::from(dice.below(10)), u64::from(dice.below(10_000))][dice.below(4) as usize];
        if dice.one_in(80) {
            (slices, handles) = ([None; THREADS as usize], [None; PROCESSES as usize]);
            (queued, asked, answered) = Default::default();
            moments.push(Moment { at, thread: 0, what: What::SampleEnded });
            at += u64::from(dice.below(10_000));
            moments.push(Moment { at, thread: 0, what: What::SampleBegan });
        }
        let thread = dice.below(THREADS);
        let any = dice.below(PROCESSES);
        let is_free = |process| !slices.contains(&Some(process));
        let what = match slices[thread as usize] {
            None if is_free(any) || (is_damaged && dice.one_in(10)) => {
                slices[thread as usize] = Some(any);
                What::SliceBegan { process: pid(any), of: any }
            }
            None => What::Stole { count: 1 },
            Some(own) => match dice.below(14) {
                0 | 1 => {
                    flow += 2;
                    queued.push((any, flow));
                    let answer = dice.one_in(2).then_some(flow + 1);
                    asked.extend(answer.map(|answer| (own, answer)));
                    let from = (!dice.one_in(5)).then(|| pid(own));
                    What::Sent { from, to: pid(any), message: 5 + any, flow, answer }
                }
                2..=4 => match queued.iter().position(|(to, _)| *to == own || (is_damaged && dice.one_in(10))) {
                    Some(place) if handles[own as usize].is_none() => {
                        let (_, flow) = queued.remove(place);
                        handles[own as usize] = Some(flow);
                        What::HandlingBegan { process: pid(own), message: 5 + own, flow: Some(flow) }
                    }
                    _ => What::Stole { count: 2 },
                },
                5 | 6 if handles[own as usize].take().is_some() => What::HandlingEnded { process: pid(own) },
                7 => match dice.of(&asked) {
                    Some((to, answer)) => {
                        answered.push((to, answer));
                        What::Answered { to: pid(to), answer: (!dice.one_in(9)).then_some(answer) }
                    }
                    None => What::Stalled { process: pid(any), message: None },
                },
                8 => match dice.of(&answered) {
                    Some((to, answer)) => What::AnswerTaken { process: pid(to), answer },
                    None => What::TakenOver { process: pid(any) },
                },
                9 => What::Suspended { process: pid(own), at: (!dice.one_in(5)).then(|| pid(any)) },
                10 => What::Resumed { process: pid(any) },
                11 => What::TimerFired { process: Some(pid(any)), late: u64::from(dice.below(2_000)) },
                12 => [
                    What::BlockingBegan { process: Some(pid(own)) },
                    What::BlockingEnded { process: Some(pid(own)) },
                    What::Ended { process: pid(any), of: any },
                    What::Spawned { process: pid(any), of: any },
                ][dice.below(4) as usize],
                _ => {
                    slices[thread as usize] = None;
                    let then = [Then::Idle, Then::Ready, Then::Waits, Then::Waits, Then::Suspended, Then::Ended];
                    What::SliceEnded { process: pid(own), then: then[dice.below(6) as usize] }
                }
            },
        };
        if !(is_damaged && dice.one_in(12)) {
            moments.push(Moment { at, thread, what });
        }
    }
    let lost = |dice: &mut Dice| if is_damaged && dice.one_in(4) { 7 } else { 0 };
    let threads: Vec<_> =
        (0..THREADS).map(|number| TracedThread { name: format!("worker {number}"), lost: lost(dice) }).collect();
    let names = ["Till", "Bank", "Ledger", "Audit", "Clock", "TillPay", "BankDraw", "LedgerPost", "Tell", "ClockRing"];
    let lost = threads.iter().map(|thread| thread.lost).sum();
    let length = at + u64::from(dice.below(100));
    (moments, Legend { types: names.to_vec(), threads, lost, length })
}

/// Checks that the sub-parts of each part add up to it. Returns the number of parts.
fn check(part: &Part) -> usize {
    let sum: Duration = part.parts.iter().map(|part| part.took).sum();
    assert!(part.parts.is_empty() || sum == part.took, "{part:#?}");
    1 + part.parts.iter().map(check).sum::<usize>()
}

#[test]
fn the_parts_of_a_message_are_its_whole_whatever_happened() {
    let (mut explained, mut parts, mut remedies) = (0, 0, 0);
    for seed in 1..=300 {
        let mut dice = Dice::new(seed);
        let (moments, legend) = invent(&mut dice, seed % 2 == 0);
        let sent: Vec<u32> = moments
            .iter()
            .filter_map(|moment| match moment.what {
                What::Sent { flow, .. } => Some(flow),
                _ => None,
            })
            .collect();
        let analysis = Analysis::new(moments.into_iter(), legend);
        for flow in sent {
            let explanation = analysis.explain(flow).expect("it was sent");
            let whole = &explanation.whole;
            parts += check(whole);
            explained += 1;
            let along: Duration = explanation.path.iter().map(|step| step.took).sum();
            assert_eq!(along, whole.took, "seed {seed}, flow {flow}: {explanation:#?}");
            let mut next = explanation.sent;
            for step in &explanation.path {
                assert_eq!(step.from, next, "seed {seed}, flow {flow}: {explanation:#?}");
                next += step.took;
            }
            if let Some(Remedy { then, .. }) = explanation.remedy {
                assert!(then < whole.took, "seed {seed}, flow {flow}: {explanation:#?}");
                remedies += 1;
            }
            assert!(explanation.to_string().ends_with(".\n"));
        }
        assert!(analysis.explain(1).is_err(), "an odd number is the flow of an answer");
        for times in analysis.slowest() {
            assert!(times.p50 <= times.p99 && times.p99 <= times.slowest[0].took && times.count > 0);
        }
    }
    assert!(explained > 3_000 && parts > 4 * explained && remedies > explained / 2, "{explained} {parts} {remedies}");
}

/// Every slice that begins also ends, innermost first, and no file exceeds its limit.
#[test]
fn a_trace_has_an_end_for_each_beginning_and_keeps_its_limit() {
    for seed in 1..=300 {
        let mut dice = Dice::new(seed);
        let (moments, legend) = invent(&mut dice, seed % 2 == 0);
        let write = |limit| {
            let mut bytes = Vec::new();
            let written =
                Writer::write(&mut bytes, limit, &legend, seed % 3 == 0, || moments.iter().copied()).map_err(|_| ());
            (written, bytes)
        };
        let (written, bytes) = write(u64::MAX);
        assert_eq!(written, Ok(bytes.len() as u64));
        let mut open: std::collections::HashMap<u64, i64> = Default::default();
        for packet in packets(&bytes) {
            let Some(event) = fields(packet).find(|(field, _, _)| *field == 11).map(|(_, _, bytes)| bytes) else {
                continue;
            };
            let number = |wanted| fields(event).find(|(field, ..)| *field == wanted).map(|(_, value, _)| value);
            let (kind, track) = (number(9).expect("a kind"), number(11).expect("a track"));
            match kind {
                1 => *open.entry(track).or_default() += 1,
                2 => *open.entry(track).or_default() -= 1,
                _ => {}
            }
            assert!(open.values().all(|open| *open >= 0), "seed {seed}");
        }
        assert!(open.values().all(|open| *open == 0), "seed {seed}: {open:?}");
        let (refused, bytes) = write(bytes.len() as u64 - 1);
        assert!(refused.is_err() && (bytes.len() as u64) < written.unwrap());
    }
}

/// Returns the packets of a trace.
fn packets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    fields(bytes).map(|(field, _, packet)| {
        assert_eq!(field, 1);
        packet
    })
}

/// Returns the fields of a message: number, value, and the bytes of length-delimited fields.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let (first, rest) = bytes.split_first().expect("a varint has an end");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << (7 * place);
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let key = varint(&mut bytes);
        let (value, length) = match key & 7 {
            0 => (varint(&mut bytes), 0),
            1 => (u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")), 8),
            2 => {
                let length = varint(&mut bytes);
                (length, length as usize)
            }
            other => panic!("the writer does not use {other}"),
        };
        let (content, rest) = bytes.split_at(length);
        bytes = rest;
        Some((key >> 3, value, content))
    })
}
