//! A runtime that has ended leaves nothing behind. This is checked with a thousand consecutive runtimes without Tokio,
//! with a thousand with Tokio, and with ten thousand idle ones of each of two kinds. Afterwards the program has as many
//! file descriptors and threads as before, and its memory has not grown.
//!
//! Each runtime serves a process, blocks in a step and runs a pinned process. With Tokio it also uses a socket, a
//! timer, a task and a blocking task. Then it ends in one of three ways: by `shutdown`, by being dropped, or by being
//! dropped in one of its own processes, which does not wait for the end.
//!
//! The counts cover the whole program, so this binary has only this test.
//!
//! Each of these faults alone makes the test fail: a runtime that is dropped inside keeps its thread handles (some
//! mappings each, for stacks); a callback of the reactor keeps the reactor alive (two descriptors for each runtime); a
//! runtime that is dropped inside does not end the reactor's thread; records of hosts are not reused (about 20 KB
//! each).
//!
//! Blind spots: descriptors, threads and mappings are counted only on Linux; other system resources (file locks) are
//! not counted; leaks below [`PER_RUNTIME`], and in code that these runtimes do not reach, are not detected.

#[path = "leaks/heap.rs"]
mod heap;

use heap::heap;
use postroom::Builder;
use postroom::prelude::*;
use postroom_tests::{HOUR, eventually, within};
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The number of runtimes of each kind.
const RUNTIMES: usize = 1_000;
/// The number of runtimes before the first count. They bring all global state into being (tables, thread-locals,
/// regions).
const FIRST: usize = 30;
/// The number of idle runtimes.
const IDLE_RUNTIMES: usize = 10_000;
/// The number of bytes in small blocks that a runtime may leave. Its record of about 20 KB is never freed, since an
/// address may outlive it, but it is reused. If a thread of the previous runtime ends late, another record is created.
const PER_RUNTIME: i64 = 512;
/// The number of bytes in small blocks that ten thousand runtimes may leave together: a few records.
const MORE_SMALL: i64 = 256 << 10;
/// The number of additional bytes in large blocks at the end. Slots, nodes and blocks are reused, but a thread that
/// ends late may hold some, and then another region is taken.
const MORE_LARGE: i64 = 4 << 20;

/// The number of additional memory mappings at the end. The C library caches some stacks for later threads, and has an
/// arena or two for each thread that allocates at the same time.
const MORE_MAPPINGS: usize = 400;

/// The time that a descriptor or a thread may take to disappear.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that uses each kind of resource once.
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

    /// Uses a socket, with a task at its other end, a timer, and a blocking task.
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

    /// Ends the runtime that the process runs on, if `runtime` is the only owner of that runtime.
    #[message]
    fn drop_runtime(&mut self, runtime: Runtime) {
        drop(runtime);
    }
}

/// Checks that ten thousand runtimes leave the program's memory as it was.
fn leaves_no_memory(kind: &str, builder: impl Fn() -> Builder) {
    let live = |number: usize| {
        let runtime = builder().workers(1).build().expect("a runtime with one worker can be built");
        if number.is_multiple_of(2) {
            assert!(runtime.shutdown_within(HOUR).expect("asked from outside").is_clean());
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

/// Runs one runtime. `number` determines how the runtime ends.
fn live(builder: Builder, has_reactor: bool, number: usize) {
    let runtime = builder.workers(1).build().expect("a runtime with one worker can be built");
    let guest = runtime.spawn(Guest).serve().expect("it takes spawns");
    assert_eq!(guest.greet().wait().expect("it serves"), "hello");
    assert_eq!(guest.block().wait().expect("it serves"), 3);
    let pinned = runtime.spawn_pinned(|| Guest).serve().expect("it takes spawns");
    assert_eq!(pinned.greet().wait().expect("it serves"), "hello");
    if has_reactor {
        assert_eq!(guest.converse().wait().expect("its own machine answers"), "x");
    }
    match number % 3 {
        0 => assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced()),
        1 => drop(runtime),
        _ => {
            let end = guest.pid().join();
            guest.drop_runtime(runtime).send().expect("it serves");
            end.wait();
        }
    }
}

/// Returns the number of entries of a folder in `/proc/self`.
fn listed(folder: &str) -> usize {
    std::fs::read_dir(Path::new("/proc/self").join(folder)).expect("Linux has it").count()
}

/// Returns the number of file descriptors and threads of the program.
fn held() -> Option<[usize; 2]> {
    cfg!(target_os = "linux").then(|| ["fd", "task"].map(listed))
}

/// Returns the number of memory mappings of the program. A thread that has ended, but was neither joined nor detached,
/// keeps its stack, which is such a mapping.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

/// Waits until the program has as many file descriptors and threads as before. A thread stays in the system's list
/// briefly after it has been joined, and a runtime that is dropped in a process ends its threads later.
fn come_back_to(before: Option<[usize; 2]>, kind: &str) {
    let until = Instant::now() + PATIENCE;
    // The counts that matched are kept and not read again: a thread of a runtime that was dropped in a process may
    // start briefly after they match.
    let now = Cell::new(None);
    eventually(|| {
        now.set(held());
        now.get() == before || Instant::now() > until
    });
    assert_eq!(now.get(), before, "{kind}: file descriptors and threads that were left, and that were there before");
}

/// Checks that a thousand runtimes leave nothing behind.
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
