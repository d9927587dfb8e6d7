//! Streams whose items come to a process as messages.
//!
//! Each is pumped by a future beside the process's methods. It takes one item out of its stream, puts it into the
//! inbox, where the process looks before it looks into its mailbox, and waits until the process looks for something new
//! to do: so the stream is polled only when its last item has been handled, however long the method takes. Nothing
//! piles up in between, and a stream that always has something more alternates with the mailbox: the pump is polled
//! once for each look there.

use crate::actor::definition::actor::{Actor, Handles};
use crate::actor::definition::context::{Context, Continuation, Finished, add_continuation};
use crate::actor::tasks::attachment::{Attachment, Inbound};
use crate::actor::tasks::background::Acts;
use crate::actor::tasks::current;
use crate::actor::tasks::pending::CommandResult;
use crate::call::package::Package;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::sync::{Arc, Mutex, lock};
use futures_core::Stream;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

type AtEnd<P> = Box<dyn FnOnce(&mut P, &mut Context<P>) + Send>;

/// A stream whose items come to a process of type `P` as messages: see [`Context::attach`]. Dropping the handle changes
/// nothing.
pub struct Attached<P> {
    attachment: Arc<Attachment>,
    then: Arc<Mutex<Option<AtEnd<P>>>>,
}

impl<P> Attached<P> {
    /// What the process does when the stream has ended, and its last item has been handled. Of two the later. Nothing
    /// if that has come to pass already.
    pub fn then(self, then: impl FnOnce(&mut P, &mut Context<P>) + Send + 'static) -> Self {
        let before = lock(&self.then).replace(Box::new(then));
        drop(before);
        self
    }

    /// Takes the stream away from the process, from any thread: no item comes any more, not even one that is on its
    /// way, and the stream is dropped by the process. What was said with [`then`](Self::then) is not done.
    pub fn detach(&self) {
        let then = lock(&self.then).take();
        drop(then);
        self.attachment.detach();
    }
}

impl<P: Actor> Context<P> {
    /// From here on the items of `stream` come to the process as messages, until the stream ends, the process does, or
    /// the handle's [`detach`](Attached::detach) is called. The process needs a method for their type, and handles them
    /// where it handles its messages: between two of them, in a body while that [serves](Self::serve).
    ///
    /// The stream is polled only when its last item has been handled: one that is faster than the process waits. It
    /// takes turns with the mailbox.
    ///
    /// After an [upgrade](crate::Pid::upgrade) the items come to the new definition, and the end as a
    /// [`Finished<()>`](Finished) instead of the closure. In a machine that is driven by hand, which has no PID, a
    /// stream ends at once.
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

    /// The same, where `message` makes a message of each item.
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
        let number = add_continuation(Continuation { run, late });
        let (attachment, pid) = (attached.attachment.clone(), self.try_pid());
        let pump = Box::pin(pump(stream, message, attachment, pid));
        current::with(|waits| waits.run_beside(pump, number, Acts::ForStream));
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
        current::with(|waits| waits.inbox.push_back(Inbound { package, from }));
    }
    Payload::new(())
}

impl<P> fmt::Debug for Attached<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("detached", &self.attachment.is_detached()).finish_non_exhaustive()
    }
}
