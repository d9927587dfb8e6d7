//! Many callers, members that fail at any time, full queues: each call gets one answer, and nothing is left over.
//!
//! Blind spots: only two workers, and the exits are panics and kills, not steps that hang.

use super::*;

#[test]
fn each_call_is_answered_once_while_members_die_and_lines_are_full() {
    watched(|| {
        let runtime = builder().build().unwrap();
        for (round, kind) in [
            Pool::fixed(3).queue(8),
            Pool::elastic(0..=4).queue(8).idle_after(Duration::from_micros(200)).concurrency(3),
            Pool::elastic(1..=3).queue(64).deadline(Duration::from_micros(500)).round_robin(),
            Pool::fixed(4).queue(64).by_hash(|echo: &WorkerEcho| echo.value),
        ]
        .into_iter()
        .enumerate()
        {
            // Hundreds of members fail, which must not end the pool.
            let kind = kind
                .intensity(u32::MAX, Duration::ZERO)
                .backoff(Backoff::exponential(Duration::from_micros(10), Duration::from_micros(300)));
            let workers = pool(&runtime, kind);
            let callers: Vec<_> = (0..4_u32)
                .map(|caller| {
                    let workers = workers.clone();
                    thread::spawn(move || {
                        let mut answered = 0;
                        for value in 0..500_u32 {
                            let value = caller * 1000 + value;
                            if value % 50 == 7 {
                                let crashed = workers.address().crash().timeout(LONG).wait();
                                assert!(!matches!(crashed, Ok(_) | Err(CallError::Dropped | CallError::Unhandled)));
                            }
                            if value % 90 == 3 {
                                workers.members().first().map(|member| member.kill());
                            }
                            match workers.address().echo(value).timeout(LONG).wait() {
                                Ok(answer) => {
                                    assert_eq!(answer, value);
                                    answered += 1;
                                }
                                Err(CallError::Gone(_) | CallError::Full | CallError::Timeout) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        answered
                    })
                })
                .collect();
            let answered: u32 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
            assert!(answered > 200, "{answered} in round {round}");
            let end = workers.pid().join();
            when(&workers, |now| now.waiting + now.in_flight == 0);
            workers.stop();
            assert_eq!(end.wait(), ExitReason::Normal);
            until(|| runtime.statistics().processes.live == 0);
        }
        assert_eq!(runtime.statistics().timers, 0);
    });
}
