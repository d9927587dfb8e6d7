//! A hierarchical timer wheel, without a clock, lock or thread.
//!
//! Time is divided into ticks of 2^20 nanoseconds (about a millisecond). Eight levels of 64 slots represent the base-64
//! digits of an entry's tick: an entry is in the level of the highest digit in which its tick differs from the current
//! one, in the slot of its own digit. So an insertion has to find the highest bit of an exclusive or; a slot is a list
//! from which an entry can be removed in constant time; and as time advances, the slots that it reaches are taken
//! apart, and their entries move to lower levels. An entry moves at most once per level. It seldom moves more than
//! twice, since four seconds are within the second level, and a long wait passes several levels at once.
//!
//! Entries of the current tick, or earlier ones, are ordered: by moment, then by the order in which they were set.
//! Entries from the slots are sorted on arrival, and are later than all that came before; an entry set for the current
//! tick goes to a heap beside them. So the order is exact to the nanosecond: ticks do not limit the resolution; they
//! only bound how many entries are sorted at a time.
//!
//! # A million at once
//!
//! No call does more than a bounded amount of work, however many entries are due in one tick. The slots that time has
//! reached are taken apart in portions of [`PORTION`], one per call; each portion is sorted by itself, and the sorted
//! runs are merged as their entries are taken. Until all these slots are taken apart, nothing can fire, since the first
//! entry may be in the last of them; `next` then reports that there is work at once. In the meantime, entries may be
//! added and removed, and the current tick does not change.
//!
//! Entries are in a slab and linked by index: an entry allocates nothing but its place there, which is reused.
//!
//! Source: Varghese and Lauck, Hashed and Hierarchical Timing Wheels, 1987 (scheme 7); placement by the highest
//! differing digit as in Linux and Tokio. Rejected: a heap alone, which cost 416 instructions to set and cancel an
//! entry, and kept cancelled ones; a wheel of milliseconds, too coarse for a wait of 100 µs.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::iter;

/// Number of bits of a moment within a tick.
const TICK: u32 = 20;
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
/// The number of levels, which suffices for all ticks.
const LEVELS: usize = (u64::BITS - TICK).div_ceil(DIGIT) as usize;
const NONE: u32 = u32::MAX;

/// The moment that is never due.
const NEVER: u64 = u64::MAX;

/// Place of an entry: the index of a slot, or one of the values below.
type EntryPlace = u16;
/// Place of an entry that is among the ordered ones.
const NEAR: EntryPlace = EntryPlace::MAX;
/// Place of an entry that is never due.
const ASIDE: EntryPlace = EntryPlace::MAX - 1;
/// Place of an entry on the list of free entries.
const FREE: EntryPlace = EntryPlace::MAX - 2;
const _: () = assert!(LEVELS * SLOTS < FREE as usize);

/// The ordered entries are cleaned up when more than this many of them, and more than half of them, refer to removed
/// entries.
const STALE: usize = 64;

/// Maximum number of entries that are taken from their slots at a time, and of cancelled entries that are skipped. That
/// many take about 1 µs or, at worst, one read from memory each: no longer than other threads spin for the lock. Small
/// in tests, so that the ends of portions are reached.
const PORTION: usize = if cfg!(test) { 8 } else { 40 };

/// A portion is smaller than 1,024 bytes: for a larger block, glibc first consolidates all free small blocks, and that
/// takes milliseconds after a million timers have fired.
const _: () = assert!(PORTION * size_of::<Near>() < 1_000);

struct WheelEntry<T> {
    due: u64,
    /// Unique: identifies the entry, and orders entries that are due at the same moment.
    serial: u64,
    /// The next entry in the slot's list or, if this entry is free, the next free one.
    next: u32,
    /// The previous entry in the slot's list.
    previous: u32,
    place: EntryPlace,
    value: Option<T>,
}

struct Level {
    /// A bit for each slot that is not empty.
    occupied: u64,
    first: [u32; SLOTS],
}

/// Reference to an ordered entry: its moment, serial and index. May outlive the entry.
type Near = (u64, u64, u32);

/// A run of ordered entries. The first one is stored apart. Since no two entries are equal, comparing two runs reads
/// nothing but their first entries.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    first: Near,
    rest: VecDeque<Near>,
}

impl Run {
    /// Creates a run; `None` if there are no entries.
    fn of(entries: Vec<Near>) -> Option<Self> {
        let mut rest = VecDeque::from(entries);
        rest.pop_front().map(|first| Self { first, rest })
    }
}

/// Identifies an entry. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WheelKey {
    pub(crate) index: u32,
    pub(crate) serial: u64,
}

pub(crate) struct Wheel<T> {
    entries: Vec<WheelEntry<T>>,
    free: u32,
    len: usize,
    serial: u64,
    present: u64,
    levels: [Level; LEVELS],
    /// The first entry of each slot that time has reached and that has yet to be taken apart.
    apart: Vec<u32>,
    /// A moment no later than the due time of the first entry in the slots of `apart`.
    apart_from: u64,
    /// The portion that is being sorted.
    brought: Vec<Near>,
    /// Ordered entries from the slots: the first portion after each advance.
    sorted: VecDeque<Near>,
    /// Further portions, each ordered.
    runs: BinaryHeap<Reverse<Run>>,
    in_runs: usize,
    /// Entries that were set for the current tick.
    heap: BinaryHeap<Reverse<Near>>,
    /// Approximate number of ordered entries that refer to removed ones. (An entry that is reset to its earlier moment
    /// occurs twice.)
    stale: usize,
    /// The due time of the entry that was taken out most recently.
    popped: u64,
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            len: 0,
            serial: 0,
            present: 0,
            levels: std::array::from_fn(|_| Level { occupied: 0, first: [NONE; SLOTS] }),
            apart: Vec::new(),
            apart_from: 0,
            brought: Vec::new(),
            sorted: VecDeque::new(),
            runs: BinaryHeap::new(),
            in_runs: 0,
            heap: BinaryHeap::new(),
            stale: 0,
            popped: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry. Returns the value if there are 2^32 - 1 entries already.
    pub(crate) fn insert(&mut self, due: u64, value: T) -> Result<WheelKey, T> {
        self.serial += 1;
        let serial = self.serial;
        let entry = WheelEntry { due, serial, next: NONE, previous: NONE, place: ASIDE, value: Some(value) };
        let index = self.free;
        let index = match self.entries.get_mut(index as usize) {
            Some(place) => {
                self.free = place.next;
                *place = entry;
                index
            }
            None => {
                let Some(index) = u32::try_from(self.entries.len()).ok().filter(|&index| index < NONE) else {
                    return entry.value.map_or_else(|| unreachable!("it was put there"), Err);
                };
                self.entries.push(entry);
                index
            }
        };
        self.len += 1;
        self.put(index);
        Ok(WheelKey { index, serial })
    }

    pub(crate) fn cancel(&mut self, key: WheelKey) -> Option<T> {
        self.find(key)?;
        self.take_off(key.index);
        self.remove(key.index)
    }

    /// Makes an entry due at another time. Returns whether the entry was still there.
    pub(crate) fn reset(&mut self, key: WheelKey, due: u64) -> bool {
        if self.find(key).is_none() {
            return false;
        }
        self.take_off(key.index);
        self.entries[key.index as usize].due = due;
        self.put(key.index);
        true
    }

    pub(crate) fn contains(&self, key: WheelKey) -> bool {
        self.find(key).is_some()
    }

    /// Returns the next moment at which there is work. It is no later than the due time of the first entry.
    pub(crate) fn next(&self) -> u64 {
        if !self.apart.is_empty() {
            return self.apart_from;
        }
        if let Some((due, ..)) = self.first() {
            return due;
        }
        for (level, slots) in self.levels.iter().enumerate() {
            if slots.occupied == 0 {
                continue;
            }
            let slot = slots.occupied.trailing_zeros();
            let first = &self.entries[slots.first[slot as usize] as usize];
            if first.next == NONE {
                return first.due;
            }
            let shift = DIGIT * level as u32;
            let digits = (self.present >> shift & !(SLOTS as u64 - 1)) | u64::from(slot);
            return digits << shift << TICK;
        }
        NEVER
    }

    /// Returns the due time of the entry that was taken out most recently.
    pub(crate) fn popped(&self) -> u64 {
        self.popped
    }

    /// Takes out the first entry, if it is due by `until`, and advances the present to `now`, which is no earlier than
    /// `until`. If that would take too long, because many slots are reached or many entries were cancelled, only a part
    /// of the work is done, and nothing is taken out. [`next`](Self::next) is then no later than `now`.
    pub(crate) fn pop(&mut self, now: u64, until: u64) -> Option<T> {
        self.move_on(now);
        if !self.apart.is_empty() {
            return None;
        }
        for _ in 0..PORTION {
            let first @ (due, _, index) = self.first()?;
            let is_there = self.is_near(first);
            if is_there && due > until {
                return None;
            }
            self.pass(first);
            if is_there {
                self.popped = due;
                return self.remove(index);
            }
            self.stale = self.stale.saturating_sub(1);
        }
        None
    }

    fn first(&self) -> Option<Near> {
        let first = match (self.sorted.front(), self.heap.peek()) {
            (Some(&sorted), Some(&Reverse(other))) => Some(sorted.min(other)),
            (sorted, other) => sorted.copied().or(other.map(|other| other.0)),
        };
        match self.runs.peek() {
            None => first,
            Some(Reverse(run)) => Some(first.map_or(run.first, |first| first.min(run.first))),
        }
    }

    fn pass(&mut self, first: Near) {
        if self.sorted.front() == Some(&first) {
            self.sorted.pop_front();
        } else if self.heap.peek() == Some(&Reverse(first)) {
            self.heap.pop();
        } else if let Some(mut run) = self.runs.peek_mut() {
            self.in_runs -= 1;
            match run.0.rest.pop_front() {
                Some(next) => run.0.first = next,
                None => drop(PeekMut::pop(run)),
            }
        }
    }

    pub(crate) fn clear(&mut self) -> Vec<T> {
        let old = std::mem::replace(self, Self::new());
        // Keys of cleared entries must not identify later entries.
        self.serial = old.serial;
        old.entries.into_iter().filter_map(|entry| entry.value).collect()
    }

    fn find(&self, key: WheelKey) -> Option<&WheelEntry<T>> {
        self.entries.get(key.index as usize).filter(|entry| entry.serial == key.serial && entry.place != FREE)
    }

    fn is_near(&self, (due, serial, index): Near) -> bool {
        let entry = &self.entries[index as usize];
        entry.place == NEAR && entry.serial == serial && entry.due == due
    }

    /// Puts an entry where it belongs. The entry must not be in any list.
    #[inline]
    fn put(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let tick = entry.due >> TICK;
        if tick <= self.present {
            entry.place = NEAR;
            self.heap.push(Reverse((entry.due, entry.serial, index)));
            return;
        }
        if entry.due == NEVER {
            entry.place = ASIDE;
            return;
        }
        let level = (tick ^ self.present).ilog2() / DIGIT;
        let slot = (tick >> (DIGIT * level)) as usize & (SLOTS - 1);
        let slots = &mut self.levels[level as usize];
        entry.place = (level as usize * SLOTS + slot) as EntryPlace;
        entry.previous = NONE;
        entry.next = std::mem::replace(&mut slots.first[slot], index);
        slots.occupied |= 1 << slot;
        let next = entry.next;
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.previous = index;
        }
    }

    /// Takes an entry out of its place, so that it is no longer in a list.
    fn take_off(&mut self, index: u32) {
        let WheelEntry { next, previous, place, .. } = self.entries[index as usize];
        self.entries[index as usize].place = ASIDE;
        match place {
            NEAR => self.leave_stale(),
            ASIDE | FREE => {}
            place => {
                if let Some(next) = self.entries.get_mut(next as usize) {
                    next.previous = previous;
                }
                match self.entries.get_mut(previous as usize) {
                    Some(previous) => previous.next = next,
                    None => self.replace_first(usize::from(place), index, next),
                }
            }
        }
    }

    /// Replaces the first entry of a list: that of a slot, or one that is being taken apart.
    fn replace_first(&mut self, place: usize, index: u32, next: u32) {
        let (slots, slot) = (&mut self.levels[place / SLOTS], place % SLOTS);
        if slots.first[slot] == index {
            slots.first[slot] = next;
            if next == NONE {
                slots.occupied &= !(1 << slot);
            }
        } else if let Some(first) = self.apart.iter_mut().find(|first| **first == index) {
            *first = next;
        }
    }

    /// Counts an ordered entry that was removed but still has its place in the order. Cleans up if there are many such
    /// entries.
    fn leave_stale(&mut self) {
        self.stale += 1;
        if self.stale > STALE && 2 * self.stale > self.heap.len() + self.sorted.len() + self.in_runs {
            let (mut sorted, mut heap) = (std::mem::take(&mut self.sorted), std::mem::take(&mut self.heap));
            sorted.retain(|&near| self.is_near(near));
            heap.retain(|&Reverse(near)| self.is_near(near));
            let runs = std::mem::take(&mut self.runs).into_iter().filter_map(|Reverse(run)| {
                let left = iter::once(run.first).chain(run.rest).filter(|&near| self.is_near(near));
                Run::of(left.collect()).map(Reverse)
            });
            let runs: BinaryHeap<_> = runs.collect();
            self.in_runs = runs.iter().map(|Reverse(run)| 1 + run.rest.len()).sum();
            (self.sorted, self.heap, self.runs, self.stale) = (sorted, heap, runs, 0);
        }
    }

    /// Frees an entry that is in no list.
    fn remove(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        entry.place = FREE;
        entry.next = std::mem::replace(&mut self.free, index);
        self.len -= 1;
        entry.value.take()
    }

    /// Advances the present if all slots that it has reached have been taken apart, and then takes apart a portion of
    /// the slots.
    fn move_on(&mut self, now: u64) {
        let tick = now >> TICK;
        let is_first = self.apart.is_empty();
        if is_first {
            if tick <= self.present {
                return;
            }
            self.pass_slots(tick);
        }
        self.take_apart();
        self.brought.sort_unstable();
        if is_first {
            // All of these are later than the entries already there, which were due in earlier ticks.
            self.sorted.extend(self.brought.drain(..));
        } else {
            self.in_runs += self.brought.len();
            let brought = std::mem::replace(&mut self.brought, Vec::with_capacity(PORTION));
            self.runs.extend(Run::of(brought).map(Reverse));
        }
    }

    /// Advances the present to `tick`, and adds the slots that it reaches to those that remain to be taken apart.
    fn pass_slots(&mut self, tick: u64) {
        let before = std::mem::replace(&mut self.present, tick);
        self.apart_from = (before + 1) << TICK;
        for level in 0..LEVELS {
            let shift = DIGIT * level as u32;
            // All slots are ahead of the previous present, within the same higher digits.
            let is_within = before >> shift >> DIGIT == tick >> shift >> DIGIT;
            let digit = (tick >> shift) as u32 & (SLOTS as u32 - 1);
            let passed = if is_within { u64::MAX >> (SLOTS as u32 - 1 - digit) } else { u64::MAX };
            let mut passed = passed & self.levels[level].occupied;
            self.levels[level].occupied &= !passed;
            while passed != 0 {
                let slot = passed.trailing_zeros() as usize;
                passed &= passed - 1;
                self.apart.push(std::mem::replace(&mut self.levels[level].first[slot], NONE));
            }
            if is_within {
                // No higher digit has changed.
                break;
            }
        }
    }

    /// Takes apart a portion of the slots: entries that are due in the present tick or earlier go to `brought`.
    fn take_apart(&mut self) {
        let mut left = PORTION;
        while let Some(mut index) = self.apart.pop() {
            while index != NONE && left > 0 {
                left -= 1;
                let entry = &mut self.entries[index as usize];
                let next = entry.next;
                if entry.due >> TICK <= self.present {
                    entry.place = NEAR;
                    self.brought.push((entry.due, entry.serial, index));
                } else {
                    // The entry goes to a lower level, ahead of the present.
                    self.put(index);
                }
                index = next;
            }
            if index != NONE {
                self.entries[index as usize].previous = NONE;
                self.apart.push(index);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::chance::Random;
    use std::collections::BTreeMap;

    /// The specified behaviour of a wheel, implemented by a sorted map.
    #[derive(Default)]
    struct Model {
        entries: BTreeMap<(u64, u64), u64>,
        dues: BTreeMap<u64, u64>,
    }

    /// Returns `count`, or a hundredth of it under Miri, since Miri takes a thousand times as long.
    const fn repeated(count: u64) -> u64 {
        if cfg!(miri) { count.div_ceil(100) } else { count }
    }

    /// Returns a random delay of fewer than `bits` bits. Every number of bits is equally likely.
    fn delay(random: &mut Random, bits: usize) -> u64 {
        let bits = random.below(bits) as u32;
        (random.below(1 << 30) as u64) << 20 >> (50 - bits.min(50))
    }

    #[test]
    fn a_wheel_does_what_a_sorted_map_does_for_all_distances_cancelled_reset_and_fired() {
        for seed in 0..if cfg!(miri) { 4 } else { 40 } {
            let mut random = Random::new(seed, 0);
            let (mut wheel, mut model) = (Wheel::new(), Model::default());
            let mut now = 1 + delay(&mut random, 50);
            let mut keys: Vec<(WheelKey, u64)> = Vec::new();
            let bits = [18, 24, 34, 50][seed as usize % 4];
            for name in 0..repeated(4_000) {
                match random.below(10) {
                    0..=4 => {
                        let due = (now + delay(&mut random, bits)).saturating_sub(delay(&mut random, 10));
                        let key = wheel.insert(due, name).expect("there is room");
                        model.entries.insert((due, key.serial), name);
                        model.dues.insert(key.serial, due);
                        keys.push((key, name));
                    }
                    5 if !keys.is_empty() => {
                        let (key, name) = keys[random.below(keys.len())];
                        let due = model.dues.remove(&key.serial);
                        let there = due.and_then(|due| model.entries.remove(&(due, key.serial)));
                        assert_eq!(wheel.contains(key), there.is_some());
                        assert_eq!(wheel.cancel(key), there);
                        assert!(there.is_none_or(|there| there == name));
                    }
                    6 if !keys.is_empty() => {
                        let (key, name) = keys[random.below(keys.len())];
                        let due = now + delay(&mut random, bits);
                        let before = model.dues.get(&key.serial).copied();
                        assert_eq!(wheel.reset(key, due), before.is_some());
                        if let Some(before) = before {
                            model.entries.remove(&(before, key.serial));
                            model.entries.insert((due, key.serial), name);
                            model.dues.insert(key.serial, due);
                        }
                    }
                    _ => {
                        let first = model.entries.keys().next().map_or(NEVER, |key| key.0);
                        let next = wheel.next();
                        assert!(next <= first, "{next} is after {first}, seed {seed}");
                        // Simulates a thread that sleeps until `next`, or a thread that wakes late.
                        now = now.max(if random.below(2) == 0 && next < NEVER {
                            next
                        } else {
                            now + delay(&mut random, bits)
                        });
                        while wheel.next() <= now {
                            let Some(name) = wheel.pop(now, now) else { continue };
                            let Some(((due, serial), expected)) = model.entries.pop_first() else {
                                panic!("one too many")
                            };
                            assert_eq!((name, due <= now), (expected, true), "seed {seed}");
                            model.dues.remove(&serial);
                        }
                        assert!(model.entries.keys().next().is_none_or(|key| key.0 > now), "one too few, seed {seed}");
                    }
                }
                assert_eq!(wheel.len(), model.entries.len());
            }
            let mut rest: Vec<u64> = model.entries.into_values().collect();
            let mut cleared = wheel.clear();
            rest.sort_unstable();
            cleared.sort_unstable();
            assert_eq!((cleared, wheel.len(), wheel.next()), (rest, 0, NEVER));
        }
    }

    #[test]
    fn a_crowd_that_is_due_at_once_comes_in_order_and_no_call_does_more_than_a_portion() {
        const CROWD: u64 = if cfg!(miri) { 1_000 } else { 10_000 };
        let mut random = Random::new(5, 0);
        let mut wheel = Wheel::new();
        // About a hundred entries are due at each moment, all within one tick. Some of them are cancelled, and one is
        // postponed, while the crowd is being taken apart.
        let due = |random: &mut Random| (5 << TICK) + random.below(100) as u64;
        let mut expected: Vec<(u64, u64)> = Vec::new();
        let mut keys = Vec::new();
        for name in 0..CROWD {
            let due = due(&mut random);
            keys.push(wheel.insert(due, name).expect("there is room"));
            expected.push((due, name));
        }
        let now = 6 << TICK;
        let mut calls_for_nothing = 0;
        let mut came = Vec::new();
        let mut moved = 0;
        while wheel.next() <= now {
            let before = wheel.sorted.len() + wheel.in_runs;
            let popped = wheel.pop(now, now);
            let brought = (wheel.sorted.len() + wheel.in_runs + usize::from(popped.is_some())).saturating_sub(before);
            assert!(brought <= PORTION, "{brought} in one call");
            moved += brought;
            match popped {
                Some(name) => came.push(name),
                None => calls_for_nothing += 1,
            }
            if calls_for_nothing == 7 && moved < CROWD as usize {
                // These entries may be anywhere by now. Those that were set last are the first in their list.
                for name in [0, 17, CROWD / 2, CROWD - 1] {
                    assert_eq!(wheel.cancel(keys[name as usize]), Some(name));
                    expected.retain(|entry| entry.1 != name);
                }
                assert!(wheel.reset(keys[1], 7 << TICK));
                expected.retain(|entry| entry.1 != 1);
                calls_for_nothing += 1;
            }
        }
        expected.sort_unstable();
        assert!(came.iter().eq(expected.iter().map(|(_, name)| name)));
        assert!((CROWD as usize / PORTION - 1..CROWD as usize / PORTION + 2).contains(&calls_for_nothing));
        assert_eq!((wheel.len(), wheel.next()), (1, 7 << TICK));
    }

    /// Catches: the first of a slot's remaining entries, if it fires although it was cancelled or postponed, or takes
    /// other entries with it. (Mutations: `take_off` does not update the first entry of the slot; `take_apart` does not
    /// clear the `previous` of the first entry.)
    #[test]
    fn the_first_of_a_slot_that_is_being_taken_apart_can_be_cancelled_and_put_off() {
        const COUNT: u64 = 4 * PORTION as u64;
        for left in [0, 1, PORTION] {
            let mut wheel = Wheel::new();
            let due = |name| (5 << TICK) + name;
            let keys: Vec<_> = (0..COUNT).map(|name| wheel.insert(due(name), name).expect("there is room")).collect();
            let mut expected: Vec<_> = (0..COUNT).map(|name| (due(name), name)).collect();
            let (now, later) = (10 << TICK, 20 << TICK);
            assert_eq!((wheel.pop(now, now), wheel.apart.len()), (None, 1), "a portion is brought, no more");
            for _ in left..COUNT as usize - PORTION {
                let first = &wheel.entries[wheel.apart[0] as usize];
                let name = first.value.expect("it is there");
                expected.retain(|(_, other)| *other != name);
                if name % 2 == 0 {
                    assert_eq!(wheel.cancel(keys[name as usize]), Some(name));
                } else {
                    assert!(wheel.reset(keys[name as usize], later + name));
                    expected.push((later + name, name));
                }
            }
            expected.sort_unstable();
            let mut came = Vec::new();
            for now in [now, 2 * later] {
                let mut calls = 0;
                while wheel.next() <= now {
                    came.extend(wheel.pop(now, now).map(|name| (now, name)));
                    calls += 1;
                    assert!(calls <= 2 * COUNT, "there is always more to do");
                }
            }
            let expected: Vec<_> =
                expected.iter().map(|(due, name)| (if *due < later { now } else { 2 * later }, *name)).collect();
            assert_eq!(came, expected);
            assert_eq!((wheel.len(), wheel.next()), (0, NEVER));
        }
    }

    /// Catches: a key of a timer that a shutdown has dropped, if that key cancels a timer that was set later.
    /// (Mutation: `clear` resets the serial numbers.)
    #[test]
    fn keys_of_entries_that_were_cleared_name_none_that_come_after() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.pop(7 << TICK, 7 << TICK), None);
        let old = [1 << TICK, 9 << TICK, NEVER].map(|due| wheel.insert(due, 0).expect("there is room"));
        assert_eq!(wheel.clear(), [0; 3]);
        let new = [1 << TICK, 9 << TICK, NEVER].map(|due| wheel.insert(due, 1).expect("there is room"));
        for old in old {
            assert!(!wheel.contains(old) && !wheel.reset(old, 3));
            assert_eq!(wheel.cancel(old), None);
        }
        assert_eq!(new.map(|key| wheel.cancel(key)), [Some(1); 3]);
    }

    #[test]
    fn who_sleeps_until_the_next_thing_to_do_wakes_at_most_once_a_level_for_nothing() {
        let mut wheel = Wheel::new();
        // There are two entries, so that the wheel does not look into the slot.
        let due = 0x7fff_ffff_ffff_ffff;
        let _keys = [wheel.insert(due, 1), wheel.insert(due, 2)];
        let mut wakes = 0;
        let mut now = 0;
        let mut fired = Vec::new();
        while fired.len() < 2 {
            now = wheel.next().max(now);
            wakes += 1;
            fired.extend(wheel.pop(now, now));
        }
        assert_eq!((fired, now), (vec![1, 2], due));
        assert!(wakes <= LEVELS + 2, "{wakes} wakes");
    }

    #[test]
    fn cancelled_entries_leave_nothing_behind_though_time_stands_still() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.pop(1 << 40, 1 << 40), None::<u64>);
        for round in 0..repeated(100_000) {
            // The entries are due in the present tick, hence ordered; later; and never.
            let keys =
                [1 << 40, (1 << 40) + (1 << 30), NEVER].map(|due| wheel.insert(due, round).expect("there is room"));
            assert_eq!(keys.map(|key| wheel.cancel(key)), [Some(round); 3]);
        }
        assert_eq!((wheel.len(), wheel.entries.len()), (0, 3));
        assert!(wheel.heap.len() <= 2 * STALE + 1);
    }

    #[test]
    fn what_is_never_due_is_kept_and_can_be_cancelled_or_made_due() {
        let mut wheel = Wheel::new();
        let key = wheel.insert(NEVER, 7).expect("there is room");
        assert_eq!((wheel.pop(NEVER - 1, NEVER - 1), wheel.next(), wheel.len()), (None, NEVER, 1));
        assert!(wheel.reset(key, NEVER - 1));
        assert_eq!(wheel.pop(NEVER - 1, NEVER - 1), Some(7));
        assert_eq!(wheel.cancel(key), None);
    }
}
