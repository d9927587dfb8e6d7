//! All processes send to all others, and their steps stall again and again. Each message arrives once and in order, and
//! no process takes two steps at once.

use postroom::manual::Event;
use postroom::prelude::*;
use postroom_tests::{HOUR, eventually, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

struct Numbered {
    from: usize,
    number: u64,
    left: u32,
}

/// A process that passes messages on, and sometimes stalls.
struct Member {
    me: usize,
    heard: Vec<u64>,
    sent: Vec<u64>,
    seed: u64,
    in_step: Arc<AtomicBool>,
    delivered: Arc<AtomicU64>,
    all: Arc<std::sync::OnceLock<Vec<Pid>>>,
}

impl Member {
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn hear(&mut self, message: Numbered) {
        assert!(!self.in_step.swap(true, SeqCst), "two steps at once");
        assert_eq!(message.number, self.heard[message.from] + 1, "in order, and none is lost");
        self.heard[message.from] = message.number;
        self.delivered.fetch_add(1, SeqCst);
        if message.left > 0 {
            self.send(message.left - 1);
        }
        match self.random(200) {
            // The stall limit is a millisecond. Other processes send during the stall and after it.
            0 => {
                let until = Instant::now() + Duration::from_millis(4);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            1 => std::thread::sleep(Duration::from_millis(3)),
            _ => {}
        }
        self.in_step.store(false, SeqCst);
    }

    fn send(&mut self, left: u32) {
        let all = self.all.clone();
        let Some(all) = all.get() else { unreachable!("set before the first message") };
        let to = self.random(all.len() as u64) as usize;
        self.sent[to] += 1;
        let message = Numbered { from: self.me, number: self.sent[to], left };
        postroom::Host::current().unwrap().send(all[to], message).unwrap();
    }
}

const MEMBERS: usize = 24;
const CHAINS: u64 = 40;
const LENGTH: u32 = 250;

#[test]
fn nothing_is_lost_or_doubled_while_steps_are_taken_over_again_and_again() {
    within(Duration::from_secs(120), || {
        let runtime = Runtime::builder().workers(2).stall_limit(Duration::from_millis(1)).build().unwrap();
        let (delivered, all) = (Arc::new(AtomicU64::new(0)), Arc::new(std::sync::OnceLock::new()));
        let pids: Vec<Pid> = (0..MEMBERS)
            .map(|me| {
                let mut member = Member {
                    me,
                    heard: vec![0; MEMBERS + 1],
                    sent: vec![0; MEMBERS],
                    seed: me as u64,
                    in_step: Arc::default(),
                    delivered: delivered.clone(),
                    all: all.clone(),
                };
                let process = postroom_tests::act(move |events, out| {
                    while let Some(event) = events.next() {
                        if let Event::Message(package) = event
                            && let Ok(message) = package.take::<Numbered>()
                        {
                            member.hear(message);
                        }
                    }
                    out.idle();
                    Ok(())
                });
                runtime.spawn_process(process).start().unwrap()
            })
            .collect();
        all.set(pids.clone()).unwrap();
        for number in 0..CHAINS {
            let to = number as usize % MEMBERS;
            let first = Numbered { from: MEMBERS, number: number / MEMBERS as u64 + 1, left: LENGTH };
            runtime.send(pids[to], first).unwrap();
        }
        let expected = CHAINS * (u64::from(LENGTH) + 1);
        eventually(|| delivered.load(SeqCst) == expected);
        let statistics = runtime.statistics();
        assert!(statistics.watchdog.taken_over > 0 && statistics.watchdog.stalls > 0, "{statistics:?}");
        let host = runtime.host();
        let report = runtime.shutdown_within(HOUR).unwrap();
        assert!(!report.was_forced() && report.ended == MEMBERS as u64, "{report}: {:#?}", host.statistics());
        assert_eq!(delivered.load(SeqCst), expected);
    });
}
