//! The ring of one thread, and the clock that stamps its records.
//!
//! With a virtual clock, many events happen at one moment. So records are stamped with their place in the order of all
//! records of the host, and before its first record at a new time, a track writes a record of that time. Thus a
//! simulation, in which only one thread runs at a time, has the same events in each run of a seed.

use super::kind::{KIND_BITS, RecordKind};
use super::ring::{Record, Ring, TypeName};
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

/// The clock that stamps the records of a session. Tracks refer to this instead of the session, which owns the tracks:
/// a reference cycle would prevent both from being freed.
pub(super) struct SessionClock {
    /// The number of the recorder's current session. Its address identifies the recorder.
    current: &'static AtomicU64,
    number: u64,
    pub(super) stamps: Stamps,
    /// The ticks when the session began; zero with a virtual clock.
    pub(super) base: u64,
    /// With a virtual clock, the most recent place in the order of all records.
    order: AtomicU64,
}

impl SessionClock {
    /// Returns the clock of session `number`. `current`, in the recorder of the session, holds the number of the
    /// recorder's current session.
    pub(super) fn new(current: &'static AtomicU64, number: u64, stamps: Stamps, base: u64) -> Arc<Self> {
        Arc::new(Self { current, number, stamps, base, order: AtomicU64::new(0) })
    }

    pub(super) fn is_of(&self, current: &AtomicU64) -> bool {
        ptr::eq(self.current, current)
    }

    #[inline(always)]
    pub(super) fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed) == self.number
    }

    #[inline(always)]
    pub(super) fn stamp(&self) -> u64 {
        match self.stamps {
            Stamps::Ticks(source) => source.read().wrapping_sub(self.base),
            Stamps::Order(_) => self.order.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

/// The ring of a thread.
pub(crate) struct Track {
    pub(super) ring: Ring,
    pub(super) thread: String,
    pub(super) clock: Arc<SessionClock>,
    /// The time of the virtual clock at the last record.
    time: AtomicU64,
}

impl Track {
    pub(super) fn new(clock: Arc<SessionClock>, ring: Ring) -> Self {
        let thread = current_thread().name().unwrap_or("unnamed").to_owned();
        Self { ring, thread, clock, time: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(super) fn write(
        &self,
        stamp: u64,
        kind: RecordKind,
        process: u64,
        extra: u64,
        name: Option<&'static TypeName>,
    ) {
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
pub(super) struct OwnTracks(pub(super) Vec<Arc<Track>>);

impl Drop for OwnTracks {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

thread_local! {
    /// The track that the thread used most recently. `TRACKS` keeps it alive.
    pub(super) static CURRENT: Cell<*const Track> = const { Cell::new(ptr::null()) };
    pub(super) static TRACKS: RefCell<OwnTracks> = const { RefCell::new(OwnTracks(Vec::new())) };
}

/// Releases the calling thread's rings for sessions that have ended.
pub(crate) fn forget_old_tracks() {
    CURRENT.set(ptr::null());
    // `TRACKS` may be inaccessible while the thread destroys its thread-locals.
    let _ = TRACKS.try_with(|tracks| tracks.borrow_mut().0.retain(|track| track.clock.is_current()));
}
