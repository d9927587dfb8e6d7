//! A job queue: retries with back-off, idempotency keys, and a dead-letter list for jobs that can't be done.
//!
//! ```text
//! cargo run --example job_queue
//! ```
//!
//! ```text
//! client ──submit──▶ queue ──spawns──▶ jobs ──run──▶ workers (a pool) ──deliver──▶ mail server
//! ```
//!
//! Each job sends a mail. The mail server is as unreliable as those on the Internet, and a worker has a bug. Things to
//! look for in the output:
//!
//! * The mail to Grace takes three attempts, because the server is busy twice.
//! * The server accepts the mail to Heidi, but answers too late, so the worker does not know the outcome. The job makes
//!   another attempt, and Heidi still gets one mail: the server recognizes the key of the job.
//! * The mail without an `@` is a poison message: it crashes each worker that gets it. The pool replaces the worker,
//!   and the job gives up after four attempts.
//! * The mail to an unknown address is refused permanently, so it is not retried.
//! * The client submits Ada's mail twice. The queue recognizes the key, and does the job once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::panic;
use std::time::Duration;

use postroom::prelude::*;
use tokio::runtime::Handle;

/// Maximum number of open jobs.
const OPEN: usize = 1_000;

/// Number of attempts after which a job is dead.
const ATTEMPTS: u32 = 4;

/// Delay before the second attempt. It doubles with each further attempt.
const BACKOFF: Duration = Duration::from_secs(1);

/// Time limit for the mail server's answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The idempotency key of a job, chosen by its client.
type Key = u64;

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("the server is busy")]
    Busy,
    #[error("no such mailbox")]
    NoSuchMailbox,
}

/// A stand-in for a server on the Internet.
#[process]
#[derive(Default)]
struct MailServer {
    requests: HashMap<Key, u32>,
    accepted: HashSet<Key>,
    unanswered: Vec<Reply<Result<(), MailError>>>,
}

#[process]
impl MailServer {
    #[entry]
    fn serve(&mut self) {}

    /// Sends a mail. Idempotent: one mail is sent for each key.
    #[message]
    fn deliver(&mut self, key: Key, to: String, reply: Reply<Result<(), MailError>>) {
        let requests = self.requests.entry(key).or_default();
        *requests += 1;
        match (to.split('@').next(), *requests) {
            (Some("unknown"), _) => return reply.send(Err(MailError::NoSuchMailbox)),
            (Some("grace"), 1..=2) => return reply.send(Err(MailError::Busy)),
            (Some("heidi"), 1) => self.unanswered.push(reply),
            _ => reply.send(Ok(())),
        }
        self.accepted.insert(key);
    }

    #[message]
    fn sent(&self) -> usize {
        self.accepted.len()
    }
}

#[process]
struct Worker {
    server: Address<MailServer>,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn run(&mut self, key: Key, to: String) -> Result<(), CallError<MailError>> {
        // The bug: bad input should be an error, not a panic.
        let (_user, _domain) = to.split_once('@').expect("an address contains an @");
        self.server.deliver(key, to).timeout(LIMIT).await
    }
}

/// One job, until it is done or dead.
#[process]
struct Job {
    workers: Address<Worker>,
}

#[derive(Debug, thiserror::Error)]
#[error("{reason} (attempts: {attempts})")]
struct Dead {
    attempts: u32,
    reason: CallError<CallError<MailError>>,
}

#[process]
impl Job {
    /// Returns the number of attempts. A failed attempt may have sent the mail; the key makes another attempt safe.
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, key: Key, to: String) -> Result<u32, Dead> {
        let mut attempts = 0;
        loop {
            // The worker itself has a limit, which does not include the time that the job waits for a worker.
            match self.workers.run(key, to.clone()).timeout(Duration::MAX).await {
                Ok(()) => return Ok(attempts + 1),
                // This failure does not count as an attempt: the pool is full, or is being restarted.
                Err(error) if error.is_retryable() => {}
                Err(reason) => {
                    attempts += 1;
                    let is_final = matches!(reason, CallError::Failed(CallError::Failed(MailError::NoSuchMailbox)));
                    if is_final || attempts == ATTEMPTS {
                        return Err(Dead { attempts, reason });
                    }
                }
            }
            ctx.sleep(BACKOFF * 2_u32.pow(attempts.saturating_sub(1))).await;
        }
    }
}

#[derive(Debug)]
enum Submitted {
    Accepted,
    /// A job with this key already exists.
    Known,
}

#[derive(Debug, thiserror::Error)]
#[error("the queue accepts no jobs now")]
struct Refused;

/// A real queue would write its jobs to a database before it accepts them, and start the open ones in its entry.
#[process]
struct Queue {
    workers: Address<Worker>,
    open: HashSet<Key>,
    /// The number of attempts that each job took.
    done: BTreeMap<Key, u32>,
    dead: BTreeMap<Key, String>,
}

#[process]
impl Queue {
    fn new(workers: Address<Worker>) -> Self {
        Self { workers, open: HashSet::new(), done: BTreeMap::new(), dead: BTreeMap::new() }
    }

    #[entry]
    fn serve(&mut self) {}

    /// Submits a job. Idempotent: a client that gets no answer repeats the call with the same key.
    #[message]
    fn submit(&mut self, ctx: &mut Context<Self>, key: Key, to: String) -> Result<Submitted, Refused> {
        if self.open.contains(&key) || self.done.contains_key(&key) || self.dead.contains_key(&key) {
            return Ok(Submitted::Known);
        }
        if self.open.len() == OPEN {
            return Err(Refused);
        }
        let job = ctx.spawn(Job { workers: self.workers }).owned().run(key, to).map_err(|_| Refused)?;
        self.open.insert(key);
        ctx.run(job.into_future()).then(move |this, outcome, _| {
            this.open.remove(&key);
            match outcome {
                Ok(attempts) => _ = this.done.insert(key, attempts),
                Err(error) => _ = this.dead.insert(key, error.to_string()),
            }
        });
        Ok(Submitted::Accepted)
    }

    #[message]
    fn done(&self) -> BTreeMap<Key, u32> {
        self.done.clone()
    }

    /// Returns the jobs that need someone's attention.
    #[message]
    fn dead_letters(&self) -> BTreeMap<Key, String> {
        self.dead.clone()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The reason for each crash is in the dead-letter list. Without this hook, it would also be on standard error.
    panic::set_hook(Box::new(|_| {}));

    // With a virtual clock the pauses take no time. A service would use the real one.
    let clock = Clock::manual();
    let runtime = Runtime::builder().on_tokio(Handle::current()).clock(clock.clone()).build()?;
    let tree = Supervisor::one_for_one()
        .child("mail server", |spawn| spawn.of(MailServer::default()).serve())
        .child("workers", |spawn| {
            let server = spawn.sibling("mail server")?;
            // Poison messages must not end the pool, so the number of restarts has no limit.
            let pool = Pool::fixed(3).intensity(u32::MAX, Duration::MAX);
            pool.spawn(spawn, move |spawn| spawn.of(Worker { server }).serve())
        })
        .child("queue", |spawn| {
            let workers = spawn.sibling("workers")?;
            spawn.of(Queue::new(workers)).serve()
        })
        .spawn(&runtime)?;
    let queue: Address<Queue> = tree.child("queue")?;

    for (key, to) in [
        (1, "ada@example.org"),
        (2, "grace@example.org"),
        (3, "heidi@example.org"),
        (4, "no address"),
        (5, "unknown@example.org"),
        (1, "ada@example.org"),
    ] {
        println!("job {key}, to {to}: {:?}", queue.submit(key, to.to_string()).await?);
    }
    clock.advance(Duration::from_secs(60))?;

    for (key, attempts) in queue.done().await? {
        println!("job {key} is done (attempts: {attempts})");
    }
    for (key, reason) in queue.dead_letters().await? {
        println!("job {key} is dead: {reason}");
    }
    let server: Address<MailServer> = tree.child("mail server")?;
    println!("mails sent: {}", server.sent().await?);
    println!("clean shutdown: {}", runtime.drain_async(Duration::from_secs(10)).await?.is_clean());
    Ok(())
}
