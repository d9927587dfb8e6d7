//! A runtime that has ended leaves nothing behind: a thousand of them, without Tokio and with it, one after the other,
//! and ten thousand that do nothing. The program has as many file descriptors and threads afterwards as before, and its
//! memory is flat.
//!
//! Each runtime serves a process, blocks in a step, runs a pinned process, and with Tokio a socket, a timer, a task and
//! a blocking task; then it ends in one of three ways: by `shutdown`, by being dropped, and by being dropped in one of
//! its own processes, where nobody waits for the end.
//!
//! What is counted is the whole program's, so this binary has this one test and no other.
//!
//! Seen to fail by each of these alone: the handles of the threads kept by a runtime that is dropped inside (some
//! mappings for each: stacks); the reactor's callback that keeps the reactor alive (two descriptors for each runtime);
//! the thread of the reactor not told to end by a runtime that is dropped inside; records of hosts that are not used
//! again (some 20 KB for each).
//!
//! Blind spots: descriptors, threads and mappings are counted on Linux only; what the system keeps for a program
//! besides these (locks on files) is not; a leak below [`PER_RUNTIME`] is not seen, nor one on a path that these
//! runtimes do not take.

#[path = "leaks/heap.rs"]
mod heap;

use heap::heap;
use postroom::Builder;
use postroom::prelude::*;
use postroom_tests::{eventually, within};
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many runtimes there are of each kind.
const RUNTIMES: usize = 1_000;
/// So many come first: what the program has once for all (tables, threads' own variables, regions) is there then.
const FIRST: usize = 30;
/// How many runtimes there are that do nothing.
const IDLE_RUNTIMES: usize = 10_000;
/// How many bytes in small pieces a runtime may leave. Its record, of some 20 KB, is never freed, since an address may
/// outlive it, but it is used again; one more is made when a thread of the one before is late to end.
const PER_RUNTIME: i64 = 512;
/// How many bytes in small pieces ten thousand runtimes may leave together: a few records.
const MORE_SMALL: i64 = 256 << 10;
/// How many bytes in large pieces there may be more in the end: slots, nodes and blocks are used again, and one more
/// region is taken if a thread that ends late has some in its hands.
const MORE_LARGE: i64 = 4 << 20;

/// How many mappings of memory there may be more in the end: the C library keeps some stacks for later threads, and has
/// an arena or two for each of those that allocate at the same time.
const MORE_MAPPINGS: usize = 400;

/// After how long a descriptor or a thread that is still there counts as left.
const PATIENCE: Duration = Duration::from_secs(30);

/// Does one thing of each kind.
#[process]
struct Guest;

#[process]
impl Guest {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn greet(&mut self) -> &'static str {
        "hello"
    }

    #[message]
    async fn block(&mut self, ctx: &mut Context<Self>) -> u32 {
        ctx.blocking(|| 3).await
    }

    /// Over a socket, with a task at its other end, and after a timer.
    #[message]
    async fn converse(&mut self) -> std::io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let echo = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let mut byte = [0];
            stream.read_exact(&mut byte).await?;
            stream.write_all(&byte).await
        });
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"x").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        tokio::time::sleep(Duration::from_micros(1)).await;
        echo.await.map_err(std::io::Error::other)??;
        tokio::task::spawn_blocking(move || text).await.map_err(std::io::Error::other)
    }

    /// Ends the runtime that it runs on, if nobody else has it.
    #[message]
    fn drop_runtime(&mut self, runtime: Runtime) {
        drop(runtime);
    }
}

/// Ten thousand runtimes, after which the program has as much memory as before.
fn leaves_no_memory(kind: &str, builder: impl Fn() -> Builder) {
    let live = |number: usize| {
        let runtime = builder().workers(1).build().expect("one worker is no unusual wish");
        if number.is_multiple_of(2) {
            assert!(runtime.shutdown().expect("asked from outside").is_clean());
        }
    };
    (0..FIRST).for_each(live);
    let before = heap();
    (0..IDLE_RUNTIMES).for_each(live);
    let [small, large] = [0, 1].map(|size| heap()[size] - before[size]);
    println!("{kind}: {IDLE_RUNTIMES} runtimes left {small} bytes in small pieces and {large} in large ones");
    assert!(small <= MORE_SMALL, "{kind}: {small} bytes more in small pieces");
    assert!(large <= MORE_LARGE, "{kind}: {large} bytes more in large pieces");
}

/// The life of one runtime; the number decides how it ends.
fn live(builder: Builder, has_reactor: bool, number: usize) {
    let runtime = builder.workers(1).build().expect("one worker is no unusual wish");
    let guest = runtime.spawn(Guest).serve().expect("it takes spawns");
    assert_eq!(guest.greet().wait().expect("it serves"), "hello");
    assert_eq!(guest.block().wait().expect("it serves"), 3);
    let pinned = runtime.spawn_pinned(|| Guest).serve().expect("it takes spawns");
    assert_eq!(pinned.greet().wait().expect("it serves"), "hello");
    if has_reactor {
        assert_eq!(guest.converse().wait().expect("its own machine answers"), "x");
    }
    match number % 3 {
        0 => assert!(!runtime.shutdown().expect("asked from outside").was_forced()),
        1 => drop(runtime),
        _ => {
            let end = guest.pid().join();
            guest.drop_runtime(runtime).send().expect("it serves");
            end.wait();
        }
    }
}

/// How many entries the folder of the system has that lists those of this program.
fn listed(folder: &str) -> usize {
    std::fs::read_dir(Path::new("/proc/self").join(folder)).expect("Linux has it").count()
}

/// How many file descriptors and threads the program has.
fn held() -> Option<[usize; 2]> {
    cfg!(target_os = "linux").then(|| ["fd", "task"].map(listed))
}

/// How many mappings of memory the program has: a thread that has ended and was neither joined nor let go of keeps its
/// stack.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

/// Waits until the program has as many file descriptors and threads as it had. A thread is in the system's list for a
/// moment after it has been joined, and a runtime that ends inside of a process ends its threads later.
fn come_back_to(before: Option<[usize; 2]>, kind: &str) {
    let until = Instant::now() + PATIENCE;
    // Read once: a thread of a runtime that ended inside of a process may start for a moment after the counts are even.
    let now = Cell::new(None);
    eventually(|| {
        now.set(held());
        now.get() == before || Instant::now() > until
    });
    assert_eq!(now.get(), before, "{kind}: file descriptors and threads that were left, and that were there before");
}

/// A thousand runtimes, after which there is what was there before.
fn leaves_nothing(kind: &str, has_reactor: bool, builder: fn() -> Builder) {
    let before = held();
    (0..FIRST).for_each(|number| live(builder(), has_reactor, number));
    come_back_to(before, kind);
    let (heap_before, mappings_before) = (heap(), mappings());
    (0..RUNTIMES).for_each(|number| live(builder(), has_reactor, number));
    come_back_to(before, kind);
    let [small, large] = [0, 1].map(|size| heap()[size] - heap_before[size]);
    let each = small / RUNTIMES as i64;
    let more = mappings().saturating_sub(mappings_before);
    println!(
        "{kind}: each runtime left {each} bytes in small pieces, all of them {large} in large ones and {more} mappings"
    );
    assert!(each <= PER_RUNTIME, "{kind}: each runtime left {each} bytes, more than {PER_RUNTIME}");
    assert!(large <= MORE_LARGE, "{kind}: {large} bytes more in large pieces");
    assert!(more <= MORE_MAPPINGS, "{kind}: {more} mappings more");
}

#[test]
fn runtimes_leave_no_descriptor_no_thread_and_no_memory() {
    if held().is_none() {
        println!("NOT CHECKED: file descriptors and threads, which are counted in /proc of Linux only");
    }
    within(Duration::from_secs(600), || {
        leaves_no_memory("idle", Runtime::builder);
        leaves_no_memory("idle, with a clock of their own", || Runtime::builder().clock(Clock::manual()).paused());
        leaves_nothing("without Tokio", false, Runtime::builder);
        leaves_nothing("with Tokio", true, || Runtime::builder().tokio());
    });
}
