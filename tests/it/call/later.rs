//! Delayed and repeated messages.

use super::*;

#[test]
fn a_message_may_be_sent_later_and_again_and_again() {
    with_runtime(|runtime| {
        let log = Log::new();
        let desk = runtime.spawn(Metronome { log: log.clone(), limit: 5 }).serve().unwrap();
        desk.beat(1).send_after(Duration::ZERO).unwrap();
        desk.beat(2).send_after(Duration::from_millis(2)).unwrap();
        desk.beat(3).send_after(Duration::MAX).unwrap();
        until(|| log.len() == 2);
        assert_eq!(log.all(), [1, 2]);
        desk.beat(4).send_every(Duration::from_nanos(1)).unwrap();
        desk.pid().join().wait();
        assert_eq!(log.all(), [1, 2, 4, 4, 4]);
        // A message to a process that has exited is refused, and its repetition ends.
        assert_eq!(desk.beat(5).send_after(Duration::from_millis(1)).unwrap_err().message.number, 5);
        assert_eq!(desk.beat(6).send_every(Duration::from_millis(1)).unwrap_err().message.number, 6);
        until(|| runtime.statistics().timers == 1);
    });
}

#[test]
fn a_delayed_message_to_a_process_that_has_exited_by_then_is_a_dead_letter() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let clock = postroom::test::Clock::manual();
        let runtime = builder.clock(clock.clone()).build().unwrap();
        let desk = runtime.spawn(Metronome { log: Log::new(), limit: 1 }).serve().unwrap();
        desk.beat(1).send_after(Duration::from_millis(5)).unwrap();
        desk.pid().kill();
        // The message is due after the exit, however slow this thread is.
        clock.advance(Duration::from_millis(5)).unwrap();
        until(|| dead.len() == 1);
        assert_eq!(dead.all(), [("it::call::later::MetronomeBeat", DeadLetterReason::Ended)]);
        assert_eq!(runtime.statistics().dead_letters.ended, 1);
    });
}

/// A message whose number decreases with each clone; cloning it at zero panics.
struct Fragile(u32, Gate);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        if self.0 == 0 {
            self.1.open();
            panic!("one copy too many");
        }
        Self(self.0 - 1, self.1.clone())
    }
}

#[test]
fn a_panic_while_a_repeated_message_is_cloned_is_contained() {
    #[process]
    struct Shelf(Log<u32>);

    #[process]
    impl Shelf {
        #[entry]
        fn serve(&mut self) {}

        #[message(Fragile)]
        fn take(&mut self, fragile: Fragile) {
            self.0.add(fragile.0);
        }
    }

    watched(|| {
        let runtime = builder().workers(1).build().unwrap();
        let log = Log::new();
        let shelf = runtime.spawn(Shelf(log.clone())).serve().unwrap();
        let panics = Gate::new();
        shelf.take(Fragile(3, panics.clone())).send_every(Duration::from_millis(1)).unwrap();
        panics.pass();
        // The only worker still runs.
        shelf.take(Fragile(9, panics)).wait().unwrap();
        assert_eq!(log.all(), [2, 1, 9]);
    });
}

#[process]
pub(crate) struct Metronome {
    pub(crate) log: Log<u32>,
    pub(crate) limit: usize,
}

#[process]
impl Metronome {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    pub(crate) fn beat(&mut self, ctx: &mut Context<Self>, number: u32) {
        self.log.add(number);
        if self.log.len() == self.limit {
            ctx.stop();
        }
    }
}
