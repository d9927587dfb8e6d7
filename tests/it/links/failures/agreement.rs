//! Both halves of a link agree when all link messages have been handled.

use super::partners;
use postroom::prelude::*;
use postroom_tests::face::with_runtime;
use postroom_tests::partner::Partner;
use std::thread;

/// Returns the links of both partners after each has handled all link messages of the other. The first inspections wait
/// in the mailboxes behind those messages, and are answered before the second inspections begin.
fn settled(one: Address<Partner>, other: Address<Partner>) -> (Vec<Pid>, Vec<Pid>) {
    let links = |partner: Address<Partner>| partner.pid().bindings().wait().unwrap().links;
    links(one);
    links(other);
    (links(one), links(other))
}

/// Runs rounds in which both partners link and unlink at the same time, as `links` specifies. Checks after each round
/// that both halves agree.
fn agree(rounds: u64, links: fn(u64) -> Vec<bool>) {
    with_runtime(move |runtime| {
        let pair = partners(runtime, 2);
        let (one, other) = (pair[0], pair[1]);
        let mut linked = 0;
        for round in postroom_tests::rounds(rounds) {
            thread::scope(|scope| {
                for (who, whom, seed) in [(one, other, round * 2), (other, one, round * 2 + 1)] {
                    scope.spawn(move || who.waver(whom.pid(), links(seed)).wait().unwrap());
                }
            });
            let (first, second) = settled(one, other);
            let known = (first == [other.pid()], second == [one.pid()]);
            assert_eq!(known.0, known.1, "round {round}: {first:?} and {second:?}");
            assert_eq!((first.len(), second.len()), (known.0.into(), known.1.into()));
            linked += u64::from(known.0);
        }
        println!("{linked} of at most {rounds} rounds ended linked");
        if linked > 0 {
            one.link(other.pid()).wait().unwrap();
            let end = other.pid().join();
            one.pid().kill();
            end.wait();
        }
    });
}

#[test]
fn both_link_at_once() {
    agree(300, |_| vec![true]);
}

#[test]
fn both_unlink_at_once() {
    agree(300, |_| vec![true, false]);
}

#[test]
fn one_links_while_the_other_unlinks() {
    agree(300, |seed| if seed % 2 == 0 { vec![true, false, true] } else { vec![false, true, false] });
}

/// Returns the bits of a pseudorandom number (SplitMix64).
fn bits(seed: u64) -> Vec<bool> {
    let mut word = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (0..16).map(|bit| (word >> (bit + 16)) & 1 == 1).collect()
}

#[test]
fn both_link_and_unlink_at_random_at_once() {
    agree(1_000, bits);
}
