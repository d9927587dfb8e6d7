//! The rows of a process's table of waits. A row keeps its place until it is removed.
//!
//! Nearly all processes await one thing at a time, so the first row is stored inline, and only additional open rows
//! go into a slab.

use slab::Slab;

/// The place of the inline row; row `n` of the slab has place `n + 1`.
const FIRST: u32 = 0;

pub(crate) struct Rows<T> {
    first: Option<T>,
    more: Slab<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { first: None, more: Slab::new() }
    }
}

impl<T> Rows<T> {
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.first.into_iter().chain(self.more.into_iter().map(|(_, row)| row))
    }

    /// Adds a row. Returns its place.
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        self.insert_with(|_| (row, ())).0
    }

    /// Adds a row that `make` constructs for its place, directly where it is stored. Returns the place and the second
    /// result of `make`.
    #[inline(always)]
    pub(crate) fn insert_with<R>(&mut self, make: impl FnOnce(u32) -> (T, R)) -> (u32, R) {
        if self.first.is_some() {
            return self.insert_beside(make);
        }
        let (row, made) = make(FIRST);
        // The old value is `None` and needs no drop.
        std::mem::forget(self.first.replace(row));
        (FIRST, made)
    }

    #[cold]
    #[inline(never)]
    fn insert_beside<R>(&mut self, make: impl FnOnce(u32) -> (T, R)) -> (u32, R) {
        let entry = self.more.vacant_entry();
        let place = entry.key() as u32 + 1;
        let (row, made) = make(place);
        entry.insert(row);
        (place, made)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        if place == FIRST { self.first.as_mut() } else { self.more.get_mut(place as usize - 1) }
    }

    /// Removes a row. Returns `None` if the place is empty.
    #[inline(always)]
    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        if place == FIRST { self.first.take() } else { self.more.try_remove(place as usize - 1) }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }

    /// Returns whether there may be rows besides the one at `place`: always true for a row of the slab.
    #[inline(always)]
    pub(crate) fn has_others_than(&self, place: u32) -> bool {
        place != FIRST || !self.more.is_empty()
    }

    /// Returns the rows with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let first = self.first.iter().map(|row| (FIRST, row));
        first.chain(self.more.iter().map(|(place, row)| (place as u32 + 1, row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_places_while_others_come_and_go() {
        let mut rows = Rows::default();
        assert!(rows.is_empty());
        let places: Vec<u32> = (0..4)
            .map(|row| {
                let (place, made_for) = rows.insert_with(|place| (row, place));
                assert_eq!(place, made_for);
                place
            })
            .collect();
        assert_eq!(places.len(), rows.iter().count());
        assert!(rows.has_others_than(places[0]) && rows.has_others_than(places[2]));
        assert_eq!(rows.remove(places[0]), Some(0));
        assert_eq!(rows.remove(places[0]), None, "it is gone");
        assert!(rows.get_mut(places[0]).is_none());
        assert_eq!(rows.get_mut(places[3]).copied(), Some(3), "it stays where it was");
        // The inline place is reused first.
        assert_eq!(rows.insert(4), places[0]);
        assert_eq!(
            rows.iter().map(|(place, row)| (place, *row)).collect::<Vec<_>>(),
            [(places[0], 4), (places[1], 1), (places[2], 2), (places[3], 3)]
        );
        for place in &places {
            assert!(!rows.is_empty() && rows.remove(*place).is_some());
        }
        assert!(rows.is_empty());
    }

    #[test]
    fn a_row_that_is_alone_has_no_others_wherever_it_lies() {
        let mut rows = Rows::default();
        let first = rows.insert(0);
        assert!(!rows.has_others_than(first));
        let second = rows.insert(1);
        assert!(rows.has_others_than(first) && rows.has_others_than(second));
        assert_eq!(rows.remove(second), Some(1));
        assert!(!rows.has_others_than(first));
    }
}
