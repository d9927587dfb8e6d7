//! The plan of one run of a workload, and the outcome of the run.

use std::time::Duration;

/// A workload. The documentation of each variant describes its processes, what one operation is, and its check, which
/// is the number that proves that the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workload {
    /// Two processes pass one ball `size` times. Operation: a pass. Check: balls received by both.
    PingPong,
    /// `width` pairs pass one ball each, with `size` passes in all pairs together. Check: balls received by all.
    PingPongPairs,
    /// A token goes `size` hops around a ring of `width` processes. Operation: a hop. Check: tokens received by all.
    ThreadRing,
    /// One producer process sends `size` numbers 0, 1, 2, … to one consumer, which checks their order. Check: the sum
    /// of the numbers.
    Counting,
    /// `width` producer processes send `size` numbers in all to one consumer. Each producer sends its share as 0, 1, 2,
    /// …, and the consumer checks the order for each producer. Check: the sum of the numbers.
    FanIn,
    /// One process sends `size` messages in all to `width` consumers in turn. Then each consumer reports its count to a
    /// collector. Check: messages received by all.
    FanOut,
    /// A process spawns `size` processes and sends each of them one message, which is its number. Each process reports
    /// the number to a collector and stops. A system may choose to keep at most 10,000 processes alive at once, but
    /// need not. The clock stops when all have stopped. Operation: spawn, message, stop. Check: the sum of the numbers.
    ForkJoinCreate,
    /// Savina's *big*: `width` processes, each of which keeps one ping in flight to a random other one (drawn by a
    /// xorshift generator that is seeded by its number). The other process answers with a pong. There are `size` pings
    /// and pongs in all. Check: pings and pongs received.
    Big,
    /// A process spawns ten children, each of which spawns ten more, down to `size` leaves (a power of ten). Each leaf
    /// sends its number to its parent. Parents send the sums up, and every process stops after its report. Operation: a
    /// leaf. Check: the sum.
    Skynet,
    /// `size` processes with eight bytes of state that wait for messages. Each of them gets one message, counts it and
    /// waits again. Operation: a spawn, which is timed without the messages. `bytes_per_process` is the growth of the
    /// resident set from before the first spawn to after the last message was handled. Check: messages handled.
    IdleMemory,
    /// One process calls another `size` times, one call after the other, and reads a clock around each call for
    /// `Outcome::latencies`. A second run makes the same number of calls without clock reads, and its time is
    /// `elapsed`. Operation: a call with its reply. Check: the sum of the replies, where the callee answers n + 1 to n.
    Ask,
    /// A thread outside sends `size` messages to an idle process, 2 ms apart, so that the system sleeps in between.
    /// Each message carries its send time, and the handler reads the clock. The differences are the `latencies`, and
    /// their sum is `elapsed`. Check: messages handled.
    WakeLatency,
    /// `width` tasks of a Tokio runtime with `workers` threads make `size` calls in all, each task one call after the
    /// other. Task i calls process i modulo [`crate::outside::CALLED`]. Systems on Tokio have their processes in the
    /// same runtime; others have `workers` threads of their own beside it, if that is how their users would do it.
    /// Operation: a call with its reply. Check: the sum of the replies, where the callee answers n + 1 to n.
    AskFromTasks,
    /// `width` tasks as in `AskFromTasks` send `size` messages in all to one process. Each task sends its share as 0,
    /// 1, 2, … The clock stops when the last message has been handled. Check: the sum of the numbers.
    TellFromTasks,
    /// A task as in `AskFromTasks` sends `size` messages to `width` processes in turn. Each message holds a permit of a
    /// semaphore, and the clock stops when all permits are back. It is the benchmark that the author of kameo publishes
    /// (tqwewe/actor-benchmarks). Check: the permits that are back.
    TellInTurn,
    /// A thread that belongs to no runtime calls a process `size` times, one call after the other, and blocks in each.
    /// Operation: a call with its reply. Check: the sum of the replies, where the callee answers n + 1 to n.
    AskFromThread,
    /// An axum service on 127.0.0.1, in a Tokio runtime with `workers` threads. Each of its
    /// [`crate::outside::ACCOUNTS`] accounts is a process, which is placed as in `AskFromTasks`. `width` clients are
    /// tasks of the same runtime and make `size` requests in all, each client over a connection of its own, one request
    /// after the other. A client deposits 0, 1, 2, … to random accounts (`kernel::Random`, seeded by its number). The
    /// handler calls the account, which answers its balance. Operation: a request with its response, whose status is
    /// checked. Check: the sum of all balances at the end.
    Axum,
    /// Like `Axum`, but without processes: an account is a number behind a mutex. It shows what the request itself
    /// takes. For Tokio only.
    AxumMutex,
    /// Savina's nqueens: a master splits the search for all solutions of `width` queens over `4 * workers` worker
    /// processes. A message holds the first rows. If there are at least `kernel::QUEENS_DEPTH` of them, the worker
    /// solves the rest alone. Otherwise it sends each choice of the next row back to the master as new work. Operation:
    /// a solution. Check: the number of solutions.
    NQueens,
    /// A product of two matrices of `width` by `width` f64 (`kernel::matrices`), in blocks of 32 rows. Each block is a
    /// message to one of `4 * workers` worker processes, which sends the result back in another message. Operation: a
    /// block. Check: see `kernel`.
    Matrix,
    /// A source process sends `size` numbers through a pipeline of `width` further processes. Each of those computes
    /// for `work` per message (`kernel::spin`) and passes the number on. Operation: a message at one stage. Check:
    /// messages at the end times stages.
    Pipeline,
    /// Savina's chameneos: `width` creatures meet `size` times at a mall, and change colours by the rules of the game.
    /// Operation: a meeting. Check: the sum of the meetings of all creatures, twice `size`.
    Chameneos,
    /// Savina's philosophers: `width` philosophers eat `size` times in all. One arbiter hands out the forks, and
    /// refuses while a neighbour eats. A refused philosopher asks again. Operation: a meal. Check: meals.
    Philosophers,
    /// Savina's banking: a teller orders `size` transfers of 1 between `width` accounts, each of which starts with
    /// `kernel::OPENING`. Both accounts of a transfer are random, and never the same one (`kernel::Transfers`). The
    /// source account asks the destination to take the money, and notifies the teller after the answer. Operation: a
    /// transfer. Check: transfers done, after which the sum of balances must be unchanged.
    Banking,
    /// Savina's radix sort: `size` numbers of 16 bits (`kernel::numbers`) go through a chain of 16 sorter processes,
    /// one for each bit. A sorter holds back the numbers that have its bit set until all numbers have arrived.
    /// Operation: a number at one sorter. Check: `kernel::sorted_check` of the order at the end.
    RadixSort,
    /// Savina's concurrent dictionary: `width` client processes send `size` requests in all, 10 % of them writes, to
    /// one dictionary process (a hash table, empty at the start). They wait for each answer, which is the current
    /// value, or the one before the write. The keys are random and below `kernel::KEYS`. The seed of a client is its
    /// number, counted from 0 (`kernel::Requests`). Operation: a request. Check: answers.
    Dictionary,
    /// The latency of a message to a waiting process, while nothing else runs. A thread outside sends `size` messages
    /// about a millisecond apart, without waiting for any of them. Each message carries its send time, and the handler
    /// reads the clock. The differences are the `latencies`. `elapsed` is the time from the first send to the end of
    /// the last handling. Operation: such a message. Check: messages handled. This workload, and the loads of those
    /// below, are driven by [`crate::probe`].
    ProbeIdle,
    /// Like `ProbeIdle`, while `width` processes flood each other. At the start, each sends [`crate::probe::IN_FLIGHT`]
    /// messages to random receivers among them. For each message that it gets, it sends another one to a random
    /// receiver.
    ProbeFlood,
    /// Like `ProbeIdle`, while one process per worker repeatedly blocks its thread for `work`, in a system call that it
    /// does not declare as blocking. Between two such calls it lets others have their turn, in the way that its system
    /// provides.
    ProbeBlocking,
    /// Like `ProbeBlocking`, but each process declares the call as blocking in the way that its system provides.
    ProbeTold,
    /// Like `ProbeIdle`, while one process per worker repeatedly loops until `work` has elapsed on the clock.
    ProbeLooping,
    /// Like `ProbeIdle`, while `width` timers fire at the same moment, and again each time that `work` has passed. Each
    /// timer sends a message to one of [`crate::probe::TIMED`] processes.
    ProbeTimers,
}

impl Workload {
    /// Returns true if the workload measures the latency of a message under other load. Such workloads have a table of
    /// their own.
    pub fn is_probe(self) -> bool {
        matches!(
            self,
            Self::ProbeIdle
                | Self::ProbeFlood
                | Self::ProbeBlocking
                | Self::ProbeTold
                | Self::ProbeLooping
                | Self::ProbeTimers
        )
    }
}

/// The way to address a message, in a system that has more than one way. Only Postroom is swept over this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// The typed address of the system.
    Address,
    /// The PID, with any type of message.
    Pid,
    /// The name, looked up for each message.
    Name,
}

/// The way in which the processes are written. Only Postroom is swept over this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Style {
    /// The style in which users of the system write processes. For Postroom this is `#[process]`.
    Natural,
    /// Processes that implement the trait `Process` by hand.
    ByHand,
}

/// The kind of bound that Postroom's mailboxes have. It is for Postroom only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bounding {
    /// The default bound.
    Unasked,
    /// A process that sends beyond the bound is suspended after its step. Without a bound, no process is suspended.
    Soft,
    /// The sender waits in its send.
    Hard,
}

/// The plan of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub workload: Workload,
    /// Number of threads that run processes.
    pub workers: usize,
    /// How much is to be done. Each workload documents what is counted.
    pub size: u64,
    /// The second parameter of the workload, in most cases a number of processes. Each workload documents it.
    pub width: u64,
    /// Number of bytes that each message carries in addition to those of the workload: 0, 32, 256, 512 or 4,096. They
    /// are stored in the message itself (in an array). For `PingPong` and `Counting` only.
    pub payload: usize,
    /// Number of messages that a mailbox holds, or `None` if it has no bound. A system whose bounded send can wait uses
    /// that send.
    pub bound: Option<usize>,
    pub bounding: Bounding,
    pub via: Via,
    pub style: Style,
    /// The time for which each message of `Pipeline` computes. For a probe, the time that one step of its load takes,
    /// or the time between two firings of its timers.
    pub work: Duration,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The time from the first message (or spawn) to the last one handled. It excludes building and ending the runtime.
    pub elapsed: Duration,
    /// Number of operations that were done.
    pub operations: u64,
    /// The number that the workload documents as its check, to be compared with the expected one.
    pub check: u64,
    /// Durations of single operations in nanoseconds. Empty if the workload does not measure them.
    pub latencies: Vec<u64>,
    /// The amount of work that the load of a probe did during the run: messages, steps, or timers that fired.
    pub load: Option<u64>,
    /// The memory of a process, for `IdleMemory` only.
    pub bytes_per_process: Option<f64>,
}
