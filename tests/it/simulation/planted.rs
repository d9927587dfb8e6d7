//! Checks that simulations find mistakes: small programs with one classic mistake each, and the same programs without
//! it.
//!
//! The wrong version must fail within a thousand seeds of the default strategy, and the right one must pass. Seeds are
//! fixed, so neither result depends on luck. A table in the guide shows how many seeds each strategy needs:
//!
//! ```text
//! POSTROOM_WRITE=1 cargo test --release -p postroom-tests --test it planted::table
//! ```

mod aba;
mod cancelled_timer;
mod crash_between_sends;
mod deadlock_of_three;
mod doubled_retry;
mod forgetful_upgrade;
mod late_answer;
mod lost_update;
mod missed_signal;
mod name_race;
mod overrun;
mod oversold;
mod restart_strategy;
mod snapshot_gap;
mod starving_reader;
mod stop_during_start;
mod table;
mod two_leaders;
mod two_ways;

use postroom::test::{Coverage, Schedules, Sim, Simulation, SimulationError};

/// A version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Wrong,
    Right,
}

impl Version {
    fn is_wrong(self) -> bool {
        self == Self::Wrong
    }
}

struct Program {
    name: &'static str,
    /// The mistake in the wrong version.
    mistake: &'static str,
    /// The remedy in the right version.
    remedy: &'static str,
    run: fn(&Sim, Version),
}

/// Number of seeds after which a strategy counts as unable to find a mistake.
const SEEDS: u64 = 10_000;

/// Number of seeds within which the default strategy must find each mistake. The hardest mistake needs 100 on average.
const ENOUGH: u64 = 1_000;

impl Program {
    fn simulate(&self, version: Version, simulation: Simulation) -> Result<Coverage, SimulationError> {
        let run = self.run;
        simulation.check(move |sim| run(&sim, version))
    }

    /// Returns the number of seeds needed to find the mistake.
    fn seeds_to_failure(&self, schedules: Schedules, first: u64, most: u64) -> Option<u64> {
        let simulation = Simulation::new(self.name).schedules(schedules).first_seed(first).seeds(most);
        match self.simulate(Version::Wrong, simulation) {
            Ok(_) => None,
            Err(SimulationError::Failed(failed)) => {
                // The failure must be this program's own.
                let is_its = failed.place.contains(&format!("planted/{}.rs:", self.name));
                assert!(is_its || failed.message.starts_with("stuck: "), "{failed}");
                Some(failed.run.0)
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn is_found_and_remedied(&self) {
        let found = self.seeds_to_failure(Schedules::Portfolio, 0, ENOUGH);
        assert!(found.is_some(), "{}: {} is not found with {ENOUGH} seeds", self.name, self.mistake);
        let right = self.simulate(Version::Right, Simulation::new(self.name).seeds(200));
        assert!(right.is_ok(), "{}, with {}: {}", self.name, self.remedy, right.unwrap_err());
    }
}

macro_rules! programs {
    ($($name:ident: $mistake:literal, $remedy:literal;)*) => {
        const PROGRAMS: &[Program] =
            &[$(Program { name: stringify!($name), mistake: $mistake, remedy: $remedy, run: $name::run }),*];

        $(
            #[test]
            fn $name() {
                let program = PROGRAMS.iter().find(|program| program.name == stringify!($name));
                program.expect("it is one of them").is_found_and_remedied();
            }
        )*
    };
}

programs! {
    lost_update: "a value is read in one call and written in another", "one message that changes it";
    late_answer: "an answer that comes after its timeout is taken for the next one's", "answers have the number of \
        their question";
    restart_strategy: "a process is restarted without those that it had registered", "`rest_for_one`";
    name_race: "a name is looked up, and taken later if nothing had it", "`or_existing`";
    crash_between_sends: "a crash between two calls that belong together", "both are sent in one turn";
    starving_reader: "writers overtake a reader that waits for a lock", "first come, first served";
    deadlock_of_three: "three processes take two resources each, in different orders", "one order for all";
    cancelled_timer: "the message of a cancelled timer is in the mailbox already", "a number that tells old timers \
        from the current one";
    doubled_retry: "a call is repeated after a timeout, although it was handled", "an idempotency key";
    snapshot_gap: "the members of a group are listed, and its changes subscribed to later", "the list that `subscribe` \
        returns";
    forgetful_upgrade: "an upgrade drops the replies that are owed", "they are moved to the new state";
    stop_during_start: "a stop is ignored while the start is still going on", "it is remembered until the start is \
        over";
    missed_signal: "a condition is checked in one call and its change awaited in another", "one call does both";
    oversold: "a condition is checked before an await and relied on after it", "what it allows is taken before the \
        await";
    two_leaders: "a leader writes after its lease has expired", "the storage refuses old terms";
    two_ways: "two messages that go different ways are relied on to come in order", "both go the same way";
    aba: "a value that is the same again is taken for one that has not changed", "a version beside the value";
    overrun: "a reader that falls behind a ring buffer does not notice", "it compares sequence numbers";
}
