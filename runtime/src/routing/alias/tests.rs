use super::*;
use crate::actor::tasks::current::outside;
use crate::env::program::this_node;
use crate::errors::{AddressError, CallError, SendFailure};
use crate::process::{Event, Events, InitContext, Process, StepOutput};
use crate::routing::router::{Node, Router};
use crate::routing::transport::Receiver;
use crate::sync::{Mutex, lock};
use crate::{Call, ExitReason, Host, InitError, Mailbox, Payloads, ProcessError, Recipient, Runtime};
use std::collections::HashSet;
use std::time::Duration;

/// Answers each number with its double, until it is stopped.
struct Doubler;

impl Process for Doubler {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                package.answer(|number: u64| 2 * number).map_err(|_| ProcessError::new("no number"))?;
            }
        }
        out.idle();
        Ok(())
    }
}

/// Calls a PID, and exits with the result.
struct Asks(Pid);

impl Process for Asks {
    fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        out.done_with(call(self.0, 4).wait());
        Ok(())
    }
}

/// Resolves to each of `targets` in turn, then to the last one forever. Keeps packages unless it `refuses` them.
#[derive(Default)]
struct Signpost {
    targets: Mutex<Vec<Pid>>,
    taken: Mutex<Vec<Package>>,
    refuses: bool,
    owner: Option<u16>,
    kind: Option<&'static ProcessKind>,
}

impl AliasTarget for Signpost {
    fn now(&self) -> Option<Pid> {
        let mut targets = lock(&self.targets);
        if targets.len() > 1 { Some(targets.remove(0)) } else { targets.first().copied() }
    }

    fn take(&self, package: Package) -> Result<(), Undeliverable> {
        if self.refuses {
            // Like a full pool, with a PID that the sender never saw.
            let reason = SendFailure::Full(Pid::of_alias(this_node(), HOSTLESS, 7, 7));
            return Err(Undeliverable { package, reason });
        }
        lock(&self.taken).push(package);
        Ok(())
    }

    fn life(&self) -> Option<Pid> {
        lock(&self.targets).last().copied()
    }

    fn kind(&self) -> Option<&'static ProcessKind> {
        self.kind
    }

    fn owner(&self) -> u16 {
        self.owner.unwrap_or(HOSTLESS)
    }
}

fn alias(targets: &[Pid]) -> (Alias, Arc<Signpost>) {
    let signpost = Arc::new(Signpost { targets: Mutex::new(targets.to_vec()), ..Signpost::default() });
    (Alias::new(signpost.clone()), signpost)
}

fn refuses() -> Alias {
    Alias::new(Arc::new(Signpost { refuses: true, ..Signpost::default() }))
}

fn call(pid: Pid, number: u64) -> Call<u64, u64> {
    Call::new(pid, "Doubler::double", number)
}

fn send(pid: Pid, number: u64) -> Result<(), (u64, SendFailure)> {
    Recipient::<u64>::of(pid).send(number).map_err(|error| (error.message, error.reason))
}

fn ended() -> Pid {
    Mailbox::new().unwrap().pid()
}

#[test]
fn places_follow_one_another_through_the_chunks() {
    let mut expected = (0, 0);
    for index in 0..10_000 {
        assert_eq!(coordinates(index), expected);
        expected.1 += 1;
        if expected.1 == 1 << (expected.0 as u32 + FIRST_BITS) {
            expected = (expected.0 + 1, 0);
        }
    }
    let (chunk, offset) = coordinates((1 << SLOT_BITS) - 1);
    assert!(chunk < CHUNKS && offset < 1 << (chunk as u32 + FIRST_BITS));
}

#[test]
fn no_pid_is_given_out_twice_and_a_retired_one_answers_to_nothing() {
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let (alias, _signpost) = alias(&[ended()]);
        let pid = alias.pid();
        assert!(pid.is_alias() && seen.insert(pid), "{pid}");
        assert!(target_of(pid).is_some());
        drop(alias);
        assert!(target_of(pid).is_none());
        assert_eq!(send(pid, 1), Err((1, SendFailure::Gone(pid))));
        assert_eq!(pid.to_string().parse(), Ok(pid));
    }
    // The entries of retired aliases were reused.
    assert!(seen.iter().map(|pid| pid.slot()).collect::<HashSet<_>>().len() < 1000);
}

#[test]
fn a_pid_that_points_nowhere_is_no_process() {
    let pid = Pid::of_alias(this_node(), HOSTLESS, (1 << SLOT_BITS) - 1, 1);
    assert_eq!(send(pid, 1), Err((1, SendFailure::Gone(pid))));
    assert_eq!(call(pid, 1).wait(), Err(CallError::Gone(ExitReason::NoProcess)));
    assert!(!pid.is_alive() && !pid.stop() && !pid.kill() && !pid.cancel(ExitReason::Normal));
    assert_eq!(pid.join().wait(), ExitReason::NoProcess);
    assert!(pid.info().is_none() && Host::of(pid).is_none());
    assert_eq!(call(pid, 1).send_after(Duration::ZERO).unwrap_err().reason, SendFailure::Gone(pid));
    assert_eq!(call(pid, 1).send_after(Duration::from_secs(1)).unwrap_err().reason, SendFailure::Gone(pid));
}

#[test]
fn what_is_sent_goes_to_whoever_serves_now_in_order() {
    let (mut first, mut second) = (Mailbox::new().unwrap(), Mailbox::new().unwrap());
    let (alias, signpost) = alias(&[first.pid()]);
    send(alias.pid(), 1).unwrap();
    send(alias.pid(), 2).unwrap();
    *lock(&signpost.targets) = vec![second.pid()];
    send(alias.pid(), 3).unwrap();
    let next = |mailbox: &mut Mailbox| mailbox.try_receive().unwrap().take::<u64>().unwrap();
    assert_eq!([next(&mut first), next(&mut first), next(&mut second)], [1, 2, 3]);
    assert!(lock(&signpost.taken).is_empty());
}

#[test]
fn a_target_that_has_ended_makes_the_sender_ask_again_and_then_hand_the_message_over() {
    let mut living = Mailbox::new().unwrap();
    let (one, signpost) = alias(&[ended(), ended(), living.pid()]);
    send(one.pid(), 1).unwrap();
    assert_eq!(living.try_receive().unwrap().take::<u64>().unwrap(), 1);
    assert!(lock(&signpost.taken).is_empty());
    // The same target each time: two attempts are enough.
    let (one, signpost) = alias(&[ended()]);
    send(one.pid(), 2).unwrap();
    assert_eq!(lock(&signpost.taken).pop().unwrap().take::<u64>().unwrap(), 2);
    // A new target each time: after a few attempts this package is passed to the alias, too.
    let many: Vec<_> = (0..100).map(|_| ended()).collect();
    let (one, signpost) = alias(&many);
    send(one.pid(), 3).unwrap();
    let taken = lock(&signpost.taken).pop().unwrap();
    assert_eq!((taken.to(), lock(&signpost.targets).len()), (one.pid(), 100 - 4));
    assert_eq!(taken.take::<u64>().unwrap(), 3);
}

#[test]
fn a_refusal_names_the_pid_that_was_used_and_the_message_comes_back() {
    let refusing = refuses();
    let (outer, signpost) = alias(&[refusing.pid()]);
    assert_eq!(send(outer.pid(), 1), Err((1, SendFailure::Full(outer.pid()))));
    assert_eq!(call(outer.pid(), 2).wait(), Err(CallError::Full));
    assert!(lock(&signpost.taken).is_empty(), "full is not gone");
    for station in [&Router::new() as &dyn Receiver, &Node::this(), &outer.pid()] {
        let refused = station.deliver(Package::new(outer.pid(), 3_u64)).unwrap_err();
        assert_eq!((refused.package.to(), refused.reason), (outer.pid(), SendFailure::Full(outer.pid())));
        assert_eq!(refused.package.take::<u64>().unwrap(), 3);
    }
}

#[test]
fn pointers_lead_to_one_another_and_a_ring_of_them_ends() {
    let mut mailbox = Mailbox::new().unwrap();
    let mut chain = vec![alias(&[mailbox.pid()])];
    for _ in 1..DEPTH {
        chain.push(alias(&[chain.last().unwrap().0.pid()]));
    }
    let last = chain.last().unwrap().0.pid();
    send(last, 1).unwrap();
    assert_eq!(mailbox.try_receive().unwrap().take::<u64>().unwrap(), 1);
    assert_eq!(last.resolve(), Some(mailbox.pid()));
    // One more alias exceeds the limit: the last alias that is reached takes the package.
    let (one_more, _signpost) = alias(&[last]);
    assert_eq!(one_more.pid().resolve(), None);
    send(one_more.pid(), 1).unwrap();
    assert_eq!(lock(&chain[1].1.taken).len(), 1);
    assert!(mailbox.try_receive().is_none());
    let (ring, signpost) = alias(&[]);
    *lock(&signpost.targets) = vec![ring.pid()];
    assert_eq!(ring.pid().resolve(), None);
    send(ring.pid(), 2).unwrap();
    assert_eq!(lock(&signpost.taken).len(), 1, "handed over once, at the end of the ring");
}

#[test]
fn an_inner_pointer_that_was_retired_is_as_a_process_that_has_ended() {
    let (inner, _signpost) = alias(&[]);
    let (outer, signpost) = alias(&[inner.pid()]);
    drop(inner);
    send(outer.pid(), 1).unwrap();
    assert_eq!(lock(&signpost.taken).len(), 1);
}

#[test]
fn calls_are_answered_from_threads_tasks_and_processes() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let doubler = runtime.spawn_process(Doubler).start().unwrap();
    let (alias, signpost) = alias(&[doubler]);
    let pid = alias.pid();
    assert_eq!(call(pid, 2).wait(), Ok(4));
    assert_eq!(runtime.block_on(async { call(pid, 3).await }), Ok(6));
    let asks = runtime.spawn_process(Asks(pid)).run::<Result<u64, CallError>>().unwrap();
    assert_eq!(asks.wait().unwrap(), Ok(8));
    // No target now: the alias takes the package, and the test answers it.
    lock(&signpost.targets).clear();
    let waiting = std::thread::spawn(move || outside(|| call(pid, 5).timeout(Duration::MAX).wait()));
    let package = loop {
        match lock(&signpost.taken).pop() {
            Some(package) => break package,
            None => std::thread::yield_now(),
        }
    };
    package.answer(|number: u64| number + 1).unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(6));
}

#[test]
fn an_alias_lives_as_long_as_its_target() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let doubler = runtime.spawn_process(Doubler).start().unwrap();
    let owner = Some(doubler.host_number());
    let signpost = Arc::new(Signpost { targets: Mutex::new(vec![doubler]), owner, ..Signpost::default() });
    let alias = Alias::new(signpost.clone());
    let pid = alias.pid();
    assert!(pid.is_alive());
    assert_eq!(Host::of(pid), Some(runtime.host()));
    assert_eq!(pid.info().unwrap().pid, doubler);
    Receiver::deliver(&runtime.host(), Package::new(pid, 1_u64)).unwrap();
    let end = pid.join();
    assert!(pid.stop());
    assert_eq!(end.wait(), ExitReason::Normal);
    assert!(!pid.is_alive() && !pid.stop());
    let next = runtime.spawn_process(Doubler).start().unwrap();
    *lock(&signpost.targets) = vec![next];
    let end = pid.join();
    assert!(pid.is_alive() && pid.kill());
    assert_eq!(end.wait(), ExitReason::Killed);
    lock(&signpost.targets).clear();
    assert!(!pid.is_alive() && pid.info().is_none());
    assert_eq!(pid.join().wait(), ExitReason::NoProcess);
}

#[test]
fn what_is_to_be_sent_later_goes_to_whoever_serves_then() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let doubler = runtime.spawn_process(Doubler).start().unwrap();
    let mut mailbox = Mailbox::new().unwrap();
    // The host of the doubler keeps the timer. The message goes to the target of the alias at the due time.
    let (alias, signpost) = alias(&[mailbox.pid(), doubler]);
    let delay = Duration::from_millis(1);
    call(alias.pid(), 1).send_after(delay).unwrap();
    assert_eq!(mailbox.receive().take::<u64>().unwrap(), 1);
    // No process serves, so the program's timekeeper keeps the timer.
    lock(&signpost.targets).clear();
    call(alias.pid(), 2).send_every(delay).unwrap();
    while lock(&signpost.taken).len() < 3 {
        std::thread::yield_now();
    }
    let pid = alias.pid();
    drop(alias);
    assert_eq!(call(pid, 3).send_after(delay).unwrap_err().reason, SendFailure::Gone(pid));
}

#[test]
fn an_address_can_be_made_of_the_type_that_is_behind() {
    use crate as postroom;
    #[postroom::process(crate = crate)]
    struct Account {}
    #[postroom::process(crate = crate)]
    impl Account {
        #[entry]
        fn serve(&mut self) {}
    }
    #[postroom::process(crate = crate)]
    struct Bank {}
    #[postroom::process(crate = crate)]
    impl Bank {
        #[entry]
        fn serve(&mut self) {}
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let account = runtime.spawn(Account {}).serve().unwrap();
    let (alias, signpost) = alias(&[account.pid()]);
    let pid = alias.pid();
    assert_eq!(runtime.address::<Account>(pid).unwrap().pid(), pid);
    assert!(matches!(runtime.address::<Bank>(pid), Err(AddressError::Type { found: "Account", .. })));
    // The kind of a process that does not exist is unknown.
    lock(&signpost.targets).clear();
    assert_eq!(runtime.address::<Account>(pid).unwrap_err(), AddressError::Gone(pid));
    let kind = Some(crate::actor::definition::KindOf::<Bank>::KIND);
    let said = Alias::new(Arc::new(Signpost { kind, ..Signpost::default() }));
    assert_eq!(runtime.address::<Bank>(said.pid()).unwrap().pid(), said.pid());
    assert!(runtime.address::<Account>(said.pid()).is_err());
}

/// Monitors a PID, and exits with the notice.
struct Watches(Pid, Option<crate::Monitor>);

impl Process for Watches {
    fn init(&mut self, _: &mut InitContext<'_>, _: &str, _: Payloads) -> Result<(), InitError> {
        self.1 = Some(self.0.monitor().map_err(InitError::failed)?);
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Signal(crate::Signal::Down(down)) = event {
                assert_eq!(Some(down.monitor), self.1);
                out.done_with((down.pid, down.reason));
            }
        }
        Ok(())
    }
}

#[test]
fn a_monitor_of_the_pid_is_one_of_whoever_answers_for_it() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let doubler = runtime.spawn_process(Doubler).start().unwrap();
    let (alias, signpost) = alias(&[doubler]);
    let watches = runtime.spawn_process(Watches(alias.pid(), None)).run::<(Pid, ExitReason)>().unwrap();
    assert!(alias.pid().stop());
    assert_eq!(watches.wait().unwrap(), (doubler, ExitReason::Normal));
    // Without a target, the notice is that for a process that has exited.
    lock(&signpost.targets).clear();
    let watches = runtime.spawn_process(Watches(alias.pid(), None)).run::<(Pid, ExitReason)>().unwrap();
    assert_eq!(watches.wait().unwrap(), (alias.pid(), ExitReason::NoProcess));
}

/// Catches: the host of a retired alias is lost when the alias's entry is reused, so senders get `Gone` after a
/// shutdown.
#[test]
fn a_retired_alias_knows_its_host_after_its_entry_was_reused() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let doubler = runtime.spawn_process(Doubler).start().unwrap();
    let owned = Alias::new(Arc::new(Signpost { owner: Some(doubler.host_number()), ..Signpost::default() }));
    let pid = owned.pid();
    drop(owned);
    assert_eq!(send(pid, 1), Err((1, SendFailure::Gone(pid))));
    runtime.shutdown().unwrap();
    let mut others = Vec::new();
    while others.iter().all(|other: &Alias| other.pid().slot() != pid.slot()) {
        others.push(alias(&[]).0);
        assert!(others.len() < 1 << 20, "the entry is never reused");
    }
    assert_eq!(send(pid, 1), Err((1, SendFailure::Shutdown(pid))));
}
