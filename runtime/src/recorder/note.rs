//! Writing to the ring of the calling thread.

use super::kind::RecordKind;
use super::ring::TypeName;
use super::session::Recorder;
use super::track::{CURRENT, TRACKS, Track, forget_old_tracks};
use crate::sync::Arc;

impl Recorder {
    /// Returns a stamp for the current time, or zero if the calling thread does not record.
    #[inline]
    pub(crate) fn stamp(&'static self) -> u64 {
        self.with_track(|track| track.clock.stamp()).unwrap_or(0)
    }

    /// Writes a record to the ring of the calling thread. Returns the stamp of the record, or zero if there is no ring.
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

    /// Counts a record as missed, because there is no ring for it. Returns zero in place of a stamp.
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
            Some(track) if track.clock.is_of(&self.current) && track.clock.is_current() => track,
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

    /// Catches: rings that are kept after their recording has ended.
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
