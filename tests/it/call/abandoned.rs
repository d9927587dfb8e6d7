//! Calls whose callers stop waiting before the callee takes them.

use super::*;

#[process(skip_abandoned)]
pub(crate) struct Busy {
    pub(crate) seen: Log<u32>,
    pub(crate) gate: Gate,
}

#[process]
impl Busy {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    fn wait(&mut self) {
        self.gate.pass();
    }

    #[message]
    pub(crate) fn note(&mut self, number: u32) -> u32 {
        self.seen.add(number);
        number
    }

    #[message]
    pub(crate) async fn note_async(&mut self, number: u32) -> u32 {
        self.seen.add(number);
        number
    }
}

/// A process that calls and gives up.
#[process]
struct Hasty;

#[process]
impl Hasty {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn give_up(&mut self, busy: Address<Busy>) {
        assert!(poll_once(pin!(busy.note(10).timeout(LONG).into_future()).as_mut()).is_pending());
        assert_eq!(busy.note_async(11).timeout(Duration::ZERO).await, Err(CallError::Timeout));
    }
}

#[test]
fn a_process_that_skips_abandoned_calls_handles_only_awaited_ones() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let (seen, gate) = (Log::new(), Gate::new());
        let busy = runtime.spawn(Busy { seen: seen.clone(), gate: gate.clone() }).serve().unwrap();
        busy.wait().send().unwrap();
        // The next calls are abandoned from outside: at a deadline, and by a drop.
        assert_eq!(busy.note(1).timeout(Duration::ZERO).wait(), Err(CallError::Timeout));
        assert_eq!(busy.note_async(2).timeout(Duration::ZERO).wait(), Err(CallError::Timeout));
        assert!(poll_once(pin!(busy.note(3).timeout(LONG).into_future()).as_mut()).is_pending());
        // The next call is abandoned by a process.
        let hasty = runtime.spawn(Hasty).serve().unwrap();
        hasty.give_up(busy).timeout(LONG).wait().unwrap();
        // A sent message has no caller that could give up.
        busy.note(4).send().unwrap();
        let mut wanted = pin!(busy.note_async(5).timeout(LONG).into_future());
        assert!(poll_once(wanted.as_mut()).is_pending());
        gate.open();
        assert_eq!(runtime.block_on(wanted), Ok(5));
        assert_eq!(busy.note(6).timeout(LONG).wait(), Ok(6));
        assert_eq!(seen.all(), [4, 5, 6]);
        let dead = runtime.statistics().dead_letters;
        assert_eq!((dead.expired, dead.total()), (5, 5));
    });
}

/// A process that keeps a caller waiting.
#[process]
#[derive(Default)]
struct Hold(Option<Reply<()>>);

#[process]
impl Hold {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hold(&mut self, reply: Reply<()>) {
        self.0 = Some(reply);
    }

    #[message]
    fn is_abandoned(&self) -> Option<bool> {
        self.0.as_ref().map(Reply::is_abandoned)
    }
}

#[test]
fn a_call_past_its_deadline_is_abandoned_before_its_caller_checks() {
    watched(|| {
        let clock = postroom::test::Clock::manual();
        let runtime = builder().clock(clock.clone()).build().unwrap();
        let hold = runtime.spawn(Hold::default()).serve().unwrap();
        let mut held = pin!(hold.hold().timeout(Duration::from_secs(5)).into_future());
        assert!(poll_once(held.as_mut()).is_pending());
        assert_eq!(hold.is_abandoned().wait(), Ok(Some(false)));
        clock.advance(Duration::from_secs(5)).unwrap();
        assert_eq!(hold.is_abandoned().wait(), Ok(Some(true)));
        assert_eq!(runtime.block_on(held), Err(CallError::Timeout));
    });
}
