//! Runs a model: all its executions, up to a bound on preemptions.
//!
//! An execution must not leak into the next one, whereas production code keeps its slots and nodes forever. So a value
//! made with [`keep`] is dropped at the end of the execution.
//!
//! A model that never reaches its race proves nothing. So a test names the places that some execution must reach, and
//! [`check`] counts how many times each was reached.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    static REACHED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
}

struct Kept {
    place: *mut (),
    drop: unsafe fn(*mut ()),
}

/// Keeps a value until the execution ends.
pub(crate) fn keep<T: 'static>(value: T) -> &'static T {
    /// # Safety
    /// `place` is a `Box<T>` that is no longer used.
    unsafe fn drop_box<T>(place: *mut ()) {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(place.cast::<T>()) });
    }
    let place = Box::into_raw(Box::new(value));
    KEPT.with_borrow_mut(|kept| kept.push(Kept { place: place.cast(), drop: drop_box::<T> }));
    // SAFETY: `end` drops the value, but only after all other threads of the execution have been joined.
    unsafe { &*place }
}

/// Records that an execution has reached `place`.
pub(crate) fn reach(place: &'static str) {
    REACHED.with_borrow_mut(|reached| *reached.entry(place).or_default() += 1);
}

/// Returns a number that identifies the calling thread of the model.
pub(crate) fn thread() -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    loom::thread::current().id().hash(&mut hasher);
    hasher.finish()
}

fn begin() {
    crate::mailbox::node_pool::reset();
    crate::slots::TABLE.freed();
    crate::routing::alias::reset();
    EXECUTIONS.set(EXECUTIONS.get() + 1);
    // If an execution failed in an earlier test on this thread, its values are left over. They are not dropped, so
    // their memory is leaked.
    KEPT.take().clear();
}

fn end() {
    for Kept { place, drop } in KEPT.take().into_iter().rev() {
        // SAFETY: made by `keep` for this type, and unused now: the model is over and has joined its threads.
        unsafe { drop(place) };
    }
}

/// Returns the preemption bound of a model whose executions take seconds at its full bound: `full` if
/// `POSTROOM_MODELS` is set to `full`, as in the nightly runs, and `everyday` otherwise.
pub(crate) fn deep(everyday: usize, full: usize) -> usize {
    if std::env::var("POSTROOM_MODELS").is_ok_and(|which| which == "full") { full } else { everyday }
}

/// Returns the preemption bound of an execution. A higher bound finds more and takes longer.
fn bound(default: usize) -> usize {
    let deeper = std::env::var("POSTROOM_MODEL_PREEMPTIONS").ok();
    deeper.map_or(default, |deeper| deeper.parse().expect("POSTROOM_MODEL_PREEMPTIONS is a whole number"))
}

/// Checks all executions of `model` with at most `preemptions` preemptions, and that each of `places` was reached. The
/// model must join its threads.
pub(crate) fn check(preemptions: usize, places: &[&'static str], model: impl Fn() + Send + Sync + 'static) {
    REACHED.take();
    EXECUTIONS.set(0);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound(preemptions));
    builder.max_branches = 10_000;
    let began = std::time::Instant::now();
    builder.check(move || {
        begin();
        model();
        end();
    });
    let reached = REACHED.take();
    let name = std::thread::current().name().unwrap_or("model").to_string();
    println!("{name}: {} executions in {:.1?}, reached {reached:?}", EXECUTIONS.get(), began.elapsed());
    for place in places {
        assert!(reached.contains_key(place), "no execution reached {place:?}: the model does not show what it should");
    }
}
