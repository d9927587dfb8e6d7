//! The ring of one thread, and the clock that stamps its records.
//!
//! With a virtual clock, many events happen at one moment. So records are stamped with their place in the order of all
//! records of the host, and a track writes a record of the time before its first record at that time. Thus a
//! simulation, in which one thread runs at a time, has the same events in each run of a seed.

use super::kind::{KIND_BITS, RecordKind};
use super::ring::{Record, Ring, TypeName};
use super::session::{Recorder, SessionClock};
use crate::env::clock::SharedMoment;
use crate::env::ticks::TickSource;
use crate::sync::{Arc, AtomicU64, Ordering, current_thread};
use std::cell::{Cell, RefCell};
use std::ptr;

/// The source of the stamps of a host's records.
#[derive(Clone, Copy)]
pub(super) enum Stamps {
    Ticks(TickSource),
    Order(&'static SharedMoment),
}

/// The ring of a thread.
pub(crate) struct Track {
    pub(super) ring: Ring,
    pub(super) thread: String,
    clock: Arc<SessionClock>,
    /// The time of the virtual clock at the last record.
    time: AtomicU64,
}

impl Track {
    pub(super) fn new(clock: Arc<SessionClock>, ring: Ring) -> Self {
        let thread = current_thread().name().unwrap_or("unnamed").to_owned();
        Self { ring, thread, clock, time: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn write(&self, stamp: u64, kind: RecordKind, process: u64, extra: u64, name: Option<&'static TypeName>) {
        if let Stamps::Order(clock) = self.clock.stamps {
            self.note_time(clock, stamp);
        }
        let first = stamp << KIND_BITS | kind as u64;
        self.ring.write(Record { words: [first, process, extra], name });
    }

    #[cold]
    fn note_time(&self, clock: &SharedMoment, stamp: u64) {
        let now = clock.load().nanoseconds();
        if self.time.swap(now, Ordering::Relaxed) != now {
            let first = stamp << KIND_BITS | RecordKind::Time as u64;
            self.ring.write(Record { words: [first, 0, now], name: None });
        }
    }
}

/// The tracks of the calling thread: one for each host that it records for.
struct OwnTracks(Vec<Arc<Track>>);

impl Drop for OwnTracks {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

thread_local! {
    /// The track that the thread used last, which `TRACKS` keeps alive.
    static CURRENT: Cell<*const Track> = const { Cell::new(ptr::null()) };
    static TRACKS: RefCell<OwnTracks> = const { RefCell::new(OwnTracks(Vec::new())) };
}

/// Releases those rings of the calling thread whose session is over.
pub(crate) fn forget_old_tracks() {
    CURRENT.set(ptr::null());
    // Inaccessible while the thread destroys its thread-locals.
    let _ = TRACKS.try_with(|tracks| tracks.borrow_mut().0.retain(|track| track.clock.is_current()));
}

impl Recorder {
    /// Returns a stamp for the current time; zero if the calling thread does not record.
    #[inline]
    pub(crate) fn stamp(&'static self) -> u64 {
        self.with_track(|track| track.clock.stamp()).unwrap_or(0)
    }

    /// Writes a record to the ring of the calling thread. Returns its stamp; zero if there is no ring.
    #[inline]
    pub(crate) fn note(
        &'static self,
        kind: RecordKind,
        process: u64,
        extra: u64,
        name: Option<&'static TypeName>,
    ) -> u64 {
        let written = self.with_track(|track| {
            let stamp = track.clock.stamp();
            track.write(stamp, kind, process, extra, name);
            stamp
        });
        written.unwrap_or_else(|| self.miss())
    }

    /// Writes a record of an event that happened at `stamp`.
    #[inline]
    pub(crate) fn note_at(
        &'static self,
        stamp: u64,
        kind: RecordKind,
        process: u64,
        extra: u64,
        name: Option<&'static TypeName>,
    ) {
        if self.with_track(|track| track.write(stamp, kind, process, extra, name)).is_none() {
            self.miss();
        }
    }

    /// Counts a record for which there is no ring. Returns zero in place of a stamp.
    #[cold]
    fn miss(&'static self) -> u64 {
        self.session().inspect(|session| session.miss());
        0
    }

    /// Calls `body` with the calling thread's track for this host. Returns `None` if nothing is recorded, or if there
    /// is no memory for a track.
    #[inline(always)]
    fn with_track<R>(&'static self, body: impl FnOnce(&Track) -> R) -> Option<R> {
        let current = CURRENT.get();
        // SAFETY: null, or the address of a track that this thread's `TRACKS` keeps alive.
        let track = match unsafe { current.as_ref() } {
            Some(track) if track.clock.is_of(self) && track.clock.is_current() => track,
            // SAFETY: as above; `body` does not look up tracks, so `TRACKS` stays unchanged.
            _ => unsafe { &*self.find_track()? },
        };
        Some(body(track))
    }

    #[cold]
    #[inline(never)]
    fn find_track(&'static self) -> Option<*const Track> {
        let session = self.session()?;
        forget_old_tracks();
        let found = TRACKS.try_with(|tracks| {
            let mut tracks = tracks.borrow_mut();
            if let Some(track) = tracks.0.iter().find(|track| Arc::ptr_eq(&track.clock, session.clock())) {
                return Some(Arc::as_ptr(track));
            }
            let track = session.add_track()?;
            let address = Arc::as_ptr(&track);
            tracks.0.push(track);
            Some(address)
        });
        let track = found.ok().flatten()?;
        CURRENT.set(track);
        Some(track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::session::Memory;

    /// Catches rings that are kept after their recording has ended.
    #[test]
    fn a_session_is_freed_with_its_rings() {
        let recorder: &'static Recorder = Box::leak(Box::default());
        let session = recorder.begin(Memory { all: 1 << 20, thread: 1 << 12 }, None).expect("the first one");
        assert_ne!(recorder.note(RecordKind::Park, 0, 0, None), 0, "there is a ring");
        let left = Arc::downgrade(&session);
        assert!(recorder.end(&session), "the last one");
        drop(session);
        forget_old_tracks();
        assert!(left.upgrade().is_none());
    }
}
