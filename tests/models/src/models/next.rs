//! When the first timer is due (`time/next_due.rs`): who sets timers while the time to sleep until is raised.
//!
//! Not covered: a wheel's own moment being raised, which is done under its lock.

use crate::check::{check, keep, reach};
use crate::env::clock::{Moment, SharedMoment};
use crate::fault::{self, Fault};
use crate::time::next_due::NextDue;
use loom::thread;

/// What was due first, and has been fired: whoever keeps the time is about to find that.
const PAST: Moment = Moment(3);

struct Host {
    next: NextDue,
    wheels: [SharedMoment; 2],
}

impl Host {
    fn new() -> Self {
        let host = Self { next: NextDue::new(), wheels: [Moment::NEVER; 2].map(SharedMoment::new) };
        // Set, and fired: the wheel's moment is raised then, that of the whole is not.
        assert!(host.next.lower(&host.wheels[0], PAST));
        host.wheels[0].store(Moment::NEVER);
        host
    }

    fn least(&self) -> Moment {
        self.wheels.iter().map(SharedMoment::load).min().unwrap_or(Moment::NEVER)
    }

    /// Raises the time, and sleeps. Gives until when, unless a timer was seen to be first.
    fn sleep(&self) -> Option<Moment> {
        if self.next.raise(|| self.least()) {
            reach("saw a timer that was set meanwhile");
            return None;
        }
        let until = self.next.load();
        reach(if until == Moment::NEVER { "sleeps for ever" } else { "sleeps until then" });
        Some(until)
    }
}

/// Timers are set, each in a wheel of its own, while one thread raises the time as often.
fn model(timers: &'static [Moment], times: usize) {
    let host = keep(Host::new());
    let setters: Vec<_> = timers
        .iter()
        .enumerate()
        .map(|(wheel, due)| thread::spawn(move || host.next.lower(&host.wheels[wheel], *due)))
        .collect();
    let sleeps: Vec<_> = (0..times).map(|_| host.sleep()).collect();
    let told: Vec<bool> = setters.into_iter().map(|setter| setter.join().unwrap()).collect();
    let first = *timers.iter().min().expect("some are set");
    assert!(host.next.load() <= first, "a timer is lost");
    // Who sleeps too long is woken: by who set the timer, or because it was seen at the last look.
    let woken = told.contains(&true) || sleeps.iter().any(Option::is_none);
    assert!(woken || sleeps.last().copied().flatten().is_some_and(|until| until <= first), "it is slept through");
}

const PLACES: &[&str] = &["saw a timer that was set meanwhile", "sleeps for ever", "sleeps until then"];

#[test]
fn one_timer() {
    check(5, PLACES, || model(&[Moment(5)], 1));
}

#[test]
fn one_timer_while_the_time_is_raised_twice() {
    check(4, PLACES, || model(&[Moment(5)], 2));
}

#[test]
fn two_timers_in_different_wheels() {
    check(3, PLACES, || model(&[Moment(7), Moment(5)], 1));
}

/// Without the single order of due:X1, due:X2, due:X5 and due:X6 neither sees the other.
#[test]
#[should_panic(expected = "a timer is lost")]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, two_timers_in_different_wheels);
}
