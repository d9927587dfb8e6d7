//! Streams whose items arrive as messages.
//!
//! Each stream is pumped by a future beside the process's methods. The future takes one item, puts it into the inbox,
//! and waits until the process looks for its next input. The process checks its inbox before its mailbox. So the stream
//! is polled only after its previous item was handled, however long that took, and items never pile up. A stream that
//! is always ready alternates with the mailbox, because the pump is polled once for each check of the mailbox.

use crate::actor::definition::{Actor, Continuation, Finished, Handles};
use crate::actor::tasks::{Acts, Attachment, CommandResult, StashedMessage, current};
use crate::observe::spans::on_behalf_of;
use crate::sync::{Arc, Mutex, lock};
use crate::{Context, Package, Payload, Pid, actor::definition::context::add_continuation};
use futures_core::Stream;
use std::{future::poll_fn, pin::pin, task::Poll};

type AtEnd<P> = Box<dyn FnOnce(&mut P, &mut Context<P>) + Send>;

/// A stream that is attached to a process of type `P`: see [`Context::attach`]. Dropping the handle does not detach it.
pub struct Attached<P> {
    attachment: Arc<Attachment>,
    then: Arc<Mutex<Option<AtEnd<P>>>>,
}

impl<P> Attached<P> {
    /// Sets a closure that the process runs after the stream has ended and its last item was handled. A later call
    /// replaces an earlier closure; a closure that is set after that moment never runs.
    pub fn then(self, then: impl FnOnce(&mut P, &mut Context<P>) + Send + 'static) -> Self {
        let before = lock(&self.then).replace(Box::new(then));
        drop(before);
        self
    }

    /// Detaches the stream. May be called from any thread. No further item arrives, not even one that is in flight,
    /// and the process drops the stream. A closure set with [`then`](Self::then) does not run.
    pub fn detach(&self) {
        let then = lock(&self.then).take();
        drop(then);
        self.attachment.detach();
    }
}

impl<P: Actor> Context<P> {
    /// Delivers the items of `stream` to the process as messages until the stream ends, the process ends, or
    /// [`detach`](Attached::detach) is called. The process needs a method for their type, and handles them whenever
    /// it handles messages: between two messages, or in an async entry while it [serves](Self::serve).
    ///
    /// The stream is polled only after its previous item was handled, so a fast stream waits. It alternates with the
    /// mailbox.
    ///
    /// After an [upgrade](crate::Pid::upgrade) the items go to the new definition, and the end arrives as
    /// [`Finished<()>`](Finished) instead of the closure. In a machine that is driven by hand the stream ends at once.
    ///
    /// ```
    /// use futures_util::stream;
    /// use postroom::prelude::*;
    ///
    /// struct Line(&'static str);
    ///
    /// #[process]
    /// #[derive(Default)]
    /// struct Reader { length: usize, over: bool }
    ///
    /// #[process]
    /// impl Reader {
    ///     #[entry]
    ///     async fn read(&mut self, ctx: &mut Context<Self>) -> usize {
    ///         let lines = stream::iter([Line("one"), Line("three")]);
    ///         ctx.attach(lines).then(|this, _| this.over = true);
    ///         while !self.over {
    ///             ctx.serve_next(self).await;
    ///         }
    ///         self.length
    ///     }
    ///     #[message(Line)]
    ///     fn line(&mut self, line: Line) { self.length += line.0.len(); }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// assert_eq!(runtime.spawn(Reader::default()).read()?.wait()?, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach<S>(&mut self, stream: S) -> Attached<P>
    where
        S: Stream<Item: Send + 'static> + Send + 'static,
        P: Handles<S::Item>,
    {
        self.attach_with(stream, |item| item)
    }

    /// Like [`attach`](Self::attach), with `message` converting each item to a message.
    pub fn attach_with<S, M>(&mut self, stream: S, message: impl FnMut(S::Item) -> M + Send + 'static) -> Attached<P>
    where
        S: Stream<Item: Send> + Send + 'static,
        M: Send + 'static,
        P: Handles<M>,
    {
        let attached = Attached { attachment: Arc::default(), then: Arc::default() };
        let then = attached.then.clone();
        let run = Box::new(move |this: &mut P, _: CommandResult, context: &mut Context<P>| {
            let then = lock(&then).take();
            if let Some(then) = then {
                then(this, context);
            }
        });
        let late = |_: CommandResult| Payload::new(Finished { output: () });
        // Added outside of any span: this method's span would otherwise stay open for as long as the stream does.
        let number = on_behalf_of(None, || add_continuation(Continuation { run, late }));
        let (attachment, pid) = (attached.attachment.clone(), self.try_pid());
        let pump = Box::pin(pump(stream, message, attachment, pid));
        current::with(|waits| waits.run_in_background(pump, number, Acts::ForStream));
        attached
    }
}

async fn pump<S: Stream, M: Send + 'static>(
    stream: S,
    mut message: impl FnMut(S::Item) -> M,
    attachment: Arc<Attachment>,
    pid: Option<Pid>,
) -> Payload {
    let mut stream = pin!(stream);
    loop {
        let item = poll_fn(|context| match attachment.poll(context.waker()) {
            Poll::Ready(true) => stream.as_mut().poll_next(context),
            Poll::Ready(false) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let (Some(item), Some(pid)) = (item.await, pid) else { break };
        let package = Package::from_parts(pid, Payload::new(message(item)), None);
        attachment.send_off();
        let from = Some(attachment.clone());
        current::with(|waits| waits.inbox.messages.push_back(StashedMessage { package, from }));
    }
    Payload::new(())
}

crate::util::debug::impl_debug!([P] Attached<P>, self => "Attached" { detached: self.attachment.is_detached(), .. });
