//! The time of the next timer (`time/next_due.rs`). Timers are set while a thread raises the time until which it will
//! sleep.
//!
//! Not covered: raising a wheel's own moment, which is done under its lock.

use crate::check::{check, keep, reach};
use crate::env::clock::{Moment, SharedMoment};
use crate::fault::{self, Fault};
use crate::time::next_due::NextDue;
use loom::thread;

/// The time of a timer that has fired. The thread that fires timers has not raised the common moment since.
const PAST: Moment = Moment(3);

struct Host {
    next: NextDue,
    wheels: [SharedMoment; 2],
}

impl Host {
    fn new() -> Self {
        let host = Self { next: NextDue::new(), wheels: [Moment::NEVER; 2].map(SharedMoment::new) };
        // The timer has fired: its wheel's moment has been raised, but the common moment has not.
        assert!(host.next.lower(&host.wheels[0], PAST));
        host.wheels[0].store(Moment::NEVER);
        host
    }

    fn least(&self) -> Moment {
        self.wheels.iter().map(SharedMoment::load).min().unwrap_or(Moment::NEVER)
    }

    /// Raises the time and sleeps. Returns the wake-up time, or `None` if the thread found an earlier timer.
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

/// Sets `timers`, each in its own wheel, while another thread raises the time `times` times.
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
    // A thread that would sleep too long is woken by the thread that set the timer, or finds the timer in its last
    // check.
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

/// Without the single order of due:X1, due:X2, due:X5 and due:X6, neither thread sees the other.
#[test]
#[should_panic(expected = "a timer is lost")]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, two_timers_in_different_wheels);
}
