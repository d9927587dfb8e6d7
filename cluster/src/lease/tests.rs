//! A lease against a model of a store with one entry. The model deletes the entry when it becomes too old.

use super::*;
use crate::random::Random;
use std::collections::BTreeMap;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(time: u64) -> Moment {
    Moment::after_start(millis(time))
}

const HOLDER: &[u8] = b"us";

/// Returns a timing with round numbers.
fn timing() -> Timing {
    Timing { renew: Duration::from_secs(3), attempt: Duration::from_secs(1), ..Timing::default() }
}

fn lease() -> Lease {
    Lease::new(timing(), Bytes::from_static(HOLDER))
}

/// Returns a lease that was acquired at time zero with revision 1.
fn held() -> Lease {
    let mut lease = lease();
    let request = lease.poll_request(at(0)).unwrap();
    lease.handle(at(5), request.attempt, Answer::Written(Ok(Revision(1))));
    assert_eq!(lease.poll_event(), Some(LeaseEvent::Acquired));
    lease
}

fn conflict() -> Answer {
    Answer::Written(Err(StoreError::Conflict { key: "k".into() }))
}

fn read(value: &'static [u8], revision: u64) -> Answer {
    Answer::Read(Ok(Some(Entry { key: "k".into(), value: Bytes::from_static(value), revision: Revision(revision) })))
}

#[test]
fn it_is_valid_from_when_the_write_was_sent_until_the_fence() {
    let mut lease = held();
    assert!(lease.may_send(at(9_999)) && !lease.may_send(at(10_000)), "whether or not a timer has run");
    assert_eq!(lease.next_timeout(), Some(at(3_000)));
    assert_eq!(lease.poll_request(at(2_999)), None);
    let request = lease.poll_request(at(3_000)).unwrap();
    assert_eq!(request.access, Access::Update(Bytes::from_static(HOLDER), Revision(1)));
    lease.handle(at(3_700), request.attempt, Answer::Written(Ok(Revision(2))));
    assert!(lease.may_send(at(12_999)) && !lease.may_send(at(13_000)));
    assert_eq!(lease.next_timeout(), Some(at(6_000)));
}

#[test]
fn a_fence_is_final() {
    let mut lease = held();
    let request = lease.poll_request(at(3_000)).unwrap();
    lease.handle_timeout(at(9_999));
    assert_eq!(lease.poll_event(), None);
    lease.handle_timeout(at(10_000));
    assert_eq!(lease.poll_event(), Some(LeaseEvent::Fenced(Fence::Late)));
    lease.handle(at(10_001), request.attempt, Answer::Written(Ok(Revision(2))));
    lease.release();
    assert!(!lease.may_send(at(10_002)) && !lease.may_send(at(0)));
    assert_eq!((lease.poll_request(at(99_000)), lease.next_timeout(), lease.poll_event()), (None, None, None));
}

/// The answer arrives after the machine was suspended, before any timer has run.
#[test]
fn an_answer_that_comes_after_the_fence_does_not_lift_it() {
    let mut lease = held();
    let request = lease.poll_request(at(3_000)).unwrap();
    lease.handle(at(10_000), request.attempt, Answer::Written(Ok(Revision(2))));
    assert!(!lease.may_send(at(10_000)));
    assert_eq!(lease.poll_event(), Some(LeaseEvent::Fenced(Fence::Late)));
}

#[test]
fn attempts_are_repeated_and_a_late_answer_counts_from_when_it_was_sent() {
    let mut lease = held();
    let first = lease.poll_request(at(3_000)).unwrap();
    assert_eq!(lease.poll_request(at(3_999)), None);
    let second = lease.poll_request(at(4_000)).unwrap();
    assert_eq!(second.access, first.access);
    lease.handle(at(4_100), second.attempt, Answer::Written(Err(StoreError::Unavailable)));
    assert_eq!(lease.poll_request(at(4_999)), None, "no hurry");
    lease.handle(at(4_500), first.attempt, Answer::Written(Ok(Revision(2))));
    assert!(lease.may_send(at(12_999)) && !lease.may_send(at(13_000)));
    // A second answer to a request, and an answer to a request that was never made, change nothing.
    lease.handle(at(4_600), first.attempt, conflict());
    lease.handle(at(4_600), 77, conflict());
    assert_eq!(lease.next_timeout(), Some(at(6_000)));
}

#[test]
fn a_conflict_is_read_again_before_it_counts() {
    let mut lease = held();
    let request = lease.poll_request(at(3_000)).unwrap();
    lease.handle(at(3_010), request.attempt, conflict());
    assert!(lease.may_send(at(3_010)));
    let request = lease.poll_request(at(3_010)).unwrap();
    assert_eq!(request.access, Access::Get);
    // The entry is this holder's own write, whose answer was lost. It is not known when that write was sent.
    lease.handle(at(3_020), request.attempt, read(HOLDER, 5));
    assert!(!lease.may_send(at(10_000)));
    let request = lease.poll_request(at(3_020)).unwrap();
    assert_eq!(request.access, Access::Update(Bytes::from_static(HOLDER), Revision(5)));
    lease.handle(at(3_030), request.attempt, Answer::Written(Ok(Revision(6))));
    assert!(lease.may_send(at(13_019)) && !lease.may_send(at(13_020)));
    assert_eq!(lease.poll_event(), None);
}

#[test]
fn the_late_success_of_an_earlier_attempt_takes_nothing_back() {
    let mut lease = held();
    let first = lease.poll_request(at(3_000)).unwrap();
    let second = lease.poll_request(at(4_000)).unwrap();
    lease.handle(at(4_010), second.attempt, conflict());
    let get = lease.poll_request(at(4_010)).unwrap();
    lease.handle(at(4_020), get.attempt, read(HOLDER, 2));
    let third = lease.poll_request(at(4_020)).unwrap();
    lease.handle(at(4_030), third.attempt, Answer::Written(Ok(Revision(3))));
    lease.handle(at(4_040), first.attempt, Answer::Written(Ok(Revision(2))));
    assert!(lease.may_send(at(14_019)));
    let request = lease.poll_request(lease.next_timeout().unwrap()).unwrap();
    assert_eq!(request.access, Access::Update(Bytes::from_static(HOLDER), Revision(3)));
}

#[test]
fn a_conflict_of_an_attempt_before_the_last_success_is_none() {
    let mut lease = held();
    let first = lease.poll_request(at(3_000)).unwrap();
    let second = lease.poll_request(at(4_000)).unwrap();
    lease.handle(at(4_100), first.attempt, Answer::Written(Ok(Revision(2))));
    lease.handle(at(4_200), second.attempt, conflict());
    assert_eq!(lease.next_timeout(), Some(at(6_000)));
}

/// A slow read finds no entry. Before its answer arrives, this holder creates the entry.
#[test]
fn a_read_from_before_the_last_write_does_not_count() {
    let mut lease = lease();
    let create = lease.poll_request(at(0)).unwrap();
    lease.handle(at(10), create.attempt, conflict());
    let slow = lease.poll_request(at(10)).unwrap();
    let quick = lease.poll_request(at(1_010)).unwrap();
    assert_eq!((&slow.access, &quick.access), (&Access::Get, &Access::Get));
    lease.handle(at(1_020), quick.attempt, Answer::Read(Ok(None)));
    let create = lease.poll_request(at(1_020)).unwrap();
    lease.handle(at(1_030), create.attempt, Answer::Written(Ok(Revision(3))));
    lease.handle(at(1_040), slow.attempt, Answer::Read(Ok(None)));
    assert!(lease.may_send(at(1_040)));
}

#[test]
fn a_read_that_is_answered_after_a_later_one_says_nothing() {
    let mut lease = held();
    let lost = lease.poll_request(at(3_000)).unwrap();
    lease.handle(at(3_010), lost.attempt, conflict());
    let slow = lease.poll_request(at(3_010)).unwrap();
    let quick = lease.poll_request(at(5_020)).unwrap();
    assert_eq!((&slow.access, &quick.access), (&Access::Get, &Access::Get));
    lease.handle(at(5_030), quick.attempt, read(HOLDER, 2));
    lease.handle(at(5_040), slow.attempt, read(HOLDER, 1));
    assert!(lease.may_send(at(5_040)), "the store is no older copy");
    assert_eq!(lease.poll_request(at(5_040)).unwrap().access, Access::Update(HOLDER.into(), Revision(2)));
}

#[test]
fn an_entry_that_is_anothers_or_gone_fences_at_once() {
    let gone = Answer::Read(Ok(None));
    for (answer, fence) in [(read(b"them", 9), Fence::Taken), (gone, Fence::Expired)] {
        let mut lease = held();
        let request = lease.poll_request(at(3_000)).unwrap();
        lease.handle(at(3_010), request.attempt, conflict());
        let request = lease.poll_request(at(3_010)).unwrap();
        lease.handle(at(3_020), request.attempt, Answer::Read(Err(StoreError::Unknown)));
        assert!(lease.may_send(at(3_020)), "no answer is no answer");
        let request = lease.poll_request(at(request.attempt * 2_005)).unwrap();
        assert_eq!(request.access, Access::Get);
        lease.handle(at(6_100), request.attempt, answer);
        assert!(!lease.may_send(at(6_100)));
        assert_eq!(lease.poll_event(), Some(LeaseEvent::Fenced(fence)));
    }
}

/// Catches: a node that is fenced because a leader that was cut off has not seen the node's last write.
#[test]
fn an_older_entry_is_read_again_before_it_counts() {
    let doubting = |first: u64| {
        let mut lease = held();
        let request = lease.poll_request(at(3_000)).unwrap();
        lease.handle(at(3_010), request.attempt, Answer::Written(Ok(Revision(5))));
        let request = lease.poll_request(at(6_000)).unwrap();
        lease.handle(at(6_010), request.attempt, conflict());
        let request = lease.poll_request(at(6_010)).unwrap();
        lease.handle(at(6_020), request.attempt, read(HOLDER, first));
        assert_eq!((lease.may_send(at(6_020)), lease.poll_event()), (true, None), "{first}");
        assert_eq!(lease.poll_request(at(7_009)), None, "not at once: it would have the same answer");
        let request = lease.poll_request(at(7_010)).unwrap();
        assert_eq!(request.access, Access::Get);
        (lease, request.attempt)
    };
    let (mut lease, attempt) = doubting(4);
    lease.handle(at(7_020), attempt, read(HOLDER, 4));
    assert_eq!((lease.may_send(at(7_020)), lease.poll_event()), (false, Some(LeaseEvent::Fenced(Fence::Expired))));

    let (mut lease, attempt) = doubting(1);
    lease.handle(at(7_020), attempt, read(HOLDER, 5));
    let request = lease.poll_request(at(7_020)).unwrap();
    assert_eq!(request.access, Access::Update(Bytes::from_static(HOLDER), Revision(5)));
    lease.handle(at(7_030), request.attempt, Answer::Written(Ok(Revision(6))));
    assert_eq!((lease.may_send(at(16_999)), lease.poll_event()), (true, None));
}

#[test]
fn acquiring_finds_its_own_entry_or_anothers_or_none() {
    let begin = || {
        let mut lease = lease();
        let request = lease.poll_request(at(0)).unwrap();
        lease.handle(at(10), request.attempt, conflict());
        let request = lease.poll_request(at(10)).unwrap();
        assert_eq!(request.access, Access::Get);
        (lease, request.attempt)
    };
    let (mut lease, attempt) = begin();
    lease.handle(at(20), attempt, read(HOLDER, 4));
    assert!(!lease.may_send(at(20)), "when it was written is not known");
    let request = lease.poll_request(at(20)).unwrap();
    assert_eq!(request.access, Access::Update(Bytes::from_static(HOLDER), Revision(4)));
    lease.handle(at(30), request.attempt, Answer::Written(Ok(Revision(5))));
    assert_eq!((lease.may_send(at(30)), lease.poll_event()), (true, Some(LeaseEvent::Acquired)));

    let (mut lease, attempt) = begin();
    lease.handle(at(20), attempt, read(b"them", 4));
    assert_eq!(lease.poll_event(), Some(LeaseEvent::Fenced(Fence::Taken)));

    let (mut lease, attempt) = begin();
    lease.handle(at(20), attempt, Answer::Read(Ok(None)));
    let request = lease.poll_request(at(20)).unwrap();
    assert!(matches!(request.access, Access::Create(_)));
}

#[test]
fn an_acquisition_that_took_too_long_is_renewed_before_it_counts() {
    let mut lease = lease();
    let request = lease.poll_request(at(0)).unwrap();
    lease.handle(at(10_000), request.attempt, Answer::Written(Ok(Revision(1))));
    assert_eq!((lease.may_send(at(10_000)), lease.poll_event()), (false, None));
    let request = lease.poll_request(at(10_000)).unwrap();
    assert_eq!(request.access, Access::Update(Bytes::from_static(HOLDER), Revision(1)));
    lease.handle(at(10_005), request.attempt, Answer::Written(Ok(Revision(2))));
    assert_eq!((lease.may_send(at(10_005)), lease.poll_event()), (true, Some(LeaseEvent::Acquired)));
}

#[test]
fn a_store_that_refuses_the_entry_ends_it() {
    let mut lease = lease();
    let request = lease.poll_request(at(0)).unwrap();
    lease.handle(at(1), request.attempt, Answer::Written(Err(StoreError::Closed)));
    assert_eq!(lease.poll_event(), Some(LeaseEvent::Fenced(Fence::Refused)));
}

#[test]
fn a_lease_that_is_released_is_deleted_and_not_valid_from_then_on() {
    let mut lease = held();
    lease.release();
    assert!(!lease.may_send(at(10)));
    assert_eq!(lease.poll_event(), Some(LeaseEvent::Fenced(Fence::Released)));
    assert!(lease.next_timeout().is_some());
    assert_eq!(lease.poll_request(at(10)).unwrap().access, Access::Delete(Revision(1)));
    assert_eq!((lease.poll_request(at(10)), lease.next_timeout()), (None, None));
}

#[test]
fn numbers_that_break_the_arithmetic_are_refused() {
    let usual = Timing::default();
    assert_eq!(usual.check(), Ok(()));
    let seldom = Timing { renew: Duration::from_secs(5), ..usual };
    let error = TimingError::FenceTooEarly { fence: usual.fence, needed: millis(12_100) };
    assert_eq!(seldom.check(), Err(error));
    let late = Timing { fence: Duration::from_secs(12), ..usual };
    assert_eq!(late.check(), Err(TimingError::FenceTooLate { ttl: usual.ttl, needed: millis(16_015) }));
    assert!(Timing { fence: Duration::MAX, ..usual }.check().is_err());
}

/// The actual state of one entry in the store.
struct Store {
    entry: Option<(Bytes, Revision, Moment)>,
    last: u64,
    ttl: Duration,
}

impl Store {
    fn expire(&mut self, now: Moment) {
        if self.entry.as_ref().is_some_and(|(.., written)| *written + self.ttl <= now) {
            self.entry = None;
            self.last += 1;
        }
    }

    fn write(&mut self, now: Moment, value: Bytes, expected: Option<Revision>) -> Result<Revision, StoreError> {
        self.expire(now);
        if self.entry.as_ref().map(|(_, revision, _)| *revision) != expected {
            return Err(StoreError::Conflict { key: "k".into() });
        }
        self.last += 1;
        self.entry = Some((value, Revision(self.last), now));
        Ok(Revision(self.last))
    }

    fn access(&mut self, now: Moment, access: Access) -> Answer {
        self.expire(now);
        match access {
            Access::Create(value) => Answer::Written(self.write(now, value, None)),
            Access::Update(value, expected) => Answer::Written(self.write(now, value, Some(expected))),
            Access::Get => Answer::Read(Ok(self.entry.clone().map(|(value, revision, _)| Entry {
                key: "k".into(),
                value,
                revision,
            }))),
            Access::Delete(_) => panic!("nothing is released here"),
        }
    }
}

/// The arrival of a request at the store, or the arrival of an answer at the holder.
enum Step {
    Arrives(u64, Access),
    Answered(u64, Answer),
}

/// The conditions under which the store is reached.
struct Weather {
    /// The maximum delay in each direction, in milliseconds.
    slowest: u64,
    /// Percentage of answers that are lost although the request was carried out.
    lost: u64,
    /// When the store has no leader.
    outages: Vec<std::ops::Range<u64>>,
    /// When the holder is suspended. Its clock continues.
    suspended: Vec<std::ops::Range<u64>>,
    /// Whether another node takes the entry as soon as it is free.
    competitor: bool,
}

/// Runs a lease for a minute. Returns why it was fenced, if it was.
fn run(seed: u64, timing: Timing, weather: &Weather) -> Option<Fence> {
    let mut random = Random::new(seed);
    let mut store = Store { entry: None, last: 0, ttl: timing.ttl };
    let mut lease = Lease::new(timing, Bytes::from_static(HOLDER));
    let mut steps: BTreeMap<(u64, u64), Step> = BTreeMap::new();
    let mut serial = 0;
    let within = |ranges: &[std::ops::Range<u64>], time| ranges.iter().any(|range| range.contains(&time));
    let (mut acquired, mut fence) = (false, None);
    for time in (0..60_000).step_by(20) {
        let now = at(time);
        while let Some(step) = steps.first_entry().filter(|step| step.key().0 <= time) {
            let is_answer = matches!(step.get(), Step::Answered(..));
            if is_answer && within(&weather.suspended, time) {
                // The answer waits until the holder runs again.
                let step = step.remove();
                serial += 1;
                steps.insert((time + 20, serial), step);
                break;
            }
            let (attempt, answer) = match step.remove() {
                Step::Answered(attempt, answer) => {
                    lease.handle(now, attempt, answer);
                    continue;
                }
                Step::Arrives(attempt, access) if within(&weather.outages, time) => (
                    attempt,
                    match access {
                        Access::Get => Answer::Read(Err(StoreError::Unavailable)),
                        _ => Answer::Written(Err(StoreError::Unavailable)),
                    },
                ),
                Step::Arrives(attempt, access) => (attempt, store.access(now, access)),
            };
            let answer = match answer {
                _ if !random.chance(weather.lost) => answer,
                Answer::Written(_) => Answer::Written(Err(StoreError::Unknown)),
                Answer::Read(_) => Answer::Read(Err(StoreError::Unknown)),
            };
            serial += 1;
            steps.insert((time + random.below(weather.slowest + 1), serial), Step::Answered(attempt, answer));
        }
        if !within(&weather.suspended, time) {
            lease.handle_timeout(now);
            if let Some(request) = lease.poll_request(now) {
                serial += 1;
                let arrival = time + random.below(weather.slowest + 1);
                steps.insert((arrival, serial), Step::Arrives(request.attempt, request.access));
            }
            while let Some(event) = lease.poll_event() {
                match event {
                    LeaseEvent::Acquired => assert!(!std::mem::replace(&mut acquired, true), "acquired twice"),
                    LeaseEvent::Fenced(why) => {
                        assert_eq!(fence.replace(why), None, "fenced twice");
                        // An acquired lease is not lost before its time, since no clock here is wrong.
                        assert!(!acquired || why == Fence::Late, "{why:?}, seed {seed}");
                    }
                }
            }
        }
        store.expire(now);
        // Invariant 1, checked at any time, even for a holder that was suspended and has not done anything since.
        if lease.may_send(now) {
            let (value, _, written) = store.entry.as_ref().expect("a holder has an entry");
            assert_eq!(value, HOLDER, "two holders, seed {seed}");
            assert!(*written + timing.ttl >= now + (timing.ttl - timing.fence), "the entry is too old, seed {seed}");
            assert_eq!(fence, None);
        }
        // The competitor starts later than the holder, so that the holder can ask first.
        if weather.competitor && time > 2_000 {
            let _ = store.write(now, Bytes::from_static(b"them"), None);
        }
    }
    fence
}

#[test]
fn a_holder_has_its_entry_for_long_enough_whatever_happens() {
    let mut fences = BTreeMap::new();
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let mut spells = |most: u64, longest: u64| -> Vec<_> {
            (0..random.below(most + 1))
                .map(|_| {
                    let start = random.below(60_000);
                    start..start + random.below(longest)
                })
                .collect()
        };
        let (outages, suspended) = (spells(3, 12_000), spells(2, 30_000));
        let lost = [0, 30, 80][random.below(3) as usize];
        let weather = Weather {
            slowest: [0, 300, 4_000][random.below(3) as usize],
            lost,
            outages,
            suspended,
            competitor: seed % 2 == 0,
        };
        *fences.entry(run(seed, Timing::default(), &weather).map(|fence| format!("{fence:?}"))).or_insert(0) += 1;
    }
    // If an outcome were rare, the runs would prove nothing about it.
    assert!(fences.len() == 3 && fences.values().all(|&runs| runs >= 20), "{fences:?}");
}

/// Tests the worst case of the arithmetic, at every offset, on a machine whose accesses take over a second. Also checks
/// the values of two earlier designs: a renewal every 5 s does not survive that case, and a renewal every 3 s with an
/// attempt every second survives it only while accesses are fast.
#[test]
fn one_change_of_the_leader_does_not_fence() {
    let fences = |timing: Timing, slowest: u64| {
        (3_000..9_000)
            .step_by(100)
            .filter(|&start| {
                let outage = start..start + LEADER_CHANGE.as_millis() as u64;
                let weather = Weather { slowest, lost: 0, outages: vec![outage], suspended: vec![], competitor: true };
                run(start, timing, &weather).is_some()
            })
            .count()
    };
    assert_eq!(fences(Timing::default(), 600), 0);
    assert_eq!(fences(timing(), 180), 0);
    assert!(fences(timing(), 900) > fences(Timing::default(), 900));
    assert!(fences(Timing { renew: Duration::from_secs(5), ..timing() }, 180) > 5);
    assert!(timing().check().is_err());
}
