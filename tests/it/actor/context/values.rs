//! Inherited values of processes that panic.

use super::{Node, Tenant};
use postroom::prelude::*;
use postroom_tests::face::{builder, watched};

/// The code in which a [`Fragile`] panics.
#[derive(Clone, Copy, PartialEq)]
enum Panics {
    Entry,
    Method,
    OwnDrop,
    ValueDrop,
}

/// A process that panics. Its value must not be inherited by others.
#[process]
struct Fragile(Panics);

#[process]
impl Fragile {
    #[entry]
    fn serve(&mut self) {
        assert!(self.0 != Panics::Entry, "as it was told");
    }

    #[message]
    fn end(&mut self, ctx: &mut Context<Self>) {
        assert!(self.0 != Panics::Method, "as it was told");
        ctx.stop();
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.0 != Panics::OwnDrop, "as it was told");
    }
}

/// A value whose drop panics if its field is `true`.
struct Value(bool);

impl Drop for Value {
    fn drop(&mut self) {
        assert!(!self.0, "as it was told");
    }
}

/// A process that spawns a [`Fragile`] in its step, so that the entry of the `Fragile` also runs on the worker's
/// thread.
#[process]
struct Starter;

#[process]
impl Starter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn start(&mut self, ctx: &mut Context<Self>, panics: Panics) -> Option<Address<Fragile>> {
        let value = Value(panics == Panics::ValueDrop);
        ctx.spawn(Fragile(panics)).value(Tenant("fragile")).value(value).serve().ok()
    }
}

/// Catches: values of a panicked process that stay on its thread, where the children of the next process inherit them.
#[test]
fn values_do_not_outlive_a_panic_on_their_thread() {
    watched(|| {
        // One worker, so that one thread runs all processes.
        let runtime = builder().workers(1).build().unwrap();
        let starter = runtime.spawn(Starter).serve().unwrap();
        let next = runtime.spawn(Node::default()).serve().unwrap();
        for panics in [Panics::Entry, Panics::Method, Panics::OwnDrop, Panics::ValueDrop] {
            let fragile = starter.start(panics).wait().unwrap();
            assert_eq!(fragile.is_some(), panics != Panics::Entry);
            if let Some(fragile) = fragile {
                let ended = fragile.pid().join();
                fragile.end().send().unwrap();
                assert_eq!(matches!(ended.wait(), ExitReason::Panic(_)), panics != Panics::ValueDrop);
            }
            let child = next.spawn(None).wait().unwrap();
            assert_eq!(child.born().wait().unwrap().unwrap().tenant, None);
        }
    });
}
