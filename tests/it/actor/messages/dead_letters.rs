//! Messages that no process handles.

use super::*;

struct Unknown;

#[test]
fn a_message_of_a_type_without_a_method_is_a_dead_letter() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        runtime.send(desk.pid(), Unknown).unwrap();
        runtime.send(desk.pid(), "text").unwrap();
        assert_eq!(desk.nothing().wait(), Ok(1));
        assert_eq!(
            dead.all(),
            [
                ("it::actor::messages::dead_letters::Unknown", DeadLetterReason::Unhandled),
                ("&str", DeadLetterReason::Unhandled)
            ]
        );
        let statistics = runtime.statistics();
        assert_eq!((statistics.dead_letters.unhandled, statistics.dead_letters.ended), (2, 0));
    });
}

#[test]
fn the_backlog_of_a_process_that_ends_is_dead_letters_and_its_callers_learn_why() {
    watched(|| {
        // A kill and a cancel overtake the backlog; a stop is handled in order.
        let ends: [(End<Pid>, usize); 3] = [
            ((Pid::kill, ExitReason::Killed), 0),
            ((|pid| pid.cancel("over"), "over".into()), 0),
            ((Pid::stop, ExitReason::Normal), 3),
        ];
        for ((end, reason), handled) in ends {
            let (builder, dead) = with_dead_letters();
            let runtime = builder.paused().build().unwrap();
            let seen = Log::new();
            let desk = runtime.spawn(Desk { seen: seen.clone(), ..Desk::default() }).serve().unwrap();
            let ended = desk.pid().join();
            (1..=3).for_each(|number| desk.note(number).send().unwrap());
            end(desk.pid());
            (4..=5).for_each(|number| desk.note(number).send().unwrap());
            let mut answer = pin!(desk.nothing().into_future());
            assert!(poll_once(answer.as_mut()).is_pending());
            runtime.resume().unwrap();
            assert_eq!(runtime.block_on(answer), Err(CallError::Gone(reason.clone())));
            // The call was the last message in the queue. Its dead letter is counted before its caller gets the error.
            let letters = dead.all();
            assert_eq!(ended.wait(), reason);
            assert_eq!(seen.all(), [1, 2, 3][..handled]);
            let mut expected = vec![("it::actor::messages::DeskNote", DeadLetterReason::Ended); 5 - handled];
            expected.push(("it::actor::messages::DeskNothing", DeadLetterReason::Ended));
            assert_eq!(letters, expected);
            assert_eq!(
                (runtime.statistics().dead_letters.ended as usize, dead.len()),
                (expected.len(), expected.len())
            );
        }
    });
}

#[test]
fn the_backlog_of_a_process_that_panics_is_dead_letters() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.paused().build().unwrap();
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        let ended = desk.pid().join();
        desk.run(Box::new(|_| panic!("in the middle"))).send().unwrap();
        (1..=200).for_each(|number| desk.note(number).send().unwrap());
        runtime.resume().unwrap();
        assert!(matches!(ended.wait(), ExitReason::Panic(panic) if panic.message == "in the middle"));
        assert_eq!(dead.all(), vec![("it::actor::messages::DeskNote", DeadLetterReason::Ended); 200]);
        assert_eq!(runtime.statistics().dead_letters.ended, 200);
    });
}

#[test]
fn a_panic_in_the_dead_letter_hook_is_contained() {
    watched(|| {
        let runtime = builder().on_dead_letter(|_| panic!("in the hook")).build().unwrap();
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        runtime.send(desk.pid(), Unknown).unwrap();
        assert_eq!(desk.nothing().wait(), Ok(1));
    });
}

/// A process whose messages carry a reference-counted token.
#[process]
struct Sink;

#[process]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, _token: Arc<()>) {}

    #[message]
    fn refuse(&mut self, _token: Arc<()>) -> Result<(), String> {
        Err("no".to_string())
    }
}

#[test]
fn every_message_is_dropped_exactly_once_handled_or_not() {
    watched(|| {
        let token = Arc::new(());
        let runtime = builder().build().unwrap();
        let sink = runtime.spawn(Sink).serve().unwrap();
        for _ in 0..100 {
            sink.take(token.clone()).send().unwrap();
            sink.refuse(token.clone()).send().unwrap();
            runtime.send(sink.pid(), (token.clone(), 1)).unwrap();
        }
        drop(sink.take(token.clone()));
        assert!(sink.refuse(token.clone()).wait().is_err());
        sink.pid().kill();
        sink.pid().join().wait();
        drop(sink.take(token.clone()).send().unwrap_err());
        drop(runtime);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}
