//! Tokio inside processes: sockets, timers, files and tasks; with Postroom's own Tokio runtime, or the program's.

use postroom::Running;
use postroom::error::ShutdownError;
use postroom::prelude::*;
use postroom_tests::{eventually, soon};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Outcome = Result<(), Box<dyn Error>>;

/// The time limit of each wait.
const SOON: Duration = Duration::from_secs(20);

/// A server that spawns a process for each connection.
#[process]
struct Server;

#[process]
impl Server {
    #[entry]
    async fn listen(&mut self, ctx: &mut Context<Self>, listener: TcpListener) -> std::io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let _connection = ctx.spawn(Connection { lines: 0 }).answer(stream);
        }
    }
}

#[process]
struct Connection {
    lines: usize,
}

#[process]
impl Connection {
    /// Answers each line with its number and its text.
    #[entry]
    async fn answer(&mut self, stream: TcpStream) -> std::io::Result<usize> {
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        while let Some(line) = lines.next_line().await? {
            self.lines += 1;
            writer.write_all(format!("{} {line}\n", self.lines).as_bytes()).await?;
        }
        Ok(self.lines)
    }
}

async fn listen(runtime: &Runtime) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let _server = runtime.spawn(Server).listen(listener)?;
    Ok(address)
}

/// Sends `count` lines, and checks the answers.
async fn converse(address: SocketAddr, name: &str, count: usize) -> Outcome {
    let (reader, mut writer) = TcpStream::connect(address).await?.into_split();
    let mut lines = BufReader::new(reader).lines();
    for number in 1..=count {
        writer.write_all(format!("{name}\n").as_bytes()).await?;
        assert_eq!(lines.next_line().await?.as_deref(), Some(format!("{number} {name}").as_str()));
    }
    Ok(())
}

#[test]
fn processes_serve_sockets_that_tasks_on_the_reactor_and_on_other_threads_talk_to() -> Outcome {
    let runtime = Runtime::builder().workers(2).tokio().build()?;
    runtime.block_on(async {
        let address = listen(&runtime).await?;
        let tasks: Vec<_> = (0..20)
            .map(|client| {
                tokio::spawn(
                    async move { converse(address, &format!("c{client}"), 50).await.map_err(|e| e.to_string()) },
                )
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        converse(address, "main", 50).await
    })
}

/// A process whose methods each use one part of Tokio.
#[process]
struct User;

#[process]
impl User {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn sleep(&mut self, how_long: Duration) -> bool {
        let began = tokio::time::Instant::now();
        tokio::time::sleep(how_long).await;
        began.elapsed() >= how_long
    }

    #[message]
    async fn time_out(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err()
    }

    #[message]
    async fn write_and_read(&mut self, path: std::path::PathBuf, text: String) -> std::io::Result<String> {
        tokio::fs::write(&path, text).await?;
        let read = tokio::fs::read_to_string(&path).await?;
        tokio::fs::remove_file(&path).await?;
        Ok(read)
    }

    #[message]
    async fn spawn_task(&mut self, number: u64) -> u64 {
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            number + 1
        })
        .await
        .unwrap_or(0)
    }

    #[message]
    async fn spawn_blocking(&mut self, number: u64) -> u64 {
        tokio::task::spawn_blocking(move || number + 1).await.unwrap_or(0)
    }

    #[message]
    async fn task_that_panics(&mut self) -> bool {
        tokio::spawn(async { panic!("this panic is meant to be") }).await.is_err()
    }

    #[message]
    fn handle_is_there(&mut self) -> bool {
        Handle::try_current().is_ok()
    }

    #[message]
    fn wait_for_a_task(&mut self, number: u64) -> u64 {
        postroom::block_in_place(|| {
            Handle::current().block_on(async move { tokio::spawn(async move { number + 1 }).await.unwrap_or(0) })
        })
    }
}

#[test]
fn timers_files_tasks_and_blocking_tasks_work_in_methods() -> Outcome {
    let runtime = Runtime::builder().workers(1).tokio().build()?;
    let user = runtime.spawn(User).serve()?;
    assert!(user.handle_is_there().wait()?);
    assert!(user.sleep(Duration::from_millis(5)).wait()?);
    assert!(user.time_out().wait()?);
    let path = std::env::temp_dir().join(format!(
        "postroom-{}-{}",
        std::process::id(),
        user.pid().to_string().replace(['<', '>'], "")
    ));
    assert_eq!(user.write_and_read(path, "some text".into()).wait()?, "some text");
    assert_eq!(user.spawn_task(1).wait()?, 2);
    assert_eq!(user.spawn_blocking(2).wait()?, 3);
    assert!(user.task_that_panics().wait()?);
    assert_eq!(user.wait_for_a_task(3).wait()?, 4);
    Ok(())
}

/// A process that registers a socket in an entry, which runs on the spawner's thread.
#[process]
struct Binder {
    listener: Option<TcpListener>,
}

#[process]
impl Binder {
    #[entry]
    fn bind(&mut self) -> std::io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        self.listener = Some(TcpListener::from_std(listener)?);
        Ok(())
    }

    #[message]
    async fn accept(&mut self) -> std::io::Result<()> {
        if let Some(listener) = &self.listener {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(b"hello").await?;
        }
        Ok(())
    }

    #[message]
    fn place(&mut self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }
}

#[test]
fn a_sync_entry_registers_a_socket_on_whatever_thread_it_runs() -> Outcome {
    let runtime = Runtime::builder().workers(1).tokio().build()?;
    let other = Runtime::builder().workers(1).tokio().build()?;
    for host in [runtime.host(), other.host()] {
        let binder = host.spawn(Binder { listener: None }).bind()?;
        let place = binder.place().wait()?.ok_or("bound")?;
        let accepted = std::thread::spawn(move || binder.accept().timeout(Duration::MAX).wait());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::net::TcpStream::connect(place)?, &mut text)?;
        assert_eq!(text, "hello");
        accepted.join().map_err(|_| "the thread panicked")??;
    }
    Ok(())
}

/// Workers keep falling asleep and waking up: for sockets, timers, messages, tasks, steps that block, and long steps.
/// If an event is lost, one of the clients hangs.
#[test]
fn nothing_is_lost_between_sockets_timers_messages_and_steps_that_block() -> Outcome {
    #[process]
    struct Noise;
    #[process]
    impl Noise {
        #[entry]
        async fn disturb(&mut self, ctx: &mut Context<Self>, number: u64) {
            for round in 0.. {
                let pause = Duration::from_micros(100 * (1 + (number * 7 + round) % 30));
                match (number + round) % 5 {
                    0 => ctx.sleep(pause).await,
                    1 => tokio::time::sleep(pause).await,
                    2 => postroom::block_in_place(|| std::thread::sleep(pause)),
                    3 => _ = tokio::spawn(tokio::task::yield_now()).await,
                    _ => (0..pause.as_micros() as u64 * 10).for_each(|spin| _ = std::hint::black_box(spin)),
                }
            }
        }
    }
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder().workers(workers).tokio().build()?;
        for number in 0..6 {
            let _noise = runtime.spawn(Noise).disturb(number)?;
        }
        let clients = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        clients.block_on(async {
            let address = runtime.block_on(listen(&runtime))?;
            let talks = (0..30_u64).map(|client| async move {
                tokio::time::sleep(Duration::from_millis(client % 7)).await;
                for talk in 0..4 {
                    converse(address, &format!("c{client}-{talk}"), 10).await?;
                    tokio::time::sleep(Duration::from_micros(300 * client)).await;
                }
                Outcome::Ok(())
            });
            let all = futures_util::future::try_join_all(talks);
            tokio::time::timeout(3 * SOON, all).await.map_err(|_| "a client hangs")??;
            Outcome::Ok(())
        })?;
        runtime.shutdown()?;
    }
    Ok(())
}

#[test]
fn a_task_that_never_rests_takes_nothing_from_the_processes() -> Outcome {
    let runtime = Runtime::builder().workers(1).tokio().build()?;
    let user = runtime.spawn(User).serve()?;
    runtime.block_on(async {
        for _ in 0..3 {
            tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
        }
        for number in 0..100 {
            assert_eq!(user.spawn_task(number).await?, number + 1);
            assert!(user.sleep(Duration::from_micros(1)).await?);
        }
        Ok(())
    })
}

#[test]
fn without_a_reactor_the_process_that_asks_for_one_panics_alone() -> Outcome {
    let runtime = Runtime::builder().workers(1).build()?;
    let (user, other) = (runtime.spawn(User).serve()?, runtime.spawn(User).serve()?);
    assert!(!other.handle_is_there().wait()?);
    match user.sleep(Duration::from_millis(1)).wait() {
        Err(CallError::Died(ExitReason::Panic(panic))) => assert!(panic.message.contains("reactor"), "{panic}"),
        other => panic!("{other:?}"),
    }
    assert!(!other.handle_is_there().wait()?);
    Ok(())
}

/// A value that reports its drop.
struct Dropped(mpsc::Sender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _gone = self.0.send(());
    }
}

/// Returns the names of this program's threads that begin with `name`.
fn threads_named(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim_end().to_string()).filter(|thread| thread.starts_with(name)).collect()
}

#[test]
fn the_reactor_ends_with_its_runtime_and_so_do_its_tasks_and_idle_threads() -> Outcome {
    let runtime = Runtime::builder().workers(1).name("rx-end").tokio().build()?;
    let (sender, dropped) = mpsc::channel();
    let user = runtime.spawn(User).serve()?;
    assert_eq!(user.spawn_blocking(2).wait()?, 3);
    runtime.block_on(async {
        // The value is captured, so that it is also dropped if the task is never polled.
        let dropped = Dropped(sender);
        tokio::spawn(async move {
            let _dropped = dropped;
            std::future::pending::<()>().await
        });
        tokio::task::yield_now().await;
    });
    if cfg!(target_os = "linux") {
        // A thread sets its name itself, and stays in the system's list for a moment after it has been joined.
        soon(|| eventually(|| threads_named("rx-end-reactor").len() == 1));
    }
    assert!(!runtime.shutdown()?.was_forced());
    // The shutdown does not wait for a thread that drops the task if that thread gets no CPU time for a long while.
    soon(move || dropped.recv().unwrap());
    soon(|| eventually(|| threads_named("rx-end").is_empty()));
    Ok(())
}

/// A process that needs a socket for its clean-up.
#[process]
struct Tidy {
    address: SocketAddr,
}

#[process]
impl Tidy {
    #[entry]
    async fn until_told(&mut self, ctx: &mut Context<Self>, begun: oneshot::Sender<()>) -> std::io::Result<usize> {
        let told = ctx.cancelled();
        let _heard = begun.send(());
        // This await is in the same step as the line above, so it begins before any signal can arrive.
        told.await;
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"bye").await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await
    }
}

/// Echoes the input of each connection.
async fn echo(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await?;
        stream.write_all(&text).await?;
    }
}

/// Spawns a process whose clean-up needs the reactor of `runtime`. The peer of its socket runs on that reactor, too.
async fn tidy(runtime: &Runtime) -> Result<Running<Tidy, usize, std::io::Error>, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(echo(listener));
    let (begun, has_begun) = oneshot::channel();
    let tidy = runtime.spawn(Tidy { address }).until_told(begun)?;
    has_begun.await?;
    Ok(tidy)
}

#[test]
fn clean_up_at_the_end_may_use_sockets() -> Outcome {
    let runtime = Runtime::builder().workers(1).tokio().build()?;
    let tidy = runtime.block_on(tidy(&runtime))?;
    assert!(!runtime.shutdown()?.was_forced());
    assert_eq!(tidy.wait().map_err(|error| error.to_string())?, 3);
    Ok(())
}

/// Returns a Tokio runtime of each kind.
fn tokio_runtimes() -> std::io::Result<[tokio::runtime::Runtime; 2]> {
    use tokio::runtime::Builder;
    Ok([
        Builder::new_current_thread().enable_all().build()?,
        Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
    ])
}

#[test]
fn a_runtime_lives_in_a_tokio_program_uses_its_reactor_and_ends_without_blocking_it() -> Outcome {
    for tokio in tokio_runtimes()? {
        tokio.block_on(async {
            let runtime = Runtime::builder().workers(2).tokio_handle(Handle::current()).build()?;
            let address = listen(&runtime).await?;
            converse(address, "tokio", 10).await?;
            let user = runtime.spawn(User).serve()?;
            // This job is spawned from a task that may move between threads.
            let task = tokio::spawn(async move { user.spawn_task(1).await });
            assert_eq!(task.await??, 2);
            let tidy = tidy(&runtime).await?;
            let report = runtime.shutdown_async().await?;
            assert_eq!(report.killed, 0, "{report}");
            assert_eq!(tidy.await.map_err(|error| error.to_string())?, 3);
            Outcome::Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_runtime_may_be_made_used_and_dropped_in_async_code_of_either_kind() -> Outcome {
    for tokio in tokio_runtimes()? {
        tokio.block_on(async {
            for own in [false, true] {
                let builder = Runtime::builder().workers(1);
                let runtime = if own { builder.tokio().build()? } else { builder.build()? };
                let user = runtime.spawn(User).serve()?;
                assert_eq!(user.handle_is_there().await?, own);
                assert_eq!(user.handle_is_there().wait()?, own);
                assert_eq!(runtime.block_on(async { user.handle_is_there().await })?, own);
                drop(runtime);
            }
            Outcome::Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn what_a_runtime_runs_with_block_on_finds_that_runtimes_reactor_also_inside_of_another() -> Outcome {
    let (one, other) = (Runtime::builder().workers(1).tokio().build()?, Runtime::builder().workers(1).tokio().build()?);
    let id = |runtime: &Runtime| runtime.block_on(async { Handle::current().id() });
    let (first, second) = (id(&one), id(&other));
    assert_ne!(first, second);
    assert_eq!(one.block_on(async { (id(&other), Handle::current().id()) }), (second, first));
    Ok(())
}

#[test]
fn a_task_on_the_own_reactor_that_drops_its_runtime_begins_the_end_and_is_refused_to_wait_for_it() -> Outcome {
    for with_process in [false, true] {
        let runtime = Arc::new(Runtime::builder().workers(1).tokio().build()?);
        let user = if with_process { Some(runtime.spawn(User).serve()?) } else { None };
        let (sender, ended) = mpsc::channel();
        let task = runtime.block_on(async {
            let theirs = runtime.clone();
            let (go, gone) = oneshot::channel::<()>();
            tokio::spawn(async move {
                let _gone = gone.await;
                if let Some(runtime) = Arc::into_inner(theirs) {
                    let _sent = sender.send(runtime.shutdown());
                }
            });
            go
        });
        drop(runtime);
        drop(task);
        let refused = ended.recv_timeout(SOON)?;
        assert_eq!(refused.map(|report| report.to_string()), Err(ShutdownError::FromInside));
        if let Some(user) = user {
            assert!(user.pid().join().wait_timeout(SOON).is_some());
        }
    }
    Ok(())
}

/// Programs as users write them.
mod programs {
    use super::User;
    use postroom::prelude::*;
    use std::error::Error;
    use std::time::Duration;

    pub(super) mod of_postroom {
        use super::*;

        #[postroom::main(workers = 1)]
        pub(crate) async fn main(runtime: &Runtime) -> Result<(), Box<dyn Error>> {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let user = runtime.spawn(User).serve()?;
            assert_eq!(user.spawn_task(1).await?, 2);
            Ok(())
        }
    }

    pub(super) mod of_tokio {
        use super::*;

        #[tokio::main(flavor = "current_thread")]
        pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
            let handle = tokio::runtime::Handle::current();
            let runtime = Runtime::builder().workers(1).tokio_handle(handle).build()?;
            let user = runtime.spawn(User).serve()?;
            assert_eq!(user.spawn_task(1).await?, 2);
            assert!(!runtime.shutdown_async().await?.was_forced());
            Ok(())
        }
    }

    pub(super) mod of_both {
        use super::*;

        #[tokio::main(flavor = "current_thread")]
        #[postroom::main(workers = 1)]
        pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        }
    }
}

#[test]
fn the_main_of_either_and_of_both_works() -> Outcome {
    programs::of_postroom::main()?;
    programs::of_tokio::main()?;
    programs::of_both::main()
}

#[test]
fn a_process_that_drops_another_runtime_ends_it() -> Outcome {
    #[process]
    struct Holder {
        held: Option<Runtime>,
    }
    #[process]
    impl Holder {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn let_go(&mut self) {
            self.held = None;
        }
    }
    let runtime = Runtime::builder().workers(1).build()?;
    let held = Runtime::builder().workers(1).tokio().build()?;
    let user = held.spawn(User).serve()?;
    let holder = runtime.spawn(Holder { held: Some(held) }).serve()?;
    holder.let_go().wait()?;
    assert!(matches!(user.handle_is_there().wait(), Err(CallError::Shutdown)));
    Ok(())
}
