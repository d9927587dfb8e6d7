//! Spans on the threads of a Tokio runtime: those of tasks and those of messages do not mix.

use postroom::prelude::*;
use postroom_spans::{faults, install, span_of_event, spans_with};
use std::error::Error;
use std::pin::pin;
use tokio::runtime::Builder;
use tracing::{info, info_span};

#[process]
struct Clerk;

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn note(&mut self, text: String) {
        info!("{text}");
    }

    #[message]
    fn crash(&mut self, text: String) {
        info!("{text}");
        panic!("as requested");
    }
}

/// Polls `future` inside a span that is entered only during each poll, as `tracing`'s own `Instrument` does.
async fn within<F: Future>(name: &'static str, future: F) -> F::Output {
    let span = info_span!("request", name);
    let mut future = pin!(future);
    std::future::poll_fn(|context| span.in_scope(|| future.as_mut().poll(context))).await
}

/// Each call of a task is handled in a span of its own, which follows from that of the task; the task's own events stay
/// in the span of the task, and other tasks in none.
async fn requests(runtime: &Runtime, on: &'static str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let clerks = ["a", "b"].map(|label| runtime.spawn(Clerk).label(format!("{on} {label}")).serve());
    let [one, two] = clerks;
    let (one, two) = (one?, two?);
    let task = tokio::spawn(within(on, async move {
        one.note(format!("{on} handled")).await?;
        info!("{on} in the task");
        let crashed = two.crash(format!("{on} crashing")).await;
        info!("{on} after the crash");
        Ok::<_, CallError>(crashed)
    }));
    let crashed = task.await??;
    assert!(crashed.is_err(), "{crashed:?}");
    tokio::spawn(async move { info!("{on} elsewhere") }).await?;

    let request = spans_with("name", on);
    let [request] = request.as_slice() else { panic!("one request, not {request:#?}") };
    for (text, label) in [("handled", "a"), ("crashing", "b")] {
        let message = span_of_event(&format!("{on} {text}")).ok_or("in the span of the message")?;
        assert_eq!(message.field("label"), Some(&*format!("{on} {label}")));
        assert_eq!((message.parent, message.follows), (None, vec![request.number]));
    }
    for text in ["in the task", "after the crash"] {
        assert_eq!(span_of_event(&format!("{on} {text}")).map(|span| span.number), Some(request.number), "{text}");
    }
    assert!(span_of_event(&format!("{on} elsewhere")).is_none_or(|span| span.name == "whole"));
    Ok(())
}

#[test]
fn the_spans_of_tasks_and_of_messages_do_not_mix() -> Result<(), Box<dyn Error + Send + Sync>> {
    install();
    let several = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runtime = Runtime::builder().on_tokio(several.handle().clone()).build()?;
    several.block_on(requests(&runtime, "several"))?;
    assert!(runtime.shutdown()?.is_clean());

    // The one thread is inside a span for the whole time.
    let single = Builder::new_current_thread().enable_all().build()?;
    let runtime = Runtime::builder().on_tokio(single.handle().clone()).build()?;
    info_span!("whole").in_scope(|| single.block_on(requests(&runtime, "single")))?;
    assert!(runtime.shutdown()?.is_clean());
    assert_eq!(faults(), Vec::<String>::new());
    Ok(())
}
