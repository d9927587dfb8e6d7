//! Runs every hostile deed at every site where the runtime calls user code. The sites are taken from the runtime's own
//! list of guards. A site without a case fails, and so does a case whose code was not called at its site.
//!
//! Faults that were found and fixed are in `it/whole/hostile.rs`. No result depends on time. The watchdog ends a test
//! that hangs.

#[path = "hostile_sites/abroad.rs"]
mod abroad;
#[path = "hostile_sites/built.rs"]
mod built;
#[path = "hostile_sites/deed.rs"]
mod deed;
#[path = "hostile_sites/doors.rs"]
mod doors;
#[path = "hostile_sites/processes.rs"]
mod processes;
#[path = "hostile_sites/trees.rs"]
mod trees;
#[path = "hostile_sites/values.rs"]
mod values;
#[path = "hostile_sites/waiting.rs"]
mod waiting;

use deed::{Deed, Hostile};
use postroom::__private::{ThreadKind, caught, ran_on};
use postroom_tests::within;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The name of a case, its site, and a function that makes the runtime call hostile code at that site.
type Case = (&'static str, &'static str, fn(&Arc<Hostile>));

fn cases() -> Vec<Case> {
    [processes::CASES, values::CASES, built::CASES, waiting::CASES, trees::CASES].concat()
}

/// Returns the number of panics that a site has caught.
fn caught_at(site: &str) -> u64 {
    caught().into_iter().find(|(name, _)| name == site).map_or(0, |(_, count)| count)
}

/// Serializes the deeds, since the counts of caught panics are global.
static ALONE: Mutex<()> = Mutex::new(());

fn everywhere(deed: Deed) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Set this variable to a site's name to run that site only.
    let only = std::env::var("POSTROOM_SITE").ok();
    for (name, site, case) in cases() {
        if only.as_ref().is_some_and(|only| only != site) {
            continue;
        }
        println!("{deed:?}: {name}");
        let before = caught_at(site);
        let panics = within(Duration::from_secs(60), move || {
            let hostile = Hostile::new(deed);
            case(&hostile);
            hostile.finish();
            hostile.panics()
        });
        assert!(!panics || caught_at(site) > before, "{name}: the guard `{site}` has caught nothing");
    }
    if only.is_none() {
        each_ran_where_it_may();
    }
}

/// The kinds of threads on which code may run, for sites at which only a few kinds are allowed. At the other sites, all
/// kinds that may run user code are allowed; the runtime itself checks this in a debug build.
const KINDS: [(&[ThreadKind], &[&str]); 3] = [
    (&[ThreadKind::Pinned], &["Make"]),
    // The code runs in a step.
    (
        &[ThreadKind::Worker, ThreadKind::Pinned],
        &[
            "Slice",
            "TrapsExits",
            "HandlesCancel",
            "AskedToUpgrade",
            "StateDebug",
            "MessageDebug",
            "UpgradeMake",
            "StatusDrop",
            "EventDrop",
            "Handler",
            "CompleteHook",
        ],
    ),
    // The code is called on behalf of threads that must not run user code.
    (&[ThreadKind::Notifier], &["StallHook", "DumpHook", "OutsideTimer"]),
];

/// Checks on which kinds of threads the code of all cases has run. Only a debug build of the runtime records this.
fn each_ran_where_it_may() {
    if !cfg!(debug_assertions) {
        return println!("NOT CHECKED: on which threads users' code runs, which only a debug build notes");
    }
    let ran: BTreeMap<String, Vec<ThreadKind>> = ran_on().into_iter().filter(|(site, _)| site != "Backstop").collect();
    for (site, kinds) in &ran {
        assert!(!kinds.is_empty(), "no code has run at the site `{site}`, or it notes no thread");
        assert!(kinds.iter().all(|kind| kind.runs_users_code()), "`{site}` on {kinds:?}");
    }
    for (allowed, sites) in KINDS {
        for site in sites {
            let kinds = ran.get(*site).unwrap_or_else(|| panic!("there is no site `{site}`"));
            assert!(kinds.iter().all(|kind| allowed.contains(kind)), "`{site}` on {kinds:?}: allowed are {allowed:?}");
        }
    }
}

#[test]
fn every_site_has_a_case() {
    let sites: BTreeSet<String> =
        caught().into_iter().map(|(site, _)| site).filter(|site| site != "Backstop").collect();
    let have: BTreeSet<String> = cases().into_iter().map(|(_, site, _)| site.to_string()).collect();
    assert_eq!(sites.symmetric_difference(&have).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn code_that_panics_everywhere() {
    everywhere(Deed::Panics);
}

#[test]
fn code_whose_panics_panic_everywhere() {
    everywhere(Deed::PanicsInDroppingThePanic);
}

#[test]
fn code_that_re_enters_everywhere() {
    everywhere(Deed::ReEnters);
}

#[test]
fn code_that_takes_long_everywhere() {
    everywhere(Deed::TakesLong);
}

#[test]
fn code_that_forgets_everywhere() {
    everywhere(Deed::Forgets);
}

#[test]
fn code_that_shuts_down_everywhere() {
    everywhere(Deed::ShutsDown);
}

/// The subscriber panics at whatever events the cases produce, so no list of events is needed. There are about thirty.
#[test]
fn a_subscriber_that_panics_at_every_event_is_contained() {
    built::while_the_subscriber_panics(|| {
        for deed in [Deed::Panics, Deed::ReEnters, Deed::Forgets, Deed::ShutsDown] {
            everywhere(deed);
        }
    });
}
